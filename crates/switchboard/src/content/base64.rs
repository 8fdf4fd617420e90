//! Base64 data of servers: size, check and decoding.

use base64::Engine as _;
use base64::alphabet;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};

/// The size of the decoded data in bytes. Assumes valid base64.
pub(crate) fn decoded_len(data: &str) -> usize {
    data.trim_end_matches('=').len() * 3 / 4
}

/// Whether all characters are base64 digits of either alphabet. Data that a model provider would
/// reject must not become part of a conversation.
pub(super) fn is_base64(data: &str) -> bool {
    let is_digit =
        |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'/' | b'-' | b'_');
    let digits = data.trim_end_matches('=');
    data.len() - digits.len() <= 2 && digits.bytes().all(is_digit)
}

/// Decodes base64 of either alphabet, with or without padding and line ends. Returns `None` for
/// other texts.
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
    if !text.contains(|character: char| character.is_ascii_whitespace()) {
        return engine.decode(text).ok();
    }
    let mut digits = text.to_owned();
    digits.retain(|character| !character.is_ascii_whitespace());
    engine.decode(digits).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_spellings_of_base64_are_decoded() {
        for text in ["+/+/aGk=", "-_-_aGk", "+/+/\r\naGk", "+/+/aGk"] {
            assert_eq!(decode_base64(text).unwrap(), b"\xfb\xff\xbfhi", "{text:?}");
        }
        for text in ["a", "aGk=aGk=", "+_aa", "ä"] {
            assert_eq!(decode_base64(text), None, "{text:?}");
        }
    }
}
