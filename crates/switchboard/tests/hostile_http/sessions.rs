//! Legacy transports: endpoint URLs, session ids, duplicate responses and session deletion.

use std::collections::BTreeSet;
use std::time::Duration;

use switchboard_testkit::Step;
use switchboard_testkit::http::{Fault, RawStep};

use crate::harness::TestServers;
use crate::table::{Case, Start, VALID_RESPONSE, head, text, timed_out};

/// A server of the transport of 2024-11-05 that announces this endpoint URL.
fn endpoint(url: &'static str) -> Case {
    Case::sse()
        .before_start(|servers| servers.hostile.set_endpoint(url))
        .start_fails(Start::Failed("the endpoint URL"))
}

/// A server of the transport of 2024-11-05 that announces an endpoint URL of another origin.
fn endpoint_at_other_origin(url: fn(&TestServers) -> String) -> Case {
    Case::sse()
        .before_start(move |servers| servers.hostile.set_endpoint(&url(servers)))
        .start_fails(Start::Failed("has another origin"))
        .also_checks(|servers| assert_eq!(servers.other.connections(), 0))
}

/// A server of the transport of 2024-11-05 whose event stream always begins with these steps.
fn stream_starting_with(steps: impl IntoIterator<Item = RawStep>) -> Case {
    let steps = std::iter::once(head("text/event-stream")).chain(steps);
    Case::sse().fault_at_start(Fault::raw_steps(steps).on("GET").always())
}

const INITIALIZE_RESPONSE: &str = r#"{"jsonrpc":"2.0","id":$ID,"result":{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{"name":"hostile","version":"1"}}}"#;

/// A server that answers `initialize` with this additional header line.
fn initialize_with_header(line: &str) -> Case {
    let head = format!(
        "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n{line}\r\nConnection: close\r\n\r\n"
    );
    let response = Fault::raw_steps([RawStep::send(head), RawStep::send(INITIALIZE_RESPONSE)]);
    Case::legacy().fault_at_start(response.on("initialize").always())
}

fn session_ids(servers: &TestServers) -> BTreeSet<String> {
    let requests = servers.hostile.requests();
    let ids = requests
        .iter()
        .filter_map(|received| received.header("mcp-session-id"));
    ids.map(str::to_owned).collect()
}

/// A server that answers the DELETE request that ends the session with this fault.
fn delete_fails_with(fault: Fault) -> Case {
    Case::legacy()
        .expects(text("right"))
        .after_connect(|servers| servers.hostile.arm(fault.on("DELETE").always()))
        .also_checks(|servers| {
            let requests = servers.hostile.requests();
            assert_eq!(
                requests
                    .iter()
                    .filter(|received| received.method == "DELETE")
                    .count(),
                1
            );
        })
}

