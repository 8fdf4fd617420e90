//! Cost per server, per tool and per schema stays constant as their number grows.

#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "a failed expectation fails the test"
)]

mod common;

use std::num::NonZeroUsize;
use std::time::{Duration, Instant};

use common::{Calculator, InMemory, child, host_with, name, permissive};
use serde_json::json;
use switchboard::limits::{Deadlines, Limits};
use switchboard::permission::{Action, Rule};
use switchboard::status::ServerPhase;
use switchboard::{Event, Host, Readiness};
use switchboard_config::ServerConfig;
use switchboard_testkit::{MemoryServer, PeakMemory, Script, Step, cpu_time};

/// A tool whose 200 patterns would compile to more than a gigabyte.
fn tool_with_large_regexes() -> serde_json::Value {
    let properties = (0..200).map(|index| {
        let pattern = format!("^\\p{{L}}{{1,150}}x{index}$");
        (format!("p{index}"), json!({ "pattern": pattern }))
    });
    let properties: serde_json::Map<_, _> = properties.collect();
    json!({"name": "work", "inputSchema": {"type": "object", "properties": properties}})
}

#[tokio::test]
async fn large_regexes_cost_little_and_are_reported() {
    let script = Script::legacy()
        .raw_tool(tool_with_large_regexes())
        .on("tools/call work", [Step::text("fine")]);
    let (host, _) = host_with(script).await;
    let (memory, started) = (PeakMemory::begin(), cpu_time());
    let call = host.call("mcp__s__work", json!({"p1": "anything"}));
    assert_eq!(call.await.unwrap().to_text(), "fine");
    let (growth, cpu) = (memory.growth(), cpu_time().saturating_sub(started));
    assert!(growth < 64 * 1024 * 1024, "{growth} bytes");
    assert!(cpu < Duration::from_secs(2), "{cpu:?}");
    let notes = host.server_details("s").unwrap().notes;
    assert!(
        notes[0].starts_with("tool work: arguments are not validated") && notes.len() == 1,
        "{notes:?}"
    );
}

#[tokio::test]
async fn inspecting_compiles_no_schema() {
    let broken = json!({"name": "odd", "inputSchema": {"type": "no such type"}});
    let (host, _) = host_with(Script::legacy().raw_tool(broken)).await;
    assert_eq!(host.server_details("s").unwrap().notes, [""; 0]);
    host.check_schemas(host.catalog().tools()).await;
    let notes = host.server_details("s").unwrap().notes;
    assert!(
        notes[0].starts_with("tool odd: arguments are not validated"),
        "{notes:?}"
    );
}

#[tokio::test]
async fn cut_resource_listing_is_noted() {
    let script = (0..5).fold(Script::legacy(), |script, index| {
        script.resource(&format!("demo://r{index}"), "text")
    });
    let mut limits = Limits::default();
    limits.resources_per_server = 2;
    let server = MemoryServer::new(script);
    let builder = permissive().limits(limits);
    let host = builder.connector("s", InMemory(server)).start().unwrap();
    host.wait_for(Readiness::All).await;
    // The second listing comes from the cache.
    for _ in 0..2 {
        let listing = host.resources(None).await.unwrap();
        assert_eq!(listing.items.len(), 2);
        let notes: Vec<_> = listing.notes.iter().map(ToString::to_string).collect();
        assert_eq!(notes.len(), 1, "{notes:?}");
        assert!(
            notes[0].starts_with("server s: the list is cut after 2 resources"),
            "{notes:?}"
        );
    }
}

async fn start_in_process(count: usize) -> Host {
    let servers = 0..count;
    let builder = servers.fold(permissive(), |builder, index| {
        builder.in_process_server(format!("s{index}"), Calculator)
    });
    let host = builder.start().unwrap();
    host.wait_for(Readiness::All).await;
    assert_eq!(host.tools().len(), 2 * count);
    host
}

/// The CPU time of starting, inspecting and stopping `count` in-process servers.
async fn start_inspect_stop(count: usize) -> [Duration; 3] {
    let before = cpu_time();
    let host = start_in_process(count).await;
    let started = cpu_time();
    for index in 0..count {
        let server = host.server_details(&format!("s{index}")).unwrap();
        assert_eq!(server.status.tools.len(), 2);
    }
    let inspected = cpu_time();
    host.shutdown().await;
    [
        started.saturating_sub(before),
        inspected.saturating_sub(started),
        cpu_time().saturating_sub(inspected),
    ]
}

