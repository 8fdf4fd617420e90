//! JSON-RPC methods of a directly called server.

use serde_json::{Value, json};
use switchboard_server::{JsonRpcAdapter, LocalServer};

use crate::fixture_server::FixtureServer;
use crate::{
    LIMIT, call_request, cancel_notification, next_message, request, respond, send_request, text_of,
};

fn connect() -> JsonRpcAdapter {
    JsonRpcAdapter::connect(&FixtureServer::new().instance(), LIMIT).0
}

#[tokio::test]
async fn initialize_returns_server_info_and_capabilities() {
    let adapter = connect();
    let initialize = json!({"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {}});
    assert_eq!(
        send_request(&adapter, 0, "initialize", initialize).await,
        json!({
            "protocolVersion": "2025-06-18",
            "capabilities": {
                "tools": {"listChanged": true},
                "resources": {"subscribe": true},
                "prompts": {},
            },
            "serverInfo": {"name": "fixture", "version": "1.0"},
            "instructions": "Use with care.",
        })
    );
    let initialized = json!({"jsonrpc": "2.0", "method": "notifications/initialized"});
    assert_eq!(respond(&adapter, &initialized).await, None);
    assert_eq!(
        send_request(&adapter, 1, "ping", json!({})).await,
        json!({})
    );
}

#[tokio::test]
async fn unknown_version_gets_latest_legacy_version() {
    let adapter = connect();
    for (requested, returned) in [
        ("2024-11-05", "2024-11-05"),
        ("2025-11-25", "2025-11-25"),
        ("2026-07-28", "2025-11-25"),
        ("2099-01-01", "2025-11-25"),
    ] {
        let initialize = send_request(
            &adapter,
            0,
            "initialize",
            json!({"protocolVersion": requested}),
        )
        .await;
        assert_eq!(initialize["protocolVersion"], returned);
    }
}

#[tokio::test]
async fn listed_schema_keeps_its_exact_text() {
    let adapter = connect();
    let listed = adapter
        .handle(r#"{"method":"tools/list","jsonrpc":"2.0","id":1}"#)
        .await
        .unwrap();
    let text = listed.as_str();
    let schema = FixtureServer::new().tools()[0].input_schema.clone();
    assert!(text.contains(&format!(r#""inputSchema":{}"#, schema.as_str())));
    let tools = &listed.to_value().unwrap()["result"]["tools"];
    assert_eq!(tools[0]["name"], "double");
    assert_eq!(tools[0]["_meta"], json!({"anthropic/alwaysLoad": true}));
    assert_eq!(tools[0]["outputSchema"], json!({"type": "object"}));
    let called = respond(&adapter, &call_request(2, "double", json!({"a": 21}))).await;
    assert_eq!(
        called.unwrap(),
        json!({"jsonrpc": "2.0", "id": 2, "result": {"content": [{"type": "text", "text": "42"}]}})
    );
}

#[tokio::test]
async fn invalid_arguments_are_an_error_result() {
    let adapter = connect();
    let params = json!({"name": "double", "arguments": {"a": "x"}});
    let result = send_request(&adapter, 1, "tools/call", params).await;
    assert_eq!(result["isError"], true);
    assert_eq!(
        text_of(&result),
        "double was not called, because its arguments do not match its input schema: at /a: \"x\" is not \
         of type \"number\". Correct them and call it again."
    );
    let missing = send_request(&adapter, 2, "tools/call", json!({"name": "double"})).await;
    assert!(text_of(&missing).contains("\"a\" is a required property"));
}

#[tokio::test]
async fn panic_and_error_fail_only_their_call() {
    let adapter = connect();
    let panicked = send_request(&adapter, 1, "tools/call", json!({"name": "panic"})).await;
    assert_eq!(
        panicked,
        json!({"code": -32603, "message": "tool panic panicked; this is a bug in the server"})
    );
    let failed = send_request(&adapter, 2, "tools/call", json!({"name": "fail"})).await;
    assert_eq!(failed, json!({"code": -32000, "message": "not today"}));
    let unknown = send_request(&adapter, 3, "tools/call", json!({"name": "nope"})).await;
    assert_eq!(unknown["code"], -32602);
    let invalid = send_request(&adapter, 4, "tools/call", json!({"arguments": 1})).await;
    assert_eq!(invalid["code"], -32602);
    assert_eq!(
        text_of(
            &send_request(
                &adapter,
                5,
                "tools/call",
                json!({"name": "double", "arguments": {"a": 1}})
            )
            .await
        ),
        "2"
    );
}

#[tokio::test]
async fn unsupported_method_is_not_found() {
    let adapter = connect();
    for method in [
        "server/discover",
        "subscriptions/listen",
        "logging/setLevel",
        "completion/complete",
    ] {
        assert_eq!(
            send_request(&adapter, 1, method, json!({})).await["code"],
            -32601,
            "{method}"
        );
    }
    let page = send_request(&adapter, 2, "tools/list", json!({"cursor": "2"})).await;
    assert_eq!(page["code"], -32602);
}

#[tokio::test]
async fn resources_and_prompts_are_dispatched() {
    let adapter = connect();
    assert_eq!(
        send_request(&adapter, 1, "resources/list", json!({})).await,
        json!({"resources": []})
    );
    assert_eq!(
        send_request(&adapter, 2, "resources/templates/list", json!({})).await,
        json!({"resourceTemplates": []})
    );
    let read = send_request(
        &adapter,
        3,
        "resources/read",
        json!({"uri": "test://empty"}),
    )
    .await;
    assert_eq!(read, json!({"contents": []}));
    let missing = send_request(&adapter, 4, "resources/read", json!({"uri": "test://no"})).await;
    assert_eq!(missing["code"], -32002);
    assert_eq!(
        send_request(&adapter, 5, "prompts/list", json!({})).await,
        json!({"prompts": []})
    );
    let params = json!({"name": "greet", "arguments": {"name": "you"}});
    let prompt = send_request(&adapter, 6, "prompts/get", params).await;
    assert_eq!(
        prompt,
        json!({"description": "greet {\"name\": \"you\"}", "messages": []})
    );
    for params in [
        json!({"name": "greet", "arguments": null}),
        json!({"name": "greet"}),
    ] {
        let prompt = send_request(&adapter, 7, "prompts/get", params).await;
        assert_eq!(prompt, json!({"description": "greet {}", "messages": []}));
    }
}

#[tokio::test]
async fn invalid_messages_get_error_responses() {
    let adapter = connect();
    for (text, id, code) in [
        ("{", Value::Null, -32700),
        ("", Value::Null, -32700),
        ("7", Value::Null, -32600),
        ("[]", Value::Null, -32600),
        (r#"{"jsonrpc":"2.0"}"#, Value::Null, -32600),
        (
            r#"{"jsonrpc":"2.0","id":null,"method":"ping"}"#,
            Value::Null,
            -32600,
        ),
        (
            r#"{"jsonrpc":"2.0","id":{},"method":"ping"}"#,
            Value::Null,
            -32600,
        ),
        (
            r#"{"jsonrpc":"1.0","id":"x","method":"ping"}"#,
            json!("x"),
            -32600,
        ),
        (r#"{"jsonrpc":"2.0","id":7}"#, json!(7), -32600),
        (
            r#"{"jsonrpc":"2.0","id":7,"method":[]}"#,
            Value::Null,
            -32600,
        ),
    ] {
        let response = adapter.handle(text).await.unwrap().to_value().unwrap();
        assert_eq!(
            (&response["id"], &response["error"]["code"]),
            (&id, &json!(code)),
            "{text}"
        );
    }
}

#[tokio::test]
async fn responses_and_notifications_get_no_response() {
    let adapter = connect();
    for message in [
        json!({"jsonrpc": "2.0", "id": "s1", "result": {}}),
        json!({"jsonrpc": "2.0", "id": 1, "error": {"code": -32601, "message": "no"}}),
        json!({"jsonrpc": "2.0", "id": 1, "result": null}),
        json!({"jsonrpc": "2.0", "method": "notifications/made/up"}),
        cancel_notification(99),
    ] {
        assert_eq!(respond(&adapter, &message).await, None, "{message}");
    }
}

#[tokio::test]
async fn cancelled_call_is_dropped_without_response() {
    let server = FixtureServer::new();
    let (adapter, _) = JsonRpcAdapter::connect(&server.instance(), LIMIT);
    let mut hanging = Box::pin(adapter.handle(&call_request(2, "hang", json!({})).to_string()));
    assert!(futures_util::poll!(&mut hanging).is_pending());
    assert_eq!(server.running(), 1);
    assert_eq!(respond(&adapter, &cancel_notification(2)).await, None);
    assert_eq!(hanging.await, None);
    assert_eq!(server.running(), 0);
}

#[tokio::test]
async fn call_cancelled_before_poll_never_starts() {
    let server = FixtureServer::new();
    let (adapter, _) = JsonRpcAdapter::connect(&server.instance(), LIMIT);
    let hanging = adapter.handle(&call_request(2, "hang", json!({})).to_string());
    assert_eq!(respond(&adapter, &cancel_notification(2)).await, None);
    assert_eq!(hanging.await, None);
    assert_eq!(server.running(), 0);
}

#[tokio::test]
async fn id_in_flight_is_rejected_then_reusable() {
    let adapter = connect();
    let mut hanging = Box::pin(adapter.handle(&call_request(2, "hang", json!({})).to_string()));
    assert!(futures_util::poll!(&mut hanging).is_pending());
    assert_eq!(
        send_request(&adapter, 2, "ping", json!({})).await["code"],
        -32600
    );
    drop(hanging);
    assert_eq!(
        send_request(&adapter, 2, "ping", json!({})).await,
        json!({})
    );
}

#[tokio::test]
async fn reinitialize_keeps_in_flight_requests() {
    let server = FixtureServer::new();
    let (adapter, _) = JsonRpcAdapter::connect(&server.instance(), LIMIT);
    let mut earlier =
        Box::pin(adapter.handle(&call_request(0, "wait", json!({"millis": 0})).to_string()));
    assert!(futures_util::poll!(&mut earlier).is_pending());
    let initialize = send_request(
        &adapter,
        0,
        "initialize",
        json!({"protocolVersion": "2025-11-25"}),
    )
    .await;
    assert_eq!(initialize["serverInfo"]["name"], "fixture");
    let response = earlier.await.unwrap().to_value().unwrap();
    assert_eq!(
        (&response["id"], text_of(&response["result"])),
        (&json!(0), "0")
    );
}

#[tokio::test]
async fn progress_needs_a_token_and_meta_is_passed() {
    let (adapter, mut messages) = JsonRpcAdapter::connect(&FixtureServer::new().instance(), LIMIT);
    let silent = send_request(&adapter, 1, "tools/call", json!({"name": "count"})).await;
    assert_eq!(text_of(&silent), "counted");
    let params = json!({"name": "count", "_meta": {"progressToken": "t"}});
    send_request(&adapter, 2, "tools/call", params).await;
    for step in 1..=3 {
        assert_eq!(
            next_message(&mut messages).await,
            json!({"jsonrpc": "2.0", "method": "notifications/progress",
                "params": {"progressToken": "t", "progress": f64::from(step)}})
        );
    }
    let params = json!({"name": "meta", "_meta": {"claudecode/toolUseId": "toolu_01"}});
    let result = send_request(&adapter, 3, "tools/call", params).await;
    assert_eq!(text_of(&result), r#"{"claudecode/toolUseId":"toolu_01"}"#);
}

#[tokio::test(start_paused = true)]
async fn hanging_requests_time_out_and_block_nothing() {
    let server = FixtureServer::new();
    let (adapter, _) = JsonRpcAdapter::connect(&server.instance(), LIMIT);
    let started_at = tokio::time::Instant::now();
    let hanging = send_request(&adapter, 1, "tools/call", json!({"name": "hang"}));
    let reading = send_request(&adapter, 2, "resources/read", json!({"uri": "test://hang"}));
    let quick = async {
        let result = send_request(
            &adapter,
            3,
            "tools/call",
            json!({"name": "double", "arguments": {"a": 1}}),
        )
        .await;
        assert_eq!(
            (text_of(&result), started_at.elapsed()),
            ("2", std::time::Duration::ZERO)
        );
    };
    let (hanging, reading, ()) = tokio::join!(hanging, reading, quick);
    assert_eq!(started_at.elapsed(), LIMIT);
    let limit = "timed out after 60s and was stopped";
    assert!(
        hanging["message"]
            .as_str()
            .unwrap()
            .starts_with(&format!("tool hang {limit}"))
    );
    assert!(
        reading["message"]
            .as_str()
            .unwrap()
            .starts_with(&format!("resources/read {limit}"))
    );
    assert_eq!(server.running(), 0);
}

#[tokio::test(start_paused = true)]
async fn busy_handler_is_stopped_at_deadline() {
    let server = FixtureServer::new();
    let (adapter, _messages) = JsonRpcAdapter::connect(&server.instance(), LIMIT);
    let silent = json!({"name": "busy"});
    let params = json!({"name": "busy", "_meta": {"progressToken": 1}});
    let chatty = json!({"name": "chatty", "_meta": {"progressToken": 2}});
    for (id, params) in [(1, silent), (2, params), (3, chatty)] {
        let error = send_request(&adapter, id, "tools/call", params).await;
        let message = error["message"].as_str().unwrap();
        assert!(message.contains("timed out after 60s"), "{message}");
    }
    assert_eq!(server.running(), 0);
}

#[tokio::test]
async fn dropped_adapter_releases_everything() {
    let server = FixtureServer::new();
    let (adapter, messages) = JsonRpcAdapter::connect(&server.instance(), LIMIT);
    let hanging = tokio::spawn(adapter.handle(&call_request(1, "hang", json!({})).to_string()));
    while server.running() == 0 {
        tokio::task::yield_now().await;
    }
    drop(adapter);
    assert_eq!(hanging.await.unwrap(), None);
    assert_eq!(server.running(), 0);
    while server.notifications.receiver_count() > 0 {
        tokio::task::yield_now().await;
    }
    assert!(messages.is_closed());
}

#[tokio::test]
async fn closed_adapter_is_silent_and_server_survives() {
    let server = FixtureServer::new();
    let (adapter, _) = JsonRpcAdapter::connect(&server.instance(), LIMIT);
    let hanging = adapter.handle(&call_request(1, "hang", json!({})).to_string());
    adapter.close();
    assert_eq!(hanging.await, None);
    assert_eq!(
        respond(&adapter, &request(2, "ping", json!({}))).await,
        None
    );
    let (another, _) = JsonRpcAdapter::connect(&server.instance(), LIMIT);
    assert_eq!(
        send_request(&another, 1, "ping", json!({})).await,
        json!({})
    );
}
