//! What the program needs to start: file descriptors, a home directory, readable config files.

use std::os::unix::fs::symlink;

use insta::assert_snapshot;
use serde_json::json;

use crate::support::{CliOutput, TestCli, echo_server};

/// Runs `switchboard` after shell commands that change its limits or environment.
async fn run_after(cli: &TestCli, shell: &str, args: &[&str]) -> CliOutput {
    let mut command = cli.sandbox.command("/bin/sh");
    let line = format!("{shell}\nexec \"$@\"");
    command.args(["-c", &line, "sh", env!("CARGO_BIN_EXE_switchboard")]);
    command.args(args);
    cli.run_command(command).await
}

async fn list_after(cli: &TestCli, shell: &str) -> CliOutput {
    run_after(cli, shell, &["list"]).await
}

#[tokio::test]
async fn too_few_file_descriptors_are_an_error() {
    let cli = TestCli::with_servers([("ant", echo_server().into())]);
    for limit in 6..20 {
        let output = list_after(&cli, &format!("ulimit -n {limit}")).await;
        assert_eq!(output.code, 1, "{limit}: {output}");
        assert!(!output.stderr.contains("panicked"), "{limit}: {output}");
    }
    assert_snapshot!(list_after(&cli, "ulimit -n 8").await, @r"
    exit 1
    --- stderr
    error: cannot open 24 files: Too many open files (os error 24)
    hint: raise the limit on open files: ulimit -n 1024
    ");
}

#[tokio::test]
async fn missing_home_is_not_created() {
    let cli = TestCli::empty();
    let gone = cli.sandbox.root().join("gone");
    let unset = "unset XDG_CONFIG_HOME XDG_DATA_HOME XDG_STATE_HOME XDG_CACHE_HOME";
    let output = list_after(&cli, &format!("{unset}; HOME={}", gone.display())).await;
    assert_snapshot!(output, @r"
    exit 3
    --- stderr
    error: the home directory [sandbox]/gone does not exist
    hint: create it, or set HOME to an existing directory
    ");
    assert!(!gone.exists());
}

#[tokio::test]
async fn unset_home_is_reported() {
    let cli = TestCli::empty();
    let output = run_after(&cli, "unset HOME", &["trust", "--list"]).await;
    assert!(
        output.stderr.contains("HOME is not set; using /"),
        "{output}"
    );
}

#[tokio::test]
async fn dangling_config_link_is_reported() {
    let cli = TestCli::empty();
    symlink("nowhere.json", cli.sandbox.project().join(".mcp.json")).unwrap();
    assert_snapshot!(cli.run(&["list"]).await, @r"
    exit 3
    --- stderr
    warning: the file is a symbolic link to a missing file
     --> [sandbox]/project/.mcp.json
      = hint: correct or remove the link
    error: no valid server entries
    ");
}

#[tokio::test]
async fn servers_beyond_the_limit_are_left_out() {
    let cli = TestCli::empty();
    let disabled = |n: usize| {
        (
            format!("s{n}"),
            json!({"command": "true", "disabled": true}),
        )
    };
    let servers: serde_json::Map<_, _> = (0..1001).map(disabled).collect();
    let file = cli
        .sandbox
        .write("many.json", json!({"mcpServers": servers}).to_string());
    let output = cli
        .run(&["list", "--json", "--mcp-config", file.to_str().unwrap()])
        .await;
    assert_eq!(output.code, 0, "{}", output.stderr);
    assert_eq!(output.json()["servers"].as_array().unwrap().len(), 1000);
    let too_many = "too many servers; only the first 1000 are loaded";
    assert!(output.to_string().contains(too_many));
}

#[tokio::test]
async fn command_line_in_command_gets_a_hint() {
    let cli = TestCli::with_servers([("ant", json!({"command": "npx -y 'foo'"}).into())]);
    let output = cli.run(&["list"]).await;
    let hint = r#"put the arguments into `args`: "command": "npx", "args": ["-y", "'foo'"]"#;
    assert!(output.to_string().contains(hint), "{output}");
}

#[tokio::test]
async fn remove_deletes_recorded_approval() {
    let cli = TestCli::with_servers([("ant", echo_server().into()), ("bee", echo_server().into())]);
    let run = |args: &'static [&'static str]| cli.run_command(cli.command_without_trust(args));
    assert_eq!(run(&["trust", "--yes"]).await.code, 0);
    let removed = run(&["remove", "ant"]).await;
    assert_snapshot!(removed, @r"
    exit 0
    --- stdout
    Removed ant from the project scope: [sandbox]/project/.mcp.json:1
    Deleted its recorded approval or rejection
    ");
    let left = run(&["trust", "--list", "--json"]).await.json();
    let left: Vec<_> = left["approvals"].as_array().unwrap().iter().collect();
    assert_eq!(left.len(), 1);
    assert_eq!(left[0]["server"], "bee");
}

#[tokio::test]
async fn add_rejects_url_that_cannot_be_used() {
    let cli = TestCli::empty();
    for (url, problem) in [
        (
            "https://me:hush@example.com/mcp",
            "the URL contains a user name or password",
        ),
        (
            "https://token@example.com/",
            "the URL contains a user name or password",
        ),
        (
            "https://example.com:65536/mcp",
            "the port of the URL is not a number up to 65535",
        ),
        (
            "https://[::1]:99999",
            "the port of the URL is not a number up to 65535",
        ),
    ] {
        let output = cli.run(&["add", "far", "-s", "user", url]).await;
        assert_eq!(output.code, 3, "{output}");
        assert!(output.stderr.contains(problem), "{output}");
        assert!(!output.to_string().contains("hush"));
    }
    for url in ["https://[::1]/mcp", "http://localhost:65535/?a=b@c:99999"] {
        let output = cli.run(&["add", "far", "-s", "user", "--force", url]).await;
        assert_eq!(output.code, 0, "{output}");
    }
}

#[tokio::test]
async fn hint_for_disabled_server_names_the_settings() {
    let cli = TestCli::with_servers([("an t", echo_server().into())]);
    let disabled = json!({"disabledServers": ["an t"]}).to_string();
    let user = cli
        .sandbox
        .write_config("switchboard/settings.json", &disabled);
    let output = cli.run(&["get", "an t"]).await;
    assert!(
        !output.to_string().contains("switchboard enable"),
        "{output}"
    );
    let output = cli.run(&["tools", "mcp__an_t__echo"]).await;
    assert!(
        !output.to_string().contains("switchboard enable"),
        "{output}"
    );
    let list = cli.run(&["list"]).await.to_string();
    let hint = "remove it from `disabledServers` in the user settings";
    assert!(list.contains(hint), "{list}");
    std::fs::remove_file(user).unwrap();
    assert_eq!(cli.run(&["disable", "an t"]).await.code, 0);
    let list = cli.run(&["list"]).await.to_string();
    assert!(list.contains("switchboard enable 'an t'"), "{list}");
}

#[tokio::test]
async fn rejected_servers_are_listed_with_the_way_back() {
    let cli = TestCli::with_servers([("an t", echo_server().into())]);
    let run = |args: &'static [&'static str]| cli.run_command(cli.command_without_trust(args));
    assert_eq!(run(&["trust", "an t", "--reject"]).await.code, 0);
    assert_snapshot!(run(&["trust"]).await, @r"
    exit 0
    --- stdout
    No servers are waiting for approval.
    Rejected: an t
    To review one again: switchboard trust 'an t'
    ");
}

#[tokio::test]
async fn unclear_answer_is_asked_again() {
    let cli = TestCli::with_servers([("ant", echo_server().into())]);
    let mut command = cli.sandbox.command("setsid");
    command
        .args(["--ctty", env!("CARGO_BIN_EXE_switchboard"), "trust"])
        .envs([("TERM", "xterm"), ("NO_COLOR", "1")]);
    for (answer, code) in [("no\n", 4), ("never\n", 0)] {
        let mut terminal =
            switchboard_testkit::Terminal::start(command.stdin(std::process::Stdio::null()));
        for word in ["maybe\n", "yess\n", answer] {
            terminal.wait_for_next("Approve it? [y/N/never] ");
            terminal.type_text(word);
        }
        let (exit, screen) = terminal.finish();
        assert_eq!(exit, Some(code), "{screen}");
    }
}

#[tokio::test]
async fn import_counts_servers_that_it_skips() {
    let cli = TestCli::empty();
    let servers = |name: &str| json!({"mcpServers": {name: {"command": "true"}}}).to_string();
    cli.sandbox.write_home(".cursor/mcp.json", servers("mine"));
    cli.sandbox.write(".cursor/mcp.json", servers("theirs"));
    let output = cli
        .run_command(cli.command_without_trust(&["import", "cursor", "--yes"]))
        .await;
    let counted = "1 server to import, 1 from project files skipped.";
    assert!(output.stdout.contains(counted), "{output}");
    assert!(output.stdout.contains("Imported mine"), "{output}");
}

/// The time of a command grows with the number of servers, not with its square.
#[test]
fn trust_and_import_write_once() {
    fn seconds(count: usize) -> f64 {
        let cli = TestCli::empty();
        let entry = |n: usize| (format!("s{n}"), json!({"command": "true", "args": [n]}));
        let servers: serde_json::Map<_, _> = (0..count).map(entry).collect();
        let text = json!({"mcpServers": servers}).to_string();
        cli.sandbox.write_home(".cursor/mcp.json", &text);
        cli.sandbox.write(".mcp.json", &text);
        let began = std::time::Instant::now();
        for args in [
            ["trust", "--yes"].as_slice(),
            &["import", "cursor", "--yes", "-s", "local"],
        ] {
            let output = cli.command_without_trust(args).output().unwrap();
            assert!(
                output.status.success(),
                "{}",
                String::from_utf8_lossy(&output.stderr)
            );
        }
        began.elapsed().as_secs_f64()
    }
    let (small, large) = (seconds(100), seconds(1000));
    // Ten times the servers; the square would be a hundred times the time.
    assert!(large < 40.0 * small, "{small} s and {large} s");
}
