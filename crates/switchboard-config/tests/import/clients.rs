//! Translation of the config format of each client.

use serde_json::json;
use switchboard_config::Scope;
use switchboard_config::import::{Client, FileOwner, Platform};

use crate::support::{ImportFixture, entries, entry};

const CODE: &str = r#"{
  "numStartups": 41,
  "mcpServers": {
    "notes": { "type": "stdio", "command": "notes-mcp", "args": ["--root", "${NOTES:-/srv/notes}"], "env": {} },
    "tracker": {
      "type": "http",
      "url": "https://tracker.example/mcp",
      "headers": { "Authorization": "Bearer ${TRACKER_TOKEN}" },
      "timeout": 90000,
      "alwaysLoad": true
    },
    "live": { "type": "ws", "url": "wss://live.example/socket" }
  },
  "projects": {
    "PROJECT": {
      "history": [{ "display": "a question", "deep": [[[1]]] }],
      "mcpServers": { "notes": { "command": "notes-dev" }, "off": { "command": "off-mcp" } },
      "disabledMcpServers": ["off"]
    },
    "/somewhere/else": { "mcpServers": { "other": { "command": "other-mcp" } } },
    "/and/nothing": { "mcpServers": {} }
  }
}"#;

#[test]
fn claude_code_user_and_project_servers_are_imported() {
    let fixture = ImportFixture::new().set("TRACKER_TOKEN", "t");
    let code = CODE.replace("PROJECT", &fixture.project().to_string_lossy());
    fixture.write(".claude.json", code);
    let imported = fixture.import(Client::ClaudeCode);
    let here = fixture.project();
    assert_eq!(imported.diagnostics, []);
    assert_eq!(
        entries(&imported),
        [
            (
                "notes".to_owned(),
                Scope::User,
                json!({"command": "notes-mcp", "args": ["--root", "${NOTES:-/srv/notes}"]})
            ),
            (
                "tracker".to_owned(),
                Scope::User,
                json!({
                    "type": "http",
                    "url": "https://tracker.example/mcp",
                    "headers": {"Authorization": "Bearer ${TRACKER_TOKEN}"},
                    "timeout": 90000,
                    "alwaysLoad": true
                })
            ),
            (
                "live".to_owned(),
                Scope::User,
                json!({"url": "wss://live.example/socket"})
            ),
            (
                "notes".to_owned(),
                Scope::Local,
                json!({"command": "notes-dev", "cwd": here})
            ),
            (
                "off".to_owned(),
                Scope::Local,
                json!({"command": "off-mcp", "cwd": here, "disabled": true})
            ),
        ]
    );
    let file = &imported.files[0];
    assert_eq!(file.owner, FileOwner::User);
    assert_eq!(
        file.notes,
        [
            "servers of another project not imported; to import them, run the command there, first in /somewhere/else"
        ]
    );
    assert_eq!(
        (file.servers[0].origin.line, file.servers[0].origin.column),
        (4, 5)
    );
    let problem = file.servers[2].problem.as_ref().unwrap();
    assert!(problem.message.contains("WebSocket"), "{problem}");
    let fine = file.servers.iter().filter(|found| found.problem.is_none());
    assert!(fine.clone().count() == 4 && fine.clone().all(|found| found.notes.is_empty()));
}

#[test]
fn claude_config_dir_moves_claude_code_file() {
    let fixture = ImportFixture::new();
    let moved = fixture.write(
        "moved/.claude.json",
        r#"{"mcpServers": {"a": {"command": "a"}}}"#,
    );
    let fixture = fixture.set(
        "CLAUDE_CONFIG_DIR",
        &moved.parent().unwrap().to_string_lossy(),
    );
    assert_eq!(fixture.import(Client::ClaudeCode).files[0].path, moved);
}

