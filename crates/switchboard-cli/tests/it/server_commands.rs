//! `logs` and `restart`, and the completion of argument names.

use insta::assert_snapshot;
use serde_json::json;
use switchboard_testkit::{Script, Step};

use crate::json_docs;
use crate::support::{TestCli, echo_server};

fn noisy_server() -> Script {
    let log = Step::Notify {
        method: "notifications/message".to_owned(),
        params: Some(json!({"level": "warning", "logger": "db", "data": "slow"})),
    };
    let hello = json!({
        "protocolVersion": "2025-11-25",
        "capabilities": {"tools": {}, "logging": {}},
        "serverInfo": {"name": "s", "version": "1"},
    });
    let lines: Vec<_> = (0..20).map(|line| format!("line {line}")).collect();
    Script::legacy()
        .tool("t")
        .on_start([Step::stderr(&lines.join("\n"))])
        .on("initialize", [Step::Reply(hello)])
        .on("logging/setLevel", [log, Step::Reply(json!({}))])
}

#[tokio::test]
async fn logs_prints_stderr_and_log_messages() {
    let cli = TestCli::with_servers([("ant", noisy_server().into())]);
    let output = cli.run(&["logs", "ant"]).await;
    assert_eq!(output.code, 0, "{output}");
    for line in ["│ line 0", "│ line 19", r#"│ [warning db] "slow""#] {
        assert!(
            output.stdout.lines().any(|shown| shown == line),
            "{line}: {output}"
        );
    }
    let output = cli.run(&["logs", "ant", "--json"]).await;
    for line in output.stdout.lines() {
        json_docs::check("logs", &serde_json::from_str(line).unwrap());
    }
}

#[tokio::test]
async fn logs_of_failed_server_shows_why() {
    let cli = TestCli::with_servers([("bad", json!({"command": "no-such-program"}).into())]);
    assert_eq!(cli.run(&["logs", "bad"]).await.code, 4);
}

#[tokio::test]
async fn restart_forgets_the_cached_listing() {
    let server = switchboard_testkit::scripted_server();
    let start = format!("exec {} @script.json", server.display());
    let entry = json!({"command": "sh", "args": ["-c", start]});
    let cli = TestCli::with_servers([("ant", entry.into())]);
    cli.sandbox.write("script.json", echo_server().to_json());
    assert_eq!(cli.run(&["list"]).await.code, 0);
    let changed = Script::legacy().tool("echo").tool("sleep");
    cli.sandbox.write("script.json", changed.to_json());
    assert_snapshot!(cli.run(&["restart", "ant"]).await, @"
        exit 0
        --- stdout
        ✓ ant: 2 tools, protocol 2025-11-25, connected in [time]
          added: sleep
          removed: add
        ");
    let json = cli.run(&["restart", "ant", "--json"]).await.json();
    json_docs::check("restart", &json);
    cli.sandbox.write("script.json", "{");
    assert_eq!(cli.run(&["restart", "ant"]).await.code, 4);
}

#[tokio::test]
async fn argument_names_are_completed() {
    let tool = json!({
        "name": "search",
        "inputSchema": {"type": "object", "properties": {
            "query": {"type": "string"}, "queue": {"type": "string"}, "a b": {}, "limit": {},
        }},
    });
    let cli = TestCli::with_servers([("ant", Script::legacy().raw_tool(tool).into())]);
    assert_eq!(cli.run(&["list"]).await.code, 0);
    for line in [
        &["call", "mcp__ant__search", "que"][..],
        &["call", "ant.search", "que"],
        &["call", "ant", "search", "que"],
        &["policy", "test", "mcp__ant__search", "limit=1", "que"],
    ] {
        let words = [&["--", "switchboard"][..], line].concat();
        let mut command = cli.command_without_trust(&words);
        command.env("SWITCHBOARD_COMPLETE", "fish");
        let output = cli.run_command(command).await;
        assert_eq!(output.stdout, "query=\nqueue=", "{line:?}: {output}");
    }
}
