//! What a server does where its script says nothing.

use serde_json::{Value, json};
use switchboard_testkit::scripted::ServerExit;
use switchboard_testkit::{Cursors, Era, MemoryServer, Script, Step, tool};

use crate::client::{Wire, modern, modern_meta, open};

fn wire(script: Script) -> Wire {
    open(&MemoryServer::new(script))
}

#[tokio::test(start_paused = true)]
async fn a_legacy_server_shakes_hands() {
    let mut wire = wire(Script::legacy().instructions("be nice"));
    let params = json!({"protocolVersion": "2025-06-18", "capabilities": {}});
    assert_eq!(
        wire.ask("initialize", params).await,
        json!({
            "protocolVersion": "2025-11-25",
            "capabilities": {"tools": {"listChanged": true}},
            "serverInfo": {"name": "scripted", "version": "1.0.0"},
            "instructions": "be nice",
        })
    );
    wire.notify("notifications/initialized", json!({})).await;
    assert_eq!(wire.ask("ping", json!({})).await, json!({}));
    assert_eq!(
        wire.ask("tools/list", json!({})).await,
        json!({"tools": []})
    );
}

#[tokio::test(start_paused = true)]
async fn a_version_of_null_echoes_the_clients() {
    let script = Script::from_json(r#"{"protocolVersion": null}"#).unwrap();
    let mut wire = wire(script);
    let result = wire
        .ask("initialize", json!({"protocolVersion": "2024-11-05"}))
        .await;
    assert_eq!(result["protocolVersion"], "2024-11-05");
}

#[tokio::test(start_paused = true)]
async fn a_legacy_server_does_not_know_the_probe() {
    let mut wire = wire(Script::legacy());
    let response = wire.ask("server/discover", modern(&json!({}))).await;
    assert_eq!(response["error"]["code"], -32601);
}

#[tokio::test(start_paused = true)]
async fn some_legacy_servers_exit_on_the_probe_or_ignore_it() {
    let server = MemoryServer::new(Script::of_era(Era::LegacyExitsOnProbe));
    let mut exits = open(&server);
    exits.request("server/discover", json!({})).await;
    assert_eq!(exits.rest().await, b"");
    assert_eq!(server.ended(), [ServerExit::Exited(1)]);

    let mut silent = wire(Script::of_era(Era::LegacySilentOnProbe));
    silent.request("server/discover", json!({})).await;
    silent.assert_next_is_pong().await;
    let result = silent.ask("initialize", json!({})).await;
    assert_eq!(result["protocolVersion"], "2025-11-25");
}

#[tokio::test(start_paused = true)]
async fn a_modern_server_describes_itself() {
    let mut wire = wire(Script::modern().tool("echo"));
    assert_eq!(
        wire.ask("server/discover", modern(&json!({}))).await,
        json!({
            "supportedVersions": ["2026-07-28"],
            "capabilities": {"tools": {"listChanged": true}},
            "ttlMs": 60000,
            "cacheScope": "private",
            "_meta": {"io.modelcontextprotocol/serverInfo": {"name": "scripted", "version": "1.0.0"}},
            "resultType": "complete",
        })
    );
    assert_eq!(
        wire.ask("tools/list", modern(&json!({}))).await,
        json!({
            "tools": [tool("echo")],
            "ttlMs": 60000,
            "cacheScope": "private",
            "resultType": "complete",
        })
    );
    let call = modern(&json!({"name": "echo", "arguments": {"message": "hi"}}));
    assert_eq!(
        wire.ask("tools/call", call).await,
        json!({"content": [{"type": "text", "text": "hi"}], "resultType": "complete"})
    );
}

#[tokio::test(start_paused = true)]
async fn a_modern_server_refuses_what_does_not_describe_itself() {
    let mut wire = wire(Script::modern());
    let version = "io.modelcontextprotocol/protocolVersion";
    let capabilities = "io.modelcontextprotocol/clientCapabilities";
    for (method, meta, code) in [
        ("initialize", json!({}), -32601),
        ("ping", modern_meta(), -32601),
        ("tools/list", json!({}), -32602),
        ("tools/list", json!({version: "2026-07-28"}), -32602),
        ("tools/list", json!({capabilities: {}}), -32602),
        (
            "tools/list",
            json!({version: "2031-01-01", capabilities: {}}),
            -32022,
        ),
        ("prompts/list", modern_meta(), -32601),
    ] {
        let response = wire.ask(method, json!({"_meta": meta})).await;
        assert_eq!(response["error"]["code"], code, "{method} {meta}");
        if code == -32022 {
            let data = json!({"supported": ["2026-07-28"], "requested": "2031-01-01"});
            assert_eq!(response["error"]["data"], data);
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_server_of_both_eras_answers_in_the_one_it_is_asked_in() {
    let mut wire = wire(Script::of_era(Era::Both));
    let discovered = wire.ask("server/discover", modern(&json!({}))).await;
    assert_eq!(discovered["resultType"], "complete");
    let opened = wire.ask("initialize", json!({})).await;
    assert_eq!(opened["protocolVersion"], "2025-11-25");
    assert_eq!(
        wire.ask("tools/list", json!({})).await,
        json!({"tools": []})
    );
}

#[tokio::test(start_paused = true)]
async fn the_usual_tools_do_what_their_names_say() {
    let server = MemoryServer::new(Script::legacy());
    let mut wire = open(&server);
    let text = wire.call_text("echo", json!({"message": "hi"})).await;
    assert_eq!(text, "hi");
    let params = json!({"name": "add", "arguments": {"a": 2, "b": 3}});
    assert_eq!(
        wire.ask("tools/call", params).await,
        json!({"content": [{"type": "text", "text": "5"}], "structuredContent": {"sum": 5}})
    );
    let sum = wire.call_text("add", json!({"a": 0.5, "b": 1})).await;
    assert_eq!(sum, "1.5");
    let slept = wire.call_text("sleep", json!({"ms": 5000})).await;
    assert_eq!(slept, "slept 5000 ms");
    assert_eq!(wire.call_text("pid", json!({})).await, "1");
    assert_eq!(
        wire.ask("tools/call", json!({"name": "other"})).await,
        json!({"content": [{"type": "text", "text": "no script for other"}], "isError": true})
    );
}

#[tokio::test(start_paused = true)]
async fn what_is_not_a_message_is_refused() {
    let mut wire = wire(Script::legacy());
    for (line, code) in [("junk", -32700), ("[]", -32600), ("{}", -32600)] {
        wire.send_line(line).await.unwrap();
        let response = wire.next().await;
        assert_eq!(
            (&response["id"], &response["error"]["code"]),
            (&Value::Null, &json!(code))
        );
    }
}

#[tokio::test(start_paused = true)]
async fn a_cancelled_request_is_not_answered() {
    let mut wire = wire(Script::legacy());
    let params = json!({"name": "sleep", "arguments": {"ms": 1000}});
    let id = wire.request("tools/call", params).await;
    wire.notify("notifications/cancelled", json!({"requestId": id}))
        .await;
    tokio::time::sleep(std::time::Duration::from_secs(10)).await;
    wire.assert_next_is_pong().await;
}

async fn pages(script: Script, most: usize) -> Vec<(usize, Option<String>)> {
    let script = ["a", "b", "c", "d", "e"]
        .iter()
        .fold(script, |script, name| script.tool(name));
    let mut wire = wire(script);
    let mut pages = Vec::new();
    let mut params = json!({});
    while pages.len() < most {
        let page = wire.ask("tools/list", params).await;
        let cursor = page
            .get("nextCursor")
            .map(|next| next.as_str().unwrap().to_owned());
        pages.push((page["tools"].as_array().unwrap().len(), cursor.clone()));
        let Some(cursor) = cursor else { break };
        params = json!({"cursor": cursor});
    }
    pages
}

#[tokio::test(start_paused = true)]
async fn tools_come_in_pages_with_all_kinds_of_cursors() {
    let cursor = |text: &str| Some(text.to_owned());
    let script = |cursors| Script::legacy().paged(2, cursors);
    assert_eq!(
        pages(script(Cursors::Plain), 9).await,
        [(2, cursor("1")), (2, cursor("2")), (1, None)]
    );
    assert_eq!(
        pages(script(Cursors::EmptyFirst), 9).await,
        [(2, cursor("")), (2, cursor("2")), (1, None)]
    );
    assert_eq!(
        pages(script(Cursors::Loop), 4).await,
        [
            (2, cursor("1")),
            (2, cursor("1")),
            (2, cursor("1")),
            (2, cursor("1"))
        ]
    );
    assert_eq!(
        pages(script(Cursors::Endless), 4).await,
        [
            (2, cursor("1")),
            (2, cursor("2")),
            (1, cursor("3")),
            (0, cursor("4"))
        ]
    );
    let padded = Script {
        cursor_bytes: 4,
        ..script(Cursors::Plain)
    };
    assert_eq!(
        pages(padded, 9).await,
        [(2, cursor("1...")), (2, cursor("2...")), (1, None)]
    );
}

#[tokio::test(start_paused = true)]
async fn an_unknown_cursor_is_refused() {
    let mut wire = wire(Script::legacy());
    let response = wire.ask("tools/list", json!({"cursor": "what"})).await;
    assert_eq!(response["error"]["code"], -32602);
}

#[tokio::test(start_paused = true)]
async fn changes_are_published_to_each_subscription() {
    let script = Script::modern().on(
        "tools/call change",
        [
            Step::SetTools(vec![tool("new")]),
            Step::tools_changed(),
            Step::Default,
        ],
    );
    let mut wire = wire(script);
    let filter = json!({"toolsListChanged": true});
    let listen = modern(&json!({"notifications": filter}));
    let id = wire.request("subscriptions/listen", listen).await;
    let meta = json!({"io.modelcontextprotocol/subscriptionId": id});
    assert_eq!(
        wire.next().await,
        json!({
            "jsonrpc": "2.0",
            "method": "notifications/subscriptions/acknowledged",
            "params": {"_meta": meta, "notifications": filter},
        })
    );
    wire.request("tools/call", modern(&json!({"name": "change"})))
        .await;
    assert_eq!(
        wire.next().await,
        json!({
            "jsonrpc": "2.0",
            "method": "notifications/tools/list_changed",
            "params": {"_meta": meta},
        })
    );
    wire.next().await;
    let offered = wire.ask("tools/list", modern(&json!({}))).await;
    assert_eq!(offered["tools"], json!([tool("new")]));

    wire.notify("notifications/cancelled", json!({"requestId": id}))
        .await;
    let call = modern(&json!({"name": "change"}));
    assert_eq!(wire.ask("tools/call", call).await["isError"], true);
}
