//! Child processes: how they start, what errors report, and that no process is left behind.

#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "a failed expectation fails the test"
)]

mod common;

use std::os::unix::fs::PermissionsExt;
use std::time::Duration;

use common::{child, launch, permissive};
use serde_json::json;
use switchboard::limits::Deadlines;
use switchboard::{CallError, Event, Host, Readiness};
use switchboard_config::ServerConfig;
use switchboard_testkit::{
    Script, Step, assert_no_process_left, processes_with_tag, unique_tag, wait_for_processes,
};

fn short_deadlines() -> Deadlines {
    let mut deadlines = Deadlines::default();
    deadlines.exit_after_eof = Duration::from_millis(200);
    deadlines.exit_after_term = Duration::from_millis(200);
    deadlines
}

#[expect(
    clippy::disallowed_methods,
    reason = "the host inherits the test's environment"
)]
fn environment() -> std::env::Vars {
    std::env::vars()
}

async fn host_with_child(config: ServerConfig) -> Host {
    let host = permissive()
        .no_reconnect()
        .deadlines(short_deadlines())
        .environment(environment())
        .launch(launch("s", config))
        .launch(launch(
            "other",
            child(&Script::legacy().tool("echo"), "other"),
        ))
        .start()
        .unwrap();
    host.wait_for(Readiness::All).await;
    host
}

/// Starts a host with a server that must fail to start. Checks that another server of the host
/// works, and returns the error and the hint of the failed server.
async fn start_failure(config: ServerConfig) -> (String, Option<String>) {
    let host = host_with_child(config).await;
    let status = host.server_status("s").unwrap();
    assert_eq!(status.status.as_str(), "failed", "{status:?}");
    host.call("mcp__other__echo", json!({"message": "hi"}))
        .await
        .unwrap();
    host.shutdown().await;
    (status.error.unwrap(), status.detail)
}

#[tokio::test]
async fn missing_command_error_has_hint() {
    let (error, hint) =
        start_failure(ServerConfig::stdio("no-such-command-anywhere", [""; 0])).await;
    assert_eq!(error, "command not found: no-such-command-anywhere");
    assert!(hint.unwrap().contains("on the PATH"));
}

#[tokio::test]
async fn spawn_failure_names_the_reason() {
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str, mode: u32| {
        let path = folder.path().join(name);
        std::fs::write(&path, text).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).unwrap();
        path.to_str().unwrap().to_owned()
    };
    for (command, message) in [
        (
            write("plain", "#!/bin/sh\n", 0o644),
            "no permission (try: chmod +x",
        ),
        (
            write("script", "#!/no/such/shell\n", 0o755),
            "first line is missing",
        ),
        (
            folder.path().to_str().unwrap().to_owned(),
            "it is a directory",
        ),
    ] {
        let (error, _) = start_failure(ServerConfig::stdio(command, [""; 0])).await;
        assert!(error.contains(message), "{error}");
    }
    let config = ServerConfig::stdio("true", [""; 0]).cwd("/no/such/folder");
    let (error, _) = start_failure(config).await;
    assert_eq!(
        error,
        "the working directory /no/such/folder does not exist"
    );
}

#[tokio::test]
async fn early_exit_reports_code_and_stderr() {
    let script = Script::legacy().on_start([
        Step::stderr("fatal: \u{1b}[31mno database\u{1b}[0m"),
        Step::Exit(3),
    ]);
    let (error, _) = start_failure(child(&script, "exits")).await;
    assert_eq!(
        error,
        "the server exited with code 3; last lines of its stderr:\nfatal: no database"
    );
}

#[tokio::test]
async fn killed_child_reports_the_signal() {
    let (error, _) =
        start_failure(child(&Script::legacy().on_start([Step::Abort]), "killed")).await;
    assert_eq!(error, "the server was killed by signal 9");
}

#[tokio::test]
async fn eof_mid_message_is_reported() {
    let script = Script::legacy().on_start([
        Step::bytes("{\"jsonrpc\":\"2.0\",\"id\":1,\"res"),
        Step::Exit(0),
    ]);
    let (error, _) = start_failure(child(&script, "half")).await;
    assert!(
        error.starts_with(
            "the server closed the connection in the middle of a message: \"{\\\"jsonrpc"
        ),
        "{error}"
    );
    assert!(error.contains("exited with code 0"), "{error}");
}