#[test]
fn claude_desktop_references_are_literal_on_all_platforms() {
    let text = r#"{ "mcpServers": { "bridge": {
      "command": "npx",
      "args": ["mcp-remote", "https://x.example/mcp", "--header", "Authorization:${AUTH}", "${HOME}/a"],
      "env": { "AUTH": "Bearer hush" }
    } } }"#;
    for (platform, path) in [
        (Platform::Linux, ".config/Claude/claude_desktop_config.json"),
        (
            Platform::MacOs,
            "Library/Application Support/Claude/claude_desktop_config.json",
        ),
        (
            Platform::Windows,
            "AppData/Roaming/Claude/claude_desktop_config.json",
        ),
    ] {
        let mut fixture = ImportFixture::new().set("HOME", "/home/me");
        fixture.platform = platform;
        fixture.write(path, text);
        let found = fixture.only(Client::ClaudeDesktop);
        assert_eq!(found.scope, Scope::User);
        assert_eq!(found.problem, None);
        // The entry sets AUTH, so the server expands it. Other references are expanded by
        // Switchboard.
        assert_eq!(
            entry(&found)["args"],
            json!([
                "mcp-remote",
                "https://x.example/mcp",
                "--header",
                "Authorization:${DOLLAR:-$}{AUTH}",
                "${HOME}/a"
            ])
        );
        assert_eq!(
            found.notes,
            [
                "${AUTH} is expanded by the server; escaped as ${DOLLAR:-$} here",
                "${HOME} is expanded here; Claude Desktop passes it literally",
            ]
        );
    }
}

#[test]
fn literal_references_reach_server_unchanged() {
    let fixture = ImportFixture::new();
    fixture.write(
        ".config/Claude/claude_desktop_config.json",
        r#"{"mcpServers": {"b": {"command": "x", "args": ["a:${KEY}:${KEY:-d}"], "env": {"KEY": "k"}}}}"#,
    );
    let found = fixture.only(Client::ClaudeDesktop);
    let written = entry(&found)["args"][0].as_str().unwrap().to_owned();
    let expanded = switchboard_config::expand(&written, &fixture.variables).unwrap();
    assert_eq!(expanded, "a:${KEY}:${KEY:-d}");
}

#[test]
fn cursor_editor_variables_are_rewritten() {
    let fixture = ImportFixture::new()
        .set("TOKEN", "t")
        .set("HOME", "/home/me");
    let text = r#"{
      // comment
      "mcpServers": {
        "files": {
          "command": "${workspaceFolder}/bin/files",
          "args": ["${userHome}/data${pathSeparator}a", "${workspaceFolderBasename}"],
          "env": { "TOKEN": "${env:TOKEN}" },
          "envFile": "${workspaceFolder}/.env",
        },
        "web": { "url": "https://web.example/mcp", "headers": { "X": "${env:MISSING}" } },
      },
    }"#;
    fixture.write("work/.cursor/mcp.json", text);
    let imported = fixture.import(Client::Cursor);
    let here = fixture.project().to_string_lossy().into_owned();
    assert_eq!(
        entries(&imported),
        [
            (
                "files".to_owned(),
                Scope::Local,
                json!({
                    "command": format!("{here}/bin/files"),
                    "args": ["${HOME}/data/a", "work"],
                    "env": {"TOKEN": "${TOKEN}"},
                    "cwd": here
                })
            ),
            (
                "web".to_owned(),
                Scope::Local,
                json!({"url": "https://web.example/mcp", "headers": {"X": "${MISSING}"}})
            ),
        ]
    );
    let file = &imported.files[0];
    assert_eq!(file.owner, FileOwner::Project);
    assert_eq!(
        file.servers[0].notes,
        [
            "${workspaceFolderBasename} becomes the name of the current directory",
            "ignored `envFile`: copy the variables of that file to `env`, or list them in `inheritEnv`",
        ]
    );
    assert_eq!(file.servers[1].notes, ["variables not set: MISSING"]);
}

