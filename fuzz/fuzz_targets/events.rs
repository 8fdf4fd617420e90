//! Server-sent events do not depend on how the stream is split, and the buffer stays within the
//! limit.
//!
//! Input: the limit, the sizes of the pieces and their number, then the stream.

#![no_main]

use libfuzzer_sys::fuzz_target;
use switchboard::fuzzing::{SentEvent, sent_events};

/// Allowance for a field other than data, such as an id, that is still incomplete.
const SHORT_FIELD: usize = 2 * 1024;

fuzz_target!(|input: (u8, Vec<u8>, &[u8])| {
    let (limit, sizes, stream) = input;
    let limit = usize::from(limit);
    let at_once = sent_events([stream], limit);
    let in_pieces = sent_events(pieces(stream, &sizes), limit);

    assert_eq!(at_once.events, in_pieces.events);
    assert_eq!(at_once.is_endless, in_pieces.is_endless);
    assert_eq!(at_once.last_id, in_pieces.last_id);
    assert!(in_pieces.most_held <= limit + SHORT_FIELD, "{in_pieces:?}");
    for event in &at_once.events {
        match event {
            SentEvent::Complete { data, .. } => assert!(data.len() <= limit),
            SentEvent::Retry(millis) => assert!(*millis <= 60 * 60 * 1000),
            SentEvent::TooLong(_) => assert!(stream.len() > limit),
        }
    }
});

/// Splits the stream into pieces of these sizes, repeated as needed.
fn pieces<'a>(mut stream: &'a [u8], sizes: &[u8]) -> Vec<&'a [u8]> {
    let mut sizes = sizes.iter().map(|size| usize::from(*size) + 1).cycle();
    let mut pieces = Vec::new();
    while !stream.is_empty() {
        let size = sizes.next().unwrap_or(stream.len()).min(stream.len());
        let (piece, rest) = stream.split_at(size);
        pieces.push(piece);
        stream = rest;
    }
    pieces
}
