//! `prompts` and `prompt`: listing, arguments, completion and output.

use insta::assert_snapshot;
use serde_json::json;
use switchboard_testkit::{Script, read_record};

use crate::support::{TestCli, echo_server};

fn test_cli() -> TestCli {
    let script = Script::legacy()
        .prompt("greet")
        .prompt("picture")
        .completion("greet", "name", ["Ann", "Anton", "Bo"])
        .completion_when("greet", "style", [("name", "Ann")], ["kind"])
        .record("record");
    TestCli::with_servers([("team", script.into())])
}

fn request_count(cli: &TestCli, method: &str) -> usize {
    let record = read_record(cli.sandbox.project().join("record"));
    let has_method = |message: &&serde_json::Value| message["method"] == method;
    record.iter().filter(has_method).count()
}

#[tokio::test]
async fn prompts_are_listed_as_slash_commands() {
    let cli = test_cli();
    assert_snapshot!(cli.run(&["prompts"]).await, @r"
    exit 0
    --- stdout
    PROMPT  ARGUMENTS  DESCRIPTION
    /mcp__team__greet  name=… [style=…]  The scripted prompt greet.
    /mcp__team__picture  The scripted prompt picture.
    ");
    let listed = cli.run(&["prompts", "team", "--json"]).await.json();
    assert_eq!(listed[0]["command"], "mcp__team__greet");
    assert_eq!(listed[0]["server"], "team");
    assert_eq!(listed[0]["name"], "greet");
    assert_eq!(listed[0]["arguments"][0]["required"], true);
}

#[tokio::test]
async fn prompt_accepts_all_name_forms() {
    let cli = test_cli();
    for name in [
        &["mcp__team__greet"][..],
        &["/mcp__team__greet"],
        &["team", "greet"],
    ] {
        let args: Vec<_> = ["prompt"].iter().chain(name).copied().collect();
        let args = [args.as_slice(), &["name=Ann", "style=kind"]].concat();
        let output = cli.run(&args).await;
        let messages = "user:\nGreet Ann in this style: kind\n\nassistant:\nHello, Ann!";
        assert_eq!(
            (output.code, output.stdout.as_str()),
            (0, messages),
            "{output}"
        );
    }
    assert_snapshot!(cli.run(&["prompt", "team", "picture"]).await, @r"
    exit 0
    --- stdout
    user:
    [image: image/png, 68 bytes]

    user:
    [resource <demo://embedded>]
    embedded
    ");
    let result = cli
        .run(&["prompt", "team", "greet", "name=A", "--json"])
        .await;
    assert_eq!(
        result.json()["messages"][1],
        json!({"role": "assistant", "content": {"type": "text", "text": "Hello, A!"}})
    );
}

#[tokio::test]
async fn invalid_arguments_are_not_sent() {
    let cli = test_cli();
    assert_snapshot!(cli.run(&["prompt", "mcp__team__greet", "style=kind"]).await, @r"
    exit 2
    --- stderr
    error: missing arguments for mcp__team__greet: name
    hint: switchboard prompt mcp__team__greet name=… [style=…]
      name: The name of the person to greet.
      style: The style of the greeting.
    ");
    assert_snapshot!(cli.run(&["prompt", "team", "greet", "name=A", "styl=x"]).await, @r#"
    exit 2
    --- stderr
    error: mcp__team__greet has no argument "styl"
    hint: did you mean style?
    "#);
    assert_snapshot!(cli.run(&["prompt", "team", "greet", "name=A", "name=B"]).await, @r"
    exit 2
    --- stderr
    error: `name` was given more than once
    ");
    assert_eq!(request_count(&cli, "prompts/get"), 0);
}

#[tokio::test]
async fn unknown_prompt_suggests_nearest() {
    let cli = test_cli();
    assert_snapshot!(cli.run(&["prompt", "mcp__team__gret", "name=A"]).await, @r#"
    exit 2
    --- stderr
    error: server team has no prompt "mcp__team__gret"
    hint: did you mean mcp__team__greet?
    "#);
    assert_snapshot!(cli.run(&["prompt", "mcp__x__greet"]).await, @r#"
    exit 2
    --- stderr
    error: unknown prompt mcp__x__greet: no server named "x"
    hint: run `switchboard prompts` to list prompts
    "#);
    assert_snapshot!(cli.run(&["prompt", "greet"]).await, @r#"
    exit 2
    --- stderr
    error: "greet" is not a prompt name (expected mcp__server__prompt)
    hint: run `switchboard prompts` to list prompts
    "#);
    let output = cli.run(&["prompt", "team", "nothing", "--json"]).await;
    assert_eq!(output.json()["error"]["kind"], "unknown-prompt");
    let other = TestCli::with_servers([("ant", echo_server().into())]);
    assert_eq!(other.run(&["prompt", "ant", "greet"]).await.code, 2);
}

#[tokio::test]
async fn completion_uses_other_arguments() {
    let cli = test_cli();
    let complete = |words: &[&'static str]| {
        let args = [&["prompt", "mcp__team__greet"], words].concat();
        cli.command(&args)
    };
    let output = cli.run_command(complete(&["--complete", "name=An"])).await;
    assert_eq!((output.code, output.stdout.as_str()), (0, "Ann\nAnton"));
    let output = cli
        .run_command(complete(&["name=Ann", "--complete", "style"]))
        .await;
    assert_eq!((output.code, output.stdout.as_str()), (0, "kind"));
    assert_snapshot!(cli.run_command(complete(&["--complete", "style="])).await, @r"
    exit 0
    --- stderr
    no completions
    ");
    assert_eq!(
        cli.run_command(complete(&["--complete", "other="]))
            .await
            .code,
        2
    );
}
