//! Why a tool could not do what it was asked for, as a handler says it.

use std::fmt;

use crate::mcp::{CallToolResult, ContentBlock};

/// What a handler returns.
pub type ToolResult<T> = Result<T, ToolError>;

/// A failure that the model is shown: the result of the call, with `isError`.
///
/// Anything that can be displayed becomes one, by `?` or `.into()`: errors, `&str`, `String`. Errors
/// with causes that show them in the alternate form (`{:#}`) are shown with them.
///
/// For that, it is not an error itself and has no `Display`.
///
/// ```
/// use switchboard::{ToolError, ToolResult};
///
/// fn half(text: &str) -> ToolResult<i64> {
///     let number: i64 = text.parse()?;
///     if number % 2 != 0 {
///         return Err(format!("{number} is odd").into());
///     }
///     Ok(number / 2)
/// }
/// assert_eq!(half("7").unwrap_err().to_text(), "7 is odd");
/// ```
#[derive(Clone, PartialEq)]
pub struct ToolError {
    content: Vec<ContentBlock>,
}

impl ToolError {
    /// A failure in words.
    pub fn new(text: impl Into<String>) -> Self {
        Self {
            content: vec![ContentBlock::text(text)],
        }
    }

    /// A failure that is more than words: a picture of what went wrong, a link to the log.
    pub fn with_content(blocks: impl IntoIterator<Item = ContentBlock>) -> Self {
        Self {
            content: blocks.into_iter().collect(),
        }
    }

    /// Its words, line by line.
    pub fn to_text(&self) -> String {
        let words = self.content.iter().filter_map(|block| match block {
            ContentBlock::Text(text) => Some(text.text.as_str()),
            _ => None,
        });
        words.collect::<Vec<_>>().join("\n")
    }
}

impl<E: fmt::Display> From<E> for ToolError {
    fn from(error: E) -> Self {
        Self::new(format!("{error:#}"))
    }
}

impl From<ToolError> for CallToolResult {
    fn from(error: ToolError) -> Self {
        Self {
            content: error.content,
            is_error: true,
            ..Self::default()
        }
    }
}

impl fmt::Debug for ToolError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("ToolError").field(&self.to_text()).finish()
    }
}
