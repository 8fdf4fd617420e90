//! Text from servers and files: sanitising and truncation.
//!
//! [`sanitize`] removes escape sequences and invisible characters, [`fit`] shortens,
//! [`one_line`] does both for a field of one line, [`quote_for_shell`] quotes a word of a command. None
//! of them judges the meaning of a text.

mod printable;
mod sanitize;
mod shell;
mod truncate;

use std::borrow::Cow;

pub use printable::{replace_control_chars, sanitize_name};
pub use sanitize::{for_terminal, sanitize};
pub use shell::quote_for_shell;
pub use truncate::{fit, truncate_marked};

/// Sanitises text for a field of one line. Text longer than `max_bytes` is truncated and ends
/// with `…`.
#[inline]
pub fn one_line(text: &str, max_bytes: usize) -> Cow<'_, str> {
    let line = for_terminal(text);
    if line.len() <= max_bytes {
        return line;
    }
    Cow::Owned(format!("{}…", fit(&line, max_bytes)))
}

/// Whether the text is an HTTP token (RFC 9110, section 5.6.2), as header names are.
#[doc(hidden)]
pub fn is_http_token(text: &str) -> bool {
    let is_token_byte =
        |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
    !text.is_empty() && text.bytes().all(is_token_byte)
}
