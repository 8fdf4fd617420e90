//! `resources` and `read`: listing, templates, output to pipe, terminal and file.

use std::fs;

use insta::assert_snapshot;
use serde_json::json;
use switchboard_testkit::{Script, Step, read_record};

use crate::support::{CliOutput, TestCli, echo_server, entry};

const PIXEL: &str =
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAQAAAC1HAwCAAAAC0lEQVR42mNk+A8AAQUBAScY42YAAAAASUVORK5CYII=";

fn library() -> Script {
    let sized = json!({
        "uri": "demo://sized", "name": "sized", "title": "A title", "size": 12345,
        "text": "two\nlines \u{1b}[31mred",
    });
    Script::legacy()
        .resource("demo://notes/one.txt", "one")
        .raw_resource(sized)
        .blob("demo://logo", "image/png", PIXEL)
        .resource_template("demo://item/{id}")
        .completion("demo://item/{id}", "id", ["7", "71", "8"])
        .record("record")
}

fn test_cli() -> TestCli {
    TestCli::with_servers([("lib", library().into())])
}

/// Counts the requests with this method that the server received.
fn request_count(cli: &TestCli, method: &str) -> usize {
    let record = cli.sandbox.project().join("record");
    if !record.exists() {
        return 0;
    }
    let record = read_record(record);
    let has_method = |message: &&serde_json::Value| message["method"] == method;
    record.iter().filter(has_method).count()
}

