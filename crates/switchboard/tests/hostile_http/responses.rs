//! Answers in good order that say something strange, and tools that ask for strange headers.

use serde_json::{Value, json};
use switchboard_testkit::http::{Fault, Mode, RawStep};

use crate::harness::Stage;
use crate::table::{RIGHT, Row, Start, head, modern, refused, text, unknown, unusable, working};

/// A server with one more tool, whose schema has these properties.
fn with_tool(properties: &Value) -> Row {
    let schema = json!({"type": "object", "properties": properties});
    let tool = json!({"name": "odd", "inputSchema": schema});
    Row::modern()
        .script(|script| script.raw_tool(tool))
        .sees(text("right"))
}

/// The tool is left out, and a note says so.
fn leaves_it_out(properties: &Value) -> Row {
    with_tool(properties).holds(|stage| {
        let inspection = stage.inspection();
        let tools = inspection.status.tools;
        assert!(tools.iter().all(|tool| tool.name != "odd"), "{tools:?}");
        let notes = inspection.notes;
        assert!(notes.iter().any(|note| note.contains("odd")), "{notes:?}");
    })
}

/// `work` is called with this text, which a header repeats.
fn mirrored(argument: &'static str) -> Row {
    let schema = json!({
        "type": "object",
        "properties": {"place": {"type": "string", "x-mcp-header": "Place"}},
    });
    let script = switchboard_testkit::Script::modern()
        .raw_tool(json!({"name": "work", "inputSchema": schema}))
        .tool("echo")
        .on(
            "tools/call work",
            [switchboard_testkit::Step::text("right")],
        );
    Row::of(script, Mode::JSON, switchboard_config::RemoteKind::Http)
        .arguments(json!({"place": argument}))
        .sees(text("right"))
        .holds(move |stage| {
            let calls = stage.server.requests_with("tools/call");
            let call = &calls[0];
            assert_eq!(call.json()["params"]["arguments"]["place"], argument);
            assert_eq!(call.header("x-evil"), None);
            let header = call.header("mcp-param-place").unwrap();
            assert!(header.is_ascii(), "{header}");
            assert!(header.starts_with("=?base64?"), "{header}");
        })
}

/// A page that asks for a login, where an answer is due.
fn login_page() -> Fault {
    Fault::status(200)
        .header("Content-Type", "text/html; charset=utf-8")
        .body("<html><form action='/login'>who are you?</form></html>")
}

fn mismatch() -> Fault {
    let error =
        r#"{"jsonrpc":"2.0","id":$ID,"error":{"code":-32020,"message":"headers and body differ"}}"#;
    Fault::raw_steps([
        RawStep::send(
            "HTTP/1.1 400 Bad Request\r\nContent-Type: application/json\r\nConnection: close\r\n\r\n",
        ),
        RawStep::send(error),
    ])
}

