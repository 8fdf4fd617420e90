//! `list` and `get`.

use insta::assert_snapshot;
use serde_json::json;
use switchboard_testkit::{Script, Step};

use crate::support::{Desk, entry, polite};

#[tokio::test]
async fn servers_are_listed_in_the_order_of_the_file() {
    let desk = Desk::with([
        ("zebra", polite().into()),
        ("ant", Script::modern().tool("echo").into()),
        ("off", json!({"command": "x", "disabled": true}).into()),
        ("later", entry(polite(), json!({"lazy": true}))),
        (
            "remote",
            json!({"url": "https://example.invalid/mcp"}).into(),
        ),
    ]);
    assert_snapshot!(desk.run(&["list"]).await, @"");
}

#[tokio::test]
async fn the_same_as_data() {
    let desk = Desk::with([("one", polite().into())]);
    let ran = desk.run(&["list", "--json"]).await;
    let data = ran.json();
    let server = &data["servers"][0];
    assert_eq!(ran.code, 0);
    assert_eq!(data["diagnostics"], json!([]));
    assert_eq!(server["name"], "one");
    assert_eq!(server["status"], "connected");
    assert_eq!(server["scope"], "project");
    assert_eq!(server["transport"], "stdio");
    assert_eq!(server["origin"]["line"], 1);
    assert_eq!(
        server["serverInfo"],
        json!({"name": "scripted", "version": "1.0.0"})
    );
    assert_eq!(server["hello"]["version"], "2025-11-25");
    assert_eq!(server["tools"].as_array().unwrap().len(), 2);
    assert!(server["connectTime"].is_u64());
}

#[tokio::test]
async fn without_servers_it_says_what_to_type() {
    let desk = Desk::empty();
    assert_snapshot!(desk.run(&["list"]).await, @"");
    assert_eq!(
        desk.run(&["list", "--json"]).await.json()["servers"],
        json!([])
    );
}

#[tokio::test]
async fn a_projects_servers_wait_for_approval_and_are_not_started() {
    let started = Script::legacy().on_start([Step::count("started")]);
    let desk = Desk::with([("one", started.clone().into()), ("two", started.into())]);
    let ran = desk.finish(desk.untrusting(&["list"])).await;
    assert_snapshot!(ran, @"");
    assert!(!desk.sandbox.project().join("started").exists());
    let ran = desk.finish(desk.untrusting(&["get", "one"])).await;
    assert_snapshot!(ran, @"");
}

#[tokio::test]
async fn what_the_user_keeps_or_names_needs_no_approval() {
    let desk = Desk::with([("one", polite().into())]);
    let config = desk.sandbox.read(".mcp.json");
    std::fs::remove_file(desk.sandbox.project().join(".mcp.json")).unwrap();
    desk.sandbox
        .write_home(".mcp.json", config.replace("one", "mine"));
    desk.sandbox.write("named.json", &config);
    let command = desk.untrusting(&["list", "--mcp-config", "named.json"]);
    assert_snapshot!(desk.finish(command).await, @"");
    let command = desk.untrusting(&["list", "--mcp-config", &config, "--strict-mcp-config"]);
    assert_snapshot!(desk.finish(command).await, @"");
}

#[tokio::test]
async fn exit_status_tells_of_a_failed_server_when_asked_to() {
    let desk = Desk::with([("bad", json!({"command": "no-such-program"}).into())]);
    assert_eq!(desk.run(&["list"]).await.code, 0);
    assert_eq!(desk.run(&["list", "--exit-status"]).await.code, 4);
}

#[tokio::test]
async fn one_server_in_detail() {
    let script = polite().instructions("Use it \u{1b}[31mwell.\nAlways.");
    let desk = Desk::with([
        (
            "one",
            entry(
                script,
                json!({"args": ["--flag", "two words"], "env": {"TOKEN": "hush-hush", "HOME": "${HOME}"}}),
            ),
        ),
        (
            "other",
            Script::legacy().on_start([Step::count("started")]).into(),
        ),
    ]);
    // The arguments are no script, so that one fails; the entry is what is shown.
    let ran = desk.run(&["get", "one"]).await;
    assert_snapshot!(ran, @"");
    assert!(!desk.sandbox.project().join("started").exists());
}

#[tokio::test]
async fn a_connected_server_in_detail() {
    let script = polite()
        .instructions("Use it \u{1b}[31mwell.\nAlways.")
        .on_start([Step::stderr("listening")]);
    let desk = Desk::with([("one", entry(script, json!({"args": ["@script.json"]})))]);
    let script = polite()
        .instructions("Use it \u{1b}[31mwell.\nAlways.")
        .on_start([Step::stderr("listening")]);
    desk.sandbox.write("script.json", script.to_json());
    assert_snapshot!(desk.run(&["get", "one"]).await, @"");
    let data = desk.run(&["get", "one", "--json"]).await.json();
    assert_eq!(
        (&data["name"], &data["status"]),
        (&json!("one"), &json!("connected"))
    );
}

#[tokio::test]
async fn an_unknown_server_is_a_usage_error_with_the_nearest_name() {
    let desk = Desk::with([("everything", polite().into())]);
    assert_snapshot!(desk.run(&["get", "everythin"]).await, @"");
    assert_snapshot!(desk.run(&["get", "quite-different"]).await, @"");
}
