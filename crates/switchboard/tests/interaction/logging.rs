//! What servers log: asked for, passed on, at a bounded pace.

use serde_json::{Value, json};
use switchboard::Event;
use switchboard::mcp::{Era, LogLevel};
use switchboard_testkit::{MemoryServer, Script, Step};

use crate::common::permissive;
use crate::scripted_interaction::{ERAS, started};

const SET_LEVEL: &str = "logging/setLevel";

fn log(level: &str, data: &Value) -> Step {
    Step::Notify {
        method: "notifications/message".to_owned(),
        params: Some(json!({"level": level, "logger": "l", "data": data})),
    }
}

/// A server that says it has a log.
fn with_log(era: Era) -> Script {
    let capabilities = json!({"tools": {}, "logging": {}});
    let info = json!({"name": "s", "version": "1"});
    match era {
        Era::Legacy => Script::legacy().on(
            "initialize",
            [Step::Reply(json!({
                "protocolVersion": "2025-11-25", "capabilities": capabilities, "serverInfo": info,
            }))],
        ),
        Era::Modern => Script::modern(),
    }
}

#[tokio::test(start_paused = true)]
async fn a_level_is_asked_for_where_it_is_wanted_and_can_be_had() {
    for level in [None, Some(LogLevel::Warning)] {
        for (script, has_log) in [(with_log(Era::Legacy), true), (Script::legacy(), false)] {
            let script = script.tool("echo").on(SET_LEVEL, [Step::Reply(json!({}))]);
            let server = MemoryServer::new(script);
            let builder = level.into_iter().fold(permissive(), |builder, level| {
                builder.server_log_level(level)
            });
            let host = started(builder, &server).await;
            host.call("mcp__s__echo", json!({"message": "m"}))
                .await
                .unwrap();
            let asked = server.received_with(SET_LEVEL);
            let asked: Vec<_> = asked
                .iter()
                .map(|asked| &asked["params"]["level"])
                .collect();
            match level {
                Some(_) if has_log => assert_eq!(asked, ["warning"]),
                _ => assert_eq!(asked.len(), 0),
            }
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_modern_server_is_told_the_level_with_each_request() {
    const KEY: &str = "io.modelcontextprotocol/logLevel";
    for level in [None, Some(LogLevel::Debug)] {
        let server = MemoryServer::new(with_log(Era::Modern).tool("echo"));
        let builder = level.into_iter().fold(permissive(), |builder, level| {
            builder.server_log_level(level)
        });
        let host = started(builder, &server).await;
        host.call("mcp__s__echo", json!({"message": "m"}))
            .await
            .unwrap();
        let call = &server.received_with("tools/call")[0];
        let told = call["params"]["_meta"].get(KEY);
        assert_eq!(told, level.map(|_| json!("debug")).as_ref());
        assert_eq!(server.received_with(SET_LEVEL).len(), 0);
    }
}

#[tokio::test(start_paused = true)]
async fn a_server_that_cannot_set_its_level_is_used_all_the_same() {
    let script = with_log(Era::Legacy).tool("echo");
    let script = script.on(SET_LEVEL, [Step::error(-32603, "broken")]);
    let server = MemoryServer::new(script);
    let builder = permissive().server_log_level(LogLevel::Info);
    let host = started(builder, &server).await;
    host.call("mcp__s__echo", json!({"message": "m"}))
        .await
        .unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_flood_of_messages_is_counted_and_told() {
    for era in ERAS {
        let steps = (0..1_000)
            .map(|n| log("info", &json!(n)))
            .chain([Step::text("done")]);
        let script = with_log(era).tool("flood").on("tools/call flood", steps);
        let server = MemoryServer::new(script);
        let host = started(permissive(), &server).await;
        let mut events = host.events();
        host.call("mcp__s__flood", json!({})).await.unwrap();
        host.shutdown().await;
        drop(host);
        let (mut passed, mut skipped) = (Vec::new(), Vec::new());
        while let Some(event) = events.next().await {
            match event {
                Event::ServerLogged { data, .. } => passed.push(data.unwrap().to_value().unwrap()),
                Event::LogSkipped { count, .. } => skipped.push(count),
                _ => {}
            }
        }
        let first: Vec<_> = (0..100).map(Value::from).collect();
        assert_eq!(passed, first, "{era:?}");
        assert_eq!(skipped, [900], "{era:?}");
    }
}