fn result(members: &str) -> Row {
    let answer = format!(r#"{{"jsonrpc":"2.0","id":$ID,"result":{{{members}}}}}"#);
    working([head("application/json"), RawStep::send(answer)])
}

fn nobody_got_a_cookie(stage: &Stage) {
    let seen = stage.server.requests();
    assert!(seen.iter().all(|seen| seen.header("cookie").is_none()));
    let others = [stage.elsewhere.received_bytes(), stage.healthy_bytes()].concat();
    let others = String::from_utf8_lossy(&others).to_lowercase();
    assert!(!others.contains("cookie"));
}

rows! {
    h13_line_ends: "wants a header with a line end in its name" =>
        leaves_it_out(&json!({"a": {"type": "string", "x-mcp-header": "a\r\nX-Evil: y"}}));
    h13_no_name: "wants a header without a name" =>
        leaves_it_out(&json!({"a": {"type": "string", "x-mcp-header": ""}}));
    h13_no_text: "wants a header whose name is no text" =>
        leaves_it_out(&json!({"a": {"type": "string", "x-mcp-header": 7}}));
    h13_the_same_name_twice: "wants one header for two arguments" =>
        leaves_it_out(&json!({
            "a": {"type": "string", "x-mcp-header": "Same"},
            "b": {"type": "string", "x-mcp-header": "same"},
        }));

    h15_array: "wants a header for a list" =>
        leaves_it_out(&json!({"a": {"type": "array", "x-mcp-header": "A"}}));
    h15_object: "wants a header for an object" =>
        leaves_it_out(&json!({"a": {"type": "object", "x-mcp-header": "A"}}));
    h15_number: "wants a header for any number" =>
        leaves_it_out(&json!({"a": {"type": "number", "x-mcp-header": "A"}}));
    h15_in_a_list: "wants a header for what is in a list" =>
        leaves_it_out(&json!({"a": {"type": "array", "items": {"type": "string", "x-mcp-header": "A"}}}));
    h15_nested: "wants a header for what is in an object" =>
        with_tool(&json!({"a": {"type": "object", "properties": {"b": {"type": "string", "x-mcp-header": "B"}}}}));

    h16_line_ends: "gets an argument with line ends, which a header repeats" =>
        mirrored("a\r\nX-Evil: y");
    h16_zero_byte: "gets an argument with a zero byte, which a header repeats" =>
        mirrored("a\0b");
    h16_other_letters: "gets an argument in other letters, which a header repeats" =>
        mirrored("Zürich, 東京");
    h16_looks_encoded: "gets an argument that looks encoded, which a header repeats" =>
        mirrored("=?base64?WC1FdmlsOiB5?=");

    h17_login_page: "answers with a page that asks for a login" =>
        Row::modern().works(login_page()).sees(unknown("text/html"));
    h17_login_page_at_the_start: "has nothing but a page that asks for a login" =>
        Row::modern()
            .begins(login_page().always())
            .does_not_start(Start::Retried("text/html"));
    h17_login_page_in_disguise: "calls a page JSON" =>
        working([head("application/json"), RawStep::send("<html>who are you?</html>")])
            .sees(unusable(""));
    h17_no_kind: "does not say what it answers with" =>
        Row::modern().works(Fault::status(200).body(RIGHT)).sees(unknown("but sent no response"));

    h18_accepted: "takes a call as if it were a notification" =>
        Row::modern().works(Fault::status(202)).sees(unknown("but sent no response"));
    h18_no_content: "has nothing to say to a call" =>
        Row::modern().works(Fault::status(204)).sees(unknown("but sent no response"));
    h18_accepted_at_the_start: "takes whatever it is asked as if it were a notification" =>
        Row::modern()
            .begins(Fault::status(202).always())
            .does_not_start(Start::Retried("but sent no response"));
    h18_switches_the_protocol: "wants to speak something else" =>
        working([RawStep::send("HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: evil\r\n\r\n"), RawStep::Hang])
            .sees(refused("HTTP 101"));
    h18_empty: "answers a call with nothing" =>
        working([head("application/json")]).sees(unusable("holds no response"));

    h35_result_type: "answers with a kind of result that nobody knows" =>
        result(r#""resultType":"surprise","content":[{"type":"text","text":"right"}]"#)
            .sees(unusable("surprise"));
    h35_result_type_of_no_text: "answers with a kind of result that is no text" =>
        result(r#""resultType":{"a":1},"content":[{"type":"text","text":"right"}]"#)
            .sees(unusable(""));

    h37_mismatch_for_ever: "says for ever that headers and body differ" =>
        Row::modern()
            .then(|stage| stage.server.arm(mismatch().on("tools/call work").always()))
            .sees(refused("headers and body differ"))
            .holds(|stage| {
                assert!(stage.server.requests_with("tools/call").len() <= 3);
                assert!(stage.server.count("tools/list") <= 3);
            });
    h37_mismatch_at_the_start: "says from the start that headers and body differ" =>
        Row::modern()
            .begins(mismatch().always())
            .does_not_start(Start::Failed("headers and body differ"))
            .holds(|stage| assert!(stage.server.requests().len() <= 4));

    h38_cookies: "wants to know us again by a cookie" =>
        Row::of(modern(), Mode::JSON, switchboard_config::RemoteKind::Http)
            .works(Fault::raw_steps([
                RawStep::send("HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nSet-Cookie: id=1; Domain=127.0.0.1; Path=/\r\nConnection: close\r\n\r\n"),
                RawStep::send(RIGHT),
            ]))
            .sees(text("right"))
            .sees(text("right"))
            .holds(nobody_got_a_cookie);
}
