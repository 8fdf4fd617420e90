//! Response bodies that exceed a limit, decompress to a huge size, or have another length than
//! their headers announce.

use std::io::Write as _;
use std::time::Duration;

use switchboard_testkit::http::{Fault, RawStep};

use crate::table::{
    Case, Start, VALID_RESPONSE, head, invalid_response, outcome_unknown, responds_with,
    responds_with_events, text, timed_out,
};

/// The beginning of a JSON-RPC response, up to the start of a text block. The test never sends the
/// end of the text.
const RESPONSE_START: &str =
    r#"{"jsonrpc":"2.0","id":$ID,"result":{"content":[{"type":"text","text":""#;

const TOO_LONG: &str = "longer than 16777216 bytes (limit `messageBytes`";

/// An HTTP 200 response with these additional header lines and this body.
fn response(headers: &str, body: &str) -> RawStep {
    RawStep::send(format!(
        "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n{headers}\r\n{body}"
    ))
}

fn valid_response_with(headers: &str) -> Case {
    responds_with([response(headers, VALID_RESPONSE), RawStep::Hang])
}

/// A chunk of 64 KiB in chunked transfer encoding.
fn chunk() -> Vec<u8> {
    let mut chunk = b"10000\r\n".to_vec();
    chunk.resize(chunk.len() + 0x10000, b'a');
    chunk.extend(b"\r\n");
    chunk
}

/// One mebibyte of the letter `a`, compressed with gzip to about one kilobyte.
fn gzip_bomb() -> Vec<u8> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::best());
    encoder.write_all(&vec![b'a'; 1024 * 1024]).unwrap();
    encoder.finish().unwrap()
}

fn encoded(encoding: &str) -> RawStep {
    response(
        &format!("Content-Encoding: {encoding}\r\nConnection: close\r\n"),
        "",
    )
}

fn error_head(status: &str) -> RawStep {
    RawStep::send(format!(
        "HTTP/1.1 {status}\r\nContent-Type: text/plain\r\n\r\n"
    ))
}

/// A server of the transport of 2024-11-05 whose event stream sends a valid `endpoint` event and
/// then runs these steps.
fn sse_2024_stream(steps: impl IntoIterator<Item = RawStep>) -> Case {
    let start = [
        head("text/event-stream"),
        RawStep::send("event: endpoint\ndata: /message\n\n"),
    ];
    let steps = start.into_iter().chain(steps);
    Case::sse()
        .fault_at_start(Fault::raw_steps(steps).on("GET").always())
        .fault_at_start(Fault::status(202).always())
}

