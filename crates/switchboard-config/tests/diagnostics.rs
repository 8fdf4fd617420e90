//! Rendering of diagnostics.

use std::collections::HashMap;

use switchboard_config::{ConfigSource, ConfigSources, LoadedConfig, load};

fn load_inline(json: &str) -> LoadedConfig {
    let sources = ConfigSources {
        command_line: vec![ConfigSource::Inline(json.to_owned())],
        ..ConfigSources::default()
    };
    load(&sources, &HashMap::new())
}

fn rendered(json: &str) -> String {
    let diagnostics = load_inline(json).diagnostics;
    let texts: Vec<String> = diagnostics.iter().map(ToString::to_string).collect();
    texts.join("\n\n")
}

#[test]
fn syntax_error_is_marked_with_caret() {
    let json = r#"{
  "mcpServers": {
    "github": { "command": "npx" "args": [] }
  }
}"#;
    assert_eq!(
        rendered(json),
        r#"error: not valid JSON: expected comma
 --> <inline>:3:33
  |
3 |     "github": { "command": "npx" "args": [] }
  |                                 ^
  = hint: put a comma here"#
    );
}

#[test]
fn unclosed_object_is_marked_at_its_start() {
    let json = "{\n  \"mcpServers\": {\n    \"a\": { \"command\": \"x\" }\n";
    assert_eq!(
        rendered(json),
        r#"error: not valid JSON: unterminated object
 --> <inline>:2:17
  |
2 |   "mcpServers": {
  |                 ^
  = hint: close it with `}`"#
    );
}

#[test]
fn unknown_key_suggests_nearest_key() {
    let json = r#"{
  "mcpServers": {
    "time": { "url": "https://example.com", "timout": 5 }
  }
}"#;
    assert_eq!(
        rendered(json),
        r#"warning: server `time`: unknown key `timout`; did you mean `timeout`?
 --> <inline>:3:45
  |
3 |     "time": { "url": "https://example.com", "timout": 5 }
  |                                             ^^^^^^^^"#
    );
}

#[test]
fn misspelt_command_is_unknown_and_missing() {
    assert_eq!(
        rendered(r#"{ "mcpServers": { "time": { "comand": "npx" } } }"#),
        r#"error: server `time`: missing `command` or `url`
 --> <inline>:1:27
  |
1 | { "mcpServers": { "time": { "comand": "npx" } } }
  |                           ^^^^^^^^^^^^^^^^^^^
  = hint: add `command` for a program to start, or `url` for a remote server

warning: server `time`: unknown key `comand`; did you mean `command`?
 --> <inline>:1:29
  |
1 | { "mcpServers": { "time": { "comand": "npx" } } }
  |                             ^^^^^^^^"#
    );
}

#[test]
fn command_with_url_is_marked_at_url() {
    let json = r#"{
  "mcpServers": {
    "both": {
      "command": "npx",
      "url": "https://example.com/mcp"
    }
  }
}"#;
    assert_eq!(
        rendered(json),
        r#"error: server `both`: `command` and `url` are mutually exclusive
 --> <inline>:5:7
  |
5 |       "url": "https://example.com/mcp"
  |       ^^^^^
  = hint: keep `command` for a program to start, or `url` for a remote server"#
    );
}

#[test]
fn unset_variable_is_named_without_showing_secrets() {
    let json = r#"{
  "mcpServers": {
    "github": {
      "command": "npx",
      "env": { "GITHUB_TOKEN": "Bearer ${GITHUB_TOKEN}", "OTHER": "hush" }
    }
  }
}"#;
    assert_eq!(
        rendered(json),
        r#"error: server `github`: variable GITHUB_TOKEN is not set
 --> <inline>:5:32
  |
5 |       "env": { "GITHUB_TOKEN": "****** ${GITHUB_TOKEN}", "OTHER": "****" }
  |                                ^^^^^^^^^^^^^^^^^^^^^^^^
  = hint: export GITHUB_TOKEN=… or write ${GITHUB_TOKEN:-default}"#
    );
}

