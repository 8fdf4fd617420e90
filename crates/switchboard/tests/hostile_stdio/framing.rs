//! Where a message begins and ends, and what its bytes are.

use switchboard_testkit::Step;

use crate::table::{Row, legacy, right, text, timed_out, unusable};

/// The beginning and the end of an answer of one text, for what stands between them.
const BEFORE: &str = r#"{"jsonrpc":"2.0","id":$ID,"result":{"content":[{"type":"text","text":""#;
const AFTER: &str = r#""}]}}"#;

/// An answer whose text holds these bytes.
fn answer_with(bytes: &[u8]) -> [Step; 3] {
    [Step::bytes(BEFORE), Step::binary(bytes), Step::raw(AFTER)]
}

/// Bytes that are a line of their own, and the right answer after it.
fn first(bytes: &[u8]) -> [Step; 2] {
    [Step::binary(bytes), right()]
}

rows! {
    s32_batch: "answers with a batch, in a version that has none" =>
        Row::working([Step::raw(r#"[{"jsonrpc":"2.0","id":$ID,"result":{"content":[]}}]"#)])
            .call_timeout(300)
            .sees(timed_out());
    s32_batch_then_answer: "sends a batch of junk, then the answer" =>
        Row::working([Step::raw(r#"[{"id":$ID},null,7]"#), right()])
            .sees(text("right"));

    s33_invalid_utf8: "answers with a byte that is no UTF-8" =>
        Row::working(answer_with(b"\xff"))
            .sees(unusable("a content block is not valid JSON"));
    s33_overlong_utf8: "answers with `/` spelled in two bytes" =>
        Row::working(answer_with(b"\xc0\xaf"))
            .sees(unusable("a content block is not valid JSON"));
    s33_lone_surrogate: "answers with half of a character" =>
        Row::working(answer_with(br"\ud800"))
            .sees(text("cannot be shown"));
    s33_invalid_utf8_in_a_line_of_its_own: "writes bytes that are no text, then the answer" =>
        Row::working(first(b"\xff\xfe\x00\x80\n"))
            .sees(text("right"));

    s34_byte_order_mark: "begins the answer with a byte order mark" =>
        Row::working([Step::binary(b"\xef\xbb\xbf"), right()])
            .sees(text("right"));
    s34_carriage_return: "ends lines with carriage return and line feed" =>
        Row::working([Step::bytes(BEFORE), Step::bytes("right"), Step::bytes(AFTER), Step::bytes("\r\n")])
            .sees(text("right"));
    s34_zero_bytes: "writes a line of zero bytes, then the answer" =>
        Row::working(first(b"\0\0\0\n"))
            .sees(text("right"));
    s34_zero_byte_in_the_answer: "begins the answer with a zero byte" =>
        Row::working([Step::binary(b"\0"), right()])
            .call_timeout(300)
            .sees(timed_out());
    s34_blank_lines: "writes ten thousand blank lines, then the answer" =>
        Row::working([Step::repeated_bytes("\n \r\n\t\n", 3_333), right()])
            .sees(text("right"));
    s34_line_separator: "has U+2028 in the answer, which ends no line" =>
        Row::working(answer_with("ri\u{2028}ght".as_bytes()))
            .sees(text("ght"));

    s35_banner: "prints a banner and log lines before the first message" =>
        Row::of(legacy()
            .on_start([
                Step::raw("Welcome to the hostile server v1.0!"),
                Step::raw(r#"{"level":"info","msg":"listening"}"#),
                Step::raw("[1] {not json}"),
            ])
            .on("tools/call work", [right()]))
            .sees(text("right"));
    s35_banner_without_a_line_end: "prints a banner that swallows its first message" =>
        Row::of(legacy()
            .on_start([Step::bytes("starting ... ")])
            .on("tools/call work", [right()]))
            .sees(text("right"));
    s35_nothing_but_banners: "prints log lines and never speaks the protocol" =>
        Row::of(legacy()
            .on_start([Step::raw("listening on port 3000")])
            .on("*", [Step::raw("GET / 404"), Step::Hang]))
            .startup_timeout(1_500)
            .does_not_start("on stdout it printed \"GET / 404\", which is no MCP message");
}
