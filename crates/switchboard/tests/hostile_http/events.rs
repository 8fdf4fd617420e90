//! Event streams: floods of events, streams without a response, messages that belong to no request,
//! and unusual line ends or fields.

use std::time::Duration;

use switchboard_testkit::Step;
use switchboard_testkit::http::{Fault, RawStep};

use crate::table::{
    Case, VALID_RESPONSE, head, idle_timeout, outcome_unknown, responds_with, responds_with_events,
    text, timed_out, valid_event,
};

/// Sends `event` every 50 ms for 20 seconds.
fn repeat_slowly(event: &'static str) -> impl Iterator<Item = RawStep> {
    let pause = RawStep::Pause(Duration::from_millis(50));
    (0..400).flat_map(move |_| [RawStep::send(event), pause.clone()])
}

fn events(bytes: impl Into<Vec<u8>>) -> Case {
    responds_with_events([RawStep::send(bytes)])
}

/// A valid response as an event whose lines end with `line_end`, followed by `last`.
fn valid_event_with_line_ends(line_end: &str, last: &str) -> Case {
    events(format!(
        "event: message{line_end}data: {VALID_RESPONSE}{line_end}{last}"
    ))
}

cases! {
    h21_endless_comments: "endless comments at full speed" =>
        responds_with_events([RawStep::send_forever(": still here\n\n")])
            .call_timeout(1_000)
            .expects(timed_out());
    h21_periodic_comments: "a comment every 50 ms and nothing else" =>
        responds_with_events(repeat_slowly(": still here\n\n"))
            .deadlines(|deadlines| deadlines.idle = Duration::from_millis(400))
            .expects(idle_timeout());
    h21_periodic_unknown_events: "an unknown event every 50 ms and nothing else" =>
        responds_with_events(repeat_slowly("event: ping\ndata: {}\n\n"))
            .deadlines(|deadlines| deadlines.idle = Duration::from_millis(400))
            .expects(idle_timeout());
    h21_endless_invalid_events: "endless events that are not messages" =>
        responds_with_events([RawStep::send_forever("data: noise\n\n")])
            .call_timeout(1_000)
            .expects(timed_out());
    h21_endless_progress: "endless progress and no response" =>
        responds_with_events([RawStep::send_forever(
            "data: {\"jsonrpc\":\"2.0\",\"method\":\"notifications/progress\",\"params\":{\"progressToken\":1,\"progress\":1}}\n\n",
        )])
            .call_timeout(1_000)
            .expects(timed_out());

    h21_endless_invalid_events_on_listen_stream: "endless events that are not messages, on the listen stream" =>
        Case::legacy()
            .fault_at_start(Fault::raw_steps([
                head("text/event-stream"),
                RawStep::send_forever("data: noise\n\n"),
            ]).on("GET").always())
            .expects(text("right"))
            .expects(text("right"));

    h24_no_response: "the stream ends before the response" =>
        responds_with_events([])
            .expects(outcome_unknown("ended before the response"));
    h24_no_response_after_notification: "a notification, then the stream ends before the response" =>
        events("data: {\"jsonrpc\":\"2.0\",\"method\":\"notifications/message\",\"params\":{\"level\":\"info\",\"data\":1}}\n\n")
            .expects(outcome_unknown("ended before the response"));
    h24_half_a_response: "the stream ends in the middle of the response" =>
        events(format!("data: {VALID_RESPONSE}"))
            .expects(outcome_unknown("ended before the response"));
    h24_no_response_of_legacy_server: "a legacy stream without event ids ends before the response" =>
        Case::legacy()
            .fault_on_work(Fault::raw_steps([head("text/event-stream")]))
            .expects(outcome_unknown("ended before the response"));
    h24_resumed_streams_end_too: "every resumed stream ends before the response" =>
        Case::legacy()
            .fault_on_work(Fault::raw_steps([
                head("text/event-stream"),
                RawStep::send("id: 7\nretry: 10\ndata:\n\n"),
            ]))
            .after_connect(|servers| {
                let end = Fault::raw_steps([head("text/event-stream")]);
                servers.hostile.arm(end.on("GET").always());
            })
            .expects(outcome_unknown("ended before the response"))
            .also_checks(|servers| {
                let resumed = servers.hostile.requests();
                let resumed = resumed.iter().filter(|received| received.header("last-event-id").is_some());
                assert!((1..=6).contains(&resumed.count()));
            });

    h26_foreign_messages_before_response: "responses and progress of other requests, then the response" =>
        responds_with_events([
            RawStep::send("data: {\"jsonrpc\":\"2.0\",\"method\":\"notifications/progress\",\"params\":{\"progressToken\":999,\"progress\":1}}\n\n"),
            RawStep::send("data: {\"jsonrpc\":\"2.0\",\"id\":999,\"result\":{\"content\":[{\"type\":\"text\",\"text\":\"wrong\"}]}}\n\n"),
            RawStep::send("data: {\"jsonrpc\":\"2.0\",\"method\":\"notifications/cancelled\",\"params\":{\"requestId\":$ID}}\n\n"),
            valid_event(),
        ])
            .expects(text("right"));
    h26_only_a_foreign_response: "only a response to another request" =>
        events("data: {\"jsonrpc\":\"2.0\",\"id\":999,\"result\":{\"content\":[]}}\n\n")
            .expects(outcome_unknown("ended before the response"));
    h26_foreign_response_as_json: "a response to another request, as JSON" =>
        responds_with([
            head("application/json"),
            RawStep::send(r#"{"jsonrpc":"2.0","id":999,"result":{"content":[]}}"#),
        ])
            .expects(crate::table::invalid_response("holds no response to the request"));
    h26_requests_of_a_modern_server: "a modern server sends requests, which it may not" =>
        responds_with_events([
            RawStep::send("data: {\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"roots/list\"}\n\n"),
            RawStep::send("data: {\"jsonrpc\":\"2.0\",\"id\":2,\"method\":\"sampling/createMessage\",\"params\":{}}\n\n"),
            valid_event(),
        ])
            .expects(text("right"));

    h28_a_million_lines: "a million empty data lines before the response" =>
        responds_with_events([RawStep::send_times(1_000_000, "data:\n"), valid_event()])
            .expects(text("right"));
    h28_endless_lines: "one event with endless data lines" =>
        responds_with_events([RawStep::send_forever("data:\n")])
            .memory(32)
            .call_timeout(1_500)
            .expects(timed_out());
    h28_a_million_fields: "a million `id` fields before the response" =>
        responds_with_events([RawStep::send_times(1_000_000, "id: 1\n"), valid_event()])
            .expects(text("right"));
    h28_a_million_empty_events: "a million empty events before the response" =>
        responds_with_events([RawStep::send_times(1_000_000, "id: 1\n\n"), valid_event()])
            .expects(text("right"));

    h29_carriage_returns: "lines end with CR" => valid_event_with_line_ends("\r", "\r").expects(text("right"));
    h29_cr_lf: "lines end with CR LF" => valid_event_with_line_ends("\r\n", "\r\n").expects(text("right"));
    h29_mixed: "line ends are mixed" => valid_event_with_line_ends("\r", "\n\n").expects(text("right"));
    h29_byte_order_mark: "the stream begins with a byte order mark" =>
        events(format!("\u{feff}data: {VALID_RESPONSE}\n\n")).expects(text("right"));
    h29_two_byte_order_marks: "the stream begins with two byte order marks" =>
        events(format!("\u{feff}\u{feff}data: {VALID_RESPONSE}\n\ndata: {VALID_RESPONSE}\n\n")).expects(text("right"));
    h29_zero_bytes: "zero bytes between the events" =>
        events(format!("\0\0\n\0: \0\n\ndata: {VALID_RESPONSE}\n\n")).expects(text("right"));
    h29_noise_on_sse_2024_stream: "invalid messages on the 2024 event stream before the response" =>
        Case::sse()
            .script(|script| script.on("tools/call work", [Step::raw("[1]"), Step::raw("noise"), Step::text("right")]))
            .expects(text("right"));
}