cases! {
    l01_another_port: "endpoint at another port" =>
        endpoint_at_other_origin(|servers| format!("http://{}/message", servers.other.address()));
    l01_another_host_name: "endpoint at the same host under another name" =>
        endpoint_at_other_origin(|servers| format!("http://localhost:{}/message", servers.hostile.address().port()));
    l01_user_name_before_the_host: "endpoint at another host, with the own host as user name" =>
        endpoint_at_other_origin(|servers| format!("http://{}@{}/message", servers.hostile.address(), servers.other.address()));

    l02_no_scheme: "endpoint without a scheme" =>
        endpoint_at_other_origin(|servers| format!("//{}/message", servers.other.address()));
    l02_backslashes: "endpoint with backslashes" =>
        endpoint_at_other_origin(|servers| format!("\\\\{}\\message", servers.other.address()));
    l02_another_scheme: "endpoint with another scheme" =>
        endpoint_at_other_origin(|servers| format!("https://{}/message", servers.hostile.address()));
    l02_script: "endpoint is a javascript URL" => endpoint("javascript:alert(1)");
    l02_file: "endpoint is a file URL" => endpoint("file:///etc/passwd");
    l02_invalid_url: "endpoint is an invalid URL" => endpoint("http://[");
    l02_endless_url: "endpoint URL is endless" =>
        stream_starting_with([RawStep::send("event: endpoint\ndata: /"), RawStep::send_forever("a")])
            .limits(|limits| limits.message_bytes = 2 * 1024 * 1024)
            .start_fails(Start::Retried("an event without an end"));

    l04_no_endpoint: "no `endpoint` event" =>
        stream_starting_with([RawStep::Hang])
            .startup_timeout(700)
            .start_fails(Start::Retried("no response to the handshake within 700ms"));
    l04_comments: "endless comments instead of the `endpoint` event" =>
        stream_starting_with([RawStep::send_forever(": wait

")])
            .startup_timeout(700)
            .start_fails(Start::Retried("no response to the handshake within 700ms"));
    l04_another_event: "the first event is not `endpoint`" =>
        stream_starting_with([RawStep::send("data: hello\n\n"), RawStep::Hang])
            .start_fails(Start::Retried("the first event is not `endpoint`"));
    l04_stream_ends: "the stream ends before the `endpoint` event" =>
        stream_starting_with([])
            .start_fails(Start::Retried("ended before the `endpoint` event"));
    l04_not_an_event_stream: "the response is not an event stream" =>
        Case::sse()
            .fault_at_start(Fault::status(200).header("Content-Type", "text/html").body("hello").always())
            .start_fails(Start::Retried("is not an event stream"));

    l05_no_response: "no response to a call on the stream" =>
        Case::sse()
            .script(|script| script.on("tools/call work", [Step::Hang]))
            .call_timeout(500)
            .expects(timed_out());
    l05_no_response_at_start: "no response to any request on the stream" =>
        Case::sse()
            .script(|script| script.on("*", [Step::Hang]))
            .startup_timeout(700)
            .start_fails(Start::Retried("no response to the handshake within 700ms"));

    l07_line_end: "session id contains a folded line" =>
        initialize_with_header("Mcp-Session-Id: a\r\n b").gets_no_session();
    l07_non_ascii: "session id is not ASCII" =>
        initialize_with_header("Mcp-Session-Id: sitzung-für-dich").gets_no_session();
    l07_blank: "session id contains a blank" =>
        initialize_with_header("Mcp-Session-Id: a b").gets_no_session();
    l07_empty: "session id is empty" => initialize_with_header("Mcp-Session-Id:").gets_no_session();
    l07_long: "session id of one kilobyte" =>
        initialize_with_header(&format!("Mcp-Session-Id: {}", "a".repeat(1024))).gets_no_session();
    l07_very_long: "session id of one mebibyte" =>
        initialize_with_header(&format!("Mcp-Session-Id: {}", "a".repeat(1024 * 1024))).gets_no_session();

    l08_session_id_changes: "later responses carry another session id" =>
        Case::legacy()
            .fault_on_work(Fault::raw_steps([
                RawStep::send("HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nMcp-Session-Id: another\r\nConnection: close\r\n\r\n"),
                RawStep::send(VALID_RESPONSE),
            ]))
            .expects(text("right"))
            .expects(text("right"))
            .also_checks(|servers| assert_eq!(session_ids(servers), BTreeSet::from(["session-1-1".to_owned()])));

    l09_session_expires_on_every_call: "HTTP 404 for every call in a session" =>
        Case::legacy()
            .after_connect(|servers| servers.hostile.arm(Fault::status(404).on("tools/call work").always()))
            .call_timeout(3_000)
            .expects(crate::table::not_executed())
            .reconnects()
            .also_checks(|servers| {
                let sessions = servers.hostile.count("initialize");
                let most = 4 + servers.start_time.elapsed().as_millis() / 700;
                assert!(sessions as u128 <= most, "{sessions} sessions");
                assert_eq!(servers.hostile.count("tools/call work"), 0);
                assert_eq!(servers.work_requests().len(), 1);
            });
    l09_session_expires_after_a_call_ran: "HTTP 404 for a call that the server executed" =>
        Case::legacy()
            .fault_on_work(Fault::status(404).after_execution())
            .expects(crate::table::not_executed())
            .reconnects()
            .also_checks(|servers| {
                assert_eq!(servers.hostile.count("tools/call work"), 1);
                assert_eq!(servers.work_requests().len(), 1);
            });

    l11_duplicate_response: "the same response twice" =>
        Case::sse()
            .script(|script| script.on("tools/call work", [Step::raw(VALID_RESPONSE), Step::raw(VALID_RESPONSE)]))
            .expects(text("right"))
            .expects(text("right"));
    l11_duplicate_response_after_resume: "the same response twice on a resumed stream" =>
        Case::legacy()
            .script(|script| script.on("tools/call work", [Step::raw(VALID_RESPONSE), Step::raw(VALID_RESPONSE)]))
            .fault_on_work(Fault::end_stream_with_retry(Duration::from_millis(10)))
            .expects(text("right"))
            .expects(text("right"))
            .also_checks(|servers| assert_eq!(servers.hostile.count("tools/call work"), 2));
    l11_messages_after_response: "another response 500 ms after the first" =>
        Case::legacy()
            .script(|script| {
                let steps = [Step::raw(VALID_RESPONSE), Step::DelayMs(500), Step::raw(VALID_RESPONSE)];
                script.on("tools/call work", steps)
            })
            .expects(text("right"))
            .expects(text("right"))
            .expects(text("right"));

    l12_not_allowed: "HTTP 405 for DELETE" => delete_fails_with(Fault::status(405));
    l12_hangs: "no response to DELETE" => delete_fails_with(Fault::hang());
    l12_reset: "connection reset on DELETE" =>
        delete_fails_with(Fault::close_before_execution().with_reset());
    l12_endless: "endless response to DELETE" =>
        delete_fails_with(Fault::raw_steps([head("text/plain"), RawStep::send_forever("deleted ")]));
}
