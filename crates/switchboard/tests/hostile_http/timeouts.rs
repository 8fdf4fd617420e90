//! Servers that take for ever, and connections that are gone when they are needed.

use std::time::Duration;

use switchboard_testkit::http::{Fault, RawStep};

use crate::harness::Stage;
use crate::table::{Row, Start, text, timed_out, unknown};

/// One byte every 100 ms.
fn dripping() -> Fault {
    Fault::slow(1, Duration::from_millis(100))
}

/// The call arrived once, and was not carried out.
fn came_once(stage: &Stage) {
    assert_eq!(
        stage.server.requests_with("tools/call").len() - echoes(stage),
        1
    );
    assert_eq!(stage.server.count("tools/call work"), 0);
}

fn echoes(stage: &Stage) -> usize {
    stage.server.count("tools/call echo")
}

rows! {
    h19_no_tls: "takes connections, and does not encrypt them" =>
        Row::modern()
            .at(|stage| stage.mute.url().replace("http:", "https:"))
            .does_not_start(Start::Retried("within 500ms"))
            .holds(|stage| assert!(stage.mute.connections() <= 3));
    h19_closes_instead: "closes connections that are to be encrypted" =>
        Row::modern()
            .at(|stage| stage.server.url().replace("http:", "https:"))
            .does_not_start(Start::Retried("closed the connection"));
    h19_no_word: "takes connections, and says nothing" =>
        Row::modern()
            .begins(Fault::hang().always())
            .startup_timeout(1_000)
            .does_not_start(Start::Retried("no answer to the handshake within 1s"));
    h19_no_word_on_the_one_stream: "takes connections, and begins no stream" =>
        Row::sse()
            .begins(Fault::hang().always())
            .startup_timeout(1_000)
            .does_not_start(Start::Retried("no answer to the handshake within 1s"));
    h19_no_word_to_a_call: "takes a call, and says nothing" =>
        Row::modern().works(Fault::hang()).call_timeout(500).sees(timed_out());
    h19_no_word_to_the_listing: "says what it is, and never lists its tools" =>
        Row::modern()
            .begins(Fault::hang().on("tools/list"))
            .startup_timeout(1_000)
            .does_not_start(Start::Unlisted("no response within"));
    h19_no_stream: "never begins the stream of what it says unasked" =>
        Row::legacy()
            .begins(Fault::hang().on("GET").always())
            .sees(text("right"));

    h20_slow_head: "answers a byte at a time" =>
        Row::modern().works(dripping()).call_timeout(700).sees(timed_out());
    h20_slow_start: "answers a byte at a time from the start" =>
        Row::modern()
            .begins(dripping().always())
            .startup_timeout(1_000)
            .does_not_start(Start::Retried("no answer to the handshake within 1s"));
    h20_slow_stream: "answers a byte at a time on its one stream" =>
        Row::sse()
            .begins(dripping().always())
            .startup_timeout(1_000)
            .does_not_start(Start::Retried("no answer to the handshake within 1s"));

    h39_closed_when_used_again: "closes a connection just as the next request is written to it" =>
        Row::modern()
            .works(Fault::close_before_execution())
            .sees(unknown(""))
            .holds(came_once);
    h39_reset_when_used_again: "breaks a connection just as the next request is written to it" =>
        Row::modern()
            .works(Fault::close_before_execution().with_reset())
            .sees(unknown(""))
            .holds(came_once);
    h39_closed_in_the_request: "closes a connection in the middle of a request" =>
        Row::modern()
            .then(|stage| stage.server.arm(Fault::close_in_body().on("tools/call")))
            .sees(unknown(""))
            .holds(|stage| {
                let seen = stage.server.requests();
                assert_eq!(seen.iter().filter(|seen| !seen.is_complete).count(), 1);
                assert_eq!(stage.server.count("tools/call work"), 0);
            });
    h39_closed_after_each_answer: "closes every connection after its answer, and does not say so" =>
        Row::modern()
            .then(|stage| stage.server.arm(Fault::close_after_answer().always()))
            .sees(text("right"))
            .sees(text("right"))
            .sees(text("right"))
            .holds(|stage| assert_eq!(stage.server.count("tools/call work"), 3));
    h39_says_more_than_it_was_asked: "answers requests that nobody has made yet" =>
        Row::modern()
            .works(Fault::raw_steps([
                RawStep::send("HTTP/1.1 500 Oh No\r\nContent-Length: 0\r\n\r\nHTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n{}"),
                RawStep::Hang,
            ]))
            .sees(unknown("HTTP 500"))
            .sees(text("right"));
}
