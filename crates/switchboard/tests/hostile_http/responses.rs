//! Well-formed HTTP with unexpected content, and tools that declare unusual parameter headers.

use serde_json::{Value, json};
use switchboard_testkit::http::{Fault, Mode, RawStep};

use crate::harness::TestServers;
use crate::table::{
    Case, Start, VALID_RESPONSE, error_response, head, invalid_response, modern, outcome_unknown,
    responds_with, text,
};

/// A case with an additional tool whose input schema has these properties.
fn with_tool(properties: &Value) -> Case {
    let schema = json!({"type": "object", "properties": properties});
    let tool = json!({"name": "odd", "inputSchema": schema});
    Case::modern()
        .script(|script| script.raw_tool(tool))
        .expects(text("right"))
}

/// Adds a tool whose input schema has these properties. Expects that the host skips the tool and
/// adds a note to the server details.
fn tool_is_skipped(properties: &Value) -> Case {
    with_tool(properties).also_checks(|servers| {
        let details = servers.details();
        let tools = details.status.tools;
        assert!(tools.iter().all(|tool| tool.name != "odd"), "{tools:?}");
        let notes = details.notes;
        assert!(notes.iter().any(|note| note.contains("odd")), "{notes:?}");
    })
}

/// Calls `work` with this argument. The schema of `work` requires the host to repeat the argument
/// as an HTTP header.
fn mirrored(argument: &'static str) -> Case {
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
    Case::new(script, Mode::JSON, switchboard_config::RemoteKind::Http)
        .arguments(json!({"place": argument}))
        .expects(text("right"))
        .also_checks(move |servers| {
            let calls = servers.hostile.requests_with("tools/call");
            let call = &calls[0];
            assert_eq!(call.json()["params"]["arguments"]["place"], argument);
            assert_eq!(call.header("x-evil"), None);
            let header = call.header("mcp-param-place").unwrap();
            assert!(header.is_ascii(), "{header}");
            assert!(header.starts_with("=?base64?"), "{header}");
        })
}

/// A response with HTTP 200 whose body is a login page in HTML.
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

