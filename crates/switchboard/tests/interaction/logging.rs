//! Log messages of servers: the log level that the host requests, the events that report the
//! messages, and the rate limit.

use serde_json::{Value, json};
use switchboard::Event;
use switchboard::mcp::{Era, LogLevel};
use switchboard_testkit::{MemoryServer, Script, Step};

use crate::common::permissive;
use crate::scripted_interaction::{ERAS, start_host};

const SET_LEVEL: &str = "logging/setLevel";

fn log(level: &str, data: &Value) -> Step {
    Step::Notify {
        method: "notifications/message".to_owned(),
        params: Some(json!({"level": level, "logger": "l", "data": data})),
    }
}

/// A legacy server that declares the logging capability, or a modern server.
fn server_with_logging(era: Era) -> Script {
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
async fn log_level_is_set_if_supported() {
    for level in [None, Some(LogLevel::Warning)] {
        for (script, has_logging) in [
            (server_with_logging(Era::Legacy), true),
            (Script::legacy(), false),
        ] {
            let script = script.tool("echo").on(SET_LEVEL, [Step::Reply(json!({}))]);
            let server = MemoryServer::new(script);
            let builder = level.into_iter().fold(permissive(), |builder, level| {
                builder.server_log_level(level)
            });
            let host = start_host(builder, &server).await;
            host.call("mcp__s__echo", json!({"message": "m"}))
                .await
                .unwrap();
            let requests = server.received_with(SET_LEVEL);
            let requests: Vec<_> = requests
                .iter()
                .map(|request| &request["params"]["level"])
                .collect();
            match level {
                Some(_) if has_logging => assert_eq!(requests, ["warning"]),
                _ => assert_eq!(requests.len(), 0),
            }
        }
    }
}

#[tokio::test(start_paused = true)]
async fn modern_requests_carry_log_level() {
    const KEY: &str = "io.modelcontextprotocol/logLevel";
    for level in [None, Some(LogLevel::Debug)] {
        let server = MemoryServer::new(server_with_logging(Era::Modern).tool("echo"));
        let builder = level.into_iter().fold(permissive(), |builder, level| {
            builder.server_log_level(level)
        });
        let host = start_host(builder, &server).await;
        host.call("mcp__s__echo", json!({"message": "m"}))
            .await
            .unwrap();
        let call = &server.received_with("tools/call")[0];
        let sent = call["params"]["_meta"].get(KEY);
        assert_eq!(sent, level.map(|_| json!("debug")).as_ref());
        assert_eq!(server.received_with(SET_LEVEL).len(), 0);
    }
}

#[tokio::test(start_paused = true)]
async fn failing_set_level_does_not_fail_connect() {
    let script = server_with_logging(Era::Legacy).tool("echo");
    let script = script.on(SET_LEVEL, [Step::error(-32603, "broken")]);
    let server = MemoryServer::new(script);
    let builder = permissive().server_log_level(LogLevel::Info);
    let host = start_host(builder, &server).await;
    host.call("mcp__s__echo", json!({"message": "m"}))
        .await
        .unwrap();
}

#[tokio::test(start_paused = true)]
async fn excess_log_messages_are_skipped_and_counted() {
    for era in ERAS {
        let steps = (0..1_000)
            .map(|n| log("info", &json!(n)))
            .chain([Step::text("done")]);
        let script = server_with_logging(era)
            .tool("flood")
            .on("tools/call flood", steps);
        let server = MemoryServer::new(script);
        let host = start_host(permissive(), &server).await;
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
