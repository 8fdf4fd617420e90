//! The frame reader yields the same lines however the stream is cut, and holds no more than its limit.
//!
//! Input: the limit, the sizes of the pieces and how many there are, then the stream.

#![no_main]

use libfuzzer_sys::fuzz_target;
use switchboard::fuzzing::{Cut, CutLine, cut};

/// How much the reader makes room for at a time; with what it holds, a vector may double it once.
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

/// What is whole is one line of the stream and short enough; what is too long is not.
fn check_lines(cut: &Cut, stream: &[u8], limit: usize) {
    let written = stream.split(|byte| *byte == b'\n');
    for (line, written) in cut.lines.iter().zip(written) {
        match line {
            CutLine::Complete(line) => assert!(line == written && line.len() <= limit),
            CutLine::TooLong(_) => assert!(written.len() > limit),
        }
    }
    let ends = stream.iter().filter(|byte| **byte == b'\n').count();
    // What is too long may be told before it ends.
    let is_told_early =
        cut.lines.len() == ends + 1 && matches!(cut.lines.last(), Some(CutLine::TooLong(Some(_))));
    assert!(cut.is_endless || cut.lines.len() == ends || is_told_early);
}

/// The stream in pieces of these sizes, again and again.
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
