//! Answers that are too long, or not as long as they say.

use std::io::Write as _;
use std::time::Duration;

use switchboard_testkit::http::{Fault, RawStep};

use crate::table::{
    RIGHT, Row, Start, head, streaming, text, timed_out, unknown, unusable, working,
};

/// The beginning of an answer whose text never ends.
const BEGINNING: &str = r#"{"jsonrpc":"2.0","id":$ID,"result":{"content":[{"type":"text","text":""#;

const TOO_LONG: &str = "longer than 16777216 bytes (limit `message_bytes`";

/// An answer with this in its head, and these bytes after it.
fn answer(headers: &str, body: &str) -> RawStep {
    RawStep::send(format!(
        "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n{headers}\r\n{body}"
    ))
}

fn right_with(headers: &str) -> Row {
    working([answer(headers, RIGHT), RawStep::Hang])
}

/// A chunk of 64 KiB.
fn chunk() -> Vec<u8> {
    let mut chunk = b"10000\r\n".to_vec();
    chunk.resize(chunk.len() + 0x10000, b'a');
    chunk.extend(b"\r\n");
    chunk
}

/// A mebibyte of the letter a, as about a kilobyte of gzip.
fn squeezed() -> Vec<u8> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::best());
    encoder.write_all(&vec![b'a'; 1024 * 1024]).unwrap();
    encoder.finish().unwrap()
}

fn encoded(encoding: &str) -> RawStep {
    answer(
        &format!("Content-Encoding: {encoding}\r\nConnection: close\r\n"),
        "",
    )
}

fn error_head(status: &str) -> RawStep {
    RawStep::send(format!(
        "HTTP/1.1 {status}\r\nContent-Type: text/plain\r\n\r\n"
    ))
}

/// A stream of the first transport that begins as it should, and then does this.
fn stream_of_the_first_transport(steps: impl IntoIterator<Item = RawStep>) -> Row {
    let beginning = [
        head("text/event-stream"),
        RawStep::send("event: endpoint\ndata: /message\n\n"),
    ];
    let steps = beginning.into_iter().chain(steps);
    Row::sse()
        .begins(Fault::raw_steps(steps).on("GET").always())
        .begins(Fault::status(202).always())
}

