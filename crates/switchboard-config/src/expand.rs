//! `${VAR}` and `${VAR:-default}` in the values of an entry.
//!
//! Expansion happens once: what a variable holds is never expanded again. Everything that is not
//! exactly one of the two forms stays as written, `$VAR`, `$$` and an unclosed `${` included.
//! The variables are asked from an [`Environment`]; nothing here reads the process's own.

use std::collections::HashMap;
use std::hash::BuildHasher;

use thiserror::Error;

/// What one expanded value may hold at most. A program's whole command line is not longer, and a file
/// that nobody approved yet must not fill the memory by repeating a long variable.
pub(crate) const MAX_EXPANDED: usize = 256 * 1024;

/// Where variables are looked up.
pub trait Environment {
    /// The value of `name`, or `None` when it is not set. A variable that is set but empty is set.
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
    /// The variable is not set and no default was written.
    #[error("variable {name} is not set")]
    Unset {
        /// The variable's name.
        name: String,
    },
    /// The result would be longer than any program takes.
    #[error("the value expands to more than {MAX_EXPANDED} bytes")]
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
    for piece in pieces(text) {
        match piece {
            Piece::Literal(literal) => expanded.push_str(literal),
            Piece::Reference { name, default, .. } => {
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

/// Whether `text` consists of references alone, so that showing it as written shows no literal value.
pub(crate) fn is_only_references(text: &str) -> bool {
    !text.is_empty() && pieces(text).all(|piece| piece.is_plain_reference())
}

/// A part of a text: as it stands, or to be replaced.
pub(crate) enum Piece<'a> {
    Literal(&'a str),
    Reference {
        written: &'a str,
        name: &'a str,
        default: Option<&'a str>,
    },
}

impl<'a> Piece<'a> {
    pub(crate) fn written(&self) -> &'a str {
        match self {
            Self::Literal(written) | Self::Reference { written, .. } => written,
        }
    }

    /// A reference that holds no literal value itself: a default is one.
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

/// The parts of `text` in their order; joined as written they give `text` again.
pub(crate) fn pieces(text: &str) -> impl Iterator<Item = Piece<'_>> {
    // Behind the last `}` no reference can be closed; not looking there keeps the search linear.
    let closed = text.rfind('}').map_or(0, |index| index + 1);
    let (mut rest, unclosed) = text.split_at(closed);
    let references = std::iter::from_fn(move || {
        if rest.is_empty() {
            return None;
        }
        let (piece, after) = next_piece(rest);
        rest = after;
        Some(piece)
    });
    let tail = (!unclosed.is_empty()).then_some(Piece::Literal(unclosed));
    references.chain(tail)
}

fn next_piece(text: &str) -> (Piece<'_>, &str) {
    if let Some(found) = parse_reference(text) {
        return found;
    }
    // A `${` at the very start is not a reference: the next one is looked for behind it.
    let skipped = if text.starts_with("${") { 2 } else { 0 };
    let end = text
        .get(skipped..)
        .and_then(|behind| behind.find("${"))
        .map_or(text.len(), |found| skipped + found);
    let (literal, after) = text.split_at(end);
    (Piece::Literal(literal), after)
}

/// A reference at the very start of `text`, and what follows it.
fn parse_reference(text: &str) -> Option<(Piece<'_>, &str)> {
    let inner = text.strip_prefix("${")?;
    let (name, behind) = inner.split_at(name_length(inner)?);
    let (default, after) = match behind.strip_prefix(":-") {
        Some(behind) => {
            let (default, after) = behind.split_once('}')?;
            (Some(default), after)
        }
        None => (None, behind.strip_prefix('}')?),
    };
    let written = text.get(..text.len() - after.len())?;
    let reference = Piece::Reference {
        written,
        name,
        default,
    };
    Some((reference, after))
}

/// The length of the variable's name that `text` begins with.
fn name_length(text: &str) -> Option<usize> {
    let first = text.chars().next()?;
    if !(first.is_ascii_alphabetic() || first == '_') {
        return None;
    }
    let end = text.find(|c: char| !(c.is_ascii_alphanumeric() || c == '_'));
    Some(end.unwrap_or(text.len()))
}
