//! `call`: output, progress, stored results and the server cache.

use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt as _;
use std::process::Stdio;
use std::time::{Duration, SystemTime};

use insta::assert_snapshot;
use serde_json::json;
use switchboard_testkit::{Sandbox, Script, Step, assert_no_process_left, read_record};

use crate::support::{TestCli, echo_server, entry};

#[tokio::test]
async fn text_result_is_printed() {
    let cli = TestCli::with_servers([("ant", echo_server().into())]);
    let output = cli
        .run(&["call", "mcp__ant__echo", "message=hello", "--yes"])
        .await;
    assert_snapshot!(output, @"
        exit 0
        --- stdout
        hello
        ");
}

#[tokio::test]
async fn only_owning_server_is_started() {
    let cli = TestCli::with_servers([
        (
            "other",
            Script::legacy().on_start([Step::count("started")]).into(),
        ),
        ("ant", echo_server().into()),
    ]);
    let output = cli
        .run(&["call", "mcp__ant__add", "a=15", "b=27", "--yes"])
        .await;
    assert_snapshot!(output, @"
        exit 0
        --- stdout
        42
        ");
    assert!(!cli.sandbox.project().join("started").exists());
}

#[tokio::test]
async fn lazy_server_is_started_by_call() {
    let cli = TestCli::with_servers([("ant", entry(echo_server(), json!({"lazy": true})))]);
    let output = cli
        .run(&["call", "mcp__ant__add", "a=15", "b=27", "--yes"])
        .await;
    assert_eq!((output.code, output.stdout.as_str()), (0, "42"));
}

#[tokio::test]
async fn json_contains_the_whole_result() {
    let result = json!({
        "content": [
            {"type": "text", "text": "clean \u{1b}[31mred", "annotations": {"priority": 1}},
            {"type": "image", "data": "aGk=", "mimeType": "image/png"},
        ],
        "structuredContent": {"n": 1},
    });
    let script = Script::legacy()
        .tool("t")
        .on("tools/call t", [Step::Reply(result)]);
    let cli = TestCli::with_servers([("ant", script.into())]);
    let output = cli.run(&["call", "mcp__ant__t", "--yes", "--json"]).await;
    assert_eq!(
        output.json(),
        json!({
            "content": [
                {"type": "text", "text": "clean red", "annotations": {"priority": 1}},
                {"type": "image", "data": "aGk=", "mimeType": "image/png"},
            ],
            "structuredContent": {"n": 1},
            "isError": false,
            "notes": ["escape sequences or invisible characters were removed from block 1"],
        })
    );
    assert_snapshot!(cli.run(&["call", "mcp__ant__t", "--yes"]).await, @"
        exit 0
        --- stdout
        clean red
        [image: image/png, 2 bytes]
        --- stderr
        note: escape sequences or invisible characters were removed from block 1
        ");
}

#[tokio::test]
async fn tool_error_has_own_exit_code() {
    let failed = json!({"content": [{"type": "text", "text": "no such file"}], "isError": true});
    let script = Script::legacy()
        .tool("t")
        .on("tools/call t", [Step::Reply(failed)]);
    let cli = TestCli::with_servers([("ant", script.into())]);
    assert_snapshot!(cli.run(&["call", "mcp__ant__t", "--yes"]).await, @"
        exit 7
        --- stdout
        no such file
        --- stderr
        the tool returned an error
        ");
    let output = cli.run(&["call", "mcp__ant__t", "--yes", "--json"]).await;
    assert_eq!((output.code, &output.json()["isError"]), (7, &json!(true)));
}

#[tokio::test]
async fn verbose_prints_progress() {
    let note = Step::Progress {
        progress: json!(1),
        total: Some(json!(2)),
        message: Some("half \u{1b}[2Jway".to_owned()),
    };
    let script = Script::legacy()
        .tool("t")
        .on("tools/call t", [note, Step::text("done")]);
    let cli = TestCli::with_servers([("ant", script.into())]);
    assert_snapshot!(cli.run(&["call", "mcp__ant__t", "--yes"]).await, @"
        exit 0
        --- stdout
        done
        ");
    assert_snapshot!(cli.run(&["call", "mcp__ant__t", "--yes", "-v"]).await, @"
        exit 0
        --- stdout
        done
        --- stderr
         INFO server ant is connected
        progress 1 of 2: half way
        ");
}

#[tokio::test]
async fn truncated_result_is_stored_in_full() {
    let script = Script::legacy()
        .tool("t")
        .on("tools/call t", [Step::ReplyOfSize(200_000)]);
    let cli = TestCli::with_servers([("ant", script.into())]);
    let long = cli.run(&["call", "mcp__ant__t", "--yes"]).await.stdout;
    assert!(long.len() > 190_000);

    let mut command = cli.command(&["call", "mcp__ant__t", "--yes", "--json"]);
    command.env("MAX_MCP_OUTPUT_TOKENS", "100");
    let result = cli.run_command(command).await.json();
    assert!(result["content"][0]["text"].as_str().unwrap().len() < 1000);
    let file = result["fullResultFile"].as_str().unwrap();
    assert!(file.starts_with(&*cli.sandbox.cache_home().to_string_lossy()));
    assert_eq!(std::fs::read_to_string(file).unwrap(), long);
}

#[tokio::test]
async fn stored_results_expire_after_week() {
    // Old results are removed in the background during the call. The delay keeps the call open
    // until all are removed.
    let steps = [Step::DelayMs(300), Step::text("done")];
    let script = Script::legacy().tool("t").on("tools/call t", steps);
    let cli = TestCli::with_servers([("ant", script.into())]);
    let folder = cli.sandbox.cache_home().join("switchboard/results");
    std::fs::create_dir_all(&folder).unwrap();
    std::fs::set_permissions(&folder, Permissions::from_mode(0o700)).unwrap();
    let day = Duration::from_secs(24 * 60 * 60);
    let [old, new, other] = [
        ("result-00000000000000000000000000000001.png", 8),
        ("result-00000000000000000000000000000002", 6),
        ("mine", 8),
    ]
    .map(|(name, days)| {
        let path = folder.join(name);
        let file = std::fs::File::create(&path).unwrap();
        file.set_modified(SystemTime::now() - days * day).unwrap();
        path
    });
    assert_eq!(cli.run(&["call", "mcp__ant__t", "--yes"]).await.code, 0);
    assert!(!old.exists() && new.exists() && other.exists());
}

#[tokio::test]
async fn protocol_era_is_cached() {
    let script = echo_server().record("record");
    let cli = TestCli::with_servers([("ant", script.into())]);
    for _ in 0..2 {
        assert_eq!(
            cli.run(&["call", "mcp__ant__echo", "message=x", "--yes"])
                .await
                .code,
            0
        );
    }
    let record = read_record(cli.sandbox.project().join("record"));
    let probes = record
        .iter()
        .filter(|message| message["method"] == "server/discover");
    assert_eq!(probes.count(), 1, "the second start does not probe");
    let folder = cli.sandbox.state_home().join("switchboard/servers");
    assert_eq!(std::fs::read_dir(folder).unwrap().count(), 1);
}

#[tokio::test]
async fn empty_result_prints_note() {
    let script = Script::legacy()
        .tool("t")
        .on("tools/call t", [Step::Reply(json!({"content": []}))]);
    let cli = TestCli::with_servers([("ant", script.into())]);
    let output = cli
        .command(&["call", "mcp__ant__t", "--yes"])
        .output()
        .unwrap();
    assert_eq!(output.stdout, b"");
    assert_snapshot!(cli.to_output(&output), @"
        exit 0
        --- stderr
        note: the result is empty
        ");
    let quiet = cli.run(&["call", "mcp__ant__t", "--yes", "--quiet"]).await;
    assert_eq!((quiet.code, quiet.stderr.as_str()), (0, ""));
}

#[tokio::test]
async fn closed_stdout_is_not_success() {
    let cli = TestCli::with_servers([("ant", echo_server().into())]);
    for args in [
        &["call", "mcp__ant__echo", "message=x", "--yes"][..],
        &["call", "mcp__ant__echo", "message=x", "--yes", "--json"],
        &["list"],
    ] {
        let mut command = cli.command(args);
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        drop(child.stdout.take());
        let output = child.wait_with_output().unwrap();
        let output = cli.to_output(&output);
        assert_eq!((output.code, output.stderr.as_str()), (141, ""), "{output}");
    }
    assert_no_process_left(cli.sandbox.tag()).await;
}

#[tokio::test]
async fn terminal_shows_progress() {
    let progress = |done: u32, message: &str| Step::Progress {
        progress: done.into(),
        total: Some(4.into()),
        message: Some(message.to_owned()),
    };
    let script = Script::legacy().tool("t").on(
        "tools/call t",
        [
            progress(1, "mixing"),
            Step::DelayMs(400),
            progress(3, "baking"),
            Step::DelayMs(400),
            Step::text("a cake"),
        ],
    );
    let cli = TestCli::with_servers([("ant", script.into())]);
    let terminal = cli.start_in_terminal(&["call", "mcp__ant__t", "--yes"]);
    terminal.wait_for("25% mixing");
    terminal.wait_for("75% baking");
    let (code, screen) = terminal.finish();
    assert_eq!(code, Some(0), "{screen}");
    // The progress line is erased before the result is printed, and is printed without colours.
    let (_, after) = screen.rsplit_once("\u{1b}[2K").unwrap();
    assert_eq!(after.trim(), "a cake", "{screen:?}");
    assert!(!screen.contains("\u{1b}[36m"), "{screen:?}");
}

#[tokio::test]
async fn task_status_is_shown() {
    let state = |status: &str, message: &str| {
        json!({"taskId": "1", "status": status, "statusMessage": message, "ttlMs": null,
            "pollIntervalMs": 300, "result": {"content": [{"type": "text", "text": "a cake"}]}})
    };
    let mut created = state("working", "mixing");
    created["resultType"] = "task".into();
    let script = Script::modern()
        .tool("t")
        .on("tools/call t", [Step::Reply(created)])
        .on(
            "tasks/get",
            [
                Step::until(2, [Step::Reply(state("working", "baking"))]),
                Step::after(3, [Step::Reply(state("completed", ""))]),
            ],
        );
    let cli = TestCli::with_servers([("ant", script.into())]);
    let terminal = cli.start_in_terminal(&["call", "mcp__ant__t", "--yes"]);
    terminal.wait_for("mixing");
    terminal.wait_for("baking");
    let (code, screen) = terminal.finish();
    assert_eq!(code, Some(0), "{screen}");
    assert!(screen.trim().ends_with("a cake"), "{screen:?}");
    let output = cli.run(&["call", "mcp__ant__t", "--yes", "-v"]).await;
    assert!(output.stderr.contains("progress 0: mixing"), "{output}");
}

#[tokio::test]
async fn tool_missing_in_cache_is_requested() {
    let sandbox = Sandbox::new();
    let tool = json!({"name": "echo", "inputSchema": {"type": "object"}});
    // The first listing lacks the tool `pid`. This listing is cached.
    let short_listing = Step::once(
        sandbox.root().join("first"),
        [Step::Reply(json!({"tools": [tool]}))],
    );
    let script = Script::legacy()
        .tool("echo")
        .tool("pid")
        .on("tools/list", [short_listing, Step::Default]);
    let cli = TestCli::with_servers([("ant", entry(script, json!({"lazy": true})))]);
    assert!(!cli.run(&["tools"]).await.stdout.contains("mcp__ant__pid"));
    let output = cli.run(&["call", "mcp__ant__pid", "--yes"]).await;
    assert_eq!(output.code, 0, "{}", output.stderr);
    let output = cli.run(&["call", "mcp__ant__pit", "--yes"]).await;
    assert_eq!(output.code, 2, "{}", output.stderr);
    assert!(
        output.stderr.contains("did you mean mcp__ant__pid?"),
        "{}",
        output.stderr
    );
}
