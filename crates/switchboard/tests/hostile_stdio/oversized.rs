//! How much one message may hold. The limits are the defaults, unless a row says otherwise.

use switchboard_testkit::Step;

use crate::table::{Row, right, text, unknown, unusable};

const MIB: u64 = 1024 * 1024;

/// An answer of this many repeated pieces as its structured content.
fn structured(open: &str, piece: &str, times: u64, close: &str) -> [Step; 3] {
    [
        Step::bytes(&format!(
            r#"{{"jsonrpc":"2.0","id":$ID,"result":{{"content":[],"structuredContent":{open}"#
        )),
        Step::repeated_bytes(piece, times),
        Step::raw(&format!("{close}}}}}")),
    ]
}

/// An answer of one text of this many bytes, the id first or last.
fn long_text(bytes: u64) -> [Step; 3] {
    [
        Step::bytes(r#"{"jsonrpc":"2.0","id":$ID,"result":{"content":[{"type":"text","text":""#),
        Step::repeated_bytes("x", bytes),
        Step::raw(r#""}]}}"#),
    ]
}

/// An answer of one picture of this many bytes.
fn picture(bytes: u64) -> [Step; 3] {
    [
        Step::bytes(
            r#"{"jsonrpc":"2.0","id":$ID,"result":{"content":[{"type":"image","mimeType":"image/png","data":""#,
        ),
        Step::repeated_bytes("iVBORw0K", bytes / 8),
        Step::raw(r#""}]}}"#),
    ]
}

rows! {
    s01_endless_answer: "answers with bytes without end, and never ends the line" =>
        Row::working([Step::repeated_bytes("x", u64::MAX)])
            .limits(|limits| limits.message_bytes = 1024 * 1024)
            .sees(unknown("the server sent a message without an end"))
            .comes_back();
    s01_endless_start: "writes bytes without end before it says anything" =>
        Row::starting([Step::repeated_bytes("x", u64::MAX)])
            .limits(|limits| limits.message_bytes = 1024 * 1024)
            .does_not_start("the server sent a message without an end");

    s02_line_of_17_mib: "answers with one line of 17 MiB" =>
        Row::working(long_text(17 * MIB))
            .memory(64)
            .sees(unusable("longer than 16777216 bytes (limit `message_bytes`; raise it to accept more)"));
    s02_id_at_the_end: "answers with one line of 17 MiB, its id at the very end" =>
        Row::working([
            Step::bytes(r#"{"result":{"content":[{"type":"text","text":""#),
            Step::repeated_bytes("x", 17 * MIB),
            Step::raw(r#""}]},"jsonrpc":"2.0","id":$ID}"#),
        ])
            .memory(64)
            .sees(unusable("limit `message_bytes`"));
    s02_junk_of_17_mib: "writes 17 MiB that answer nothing, then the answer" =>
        Row::working([Step::repeated_bytes("x", 17 * MIB), Step::raw(""), right()])
            .memory(64)
            .sees(text("right"));

    s03_exactly_the_limit: "answers with a line of exactly the limit" =>
        Row::working([Step::ReplyOfSize(16 * 1024 * 1024)])
            .memory(64)
            .sees(text("xxx"));
    s03_one_byte_more: "answers with a line of one byte more than the limit" =>
        Row::working([Step::ReplyOfSize(16 * 1024 * 1024 + 1)])
            .memory(64)
            .sees(unusable("limit `message_bytes`"));

    s04_objects: "answers with 600,000 objects of one member" =>
        Row::working(structured("[", r#"{"":0},"#, 600_000, "0]"))
            .memory(64)
            .sees(unusable("more than 1000000 JSON values (limit `json_nodes`; raise it to accept more)"));
    s05_deep: "answers with 100,000 brackets that open and close" =>
        Row::working([
            Step::bytes(r#"{"jsonrpc":"2.0","id":$ID,"result":"#),
            Step::repeated_bytes("[", 100_000),
            Step::repeated_bytes("]", 100_000),
            Step::raw("}"),
        ])
            .sees(unusable("nested deeper than 128 levels (limit `json_depth`)"));
    s05_deep_and_open: "answers with 100,000 brackets that only open" =>
        Row::working([
            Step::bytes(r#"{"jsonrpc":"2.0","id":$ID,"result":"#),
            Step::repeated_bytes("[", 100_000),
            Step::raw(""),
        ])
            .sees(unusable("not valid JSON"));
    s05_deep_junk: "writes 100,000 brackets, then the answer" =>
        Row::working([Step::repeated_bytes("[", 100_000), Step::raw(""), right()])
            .sees(text("right"));

    s07_picture_of_64_mib: "answers with a picture of 64 MiB" =>
        Row::working(picture(64 * MIB))
            .memory(64)
            .sees(unusable("limit `message_bytes`"));
    s07_picture_of_8_mib: "answers with a picture that fits a message, but no model" =>
        Row::working(picture(8 * MIB))
            .memory(64)
            .sees(text("image"));
    s08_100_000_blocks: "answers with 100,000 blocks of text" =>
        Row::working([
            Step::bytes(r#"{"jsonrpc":"2.0","id":$ID,"result":{"content":["#),
            Step::repeated_bytes(r#"{"type":"text","text":"x"},"#, 99_999),
            Step::raw(r#"{"type":"text","text":"x"}]}}"#),
        ])
            .memory(64)
            .sees(text("x\nx\nx"));
}
