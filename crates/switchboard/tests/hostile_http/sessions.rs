//! The legacy transports: where to post, who we are, and how it ends.

use std::collections::BTreeSet;
use std::time::Duration;

use switchboard_testkit::Step;
use switchboard_testkit::http::{Fault, RawStep};

use crate::harness::Stage;
use crate::table::{RIGHT, Row, Start, head, text, timed_out};

/// A server of the first transport that wants requests posted to this place.
fn posting_to(place: &'static str) -> Row {
    Row::sse()
        .before(|stage| stage.server.set_endpoint(place))
        .does_not_start(Start::Failed("the endpoint URL"))
}

/// The same, and the place is that of the other server, in some spelling.
fn posting_elsewhere(spell: fn(&Stage) -> String) -> Row {
    Row::sse()
        .before(move |stage| stage.server.set_endpoint(&spell(stage)))
        .does_not_start(Start::Failed("has another origin"))
        .holds(|stage| assert_eq!(stage.elsewhere.connections(), 0))
}

/// A stream that begins with these steps, whenever it is asked for.
fn beginning_with(steps: impl IntoIterator<Item = RawStep>) -> Row {
    let steps = std::iter::once(head("text/event-stream")).chain(steps);
    Row::sse().begins(Fault::raw_steps(steps).on("GET").always())
}

const HELLO: &str = r#"{"jsonrpc":"2.0","id":$ID,"result":{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{"name":"hostile","version":"1"}}}"#;

/// Begins a session with this line in the head of the answer.
fn session_named(line: &str) -> Row {
    let head = format!(
        "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n{line}\r\nConnection: close\r\n\r\n"
    );
    let answer = Fault::raw_steps([RawStep::send(head), RawStep::send(HELLO)]);
    Row::legacy().begins(answer.on("initialize").always())
}

fn session_ids(stage: &Stage) -> BTreeSet<String> {
    let seen = stage.server.requests();
    let ids = seen.iter().filter_map(|seen| seen.header("mcp-session-id"));
    ids.map(str::to_owned).collect()
}

/// Ends the session with this fault.
fn leaving(fault: Fault) -> Row {
    Row::legacy()
        .sees(text("right"))
        .then(|stage| stage.server.arm(fault.on("DELETE").always()))
        .holds(|stage| {
            let seen = stage.server.requests();
            assert_eq!(
                seen.iter().filter(|seen| seen.method == "DELETE").count(),
                1
            );
        })
}

