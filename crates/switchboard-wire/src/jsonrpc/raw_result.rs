//! The text of a result, as the reader passes it to the caller.

use bytes::Bytes;

use super::InvalidMessage;
use crate::mcp::Json;
use crate::memory_budget::MemoryPermit;
use crate::scan::{self, ObjectIndex};

/// The `result` of a response, not decoded.
#[derive(Debug)]
pub struct RawResult {
    /// The JSON text.
    pub text: Bytes,
    index: ObjectIndex,
    /// Returns the memory to the budget when the result is dropped, after decoding.
    _permit: Option<MemoryPermit>,
}

impl RawResult {
    /// Pairs the text with the index that the scanner made of it.
    #[inline]
    pub fn new(text: Bytes, index: ObjectIndex, permit: Option<MemoryPermit>) -> Self {
        Self {
            text,
            index,
            _permit: permit,
        }
    }

    /// Returns the whole result as JSON. Fails if it is not an object in UTF-8.
    pub fn to_json(&self) -> Result<Json, InvalidMessage> {
        self.members(|_, _| {})?;
        let json = self.json(&self.text);
        json.ok_or_else(|| InvalidMessage::malformed("the result is not UTF-8"))
    }

    /// Visits the members of the result.
    pub(crate) fn members<'a>(
        &'a self,
        mut visit: impl FnMut(&[u8], &'a [u8]),
    ) -> Result<(), InvalidMessage> {
        self.index
            .members(&self.text, |key, value| visit(&key, value))
            .map_err(|_| InvalidMessage::malformed("the result is not an object"))
    }

    /// Returns an object inside the result as a separate result. `value` must be a slice of the
    /// text.
    pub(crate) fn nested(&self, value: &[u8]) -> Option<Self> {
        let range = scan::range_of(&self.text, value);
        (range.start <= range.end && range.end <= self.text.len()).then(|| Self {
            text: self.text.slice(range),
            index: ObjectIndex::without_members(self.index.is_valid_json),
            _permit: None,
        })
    }

    /// Stores a value inside the result as JSON. `value` must be a slice of the text.
    pub(crate) fn json(&self, value: &[u8]) -> Option<Json> {
        if self.index.is_valid_json {
            Json::from_scanned(&self.text, value)
        } else {
            Json::parse_bytes(value)
        }
    }
}