#[tokio::test]
async fn start_status_and_stop_take_linear_time() {
    // The first run pays for caches and page faults.
    start_inspect_stop(100).await;
    let few = start_inspect_stop(300).await;
    let many = start_inspect_stop(3_000).await;
    for (few, many) in few.into_iter().zip(many) {
        // Ten times the servers may take thirty times the time; quadratic cost would be a hundred.
        let limit = few.max(Duration::from_millis(5)) * 30;
        assert!(
            many < limit,
            "300 servers: {few:?}, 3,000 servers: {many:?}"
        );
    }
}

#[tokio::test]
async fn each_server_is_published_with_its_own_tools_only() {
    let host = permissive().start().unwrap();
    let mut events = host.events();
    for index in 0..20 {
        let server = format!("s{index}");
        host.add_in_process_server(&server, Calculator)
            .await
            .unwrap();
        let changed = loop {
            if let Event::ToolsChanged { server, added, .. } = events.next().await.unwrap() {
                break (server.to_string(), added.len());
            }
        };
        assert_eq!(changed, (server, 2));
    }
    let names: Vec<_> = host
        .tools()
        .iter()
        .map(|tool| tool.id.server.to_string())
        .collect();
    let expected: Vec<_> = (0..40).map(|index| format!("s{}", index / 2)).collect();
    assert_eq!(names, expected);
    host.disconnect("s7").await.unwrap();
    assert_eq!(host.catalog().tools().len(), 38);
    assert!(host.catalog().get("mcp__s7__add").is_none());
    assert!(host.catalog().get("mcp__s8__add").is_some());
}

#[tokio::test]
async fn arguments_are_serialized_once_for_all_rules() {
    let rules = (0..10_000).map(|index| {
        let rule = Rule::new(Action::Deny, "mcp__s__*").unwrap();
        rule.argument_pattern(&format!("{{\"never-{index}\":*"))
            .unwrap()
    });
    let rules: Vec<_> = rules.collect();
    let server = MemoryServer::new(Script::legacy().tool("echo"));
    let host = permissive()
        .rules(rules)
        .connector("s", InMemory(server))
        .start()
        .unwrap();
    host.wait_for(Readiness::All).await;
    let nested: Vec<_> = (0..2_000).map(|index| json!({"a": index})).collect();
    let arguments = json!({ "list": nested, "message": "x" });
    let started = cpu_time();
    for _ in 0..5 {
        host.call("mcp__s__echo", &arguments).await.unwrap();
    }
    let cpu = cpu_time().saturating_sub(started) / 5;
    // Building the JSON text for each rule takes more than ten seconds.
    assert!(cpu < Duration::from_secs(1), "{cpu:?}");
}

fn silent() -> ServerConfig {
    ServerConfig::stdio("/bin/sleep", ["60"])
}

#[tokio::test]
async fn ninth_server_is_ready_in_time_behind_eight_silent_servers() {
    let builder = (0..8).fold(permissive(), |builder, index| {
        builder.server(format!("silent{index}"), silent())
    });
    let host = builder
        .server(
            "ninth",
            child(&Script::legacy().tool("echo"), "growth-ninth"),
        )
        .start_concurrency(NonZeroUsize::new(4).unwrap())
        .start()
        .unwrap();
    let phases: Vec<_> = host.phases().into_iter().map(|(_, phase)| phase).collect();
    let mut expected = vec![ServerPhase::Starting; 4];
    expected.extend([ServerPhase::Queued; 5]);
    assert_eq!(phases, expected);
    let started = Instant::now();
    host.wait_for(Readiness::Servers(vec![name("ninth")])).await;
    assert_eq!(host.server_status("ninth").unwrap().error, None);
    assert_eq!(host.tools().len(), 1);
    let elapsed = started.elapsed();
    assert!(elapsed < Duration::from_secs(12), "{elapsed:?}");
    host.shutdown().await;
}

#[tokio::test]
async fn startup_deadline_counts_from_own_spawn() {
    let mut deadlines = Deadlines::default();
    deadlines.startup = Duration::from_secs(2);
    let builder = (0..2).fold(permissive(), |builder, index| {
        builder.server(format!("silent{index}"), silent())
    });
    let host = builder
        .deadlines(deadlines)
        .no_reconnect()
        .server("last", child(&Script::legacy().tool("echo"), "growth-last"))
        .start_concurrency(NonZeroUsize::MIN)
        .start()
        .unwrap();
    let started = Instant::now();
    host.wait_for(Readiness::Servers(vec![name("last")])).await;
    assert!(started.elapsed() > Duration::from_secs(3));
    assert_eq!(host.server_status("last").unwrap().error, None);
    host.shutdown().await;
}
