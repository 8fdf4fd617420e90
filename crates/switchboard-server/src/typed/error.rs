//! `ToolError`: the error that the handler of a tool, resource or prompt returns.

use std::fmt;

use switchboard_wire::mcp::{CallToolResult, ContentBlock};

/// The return type of the handlers of tools, resources and prompts.
pub type ToolResult<T> = Result<T, ToolError>;

/// An error of a handler. For a tool, the call gets a result with `isError`, which the model sees.
/// For a resource or prompt, the request fails with a JSON-RPC error.
///
/// Every type with `Display` converts into a `ToolError`, by `?` or `.into()`: errors, `&str`,
/// `String`. The conversion formats the value with `{:#}`, which makes some error types include
/// their causes.
///
/// `ToolError` itself implements neither `Error` nor `Display`, because that would conflict with
/// this conversion.
///
/// ```
/// use switchboard_server::{ToolError, ToolResult};
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
    /// An error with one text block.
    pub fn new(text: impl Into<String>) -> Self {
        Self {
            content: vec![ContentBlock::text(text)],
        }
    }

    /// An error with these content blocks, such as a screenshot or a link to a log.
    pub fn with_content(blocks: impl IntoIterator<Item = ContentBlock>) -> Self {
        Self {
            content: blocks.into_iter().collect(),
        }
    }

    /// The text blocks of the error, joined by newlines. Other blocks are left out.
    pub fn to_text(&self) -> String {
        let texts = self.content.iter().filter_map(|block| match block {
            ContentBlock::Text(text) => Some(text.text.as_str()),
            _ => None,
        });
        texts.collect::<Vec<_>>().join("\n")
    }
}

impl<E: fmt::Display> From<E> for ToolError {
    fn from(error: E) -> Self {
        Self::new(format!("{error:#}"))
    }
}

impl From<ToolError> for CallToolResult {
    fn from(error: ToolError) -> Self {
        let mut result = Self::new(error.content);
        result.is_error = true;
        result
    }
}

impl fmt::Debug for ToolError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("ToolError").field(&self.to_text()).finish()
    }
}
