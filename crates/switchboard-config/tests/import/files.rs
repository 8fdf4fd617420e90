//! Broken, missing and named files, server names, secrets, timeouts, and the import plan.

use std::fs;
use std::path::Path;

use serde_json::json;
use switchboard_config::ConfigSources;
use switchboard_config::import::{
    Client, Existing, ImportAction, Imported, Platform, import, import_file, plan,
};

use crate::support::{ImportFixture, entries, entry};

#[test]
fn broken_files_do_not_stop_import() {
    let fixture = ImportFixture::new();
    fixture.write(
        ".cursor/mcp.json",
        r#"{"mcpServers": {"a": {"env": {"T": "hush-hush"} "x": 1}}}"#,
    );
    fixture.write(
        ".codex/config.toml",
        "[mcp_servers.a]\ncommand = \"hush-hush\nargs = 1",
    );
    fixture.write(".gemini/settings.json", r#"{"mcpServers": ["hush-hush"]}"#);
    fixture.write(".claude.json", b"\xff\xfe{\0}\0");
    fs::create_dir_all(fixture.home.path().join(".config/zed/settings.json")).unwrap();
    fixture.write(
        ".codeium/windsurf/mcp_config.json",
        r#"{"mcpServers": {"bad": "hush-hush", "": {"command": 7}, "good": {"command": "good"}}}"#,
    );
    let imported = fixture.with(|context| import(&Client::ALL, context));
    let messages: Vec<_> = imported
        .diagnostics
        .iter()
        .map(|diagnostic| {
            let origin = diagnostic.origin.as_ref().unwrap();
            (diagnostic.message.as_str(), origin.line, origin.column)
        })
        .collect();
    assert_eq!(
        messages,
        [
            ("file is UTF-16", 0, 0),
            ("not valid JSON: expected comma", 1, 48),
            ("not valid TOML: invalid basic string, expected `\"`", 2, 21),
            ("`mcpServers` must be an object", 1, 16),
            ("not a regular file: a directory", 0, 0),
        ]
    );
    let shown: String = imported
        .diagnostics
        .iter()
        .map(ToString::to_string)
        .collect();
    assert!(!shown.contains("hush"), "{shown}");
    let found: Vec<_> = imported
        .files
        .iter()
        .flat_map(|file| &file.servers)
        .collect();
    let problems: Vec<_> = found
        .iter()
        .map(|found| {
            let problem = found.problem.as_ref().map(ToString::to_string);
            (found.name.as_str(), problem.unwrap_or_default())
        })
        .collect();
    assert_eq!(
        problems,
        [
            ("bad", "expected an object, found a string".to_owned()),
            (
                "windsurf",
                "`command` must be a string, not a number".to_owned()
            ),
            ("good", String::new()),
        ]
    );
    assert_eq!(
        found[1].notes,
        ["renamed to windsurf: the original name is not valid"]
    );
}

#[test]
fn missing_files_are_ignored() {
    let fixture = ImportFixture::new();
    let imported = fixture.with(|context| import(&Client::ALL, context));
    assert_eq!(imported, Imported::default());
    let path = fixture.home.path().join("none.json");
    let named = fixture.with(|context| import_file(Client::Cursor, &path, context));
    assert_eq!(named, None);
}

#[test]
fn invalid_names_are_replaced() {
    let fixture = ImportFixture::new();
    let text = "{\"mcpServers\": {\"a\\u0007b\": {\"command\": \"1\"}, \"a b\": {\"command\": \"2\"}, \
                \"a\\u200bb\": {\"command\": \"3\"}, \"with spaces is fine\": {\"command\": \"4\"}}}";
    fixture.write(".cursor/mcp.json", text);
    let imported = fixture.import(Client::Cursor);
    let names: Vec<_> = entries(&imported)
        .into_iter()
        .map(|(name, _, entry)| (name, entry["command"].clone()))
        .collect();
    assert_eq!(
        names,
        [
            ("a b".to_owned(), json!("1")),
            ("a b-2".to_owned(), json!("2")),
            ("a b-3".to_owned(), json!("3")),
            ("with spaces is fine".to_owned(), json!("4")),
        ]
    );
}

#[test]
fn secrets_of_imported_entries_are_masked() {
    let fixture = ImportFixture::new();
    let text = r#"{"mcpServers": {
      "args": { "command": "npx", "env": { "KEY": "hush" },
        "args": ["--api-key", "hush", "--token=hush", "--header", "Authorization: Bearer hush", "-H", "X-Api-Key:hush",
                 "postgres://me:hush@db.example/x", "https://a.example/?key=hush", "TOKEN=hush",
                 "--keep", "this", "--token", "${TOKEN}", "--secret=${S:-hush}"] },
      "url": { "url": "https://me:hush@a.example/mcp?api_key=hush", "headers": { "A": "hush" } }
    }}"#;
    fixture.write(".cursor/mcp.json", text);
    let imported = fixture.import(Client::Cursor);
    let found = &imported.files[0].servers;
    let shown = serde_json::to_value(found[0].masked_entry()).unwrap();
    assert_eq!(
        shown["args"],
        json!([
            "--api-key",
            "***",
            "--token=***",
            "--header",
            "Authorization: Bearer ***",
            "-H",
            "X-Api-Key:***",
            "postgres://me:***@db.example/x",
            "https://a.example/?key=***",
            "TOKEN=***",
            "--keep",
            "this",
            "--token",
            "${TOKEN}",
            "--secret=***"
        ])
    );
    let shown = serde_json::to_value(found[1].masked_entry()).unwrap();
    assert_eq!(
        shown["url"],
        json!("https://me:***@a.example/mcp?api_key=***")
    );
    assert!(!format!("{imported:?}").contains("hush"));
    // The entry to write is not masked.
    assert_eq!(entry(&found[0])["args"][1], json!("hush"));
}