#[tokio::test]
async fn resources_are_listed_with_details() {
    let cli = TestCli::with_servers([
        ("lib", library().into()),
        ("other", Script::modern().resource("x://y", "z").into()),
        ("none", echo_server().into()),
    ]);
    assert_snapshot!(cli.run(&["resources"]).await, @r"
    exit 0
    --- stdout
    SERVER  URI  NAME  TYPE  SIZE
    lib  demo://notes/one.txt  one.txt  text/plain
    lib  demo://sized  A title  12,345
    lib  demo://logo  logo  image/png
    other  x://y  y  text/plain
    --- stderr
    1 URI template not listed: switchboard resources --templates
    ");
    assert_snapshot!(cli.run(&["resources", "--templates"]).await, @r"
    exit 0
    --- stdout
    SERVER  TEMPLATE  NAME  TYPE
    lib  demo://item/{id}  {id}  text/plain
    ");
    let listed = cli.run(&["resources", "other", "--json"]).await.json();
    assert_eq!(listed[0]["server"], "other");
    assert_eq!(listed[0]["uri"], "x://y");
}

#[tokio::test]
async fn only_named_server_is_started() {
    let started = Script::legacy().on_start([Step::count("started")]);
    let cli = TestCli::with_servers([("other", started.into()), ("lib", library().into())]);
    for args in [
        &["resources", "lib"][..],
        &["read", "lib", "demo://sized"],
        &["read", "@lib:demo://sized"],
        &["prompts", "lib"],
    ] {
        assert_eq!(cli.run(args).await.code, 0, "{args:?}");
    }
    assert!(!cli.sandbox.project().join("started").exists());
}

#[tokio::test]
async fn failed_servers_do_not_hide_others() {
    let broken = Script::legacy()
        .resource("demo://x", "x")
        .on("resources/list", [Step::error(-32603, "out of order")]);
    let cli = TestCli::with_servers([
        ("broken", broken.into()),
        (
            "gone",
            json!({"command": "no-such-program-anywhere"}).into(),
        ),
        ("lazy", entry(library(), json!({"lazy": true}))),
    ]);
    let output = cli.run(&["resources"]).await;
    assert_eq!(output.code, 0, "{output}");
    assert!(output.stdout.contains("demo://sized"), "{output}");
    assert!(
        output
            .stderr
            .contains("server broken returned an error: out of order"),
        "{output}"
    );
    assert!(output.stderr.contains("server gone failed"), "{output}");
    assert_eq!(cli.run(&["resources", "gone"]).await.code, 4);
    assert_eq!(cli.run(&["resources", "broken"]).await.code, 7);
    assert_snapshot!(cli.run(&["resources", "missing"]).await, @r#"
    exit 2
    --- stderr
    error: no server named "missing"
    hint: run `switchboard list` to see all servers
    "#);
}

#[tokio::test]
async fn missing_resource_capability_is_reported() {
    let cli = TestCli::with_servers([("ant", echo_server().into())]);
    assert_snapshot!(cli.run(&["resources", "ant"]).await, @r"
    exit 0
    --- stderr
    server ant has no resources
    ");
    assert_snapshot!(cli.run(&["read", "ant", "demo://x"]).await, @r"
    exit 2
    --- stderr
    error: server ant does not support resources
    hint: run `switchboard get ant` to see its capabilities
    ");
}

#[tokio::test]
async fn pipe_receives_unchanged_content() {
    let cli = test_cli();
    let text = cli
        .command(&["read", "lib", "demo://sized"])
        .output()
        .unwrap();
    assert_eq!(text.stdout, "two\nlines \u{1b}[31mred".as_bytes());
    assert_eq!(text.stderr, b"");
    let bytes = cli.command(&["read", "@lib:demo://logo"]).output().unwrap();
    assert!(bytes.stdout.starts_with(b"\x89PNG\r\n\x1a\n"));
}

#[tokio::test]
async fn terminal_receives_sanitized_text() {
    let cli = test_cli();
    let screen = cli
        .start_in_terminal(&["read", "lib", "demo://sized"])
        .wait_for("red");
    assert!(screen.contains("two"), "{screen:?}");
    assert!(!screen.contains("\u{1b}[31m"), "{screen:?}");
    let screen = cli
        .start_in_terminal(&["read", "lib", "demo://logo"])
        .wait_for(".png]");
    assert!(screen.contains("[image/png, saved to "), "{screen:?}");
    assert!(!screen.contains("IHDR"), "{screen:?}");
}

#[tokio::test]
async fn json_saves_binary_under_generated_name() {
    let cli = test_cli();
    let read = cli
        .run(&["read", "lib", "demo://logo", "--json"])
        .await
        .json();
    let saved = read["contents"][0]["blobSavedTo"].as_str().unwrap();
    assert_eq!(
        read,
        json!({
            "contents": [
                {"uri": "demo://logo", "mimeType": "image/png", "blobSavedTo": saved},
            ],
            "notes": [],
        })
    );
    let folder = cli.sandbox.cache_home().join("switchboard/results/result-");
    assert!(saved.starts_with(&*folder.to_string_lossy()), "{saved}");
    assert!(fs::read(saved).unwrap().starts_with(b"\x89PNG"));
}

#[tokio::test]
async fn existing_file_needs_force() {
    let cli = test_cli();
    let file = cli.sandbox.project().join("logo.png");
    let read = |more: &[&'static str]| {
        let args = ["read", "lib", "demo://logo", "-o", "logo.png"];
        let args: Vec<_> = args.into_iter().chain(more.iter().copied()).collect();
        cli.command(&args)
    };
    let output = cli.run_command(read(&[])).await;
    assert_snapshot!(output, @r"
    exit 0
    --- stderr
    saved to [sandbox]/project/logo.png
    ");
    assert!(fs::read(&file).unwrap().starts_with(b"\x89PNG"));
    fs::write(&file, "mine").unwrap();
    let reads = request_count(&cli, "resources/read");
    assert_snapshot!(cli.run_command(read(&[])).await, @r"
    exit 2
    --- stderr
    error: [sandbox]/project/logo.png already exists
    hint: choose another file, or pass --force to overwrite it
    ");
    assert_eq!(
        request_count(&cli, "resources/read"),
        reads,
        "no request was sent"
    );
    assert_eq!(fs::read_to_string(&file).unwrap(), "mine");
    let result = cli.run_command(read(&["--force", "--json"])).await.json();
    assert_eq!(result["contents"][0]["blobSavedTo"], json!(file));
    assert!(fs::read(&file).unwrap().starts_with(b"\x89PNG"));
}

#[tokio::test]
async fn template_is_expanded() {
    let cli = test_cli();
    let template = "demo://item/{id}";
    let output = cli.run(&["read", "lib", template, "id=a/b"]).await;
    assert_eq!(output.code, 0, "{output}");
    let record = read_record(cli.sandbox.project().join("record"));
    let read = record
        .iter()
        .find(|message| message["method"] == "resources/read");
    assert_eq!(read.unwrap()["params"]["uri"], "demo://item/a%2Fb");
    assert_snapshot!(cli.run(&["read", "lib", template]).await, @r"
    exit 2
    --- stderr
    error: no value for id
    hint: template variables: id=…
    ");
    assert_snapshot!(cli.run(&["read", "lib", template, "id=1", "x=2"]).await, @r#"
    exit 2
    --- stderr
    error: there is no variable "x"
    hint: template variables: id=…
    "#);
    assert_snapshot!(cli.run(&["read", "lib", template, "--complete", "id=7"]).await, @r"
    exit 0
    --- stdout
    7
    71
    ");
    let completions = cli
        .run(&["read", "lib", template, "--complete", "id=7", "--json"])
        .await
        .json();
    assert_eq!(completions["values"], json!(["7", "71"]));
}

#[tokio::test]
async fn read_errors_have_hints() {
    let cli = test_cli();
    assert_snapshot!(cli.run(&["read", "lib", "demo://nothing"]).await, @r"
    exit 7
    --- stderr
    error: server lib returned an error: resource not found: demo://nothing (code -32002)
    hint: run `switchboard resources lib` to list its resources
    ");
    assert_snapshot!(cli.run(&["read", "lib"]).await, @r"
    exit 2
    --- stderr
    error: missing URI
    hint: run `switchboard resources lib` to list its resources
    ");
    assert_snapshot!(cli.run(&["read", "@lib"]).await, @r#"
    exit 2
    --- stderr
    error: invalid reference "@lib": expected @server:uri
    hint: run `switchboard resources` to list resources
    "#);
    let output: CliOutput = cli.run(&["read", "lib", "demo://nothing", "--json"]).await;
    assert_eq!(output.json()["error"]["kind"], "refused");
}

#[tokio::test]
async fn multiple_parts_are_printed_in_order() {
    let parts = json!({"uri": "demo://parts", "name": "parts", "contents": [
        {"uri": "demo://parts/1", "text": "a text"},
        {"uri": "demo://parts/2", "mimeType": "image/png", "blob": "PGh0bWw+"},
        {"uri": "demo://parts/3", "mimeType": "image/png", "blob": "?"},
    ]});
    let empty = json!({"uri": "demo://empty", "name": "empty", "contents": []});
    let script = Script::legacy().raw_resource(parts).raw_resource(empty);
    let cli = TestCli::with_servers([("lib", script.into())]);
    let output = cli.run(&["read", "lib", "demo://parts"]).await;
    let lines: Vec<_> = output.stdout.lines().collect();
    assert_eq!(lines[0], "a text");
    assert!(lines[1].starts_with("[text/html, saved to ") && lines[1].ends_with(".txt]"));
    assert!(lines[2].ends_with("were not saved: the data is not valid base64]"));
    assert!(
        output.stderr.contains("part 2: declared as image/png"),
        "{output}"
    );
    let output = cli.run(&["read", "lib", "demo://parts", "-o", "x"]).await;
    assert_eq!(output.code, 7, "{output}");
    assert_snapshot!(cli.run(&["read", "lib", "demo://empty"]).await, @r"
    exit 0
    --- stderr
    note: the resource is empty
    ");
}

#[tokio::test]
async fn templates_are_mentioned_and_long_ones_shortened() {
    let long = format!("demo://{}", "x".repeat(5_000));
    let script = Script::legacy()
        .raw_resource(json!({"uri": "demo://a", "name": "a"}))
        .raw_template(json!({"uriTemplate": long, "name": "long"}));
    let cli = TestCli::with_servers([("shop", script.into())]);
    let output = cli.run(&["resources"]).await;
    let note = "1 URI template not listed: switchboard resources --templates";
    assert!(output.stderr.contains(note), "{output}");
    let output = cli.run(&["resources", "--templates"]).await;
    assert!(
        output.stdout.lines().all(|line| line.len() < 600),
        "{output}"
    );
    assert!(output.stdout.contains("(5,007 bytes)"), "{output}");
    let output = cli.run(&["read", "demo://a"]).await;
    assert!(
        output
            .stderr
            .contains("hint: switchboard read SERVER demo://a"),
        "{output}"
    );
}

#[tokio::test]
async fn invalid_base64_has_the_same_exit_code_everywhere() {
    let script = Script::legacy()
        .raw_resource(json!({"uri": "demo://a", "name": "a"}))
        .on(
            "resources/read",
            [Step::Reply(
                json!({"contents": [{"uri": "demo://a", "blob": "%%%"}]}),
            )],
        );
    let cli = TestCli::with_servers([("shop", script.into())]);
    assert_eq!(cli.run(&["read", "shop", "demo://a"]).await.code, 7);
    assert_eq!(
        cli.run(&["read", "shop", "demo://a", "--json"]).await.code,
        7
    );
    let (code, screen) = cli
        .start_in_terminal(&["read", "shop", "demo://a"])
        .finish();
    assert_eq!(code, Some(7), "{screen}");
}
