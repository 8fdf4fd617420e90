//! Settings: permission rules, disabled servers, limits, and broken files that block all calls.

use insta::assert_snapshot;
use serde_json::json;
use switchboard_testkit::{Script, read_record};

use crate::support::{CliOutput, Entry, TestCli, echo_server, entry};

fn test_cli() -> TestCli {
    TestCli::with_servers([("ant", echo_server().record("record").into())])
}

fn was_started(cli: &TestCli) -> bool {
    cli.sandbox.project().join("record").exists()
}

fn calls(cli: &TestCli) -> usize {
    let record = read_record(cli.sandbox.project().join("record"));
    let is_call = |message: &&serde_json::Value| message["method"] == "tools/call";
    record.iter().filter(is_call).count()
}

fn write_user_rules(cli: &TestCli, rules: &str) {
    let text = format!("{{\n  \"permissions\": [\n    {rules}\n  ]\n}}\n");
    cli.sandbox.write_config("switchboard/settings.json", text);
}

async fn echo(cli: &TestCli, message: &str) -> CliOutput {
    let argument = format!("message={message}");
    cli.run(&["call", "mcp__ant__echo", &argument]).await
}

#[tokio::test]
async fn rule_patterns_match_arguments() {
    let cli = test_cli();
    write_user_rules(
        &cli,
        r#"{ "tool": "mcp__ant", "pattern": "message=/srv/*", "action": "allow" },
    { "tool": "mcp__*", "pattern": "*secret*", "action": "deny" }"#,
    );
    assert_eq!(echo(&cli, "/srv/a").await.code, 0);
    assert_eq!(echo(&cli, "/srv/../etc").await.code, 6);
    assert_eq!(echo(&cli, "/etc").await.code, 6);
    assert_snapshot!(echo(&cli, "/srv/secret").await, @"
        exit 6
        --- stderr
        error: echo of server ant was not called: denied by rule `mcp__*` where `*secret*` (user, [sandbox]/home/.config/switchboard/settings.json:4:5)
        ");
    assert_eq!(calls(&cli), 1);
}

#[tokio::test]
async fn project_rules_allow_only_project_servers() {
    let cli = TestCli::with_servers([("bee", echo_server().into())]);
    let ant = Entry::from(echo_server().record("record")).into_json(&cli.sandbox);
    let config = json!({"mcpServers": {"ant": ant}}).to_string();
    cli.sandbox.write_home(".mcp.json", &config);
    let grant = r#"{"permissions": [{"tool": "mcp__*", "action": "allow"}, {"tool": "*", "action": "allow"}]}"#;
    cli.sandbox.write(".switchboard/settings.json", grant);
    let run = async |args: &[&str]| cli.run_command(cli.command_without_trust(args)).await;
    let call = async |tool: &str| run(&["call", tool, "message=hi"]).await.code;
    assert_eq!(call("mcp__ant__echo").await, 6);
    // Neither `--trust-project` nor an approval extends the project's allow rules to the user's
    // server.
    assert_eq!(echo(&cli, "hi").await.code, 6);
    let output = run(&["trust", "--yes"]).await;
    assert_eq!(output.code, 0, "{output}");
    assert_eq!(call("mcp__bee__echo").await, 0);
    assert_eq!(call("mcp__ant__echo").await, 6);
    let output = run(&["add", "-s", "project", "cat", "--", "true"]).await;
    assert_eq!(output.code, 0, "{output}");
    assert_eq!(call("mcp__ant__echo").await, 6);
    let output = run(&["policy", "test", "mcp__ant__echo", "message=hi"]).await;
    assert!(
        output.stdout.contains(
            "ignored 2 allow rules of the project settings: the server is not from the project's .mcp.json"
        ),
        "{output}"
    );
    let output = run(&["why", "mcp__ant__echo"]).await;
    assert!(output.stdout.contains("no rule matches"), "{output}");
    let narrow = r#"{"permissions": [{"tool": "mcp__ant", "action": "deny"}]}"#;
    cli.sandbox.write(".switchboard/settings.json", narrow);
    write_user_rules(&cli, r#"{ "tool": "mcp__ant", "action": "allow" }"#);
    assert_eq!(call("mcp__ant__echo").await, 6);
    assert_eq!(calls(&cli), 0);
}

#[tokio::test]
async fn managed_rules_precede_command_line() {
    let cli = test_cli();
    let ask = r#"{"permissions": [{"tool": "mcp__ant", "action": "ask"}]}"#;
    let managed = cli.sandbox.root().join("etc/managed-settings.json");
    cli.sandbox.write(managed, ask);
    let output = cli
        .run(&["call", "mcp__ant__echo", "message=hi", "--allow", "mcp__*"])
        .await;
    assert_eq!(output.code, 6, "{output}");
}

#[tokio::test]
async fn broken_settings_block_all_calls() {
    let cli = test_cli();
    write_user_rules(&cli, r#"{ "tool": "mcp__ant", "acton": "allow" }"#);
    let output = cli
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
    assert_eq!(output.code, 6);
    assert!(
        output.stderr.ends_with(
            "error: all calls are blocked: invalid settings: unknown key `acton`; did you mean \
             `action`? ([sandbox]/home/.config/switchboard/settings.json:3:27)\n\
             hint: known keys: tool, pattern, hint, action"
        ),
        "{output}"
    );
    assert!(!was_started(&cli));
    let output = cli.run(&["list"]).await;
    assert_eq!(output.code, 0);
    assert!(output.stdout.contains("✓ connected  ant"), "{output}");
    assert!(
        output
            .stderr
            .ends_with("all calls are blocked until the settings are fixed"),
        "{output}"
    );
    let output = cli.run(&["list", "--json"]).await;
    assert_eq!(output.json()["diagnostics"][0]["origin"]["line"], 3);
    // `call` checks for invalid settings before it starts a server. Independently of this check, a
    // rule of the host denies every call.
    let output = cli.run(&["why", "mcp__ant__echo"]).await;
    assert!(
        output.stdout.contains("denied: invalid settings"),
        "{output}"
    );
}

#[tokio::test]
async fn policy_test_starts_only_uncached_server() {
    let cli = test_cli();
    write_user_rules(
        &cli,
        r#"{ "tool": "mcp__ant__*", "action": "allow" },
    { "tool": "mcp__ant__add", "pattern": "a=1?", "action": "deny" }"#,
    );
    let test = ["policy", "test", "mcp__ant__add", "a=15", "b=27"];
    assert_snapshot!(cli.run(&test).await, @r#"
        exit 0
        --- stdout
        mcp__ant__add  {"a":15,"b":27}
        ✗ denied: deny rules override all others

        matching rules, in order of evaluation:
             allow  mcp__ant__*  user, [sandbox]/home/.config/switchboard/settings.json:3:5
          →  deny  mcp__ant__add where a=1?  user, [sandbox]/home/.config/switchboard/settings.json:4:5
        "#);
    assert!(was_started(&cli), "no cached listing");
    std::fs::remove_file(cli.sandbox.project().join("record")).unwrap();
    assert_snapshot!(cli.run(&["policy", "test", "mcp__ant__add", "a=2", "b=27"]).await, @r#"
        exit 0
        --- stdout
        mcp__ant__add  {"a":2,"b":27}
        ✓ allowed: first matching rule, and no deny rule matches

        matching rules, in order of evaluation:
          →  allow  mcp__ant__*  user, [sandbox]/home/.config/switchboard/settings.json:3:5
        "#);
    let data = [&test[..], &["--json"]].concat();
    let data = cli.run(&data).await.json();
    assert_eq!(data["action"], "deny");
    assert_eq!(data["rule"]["patterns"], json!(["a=1?"]));
    assert_eq!(data["rule"]["origin"]["line"], 4);
    assert_eq!(data["matchingRules"][0]["action"], "allow");
    assert!(!was_started(&cli));
    assert_eq!(cli.run(&["policy", "test", "mcp__bee__x"]).await.code, 2);
}

#[tokio::test]
async fn policy_test_matches_name_of_unapproved_server() {
    let cli = test_cli();
    cli.sandbox.write(
        ".switchboard/settings.json",
        r#"{"permissions": [{"tool": "mcp__ant", "action": "allow"}]}"#,
    );
    let output = cli
        .run_command(cli.command_without_trust(&["policy", "test", "mcp__ant__echo"]))
        .await;
    assert_eq!(output.code, 0, "{output}");
    assert!(output.stdout.contains("? ask: no rule matches"), "{output}");
    assert!(
        output.stdout.contains("note: only the name was matched"),
        "{output}"
    );
    assert!(output.stdout.contains("ignored 1 allow rule"), "{output}");
    assert!(!was_started(&cli));
}

#[tokio::test]
async fn disabled_server_is_not_started() {
    let cli = test_cli();
    let output = cli.run(&["disable", "and"]).await;
    assert_snapshot!(output, @r#"
        exit 2
        --- stderr
        error: no server named "and"
        hint: did you mean ant?
        "#);
    let output = cli.run(&["disable", "ant"]).await;
    assert_eq!(output.code, 0, "{output}");
    assert!(
        output.stdout.starts_with("Disabled ant in this project ("),
        "{output}"
    );
    assert_eq!(output.stderr, "to undo: switchboard enable ant");
    let output = cli.run(&["list"]).await;
    assert!(output.stdout.contains("- disabled  ant"), "{output}");
    assert!(
        output
            .stdout
            .contains("to enable it: switchboard enable ant"),
        "{output}"
    );
    let output = cli
        .run(&["call", "mcp__ant__echo", "message=hi", "--yes"])
        .await;
    assert_eq!(output.code, 4, "{output}");
    assert!(
        output.stderr.ends_with("hint: switchboard enable ant"),
        "{output}"
    );
    assert!(!was_started(&cli));
    let again = cli.run(&["disable", "ant", "--json"]).await.json();
    assert_eq!(
        (&again["enabled"], &again["changed"]),
        (&json!(false), &json!(false))
    );
    assert_eq!(cli.run(&["enable", "ant"]).await.code, 0);
    assert_eq!(
        cli.run(&["call", "mcp__ant__echo", "message=hi", "--yes"])
            .await
            .code,
        0
    );
    assert_eq!(
        cli.run(&["enable", "ant"]).await.stdout,
        "ant is already enabled"
    );
}

#[tokio::test]
async fn enable_does_not_override_other_scopes() {
    let cli = TestCli::with_servers([
        (
            "bad",
            json!({"command": "x", "args": ["${NOT_SET}"]}).into(),
        ),
        ("off", entry(echo_server(), json!({"disabled": true}))),
    ]);
    cli.sandbox.write_config(
        "switchboard/settings.json",
        r#"{"disabledServers": ["bad"]}"#,
    );
    let output = cli
        .run_command(cli.command_without_trust(&["list", "-q"]))
        .await;
    assert!(output.stdout.contains("- disabled  bad"), "{output}");
    assert!(output.stdout.contains("- disabled  off"), "{output}");
    let output = cli.run(&["enable", "bad", "-q"]).await;
    assert_snapshot!(output, @r"
        exit 4
        --- stderr
        error: server bad is still disabled by the user settings ([sandbox]/home/.config/switchboard/settings.json:1:22)
        hint: edit [sandbox]/home/.config/switchboard/settings.json:1:22
        ");
    let output = cli.run(&["enable", "off", "-q"]).await;
    assert_eq!(output.code, 4, "{output}");
    assert!(output.stderr.contains("by its config entry"), "{output}");
}

#[tokio::test]
async fn settings_set_limits() {
    let cli = TestCli::with_servers([(
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
    assert_eq!(cli.run(&call).await.code, 0);
    let limits = r#"{"limits": {"messageBytes": 50000}}"#;
    cli.sandbox.write(".switchboard/settings.json", limits);
    let output = cli.run(&call).await;
    assert_eq!(output.code, 7, "{output}");
    assert!(
        output
            .stderr
            .contains("\"limits\": { \"messageBytes\": … }"),
        "{output}"
    );
}

#[tokio::test]
async fn variables_of_settings_reach_expansion_and_children() {
    let server = json!({
        "command": "/bin/sh",
        "args": ["-c", "echo \"$1 $SB_CHILD\" >seen; exit 1", "sh", "${SB_EXPANDED}"],
    });
    let cli = TestCli::with_servers([("ant", server.into())]);
    let project = json!({"env": {"SB_EXPANDED": "project", "SB_CHILD": "project"}});
    cli.sandbox
        .write(".switchboard/settings.json", project.to_string());
    let user = json!({"env": {"SB_EXPANDED": "settings", "SB_CHILD": "too"}});
    cli.sandbox
        .write_config("switchboard/settings.json", user.to_string());
    let mut list = cli.command(&["list"]);
    list.env("SB_EXPANDED", "shell");
    let output = cli.run_command(list).await;
    assert_eq!(cli.sandbox.read("seen"), "settings too\n", "{output}");
    let ignored = "`env` is ignored in the settings of a project";
    assert!(output.stderr.contains(ignored), "{output}");
}

#[tokio::test]
async fn pattern_that_matches_no_tool_is_rejected() {
    let cli = test_cli();
    for (flag, pattern) in [
        ("--deny", "ant__delete*"),
        ("--allow", "ant__echo"),
        ("--ask", "Bash"),
    ] {
        let output = cli
            .run(&["call", "mcp__ant__echo", "message=hi", flag, pattern])
            .await;
        assert_eq!(output.code, 2, "{output}");
        let hint = format!("did you mean {flag} mcp__{pattern}?");
        assert!(output.stderr.contains(&hint), "{output}");
    }
    write_user_rules(&cli, r#"{ "tool": "ant__*", "action": "deny" }"#);
    let output = cli.run(&["list"]).await;
    let warning = "this rule has no effect: `ant__*` matches no MCP tool";
    assert!(output.stderr.contains(warning), "{output}");
}
