//! Settings: rules with conditions, servers switched off, limits, and files that close everything.

use insta::assert_snapshot;
use serde_json::json;
use switchboard_testkit::{Script, read_record};

use crate::support::{Desk, Entry, Ran, entry, polite};

fn desk() -> Desk {
    Desk::with([("ant", polite().record("record").into())])
}

fn was_started(desk: &Desk) -> bool {
    desk.sandbox.project().join("record").exists()
}

fn calls(desk: &Desk) -> usize {
    let record = read_record(desk.sandbox.project().join("record"));
    let is_call = |message: &&serde_json::Value| message["method"] == "tools/call";
    record.iter().filter(is_call).count()
}

fn settle(desk: &Desk, rules: &str) {
    let text = format!("{{\n  \"permissions\": [\n    {rules}\n  ]\n}}\n");
    desk.sandbox.write_config("switchboard/settings.json", text);
}

async fn echo(desk: &Desk, message: &str) -> Ran {
    let argument = format!("message={message}");
    desk.run(&["call", "mcp__ant__echo", &argument]).await
}

#[tokio::test]
async fn a_rule_looks_at_what_would_be_sent() {
    let desk = desk();
    settle(
        &desk,
        r#"{ "tool": "mcp__ant", "pattern": "message=/srv/*", "action": "allow" },
    { "tool": "mcp__*", "pattern": "*secret*", "action": "deny" }"#,
    );
    assert_eq!(echo(&desk, "/srv/a").await.code, 0);
    assert_eq!(echo(&desk, "/srv/../etc").await.code, 6);
    assert_eq!(echo(&desk, "/etc").await.code, 6);
    assert_snapshot!(echo(&desk, "/srv/secret").await, @"
        exit 6
        --- stderr
        error: echo of server ant was not called: denied by rule `mcp__*` where `*secret*` (user, [sandbox]/home/.config/switchboard/settings.json:4:5)
        ");
    assert_eq!(calls(&desk), 1);
}

#[tokio::test]
async fn a_project_narrows_always_and_grants_only_for_its_own_servers() {
    let desk = Desk::with([("bee", polite().into())]);
    let ant = Entry::from(polite().record("record")).on(&desk.sandbox);
    let config = json!({"mcpServers": {"ant": ant}}).to_string();
    desk.sandbox.write_home(".mcp.json", &config);
    let grant = r#"{"permissions": [{"tool": "mcp__*", "action": "allow"}, {"tool": "*", "action": "allow"}]}"#;
    desk.sandbox.write(".switchboard/settings.json", grant);
    let run = async |args: &[&str]| desk.finish(desk.untrusting(args)).await;
    let call = async |tool: &str| run(&["call", tool, "message=hi"]).await.code;
    assert_eq!(call("mcp__ant__echo").await, 6);
    // Neither for one run nor by approval does the project get a say about the user's server.
    assert_eq!(echo(&desk, "hi").await.code, 6);
    let ran = run(&["trust", "--yes"]).await;
    assert_eq!(ran.code, 0, "{ran}");
    assert_eq!(call("mcp__bee__echo").await, 0);
    assert_eq!(call("mcp__ant__echo").await, 6);
    let ran = run(&["add", "-s", "project", "cat", "--", "true"]).await;
    assert_eq!(ran.code, 0, "{ran}");
    assert_eq!(call("mcp__ant__echo").await, 6);
    let ran = run(&["policy", "test", "mcp__ant__echo", "message=hi"]).await;
    assert!(
        ran.stdout.contains(
            "left out of the project, because the server is not the project's own: 2 allow rules"
        ),
        "{ran}"
    );
    let ran = run(&["why", "mcp__ant__echo"]).await;
    assert!(ran.stdout.contains("no rule fits"), "{ran}");
    let narrow = r#"{"permissions": [{"tool": "mcp__ant", "action": "deny"}]}"#;
    desk.sandbox.write(".switchboard/settings.json", narrow);
    settle(&desk, r#"{ "tool": "mcp__ant", "action": "allow" }"#);
    assert_eq!(call("mcp__ant__echo").await, 6);
    assert_eq!(calls(&desk), 0);
}

#[tokio::test]
async fn the_administrator_is_read_before_the_command_line() {
    let desk = desk();
    let ask = r#"{"permissions": [{"tool": "mcp__ant", "action": "ask"}]}"#;
    let managed = desk.sandbox.root().join("etc/managed-settings.json");
    desk.sandbox.write(managed, ask);
    let ran = desk
        .run(&["call", "mcp__ant__echo", "message=hi", "--allow", "mcp__*"])
        .await;
    assert_eq!(ran.code, 6, "{ran}");
}

#[tokio::test]
async fn settings_that_cannot_be_used_close_everything_and_the_rest_still_tells() {
    let desk = desk();
    settle(&desk, r#"{ "tool": "mcp__ant", "acton": "allow" }"#);
    let ran = desk
        .run(&[
            "call",
            "mcp__ant__echo",
            "message=hi",
            "--yes",
            "--allow",
            "*",
            "-q",
        ])
        .await;
    assert_eq!(ran.code, 6);
    assert!(
        ran.stderr.ends_with(
            "error: nothing can be called: invalid settings: unknown key `acton`; did you mean \
             `action`? ([sandbox]/home/.config/switchboard/settings.json:3:27)\n\
             hint: a rule has tool, pattern, hint, action"
        ),
        "{ran}"
    );
    assert!(!was_started(&desk));
    let ran = desk.run(&["list"]).await;
    assert_eq!(ran.code, 0);
    assert!(ran.stdout.contains("✓ connected  ant"), "{ran}");
    assert!(
        ran.stderr
            .ends_with("all calls are blocked until the settings are fixed"),
        "{ran}"
    );
    let ran = desk.run(&["list", "--json"]).await;
    assert_eq!(ran.json()["diagnostics"][0]["origin"]["line"], 3);
    // So does the host itself, should a command forget to look.
    let ran = desk.run(&["why", "mcp__ant__echo"]).await;
    assert!(ran.stdout.contains("denied: invalid settings"), "{ran}");
}

#[tokio::test]
async fn policy_test_says_which_rule_decides_and_starts_only_what_was_never_seen() {
    let desk = desk();
    settle(
        &desk,
        r#"{ "tool": "mcp__ant__*", "action": "allow" },
    { "tool": "mcp__ant__add", "pattern": "a=1?", "action": "deny" }"#,
    );
    let test = ["policy", "test", "mcp__ant__add", "a=15", "b=27"];
    assert_snapshot!(desk.run(&test).await, @r#"
        exit 0
        --- stdout
        mcp__ant__add  {"a":15,"b":27}
        ✗ denied: a deny wins over everything

        rules that fit, in reading order:
             allow  mcp__ant__*  user, [sandbox]/home/.config/switchboard/settings.json:3:5
          →  deny  mcp__ant__add where a=1?  user, [sandbox]/home/.config/switchboard/settings.json:4:5
        "#);
    assert!(was_started(&desk), "it was never seen");
    std::fs::remove_file(desk.sandbox.project().join("record")).unwrap();
    assert_snapshot!(desk.run(&["policy", "test", "mcp__ant__add", "a=2", "b=27"]).await, @r#"
        exit 0
        --- stdout
        mcp__ant__add  {"a":2,"b":27}
        ✓ allowed: it is the first rule that fits, and no deny does

        rules that fit, in reading order:
          →  allow  mcp__ant__*  user, [sandbox]/home/.config/switchboard/settings.json:3:5
        "#);
    let data = [&test[..], &["--json"]].concat();
    let data = desk.run(&data).await.json();
    assert_eq!(data["action"], "deny");
    assert_eq!(data["rule"]["patterns"], json!(["a=1?"]));
    assert_eq!(data["rule"]["origin"]["line"], 4);
    assert_eq!(data["fitting"][0]["action"], "allow");
    assert!(!was_started(&desk));
    assert_eq!(desk.run(&["policy", "test", "mcp__bee__x"]).await.code, 2);
}

#[tokio::test]
async fn policy_test_of_what_may_not_run_goes_by_the_name() {
    let desk = desk();
    desk.sandbox.write(
        ".switchboard/settings.json",
        r#"{"permissions": [{"tool": "mcp__ant", "action": "allow"}]}"#,
    );
    let ran = desk
        .finish(desk.untrusting(&["policy", "test", "mcp__ant__echo"]))
        .await;
    assert_eq!(ran.code, 0, "{ran}");
    assert!(ran.stdout.contains("? asked about: no rule fits"), "{ran}");
    assert!(
        ran.stdout.contains("note: judged by its name alone"),
        "{ran}"
    );
    assert!(ran.stdout.contains("1 allow rule of its settings"), "{ran}");
    assert!(!was_started(&desk));
}

#[tokio::test]
async fn a_server_that_is_disabled_is_not_started_until_it_is_enabled() {
    let desk = desk();
    let ran = desk.run(&["disable", "and"]).await;
    assert_snapshot!(ran, @r#"
        exit 2
        --- stderr
        error: there is no server "and"
        hint: did you mean ant?
        "#);
    let ran = desk.run(&["disable", "ant"]).await;
    assert_eq!(ran.code, 0, "{ran}");
    assert!(
        ran.stdout
            .starts_with("ant is switched off in this project ("),
        "{ran}"
    );
    assert_eq!(ran.stderr, "to undo: switchboard enable ant");
    let ran = desk.run(&["list"]).await;
    assert!(ran.stdout.contains("- disabled  ant"), "{ran}");
    assert!(
        ran.stdout
            .contains("to switch it on: switchboard enable ant"),
        "{ran}"
    );
    let ran = desk
        .run(&["call", "mcp__ant__echo", "message=hi", "--yes"])
        .await;
    assert_eq!(ran.code, 4, "{ran}");
    assert!(
        ran.stderr.ends_with("hint: switchboard enable ant"),
        "{ran}"
    );
    assert!(!was_started(&desk));
    let again = desk.run(&["disable", "ant", "--json"]).await.json();
    assert_eq!(
        (&again["enabled"], &again["changed"]),
        (&json!(false), &json!(false))
    );
    assert_eq!(desk.run(&["enable", "ant"]).await.code, 0);
    assert_eq!(
        desk.run(&["call", "mcp__ant__echo", "message=hi", "--yes"])
            .await
            .code,
        0
    );
    assert_eq!(
        desk.run(&["enable", "ant"]).await.stdout,
        "ant is switched on already"
    );
}

#[tokio::test]
async fn an_unapproved_or_broken_server_can_be_disabled_and_what_others_switch_off_stays_off() {
    let desk = Desk::with([
        (
            "bad",
            json!({"command": "x", "args": ["${NOT_SET}"]}).into(),
        ),
        ("off", entry(polite(), json!({"disabled": true}))),
    ]);
    desk.sandbox.write_config(
        "switchboard/settings.json",
        r#"{"disabledServers": ["bad"]}"#,
    );
    let ran = desk.finish(desk.untrusting(&["list", "-q"])).await;
    assert!(ran.stdout.contains("- disabled  bad"), "{ran}");
    assert!(ran.stdout.contains("- disabled  off"), "{ran}");
    let ran = desk.run(&["enable", "bad", "-q"]).await;
    assert_snapshot!(ran, @r"
        exit 4
        --- stderr
        error: server bad stays switched off: the user settings say so ([sandbox]/home/.config/switchboard/settings.json:1:22)
        hint: take it out there: [sandbox]/home/.config/switchboard/settings.json:1:22
        ");
    let ran = desk.run(&["enable", "off", "-q"]).await;
    assert_eq!(ran.code, 4, "{ran}");
    assert!(ran.stderr.contains("its entry says so"), "{ran}");
}

#[tokio::test]
async fn limits_and_deadlines_come_from_the_settings() {
    let desk = Desk::with([(
        "ant",
        Script::legacy()
            .tool("t")
            .on(
                "tools/call t",
                [switchboard_testkit::Step::ReplyOfSize(100_000)],
            )
            .into(),
    )]);
    let call = ["call", "mcp__ant__t", "--yes"];
    assert_eq!(desk.run(&call).await.code, 0);
    let limits = r#"{"limits": {"messageBytes": 50000}}"#;
    desk.sandbox.write(".switchboard/settings.json", limits);
    let ran = desk.run(&call).await;
    assert_eq!(ran.code, 7, "{ran}");
    assert!(
        ran.stderr.contains("\"limits\": { \"messageBytes\": … }"),
        "{ran}"
    );
}
