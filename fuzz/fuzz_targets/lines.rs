//! Lines do not depend on how the stream is split, and the line reader stays within its limit.
//!
//! Input: the limit, the sizes of the pieces, then the stream.

#![no_main]

use libfuzzer_sys::fuzz_target;
use switchboard_fuzz::{SplitLine, SplitStream, pieces, split_lines};

/// Buffer space that the reader reserves per read. The maximum capacity that is asserted leaves
/// room for a buffer that doubles when it grows.
const READ_CHUNK: usize = 64 * 1024;

fuzz_target!(|input: (u8, Vec<u8>, &[u8])| {
    let (limit, sizes, stream) = input;
    let limit = usize::from(limit);
    let at_once = split_lines([stream], limit);
    let in_pieces = split_lines(pieces(stream, &sizes), limit);

    check_lines(&at_once, stream, limit);
    if in_pieces.is_unterminated {
        assert!(at_once.lines.starts_with(&in_pieces.lines));
    } else {
        assert!(at_once.is_unterminated || at_once.lines == in_pieces.lines);
    }
    assert!(in_pieces.max_held_bytes <= limit, "{in_pieces:?}");
    assert!(
        in_pieces.max_buffer_bytes <= 4 * (limit + READ_CHUNK),
        "{in_pieces:?}"
    );
});

/// Asserts that each complete line equals that line of the stream and is within the limit, and that
/// each line that is reported as too long exceeds the limit.
fn check_lines(split: &SplitStream, stream: &[u8], limit: usize) {
    let expected = stream.split(|byte| *byte == b'\n');
    for (line, expected) in split.lines.iter().zip(expected) {
        match line {
            SplitLine::Complete(line) => assert!(line == expected && line.len() <= limit),
            SplitLine::TooLong(_) => assert!(expected.len() > limit),
        }
    }
    let ends = stream.iter().filter(|byte| **byte == b'\n').count();
    // The reader may report a line that is too long before its end.
    let reported_early = split.lines.len() == ends + 1
        && matches!(split.lines.last(), Some(SplitLine::TooLong(Some(_))));
    assert!(split.is_unterminated || split.lines.len() == ends || reported_early);
}
