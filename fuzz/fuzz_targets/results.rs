//! Decoding and presenting any result does not panic; raw values are valid JSON, and printed text
//! contains no terminal control characters.
//!
//! Input: the value of `result`, inserted into a response line.

#![no_main]

use libfuzzer_sys::fuzz_target;
use serde::de::IgnoredAny;
use switchboard::Output;
use switchboard::content::{Block, render_tool_result, sanitize};
use switchboard::fuzzing::{field, hello, notes, tool_page, tool_result};
use switchboard::limits::Limits;
use switchboard::mcp::{ContentBlock, Json};

fuzz_target!(|result: &[u8]| {
    notes(result);
    let line = [br#"{"jsonrpc":"2.0","id":1,"result":"#, result, b"}"].concat();
    hello(&line);
    for carried in tool_page(&line).unwrap_or_default() {
        check_json(&carried);
    }
    if let Some(result) = tool_result(&line) {
        let unknown = result.content.iter().filter_map(|block| match block {
            ContentBlock::Unknown(raw) => Some(raw),
            _ => None,
        });
        let carried = unknown.chain(&result.structured_content);
        carried.chain(&result.meta).for_each(check_json);
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
    assert_acts_on_nothing(&output.to_text());
    for block in &output.blocks {
        match block {
            Block::Text { text } => assert_acts_on_nothing(text),
            Block::Image { mime_type, .. } | Block::Audio { mime_type, .. } => {
                assert_acts_on_nothing(mime_type);
            }
            Block::Described { description, .. } => assert_acts_on_nothing(description),
            _ => {}
        }
    }
    output
        .notes
        .iter()
        .for_each(|note| assert_acts_on_nothing(note));
}

fn check_text(text: &str) {
    let once = sanitize(text);
    assert_acts_on_nothing(&once);
    assert_eq!(
        sanitize(&once),
        once,
        "sanitize is not idempotent"
    );
    assert_acts_on_nothing(&field(text, 40));
}

fn assert_acts_on_nothing(text: &str) {
    let acts = |letter: char| letter.is_control() && !matches!(letter, '\n' | '\t');
    let hides = |letter: char| matches!(letter, '\u{202a}'..='\u{202e}' | '\u{e0001}' | '\u{feff}');
    assert!(
        !text.chars().any(|letter| acts(letter) || hides(letter)),
        "{text:?}"
    );
}