fn result(members: &str) -> Case {
    let response = format!(r#"{{"jsonrpc":"2.0","id":$ID,"result":{{{members}}}}}"#);
    responds_with([head("application/json"), RawStep::send(response)])
}

fn no_cookie_was_sent(servers: &TestServers) {
    let requests = servers.hostile.requests();
    assert!(
        requests
            .iter()
            .all(|received| received.header("cookie").is_none())
    );
    let others = [servers.other.received_bytes(), servers.healthy_bytes()].concat();
    let others = String::from_utf8_lossy(&others).to_lowercase();
    assert!(!others.contains("cookie"));
}

cases! {
    h13_line_ends: "header name contains a line end" =>
        tool_is_skipped(&json!({"a": {"type": "string", "x-mcp-header": "a\r\nX-Evil: y"}}));
    h13_no_name: "header name is empty" =>
        tool_is_skipped(&json!({"a": {"type": "string", "x-mcp-header": ""}}));
    h13_name_is_not_a_string: "header name is not a string" =>
        tool_is_skipped(&json!({"a": {"type": "string", "x-mcp-header": 7}}));
    h13_duplicate_name: "two arguments share one header name" =>
        tool_is_skipped(&json!({
            "a": {"type": "string", "x-mcp-header": "Same"},
            "b": {"type": "string", "x-mcp-header": "same"},
        }));

    h15_array: "header for an array argument" =>
        tool_is_skipped(&json!({"a": {"type": "array", "x-mcp-header": "A"}}));
    h15_object: "header for an object argument" =>
        tool_is_skipped(&json!({"a": {"type": "object", "x-mcp-header": "A"}}));
    h15_number: "header for a fractional number argument" =>
        tool_is_skipped(&json!({"a": {"type": "number", "x-mcp-header": "A"}}));
    h15_array_items: "header for the items of an array" =>
        tool_is_skipped(&json!({"a": {"type": "array", "items": {"type": "string", "x-mcp-header": "A"}}}));
    h15_nested: "header for a member of a nested object" =>
        with_tool(&json!({"a": {"type": "object", "properties": {"b": {"type": "string", "x-mcp-header": "B"}}}}));

    h16_line_ends: "mirrored argument contains line ends" =>
        mirrored("a\r\nX-Evil: y");
    h16_zero_byte: "mirrored argument contains a zero byte" =>
        mirrored("a\0b");
    h16_non_ascii: "mirrored argument is not ASCII" =>
        mirrored("Zürich, 東京");
    h16_looks_encoded: "mirrored argument looks like an encoded value" =>
        mirrored("=?base64?WC1FdmlsOiB5?=");

    h17_login_page: "response is an HTML login page" =>
        Case::modern().fault_on_work(login_page()).expects(outcome_unknown("text/html"));
    h17_login_page_at_start: "every response is an HTML login page" =>
        Case::modern()
            .fault_at_start(login_page().always())
            .start_fails(Start::Retried("text/html"));
    h17_html_labelled_as_json: "HTML with the content type of JSON" =>
        responds_with([head("application/json"), RawStep::send("<html>who are you?</html>")])
            .expects(invalid_response(""));
    h17_no_content_type: "response without Content-Type" =>
        Case::modern().fault_on_work(Fault::status(200).body(VALID_RESPONSE)).expects(outcome_unknown("but sent no response"));

    h18_accepted: "HTTP 202 for a call" =>
        Case::modern().fault_on_work(Fault::status(202)).expects(outcome_unknown("but sent no response"));
    h18_no_content: "HTTP 204 for a call" =>
        Case::modern().fault_on_work(Fault::status(204)).expects(outcome_unknown("but sent no response"));
    h18_accepted_at_start: "HTTP 202 for every request" =>
        Case::modern()
            .fault_at_start(Fault::status(202).always())
            .start_fails(Start::Retried("but sent no response"));
    h18_switching_protocols: "HTTP 101 for a call" =>
        responds_with([RawStep::send("HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: evil\r\n\r\n"), RawStep::Hang])
            .expects(error_response("HTTP 101"));
    h18_empty: "HTTP 200 with an empty JSON body" =>
        responds_with([head("application/json")]).expects(invalid_response("holds no response"));

    h35_result_type: "unknown `resultType`" =>
        result(r#""resultType":"surprise","content":[{"type":"text","text":"right"}]"#)
            .expects(invalid_response("surprise"));
    h35_result_type_is_not_a_string: "`resultType` is not a string" =>
        result(r#""resultType":{"a":1},"content":[{"type":"text","text":"right"}]"#)
            .expects(invalid_response(""));

    h37_mismatch_for_every_call: "header mismatch error for every call" =>
        Case::modern()
            .after_connect(|servers| servers.hostile.arm(mismatch().on("tools/call work").always()))
            .expects(error_response("headers and body differ"))
            .also_checks(|servers| {
                assert!(servers.hostile.requests_with("tools/call").len() <= 3);
                assert!(servers.hostile.count("tools/list") <= 3);
            });
    h37_mismatch_at_start: "header mismatch error from the start" =>
        Case::modern()
            .fault_at_start(mismatch().always())
            .start_fails(Start::Failed("headers and body differ"))
            .also_checks(|servers| assert!(servers.hostile.requests().len() <= 4));

    h38_cookies: "response sets a cookie" =>
        Case::new(modern(), Mode::JSON, switchboard_config::RemoteKind::Http)
            .fault_on_work(Fault::raw_steps([
                RawStep::send("HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nSet-Cookie: id=1; Domain=127.0.0.1; Path=/\r\nConnection: close\r\n\r\n"),
                RawStep::send(VALID_RESPONSE),
            ]))
            .expects(text("right"))
            .expects(text("right"))
            .also_checks(no_cookie_was_sent);
}