#[test]
fn workspace_folder_depends_on_target_scope() {
    let mut fixture = ImportFixture::new();
    let text = r#"{"mcpServers": {"a": {"command": "a", "args": ["${workspaceFolder}/x"]}}}"#;
    fixture.write(".cursor/mcp.json", text);
    let found = fixture.only(Client::Cursor);
    assert_eq!(
        entry(&found),
        json!({"command": "a", "args": ["${PWD:-.}/x"]})
    );
    assert_eq!(
        found.notes,
        ["${workspaceFolder} becomes the directory the server is started in"]
    );
    fixture.scope = Some(Scope::Project);
    let found = fixture.only(Client::Cursor);
    assert_eq!(entry(&found), json!({"command": "a", "args": ["./x"]}));
    assert_eq!((found.scope, found.notes), (Scope::Project, vec![]));
}

#[test]
fn vscode_inputs_become_variables() {
    let fixture = ImportFixture::new();
    let text = r#"{
      "inputs": [
        { "type": "promptString", "id": "db-url", "description": "Where the database is", "password": true },
        { "type": "promptString", "id": "region", "description": "Region", "default": "eu-1" }
      ],
      "servers": {
        "db": {
          "type": "stdio", "command": "db-mcp",
          "args": ["--region=${input:region}"],
          "env": { "DB": "${input:db-url}", "PY": "${command:python.path}" },
          "sandboxEnabled": true, "dev": { "watch": "**/*.ts" }, "gallery": "https://g.example"
        },
        "web": { "type": "http", "url": "https://web.example/mcp" },
        "old": { "type": "sse", "url": "https://old.example/sse" },
        "socket": { "type": "http", "url": "unix:///run/mcp.sock" }
      }
    }"#;
    fixture.write(".config/Code/User/mcp.json", text);
    let imported = fixture.import(Client::VsCode);
    assert_eq!(
        entries(&imported)
            .into_iter()
            .map(|(_, _, entry)| entry)
            .collect::<Vec<_>>(),
        [
            json!({
                "command": "db-mcp",
                "args": ["--region=${REGION:-eu-1}"],
                "env": {"DB": "${DB_URL}", "PY": "${PYTHON_PATH}"}
            }),
            json!({"url": "https://web.example/mcp"}),
            json!({"type": "sse", "url": "https://old.example/sse"}),
            json!({"url": "unix:///run/mcp.sock"}),
        ]
    );
    let found = &imported.files[0].servers;
    assert_eq!(
        found[0].notes,
        [
            "VS Code prompts for “Region”; set REGION to override the default",
            "VS Code inserts “Where the database is”; set the variable DB_URL instead",
            "VS Code inserts the command python.path; set the variable PYTHON_PATH instead",
            "ignored `sandboxEnabled`: the server runs without a sandbox",
            "ignored, not supported: `dev`, `gallery`",
            "variables not set: DB_URL, PYTHON_PATH",
        ]
    );
    let problem = found[3].problem.as_ref().unwrap();
    assert_eq!(problem.message, "`url` is not an http(s) URL");
}

#[test]
fn windsurf_server_url_becomes_url() {
    let fixture = ImportFixture::new();
    let text = r#"{"mcpServers": {
      "web": { "serverUrl": "https://web.example/mcp", "headers": { "K": "Bearer ${file:~/keys/web-key.txt}" },
               "disabledTools": ["drop"] },
      "off": { "command": "off-mcp", "disabled": true }
    }}"#;
    fixture.write(".codeium/windsurf/mcp_config.json", text);
    let imported = fixture.import(Client::Windsurf);
    assert_eq!(
        entries(&imported),
        [
            (
                "web".to_owned(),
                Scope::User,
                json!({"url": "https://web.example/mcp", "headers": {"K": "Bearer ${WEB_KEY_TXT}"}})
            ),
            (
                "off".to_owned(),
                Scope::User,
                json!({"command": "off-mcp", "disabled": true})
            ),
        ]
    );
    assert_eq!(
        imported.files[0].servers[0].notes,
        [
            "Windsurf inserts the content of ~/keys/web-key.txt; set the variable WEB_KEY_TXT instead",
            "ignored `disabledTools`: add permission rules for its tools instead",
            "variables not set: WEB_KEY_TXT",
        ]
    );
}

