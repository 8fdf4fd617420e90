//! `doctor` and `why`: the chain from an entry to a tool, and where it breaks.

use serde_json::{Value, json};
use switchboard_testkit::Script;

use crate::support::{Desk, entry, polite};

/// What came of each step of a server.
fn outcomes(server: &Value) -> Vec<(&str, &str)> {
    let steps = server["steps"].as_array().unwrap().iter();
    steps
        .map(|step| {
            let text = |key: &str| step[key].as_str().unwrap();
            (text("step"), text("outcome"))
        })
        .collect()
}

/// The step that failed, and its words.
fn broken(server: &Value) -> (&str, &str) {
    let steps = server["steps"].as_array().unwrap().iter();
    let mut failed = steps.filter(|step| step["outcome"] == "failed");
    let step = failed.next().unwrap();
    assert!(failed.next().is_none(), "nothing is claimed after it");
    (
        step["step"].as_str().unwrap(),
        step["message"].as_str().unwrap(),
    )
}

#[tokio::test]
async fn a_server_that_works_holds_every_link() {
    let desk = Desk::with([("calc", polite().into())]);
    let ran = desk.run(&["doctor", "--json"]).await;
    assert_eq!(ran.code, 0, "{ran}");
    let examination = ran.json();
    let calc = &examination["servers"][0];
    assert_eq!(calc["ok"], true);
    let steps = [
        "config",
        "trust",
        "command",
        "process",
        "handshake",
        "auth",
        "tools",
        "available",
    ];
    assert_eq!(outcomes(calc), steps.map(|step| (step, "ok")));
}

#[tokio::test]
async fn each_way_to_fail_breaks_the_chain_at_its_own_link() {
    let desk = Desk::with([
        ("unread", json!({"command": 1}).into()),
        ("missing", json!({"command": "no-such-program"}).into()),
        (
            "dies",
            json!({"command": "sh", "args": ["-c", "echo no key >&2; exit 3"]}).into(),
        ),
        (
            "mute",
            json!({"command": "sleep", "args": ["60"], "startupTimeout": 300}).into(),
        ),
    ]);
    let ran = desk.run(&["doctor", "--json"]).await;
    assert_eq!(ran.code, 4, "{ran}");
    let examination = ran.json();
    let servers = examination["servers"].as_array().unwrap();
    let steps: Vec<_> = servers.iter().map(|server| broken(server).0).collect();
    assert_eq!(steps, ["config", "command", "process", "handshake"]);
    assert!(broken(&servers[2]).1.contains("no key"), "{ran}");
    assert!(
        servers[2]["hint"].as_str().unwrap().contains("sh -c"),
        "{ran}"
    );
}

#[tokio::test]
async fn what_nobody_approved_is_not_started() {
    let desk = Desk::with([("calc", polite().into())]);
    let ran = desk.finish(desk.untrusting(&["doctor", "--json"])).await;
    assert_eq!(ran.code, 4, "{ran}");
    assert_eq!(broken(&ran.json()["servers"][0]).0, "trust");
}

#[tokio::test]
async fn a_server_that_is_switched_off_is_no_failure() {
    let desk = Desk::with([("calc", entry(polite(), json!({"disabled": true})))]);
    let ran = desk.run(&["doctor"]).await;
    assert_eq!(ran.code, 0, "{ran}");
    assert!(ran.stdout.contains("switched off in its entry"), "{ran}");
}

#[tokio::test]
async fn what_providers_refuse_is_told() {
    let schema = json!({"type": "object", "oneOf": [], "properties": {"a b": {}}});
    let script = Script::legacy().raw_tool(json!({"name": "pick", "inputSchema": schema}));
    let desk = Desk::with([("calc", script.into())]);
    let ran = desk.run(&["doctor"]).await;
    assert_eq!(ran.code, 0, "{ran}");
    assert!(ran.stdout.contains("pick: its schema has oneOf"), "{ran}");
}

#[tokio::test]
async fn an_entry_that_another_replaces_is_told() {
    let desk = Desk::with([("calc", polite().into())]);
    let own = json!({"mcpServers": {"calc": {"command": "mine"}}});
    std::fs::write(desk.sandbox.home().join(".mcp.json"), own.to_string()).unwrap();
    let ran = desk.run(&["doctor"]).await;
    let told = "calc of [sandbox]/home/.mcp.json:1:16 is replaced by that of";
    assert!(ran.stdout.contains(told), "{ran}");
}

#[tokio::test]
async fn why_shows_the_way_of_one_tool() {
    let desk = Desk::with([("calc", polite().into())]);
    let ran = desk
        .run(&["why", "mcp__calc__add", "--allow", "mcp__calc"])
        .await;
    assert_eq!(ran.code, 0, "{ran}");
    for words in [
        r#""add" of "calc", spelled as they are"#,
        "allowed by rule `mcp__calc` (command line)",
        "session 1 of calc",
    ] {
        assert!(ran.stdout.contains(words), "{words}: {ran}");
    }
}

#[tokio::test]
async fn why_not_is_answered_too() {
    let desk = Desk::with([("calc", polite().into())]);
    let ran = desk
        .run(&[
            "why",
            "mcp__calc__add",
            "--deny",
            "mcp__calc__add",
            "--json",
        ])
        .await;
    assert_eq!(ran.code, 4, "{ran}");
    assert_eq!(broken(&ran.json()).0, "permission");

    let ran = desk.run(&["why", "mcp__calc__adds", "--json"]).await;
    assert_eq!(ran.code, 2, "{ran}");
    assert_eq!(broken(&ran.json()).0, "name");
    assert_eq!(ran.json()["hint"], "did you mean mcp__calc__add?");
}

#[tokio::test]
async fn a_file_that_cannot_be_used_is_something_to_be_mended() {
    let desk = Desk::with([("calc", polite().into())]);
    desk.sandbox
        .write(".switchboard/settings.json", r#"{"permissions": 1}"#);
    let ran = desk.run(&["doctor"]).await;
    assert_eq!(ran.code, 4, "{ran}");
    assert!(ran.stdout.contains("nothing can be called"), "{ran}");
    assert!(!ran.stdout.contains("all is well"), "{ran}");

    let own = desk.sandbox.home().join(".mcp.json");
    desk.sandbox.write(".switchboard/settings.json", "{}");
    std::fs::write(own, "{").unwrap();
    let ran = desk.run(&["doctor"]).await;
    assert_eq!(ran.code, 4, "{ran}");
    assert!(ran.stdout.contains("1 thing around them"), "{ran}");
}

#[tokio::test]
async fn a_name_that_is_spelled_otherwise_is_found() {
    let desk = Desk::with([("my server", polite().into())]);
    let ran = desk.run(&["why", "mcp__my server__add"]).await;
    assert_eq!(ran.code, 2, "{ran}");
    assert!(ran.stderr.contains("did you mean mcp__my_server_"), "{ran}");
}

#[tokio::test]
async fn a_rule_that_fits_no_tool_is_refused() {
    let desk = Desk::with([("calc", polite().into())]);
    let ran = desk
        .run(&["call", "--deny", "calc", "mcp__calc__add", "--yes"])
        .await;
    assert_eq!(ran.code, 2, "{ran}");
    assert!(ran.stderr.contains("--deny mcp__calc"), "{ran}");
}
