//! Ids of responses and of a server's requests.

/// The id of a response. Our requests have integer ids, and an id matches only if it is written
/// exactly as we send it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ResponseId {
    /// An unsigned integer: the id of one of our requests, if it is in use.
    Number(u64),
    /// `null`: the server could not read the id of the request.
    Null,
    /// Anything else: not the id of one of our requests.
    Unknown,
}

impl ResponseId {
    /// Parses the JSON text of an id. `1.0`, `01` and `"1"` are not the number 1.
    #[inline]
    pub fn parse(token: &[u8]) -> Self {
        if token == b"null" {
            return Self::Null;
        }
        let has_leading_zero = token.len() > 1 && token.starts_with(b"0");
        let value = token.iter().try_fold(0_u64, |value, byte| {
            let digit = byte.checked_sub(b'0').filter(|digit| *digit < 10)?;
            value.checked_mul(10)?.checked_add(digit.into())
        });
        match value {
            Some(id) if !has_leading_zero && !token.is_empty() => Self::Number(id),
            _ => Self::Unknown,
        }
    }
}

/// The id of a server's request: JSON text, sent back unchanged.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct RequestId(Box<str>);

impl RequestId {
    /// Requests with longer ids are rejected.
    const MAX_BYTES: usize = 1024;

    /// Accepts an integer or a string.
    pub(super) fn parse(token: &[u8]) -> Option<Self> {
        let text = std::str::from_utf8(token).ok()?;
        let is_string = text.starts_with('"') && serde_json::from_str::<String>(text).is_ok();
        let is_integer = text
            .parse::<i128>()
            .is_ok_and(|number| number.to_string() == text);
        ((is_string || is_integer) && text.len() <= Self::MAX_BYTES).then(|| Self(text.into()))
    }

    /// The id as the server wrote it.
    pub fn as_json(&self) -> &str {
        &self.0
    }
}