#[test]
fn codex_seconds_and_variable_names_are_converted() {
    let fixture = ImportFixture::new().set("GH", "x").set("TENANT", "x");
    let text = r#"
model = "some-model"

[mcp_servers.docs]
command = "npx"
args = ["-y", "docs-mcp"]
env = { LEVEL = "info" }
env_vars = ["GH", { name = "LOCAL", source = "local" }]
startup_timeout_sec = 20.5
tool_timeout_sec = 1_20
enabled = false

[mcp_servers.web]
url = "https://web.example/mcp"
bearer_token_env_var = "GH"
http_headers = { "X-Region" = "eu" }
env_http_headers = { "X-Tenant" = "TENANT" }
enabled_tools = ["read"]
required = true
"#;
    fixture.write(".codex/config.toml", text);
    let imported = fixture.import(Client::Codex);
    assert_eq!(imported.diagnostics, []);
    assert_eq!(
        entries(&imported),
        [
            (
                "docs".to_owned(),
                Scope::User,
                json!({
                    "command": "npx", "args": ["-y", "docs-mcp"], "env": {"LEVEL": "info"},
                    "inheritEnv": ["GH", "LOCAL"],
                    "startupTimeout": 20500, "timeout": 120_000, "disabled": true
                })
            ),
            (
                "web".to_owned(),
                Scope::User,
                json!({
                    "type": "http", "url": "https://web.example/mcp",
                    "headers": {"Authorization": "Bearer ${GH}", "X-Region": "eu", "X-Tenant": "${TENANT}"}
                })
            ),
        ]
    );
    let found = &imported.files[0].servers;
    assert_eq!(found[0].origin.line, 4);
    assert_eq!(found[0].notes, [""; 0]);
    assert_eq!(
        found[1].notes,
        [
            "ignored `enabled_tools`: add permission rules for its tools instead",
            "ignored `required`: a failing server never ends the run",
        ]
    );
}

#[test]
fn gemini_url_means_sse_with_shell_variables() {
    let mut fixture = ImportFixture::new().set("KEY", "k").set("APP", "a");
    let text = r#"{ "theme": "Dark", "mcpServers": {
      "tools": { "command": "python", "args": ["-m", "tools", "$KEY/${KEY}", "50%20%", "%APP%"], "cwd": "./srv",
                 "timeout": 15000, "trust": true, "includeTools": ["read"], "excludeTools": [] },
      "old": { "url": "https://old.example/sse" },
      "new": { "httpUrl": "https://new.example/mcp", "trust": false },
      "typed": { "url": "https://typed.example/mcp", "type": "http" }
    } }"#;
    fixture.write("work/.gemini/settings.json", text);
    let imported = fixture.import(Client::GeminiCli);
    let cwd = fixture.project().join("./srv");
    assert_eq!(
        entries(&imported)
            .into_iter()
            .map(|(_, _, entry)| entry)
            .collect::<Vec<_>>(),
        [
            json!({
                "command": "python", "args": ["-m", "tools", "${KEY}/${KEY}", "50%20%", "%APP%"],
                "cwd": cwd, "timeout": 15000
            }),
            json!({"type": "sse", "url": "https://old.example/sse"}),
            json!({"type": "http", "url": "https://new.example/mcp"}),
            json!({"type": "http", "url": "https://typed.example/mcp"}),
        ]
    );
    assert_eq!(
        imported.files[0].servers[0].notes,
        [
            "ignored `trust`: Gemini never asks for its calls; add an allow rule instead",
            "ignored `includeTools`: add permission rules for its tools instead",
            "ignored `excludeTools`: add permission rules for its tools instead",
        ]
    );
    fixture.platform = Platform::Windows;
    let imported = fixture.import(Client::GeminiCli);
    assert_eq!(
        entry(&imported.files[0].servers[0])["args"][4],
        json!("${APP}")
    );
}

