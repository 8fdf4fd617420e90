//! No command shows raw text of a server, with and without `--json`.

use serde_json::{Value, json};
use switchboard_testkit::{Script, Step};

use crate::support::TestCli;

/// An escape sequence, a right-to-left override and a zero-width space.
const HOSTILE: &str = "\u{1b}[31m\u{202e}\u{200b}";

fn hostile(text: &str) -> String {
    format!("{text}{HOSTILE}")
}

/// A server in which every text contains [`HOSTILE`].
fn hostile_server() -> Script {
    let schema = json!({
        "type": "object",
        "title": hostile("T"),
        "properties": {"a": {"description": hostile("d"), "enum": [hostile("x")]}},
    });
    let mut script = Script::legacy()
        .raw_tool(json!({
            "name": hostile("tool"), "title": hostile("title"), "description": hostile("words"),
            "inputSchema": schema, "outputSchema": schema, "annotations": {"title": hostile("t")},
        }))
        .raw_resource(json!({
            "uri": "note://x", "name": hostile("note"), "title": hostile("t"),
            "description": hostile("d"), "mimeType": hostile("text/x"), "text": hostile("t"),
        }))
        .instructions(&hostile("instructions"))
        .on("tools/call", [Step::text(&hostile("result"))]);
    script.server_info = json!({"name": hostile("s"), "version": hostile("1")});
    script
}

/// Fails if a text in the JSON contains a character of [`HOSTILE`].
fn assert_clean(command: &[&str], value: &Value) {
    match value {
        Value::String(text) => {
            let is_clean = !text.contains(['\u{1b}', '\u{202e}', '\u{200b}']);
            assert!(is_clean, "{command:?}: {text:?}");
        }
        Value::Array(items) => items.iter().for_each(|item| assert_clean(command, item)),
        Value::Object(members) => {
            // The config entry is shown as written. Here it contains the script of the server.
            for (name, member) in members.iter().filter(|(name, _)| *name != "config") {
                assert_clean(command, &Value::from(name.as_str()));
                assert_clean(command, member);
            }
        }
        _ => {}
    }
}

#[tokio::test]
async fn no_command_shows_raw_text() {
    let cli = TestCli::with_servers([("s", hostile_server().into())]);
    let tools = cli.run(&["tools", "--json"]).await.json();
    let tool = tools[0]["name"].as_str().unwrap().to_owned();
    let commands: [&[&str]; 8] = [
        &["list"],
        &["get", "s"],
        &["tools"],
        &["describe", &tool],
        &["why", &tool],
        &["doctor"],
        &["call", "--allow", "mcp__s", &tool],
        &["resources"],
    ];
    for command in commands {
        let json = cli.run(&[command, &["--json"]].concat()).await.json();
        assert_clean(command, &json);
        let plain = cli.run(command).await.to_string();
        assert_clean(command, &Value::from(plain));
    }
}
