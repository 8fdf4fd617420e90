//! Servers that do not respond in time, and connections that close when they are reused.

use std::time::Duration;

use switchboard_testkit::http::{Fault, RawStep};

use crate::harness::TestServers;
use crate::table::{Case, Start, outcome_unknown, text, timed_out};

/// Sends the response at one byte every 100 ms.
fn one_byte_at_a_time() -> Fault {
    Fault::slow(1, Duration::from_millis(100))
}

/// Checks that the server received the call of `work` once and did not execute it.
fn received_once(servers: &TestServers) {
    assert_eq!(
        servers.hostile.requests_with("tools/call").len() - echo_calls(servers),
        1
    );
    assert_eq!(servers.hostile.count("tools/call work"), 0);
}

fn echo_calls(servers: &TestServers) -> usize {
    servers.hostile.count("tools/call echo")
}

cases! {
    h19_no_tls_handshake: "https to a server that accepts and sends nothing" =>
        Case::modern()
            .at(|servers| servers.silent.url().replace("http:", "https:"))
            .start_fails(Start::Retried("within 500ms"))
            .also_checks(|servers| assert!(servers.silent.connections() <= 3));
    h19_plain_http_for_https: "https to a server that speaks plain HTTP" =>
        Case::modern()
            .at(|servers| servers.hostile.url().replace("http:", "https:"))
            .start_fails(Start::Retried("closed the connection"));
    h19_no_response_at_start: "no response to any request" =>
        Case::modern()
            .fault_at_start(Fault::hang().always())
            .startup_timeout(1_000)
            .start_fails(Start::Retried("no response to the handshake within 1s"));
    h19_no_sse_2024_stream: "no response to the request for the 2024 event stream" =>
        Case::sse()
            .fault_at_start(Fault::hang().always())
            .startup_timeout(1_000)
            .start_fails(Start::Retried("no response to the handshake within 1s"));
    h19_no_response_to_call: "no response to a call" =>
        Case::modern().fault_on_work(Fault::hang()).call_timeout(500).expects(timed_out());
    h19_no_response_to_listing: "no response to the tool listing" =>
        Case::modern()
            .fault_at_start(Fault::hang().on("tools/list"))
            .startup_timeout(1_000)
            .start_fails(Start::ListingFailed("no response within"));
    h19_no_listen_stream: "no response to the request for the listen stream" =>
        Case::legacy()
            .fault_at_start(Fault::hang().on("GET").always())
            .expects(text("right"));

    h20_slow_response: "response at one byte per 100 ms" =>
        Case::modern().fault_on_work(one_byte_at_a_time()).call_timeout(700).expects(timed_out());
    h20_slow_start: "all responses at one byte per 100 ms" =>
        Case::modern()
            .fault_at_start(one_byte_at_a_time().always())
            .startup_timeout(1_000)
            .start_fails(Start::Retried("no response to the handshake within 1s"));
    h20_slow_sse_2024_stream: "the 2024 event stream at one byte per 100 ms" =>
        Case::sse()
            .fault_at_start(one_byte_at_a_time().always())
            .startup_timeout(1_000)
            .start_fails(Start::Retried("no response to the handshake within 1s"));

    h39_closed_on_reuse: "reused connection closes when the next request is written" =>
        Case::modern()
            .fault_on_work(Fault::close_before_execution())
            .expects(outcome_unknown(""))
            .also_checks(received_once);
    h39_reset_on_reuse: "reused connection is reset when the next request is written" =>
        Case::modern()
            .fault_on_work(Fault::close_before_execution().with_reset())
            .expects(outcome_unknown(""))
            .also_checks(received_once);
    h39_closed_mid_request: "connection closes in the middle of a request" =>
        Case::modern()
            .after_connect(|servers| servers.hostile.arm(Fault::close_in_body().on("tools/call")))
            .expects(outcome_unknown(""))
            .also_checks(|servers| {
                let requests = servers.hostile.requests();
                assert_eq!(requests.iter().filter(|received| !received.is_complete).count(), 1);
                assert_eq!(servers.hostile.count("tools/call work"), 0);
            });
    h39_closed_after_each_response: "connection closes after each response without announcement" =>
        Case::modern()
            .after_connect(|servers| {
                servers.hostile.arm(Fault::close_after_response().always());
                servers.hostile.close_idle_connections();
            })
            .waits_for_closed_connections()
            .expects(text("right"))
            .expects(text("right"))
            .expects(text("right"))
            .also_checks(|servers| assert_eq!(servers.hostile.count("tools/call work"), 3));
    h39_unrequested_second_response: "a second response that no request asked for" =>
        Case::modern()
            .fault_on_work(Fault::raw_steps([
                RawStep::send("HTTP/1.1 500 Oh No\r\nContent-Length: 0\r\n\r\nHTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n{}"),
                RawStep::Hang,
            ]))
            .expects(outcome_unknown("HTTP 500"))
            .expects(text("right"));
}
