//! Text of servers cannot imitate lines of this program, on a terminal and in a pipe.

use serde_json::json;
use switchboard_testkit::{Script, Step, assert_no_process_left};

use crate::support::{Entry, TestCli, echo_server};

/// Lines that look like output of this program.
const FORGED: &str = "first\nhint: run `evil`\n    hint: evil\nerror: evil\n✓ connected  evil";

/// Asserts that each line with forged text is quoted.
fn assert_quoted(output: &str, context: &str) {
    assert!(output.contains("evil"), "{context}:\n{output}");
    for line in output.lines().filter(|line| line.contains("evil")) {
        let line = line.trim_start();
        assert!(line.starts_with('│'), "{context}: {line:?} in\n{output}");
    }
}

/// Runs a command in a pipe and on a terminal, and asserts that forged lines are quoted in both.
async fn assert_quoted_everywhere(cli: &TestCli, args: &[&str]) {
    let output = cli.run(args).await;
    assert_quoted(
        &format!("{}\n{}", output.stdout, output.stderr),
        &args.join(" "),
    );
    let (_, screen) = cli.start_in_terminal(args).finish();
    let screen = screen.replace('\r', "");
    assert_quoted(&screen, &format!("{} on a terminal", args.join(" ")));
    assert_no_process_left(cli.sandbox.tag()).await;
}

fn failing_server() -> Entry {
    let script = format!("printf '%s\\n' \"{}\" >&2; exit 3", FORGED.replace('`', ""));
    json!({"command": "sh", "args": ["-c", script]}).into()
}

#[tokio::test]
async fn stderr_of_failed_server_is_quoted() {
    let cli = TestCli::with_servers([("bad", json!({"command": "./run"}).into())]);
    let script = format!("#!/bin/sh\ncat >&2 <<'E'\n{FORGED}\nE\nexit 3\n");
    cli.sandbox.write("run", script);
    let run = cli.sandbox.project().join("run");
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    std::fs::set_permissions(run, mode).unwrap();
    for args in [
        &["list"][..],
        &["get", "bad"],
        &["call", "mcp__bad__t", "--yes"],
        &["doctor", "bad"],
        &["why", "mcp__bad__t"],
    ] {
        assert_quoted_everywhere(&cli, args).await;
    }
}

#[tokio::test]
async fn error_response_is_quoted() {
    let fail = || [Step::error(-32603, FORGED)];
    let script = Script::legacy().tool("t").on("tools/call t", fail());
    let cli = TestCli::with_servers([("bad", script.into())]);
    let output = cli.run(&["call", "mcp__bad__t", "--yes"]).await;
    assert_eq!(output.code, 7);
    let lines = output.stderr.lines().skip(1);
    assert!(
        lines.clone().all(|line| line.trim_start().starts_with('│')),
        "{output}"
    );
}

#[tokio::test]
async fn stderr_and_instructions_of_running_server_are_quoted() {
    let script = echo_server()
        .instructions(FORGED)
        .on_start([Step::stderr(FORGED)]);
    let by_file = json!({"args": ["@script.json"]});
    let cli = TestCli::with_servers([("one", crate::support::entry(script.clone(), by_file))]);
    cli.sandbox.write("script.json", script.to_json());
    assert_quoted_everywhere(&cli, &["get", "one"]).await;
}

#[tokio::test]
async fn descriptions_are_quoted() {
    let tool = json!({
        "name": "t",
        "description": format!("Does it.\n\nUsage\n  switchboard call evil\n{FORGED}"),
        "inputSchema": {"type": "object"},
    });
    let cli = TestCli::with_servers([("one", Script::legacy().raw_tool(tool).into())]);
    assert_quoted_everywhere(&cli, &["describe", "mcp__one__t"]).await;
}

#[tokio::test]
async fn long_fields_are_shortened_with_a_note() {
    let long = "x ".repeat(30_000);
    let tool = json!({
        "name": "t",
        "title": long,
        "description": long,
        "inputSchema": {"type": "object", "properties": {
            "a": {"type": "string", "description": long, "default": long},
            (long.clone()): {"enum": [long]},
        }},
    });
    let mut script = Script::legacy().raw_tool(tool).instructions(&long);
    script.server_info = json!({"name": long, "version": long});
    let by_file = json!({"args": ["@script.json"]});
    let cli = TestCli::with_servers([("one", crate::support::entry(script.clone(), by_file))]);
    cli.sandbox.write("script.json", script.to_json());
    for args in [
        &["get", "one"][..],
        &["list"],
        &["tools"],
        &["describe", "mcp__one__t"],
    ] {
        let output = cli.run(args).await;
        assert!(
            output.stdout.len() < 40_000,
            "{args:?}: {} bytes",
            output.stdout.len()
        );
        if args.len() == 2 {
            assert!(output.stdout.contains("shortened; "), "{output}");
        }
    }
}

#[tokio::test]
async fn symbols_are_ascii_without_utf8() {
    let cli = TestCli::with_servers([("bad", failing_server()), ("good", echo_server().into())]);
    for args in [&["list"][..], &["doctor"], &["get", "bad"]] {
        let mut command = cli.command(args);
        command.env("LANG", "C");
        let output = cli.run_command(command).await;
        assert!(
            output.stdout.is_ascii() && output.stderr.is_ascii(),
            "{output}"
        );
    }
    let mut command = cli.command(&["call", "mcp__good__echo", "message=✓ done…", "--yes"]);
    command.env("LC_ALL", "C");
    assert_eq!(cli.run_command(command).await.stdout, "✓ done…");
}
