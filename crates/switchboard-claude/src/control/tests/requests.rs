use super::*;

#[tokio::test(start_paused = true)]
async fn cli_requests_are_answered_while_ours_is_in_flight() {
    let (control, mut cli) = connect(settings());
    let (response, ()) = tokio::join!(control.request("initialize", Map::new()), async {
        let id = cli.expect_request("initialize").await;
        cli.server_message("c1", ping(0)).await;
        let answer = cli.read().await.unwrap();
        assert_eq!(answer["response"]["request_id"], "c1");
        assert_eq!(payload(&answer)["mcp_response"]["id"], 0);
        cli.respond(&id, json!({"pid": 7})).await;
    });
    assert_eq!(response.unwrap().unwrap().as_str(), r#"{"pid":7}"#);
}

#[tokio::test(start_paused = true)]
async fn response_may_be_empty_or_an_error() {
    let (control, mut cli) = connect(settings());
    let requests = async {
        let first = control.request("mcp_toggle", Map::new()).await;
        let second = control.request("nope", Map::new()).await;
        (first, second)
    };
    let ((first, second), ()) = tokio::join!(requests, async {
        let id = cli.expect_request("mcp_toggle").await;
        cli.respond("req_9_unknown", json!({"wrong": true})).await;
        let response = json!({"subtype": "success", "request_id": id});
        cli.send(json!({"type": "control_response", "response": response}))
            .await;
        let id = cli.expect_request("nope").await;
        let response = json!({
            "subtype": "error", "request_id": id, "error": "no such thing",
            "error_code": "unsupported_request",
        });
        cli.send(json!({"type": "control_response", "response": response}))
            .await;
    });
    assert_eq!(first.unwrap(), None);
    let error = second.unwrap_err();
    assert_eq!(
        error.to_string(),
        "the Claude CLI refused `nope`: no such thing"
    );
    let Error::Refused { code, .. } = error else {
        panic!("{error}");
    };
    assert_eq!(code.as_deref(), Some("unsupported_request"));
}

#[tokio::test(start_paused = true)]
async fn timed_out_request_is_cancelled() {
    let (control, mut cli) = connect(settings());
    cli.write("[SandboxDebug] hello\n\n").await;
    let (response, ()) = tokio::join!(control.request("initialize", Map::new()), async {
        let id = cli.expect_request("initialize").await;
        let cancellation = cli.read().await.unwrap();
        let expected = json!({"type": "control_cancel_request", "request_id": id});
        assert_eq!(cancellation, expected);
    });
    let text = response.unwrap_err().to_string();
    let expected = "the Claude CLI did not respond to `initialize` within 60 s";
    assert!(text.starts_with(expected), "{text}");
    assert!(text.contains("[SandboxDebug] hello"), "{text}");
}

#[tokio::test(start_paused = true)]
async fn unsupported_cli_request_is_refused() {
    let (_control, mut cli) = connect(settings());
    cli.request("c1", json!({"subtype": "request_user_dialog"}))
        .await;
    let response = cli.read().await.unwrap();
    let expected = json!({
        "subtype": "error", "request_id": "c1",
        "error": "Unsupported control request subtype: request_user_dialog",
    });
    assert_eq!(response["response"], expected);
    cli.request("c2", json!(5)).await;
    let response = cli.read().await.unwrap();
    assert_eq!(response["response"]["subtype"], "error", "{response}");
}

#[tokio::test(start_paused = true)]
async fn cancelled_cli_request_is_not_answered() {
    let options = Options::new().can_use_tool(|_| std::future::pending());
    let (_control, mut cli) = connect_with(&options, settings());
    let request = json!({
        "subtype": "can_use_tool", "tool_name": "Bash", "input": {}, "tool_use_id": "t",
    });
    cli.request("asked", request).await;
    cli.send(json!({"type": "control_cancel_request", "request_id": "asked"}))
        .await;
    cli.send(json!({"type": "control_cancel_request", "request_id": "unknown"}))
        .await;
    cli.request("after", json!({"subtype": "other"})).await;
    let response = cli.read().await.unwrap();
    assert_eq!(response["response"]["request_id"], "after");
}

#[tokio::test(start_paused = true)]
async fn panicking_callback_still_answers() {
    let options = Options::new().can_use_tool(|_| async { panic!("callback failed") });
    let (_control, mut cli) = connect_with(&options, settings());
    let request = json!({
        "subtype": "can_use_tool", "tool_name": "Bash", "input": {}, "tool_use_id": "t",
    });
    cli.request("asked", request).await;
    let response = cli.read().await.unwrap();
    assert_eq!(response["response"]["request_id"], "asked");
    assert_eq!(payload(&response)["behavior"], "deny", "{response}");
}

#[tokio::test(start_paused = true)]
async fn ten_thousand_requests_get_their_responses() {
    const COUNT: u64 = 10_000;
    let (_control, cli) = connect(settings());
    let Cli { mut lines, output } = cli;
    let requests = async move {
        let mut output = output;
        for id in 0..COUNT {
            let request =
                json!({"subtype": "mcp_message", "server_name": "s", "message": ping(id)});
            let frame = json!({"type": "control_request", "request_id": id.to_string(), "request": request});
            let message = if id % 10 == 0 {
                "{\"type\":\"new\"}\n"
            } else {
                ""
            };
            let line = format!("{frame}\n{message}");
            output.write_all(line.as_bytes()).await.unwrap();
        }
        output
    };
    let responses = async {
        let mut seen = std::collections::HashSet::new();
        for _ in 0..COUNT {
            let line = lines.next_line().await.unwrap().unwrap();
            let answer: Value = serde_json::from_str(&line).unwrap();
            let id = payload(&answer)["mcp_response"]["id"].as_u64().unwrap();
            assert_eq!(answer["response"]["request_id"], id.to_string());
            assert!(seen.insert(id));
        }
    };
    tokio::join!(requests, responses);
}

#[tokio::test(start_paused = true)]
async fn every_frame_is_one_line() {
    let (control, mut cli) = connect(settings());
    let prompt = json!("two\nlines\r and a \"quote\"");
    control.send_prompt(&prompt, "default").await.unwrap();
    let sent = cli.read().await.unwrap();
    let expected = json!({
        "type": "user", "session_id": "default", "parent_tool_use_id": null,
        "message": {"role": "user", "content": prompt},
    });
    assert_eq!(sent, expected);
    let pretty = Json::parse("{\n  \"a\": \"b\\n\"\r\n}").unwrap();
    let line = frame::server_message("req_1", "s", pretty.as_str());
    let end = line.iter().position(|byte| *byte == b'\n');
    assert_eq!(end, Some(line.len() - 1));
    let sent: Value = serde_json::from_slice(&line).unwrap();
    assert_eq!(sent["request"]["message"], json!({"a": "b\n"}));
}

#[tokio::test(start_paused = true)]
async fn lone_surrogate_does_not_fail_a_request() {
    let allow = |_| async { crate::PermissionResult::allow() };
    let options = Options::new().can_use_tool(allow);
    let (control, mut cli) = connect_with(&options, settings());
    let request = r#"{"subtype":"can_use_tool","tool_name":"Bash","input":{"x":"\ud83d"}}"#;
    let frame = format!(r#"{{"type":"control_request","request_id":"c","request":{request}}}"#);
    cli.write(&format!("{frame}\n")).await;
    let answer = cli.read().await.unwrap();
    assert_eq!(payload(&answer)["updatedInput"], json!({"x": "\u{fffd}"}));

    cli.write(concat!(r#"{"type":"result","result":"\ud83d"}"#, "\n"))
        .await;
    let message = control.next_message().await.unwrap().unwrap();
    assert_eq!(
        message.as_result().unwrap().result.as_deref(),
        Some("\u{fffd}")
    );
}

#[tokio::test(start_paused = true)]
async fn request_timeout_may_be_infinite() {
    let endless = ControlSettings {
        request_timeout: Duration::MAX,
        ..settings()
    };
    let (control, mut cli) = connect(endless);
    control
        .send_prompt(&json!("hello"), "default")
        .await
        .unwrap();
    assert_eq!(cli.read().await.unwrap()["type"], "user");
    let (response, ()) = tokio::join!(control.request("mcp_status", Map::new()), async {
        let id = cli.expect_request("mcp_status").await;
        cli.respond(&id, json!({})).await;
    });
    response.unwrap();
}

#[tokio::test(start_paused = true)]
async fn timeout_error_names_its_option() {
    let (control, _cli) = connect(settings());
    let soon = Duration::from_secs(1);
    let call = control.request_within(soon, "call_timeout", "mcp_call", Map::new());
    let text = call.await.unwrap_err().to_string();
    assert!(text.contains("`Options::call_timeout`"), "{text}");
    let request = control.request("mcp_status", Map::new());
    let text = request.await.unwrap_err().to_string();
    assert!(text.contains("`Options::request_timeout`"), "{text}");
}

#[tokio::test(start_paused = true)]
async fn notifications_wait_until_cli_is_ready() {
    let server = InProcessServer::new("s", "1").tool("one", "One", || async { Ok("1") });
    let config = McpServerConfig::sdk(server.clone());
    let options = Options::new().mcp_server("s", config);
    let (control, mut cli) = connect_with(&options, settings());
    assert!(server.remove_tool("one"));
    let soon = Duration::from_secs(1);
    assert!(timeout(soon, cli.read()).await.is_err());
    control.mark_ready();
    let request = cli.read().await.unwrap();
    let method = &request["request"]["message"]["method"];
    assert_eq!(method, "notifications/tools/list_changed", "{request}");
}