#[test]
fn windows_paths_are_kept() {
    let mut fixture = ImportFixture::new().set("USERPROFILE", r"C:\Users\me");
    fixture.platform = Platform::Windows;
    let text = r#"{"servers": {"a": {
      "command": "~\\bin\\a.exe", "args": ["C:\\Program Files\\x", "${userHome}${/}y"], "cwd": "D:\\work"
    }}}"#;
    fixture.write("work/.vscode/mcp.json", text);
    let found = fixture.only(Client::VsCode);
    assert_eq!(
        entry(&found),
        json!({
            "command": r"${USERPROFILE}\bin\a.exe",
            "args": [r"C:\Program Files\x", r"${USERPROFILE}\y"],
            "cwd": r"D:\work"
        })
    );
}

#[test]
fn out_of_range_timeouts_are_limited_or_ignored() {
    let fixture = ImportFixture::new();
    let text = r#"{"mcpServers": {
      "short": {"command": "a", "timeout": 500}, "long": {"command": "a", "timeout": 100000000},
      "words": {"command": "a", "timeout": "soon"}
    }}"#;
    fixture.write(".claude.json", text);
    let imported = fixture.import(Client::ClaudeCode);
    let found = &imported.files[0].servers;
    assert_eq!(entry(&found[0]), json!({"command": "a"}));
    assert_eq!(found[0].notes, ["ignored `timeout`: too short"]);
    assert_eq!(entry(&found[1])["timeout"], json!(86_400_000));
    assert_eq!(found[1].notes, ["`timeout` limited to 24 hours"]);
    assert!(found[2].problem.is_some());
}

#[test]
fn client_is_guessed_from_path() {
    for (path, client) in [
        ("/a/.claude.json", Some(Client::ClaudeCode)),
        (
            "/a/Claude/claude_desktop_config.json",
            Some(Client::ClaudeDesktop),
        ),
        ("/b/.cursor/mcp.json", Some(Client::Cursor)),
        ("/b/.vscode/mcp.json", Some(Client::VsCode)),
        ("/c/.codex/config.toml", Some(Client::Codex)),
        ("/c/.gemini/settings.json", Some(Client::GeminiCli)),
        ("/d/zed/settings.json", Some(Client::Zed)),
        ("/d/opencode.jsonc", Some(Client::Opencode)),
        ("/e/settings.json", None),
    ] {
        assert_eq!(Client::guess_from_path(Path::new(path)), client, "{path}");
    }
    assert_eq!("vscode".parse(), Ok(Client::VsCode));
    let unknown = "curser".parse::<Client>().unwrap_err();
    assert_eq!(unknown.nearest, Some("cursor"));
}

#[test]
fn plan_adds_only_new_servers() {
    let fixture = ImportFixture::new();
    let text = r#"{"mcpServers": {
      "new": {"command": "new"}, "same": {"command": "same", "args": []}, "other": {"command": "other"},
      "shadowed": {"command": "mine"}, "bad": {}
    }}"#;
    fixture.write(".cursor/mcp.json", text);
    fixture.write(
        ".codeium/windsurf/mcp_config.json",
        r#"{"mcpServers": {"new": {"command": "new"}}}"#,
    );
    let user = fixture.write(
        ".mcp.json",
        r#"{"mcpServers": {"same": {"type": "stdio", "command": "same"}, "other": {"command": "different"}}}"#,
    );
    let project = fixture.write(
        "work/.mcp.json",
        r#"{"mcpServers": {"shadowed": {"command": "theirs"}}}"#,
    );
    let imported = fixture.with(|context| import(&Client::ALL, context));
    let sources = ConfigSources {
        user: Some(user),
        project: Some(project),
        ..ConfigSources::default()
    };
    let existing = Existing::read(&sources);
    let planned = plan(&imported, &existing);
    let actions: Vec<_> = planned
        .iter()
        .map(|planned| {
            let action = match &planned.action {
                ImportAction::Add { same_name_in: None } => "add".to_owned(),
                ImportAction::Add {
                    same_name_in: Some((scope, origin)),
                } => format!("add, same name in {scope}:{}", origin.line),
                ImportAction::Same { scope, .. } => format!("same in {scope}"),
                ImportAction::Conflict { origin } => format!("conflict in line {}", origin.line),
                ImportAction::NameTaken { by, is_same } => {
                    format!("taken by {by}, same: {is_same}")
                }
                ImportAction::Unusable(problem) => problem.to_string(),
                _ => String::new(),
            };
            (planned.server.name.as_str(), action)
        })
        .collect();
    assert_eq!(
        actions,
        [
            ("new", "add".to_owned()),
            ("same", "same in user".to_owned()),
            ("other", "conflict in line 1".to_owned()),
            ("shadowed", "add, same name in project:1".to_owned()),
            ("bad", "missing `command` or `url`".to_owned()),
            ("new", "taken by Cursor, same: true".to_owned()),
        ]
    );
    // Planning again gives the same result.
    assert_eq!(plan(&imported, &existing), planned);
}
