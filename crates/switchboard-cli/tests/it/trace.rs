//! `--trace` and `--log-file`.

use std::os::unix::fs::PermissionsExt as _;

use serde_json::{Value, json};
use switchboard_testkit::Step;

use crate::support::{Desk, entry, polite};

#[tokio::test]
async fn the_trace_holds_the_traffic_and_no_secret() {
    let secret = "s3cret-t0ken-value";
    let script = polite().on(
        "tools/call echo",
        [Step::text(&format!("your token is {secret}"))],
    );
    let desk = Desk::with([("ant", entry(script, json!({"env": {"TOKEN": secret}})))]);
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
    assert_eq!(desk.run(&args).await.code, 0);

    let trace = desk.sandbox.read("trace.jsonl");
    assert!(!trace.contains(secret), "{trace}");
    assert!(!desk.sandbox.read("log").contains(secret));
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
        let metadata = std::fs::metadata(desk.sandbox.project().join(file)).unwrap();
        assert_eq!(metadata.permissions().mode() & 0o777, 0o600, "{file}");
    }
}
