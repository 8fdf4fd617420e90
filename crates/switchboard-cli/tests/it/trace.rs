//! `--trace` and `--log-file`: content and file permissions.

use std::os::unix::fs::PermissionsExt as _;

use serde_json::{Value, json};
use switchboard_testkit::Step;

use crate::support::{TestCli, echo_server, entry};

#[tokio::test]
async fn trace_contains_messages_without_secrets() {
    let secret = "s3cret-t0ken-value";
    let script = echo_server().on(
        "tools/call echo",
        [Step::text(&format!("your token is {secret}"))],
    );
    let cli = TestCli::with_servers([("ant", entry(script, json!({"env": {"TOKEN": secret}})))]);
    let args = [
        "call",
        "mcp__ant__echo",
        &format!("message={secret}"),
        "--yes",
        "--trace",
        "trace.jsonl",
        "--log-file",
        "log",
    ];
    assert_eq!(cli.run(&args).await.code, 0);

    let trace = cli.sandbox.read("trace.jsonl");
    assert!(!trace.contains(secret), "{trace}");
    assert!(!cli.sandbox.read("log").contains(secret));
    let lines: Vec<Value> = trace
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    let sent: Vec<_> = lines
        .iter()
        .filter(|line| line["direction"] == "sent")
        .collect();
    let methods: Vec<_> = sent
        .iter()
        .filter_map(|line| line["message"]["method"].as_str())
        .collect();
    let expected = [
        "server/discover",
        "initialize",
        "notifications/initialized",
        "tools/list",
        "tools/call",
    ];
    assert_eq!(methods, expected);
    for line in &lines {
        assert_eq!(line["server"], "ant");
        assert!(line["time"].as_str().unwrap().ends_with('Z'));
    }
    for file in ["trace.jsonl", "log"] {
        let metadata = std::fs::metadata(cli.sandbox.project().join(file)).unwrap();
        assert_eq!(metadata.permissions().mode() & 0o777, 0o600, "{file}");
    }
}
