//! Streams of events that say nothing, too much, or something strange.

use std::time::Duration;

use switchboard_testkit::Step;
use switchboard_testkit::http::{Fault, RawStep};

use crate::table::{
    RIGHT, Row, head, right_event, silent, streaming, text, timed_out, unknown, working,
};

/// A word of no meaning every 50 ms, for 20 seconds.
fn slowly(word: &'static str) -> impl Iterator<Item = RawStep> {
    let pause = RawStep::Pause(Duration::from_millis(50));
    (0..400).flat_map(move |_| [RawStep::send(word), pause.clone()])
}

fn events(bytes: impl Into<Vec<u8>>) -> Row {
    streaming([RawStep::send(bytes)])
}

/// The right answer in an event, with other ends of lines.
fn right_ending(end: &str, last: &str) -> Row {
    events(format!("event: message{end}data: {RIGHT}{end}{last}"))
}

rows! {
    h21_comments_for_ever: "writes comments for ever, as fast as it can" =>
        streaming([RawStep::send_forever(": still here\n\n")])
            .call_timeout(1_000)
            .sees(timed_out());
    h21_comments_now_and_then: "writes a comment now and then, and nothing else" =>
        streaming(slowly(": still here\n\n"))
            .deadlines(|deadlines| deadlines.idle = Duration::from_millis(400))
            .sees(silent());
    h21_pings_now_and_then: "sends events of no meaning now and then, and nothing else" =>
        streaming(slowly("event: ping\ndata: {}\n\n"))
            .deadlines(|deadlines| deadlines.idle = Duration::from_millis(400))
            .sees(silent());
    h21_noise_for_ever: "sends events that are no messages, as fast as it can" =>
        streaming([RawStep::send_forever("data: noise\n\n")])
            .call_timeout(1_000)
            .sees(timed_out());
    h21_progress_for_ever: "reports progress for ever, and comes to no end" =>
        streaming([RawStep::send_forever(
            "data: {\"jsonrpc\":\"2.0\",\"method\":\"notifications/progress\",\"params\":{\"progressToken\":1,\"progress\":1}}\n\n",
        )])
            .call_timeout(1_000)
            .sees(timed_out());

    h21_noise_unasked: "says unasked what is of no meaning, as fast as it can" =>
        Row::legacy()
            .begins(Fault::raw_steps([
                head("text/event-stream"),
                RawStep::send_forever("data: noise\n\n"),
            ]).on("GET").always())
            .sees(text("right"))
            .sees(text("right"));

    h24_no_answer: "ends the stream before the answer" =>
        streaming([])
            .sees(unknown("ended before the response"));
    h24_no_answer_after_progress: "reports progress, and ends the stream before the answer" =>
        events("data: {\"jsonrpc\":\"2.0\",\"method\":\"notifications/message\",\"params\":{\"level\":\"info\",\"data\":1}}\n\n")
            .sees(unknown("ended before the response"));
    h24_half_an_answer: "ends the stream in the middle of the answer" =>
        events(format!("data: {RIGHT}"))
            .sees(unknown("ended before the response"));
    h24_no_answer_of_a_legacy_server: "ends the stream, and has no way to take it up again" =>
        Row::legacy()
            .works(Fault::raw_steps([head("text/event-stream")]))
            .sees(unknown("ended before the response"));
    h24_never_goes_on: "ends every stream, whenever it is taken up again" =>
        Row::legacy()
            .works(Fault::raw_steps([
                head("text/event-stream"),
                RawStep::send("id: 7\nretry: 10\ndata:\n\n"),
            ]))
            .then(|stage| {
                let end = Fault::raw_steps([head("text/event-stream")]);
                stage.server.arm(end.on("GET").always());
            })
            .sees(unknown("ended before the response"))
            .holds(|stage| {
                let resumed = stage.server.requests();
                let resumed = resumed.iter().filter(|seen| seen.header("last-event-id").is_some());
                assert!((1..=6).contains(&resumed.count()));
            });

    h26_another_request: "answers other requests, and reports their progress" =>
        streaming([
            RawStep::send("data: {\"jsonrpc\":\"2.0\",\"method\":\"notifications/progress\",\"params\":{\"progressToken\":999,\"progress\":1}}\n\n"),
            RawStep::send("data: {\"jsonrpc\":\"2.0\",\"id\":999,\"result\":{\"content\":[{\"type\":\"text\",\"text\":\"wrong\"}]}}\n\n"),
            RawStep::send("data: {\"jsonrpc\":\"2.0\",\"method\":\"notifications/cancelled\",\"params\":{\"requestId\":$ID}}\n\n"),
            right_event(),
        ])
            .sees(text("right"));
    h26_only_another_request: "answers nothing but another request" =>
        events("data: {\"jsonrpc\":\"2.0\",\"id\":999,\"result\":{\"content\":[]}}\n\n")
            .sees(unknown("ended before the response"));
    h26_json_for_another_request: "answers another request, as JSON" =>
        working([
            head("application/json"),
            RawStep::send(r#"{"jsonrpc":"2.0","id":999,"result":{"content":[]}}"#),
        ])
            .sees(crate::table::unusable("holds no response to the request"));
    h26_requests_of_a_modern_server: "asks for roots and a model, where no server may ask" =>
        streaming([
            RawStep::send("data: {\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"roots/list\"}\n\n"),
            RawStep::send("data: {\"jsonrpc\":\"2.0\",\"id\":2,\"method\":\"sampling/createMessage\",\"params\":{}}\n\n"),
            right_event(),
        ])
            .sees(text("right"));

    h28_a_million_lines: "spreads the answer over a million lines" =>
        streaming([RawStep::send_times(1_000_000, "data:\n"), right_event()])
            .sees(text("right"));
    h28_lines_without_end: "spreads an answer over lines without end" =>
        streaming([RawStep::send_forever("data:\n")])
            .memory(32)
            .call_timeout(1_500)
            .sees(timed_out());
    h28_a_million_fields: "says a million times which event it is, then answers" =>
        streaming([RawStep::send_times(1_000_000, "id: 1\n"), right_event()])
            .sees(text("right"));
    h28_a_million_empty_events: "sends a million events with nothing in them, then answers" =>
        streaming([RawStep::send_times(1_000_000, "id: 1\n\n"), right_event()])
            .sees(text("right"));

    h29_carriage_returns: "ends its lines with carriage returns" => right_ending("\r", "\r").sees(text("right"));
    h29_both: "ends its lines with both" => right_ending("\r\n", "\r\n").sees(text("right"));
    h29_mixed: "ends each line differently" => right_ending("\r", "\n\n").sees(text("right"));
    h29_byte_order_mark: "begins with a byte order mark" =>
        events(format!("\u{feff}data: {RIGHT}\n\n")).sees(text("right"));
    h29_two_byte_order_marks: "begins with two byte order marks" =>
        events(format!("\u{feff}\u{feff}data: {RIGHT}\n\ndata: {RIGHT}\n\n")).sees(text("right"));
    h29_zero_bytes: "has zero bytes between its events" =>
        events(format!("\0\0\n\0: \0\n\ndata: {RIGHT}\n\n")).sees(text("right"));
    h29_on_the_one_stream: "answers on its one stream, and says much besides" =>
        Row::sse()
            .script(|script| script.on("tools/call work", [Step::raw("[1]"), Step::raw("noise"), Step::text("right")]))
            .sees(text("right"));
}
