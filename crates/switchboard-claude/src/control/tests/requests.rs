use super::*;

#[tokio::test(start_paused = true)]
async fn the_cli_is_answered_while_our_own_request_is_under_way() {
    let (control, mut cli) = connect(settings());
    let (answer, ()) = tokio::join!(control.request("initialize", Map::new()), async {
        let id = cli.awaits("initialize").await;
        cli.mcp("c1", ping(0)).await;
        let answered = cli.read().await.unwrap();
        assert_eq!(answered["response"]["request_id"], "c1");
        assert_eq!(payload(&answered)["mcp_response"]["id"], 0);
        cli.answer(&id, json!({"pid": 7})).await;
    });
    assert_eq!(answer.unwrap().unwrap().as_str(), r#"{"pid":7}"#);
}

#[tokio::test(start_paused = true)]
async fn answers_may_lack_a_payload_or_be_a_refusal_and_foreign_ones_change_nothing() {
    let (control, mut cli) = connect(settings());
    let asking = async {
        let first = control.request("mcp_toggle", Map::new()).await;
        let second = control.request("nope", Map::new()).await;
        (first, second)
    };
    let ((first, second), ()) = tokio::join!(asking, async {
        let id = cli.awaits("mcp_toggle").await;
        cli.answer("req_9_unknown", json!({"wrong": true})).await;
        let response = json!({"subtype": "success", "request_id": id});
        cli.say(json!({"type": "control_response", "response": response}))
            .await;
        let id = cli.awaits("nope").await;
        let response = json!({
            "subtype": "error", "request_id": id, "error": "no such thing",
            "error_code": "unsupported_request",
        });
        cli.say(json!({"type": "control_response", "response": response}))
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
async fn a_request_that_is_not_answered_in_time_is_taken_back() {
    let (control, mut cli) = connect(settings());
    cli.write("[SandboxDebug] hello\n\n").await;
    let (answer, ()) = tokio::join!(control.request("initialize", Map::new()), async {
        let id = cli.awaits("initialize").await;
        let taken_back = cli.read().await.unwrap();
        let expected = json!({"type": "control_cancel_request", "request_id": id});
        assert_eq!(taken_back, expected);
    });
    let said = answer.unwrap_err().to_string();
    let expected = "the Claude CLI did not answer `initialize` within 60 s";
    assert!(said.starts_with(expected), "{said}");
    assert!(said.contains("[SandboxDebug] hello"), "{said}");
}

#[tokio::test(start_paused = true)]
async fn what_the_cli_asks_in_other_words_is_refused() {
    let (_control, mut cli) = connect(settings());
    cli.ask("c1", json!({"subtype": "request_user_dialog"}))
        .await;
    let response = cli.read().await.unwrap();
    let expected = json!({
        "subtype": "error", "request_id": "c1",
        "error": "Unsupported control request subtype: request_user_dialog",
    });
    assert_eq!(response["response"], expected);
    cli.ask("c2", json!(5)).await;
    let response = cli.read().await.unwrap();
    assert_eq!(response["response"]["subtype"], "error", "{response}");
}

#[tokio::test(start_paused = true)]
async fn what_the_cli_takes_back_is_not_answered() {
    let options = Options::new().can_use_tool(|_| std::future::pending());
    let (_control, mut cli) = connect_with(&options, settings());
    let request = json!({
        "subtype": "can_use_tool", "tool_name": "Bash", "input": {}, "tool_use_id": "t",
    });
    cli.ask("asked", request).await;
    cli.say(json!({"type": "control_cancel_request", "request_id": "asked"}))
        .await;
    cli.say(json!({"type": "control_cancel_request", "request_id": "unknown"}))
        .await;
    cli.ask("after", json!({"subtype": "other"})).await;
    let response = cli.read().await.unwrap();
    assert_eq!(response["response"]["request_id"], "after");
}

#[tokio::test(start_paused = true)]
async fn a_callback_that_panics_is_an_answer_to_its_request() {
    let options = Options::new().can_use_tool(|_| async { panic!("a mistake") });
    let (_control, mut cli) = connect_with(&options, settings());
    let request = json!({
        "subtype": "can_use_tool", "tool_name": "Bash", "input": {}, "tool_use_id": "t",
    });
    cli.ask("asked", request).await;
    let response = cli.read().await.unwrap();
    assert_eq!(response["response"]["request_id"], "asked");
    assert_eq!(payload(&response)["behavior"], "deny", "{response}");
}

#[tokio::test(start_paused = true)]
async fn ten_thousand_requests_are_answered_each_to_its_id_though_nobody_reads_messages() {
    const COUNT: u64 = 10_000;
    let (_control, cli) = connect(settings());
    let Cli { mut lines, output } = cli;
    let asking = async move {
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
    let reading = async {
        let mut seen = std::collections::HashSet::new();
        for _ in 0..COUNT {
            let line = lines.next_line().await.unwrap().unwrap();
            let answer: Value = serde_json::from_str(&line).unwrap();
            let id = payload(&answer)["mcp_response"]["id"].as_u64().unwrap();
            assert_eq!(answer["response"]["request_id"], id.to_string());
            assert!(seen.insert(id));
        }
    };
    tokio::join!(asking, reading);
}

#[tokio::test(start_paused = true)]
async fn what_is_sent_is_one_line_whatever_is_in_it() {
    let (control, mut cli) = connect(settings());
    let prompt = json!("two\nlines\r and a \"quote\"");
    control.say(&prompt, "default").await.unwrap();
    let said = cli.read().await.unwrap();
    let expected = json!({
        "type": "user", "session_id": "default", "parent_tool_use_id": null,
        "message": {"role": "user", "content": prompt},
    });
    assert_eq!(said, expected);
    let pretty = Json::parse("{\n  \"a\": \"b\\n\"\r\n}").unwrap();
    let line = frame::server_message("req_1", "s", pretty.as_str());
    let end = line.iter().position(|byte| *byte == b'\n');
    assert_eq!(end, Some(line.len() - 1));
    let read: Value = serde_json::from_slice(&line).unwrap();
    assert_eq!(read["request"]["message"], json!({"a": "b\n"}));
}

#[tokio::test(start_paused = true)]
async fn half_a_character_in_what_is_asked_is_no_reason_to_refuse() {
    let allow = |_| async { crate::PermissionResult::allow() };
    let options = Options::new().can_use_tool(allow);
    let (control, mut cli) = connect_with(&options, settings());
    let asked = r#"{"subtype":"can_use_tool","tool_name":"Bash","input":{"x":"\ud83d"}}"#;
    let frame = format!(r#"{{"type":"control_request","request_id":"c","request":{asked}}}"#);
    cli.write(&format!("{frame}\n")).await;
    let answered = cli.read().await.unwrap();
    assert_eq!(payload(&answered)["updatedInput"], json!({"x": "\u{fffd}"}));

    cli.write(concat!(r#"{"type":"result","result":"\ud83d"}"#, "\n"))
        .await;
    let message = control.next().await.unwrap().unwrap();
    assert_eq!(
        message.as_result().unwrap().result.as_deref(),
        Some("\u{fffd}")
    );
}

#[tokio::test(start_paused = true)]
async fn a_time_without_end_is_one() {
    let endless = Settings {
        time_for_requests: Duration::MAX,
        ..settings()
    };
    let (control, mut cli) = connect(endless);
    control.say(&json!("hello"), "default").await.unwrap();
    assert_eq!(cli.read().await.unwrap()["type"], "user");
    let (answer, ()) = tokio::join!(control.request("mcp_status", Map::new()), async {
        let id = cli.awaits("mcp_status").await;
        cli.answer(&id, json!({})).await;
    });
    answer.unwrap();
}

#[tokio::test(start_paused = true)]
async fn what_takes_too_long_names_the_option_that_allows_more() {
    let (control, _cli) = connect(settings());
    let soon = Duration::from_secs(1);
    let call = control.request_within(soon, "call_timeout", "mcp_call", Map::new());
    let said = call.await.unwrap_err().to_string();
    assert!(said.contains("`Options::call_timeout`"), "{said}");
    let request = control.request("mcp_status", Map::new());
    let said = request.await.unwrap_err().to_string();
    assert!(said.contains("`Options::request_timeout`"), "{said}");
}

#[tokio::test(start_paused = true)]
async fn what_servers_say_waits_until_the_cli_is_ready() {
    let server = InProcessServer::new("s", "1").tool("one", "One", || async { Ok("1") });
    let config = McpServerConfig::sdk(server.clone());
    let options = Options::new().mcp_server("s", config);
    let (control, mut cli) = connect_with(&options, settings());
    assert!(server.remove_tool("one"));
    let soon = Duration::from_secs(1);
    assert!(timeout(soon, cli.read()).await.is_err());
    control.is_ready();
    let told = cli.read().await.unwrap();
    let method = &told["request"]["message"]["method"];
    assert_eq!(method, "notifications/tools/list_changed", "{told}");
}
