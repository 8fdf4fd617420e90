//! The protocol, spoken to a server that is called directly.

use serde_json::{Value, json};
use switchboard::inprocess::{Adapter, LocalServer};

use crate::server::Workshop;
use crate::{LIMIT, answer, ask, call, cancelled, heard, request, text_of};

fn workshop() -> Adapter {
    Adapter::connect(&Workshop::new().instance(), LIMIT).0
}

#[tokio::test]
async fn the_hello_says_what_the_server_says() {
    let adapter = workshop();
    let hello = json!({"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {}});
    assert_eq!(
        ask(&adapter, 0, "initialize", hello).await,
        json!({
            "protocolVersion": "2025-06-18",
            "capabilities": {
                "tools": {"listChanged": true},
                "resources": {"subscribe": true},
                "prompts": {},
            },
            "serverInfo": {"name": "workshop", "version": "1.0"},
            "instructions": "Mind the machines.",
        })
    );
    let initialized = json!({"jsonrpc": "2.0", "method": "notifications/initialized"});
    assert_eq!(answer(&adapter, &initialized).await, None);
    assert_eq!(ask(&adapter, 1, "ping", json!({})).await, json!({}));
}

#[tokio::test]
async fn a_version_that_is_not_known_is_answered_with_the_last_that_has_a_hello() {
    let adapter = workshop();
    for (asked, answered) in [
        ("2024-11-05", "2024-11-05"),
        ("2025-11-25", "2025-11-25"),
        ("2026-07-28", "2025-11-25"),
        ("2099-01-01", "2025-11-25"),
    ] {
        let hello = ask(&adapter, 0, "initialize", json!({"protocolVersion": asked})).await;
        assert_eq!(hello["protocolVersion"], answered);
    }
}

#[tokio::test]
async fn tools_are_listed_to_the_letter_and_called() {
    let adapter = workshop();
    let listed = adapter
        .handle(r#"{"method":"tools/list","jsonrpc":"2.0","id":1}"#)
        .await
        .unwrap();
    let text = listed.as_str();
    let schema = Workshop::new().tools()[0].input_schema.clone();
    assert!(text.contains(&format!(r#""inputSchema":{}"#, schema.as_str())));
    let tools = &listed.to_value().unwrap()["result"]["tools"];
    assert_eq!(tools[0]["name"], "double");
    assert_eq!(tools[0]["_meta"], json!({"anthropic/alwaysLoad": true}));
    assert_eq!(tools[0]["outputSchema"], json!({"type": "object"}));
    let called = answer(&adapter, &call(2, "double", json!({"a": 21}))).await;
    assert_eq!(
        called.unwrap(),
        json!({"jsonrpc": "2.0", "id": 2, "result": {"content": [{"type": "text", "text": "42"}]}})
    );
}

#[tokio::test]
async fn arguments_that_do_not_fit_are_told_to_the_model_and_nothing_is_called() {
    let adapter = workshop();
    let params = json!({"name": "double", "arguments": {"a": "x"}});
    let result = ask(&adapter, 1, "tools/call", params).await;
    assert_eq!(result["isError"], true);
    assert_eq!(
        text_of(&result),
        "double was not called: its arguments do not fit its input schema: at /a: \"x\" is not of type \
         \"number\". Correct them and call it again."
    );
    let missing = ask(&adapter, 2, "tools/call", json!({"name": "double"})).await;
    assert!(text_of(&missing).contains("\"a\" is a required property"));
}

#[tokio::test]
async fn what_goes_wrong_with_a_call_is_that_calls_error() {
    let adapter = workshop();
    let panicked = ask(&adapter, 1, "tools/call", json!({"name": "panic"})).await;
    assert_eq!(
        panicked,
        json!({"code": -32603, "message": "the tool panic panicked: this is a defect of the server"})
    );
    let refused = ask(&adapter, 2, "tools/call", json!({"name": "refuse"})).await;
    assert_eq!(refused, json!({"code": -32000, "message": "not today"}));
    let unknown = ask(&adapter, 3, "tools/call", json!({"name": "nope"})).await;
    assert_eq!(unknown["code"], -32602);
    let shapeless = ask(&adapter, 4, "tools/call", json!({"arguments": 1})).await;
    assert_eq!(shapeless["code"], -32602);
    assert_eq!(
        text_of(
            &ask(
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
async fn what_a_server_does_not_offer_is_not_there() {
    let adapter = workshop();
    for method in [
        "server/discover",
        "subscriptions/listen",
        "logging/setLevel",
        "completion/complete",
    ] {
        assert_eq!(
            ask(&adapter, 1, method, json!({})).await["code"],
            -32601,
            "{method}"
        );
    }
    let page = ask(&adapter, 2, "tools/list", json!({"cursor": "2"})).await;
    assert_eq!(page["code"], -32602);
}

#[tokio::test]
async fn resources_and_prompts_are_answered() {
    let adapter = workshop();
    assert_eq!(
        ask(&adapter, 1, "resources/list", json!({})).await,
        json!({"resources": []})
    );
    assert_eq!(
        ask(&adapter, 2, "resources/templates/list", json!({})).await,
        json!({"resourceTemplates": []})
    );
    let read = ask(
        &adapter,
        3,
        "resources/read",
        json!({"uri": "shop://empty"}),
    )
    .await;
    assert_eq!(read, json!({"contents": []}));
    let missing = ask(&adapter, 4, "resources/read", json!({"uri": "shop://no"})).await;
    assert_eq!(missing["code"], -32002);
    assert_eq!(
        ask(&adapter, 5, "prompts/list", json!({})).await,
        json!({"prompts": []})
    );
    let filled = json!({"name": "greet", "arguments": {"whom": "you"}});
    let filled = ask(&adapter, 6, "prompts/get", filled).await;
    assert_eq!(
        filled,
        json!({"description": "greet {\"whom\": \"you\"}", "messages": []})
    );
    for none in [
        json!({"name": "greet", "arguments": null}),
        json!({"name": "greet"}),
    ] {
        let bare = ask(&adapter, 7, "prompts/get", none).await;
        assert_eq!(bare, json!({"description": "greet {}", "messages": []}));
    }
}

#[tokio::test]
async fn what_is_no_message_is_refused() {
    let adapter = workshop();
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
        let refused = adapter.handle(text).await.unwrap().to_value().unwrap();
        assert_eq!(
            (&refused["id"], &refused["error"]["code"]),
            (&id, &json!(code)),
            "{text}"
        );
    }
}

#[tokio::test]
async fn responses_and_notifications_are_not_answered() {
    let adapter = workshop();
    for silent in [
        json!({"jsonrpc": "2.0", "id": "s1", "result": {}}),
        json!({"jsonrpc": "2.0", "id": 1, "error": {"code": -32601, "message": "no"}}),
        json!({"jsonrpc": "2.0", "id": 1, "result": null}),
        json!({"jsonrpc": "2.0", "method": "notifications/made/up"}),
        cancelled(99),
    ] {
        assert_eq!(answer(&adapter, &silent).await, None, "{silent}");
    }
}

#[tokio::test]
async fn a_call_that_is_cancelled_is_dropped_and_not_answered() {
    let server = Workshop::new();
    let (adapter, _) = Adapter::connect(&server.instance(), LIMIT);
    let mut hanging = Box::pin(adapter.handle(&call(2, "hang", json!({})).to_string()));
    assert!(futures_util::poll!(&mut hanging).is_pending());
    assert_eq!(server.running(), 1);
    assert_eq!(answer(&adapter, &cancelled(2)).await, None);
    assert_eq!(hanging.await, None);
    assert_eq!(server.running(), 0);
}

#[tokio::test]
async fn a_call_that_is_cancelled_before_anybody_awaits_it_never_begins() {
    let server = Workshop::new();
    let (adapter, _) = Adapter::connect(&server.instance(), LIMIT);
    let hanging = adapter.handle(&call(2, "hang", json!({})).to_string());
    assert_eq!(answer(&adapter, &cancelled(2)).await, None);
    assert_eq!(hanging.await, None);
    assert_eq!(server.running(), 0);
}

#[tokio::test]
async fn an_id_that_is_under_way_is_refused_and_free_again_afterwards() {
    let adapter = workshop();
    let mut hanging = Box::pin(adapter.handle(&call(2, "hang", json!({})).to_string()));
    assert!(futures_util::poll!(&mut hanging).is_pending());
    assert_eq!(ask(&adapter, 2, "ping", json!({})).await["code"], -32600);
    drop(hanging);
    assert_eq!(ask(&adapter, 2, "ping", json!({})).await, json!({}));
}

#[tokio::test]
async fn another_hello_begins_anew_and_what_is_under_way_is_answered_all_the_same() {
    let server = Workshop::new();
    let (adapter, _) = Adapter::connect(&server.instance(), LIMIT);
    let mut earlier = Box::pin(adapter.handle(&call(0, "wait", json!({"millis": 0})).to_string()));
    assert!(futures_util::poll!(&mut earlier).is_pending());
    let hello = ask(
        &adapter,
        0,
        "initialize",
        json!({"protocolVersion": "2025-11-25"}),
    )
    .await;
    assert_eq!(hello["serverInfo"]["name"], "workshop");
    let answered = earlier.await.unwrap().to_value().unwrap();
    assert_eq!(
        (&answered["id"], text_of(&answered["result"])),
        (&json!(0), "0")
    );
}

#[tokio::test]
async fn progress_goes_to_whoever_asked_for_it_and_the_call_knows_what_was_added() {
    let (adapter, mut said) = Adapter::connect(&Workshop::new().instance(), LIMIT);
    let silent = ask(&adapter, 1, "tools/call", json!({"name": "count"})).await;
    assert_eq!(text_of(&silent), "counted");
    let told = json!({"name": "count", "_meta": {"progressToken": "t"}});
    ask(&adapter, 2, "tools/call", told).await;
    for step in 1..=3 {
        assert_eq!(
            heard(&mut said).await,
            json!({"jsonrpc": "2.0", "method": "notifications/progress",
                "params": {"progressToken": "t", "progress": f64::from(step)}})
        );
    }
    let added = json!({"name": "meta", "_meta": {"claudecode/toolUseId": "toolu_01"}});
    let added = ask(&adapter, 3, "tools/call", added).await;
    assert_eq!(text_of(&added), r#"{"claudecode/toolUseId":"toolu_01"}"#);
}

#[tokio::test(start_paused = true)]
async fn what_never_returns_ends_at_its_deadline_and_blocks_nobody() {
    let server = Workshop::new();
    let (adapter, _) = Adapter::connect(&server.instance(), LIMIT);
    let began = tokio::time::Instant::now();
    let hanging = ask(&adapter, 1, "tools/call", json!({"name": "hang"}));
    let reading = ask(&adapter, 2, "resources/read", json!({"uri": "shop://hang"}));
    let quick = async {
        let result = ask(
            &adapter,
            3,
            "tools/call",
            json!({"name": "double", "arguments": {"a": 1}}),
        )
        .await;
        assert_eq!(
            (text_of(&result), began.elapsed()),
            ("2", std::time::Duration::ZERO)
        );
    };
    let (hanging, reading, ()) = tokio::join!(hanging, reading, quick);
    assert_eq!(began.elapsed(), LIMIT);
    let limit = "was not answered within 60s and was stopped";
    assert!(
        hanging["message"]
            .as_str()
            .unwrap()
            .starts_with(&format!("the tool hang {limit}"))
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
async fn what_leaves_the_thread_to_nobody_ends_at_its_deadline() {
    let server = Workshop::new();
    let (adapter, _said) = Adapter::connect(&server.instance(), LIMIT);
    let silent = json!({"name": "greedy"});
    let told = json!({"name": "greedy", "_meta": {"progressToken": 1}});
    let chatty = json!({"name": "chatty", "_meta": {"progressToken": 2}});
    for (id, params) in [(1, silent), (2, told), (3, chatty)] {
        let ended = ask(&adapter, id, "tools/call", params).await;
        let ended = ended["message"].as_str().unwrap();
        assert!(ended.contains("was not answered within 60s"), "{ended}");
    }
    assert_eq!(server.running(), 0);
}

#[tokio::test]
async fn nothing_outlives_the_adapter() {
    let server = Workshop::new();
    let (adapter, said) = Adapter::connect(&server.instance(), LIMIT);
    let hanging = tokio::spawn(adapter.handle(&call(1, "hang", json!({})).to_string()));
    while server.running() == 0 {
        tokio::task::yield_now().await;
    }
    drop(adapter);
    assert_eq!(hanging.await.unwrap(), None);
    assert_eq!(server.running(), 0);
    while server.notices.receiver_count() > 0 {
        tokio::task::yield_now().await;
    }
    assert!(said.is_closed());
}

#[tokio::test]
async fn a_closed_adapter_answers_nothing_and_its_server_lives_on() {
    let server = Workshop::new();
    let (adapter, _) = Adapter::connect(&server.instance(), LIMIT);
    let hanging = adapter.handle(&call(1, "hang", json!({})).to_string());
    adapter.close();
    assert_eq!(hanging.await, None);
    assert_eq!(answer(&adapter, &request(2, "ping", json!({}))).await, None);
    let (another, _) = Adapter::connect(&server.instance(), LIMIT);
    assert_eq!(ask(&another, 1, "ping", json!({})).await, json!({}));
}