cases! {
    h01_endless_json: "response is endless JSON" =>
        responds_with([head("application/json"), RawStep::send(RESPONSE_START), RawStep::send_forever("a")])
            .memory(32)
            .expects(invalid_response(TOO_LONG));
    h01_endless_chunks: "response is an endless sequence of chunks" =>
        responds_with([response("Transfer-Encoding: chunked\r\n", ""), RawStep::send_forever(chunk())])
            .memory(32)
            .expects(invalid_response(TOO_LONG));
    h01_endless_event: "response is an endless event" =>
        responds_with_events([RawStep::send("data: "), RawStep::send(RESPONSE_START), RawStep::send_forever("a")])
            .memory(32)
            .expects(outcome_unknown("an event without an end"));
    h01_endless_field: "response is an event with an endless `id` field" =>
        responds_with_events([RawStep::send("id: "), RawStep::send_forever("a")])
            .memory(16)
            .expects(outcome_unknown("an event without an end"));
    h01_endless_stream: "the 2024 event stream contains an endless event" =>
        sse_2024_stream([RawStep::send("data: "), RawStep::send_forever("a")])
            .limits(|limits| limits.message_bytes = 2 * 1024 * 1024)
            .start_fails(Start::Retried("without"));
    h01_endless_event_on_listen_stream: "the listen stream contains an endless event" =>
        Case::legacy()
            .fault_at_start(Fault::raw_steps([
                head("text/event-stream"),
                RawStep::send("data: "),
                RawStep::send_forever("a"),
            ]).on("GET").always())
            .memory(32)
            .expects(text("right"));
    h01_endless_listing: "the tool listing is endless" =>
        Case::modern()
            .fault_at_start(Fault::raw_steps([head("application/json"), RawStep::send_forever("[")]).on("tools/list"))
            .memory(32)
            .start_fails(Start::ListingFailed(TOO_LONG));

    h02_endless_error: "HTTP 500 with an endless body" =>
        responds_with([error_head("500 Oh No"), RawStep::send_forever("because ")])
            .expects(outcome_unknown("HTTP 500"));
    h02_endless_404: "HTTP 404 with an endless body" =>
        responds_with([error_head("404 Not Found"), RawStep::send_forever("because ")])
            .expects(crate::table::error_response("HTTP 404"));
    h02_slow_error: "HTTP 500 with a body that never completes" =>
        responds_with([error_head("500 Oh No"), RawStep::send("because"), RawStep::Hang])
            .call_timeout(500)
            .expects(timed_out());

    h03_gzip_bomb: "endless gzip body that expands a thousandfold" =>
        responds_with([encoded("gzip"), RawStep::send_forever(gzip_bomb())])
            .memory(32)
            .expects(invalid_response(TOO_LONG));
    h03_gzip_bomb_in_event_stream: "gzip event stream that expands a thousandfold" =>
        responds_with([
            RawStep::send("HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nContent-Encoding: gzip\r\n\r\n"),
            RawStep::send_forever(gzip_bomb()),
        ])
            .memory(32)
            .expects(outcome_unknown("an event without an end"));
    h03_brotli: "response in brotli, which the client did not offer" =>
        responds_with([encoded("br"), RawStep::send_forever("a")])
            .expects(outcome_unknown("br"));
    h03_zstd: "response in zstd, which the client did not offer" =>
        responds_with([encoded("zstd"), RawStep::send_forever("a")])
            .expects(outcome_unknown("zstd"));
    h03_nested_gzip: "response in gzip inside gzip" =>
        responds_with([encoded("gzip, gzip"), RawStep::send_forever("a")])
            .expects(outcome_unknown("gzip, gzip"));

    h04_body_too_short: "body is shorter than Content-Length, then the connection closes" =>
        responds_with([response("Content-Length: 5000\r\n", VALID_RESPONSE)])
            .expects(outcome_unknown("in the middle of its response"));
    h04_body_never_completes: "body is shorter than Content-Length, and the connection stays open" =>
        valid_response_with("Content-Length: 5000\r\n")
            .call_timeout(500)
            .expects(timed_out());
    h04_body_too_long: "body is longer than Content-Length" =>
        valid_response_with("Content-Length: 20\r\n")
            .expects(invalid_response("holds no response to the request"));
    h04_content_length_of_a_terabyte: "Content-Length is one terabyte" =>
        valid_response_with("Content-Length: 1099511627776\r\n")
            .expects(invalid_response(TOO_LONG));
    h04_negative_content_length: "Content-Length is negative" =>
        valid_response_with("Content-Length: -5\r\n")
            .expects(outcome_unknown("invalid content-length"));
    h04_content_length_is_not_a_number: "Content-Length is not a decimal number" =>
        valid_response_with("Content-Length: 0x20\r\n")
            .expects(outcome_unknown("invalid content-length"));
    h04_content_length_overflow: "Content-Length overflows 64 bits" =>
        valid_response_with("Content-Length: 99999999999999999999999\r\n")
            .expects(outcome_unknown("invalid content-length"));
    h04_two_content_lengths: "two different Content-Length headers" =>
        valid_response_with("Content-Length: 20\r\nContent-Length: 30\r\n")
            .expects(outcome_unknown("invalid content-length"));

    h05_long_header: "a header of 10 MiB" =>
        responds_with([
            RawStep::send("HTTP/1.1 200 OK\r\nX-Long: "),
            RawStep::send_times(10 * 1024 * 1024, "a"),
            response("\r\n", VALID_RESPONSE),
        ])
            .expects(outcome_unknown("head is too large"));
    h05_endless_header: "an endless header" =>
        responds_with([RawStep::send("HTTP/1.1 200 OK\r\nX-Long: "), RawStep::send_forever("a")])
            .expects(outcome_unknown("head is too large"));
    h05_many_headers: "10,000 headers" =>
        responds_with([
            RawStep::send("HTTP/1.1 200 OK\r\n"),
            RawStep::send_times(10_000, "X-Many: 1\r\n"),
            response("\r\n", VALID_RESPONSE),
        ])
            .expects(outcome_unknown("head is too large"));
    h05_endless_interim_responses: "endless `100 Continue` responses" =>
        responds_with([RawStep::send_forever("HTTP/1.1 100 Continue\r\n\r\n")])
            .call_timeout(1_000)
            .expects(timed_out());

    h07_trailers: "trailers with header-like fields after the body" =>
        responds_with([
            response("Transfer-Encoding: chunked\r\nTrailer: X-Secret\r\nConnection: close\r\n", ""),
            RawStep::send(format!("{:x}\r\n", VALID_RESPONSE.len() - "$ID".len() + 1)),
            RawStep::send(VALID_RESPONSE),
            RawStep::send("\r\n0\r\nX-Secret: hunter2\r\nContent-Length: 7\r\nHost: evil\r\n\r\n"),
            RawStep::Pause(Duration::from_millis(10)),
        ])
            .expects(text("right"));
    h07_endless_trailers: "endless trailers after the body" =>
        responds_with([
            response("Transfer-Encoding: chunked\r\n", ""),
            RawStep::send("1\r\n \r\n0\r\n"),
            RawStep::send_forever("X-More: and more\r\n"),
        ])
            .expects(outcome_unknown("trailers"));
}
