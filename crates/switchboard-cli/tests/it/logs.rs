//! `-v`: log messages of servers on stderr.

use insta::assert_snapshot;
use serde_json::json;
use switchboard_testkit::{Script, ServerRequest, Step, read_record};

use crate::support::{TestCli, entry};

fn log(level: &str, data: &serde_json::Value) -> Step {
    Step::Notify {
        method: "notifications/message".to_owned(),
        params: Some(json!({"level": level, "data": data})),
    }
}

/// Configures a server whose tool sends these log messages before its result.
fn logging(logs: impl IntoIterator<Item = Step>) -> TestCli {
    let capabilities = json!({"tools": {}, "logging": {}});
    let hello = json!({
        "protocolVersion": "2025-11-25",
        "capabilities": capabilities,
        "serverInfo": {"name": "s", "version": "1"},
    });
    let script = Script::legacy()
        .tool("t")
        .on("initialize", [Step::Reply(hello)])
        .on("logging/setLevel", [Step::Reply(json!({}))])
        .on("tools/call t", logs.into_iter().chain([Step::text("done")]))
        .record("record");
    TestCli::with_servers([("ant", script.into())])
}

#[tokio::test]
async fn set_level_matches_verbosity() {
    for (flags, level) in [
        (&[][..], None),
        (&["-v"], Some("info")),
        (&["-vv"], Some("debug")),
        (&["--log-file", "log"], Some("debug")),
        (&["-v", "--log-file", "log"], Some("debug")),
    ] {
        let cli = logging([]);
        let words = [flags, &["call", "mcp__ant__t", "--yes"]].concat();
        assert_eq!(cli.run(&words).await.code, 0);
        let record = read_record(cli.sandbox.project().join("record"));
        let requests = record
            .iter()
            .filter(|message| message["method"] == "logging/setLevel");
        let levels: Vec<_> = requests
            .map(|request| &request["params"]["level"])
            .collect();
        assert_eq!(levels, Vec::from_iter(level), "{flags:?}");
    }
}

#[tokio::test]
async fn log_message_is_printed_escaped() {
    let cli = logging([
        log("critical", &json!("it \"burns\"\u{1b}[2J")),
        log("info", &json!({"depth": 3})),
    ]);
    assert_snapshot!(cli.run(&["call", "mcp__ant__t", "--yes", "-v"]).await, @r#"
        exit 0
        --- stdout
        done
        --- stderr
         INFO server ant is connected
        ERROR server log server=ant level="critical" data="it \"burns\"\u{1b}[2J"
         INFO server log server=ant level="info" data="{\"depth\":3}"
        "#);
}

#[tokio::test]
async fn escaped_secret_is_masked_in_logs() {
    let message = r#"{"jsonrpc":"2.0","method":"notifications/message","params":
        {"level":"error","data":"it is \u0068ush-hush-hush"}}"#;
    let steps = [Step::Raw(message.replace('\n', "")), Step::text("done")];
    let script = Script::legacy().tool("t").on("tools/call t", steps);
    let secret = json!({"env": {"TOKEN": "hush-hush-hush"}});
    let cli = TestCli::with_servers([("ant", entry(script, secret))]);
    let output = cli.run(&["call", "mcp__ant__t", "--yes", "-v"]).await;
    assert!(output.stderr.contains(r#"data="it is ***""#), "{output}");
}

#[tokio::test]
async fn logs_wait_for_open_question() {
    let schema = json!({"type": "object", "properties": {}});
    let steps = [
        Step::Request(ServerRequest {
            id: Some(json!("first")),
            method: "elicitation/create".to_owned(),
            params: Some(json!({"message": "Agreed?", "requestedSchema": schema})),
            wait: false,
        }),
        Step::DelayMs(300),
        log("error", &json!("loud")),
        Step::Notify {
            method: "notifications/cancelled".to_owned(),
            params: Some(json!({"requestId": "first"})),
        },
        Step::text("done"),
    ];
    let script = Script::legacy().tool("ask").on("tools/call ask", steps);
    let cli = TestCli::with_servers([("ant", script.into())]);
    let terminal = cli.start_in_terminal(&["-v", "call", "mcp__ant__ask", "--yes"]);
    let (code, screen) = terminal.finish();
    assert_eq!(code, Some(0), "{screen}");
    let (open, after) = screen.split_once("[y/N] ").unwrap();
    assert!(!open.contains("loud"), "{screen}");
    let told = "\nant no longer needs an answer\n";
    let after = after
        .strip_prefix(told)
        .unwrap_or_else(|| panic!("{screen}"));
    assert!(after.contains("loud"), "{screen}");
}
