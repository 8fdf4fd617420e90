//! Expands `${VAR}` and `${VAR:-default}` in the values of an entry.
//!
//! The value of a variable is not expanded again. Text that is not exactly one of the two forms
//! stays as written, such as `$VAR`, `$$` and an unclosed `${`. Variables come from an
//! [`Environment`]; this module does not read the environment of the process.

use std::collections::HashMap;
use std::hash::BuildHasher;

use thiserror::Error;

/// Maximum size of an expanded value in bytes. Without a limit, an unapproved file could exhaust
/// memory by repeating a reference to a long variable.
pub(crate) const MAX_EXPANDED: usize = 256 * 1024;

/// Looks up variables.
pub trait Environment {
    /// The value of `name`; `None` if it is not set. An empty value counts as set.
    fn variable(&self, name: &str) -> Option<String>;
}

impl<S: BuildHasher> Environment for HashMap<String, String, S> {
    fn variable(&self, name: &str) -> Option<String> {
        self.get(name).cloned()
    }
}

impl<F: Fn(&str) -> Option<String>> Environment for F {
    fn variable(&self, name: &str) -> Option<String> {
        self(name)
    }
}

/// Why a text could not be expanded.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum ExpandError {
    /// The variable is not set and has no default.
    #[error("variable {name} is not set")]
    Unset {
        /// The variable's name.
        name: String,
    },
    /// The expanded value is too long.
    #[error("expanded value exceeds {MAX_EXPANDED} bytes")]
    TooLong,
}

/// Replaces each `${VAR}` and `${VAR:-default}` in `text`.
///
/// ```
/// use std::collections::HashMap;
/// use switchboard_config::expand;
///
/// let environment = HashMap::from([("USER".to_owned(), "ada".to_owned())]);
/// let text = "${USER}@${HOST:-localhost} $USER";
/// assert_eq!(expand(text, &environment).as_deref(), Ok("ada@localhost $USER"));
/// ```
pub fn expand(text: &str, environment: &dyn Environment) -> Result<String, ExpandError> {
    let mut expanded = String::new();
    for segment in segments(text) {
        match segment {
            Segment::Literal(literal) => expanded.push_str(literal),
            Segment::Reference { name, default, .. } => {
                let value = environment
                    .variable(name)
                    .or_else(|| default.map(str::to_owned))
                    .ok_or_else(|| ExpandError::Unset {
                        name: name.to_owned(),
                    })?;
                expanded.push_str(&value);
                if expanded.len() > MAX_EXPANDED {
                    return Err(ExpandError::TooLong);
                }
            }
        }
    }
    Ok(expanded)
}

/// Returns true if `text` consists only of references whose default is missing or empty, so that it
/// contains no literal value.
pub(crate) fn is_reference_only(text: &str) -> bool {
    !text.is_empty() && segments(text).all(|segment| segment.is_plain_reference())
}

/// A part of a text: a literal or a reference.
pub(crate) enum Segment<'a> {
    Literal(&'a str),
    Reference {
        written: &'a str,
        name: &'a str,
        default: Option<&'a str>,
    },
}

impl<'a> Segment<'a> {
    pub(crate) fn written(&self) -> &'a str {
        match self {
            Self::Literal(written) | Self::Reference { written, .. } => written,
        }
    }

    /// Returns true for a reference whose default is missing or empty. Any other default is a
    /// literal value.
    pub(crate) fn is_plain_reference(&self) -> bool {
        matches!(
            self,
            Self::Reference {
                default: None | Some(""),
                ..
            }
        )
    }
}

/// Splits `text` into segments. Concatenating their `written` parts gives `text`.
pub(crate) fn segments(text: &str) -> impl Iterator<Item = Segment<'_>> {
    // No reference can close after the last `}`; stopping there keeps the scan linear.
    let closed = text.rfind('}').map_or(0, |index| index + 1);
    let (mut rest, unclosed) = text.split_at(closed);
    let references = std::iter::from_fn(move || {
        if rest.is_empty() {
            return None;
        }
        let (segment, after) = next_segment(rest);
        rest = after;
        Some(segment)
    });
    let tail = (!unclosed.is_empty()).then_some(Segment::Literal(unclosed));
    references.chain(tail)
}

fn next_segment(text: &str) -> (Segment<'_>, &str) {
    if let Some(found) = parse_reference(text) {
        return found;
    }
    // A `${` at the start is not a reference here, so search for the next one after it.
    let skipped = if text.starts_with("${") { 2 } else { 0 };
    let end = text
        .get(skipped..)
        .and_then(|after| after.find("${"))
        .map_or(text.len(), |found| skipped + found);
    let (literal, after) = text.split_at(end);
    (Segment::Literal(literal), after)
}

/// Parses a reference at the start of `text`. Returns the reference and the rest of the text.
fn parse_reference(text: &str) -> Option<(Segment<'_>, &str)> {
    let inner = text.strip_prefix("${")?;
    let (name, rest) = inner.split_at(name_length(inner)?);
    let (default, after) = match rest.strip_prefix(":-") {
        Some(rest) => {
            let (default, after) = rest.split_once('}')?;
            (Some(default), after)
        }
        None => (None, rest.strip_prefix('}')?),
    };
    let written = text.get(..text.len() - after.len())?;
    let reference = Segment::Reference {
        written,
        name,
        default,
    };
    Some((reference, after))
}

/// Length of the variable name at the start of `text`.
fn name_length(text: &str) -> Option<usize> {
    let first = text.chars().next()?;
    if !(first.is_ascii_alphabetic() || first == '_') {
        return None;
    }
    let end = text.find(|c: char| !(c.is_ascii_alphanumeric() || c == '_'));
    Some(end.unwrap_or(text.len()))
}