#[tokio::test]
async fn missing_env_variable_hint_names_inherit_env() {
    let script = Script::legacy().on_start([
        Step::stderr("error: CARGO_PKG_NAME must be set"),
        Step::Exit(1),
    ]);
    let (_, hint) = start_failure(child(&script, "withheld")).await;
    let hint = hint.unwrap();
    assert!(
        hint.starts_with("it names CARGO_PKG_NAME, which is set but not passed on"),
        "{hint}"
    );
    assert!(
        hint.contains(r#""inheritEnv": ["CARGO_PKG_NAME"]"#),
        "{hint}"
    );
}

#[tokio::test]
async fn secrets_are_masked_in_server_output() {
    const SECRET: &str = "hunter2-hunter2";
    let child_with_secret = |script: &Script| child(script, "secret").env("TOKEN", SECRET);
    for steps in [
        vec![Step::stderr("bad token hunter2-hunter2"), Step::Exit(1)],
        vec![Step::bytes("{\"token\":\"hunter2-hunter2"), Step::Exit(1)],
        vec![Step::raw("token hunter2-hunter2"), Step::Exit(1)],
    ] {
        let (error, _) = start_failure(child_with_secret(&Script::legacy().on_start(steps))).await;
        assert!(
            !error.contains("hunter2") && error.contains("***"),
            "{error}"
        );
    }
    let initialize_error = Script::legacy().on(
        "initialize",
        [Step::error(-1, "no entry with hunter2-hunter2")],
    );
    let (error, _) = start_failure(child_with_secret(&initialize_error)).await;
    assert!(!error.contains("hunter2"), "{error}");

    let call_error = Script::legacy()
        .tool("say")
        .on_start([Step::stderr("starting with hunter2-hunter2")])
        .on(
            "tools/call",
            [Step::error(-1, "hunter2-hunter2 is no good")],
        );
    let host = host_with_child(child_with_secret(&call_error)).await;
    let error = host.call("mcp__s__say", json!({})).await.unwrap_err();
    assert_eq!(
        error.to_string(),
        "server s returned an error for say: *** is no good (code -1)"
    );
    let stderr = host.server_details("s").unwrap().stderr;
    assert_eq!(stderr.as_deref(), Some("starting with ***"));
    host.shutdown().await;
}

#[tokio::test]
async fn child_gets_default_and_own_variables() {
    let script = Script::legacy().tool("env");
    let host = host_with_child(child(&script, "env").env("MINE", "1")).await;
    let names = host.call("mcp__s__env", json!({})).await.unwrap().to_text();
    let names: Vec<_> = names.lines().collect();
    assert!(
        names.contains(&"MINE") && names.contains(&"PATH"),
        "{names:?}"
    );
    assert!(
        !names.iter().any(|name| name.starts_with("CARGO_PKG")),
        "{names:?}"
    );
    host.shutdown().await;
}

#[tokio::test]
async fn shutdown_kills_stubborn_process_groups() {
    let behaviours = [
        vec![],
        vec![Step::IgnoreTerm],
        vec![Step::spawn_in_group()],
        vec![Step::IgnoreTerm, Step::spawn_in_group()],
    ];
    for steps in behaviours {
        let tag = unique_tag();
        let script = Script::legacy()
            .tool("echo")
            .on_start(steps)
            .on_eof([Step::Hang]);
        let host = host_with_child(child(&script, &tag)).await;
        assert!(!processes_with_tag(&tag).is_empty());
        host.shutdown().await;
        assert_eq!(processes_with_tag(&tag), Vec::<i32>::new());
    }
}

#[tokio::test]
async fn child_may_clean_up_after_eof() {
    let folder = tempfile::tempdir().unwrap();
    let cleanup_marker = folder.path().join("cleaned_up");
    let script = Script::legacy().tool("echo").on_eof([
        Step::repeated_bytes("bye\n", 100_000),
        Step::stderr("closing down"),
        Step::count(&cleanup_marker),
    ]);
    let host = host_with_child(child(&script, "cleanup")).await;
    host.shutdown().await;
    assert_eq!(switchboard_testkit::count_lines(&cleanup_marker), 1);
}

#[tokio::test]
async fn shutdown_ends_connecting_children() {
    let tag = unique_tag();
    let silent = Script::legacy()
        .on("server/discover", [Step::Hang])
        .on("initialize", [Step::Hang])
        .on_eof([Step::Hang]);
    let host = permissive()
        .deadlines(short_deadlines())
        .launch(launch("s", child(&silent, &tag)))
        .start()
        .unwrap();
    wait_for_processes(&tag, 1).await;
    host.shutdown().await;
    assert_no_process_left(&tag).await;
}

#[tokio::test]
async fn dropped_host_kills_its_children() {
    let tag = unique_tag();
    let script = Script::legacy().on_start([Step::IgnoreTerm, Step::spawn_in_group()]);
    let host = host_with_child(child(&script.on_eof([Step::Hang]), &tag)).await;
    wait_for_processes(&tag, 2).await;
    drop(host);
    assert_no_process_left(&tag).await;
}

#[test]
fn dropped_runtime_kills_children() {
    let tag = unique_tag();
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let script = Script::legacy()
        .on_start([Step::IgnoreTerm])
        .on_eof([Step::Hang]);
    let host = runtime.block_on(host_with_child(child(&script, &tag)));
    drop(runtime);
    let new_runtime = tokio::runtime::Runtime::new().unwrap();
    new_runtime.block_on(assert_no_process_left(&tag));
    drop(host);
}

#[tokio::test]
async fn disconnect_ends_process_and_removes_tools() {
    let tag = unique_tag();
    let host = host_with_child(child(&Script::legacy().tool("echo"), &tag)).await;
    assert_eq!(host.tools().len(), 2);
    host.disconnect("s").await.unwrap();
    assert!(processes_with_tag(&tag).is_empty());
    assert_eq!(common::tool_names(&host), ["mcp__other__echo"]);
    assert!(host.server_status("s").is_err());
    host.shutdown().await;
}

#[tokio::test]
async fn killed_child_is_restarted() {
    let tag = unique_tag();
    let script = Script::legacy()
        .tool("pid")
        .tool("die")
        .on("tools/call die", [Step::Abort]);
    let host = permissive()
        .launch(launch("s", child(&script, &tag)))
        .start()
        .unwrap();
    host.wait_for(Readiness::All).await;
    let mut events = host.events();
    let pid =
        |host: Host| async move { host.call("mcp__s__pid", json!({})).await.unwrap().to_text() };
    let before = pid(host.clone()).await;
    let error = host.call("mcp__s__die", json!({})).await.unwrap_err();
    assert!(matches!(error, CallError::OutcomeUnknown { .. }), "{error}");
    loop {
        if let Some(Event::ServerChanged { status, .. }) = events.next().await
            && status.as_str() == "connected"
        {
            break;
        }
    }
    assert_ne!(pid(host.clone()).await, before);
    host.shutdown().await;
    assert_no_process_left(&tag).await;
}

#[tokio::test]
async fn crash_error_includes_exit_code_and_stderr() {
    let script = Script::legacy().tool("die").on(
        "tools/call die",
        [Step::stderr("panic: out of ink"), Step::Exit(9)],
    );
    let host = host_with_child(child(&script, "dies")).await;
    let error = host.call("mcp__s__die", json!({})).await.unwrap_err();
    assert_eq!(
        error.to_string(),
        "die of server s may or may not have run: the server exited with code 9; last \
         lines of its stderr:\npanic: out of ink"
    );
    host.shutdown().await;
}

#[tokio::test]
async fn stderr_flood_does_not_block_calls() {
    let flood = Step::StderrFlood {
        bytes: Some(8 * 1024 * 1024),
    };
    let script = Script::legacy()
        .tool("work")
        .on("tools/call", [flood, Step::text("done")]);
    let host = host_with_child(child(&script, "flood")).await;
    assert_eq!(
        host.call("mcp__s__work", json!({}))
            .await
            .unwrap()
            .to_text(),
        "done"
    );
    host.shutdown().await;
}
