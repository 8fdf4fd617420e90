//! `resources` and `read`: what can be read, and what comes of it.

use std::fs;

use insta::assert_snapshot;
use serde_json::json;
use switchboard_testkit::{Script, Step, read_record};

use crate::support::{Desk, Ran, entry, polite};

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

fn desk() -> Desk {
    Desk::with([("lib", library().into())])
}

/// The requests of this method that the server had.
fn asked(desk: &Desk, method: &str) -> usize {
    let record = desk.sandbox.project().join("record");
    if !record.exists() {
        return 0;
    }
    let record = read_record(record);
    let is_asked = |message: &&serde_json::Value| message["method"] == method;
    record.iter().filter(is_asked).count()
}

#[tokio::test]
async fn resources_are_listed_with_what_is_known_of_them() {
    let desk = Desk::with([
        ("lib", library().into()),
        ("other", Script::modern().resource("x://y", "z").into()),
        ("none", polite().into()),
    ]);
    assert_snapshot!(desk.run(&["resources"]).await, @r"
    exit 0
    --- stdout
    SERVER  URI  NAME  TYPE  SIZE
    lib  demo://notes/one.txt  one.txt  text/plain
    lib  demo://sized  A title  12,345
    lib  demo://logo  logo  image/png
    other  x://y  y  text/plain
    ");
    assert_snapshot!(desk.run(&["resources", "--templates"]).await, @r"
    exit 0
    --- stdout
    SERVER  TEMPLATE  NAME  TYPE
    lib  demo://item/{id}  {id}  text/plain
    ");
    let listed = desk.run(&["resources", "other", "--json"]).await.json();
    assert_eq!(listed[0]["server"], "other");
    assert_eq!(listed[0]["uri"], "x://y");
}

#[tokio::test]
async fn only_the_server_that_is_named_is_started() {
    let started = Script::legacy().on_start([Step::count("started")]);
    let desk = Desk::with([("other", started.into()), ("lib", library().into())]);
    for args in [
        &["resources", "lib"][..],
        &["read", "lib", "demo://sized"],
        &["read", "@lib:demo://sized"],
        &["prompts", "lib"],
    ] {
        assert_eq!(desk.run(args).await.code, 0, "{args:?}");
    }
    assert!(!desk.sandbox.project().join("started").exists());
}

#[tokio::test]
async fn servers_that_cannot_be_asked_are_told_and_hide_no_others() {
    let broken = Script::legacy()
        .resource("demo://x", "x")
        .on("resources/list", [Step::error(-32603, "out of order")]);
    let desk = Desk::with([
        ("broken", broken.into()),
        (
            "gone",
            json!({"command": "no-such-program-anywhere"}).into(),
        ),
        ("lazy", entry(library(), json!({"lazy": true}))),
    ]);
    let ran = desk.run(&["resources"]).await;
    assert_eq!(ran.code, 0, "{ran}");
    assert!(ran.stdout.contains("demo://sized"), "{ran}");
    assert!(
        ran.stderr.contains("server broken refused: out of order"),
        "{ran}"
    );
    assert!(ran.stderr.contains("server gone failed"), "{ran}");
    assert_eq!(desk.run(&["resources", "gone"]).await.code, 4);
    assert_eq!(desk.run(&["resources", "broken"]).await.code, 7);
    assert_snapshot!(desk.run(&["resources", "nobody"]).await, @r#"
    exit 2
    --- stderr
    error: there is no server "nobody"
    hint: switchboard list shows which there are
    "#);
}

#[tokio::test]
async fn a_server_without_resources_says_so() {
    let desk = Desk::with([("ant", polite().into())]);
    assert_snapshot!(desk.run(&["resources", "ant"]).await, @r"
    exit 0
    --- stderr
    server ant has no resources
    ");
    assert_snapshot!(desk.run(&["read", "ant", "demo://x"]).await, @r"
    exit 2
    --- stderr
    error: server ant has no resources
    hint: run `switchboard get ant` to see its capabilities
    ");
}

#[tokio::test]
async fn a_pipe_gets_texts_and_bytes_as_they_are() {
    let desk = desk();
    let text = desk
        .command(&["read", "lib", "demo://sized"])
        .output()
        .unwrap();
    assert_eq!(text.stdout, "two\nlines \u{1b}[31mred".as_bytes());
    assert_eq!(text.stderr, b"");
    let bytes = desk
        .command(&["read", "@lib:demo://logo"])
        .output()
        .unwrap();
    assert!(bytes.stdout.starts_with(b"\x89PNG\r\n\x1a\n"));
}

#[tokio::test]
async fn a_terminal_gets_clean_text_and_never_bytes() {
    let desk = desk();
    let screen = desk
        .at_terminal(&["read", "lib", "demo://sized"])
        .wait_for("red");
    assert!(screen.contains("two"), "{screen:?}");
    assert!(!screen.contains("\u{1b}[31m"), "{screen:?}");
    let screen = desk
        .at_terminal(&["read", "lib", "demo://logo"])
        .wait_for(".png]");
    assert!(screen.contains("[image/png, saved to "), "{screen:?}");
    assert!(!screen.contains("IHDR"), "{screen:?}");
}

#[tokio::test]
async fn as_data_bytes_are_in_a_file_of_our_naming() {
    let desk = desk();
    let read = desk
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
    let folder = desk
        .sandbox
        .cache_home()
        .join("switchboard/results/result-");
    assert!(saved.starts_with(&*folder.to_string_lossy()), "{saved}");
    assert!(fs::read(saved).unwrap().starts_with(b"\x89PNG"));
}

#[tokio::test]
async fn a_file_is_written_and_none_is_replaced_unless_that_is_asked_for() {
    let desk = desk();
    let file = desk.sandbox.project().join("logo.png");
    let read = |more: &[&'static str]| {
        let args = ["read", "lib", "demo://logo", "-o", "logo.png"];
        let args: Vec<_> = args.into_iter().chain(more.iter().copied()).collect();
        desk.command(&args)
    };
    let ran = desk.finish(read(&[])).await;
    assert_snapshot!(ran, @r"
    exit 0
    --- stderr
    written to [sandbox]/project/logo.png
    ");
    assert!(fs::read(&file).unwrap().starts_with(b"\x89PNG"));
    fs::write(&file, "mine").unwrap();
    let reads = asked(&desk, "resources/read");
    assert_snapshot!(desk.finish(read(&[])).await, @r"
    exit 2
    --- stderr
    error: [sandbox]/project/logo.png exists already
    hint: name another file, or pass --force to replace it
    ");
    assert_eq!(asked(&desk, "resources/read"), reads, "nobody was asked");
    assert_eq!(fs::read_to_string(&file).unwrap(), "mine");
    let told = desk.finish(read(&["--force", "--json"])).await.json();
    assert_eq!(told["contents"][0]["blobSavedTo"], json!(file));
    assert!(fs::read(&file).unwrap().starts_with(b"\x89PNG"));
}

#[tokio::test]
async fn a_template_is_filled_in() {
    let desk = desk();
    let template = "demo://item/{id}";
    let ran = desk.run(&["read", "lib", template, "id=a/b"]).await;
    assert_eq!(ran.code, 0, "{ran}");
    let record = read_record(desk.sandbox.project().join("record"));
    let read = record
        .iter()
        .find(|asked| asked["method"] == "resources/read");
    assert_eq!(read.unwrap()["params"]["uri"], "demo://item/a%2Fb");
    assert_snapshot!(desk.run(&["read", "lib", template]).await, @r"
    exit 2
    --- stderr
    error: no value for id
    hint: the address takes id=…
    ");
    assert_snapshot!(desk.run(&["read", "lib", template, "id=1", "x=2"]).await, @r#"
    exit 2
    --- stderr
    error: there is no variable "x"
    hint: the address takes id=…
    "#);
    assert_snapshot!(desk.run(&["read", "lib", template, "--complete", "id=7"]).await, @r"
    exit 0
    --- stdout
    7
    71
    ");
    let proposed = desk
        .run(&["read", "lib", template, "--complete", "id=7", "--json"])
        .await
        .json();
    assert_eq!(proposed["values"], json!(["7", "71"]));
}

#[tokio::test]
async fn what_goes_wrong_is_told_with_what_to_do() {
    let desk = desk();
    assert_snapshot!(desk.run(&["read", "lib", "demo://nothing"]).await, @r"
    exit 7
    --- stderr
    error: server lib refused: resource not found: demo://nothing (code -32002)
    hint: switchboard resources lib shows what can be read
    ");
    assert_snapshot!(desk.run(&["read", "lib"]).await, @r"
    exit 2
    --- stderr
    error: an address is missing
    hint: switchboard resources lib shows what can be read
    ");
    assert_snapshot!(desk.run(&["read", "@lib"]).await, @r#"
    exit 2
    --- stderr
    error: "@lib" is not of the form @server:uri
    hint: switchboard resources shows what can be read
    "#);
    let ran: Ran = desk.run(&["read", "lib", "demo://nothing", "--json"]).await;
    assert_eq!(ran.json()["error"]["kind"], "refused");
}

#[tokio::test]
async fn parts_that_cannot_go_together_are_shown_one_after_the_other() {
    let parts = json!({"uri": "demo://parts", "name": "parts", "contents": [
        {"uri": "demo://parts/1", "text": "a text"},
        {"uri": "demo://parts/2", "mimeType": "image/png", "blob": "PGh0bWw+"},
        {"uri": "demo://parts/3", "mimeType": "image/png", "blob": "?"},
    ]});
    let empty = json!({"uri": "demo://empty", "name": "empty", "contents": []});
    let script = Script::legacy().raw_resource(parts).raw_resource(empty);
    let desk = Desk::with([("lib", script.into())]);
    let ran = desk.run(&["read", "lib", "demo://parts"]).await;
    let lines: Vec<_> = ran.stdout.lines().collect();
    assert_eq!(lines[0], "a text");
    assert!(lines[1].starts_with("[text/html, saved to ") && lines[1].ends_with(".txt]"));
    assert!(lines[2].ends_with("were not saved: what the server sent is not base64]"));
    assert!(ran.stderr.contains("part 2: said to be image/png"), "{ran}");
    let ran = desk.run(&["read", "lib", "demo://parts", "-o", "x"]).await;
    assert_eq!(ran.code, 7, "{ran}");
    assert_snapshot!(desk.run(&["read", "lib", "demo://empty"]).await, @r"
    exit 0
    --- stderr
    note: the resource is empty
    ");
}
