//! `prompts` and `prompt`: what can be filled in, and how it reads then.

use insta::assert_snapshot;
use serde_json::json;
use switchboard_testkit::{Script, read_record};

use crate::support::{Desk, polite};

fn desk() -> Desk {
    let script = Script::legacy()
        .prompt("greet")
        .prompt("picture")
        .completion("greet", "name", ["Ann", "Anton", "Bo"])
        .completion_when("greet", "style", [("name", "Ann")], ["kind"])
        .record("record");
    Desk::with([("team", script.into())])
}

fn asked(desk: &Desk, method: &str) -> usize {
    let record = read_record(desk.sandbox.project().join("record"));
    let is_asked = |message: &&serde_json::Value| message["method"] == method;
    record.iter().filter(is_asked).count()
}

#[tokio::test]
async fn prompts_are_listed_as_one_types_them() {
    let desk = desk();
    assert_snapshot!(desk.run(&["prompts"]).await, @r"
    exit 0
    --- stdout
    PROMPT  ARGUMENTS  DESCRIPTION
    /mcp__team__greet  name=… [style=…]  The scripted prompt greet.
    /mcp__team__picture  The scripted prompt picture.
    ");
    let listed = desk.run(&["prompts", "team", "--json"]).await.json();
    assert_eq!(listed[0]["command"], "mcp__team__greet");
    assert_eq!(listed[0]["server"], "team");
    assert_eq!(listed[0]["name"], "greet");
    assert_eq!(listed[0]["arguments"][0]["required"], true);
}

#[tokio::test]
async fn a_prompt_is_filled_in_however_it_is_named() {
    let desk = desk();
    for name in [
        &["mcp__team__greet"][..],
        &["/mcp__team__greet"],
        &["team", "greet"],
    ] {
        let args: Vec<_> = ["prompt"].iter().chain(name).copied().collect();
        let args = [args.as_slice(), &["name=Ann", "style=kind"]].concat();
        let ran = desk.run(&args).await;
        let said = "user:\nGreet Ann in this style: kind\n\nassistant:\nHello, Ann!";
        assert_eq!((ran.code, ran.stdout.as_str()), (0, said), "{ran}");
    }
    assert_snapshot!(desk.run(&["prompt", "team", "picture"]).await, @r"
    exit 0
    --- stdout
    user:
    [image: image/png, 68 bytes]

    user:
    [resource <demo://embedded>]
    embedded
    ");
    let filled = desk
        .run(&["prompt", "team", "greet", "name=A", "--json"])
        .await;
    assert_eq!(
        filled.json()["messages"][1],
        json!({"role": "assistant", "content": {"type": "text", "text": "Hello, A!"}})
    );
}

#[tokio::test]
async fn what_is_missing_is_said_before_anything_is_sent() {
    let desk = desk();
    assert_snapshot!(desk.run(&["prompt", "mcp__team__greet", "style=kind"]).await, @r"
    exit 2
    --- stderr
    error: mcp__team__greet needs name
    hint: switchboard prompt mcp__team__greet name=… [style=…]
      name: Who is greeted.
      style: How.
    ");
    assert_snapshot!(desk.run(&["prompt", "team", "greet", "name=A", "styl=x"]).await, @r#"
    exit 2
    --- stderr
    error: mcp__team__greet has no argument "styl"
    hint: did you mean style?
    "#);
    assert_snapshot!(desk.run(&["prompt", "team", "greet", "name=A", "name=B"]).await, @r"
    exit 2
    --- stderr
    error: `name` is given more than once
    ");
    assert_eq!(asked(&desk, "prompts/get"), 0);
}

#[tokio::test]
async fn a_name_that_nobody_has_is_told() {
    let desk = desk();
    assert_snapshot!(desk.run(&["prompt", "mcp__team__gret", "name=A"]).await, @r#"
    exit 2
    --- stderr
    error: server team has no prompt "mcp__team__gret"
    hint: did you mean mcp__team__greet?
    "#);
    assert_snapshot!(desk.run(&["prompt", "mcp__x__greet"]).await, @r#"
    exit 2
    --- stderr
    error: there is no prompt mcp__x__greet: no server is called "x"
    hint: switchboard prompts shows which there are
    "#);
    assert_snapshot!(desk.run(&["prompt", "greet"]).await, @r#"
    exit 2
    --- stderr
    error: "greet" is not the name of a prompt: they look like mcp__server__prompt
    hint: switchboard prompts shows which there are
    "#);
    let ran = desk.run(&["prompt", "team", "nothing", "--json"]).await;
    assert_eq!(ran.json()["error"]["kind"], "unknown-prompt");
    let other = Desk::with([("ant", polite().into())]);
    assert_eq!(other.run(&["prompt", "ant", "greet"]).await.code, 2);
}

#[tokio::test]
async fn arguments_are_proposed_knowing_the_others() {
    let desk = desk();
    let complete = |words: &[&'static str]| {
        let args = [&["prompt", "mcp__team__greet"], words].concat();
        desk.command(&args)
    };
    let ran = desk.finish(complete(&["--complete", "name=An"])).await;
    assert_eq!((ran.code, ran.stdout.as_str()), (0, "Ann\nAnton"));
    let ran = desk
        .finish(complete(&["name=Ann", "--complete", "style"]))
        .await;
    assert_eq!((ran.code, ran.stdout.as_str()), (0, "kind"));
    assert_snapshot!(desk.finish(complete(&["--complete", "style="])).await, @r"
    exit 0
    --- stderr
    the server proposes nothing
    ");
    assert_eq!(
        desk.finish(complete(&["--complete", "other="])).await.code,
        2
    );
}
