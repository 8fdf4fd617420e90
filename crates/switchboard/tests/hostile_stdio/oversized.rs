//! Messages that exceed a limit on their size. A case uses the default limits unless it sets other
//! limits.

use switchboard_testkit::Step;

use crate::table::{Case, invalid_response, outcome_unknown, text, valid_response};

const MIB: u64 = 1024 * 1024;

/// A response whose structured content repeats `element` this many times.
fn structured(open: &str, element: &str, times: u64, close: &str) -> [Step; 3] {
    [
        Step::bytes(&format!(
            r#"{{"jsonrpc":"2.0","id":$ID,"result":{{"content":[],"structuredContent":{open}"#
        )),
        Step::repeated_bytes(element, times),
        Step::raw(&format!("{close}}}}}")),
    ]
}

/// A response with one text of this many bytes.
fn long_text(bytes: u64) -> [Step; 3] {
    [
        Step::bytes(r#"{"jsonrpc":"2.0","id":$ID,"result":{"content":[{"type":"text","text":""#),
        Step::repeated_bytes("x", bytes),
        Step::raw(r#""}]}}"#),
    ]
}

/// A response with one image of this many bytes.
fn image(bytes: u64) -> [Step; 3] {
    [
        Step::bytes(
            r#"{"jsonrpc":"2.0","id":$ID,"result":{"content":[{"type":"image","mimeType":"image/png","data":""#,
        ),
        Step::repeated_bytes("iVBORw0K", bytes / 8),
        Step::raw(r#""}]}}"#),
    ]
}

cases! {
    s01_endless_response: "endless line as a response" =>
        Case::on_work([Step::repeated_bytes("x", u64::MAX)])
            .limits(|limits| limits.message_bytes = 1024 * 1024)
            .expects(outcome_unknown("the server sent a message without an end"))
            .restarts();
    s01_endless_start: "endless line before the handshake" =>
        Case::on_start([Step::repeated_bytes("x", u64::MAX)])
            .limits(|limits| limits.message_bytes = 1024 * 1024)
            .start_fails("the server sent a message without an end");

    s02_line_of_17_mib: "response of 17 MiB" =>
        Case::on_work(long_text(17 * MIB))
            .memory(64)
            .expects(invalid_response("longer than 16777216 bytes (limit `messageBytes`; raise it to accept more)"));
    s02_id_at_the_end: "response of 17 MiB with the id at the end" =>
        Case::on_work([
            Step::bytes(r#"{"result":{"content":[{"type":"text","text":""#),
            Step::repeated_bytes("x", 17 * MIB),
            Step::raw(r#""}]},"jsonrpc":"2.0","id":$ID}"#),
        ])
            .memory(64)
            .expects(invalid_response("limit `messageBytes`"));
    s02_invalid_line_of_17_mib: "an invalid line of 17 MiB, then the response" =>
        Case::on_work([Step::repeated_bytes("x", 17 * MIB), Step::raw(""), valid_response()])
            .memory(64)
            .expects(text("right"));

    s03_exactly_the_limit: "response of exactly the limit" =>
        Case::on_work([Step::ReplyOfSize(16 * 1024 * 1024)])
            .memory(64)
            .expects(text("xxx"));
    s03_one_byte_more: "response of one byte above the limit" =>
        Case::on_work([Step::ReplyOfSize(16 * 1024 * 1024 + 1)])
            .memory(64)
            .expects(invalid_response("limit `messageBytes`"));

    s04_objects: "response with 600,000 small objects" =>
        Case::on_work(structured("[", r#"{"":0},"#, 600_000, "0]"))
            .memory(64)
            .expects(invalid_response("more than 1000000 JSON values (limit `jsonNodes`; raise it to accept more)"));
    s05_deep: "response with 100,000 nested arrays" =>
        Case::on_work([
            Step::bytes(r#"{"jsonrpc":"2.0","id":$ID,"result":"#),
            Step::repeated_bytes("[", 100_000),
            Step::repeated_bytes("]", 100_000),
            Step::raw("}"),
        ])
            .expects(invalid_response("nested deeper than 128 levels (limit `jsonDepth`)"));
    s05_deep_and_unclosed: "response with 100,000 unclosed brackets" =>
        Case::on_work([
            Step::bytes(r#"{"jsonrpc":"2.0","id":$ID,"result":"#),
            Step::repeated_bytes("[", 100_000),
            Step::raw(""),
        ])
            .expects(invalid_response("not valid JSON"));
    s05_deep_invalid_line: "a line of 100,000 brackets, then the response" =>
        Case::on_work([Step::repeated_bytes("[", 100_000), Step::raw(""), valid_response()])
            .expects(text("right"));

    s07_image_of_64_mib: "image of 64 MiB" =>
        Case::on_work(image(64 * MIB))
            .memory(64)
            .expects(invalid_response("limit `messageBytes`"));
    s07_image_of_8_mib: "image that fits a message but not a model" =>
        Case::on_work(image(8 * MIB))
            .memory(64)
            .expects(text("image"));
    s08_100_000_blocks: "response with 100,000 text blocks" =>
        Case::on_work([
            Step::bytes(r#"{"jsonrpc":"2.0","id":$ID,"result":{"content":["#),
            Step::repeated_bytes(r#"{"type":"text","text":"x"},"#, 99_999),
            Step::raw(r#"{"type":"text","text":"x"}]}}"#),
        ])
            .memory(64)
            .expects(text("x\nx\nx"));
}
