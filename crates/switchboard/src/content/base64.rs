//! Checks, measures and decodes the base64 data of servers.
//!
//! The crate `base64` decodes. Checking and measuring are implemented here, because images and
//! audio are passed on as base64, and decoding megabytes only to check and measure them would be a
//! waste.

use std::borrow::Cow;

use base64::Engine as _;
use base64::alphabet;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};

/// Computes the size of the decoded data in bytes, without decoding. Assumes valid base64.
pub(crate) fn decoded_len(data: &str) -> usize {
    data.trim_end_matches('=').len() * 3 / 4
}

/// Whether the text contains only characters of the standard or the URL-safe base64 alphabet, and
/// at most two `=` at the end. Other data must not become part of a conversation, because a model
/// provider may reject every further request of that conversation.
pub(super) fn is_base64(data: &str) -> bool {
    let is_digit =
        |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'/' | b'-' | b'_');
    let digits = data.trim_end_matches('=');
    data.len() - digits.len() <= 2 && digits.bytes().all(is_digit)
}

/// Decodes base64 in the standard or the URL-safe alphabet. Padding is optional, and white space is
/// ignored. Returns `None` if the text is not valid base64.
pub fn decode_base64(text: &str) -> Option<Vec<u8>> {
    const CONFIG: GeneralPurposeConfig =
        GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent);
    const STANDARD: GeneralPurpose = GeneralPurpose::new(&alphabet::STANDARD, CONFIG);
    const URL_SAFE: GeneralPurpose = GeneralPurpose::new(&alphabet::URL_SAFE, CONFIG);
    let engine = if text.contains(['-', '_']) {
        URL_SAFE
    } else {
        STANDARD
    };
    let is_white_space = |character: char| character.is_ascii_whitespace();
    let digits = if text.contains(is_white_space) {
        Cow::Owned(text.replace(is_white_space, ""))
    } else {
        Cow::Borrowed(text)
    };
    engine.decode(digits.as_bytes()).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_alphabets_decode_with_or_without_padding_and_line_ends() {
        for text in ["+/+/aGk=", "-_-_aGk", "+/+/\r\naGk", "+/+/aGk"] {
            assert_eq!(decode_base64(text).unwrap(), b"\xfb\xff\xbfhi", "{text:?}");
        }
        for text in ["a", "aGk=aGk=", "+_aa", "ä"] {
            assert_eq!(decode_base64(text), None, "{text:?}");
        }
    }
}
