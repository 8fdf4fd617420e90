//! Server-sent events do not depend on how the stream is split, and the buffer stays within the
//! limit.
//!
//! Input: the limit, the sizes of the pieces, then the stream.

#![no_main]

use libfuzzer_sys::fuzz_target;
use switchboard_fuzz::{ParsedEvent, parse_events, pieces};

/// Allowance for a field other than data, such as an id, that is still incomplete.
const SHORT_FIELD: usize = 2 * 1024;

fuzz_target!(|input: (u8, Vec<u8>, &[u8])| {
    let (limit, sizes, stream) = input;
    let limit = usize::from(limit);
    let at_once = parse_events([stream], limit);
    let in_pieces = parse_events(pieces(stream, &sizes), limit);

    assert_eq!(at_once.events, in_pieces.events);
    assert_eq!(at_once.is_unterminated, in_pieces.is_unterminated);
    assert_eq!(at_once.last_id, in_pieces.last_id);
    assert!(
        in_pieces.max_held_bytes <= limit + SHORT_FIELD,
        "{in_pieces:?}"
    );
    for event in &at_once.events {
        match event {
            ParsedEvent::Complete { data, .. } => assert!(data.len() <= limit),
            ParsedEvent::Retry(millis) => assert!(*millis <= 60 * 60 * 1000),
            ParsedEvent::TooLong(_) => assert!(stream.len() > limit),
        }
    }
});