#[test]
fn duplicate_key_is_marked_at_second_place() {
    let json = r#"{
  "mcpServers": {
    "a": { "command": "one", "command": "two" },
    "b": { "command": "one" },
    "b": { "command": "two" }
  }
}"#;
    assert_eq!(
        rendered(json),
        r#"warning: server `a`: duplicate key `command`; the last one is used
 --> <inline>:3:30
  |
3 |     "a": { "command": "one", "command": "two" },
  |                              ^^^^^^^^^
  = hint: remove one of them

warning: server `b`: duplicate server; the last entry is used
 --> <inline>:5:5
  |
5 |     "b": { "command": "two" }
  |     ^^^
  = hint: remove or rename one of them"#
    );
}

#[test]
fn wrong_type_is_marked_at_value() {
    assert_eq!(
        rendered(r#"{ "mcpServers": { "a": { "command": "x", "args": "--all" } } }"#),
        r#"error: server `a`: `args` must be a list of strings, not a string
 --> <inline>:1:50
  |
1 | { "mcpServers": { "a": { "command": "x", "args": "--all" } } }
  |                                                  ^^^^^^^"#
    );
}

#[test]
fn secret_in_broken_file_is_redacted() {
    for line in [
        r#""TOKEN": "hush" "X": "hush""#,
        r#""TOKEN": hush"#,
        r#""TOKEN": "hush"#,
        r#""TOKEN" "hush", "X": 1"#,
        r#"TOKEN": "hush","#,
        r#""TOKEN": "\"a,hush" 1"#,
        r#""TOKEN": ["x", "hush" 1]"#,
    ] {
        let json = format!(
            "{{ \"mcpServers\": {{ \"a\": {{ \"command\": \"x\", \"env\": {{\n{line}\n}} }} }} }}"
        );
        let text = rendered(&json);
        assert!(text.contains("not valid JSON"), "{text}");
        assert!(!text.contains("hush"), "{text}");
    }
}

#[test]
fn control_characters_are_replaced() {
    let json = "{ \"mcpServers\": { \"a\": { \"command\": \"x\", \"\u{1b}[31m\u{202e}x\": 1 } } }";
    let text = rendered(json);
    assert!(text.contains("unknown key"), "{text}");
    assert!(!text.contains(['\u{1b}', '\u{202e}']), "{text:?}");
}

#[test]
fn long_line_is_cut_around_marked_text() {
    let padding = "x".repeat(500);
    let json = format!(
        r#"{{ "mcpServers": {{ "a": {{ "command": "{padding}", "lazy": 1, "args": ["{padding}"] }} }} }}"#
    );
    let loaded = load_inline(&json);
    let snippet = loaded.diagnostics[0].snippet.as_ref().unwrap();
    let shown: String = snippet
        .line_text
        .chars()
        .skip(snippet.start_column as usize - 1)
        .take(snippet.len as usize)
        .collect();
    assert_eq!(shown, "1");
    assert_eq!(snippet.line_text.chars().count(), 162);
    assert!(snippet.line_text.starts_with('…') && snippet.line_text.ends_with('…'));
}

#[test]
fn caret_accounts_for_wide_characters() {
    assert_eq!(
        rendered(r#"{ "日本語": 1, "x́té👩‍🔬": 2, "mcpServers": { "ｘ": "日本" } }"#),
        r#"error: server `ｘ`: expected an object, found a string
 --> <inline>:1:48
  |
1 | { "日本語": 1, "x́té👩 🔬": 2, "mcpServers": { "ｘ": "日本" } }
  |                                                     ^^^^^^
  = hint: write { "command": "…" } or { "url": "…" }"#
    );
}

#[test]
fn columns_are_counted_in_characters() {
    let json = r#"{ "ü€😀": 1, "mcpServers": { "a": 1 } }"#;
    let origin = load_inline(json).diagnostics[0].origin.clone().unwrap();
    assert_eq!((origin.line, origin.column), (1, 34));
}

#[test]
fn diagnostics_serialize_to_json() {
    let loaded = load_inline(r#"{ "mcpServers": { "a": { "command": "" } } }"#);
    assert_eq!(
        serde_json::to_value(&loaded.diagnostics).unwrap(),
        serde_json::json!([{
            "severity": "error",
            "message": "`command` is empty",
            "origin": { "line": 1, "column": 37 },
            "snippet": {
                "lineText": r#"{ "mcpServers": { "a": { "command": "" } } }"#,
                "startColumn": 37,
                "len": 2
            },
            "server": "a"
        }])
    );
}

#[test]
fn literal_secret_in_project_file_causes_warning() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join(".mcp.json");
    let json = r#"{
  "mcpServers": {
    "hub": {
      "command": "npx",
      "args": ["-y", "hub", "--token", "hush-1"],
      "env": { "API_KEY": "hush-a1b2c3d4", "LEVEL": "debug", "TOKEN": "${TOKEN:-}" }
    },
    "far": {
      "url": "https://me:hush-2@example.com/mcp",
      "headers": { "Authorization": "Bearer hush-3", "Accept": "x" }
    }
  }
}"#;
    std::fs::write(&path, json).unwrap();
    let load = |sources| {
        let diagnostics = load(&sources, &HashMap::new()).diagnostics;
        let texts: Vec<String> = diagnostics.iter().map(ToString::to_string).collect();
        let folder = folder.path().to_string_lossy().into_owned();
        texts.join("\n\n").replace(&folder, "")
    };
    let diagnostics = load(ConfigSources {
        project: Some(path.clone()),
        ..ConfigSources::default()
    });
    assert_eq!(
        diagnostics,
        r#"warning: server `hub`: `API_KEY` in `env` looks like a secret; everyone with the project can read it
 --> /.mcp.json:6:27
  |
6 |       "env": { "API_KEY": "*************", "LEVEL": "*****", "TOKEN": "${TOKEN:-}" }
  |                           ^^^^^^^^^^^^^^^
  = hint: write "${API_KEY}" instead and set the variable in your environment

warning: server `hub`: `args` seems to contain a secret; everyone with the project can read it
 --> /.mcp.json:5:40
  |
5 |       "args": ["-y", "hub", "--token", "******"],
  |                                        ^^^^^^^^
  = hint: write ${HUB_TOKEN} in place of the secret and set the variable in your environment

warning: server `far`: `Authorization` in `headers` looks like a secret; everyone with the project can read it
  --> /.mcp.json:10:37
   |
10 |       "headers": { "Authorization": "****** ******", "Accept": "*" }
   |                                     ^^^^^^^^^^^^^^^
   = hint: write "Bearer ${FAR_TOKEN}" instead and set the variable in your environment

warning: server `far`: `url` seems to contain a secret; everyone with the project can read it
 --> /.mcp.json:9:14
  |
9 |       "url": "*********************************",
  |              ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
  = hint: write ${FAR_TOKEN} in place of the secret and set the variable in your environment"#
    );
    let own = load(ConfigSources {
        user: Some(path),
        ..ConfigSources::default()
    });
    assert_eq!(own, "", "the user scope is not shared");
}

#[test]
fn secret_arguments_in_broken_file_are_redacted() {
    let json = r#"{ "mcpServers": { "a": { "command": "x", "args": ["--token", "hush", "plain", "k=sk-abcdefghijklmn0123456"] "url": "https://a:hush@b" } } }"#;
    let shown = rendered(json);
    assert!(
        !shown.contains("hush") && !shown.contains("sk-abc"),
        "{shown}"
    );
    assert!(shown.contains("plain"), "{shown}");
}
