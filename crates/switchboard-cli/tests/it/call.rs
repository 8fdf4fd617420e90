//! `call`: what comes back, and what does not.

use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt as _;
use std::process::Stdio;
use std::time::{Duration, SystemTime};

use insta::assert_snapshot;
use serde_json::json;
use switchboard_testkit::{Sandbox, Script, Step, assert_no_process_left, read_record};

use crate::support::{Desk, entry, polite};

#[tokio::test]
async fn the_text_is_printed_and_nothing_else() {
    let desk = Desk::with([("ant", polite().into())]);
    let ran = desk
        .run(&["call", "mcp__ant__echo", "message=hello", "--yes"])
        .await;
    assert_snapshot!(ran, @"
        exit 0
        --- stdout
        hello
        ");
}

#[tokio::test]
async fn only_the_server_that_owns_the_tool_is_started() {
    let desk = Desk::with([
        (
            "other",
            Script::legacy().on_start([Step::count("started")]).into(),
        ),
        ("ant", polite().into()),
    ]);
    let ran = desk
        .run(&["call", "mcp__ant__add", "a=15", "b=27", "--yes"])
        .await;
    assert_snapshot!(ran, @"
        exit 0
        --- stdout
        42
        ");
    assert!(!desk.sandbox.project().join("started").exists());
}

#[tokio::test]
async fn a_server_that_waits_for_its_first_call_is_woken() {
    let desk = Desk::with([("ant", entry(polite(), json!({"lazy": true})))]);
    let ran = desk
        .run(&["call", "mcp__ant__add", "a=15", "b=27", "--yes"])
        .await;
    assert_eq!((ran.code, ran.stdout.as_str()), (0, "42"));
}

#[tokio::test]
async fn a_result_as_data() {
    let result = json!({
        "content": [
            {"type": "text", "text": "clean \u{1b}[31mred"},
            {"type": "image", "data": "aGk=", "mimeType": "image/png"},
        ],
        "structuredContent": {"n": 1},
    });
    let script = Script::legacy()
        .tool("t")
        .on("tools/call t", [Step::Reply(result)]);
    let desk = Desk::with([("ant", script.into())]);
    let ran = desk.run(&["call", "mcp__ant__t", "--yes", "--json"]).await;
    assert_eq!(
        ran.json(),
        json!({
            "content": [
                {"type": "text", "text": "clean red"},
                {"type": "image", "data": "aGk=", "mimeType": "image/png"},
            ],
            "structuredContent": {"n": 1},
            "isError": false,
            "notes": [],
        })
    );
    assert_snapshot!(desk.run(&["call", "mcp__ant__t", "--yes"]).await, @"
        exit 0
        --- stdout
        clean red
        [image: image/png, 2 bytes]
        ");
}

#[tokio::test]
async fn a_tool_that_says_it_failed_is_told_apart() {
    let failed = json!({"content": [{"type": "text", "text": "no such file"}], "isError": true});
    let script = Script::legacy()
        .tool("t")
        .on("tools/call t", [Step::Reply(failed)]);
    let desk = Desk::with([("ant", script.into())]);
    assert_snapshot!(desk.run(&["call", "mcp__ant__t", "--yes"]).await, @"
        exit 7
        --- stdout
        no such file
        --- stderr
        the tool reports an error
        ");
    let ran = desk.run(&["call", "mcp__ant__t", "--yes", "--json"]).await;
    assert_eq!((ran.code, &ran.json()["isError"]), (7, &json!(true)));
}

#[tokio::test]
async fn progress_is_told_to_those_who_want_more_words() {
    let note = Step::Progress {
        progress: json!(1),
        total: Some(json!(2)),
        message: Some("half \u{1b}[2Jway".to_owned()),
    };
    let script = Script::legacy()
        .tool("t")
        .on("tools/call t", [note, Step::text("done")]);
    let desk = Desk::with([("ant", script.into())]);
    assert_snapshot!(desk.run(&["call", "mcp__ant__t", "--yes"]).await, @"
        exit 0
        --- stdout
        done
        ");
    assert_snapshot!(desk.run(&["call", "mcp__ant__t", "--yes", "-v"]).await, @"
        exit 0
        --- stdout
        done
        --- stderr
         INFO server ant is connected
        progress 1 of 2: half way
        ");
}

#[tokio::test]
async fn a_long_result_is_whole_unless_a_limit_is_set_and_then_it_is_kept() {
    let script = Script::legacy()
        .tool("t")
        .on("tools/call t", [Step::ReplyOfSize(200_000)]);
    let desk = Desk::with([("ant", script.into())]);
    let long = desk.run(&["call", "mcp__ant__t", "--yes"]).await.stdout;
    assert!(long.len() > 190_000);

    let mut command = desk.command(&["call", "mcp__ant__t", "--yes", "--json"]);
    command.env("MAX_MCP_OUTPUT_TOKENS", "100");
    let answer = desk.finish(command).await.json();
    assert!(answer["content"][0]["text"].as_str().unwrap().len() < 1000);
    let whole = answer["whole"].as_str().unwrap();
    assert!(whole.starts_with(&*desk.sandbox.cache_home().to_string_lossy()));
    assert_eq!(std::fs::read_to_string(whole).unwrap(), long);
}

#[tokio::test]
async fn what_was_kept_for_a_week_is_removed() {
    // Long enough for a small folder to be read meanwhile.
    let steps = [Step::DelayMs(300), Step::text("done")];
    let script = Script::legacy().tool("t").on("tools/call t", steps);
    let desk = Desk::with([("ant", script.into())]);
    let folder = desk.sandbox.cache_home().join("switchboard/results");
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
    assert_eq!(desk.run(&["call", "mcp__ant__t", "--yes"]).await.code, 0);
    assert!(!old.exists() && new.exists() && other.exists());
}

#[tokio::test]
async fn the_era_that_worked_is_remembered() {
    let script = polite().record("record");
    let desk = Desk::with([("ant", script.into())]);
    for _ in 0..2 {
        assert_eq!(
            desk.run(&["call", "mcp__ant__echo", "message=x", "--yes"])
                .await
                .code,
            0
        );
    }
    let record = read_record(desk.sandbox.project().join("record"));
    let probes = record
        .iter()
        .filter(|message| message["method"] == "server/discover");
    assert_eq!(probes.count(), 1, "the second start does not probe");
    let folder = desk.sandbox.state_home().join("switchboard/servers");
    assert_eq!(std::fs::read_dir(folder).unwrap().count(), 1);
}

#[tokio::test]
async fn an_empty_result_prints_nothing_and_is_told() {
    let script = Script::legacy()
        .tool("t")
        .on("tools/call t", [Step::Reply(json!({"content": []}))]);
    let desk = Desk::with([("ant", script.into())]);
    let output = desk
        .command(&["call", "mcp__ant__t", "--yes"])
        .output()
        .unwrap();
    assert_eq!(output.stdout, b"");
    assert_snapshot!(desk.ran(&output), @"
        exit 0
        --- stderr
        note: the result is empty
        ");
    let quiet = desk.run(&["call", "mcp__ant__t", "--yes", "--quiet"]).await;
    assert_eq!((quiet.code, quiet.stderr.as_str()), (0, ""));
}

#[tokio::test]
async fn a_result_that_nobody_reads_is_not_taken_for_a_success() {
    let desk = Desk::with([("ant", polite().into())]);
    for args in [
        &["call", "mcp__ant__echo", "message=x", "--yes"][..],
        &["call", "mcp__ant__echo", "message=x", "--yes", "--json"],
        &["list"],
    ] {
        let mut command = desk.command(args);
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        drop(child.stdout.take());
        let output = child.wait_with_output().unwrap();
        let ran = desk.ran(&output);
        assert_eq!((ran.code, ran.stderr.as_str()), (141, ""), "{ran}");
    }
    assert_no_process_left(desk.sandbox.tag()).await;
}

#[tokio::test]
async fn whoever_watches_sees_how_far_a_call_has_come() {
    let part = |done: u32, words: &str| Step::Progress {
        progress: done.into(),
        total: Some(4.into()),
        message: Some(words.to_owned()),
    };
    let script = Script::legacy().tool("t").on(
        "tools/call t",
        [
            part(1, "mixing"),
            Step::DelayMs(400),
            part(3, "baking"),
            Step::DelayMs(400),
            Step::text("a cake"),
        ],
    );
    let desk = Desk::with([("ant", script.into())]);
    let terminal = desk.at_terminal(&["call", "mcp__ant__t", "--yes"]);
    terminal.wait_for("25% mixing");
    terminal.wait_for("75% baking");
    let (code, screen) = terminal.finish();
    assert_eq!(code, Some(0), "{screen}");
    // Cleared before the result is printed, and without colour.
    let (_, after) = screen.rsplit_once("\u{1b}[2K").unwrap();
    assert_eq!(after.trim(), "a cake", "{screen:?}");
    assert!(!screen.contains("\u{1b}[36m"), "{screen:?}");
}

#[tokio::test]
async fn what_a_task_says_of_itself_is_shown() {
    let state = |status: &str, words: &str| {
        json!({"taskId": "1", "status": status, "statusMessage": words, "ttlMs": null,
            "pollIntervalMs": 300, "result": {"content": [{"type": "text", "text": "a cake"}]}})
    };
    let mut made = state("working", "mixing");
    made["resultType"] = "task".into();
    let script = Script::modern()
        .tool("t")
        .on("tools/call t", [Step::Reply(made)])
        .on(
            "tasks/get",
            [
                Step::until(2, [Step::Reply(state("working", "baking"))]),
                Step::after(3, [Step::Reply(state("completed", ""))]),
            ],
        );
    let desk = Desk::with([("ant", script.into())]);
    let terminal = desk.at_terminal(&["call", "mcp__ant__t", "--yes"]);
    terminal.wait_for("mixing");
    terminal.wait_for("baking");
    let (code, screen) = terminal.finish();
    assert_eq!(code, Some(0), "{screen}");
    assert!(screen.trim().ends_with("a cake"), "{screen:?}");
    let ran = desk.run(&["call", "mcp__ant__t", "--yes", "-v"]).await;
    assert!(ran.stderr.contains("progress 0: mixing"), "{ran}");
}

#[tokio::test]
async fn what_a_dormant_server_did_not_list_the_last_time_is_looked_for_with_the_server() {
    let sandbox = Sandbox::new();
    let tool = json!({"name": "echo", "inputSchema": {"type": "object"}});
    // The first one has less to offer than those after it. Its second answer comes too late.
    let less = Step::once(
        sandbox.root().join("first"),
        [Step::Reply(json!({"tools": [tool]}))],
    );
    let script = Script::legacy()
        .tool("echo")
        .tool("pid")
        .on("tools/list", [less, Step::Default]);
    let desk = Desk::with([("ant", entry(script, json!({"lazy": true})))]);
    assert!(!desk.run(&["tools"]).await.stdout.contains("mcp__ant__pid"));
    let ran = desk.run(&["call", "mcp__ant__pid", "--yes"]).await;
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    let ran = desk.run(&["call", "mcp__ant__pit", "--yes"]).await;
    assert_eq!(ran.code, 2, "{}", ran.stderr);
    assert!(
        ran.stderr.contains("did you mean mcp__ant__pid?"),
        "{}",
        ran.stderr
    );
}
