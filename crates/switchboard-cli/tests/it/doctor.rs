//! `doctor` and `why`: the steps from config entry to callable tool, and the first failed one.

use serde_json::{Value, json};
use switchboard_testkit::Script;

use crate::support::{TestCli, echo_server, entry};

/// Returns the name and outcome of each step.
fn outcomes(server: &Value) -> Vec<(&str, &str)> {
    let steps = server["steps"].as_array().unwrap().iter();
    steps
        .map(|step| {
            let text = |key: &str| step[key].as_str().unwrap();
            (text("step"), text("outcome"))
        })
        .collect()
}

/// Returns the name and message of the failed step.
fn failed_step(server: &Value) -> (&str, &str) {
    let steps = server["steps"].as_array().unwrap().iter();
    let mut failed = steps.filter(|step| step["outcome"] == "failed");
    let step = failed.next().unwrap();
    assert!(failed.next().is_none(), "later steps are not reached");
    (
        step["step"].as_str().unwrap(),
        step["message"].as_str().unwrap(),
    )
}

#[tokio::test]
async fn working_server_passes_all_steps() {
    let cli = TestCli::with_servers([("calc", echo_server().into())]);
    let output = cli.run(&["doctor", "--json"]).await;
    assert_eq!(output.code, 0, "{output}");
    let report = output.json();
    let calc = &report["servers"][0];
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
async fn each_failure_has_its_own_step() {
    let cli = TestCli::with_servers([
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
    let output = cli.run(&["doctor", "--json"]).await;
    assert_eq!(output.code, 4, "{output}");
    let report = output.json();
    let servers = report["servers"].as_array().unwrap();
    let steps: Vec<_> = servers.iter().map(|server| failed_step(server).0).collect();
    assert_eq!(steps, ["config", "command", "process", "handshake"]);
    assert!(failed_step(&servers[2]).1.contains("no key"), "{output}");
    assert!(
        servers[2]["hint"].as_str().unwrap().contains("sh -c"),
        "{output}"
    );
}

#[tokio::test]
async fn unapproved_server_fails_trust_step() {
    let cli = TestCli::with_servers([("calc", echo_server().into())]);
    let output = cli
        .run_command(cli.command_without_trust(&["doctor", "--json"]))
        .await;
    assert_eq!(output.code, 4, "{output}");
    assert_eq!(failed_step(&output.json()["servers"][0]).0, "trust");
}

#[tokio::test]
async fn disabled_server_is_not_failure() {
    let cli = TestCli::with_servers([("calc", entry(echo_server(), json!({"disabled": true})))]);
    let output = cli.run(&["doctor"]).await;
    assert_eq!(output.code, 0, "{output}");
    assert!(output.stdout.contains("disabled in its entry"), "{output}");
}

#[tokio::test]
async fn provider_limits_are_warned_about() {
    let schema = json!({"type": "object", "oneOf": [], "properties": {"a b": {}}});
    let script = Script::legacy().raw_tool(json!({"name": "pick", "inputSchema": schema}));
    let cli = TestCli::with_servers([("calc", script.into())]);
    let output = cli.run(&["doctor"]).await;
    assert_eq!(output.code, 0, "{output}");
    assert!(output.stdout.contains("pick: schema has oneOf"), "{output}");
    assert!(output.stdout.ends_with("1 server: 2 warnings."), "{output}");
}

#[tokio::test]
async fn overridden_entry_is_reported() {
    let cli = TestCli::with_servers([("calc", echo_server().into())]);
    let own = json!({"mcpServers": {"calc": {"command": "mine"}}});
    std::fs::write(cli.sandbox.home().join(".mcp.json"), own.to_string()).unwrap();
    let output = cli.run(&["doctor"]).await;
    let message = "calc from [sandbox]/home/.mcp.json:1:16 is overridden by";
    assert!(output.stdout.contains(message), "{output}");
}

#[tokio::test]
async fn why_shows_steps_of_tool() {
    let cli = TestCli::with_servers([("calc", echo_server().into())]);
    let output = cli
        .run(&["why", "mcp__calc__add", "--allow", "mcp__calc"])
        .await;
    assert_eq!(output.code, 0, "{output}");
    for message in [
        r#"tool "add" of server "calc""#,
        "allowed by rule `mcp__calc` (command line)",
        "connected (session 1 of calc)",
    ] {
        assert!(output.stdout.contains(message), "{message}: {output}");
    }
}

#[tokio::test]
async fn why_shows_failed_step() {
    let cli = TestCli::with_servers([("calc", echo_server().into())]);
    let output = cli
        .run(&[
            "why",
            "mcp__calc__add",
            "--deny",
            "mcp__calc__add",
            "--json",
        ])
        .await;
    assert_eq!(output.code, 4, "{output}");
    assert_eq!(failed_step(&output.json()).0, "permission");

    let output = cli.run(&["why", "mcp__calc__adds", "--json"]).await;
    assert_eq!(output.code, 2, "{output}");
    assert_eq!(failed_step(&output.json()).0, "name");
    assert_eq!(output.json()["hint"], "did you mean mcp__calc__add?");
}

#[tokio::test]
async fn broken_file_is_environment_problem() {
    let cli = TestCli::with_servers([("calc", echo_server().into())]);
    cli.sandbox
        .write(".switchboard/settings.json", r#"{"permissions": 1}"#);
    let output = cli.run(&["doctor"]).await;
    assert_eq!(output.code, 4, "{output}");
    assert!(output.stdout.contains("all calls are blocked"), "{output}");
    assert!(!output.stdout.contains("no problems found"), "{output}");

    let own = cli.sandbox.home().join(".mcp.json");
    cli.sandbox.write(".switchboard/settings.json", "{}");
    std::fs::write(own, "{").unwrap();
    let output = cli.run(&["doctor"]).await;
    assert_eq!(output.code, 4, "{output}");
    assert!(
        output.stdout.contains("1 problem in the environment"),
        "{output}"
    );
}

#[tokio::test]
async fn rule_without_tool_name_is_rejected() {
    let cli = TestCli::with_servers([("calc", echo_server().into())]);
    let output = cli
        .run(&["call", "--deny", "calc", "mcp__calc__add", "--yes"])
        .await;
    assert_eq!(output.code, 2, "{output}");
    assert!(output.stderr.contains("--deny mcp__calc"), "{output}");
}
