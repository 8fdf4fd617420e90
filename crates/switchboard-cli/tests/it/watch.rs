//! `watch`: what changes is printed as it changes.

use rustix::process::Signal;
use serde_json::{Value, json};
use switchboard_testkit::{Script, Step, assert_no_process_left};

use crate::json::check;
use crate::support::Desk;
use crate::watching::Watching;

const CLOCK: &str = "demo://clock";

/// A resource that changes by itself, and a tool that answers something else from the second time on.
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

fn desk() -> Desk {
    Desk::with([
        ("old", changing(Script::legacy()).into()),
        ("new", changing(Script::modern()).into()),
        (
            "mute",
            changing(Script::legacy()).without_subscribe().into(),
        ),
    ])
}

/// The lines without the time that they begin with.
fn timeless(text: &str) -> String {
    let lines = text.lines().map(|line| match line.split_once("Z ") {
        Some((time, rest)) if time.len() == 19 => rest,
        _ => line,
    });
    lines.collect::<Vec<_>>().join("\n")
}

#[tokio::test]
async fn a_resource_is_shown_as_it_changes() {
    let desk = desk();
    for (server, how) in [
        ("old", "the server tells"),
        ("new", "the server tells"),
        ("mute", "asked every 5s: the server has no subscriptions"),
    ] {
        let ran = desk.run(&["watch", server, CLOCK, "--count", "1"]).await;
        assert_eq!(ran.code, 0, "{}", ran.stderr);
        let shown = timeless(&ran.stdout);
        let (first, diff) = shown.split_once('\n').unwrap();
        assert_eq!(first, "changed: 1 line added, 1 removed");
        assert!(diff.starts_with("  -tick"), "{diff}");
        let begins =
            format!("watching resource {CLOCK} of server {server} ({how}); Ctrl-C ends it");
        assert_eq!(ran.stderr, begins);
    }
}

#[tokio::test]
async fn a_tool_is_polled_once_it_is_permitted() {
    let desk = desk();
    let poll = [
        "watch", "old", "--tool", "look", "--every", "1s", "--count", "1",
    ];
    let ran = desk.run(&poll).await;
    assert_eq!((ran.code, ran.stdout.as_str()), (6, ""));
    assert!(
        ran.stderr
            .contains("hint: pass --yes, or --allow mcp__old__look"),
        "{}",
        ran.stderr
    );
    for permitted in [&["--yes"][..], &["--allow", "mcp__old__look"]] {
        let ran = desk.run(&[&poll[..], permitted].concat()).await;
        assert_eq!(ran.code, 0, "{}", ran.stderr);
        assert_eq!(
            timeless(&ran.stdout),
            "changed: 1 line added, 1 removed\n  -empty\n  +full"
        );
    }
}

#[tokio::test]
async fn every_line_is_as_documented() {
    let desk = desk();
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
        let ran = desk.run(args).await;
        let lines: Vec<Value> = ran
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
async fn what_cannot_be_watched_is_said_at_once() {
    let desk = desk();
    for (args, code, message) in [
        (
            &["watch", "nobody", CLOCK][..],
            2,
            "there is no server \"nobody\"",
        ),
        (&["watch", "old"], 2, "what is to be watched?"),
        (&["watch", "old", CLOCK, "x=1"], 2, "`x=1` is one too many"),
        (
            &["watch", "old", CLOCK, "--every", "10ms"],
            2,
            "the shortest interval is 1s",
        ),
        (&["watch", "old", "demo://none"], 7, "server old refused"),
        (
            &["watch", "old", "--tool", "lok"],
            2,
            "there is no tool mcp__old__lok",
        ),
        (&["watch", "old", "--tool", "look", "1"], 2, "`1`"),
    ] {
        let ran = desk.run(args).await;
        assert_eq!(ran.code, code, "{args:?}: {}", ran.stderr);
        assert!(ran.stderr.contains(message), "{args:?}: {}", ran.stderr);
    }
}

#[tokio::test]
async fn ctrl_c_ends_it_and_nothing_is_left() {
    let desk = desk();
    for (more, code) in [(&[][..], 0), (&["--count", "1000"], 130)] {
        let args = [&["watch", "old", CLOCK, "--json"], more].concat();
        let watching = Watching::start(&desk, &args);
        let first: Value = serde_json::from_str(&watching.next()).unwrap();
        assert_eq!(first["target"], json!({"type": "resource", "uri": CLOCK}));
        assert_eq!(watching.interrupt(Signal::INT).0, code);
    }
    assert_no_process_left(desk.sandbox.tag()).await;
}

#[tokio::test]
async fn a_watch_ends_when_its_server_was_given_up() {
    let dies = Script::legacy()
        .resource("demo://one", "text")
        .on("resources/read", [Step::Default, Step::Exit(3)]);
    let desk = Desk::with([("dies", dies.into())]);
    let ran = desk
        .run(&["watch", "@dies:demo://one", "--count", "1", "--json"])
        .await;
    assert_eq!(ran.code, 4, "{}", ran.stdout);
    let last: Value = serde_json::from_str(ran.stdout.lines().last().unwrap()).unwrap();
    assert_eq!(last["error"]["kind"], "unavailable", "{}", ran.stdout);
    assert!(
        last["error"]["message"]
            .as_str()
            .unwrap()
            .contains("5 times")
    );
}
