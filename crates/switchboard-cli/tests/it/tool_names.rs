//! The ways to name a tool, and `call` with `-o` and `--timeout`.

use insta::assert_snapshot;
use serde_json::json;
use switchboard_testkit::{Script, Step};

use crate::support::{TestCli, echo_server, entry};

/// A name that is too long for the server part of a wire name.
const LONG: &str = "modelcontextprotocol-server-everything";

#[tokio::test]
async fn tool_is_named_in_every_form() {
    let cli = TestCli::with_servers([
        (LONG, echo_server().into()),
        ("a.b", echo_server().into()),
        ("my server", echo_server().into()),
    ]);
    let words: [&[&str]; 10] = [
        &["mcp__server-everything_335d1169__echo"],
        &["mcp__modelcontextprotocol-server-everything__echo"],
        &["mcp__modelcontextprotocol-se_335d1169__echo"],
        &["modelcontextprotocol-server-everything.echo"],
        &[LONG, "echo"],
        &["a.b.echo"],
        &["a.b", "echo"],
        &["mcp__a.b__echo"],
        &["my server.echo"],
        &["mcp__my server__echo"],
    ];
    for words in words {
        let call = [&["call"][..], words, &["message=hi", "--yes"]].concat();
        let output = cli.run(&call).await;
        assert_eq!(
            (output.code, output.stdout.as_str()),
            (0, "hi"),
            "{words:?}: {output}"
        );
        for command in ["describe", "why"] {
            let output = cli.run(&[&[command][..], words].concat()).await;
            assert_eq!(output.code, 0, "{command} {words:?}: {output}");
        }
        let output = cli
            .run(&[&["policy", "test"][..], words, &["message=hi"]].concat())
            .await;
        assert!(
            output.stdout.contains(r#"{"message":"hi"}"#),
            "{words:?}: {output}"
        );
    }
}

#[tokio::test]
async fn server_without_tool_is_rejected() {
    let cli = TestCli::with_servers([("ant", echo_server().into())]);
    assert_snapshot!(cli.run(&["call", "ant", "message=hi"]).await, @"
        exit 2
        --- stderr
        error: missing the name of a tool of server ant
        hint: switchboard tools mcp__ant__
        ");
    assert_snapshot!(cli.run(&["call", "ant.ecco"]).await, @"
        exit 2
        --- stderr
        error: unknown tool mcp__ant__ecco
        hint: did you mean mcp__ant__echo?
        ");
}

#[tokio::test]
async fn server_part_of_tool_names_names_the_server() {
    let cli = TestCli::with_servers([(LONG, echo_server().into())]);
    let output = cli.run(&["get", "server-everything_335d1169"]).await;
    assert_eq!(output.code, 0, "{output}");
    for pattern in [
        "mcp__modelcontextprotocol-server-everything__*",
        "everything__echo",
    ] {
        let output = cli.run(&["tools", pattern]).await;
        assert!(
            output
                .stdout
                .contains("mcp__server-everything_335d1169__echo"),
            "{output}"
        );
    }
}

fn server_with_result(result: serde_json::Value) -> TestCli {
    let script = Script::legacy()
        .tool("t")
        .on("tools/call t", [Step::count("calls"), Step::Reply(result)]);
    TestCli::with_servers([("ant", script.into())])
}

#[tokio::test]
async fn binary_result_is_saved() {
    let image = json!({"type": "image", "data": "aGk=", "mimeType": "image/png"});
    let blob = json!({"type": "resource", "resource": {
        "uri": "x://y", "mimeType": "application/zip", "blob": "aGk=",
    }});
    let text = json!({"type": "text", "text": "here it is"});
    for binary in [image.clone(), blob] {
        let cli = server_with_result(json!({"content": [text, binary]}));
        let output = cli.run(&["call", "ant.t", "-o", "out", "--yes"]).await;
        assert_eq!(output.code, 0, "{output}");
        assert_eq!(output.stdout, "here it is");
        assert!(
            output.stderr.contains("saved to [sandbox]/project/out"),
            "{output}"
        );
        assert_eq!(cli.sandbox.read("out"), "hi");
        // The file exists, so the tool is not called again.
        let output = cli.run(&["call", "ant.t", "-o", "out", "--yes"]).await;
        assert_eq!(output.code, 2, "{output}");
        assert_eq!(cli.sandbox.read("calls").lines().count(), 1);
        let again = ["call", "ant.t", "-o", "out", "--force", "--yes", "--json"];
        let output = cli.run(&again).await.json();
        assert!(
            output["savedTo"].as_str().unwrap().ends_with("/out"),
            "{output}"
        );
    }
    let cli = server_with_result(json!({"content": [image, image]}));
    let output = cli.run(&["call", "ant.t", "-o", "out", "--yes"]).await;
    assert_eq!(output.code, 7, "{output}");
    assert!(output.stderr.contains("2 binary parts"), "{output}");
    let cli = server_with_result(json!({"content": [text]}));
    let output = cli.run(&["call", "ant.t", "-o", "out", "--yes"]).await;
    assert_eq!((output.code, output.stdout.as_str()), (0, ""), "{output}");
    assert_eq!(cli.sandbox.read("out"), "here it is");
}

#[tokio::test]
async fn timeout_option_overrides_entry_and_variable() {
    let script = Script::legacy().tool("t").on("tools/call t", [Step::Hang]);
    let cli = TestCli::with_servers([("ant", entry(script, json!({"timeout": 600_000})))]);
    let mut command = cli.command(&["call", "ant.t", "--timeout", "300ms", "--yes"]);
    command.env("MCP_TOOL_TIMEOUT", "600000");
    let output = cli.run_command(command).await;
    assert_eq!(output.code, 8, "{output}");
    assert!(output.stderr.contains("hint: raise --timeout"), "{output}");
}

#[tokio::test]
async fn number_that_would_be_rounded_is_not_sent() {
    let script = echo_server().record("record");
    let cli = TestCli::with_servers([("ant", script.into())]);
    for argument in [
        "n:=12345678901234567890123",
        r#"{"n": 12345678901234567890123}"#,
    ] {
        let output = cli.run(&["call", "ant.echo", argument, "--yes"]).await;
        assert_eq!(output.code, 2, "{output}");
        let expected = "error: the number 12345678901234567890123 cannot be sent exactly";
        assert!(output.stderr.starts_with(expected), "{output}");
    }
}
