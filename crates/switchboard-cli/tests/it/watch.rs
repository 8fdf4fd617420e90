//! `watch`: prints changes of resources and tool results.

use rustix::process::Signal;
use serde_json::{Value, json};
use switchboard_testkit::{Script, Step, assert_no_process_left};

use crate::json_docs::check;
use crate::list_watch::Watching;
use crate::support::TestCli;

const CLOCK: &str = "demo://clock";

/// Adds a resource that changes every 300 ms, and a tool that returns a different result at the
/// second call.
fn changing(script: Script) -> Script {
    let look = [
        Step::until(1, [Step::text("empty")]),
        Step::after(2, [Step::text("full")]),
    ];
    script
        .clock(CLOCK, 300)
        .tool("look")
        .on("tools/call look", look)
}

fn test_cli() -> TestCli {
    TestCli::with_servers([
        ("old", changing(Script::legacy()).into()),
        ("new", changing(Script::modern()).into()),
        (
            "mute",
            changing(Script::legacy()).without_subscribe().into(),
        ),
    ])
}

/// Removes the timestamps at the start of lines.
fn without_timestamps(text: &str) -> String {
    let lines = text.lines().map(|line| match line.split_once("Z ") {
        Some((time, rest)) if time.len() == 19 => rest,
        _ => line,
    });
    lines.collect::<Vec<_>>().join("\n")
}

#[tokio::test]
async fn resource_changes_are_printed() {
    let cli = test_cli();
    for (server, method) in [
        ("old", "subscribed"),
        ("new", "subscribed"),
        (
            "mute",
            "polling every 5s: the server does not support subscriptions",
        ),
    ] {
        let output = cli.run(&["watch", server, CLOCK, "--count", "1"]).await;
        assert_eq!(output.code, 0, "{}", output.stderr);
        let shown = without_timestamps(&output.stdout);
        let (first, diff) = shown.split_once('\n').unwrap();
        assert_eq!(first, "changed: 1 line added, 1 removed");
        assert!(diff.starts_with("  -tick"), "{diff}");
        let message = format!(
            "watching resource {CLOCK} of server {server} ({method}); press Ctrl-C to stop\n\
             changes of config and rules are not followed"
        );
        assert_eq!(output.stderr, message);
    }
}

#[tokio::test]
async fn polling_tool_needs_permission() {
    let cli = test_cli();
    let poll = [
        "watch", "old", "--tool", "look", "--every", "1s", "--count", "1",
    ];
    let output = cli.run(&poll).await;
    assert_eq!((output.code, output.stdout.as_str()), (6, ""));
    assert!(
        output
            .stderr
            .contains("hint: pass --yes, or --allow mcp__old__look"),
        "{}",
        output.stderr
    );
    for permitted in [&["--yes"][..], &["--allow", "mcp__old__look"]] {
        let output = cli.run(&[&poll[..], permitted].concat()).await;
        assert_eq!(output.code, 0, "{}", output.stderr);
        assert_eq!(
            without_timestamps(&output.stdout),
            "changed: 1 line added, 1 removed\n  -empty\n  +full"
        );
    }
}

#[tokio::test]
async fn json_lines_match_docs() {
    let cli = test_cli();
    let resource = [
        "watch", "new", CLOCK, "--every", "1s", "--count", "2", "--json",
    ];
    let tool = [
        "watch",
        "new",
        "--tool",
        "mcp__new__look",
        "x:=1",
        "--every",
        "1s",
        "--count",
        "1",
    ];
    let tool = [&tool[..], &["--yes", "--json"]].concat();
    for (args, times) in [(&resource[..], 2), (&tool[..], 1)] {
        let output = cli.run(args).await;
        let lines: Vec<Value> = output
            .stdout
            .lines()
            .map(|line| serde_json::from_str(line).unwrap())
            .collect();
        assert_eq!(lines.len(), times);
        for line in &lines {
            check("watch", line);
            assert_eq!(line["happened"], "changed");
        }
    }
}

#[tokio::test]
async fn invalid_target_fails_immediately() {
    let cli = test_cli();
    for (args, code, message) in [
        (
            &["watch", "missing", CLOCK][..],
            2,
            "no server named \"missing\"",
        ),
        (&["watch", "old"], 2, "missing target"),
        (
            &["watch", "old", CLOCK, "x=1"],
            2,
            "unexpected argument `x=1`",
        ),
        (
            &["watch", "old", CLOCK, "--every", "10ms"],
            2,
            "the minimum interval is 1s",
        ),
        (
            &["watch", "old", "demo://none"],
            7,
            "server old returned an error",
        ),
        (
            &["watch", "old", "--tool", "lok"],
            2,
            "unknown tool mcp__old__lok",
        ),
        (&["watch", "old", "--tool", "look", "1"], 2, "`1`"),
    ] {
        let output = cli.run(args).await;
        assert_eq!(output.code, code, "{args:?}: {}", output.stderr);
        assert!(
            output.stderr.contains(message),
            "{args:?}: {}",
            output.stderr
        );
    }
}

#[tokio::test]
async fn sigint_ends_watch_without_processes() {
    let cli = test_cli();
    for (more, code) in [(&[][..], 0), (&["--count", "1000"], 130)] {
        let args = [&["watch", "old", CLOCK, "--json"], more].concat();
        let watching = Watching::start(&cli, &args);
        let first: Value = serde_json::from_str(&watching.next()).unwrap();
        assert_eq!(first["target"], json!({"type": "resource", "uri": CLOCK}));
        assert_eq!(watching.interrupt(Signal::INT).0, code);
    }
    assert_no_process_left(cli.sandbox.tag()).await;
}

#[tokio::test]
async fn watch_ends_when_host_gives_up() {
    let dies = Script::legacy()
        .resource("demo://one", "text")
        .on("resources/read", [Step::Default, Step::Exit(3)]);
    let cli = TestCli::with_servers([("dies", dies.into())]);
    let output = cli
        .run(&["watch", "@dies:demo://one", "--count", "1", "--json"])
        .await;
    assert_eq!(output.code, 4, "{}", output.stdout);
    let last: Value = serde_json::from_str(output.stdout.lines().last().unwrap()).unwrap();
    assert_eq!(last["error"]["kind"], "unavailable", "{}", output.stdout);
    assert!(
        last["error"]["message"]
            .as_str()
            .unwrap()
            .contains("5 times")
    );
}

#[tokio::test]
async fn unknown_outcome_of_first_call_exits_with_9() {
    let script = Script::legacy().tool("t").on("tools/call t", [Step::Abort]);
    let cli = TestCli::with_servers([("ant", script.into())]);
    let args = ["watch", "ant", "--tool", "t", "--every", "1s", "--yes"];
    let output = cli.run(&args).await;
    assert_eq!(output.code, 9, "{output}");
}
