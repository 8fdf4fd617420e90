//! Text of servers is sanitized at every exit of the engine, and raw names are what is sent.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a failed expectation fails the test"
)]

mod common;

use common::{InMemory, permissive};
use serde_json::{Value, json};
use switchboard::registry::{Registry, ToolExecutor};
use switchboard::{CallContext, Event, Host, Readiness};
use switchboard_testkit::{MemoryServer, Script, Step};

/// An escape sequence, a right-to-left override and a zero-width space.
const HOSTILE: &str = "\u{1b}[31m\u{202e}\u{200b}";

fn hostile(text: &str) -> String {
    format!("{text}{HOSTILE}")
}

/// A server in which every text contains [`HOSTILE`].
fn hostile_server() -> Script {
    let log = Step::Notify {
        method: "notifications/message".to_owned(),
        params: Some(json!({
            "level": hostile("info"), "logger": hostile("l"), "data": {hostile("k"): hostile("v")},
        })),
    };
    let schema = json!({
        "type": "object",
        "title": hostile("T"),
        "properties": {"a": {"description": hostile("d"), "enum": [hostile("x")]}},
    });
    let mut script = Script::legacy()
        .raw_tool(json!({
            "name": hostile("tool"), "title": hostile("title"), "description": hostile("words"),
            "inputSchema": schema, "outputSchema": schema, "annotations": {"title": hostile("t")},
            "_meta": {hostile("m"): hostile("m")},
        }))
        .raw_tool(json!({"name": "fails", "inputSchema": {"type": "object"}}))
        .raw_resource(json!({
            "uri": "note://x", "name": hostile("note"), "title": hostile("t"),
            "description": hostile("d"), "mimeType": hostile("text/x"), "text": "t",
        }))
        .instructions(&hostile("instructions"))
        .on(
            &format!("tools/call {}", hostile("tool")),
            [log, Step::text(&hostile("result"))],
        )
        .on(
            "tools/call fails",
            [Step::Error {
                code: -32000,
                message: hostile("problem"),
                data: None,
            }],
        );
    script.server_info =
        json!({"name": hostile("s"), "version": hostile("1"), "title": hostile("S")});
    script
}

/// Fails if the serialized value contains a character of [`HOSTILE`], as itself or escaped.
fn assert_clean(exit: &str, value: &Value) {
    fn texts(value: &Value, found: &mut Vec<String>) {
        match value {
            Value::String(text) => found.push(text.clone()),
            Value::Array(items) => items.iter().for_each(|item| texts(item, found)),
            Value::Object(members) => {
                for (name, member) in members {
                    found.push(name.clone());
                    texts(member, found);
                }
            }
            _ => {}
        }
    }
    let mut found = Vec::new();
    texts(value, &mut found);
    assert!(!found.is_empty(), "{exit} is empty");
    for text in found {
        assert!(
            !text.contains(['\u{1b}', '\u{202e}', '\u{200b}']),
            "{exit}: {text:?} in {value}"
        );
    }
}

async fn start() -> (Host, MemoryServer) {
    let server = MemoryServer::new(hostile_server());
    let host = permissive()
        .connector("s", InMemory(server.clone()))
        .start()
        .unwrap();
    host.wait_for(Readiness::All).await;
    (host, server)
}

#[tokio::test]
async fn no_exit_shows_raw_text() {
    let (host, server) = start().await;
    let mut events = host.events();
    let mut registry = Registry::new(host.clone());
    registry.register_management_tools().unwrap();
    let catalog = host.catalog();
    let raw_tool = &catalog.tools()[0];
    let wire_name = raw_tool.wire_name.to_string();
    let result = host.call(wire_name.as_str(), json!({})).await.unwrap();
    let error = host.call("mcp__s__fails", json!({})).await.unwrap_err();
    let mut exits = vec![
        ("definitions", json!(registry.definitions())),
        ("status", json!(host.status())),
        ("details", json!(host.server_details("s").unwrap())),
        ("result", json!(result.blocks)),
        ("error", json!(error.to_string())),
        ("tool id", json!([raw_tool.id, raw_tool.id.to_string()])),
        (
            "resources",
            json!(host.resources(None).await.unwrap().items),
        ),
    ];
    for (tool, input) in [
        ("ListMcpResources", json!({})),
        ("ReadMcpResource", json!({"server": "s", "uri": "note://x"})),
        ("RefreshMcpTools", json!({})),
        ("WaitForMcpServers", json!({})),
        ("mcp__s__fails", json!({})),
    ] {
        let output = registry.execute(tool, input, CallContext::default()).await;
        exits.push((tool, json!([output.to_text(), output.notes])));
    }
    host.shutdown().await;
    let mut kinds = Vec::new();
    while let Some(event) = events.next().await {
        kinds.push(std::mem::discriminant(&event));
        exits.push(("event", json!(event)));
        if let Event::ServerLogged { .. } = event {
            exits.push(("log", json!(format!("{event:?}").contains("\\u{"))));
        }
    }
    assert!(kinds.len() >= 5, "{kinds:?}");
    for (exit, value) in exits {
        if let Value::Bool(has_escapes) = value {
            assert!(!has_escapes, "{exit}");
        } else {
            assert_clean(exit, &value);
        }
    }
    // The raw texts stay stored, and the raw name is what was sent.
    assert_eq!(raw_tool.id.tool.as_str(), hostile("tool"));
    assert_eq!(raw_tool.definition.description, Some(hostile("words")));
    let calls = server.received_with("tools/call");
    assert_eq!(calls[0]["params"]["name"], hostile("tool"));
}