rows! {
    h01_endless_json: "answers with JSON that does not end" =>
        working([head("application/json"), RawStep::send(BEGINNING), RawStep::send_forever("a")])
            .memory(32)
            .sees(unusable(TOO_LONG));
    h01_endless_chunks: "answers with chunks that do not end" =>
        working([answer("Transfer-Encoding: chunked\r\n", ""), RawStep::send_forever(chunk())])
            .memory(32)
            .sees(unusable(TOO_LONG));
    h01_endless_event: "answers with an event that does not end" =>
        streaming([RawStep::send("data: "), RawStep::send(BEGINNING), RawStep::send_forever("a")])
            .memory(32)
            .sees(unknown("an event without an end"));
    h01_endless_field: "answers with a field of an event that does not end" =>
        streaming([RawStep::send("id: "), RawStep::send_forever("a")])
            .memory(16)
            .sees(unknown("an event without an end"));
    h01_endless_stream: "writes to its one stream an event that does not end" =>
        stream_of_the_first_transport([RawStep::send("data: "), RawStep::send_forever("a")])
            .limits(|limits| limits.message_bytes = 2 * 1024 * 1024)
            .does_not_start(Start::Retried("without"));
    h01_endless_word: "says unasked what does not end" =>
        Row::legacy()
            .begins(Fault::raw_steps([
                head("text/event-stream"),
                RawStep::send("data: "),
                RawStep::send_forever("a"),
            ]).on("GET").always())
            .memory(32)
            .sees(text("right"));
    h01_endless_listing: "lists tools without end" =>
        Row::modern()
            .begins(Fault::raw_steps([head("application/json"), RawStep::send_forever("[")]).on("tools/list"))
            .memory(32)
            .does_not_start(Start::Unlisted(TOO_LONG));

    h02_endless_error: "says 500, and does not end to say why" =>
        working([error_head("500 Oh No"), RawStep::send_forever("because ")])
            .sees(unknown("HTTP 500"));
    h02_endless_refusal: "says 404, and does not end to say why" =>
        working([error_head("404 Not Found"), RawStep::send_forever("because ")])
            .sees(crate::table::refused("HTTP 404"));
    h02_slow_error: "says 500, and takes for ever to say why" =>
        working([error_head("500 Oh No"), RawStep::send("because"), RawStep::Hang])
            .call_timeout(500)
            .sees(timed_out());

    h03_gzip_bomb: "answers with gzip that comes to a thousand times as much, without end" =>
        working([encoded("gzip"), RawStep::send_forever(squeezed())])
            .memory(32)
            .sees(unusable(TOO_LONG));
    h03_gzip_bomb_of_events: "answers with events in gzip, which come to a thousand times as much" =>
        working([
            RawStep::send("HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nContent-Encoding: gzip\r\n\r\n"),
            RawStep::send_forever(squeezed()),
        ])
            .memory(32)
            .sees(unknown("an event without an end"));
    h03_brotli: "answers with an encoding that nobody asked for" =>
        working([encoded("br"), RawStep::send_forever("a")])
            .sees(unknown("br"));
    h03_zstd: "answers with another encoding that nobody asked for" =>
        working([encoded("zstd"), RawStep::send_forever("a")])
            .sees(unknown("zstd"));
    h03_layers_of_gzip: "answers with gzip in gzip" =>
        working([encoded("gzip, gzip"), RawStep::send_forever("a")])
            .sees(unknown("gzip, gzip"));

    h04_less_than_announced: "answers with less than it announced, and leaves" =>
        working([answer("Content-Length: 5000\r\n", RIGHT)])
            .sees(unknown("in the middle of its answer"));
    h04_less_than_announced_and_waits: "answers with less than it announced, and waits" =>
        right_with("Content-Length: 5000\r\n")
            .call_timeout(500)
            .sees(timed_out());
    h04_more_than_announced: "answers with more than it announced" =>
        right_with("Content-Length: 20\r\n")
            .sees(unusable("holds no response to the request"));
    h04_far_more_than_the_limit: "announces a terabyte" =>
        right_with("Content-Length: 1099511627776\r\n")
            .sees(unusable(TOO_LONG));
    h04_negative: "announces less than nothing" =>
        right_with("Content-Length: -5\r\n")
            .sees(unknown("invalid content-length"));
    h04_no_number: "announces a length that is no number" =>
        right_with("Content-Length: 0x20\r\n")
            .sees(unknown("invalid content-length"));
    h04_beyond_any_number: "announces more than can be counted" =>
        right_with("Content-Length: 99999999999999999999999\r\n")
            .sees(unknown("invalid content-length"));
    h04_two_lengths: "announces two lengths" =>
        right_with("Content-Length: 20\r\nContent-Length: 30\r\n")
            .sees(unknown("invalid content-length"));

    h05_long_header: "answers with a header of 10 MiB" =>
        working([
            RawStep::send("HTTP/1.1 200 OK\r\nX-Long: "),
            RawStep::send_times(10 * 1024 * 1024, "a"),
            answer("\r\n", RIGHT),
        ])
            .sees(unknown("head is too large"));
    h05_endless_header: "answers with a header that does not end" =>
        working([RawStep::send("HTTP/1.1 200 OK\r\nX-Long: "), RawStep::send_forever("a")])
            .sees(unknown("head is too large"));
    h05_many_headers: "answers with 10,000 headers" =>
        working([
            RawStep::send("HTTP/1.1 200 OK\r\n"),
            RawStep::send_times(10_000, "X-Many: 1\r\n"),
            answer("\r\n", RIGHT),
        ])
            .sees(unknown("head is too large"));
    h05_many_interim_answers: "says for ever that it goes on" =>
        working([RawStep::send_forever("HTTP/1.1 100 Continue\r\n\r\n")])
            .call_timeout(1_000)
            .sees(timed_out());

    h07_trailers: "has secrets of its own after the answer" =>
        working([
            answer("Transfer-Encoding: chunked\r\nTrailer: X-Secret\r\nConnection: close\r\n", ""),
            RawStep::send(format!("{:x}\r\n", RIGHT.len() - "$ID".len() + 1)),
            RawStep::send(RIGHT),
            RawStep::send("\r\n0\r\nX-Secret: hunter2\r\nContent-Length: 7\r\nHost: evil\r\n\r\n"),
            RawStep::Pause(Duration::from_millis(10)),
        ])
            .sees(text("right"));
    h07_endless_trailers: "has trailers without end after the answer" =>
        working([
            answer("Transfer-Encoding: chunked\r\n", ""),
            RawStep::send("1\r\n \r\n0\r\n"),
            RawStep::send_forever("X-More: and more\r\n"),
        ])
            .sees(unknown("trailers"));
}
