//! `policy add`, `policy list` and `policy remove`.

use insta::assert_snapshot;
use serde_json::json;

use crate::json_docs;
use crate::support::{TestCli, echo_server};

#[tokio::test]
async fn added_rule_decides_and_can_be_removed() {
    let cli = TestCli::with_servers([("ant", echo_server().into())]);
    let add = ["policy", "add", "allow", "mcp__ant__e*", "-s", "user"];
    assert_snapshot!(cli.run(&add).await, @"
        exit 0
        --- stdout
        Added to [sandbox]/home/.config/switchboard/settings.json (user scope): allow mcp__ant__e*
        --- stderr
        to undo: switchboard policy remove 'mcp__ant__e*' --action allow -s user
        ");
    assert_eq!(
        cli.run(&["call", "ant.echo", "message=hi"]).await.stdout,
        "hi"
    );
    let output = cli.run(&add).await;
    assert!(output.stdout.starts_with("Already in "), "{output}");
    let deny = [
        "policy",
        "add",
        "deny",
        "mcp__ant__echo",
        "--where",
        "message=no*",
    ];
    assert_eq!(cli.run(&deny).await.code, 0);
    assert_eq!(
        cli.run(&["call", "ant.echo", "message=nothing"]).await.code,
        6
    );
    let rules = cli.run(&["policy", "list", "--json"]).await.json();
    let rules: Vec<_> = rules
        .as_array()
        .unwrap()
        .iter()
        .map(|rule| {
            (
                rule["action"].as_str().unwrap(),
                rule["tool"].as_str().unwrap(),
                rule["scope"].as_str().unwrap(),
            )
        })
        .collect();
    assert_eq!(
        rules,
        [
            ("deny", "mcp__ant__echo", "local"),
            ("allow", "mcp__ant__e*", "user"),
        ]
    );
    assert_eq!(cli.run(&["policy", "remove", "mcp__ant__e*"]).await.code, 0);
    assert_eq!(cli.run(&["call", "ant.echo", "message=hi"]).await.code, 6);
    let output = cli.run(&["policy", "remove", "mcp__ant__e*"]).await;
    assert_eq!(output.code, 2, "{output}");
    assert!(
        output
            .stderr
            .starts_with("error: no rule for \"mcp__ant__e*\""),
        "{output}"
    );
}

#[tokio::test]
async fn edits_keep_comments_and_other_rules() {
    let cli = TestCli::with_servers([("ant", echo_server().into())]);
    let text = r#"{
  // mine
  "permissions": [
    { "tool": "mcp__a", "action": "ask" }, // first
    { "tool": "mcp__b", "action": "deny" },
    { "tool": "mcp__b", "action": "ask" }
  ]
}
"#;
    cli.sandbox.write(".switchboard/settings.json", text);
    let remove = [
        "policy", "remove", "mcp__b", "--action", "deny", "-s", "project",
    ];
    assert_eq!(cli.run(&remove).await.code, 0);
    let expected = text.replace("    { \"tool\": \"mcp__b\", \"action\": \"deny\" },\n", "");
    assert_eq!(cli.sandbox.read(".switchboard/settings.json"), expected);
}

#[tokio::test]
async fn rule_that_matches_no_tool_is_rejected() {
    let cli = TestCli::empty();
    assert_snapshot!(cli.run(&["policy", "add", "deny", "ant"]).await, @"
        exit 2
        --- stderr
        error: ant: pattern matches no MCP tool
        hint: did you mean mcp__ant?
        ");
}

#[tokio::test]
async fn output_matches_docs() {
    let cli = TestCli::empty();
    let add = [
        "policy", "add", "deny", "mcp__ant", "--where", "a=b", "--json",
    ];
    json_docs::check("policy add", &cli.run(&add).await.json());
    let list = cli.run(&["policy", "list", "--json"]).await.json();
    assert_eq!(list[0]["patterns"], json!(["a=b"]));
    json_docs::check("policy list", &list);
    let remove = ["policy", "remove", "mcp__ant", "--json"];
    json_docs::check("policy remove", &cli.run(&remove).await.json());
}