rows! {
    l01_another_port: "wants requests posted to another port" =>
        posting_elsewhere(|stage| format!("http://{}/message", stage.elsewhere.address()));
    l01_another_name: "wants requests posted to the same host by another name" =>
        posting_elsewhere(|stage| format!("http://localhost:{}/message", stage.server.address().port()));
    l01_a_name_before_the_host: "wants requests posted to what looks like itself" =>
        posting_elsewhere(|stage| format!("http://{}@{}/message", stage.server.address(), stage.elsewhere.address()));

    l02_no_scheme: "wants requests posted to a host without a scheme" =>
        posting_elsewhere(|stage| format!("//{}/message", stage.elsewhere.address()));
    l02_backslashes: "wants requests posted to a host behind backslashes" =>
        posting_elsewhere(|stage| format!("\\\\{}\\message", stage.elsewhere.address()));
    l02_another_scheme: "wants requests posted with another scheme" =>
        posting_elsewhere(|stage| format!("https://{}/message", stage.server.address()));
    l02_script: "wants requests posted to a script" => posting_to("javascript:alert(1)");
    l02_file: "wants requests posted to a file" => posting_to("file:///etc/passwd");
    l02_no_address: "wants requests posted to what is no address" => posting_to("http://[");
    l02_long: "wants requests posted to an address that does not end" =>
        beginning_with([RawStep::send("event: endpoint\ndata: /"), RawStep::send_forever("a")])
            .limits(|limits| limits.message_bytes = 2 * 1024 * 1024)
            .does_not_start(Start::Retried("an event without an end"));

    l04_no_endpoint: "never says where to post" =>
        beginning_with([RawStep::Hang])
            .startup_timeout(700)
            .does_not_start(Start::Retried("no answer to the handshake within 700ms"));
    l04_comments: "writes comments, and never says where to post" =>
        beginning_with([RawStep::send_forever(": patience\n\n")])
            .startup_timeout(700)
            .does_not_start(Start::Retried("no answer to the handshake within 700ms"));
    l04_another_event: "begins with another event" =>
        beginning_with([RawStep::send("data: hello\n\n"), RawStep::Hang])
            .does_not_start(Start::Retried("the first event is not `endpoint`"));
    l04_end: "ends the stream before it says where to post" =>
        beginning_with([])
            .does_not_start(Start::Retried("ended before the `endpoint` event"));
    l04_no_events: "begins something else than a stream" =>
        Row::sse()
            .begins(Fault::status(200).header("Content-Type", "text/html").body("hello").always())
            .does_not_start(Start::Retried("is not an event stream"));

    l05_no_answer: "takes a call, and never answers it on the stream" =>
        Row::sse()
            .script(|script| script.on("tools/call work", [Step::Hang]))
            .call_timeout(500)
            .sees(timed_out());
    l05_no_answer_at_the_start: "takes whatever it is asked, and never answers on the stream" =>
        Row::sse()
            .script(|script| script.on("*", [Step::Hang]))
            .startup_timeout(700)
            .does_not_start(Start::Retried("no answer to the handshake within 700ms"));

    l07_line_end: "names the session with a line end in it" =>
        session_named("Mcp-Session-Id: a\r\n b").gets_no_session();
    l07_other_letters: "names the session in other letters" =>
        session_named("Mcp-Session-Id: sitzung-für-dich").gets_no_session();
    l07_blank: "names the session with a blank in it" =>
        session_named("Mcp-Session-Id: a b").gets_no_session();
    l07_empty: "names the session with nothing" => session_named("Mcp-Session-Id:").gets_no_session();
    l07_long: "names the session with a kilobyte" =>
        session_named(&format!("Mcp-Session-Id: {}", "a".repeat(1024))).gets_no_session();
    l07_very_long: "names the session with a mebibyte" =>
        session_named(&format!("Mcp-Session-Id: {}", "a".repeat(1024 * 1024))).gets_no_session();

    l08_changes: "names the session differently in later answers" =>
        Row::legacy()
            .works(Fault::raw_steps([
                RawStep::send("HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nMcp-Session-Id: another\r\nConnection: close\r\n\r\n"),
                RawStep::send(RIGHT),
            ]))
            .sees(text("right"))
            .sees(text("right"))
            .holds(|stage| assert_eq!(session_ids(stage), BTreeSet::from(["session-1-1".to_owned()])));

    l09_forgets_every_session: "forgets the session whenever a tool is called" =>
        Row::legacy()
            .then(|stage| stage.server.arm(Fault::status(404).on("tools/call work").always()))
            .call_timeout(3_000)
            .sees(crate::table::not_carried_out())
            .comes_back()
            .holds(|stage| {
                let sessions = stage.server.count("initialize");
                let most = 4 + stage.start_time.elapsed().as_millis() / 700;
                assert!(sessions as u128 <= most, "{sessions} sessions");
                assert_eq!(stage.server.count("tools/call work"), 0);
            });

    l11_answers_twice: "sends the same answer twice" =>
        Row::sse()
            .script(|script| script.on("tools/call work", [Step::raw(RIGHT), Step::raw(RIGHT)]))
            .sees(text("right"))
            .sees(text("right"));
    l11_answers_twice_after_it_went_on: "sends the same answer twice when its stream is taken up again" =>
        Row::legacy()
            .script(|script| script.on("tools/call work", [Step::raw(RIGHT), Step::raw(RIGHT)]))
            .works(Fault::end_stream_with_retry(Duration::from_millis(10)))
            .sees(text("right"))
            .sees(text("right"))
            .holds(|stage| assert_eq!(stage.server.count("tools/call work"), 2));
    l11_goes_on_after_its_answers: "goes on for a while after each answer" =>
        Row::legacy()
            .script(|script| {
                let steps = [Step::raw(RIGHT), Step::DelayMs(500), Step::raw(RIGHT)];
                script.on("tools/call work", steps)
            })
            .sees(text("right"))
            .sees(text("right"))
            .sees(text("right"));

    l12_not_allowed: "does not let us take leave" => leaving(Fault::status(405));
    l12_hangs: "does not answer when we take leave" => leaving(Fault::hang());
    l12_breaks: "breaks the connection when we take leave" =>
        leaving(Fault::close_before_execution().with_reset());
    l12_endless: "does not end to answer when we take leave" =>
        leaving(Fault::raw_steps([head("text/plain"), RawStep::send_forever("goodbye ")]));
}
