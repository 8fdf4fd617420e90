//! Message framing: batches, invalid UTF-8, byte order marks, blank lines and banners.

use switchboard_testkit::Step;

use crate::table::{Case, invalid_response, legacy, text, timed_out, valid_response};

/// The parts of a response with one text block: before and after the text.
const BEFORE: &str = r#"{"jsonrpc":"2.0","id":$ID,"result":{"content":[{"type":"text","text":""#;
const AFTER: &str = r#""}]}}"#;

/// A response whose text consists of these bytes.
fn response_containing(bytes: &[u8]) -> [Step; 3] {
    [Step::bytes(BEFORE), Step::binary(bytes), Step::raw(AFTER)]
}

/// Writes these bytes, then a valid response.
fn before_response(bytes: &[u8]) -> [Step; 2] {
    [Step::binary(bytes), valid_response()]
}

cases! {
    s32_batch: "response as a batch, in a version without batches" =>
        Case::on_work([Step::raw(r#"[{"jsonrpc":"2.0","id":$ID,"result":{"content":[]}}]"#)])
            .call_timeout(300)
            .expects(timed_out());
    s32_batch_then_response: "an invalid batch, then the response" =>
        Case::on_work([Step::raw(r#"[{"id":$ID},null,7]"#), valid_response()])
            .expects(text("right"));

    s33_invalid_utf8: "response with an invalid UTF-8 byte" =>
        Case::on_work(response_containing(b"\xff"))
            .expects(invalid_response("a content block is not UTF-8"));
    s33_overlong_utf8: "response with an overlong UTF-8 sequence" =>
        Case::on_work(response_containing(b"\xc0\xaf"))
            .expects(invalid_response("a content block is not UTF-8"));
    s33_lone_surrogate: "response with a lone surrogate" =>
        Case::on_work(response_containing(br"\ud800"))
            .expects(text("cannot be shown"));
    s33_invalid_utf8_line: "a line of invalid UTF-8, then the response" =>
        Case::on_work(before_response(b"\xff\xfe\x00\x80\n"))
            .expects(text("right"));

    s34_byte_order_mark: "response after a byte order mark" =>
        Case::on_work([Step::binary(b"\xef\xbb\xbf"), valid_response()])
            .expects(text("right"));
    s34_carriage_return: "lines end with CR LF" =>
        Case::on_work([Step::bytes(BEFORE), Step::bytes("right"), Step::bytes(AFTER), Step::bytes("\r\n")])
            .expects(text("right"));
    s34_zero_bytes: "a line of zero bytes, then the response" =>
        Case::on_work(before_response(b"\0\0\0\n"))
            .expects(text("right"));
    s34_zero_byte_before_response: "response after a zero byte on the same line" =>
        Case::on_work([Step::binary(b"\0"), valid_response()])
            .call_timeout(300)
            .expects(timed_out());
    s34_blank_lines: "ten thousand blank lines, then the response" =>
        Case::on_work([Step::repeated_bytes("\n \r\n\t\n", 3_333), valid_response()])
            .expects(text("right"));
    s34_line_separator: "U+2028 inside the response, which does not end the line" =>
        Case::on_work(response_containing("ri\u{2028}ght".as_bytes()))
            .expects(text("ght"));

    s35_banner: "a banner and log lines before the first message" =>
        Case::new(legacy()
            .on_start([
                Step::raw("Welcome to the hostile server v1.0!"),
                Step::raw(r#"{"level":"info","msg":"listening"}"#),
                Step::raw("[1] {not json}"),
            ])
            .on("tools/call work", [valid_response()]))
            .expects(text("right"));
    s35_banner_without_line_end: "a banner without a line end, which hides the first message" =>
        Case::new(legacy()
            .on_start([Step::bytes("starting ... ")])
            .on("tools/call work", [valid_response()]))
            .expects(text("right"));
    s35_only_log_lines: "log lines and no protocol message" =>
        Case::new(legacy()
            .on_start([Step::raw("listening on port 3000")])
            .on("*", [Step::raw("GET / 404"), Step::Hang]))
            .startup_timeout(1_500)
            .start_fails("it printed \"GET / 404\" on stdout, which is not an MCP message");
}
