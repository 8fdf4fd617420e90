//! Text from servers: removing what hides or controls, and truncation.

mod printable;
mod sanitize;
mod truncate;

use std::borrow::Cow;

pub use printable::{replace_control_chars, sanitize_name};
pub use sanitize::{for_terminal, sanitize};
pub use truncate::fit;

/// Returns server text for a place of one line: sanitised, and truncated with `…` if it is longer
/// than `max_bytes`.
#[inline]
pub fn one_line(text: &str, max_bytes: usize) -> Cow<'_, str> {
    let line = for_terminal(text);
    if line.len() <= max_bytes {
        return line;
    }
    Cow::Owned(format!("{}…", fit(&line, max_bytes)))
}
