//! Decoding and presenting any result does not panic; raw values are valid JSON, and printed text
//! contains no terminal control characters.
//!
//! Input: the value of `result`, inserted into a response line.

#![no_main]

use libfuzzer_sys::fuzz_target;
use serde::de::IgnoredAny;
use switchboard::Output;
use switchboard::content::{Block, render_tool_result, sanitize};
use switchboard::limits::Limits;
use switchboard::mcp::{ContentBlock, Json};
use switchboard_fuzz::{decode_handshakes, decode_notifications, tool_page, tool_result};
use switchboard_wire::text::one_line;

fuzz_target!(|result: &[u8]| {
    decode_notifications(result);
    let line = [br#"{"jsonrpc":"2.0","id":1,"result":"#, result, b"}"].concat();
    decode_handshakes(&line);
    for json in tool_page(&line).unwrap_or_default() {
        check_json(&json);
    }
    if let Some(result) = tool_result(&line) {
        let unknown = result.content.iter().filter_map(|block| match block {
            ContentBlock::Unknown(raw) => Some(raw),
            _ => None,
        });
        let values = unknown.chain(&result.structured_content);
        values.chain(&result.meta).for_each(check_json);
        let limits = Limits::default();
        check_output(&render_tool_result(result.clone(), &limits, None));
        let mut tight = limits;
        tight.result_text_bytes = 64;
        tight.result_media_bytes = 16;
        check_output(&render_tool_result(result, &tight, None));
    }
    check_text(&String::from_utf8_lossy(result));
});

fn check_json(json: &Json) {
    let parsed: Result<IgnoredAny, _> = serde_json::from_str(json.as_str());
    assert!(parsed.is_ok(), "{:?}", json.as_str());
}

fn check_output(output: &Output) {
    assert_printable(&output.to_text());
    for block in &output.blocks {
        match block {
            Block::Text { text, .. } => assert_printable(text),
            Block::Image { mime_type, .. } | Block::Audio { mime_type, .. } => {
                assert_printable(mime_type);
            }
            Block::Described { description, .. } | Block::ResourceLink { description, .. } => {
                assert_printable(description)
            }
            _ => {}
        }
    }
    output.notes.iter().for_each(|note| assert_printable(note));
}

fn check_text(text: &str) {
    let once = sanitize(text);
    assert_printable(&once);
    assert_eq!(sanitize(&once), once, "sanitize is not idempotent");
    assert_printable(&one_line(text, 40));
}

fn assert_printable(text: &str) {
    let is_control = |ch: char| ch.is_control() && !matches!(ch, '\n' | '\t');
    let is_invisible = |ch: char| matches!(ch, '\u{202a}'..='\u{202e}' | '\u{e0001}' | '\u{feff}');
    assert!(
        !text.chars().any(|ch| is_control(ch) || is_invisible(ch)),
        "{text:?}"
    );
}
