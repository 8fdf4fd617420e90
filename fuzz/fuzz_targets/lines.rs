//! Lines do not depend on how the stream is split, and the frame reader stays within its limit.
//!
//! Input: the limit, the sizes of the pieces and their number, then the stream.

#![no_main]

use libfuzzer_sys::fuzz_target;
use switchboard::fuzzing::{Cut, CutLine, cut};

/// Buffer space that the reader reserves per read; a growing vector may double it once.
const READ_AHEAD: usize = 64 * 1024;

fuzz_target!(|input: (u8, Vec<u8>, &[u8])| {
    let (limit, sizes, stream) = input;
    let limit = usize::from(limit);
    let at_once = cut([stream], limit);
    let in_pieces = cut(pieces(stream, &sizes), limit);

    check_lines(&at_once, stream, limit);
    if in_pieces.is_endless {
        assert!(at_once.lines.starts_with(&in_pieces.lines));
    } else {
        assert!(at_once.is_endless || at_once.lines == in_pieces.lines);
    }
    assert!(in_pieces.most_held <= limit, "{in_pieces:?}");
    assert!(
        in_pieces.most_room <= 4 * (limit + READ_AHEAD),
        "{in_pieces:?}"
    );
});

/// A complete line equals the line of the stream and is within the limit; a line that is too long
/// exceeds it.
fn check_lines(cut: &Cut, stream: &[u8], limit: usize) {
    let written = stream.split(|byte| *byte == b'\n');
    for (line, written) in cut.lines.iter().zip(written) {
        match line {
            CutLine::Complete(line) => assert!(line == written && line.len() <= limit),
            CutLine::TooLong(_) => assert!(written.len() > limit),
        }
    }
    let ends = stream.iter().filter(|byte| **byte == b'\n').count();
    // A line that is too long may be reported before its end.
    let is_told_early =
        cut.lines.len() == ends + 1 && matches!(cut.lines.last(), Some(CutLine::TooLong(Some(_))));
    assert!(cut.is_endless || cut.lines.len() == ends || is_told_early);
}

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