#[test]
fn zed_extension_servers_are_not_imported() {
    let fixture = ImportFixture::new();
    let text = r#"{
      "vim_mode": true,
      "context_servers": {
        "own": { "source": "custom", "command": "own-mcp", "args": [], "env": { "A": "1" }, "timeout": 90 },
        "older": { "command": { "path": "older-mcp", "args": ["run"], "env": { "B": "2" } }, "timeout": 60000 },
        "web": { "url": "https://web.example/mcp", "headers": { "Authorization": "Bearer hush" }, "enabled": false },
        "mcp-server-x": { "source": "extension", "settings": { "token": "hush" } }
      }
    }"#;
    fixture.write(".config/zed/settings.json", text);
    let imported = fixture.import(Client::Zed);
    assert_eq!(
        entries(&imported)
            .into_iter()
            .map(|(_, _, entry)| entry)
            .collect::<Vec<_>>(),
        [
            json!({"command": "own-mcp", "env": {"A": "1"}, "timeout": 90_000}),
            json!({"command": "older-mcp", "args": ["run"], "env": {"B": "2"}, "timeout": 60_000}),
            json!({
                "type": "http", "url": "https://web.example/mcp",
                "headers": {"Authorization": "Bearer hush"}, "disabled": true
            }),
            json!({}),
        ]
    );
    let found = &imported.files[0].servers;
    assert_eq!(
        found[1].notes,
        ["`timeout` read as milliseconds (older versions)"]
    );
    let problem = found[3].problem.as_ref().unwrap();
    assert!(problem.message.contains("Zed extension"), "{problem}");
    assert!(!format!("{found:?}").contains("hush"));
}

#[test]
fn both_opencode_formats_are_imported() {
    let fixture = ImportFixture::new().set("TOKEN", "t");
    let first = r#"{
      "mcp": {
        "local": { "type": "local", "command": ["bun", "x", "my-mcp"], "environment": { "T": "{env:TOKEN}" },
                   "enabled": true, "timeout": 8000 },
        "remote": { "type": "remote", "url": "https://r.example/mcp", "enabled": false,
                    "headers": { "Authorization": "Bearer {file:~/.keys/r}" }, "oauth": {} },
      },
    }"#;
    fixture.write(".config/opencode/opencode.jsonc", first);
    let imported = fixture.import(Client::Opencode);
    let both = entries(&imported);
    assert_eq!(
        both[0].2,
        json!({
            "command": "bun", "args": ["x", "my-mcp"], "env": {"T": "${TOKEN}"},
            "startupTimeout": 8000, "timeout": 8000
        })
    );
    assert_eq!(
        both[1].2,
        json!({
            "url": "https://r.example/mcp", "headers": {"Authorization": "Bearer ${R}"}, "disabled": true
        })
    );
    let second = r#"{ "mcp": { "servers": { "s": {
        "type": "local", "command": ["s"], "disabled": true, "timeout": { "startup": 1000, "request": 2000 }
    } } } }"#;
    let fixture = ImportFixture::new();
    fixture.write("work/opencode.json", second);
    assert_eq!(
        entry(&fixture.only(Client::Opencode)),
        json!({
            "command": "s", "cwd": fixture.project(), "startupTimeout": 1000, "timeout": 2000, "disabled": true
        })
    );
}

#[test]
fn servers_disabled_in_gemini_stay_disabled() {
    let fixture = ImportFixture::new();
    let text = r#"{ "mcp": { "allowed": ["a", "b"], "excluded": ["b"] },
      "mcpServers": { "a": { "command": "a" }, "b": { "command": "b" }, "c": { "command": "c" } } }"#;
    fixture.write(".gemini/settings.json", text);
    let imported = fixture.import(Client::GeminiCli);
    let off: Vec<_> = entries(&imported)
        .into_iter()
        .map(|(_, _, entry)| entry["disabled"] == json!(true))
        .collect();
    assert_eq!(off, [false, true, true]);
    assert_eq!(
        imported.files[0].notes,
        ["disabled, as in Gemini's `mcp.allowed`/`mcp.excluded`: b, c"]
    );
}
