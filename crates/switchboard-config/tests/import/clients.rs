//! What each client writes, and what becomes of it.

use serde_json::json;
use switchboard_config::Scope;
use switchboard_config::import::{Authorship, Client, Platform};

use crate::support::{Desk, entries, entry};

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
fn claude_code_has_servers_of_the_user_and_of_the_project() {
    let desk = Desk::new().set("TRACKER_TOKEN", "t");
    let code = CODE.replace("PROJECT", &desk.project().to_string_lossy());
    desk.write(".claude.json", code);
    let imported = desk.import(Client::ClaudeCode);
    let here = desk.project();
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
    assert_eq!(file.authorship, Authorship::User);
    assert_eq!(
        file.notes,
        [
            "the servers of another project are left out: import them there, first in /somewhere/else"
        ]
    );
    assert_eq!(
        (file.found[0].origin.line, file.found[0].origin.column),
        (4, 5)
    );
    let problem = file.found[2].problem.as_ref().unwrap();
    assert!(problem.message.contains("WebSocket"), "{problem}");
    let fine = file.found.iter().filter(|found| found.problem.is_none());
    assert!(fine.clone().count() == 4 && fine.clone().all(|found| found.notes.is_empty()));
}

#[test]
fn claude_code_may_keep_its_file_elsewhere() {
    let desk = Desk::new();
    let moved = desk.write(
        "moved/.claude.json",
        r#"{"mcpServers": {"a": {"command": "a"}}}"#,
    );
    let desk = desk.set(
        "CLAUDE_CONFIG_DIR",
        &moved.parent().unwrap().to_string_lossy(),
    );
    assert_eq!(desk.import(Client::ClaudeCode).files[0].path, moved);
}

#[test]
fn claude_desktop_has_a_place_on_each_platform_and_fills_nothing_in() {
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
        let mut desk = Desk::new().set("HOME", "/home/me");
        desk.platform = platform;
        desk.write(path, text);
        let found = desk.only(Client::ClaudeDesktop);
        assert_eq!(found.scope, Scope::User);
        assert_eq!(found.problem, None);
        // The server gets AUTH and fills it in by itself; whatever else looks like a variable is one.
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
                "the server itself fills in ${AUTH}; ${DOLLAR:-$} keeps that from happening earlier",
                "${HOME} is filled in here; Claude Desktop hands it over as it stands",
            ]
        );
    }
}

#[test]
fn what_is_handed_over_literally_there_is_handed_over_literally_here() {
    let desk = Desk::new();
    desk.write(
        ".config/Claude/claude_desktop_config.json",
        r#"{"mcpServers": {"b": {"command": "x", "args": ["a:${KEY}:${KEY:-d}"], "env": {"KEY": "k"}}}}"#,
    );
    let found = desk.only(Client::ClaudeDesktop);
    let written = entry(&found)["args"][0].as_str().unwrap().to_owned();
    let expanded = switchboard_config::expand(&written, &desk.variables).unwrap();
    assert_eq!(expanded, "a:${KEY}:${KEY:-d}");
}

#[test]
fn cursor_spells_variables_like_an_editor() {
    let desk = Desk::new().set("TOKEN", "t").set("HOME", "/home/me");
    let text = r#"{
      // by hand
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
    desk.write("work/.cursor/mcp.json", text);
    let imported = desk.import(Client::Cursor);
    let here = desk.project().to_string_lossy().into_owned();
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
    assert_eq!(file.authorship, Authorship::Project);
    assert_eq!(
        file.found[0].notes,
        [
            "${workspaceFolderBasename} is the name of the folder you are in now",
            "`envFile` is left out: put the variables of that file into `env`, or name them in `inheritEnv`",
        ]
    );
    assert_eq!(file.found[1].notes, ["not set at the moment: MISSING"]);
}

#[test]
fn the_folder_of_an_editor_depends_on_where_the_entry_goes() {
    let mut desk = Desk::new();
    let text = r#"{"mcpServers": {"a": {"command": "a", "args": ["${workspaceFolder}/x"]}}}"#;
    desk.write(".cursor/mcp.json", text);
    let found = desk.only(Client::Cursor);
    assert_eq!(
        entry(&found),
        json!({"command": "a", "args": ["${PWD:-.}/x"]})
    );
    assert_eq!(
        found.notes,
        ["${workspaceFolder} is the folder you are in when it starts"]
    );
    desk.scope = Some(Scope::Project);
    let found = desk.only(Client::Cursor);
    assert_eq!(entry(&found), json!({"command": "a", "args": ["./x"]}));
    assert_eq!((found.scope, found.notes), (Scope::Project, vec![]));
}

#[test]
fn vscode_asks_its_user_and_here_a_variable_is_set() {
    let desk = Desk::new();
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
    desk.write(".config/Code/User/mcp.json", text);
    let imported = desk.import(Client::VsCode);
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
    let found = &imported.files[0].found;
    assert_eq!(
        found[0].notes,
        [
            "VS Code asks for “Region”; here REGION may say something else than the default",
            "VS Code puts in “Where the database is”; here set the variable DB_URL to it",
            "VS Code puts in the command python.path; here set the variable PYTHON_PATH to it",
            "`sandboxEnabled` is left out: here the server runs without a sandbox",
            "left out, for nothing here corresponds to it: `dev`, `gallery`",
            "not set at the moment: DB_URL, PYTHON_PATH",
        ]
    );
    let problem = found[3].problem.as_ref().unwrap();
    assert_eq!(problem.message, "`url` is not a web address");
}

#[test]
fn windsurf_calls_an_address_server_url() {
    let desk = Desk::new();
    let text = r#"{"mcpServers": {
      "web": { "serverUrl": "https://web.example/mcp", "headers": { "K": "Bearer ${file:~/keys/web-key.txt}" },
               "disabledTools": ["drop"] },
      "off": { "command": "off-mcp", "disabled": true }
    }}"#;
    desk.write(".codeium/windsurf/mcp_config.json", text);
    let imported = desk.import(Client::Windsurf);
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
        imported.files[0].found[0].notes,
        [
            "Windsurf puts in the content of ~/keys/web-key.txt; here set the variable WEB_KEY_TXT to it",
            "`disabledTools` is left out: write permission rules for its tools instead",
            "not set at the moment: WEB_KEY_TXT",
        ]
    );
}

#[test]
fn codex_counts_in_seconds_and_names_variables() {
    let desk = Desk::new().set("GH", "x").set("TENANT", "x");
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
    desk.write(".codex/config.toml", text);
    let imported = desk.import(Client::Codex);
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
    let found = &imported.files[0].found;
    assert_eq!(found[0].origin.line, 4);
    assert_eq!(found[0].notes, [""; 0]);
    assert_eq!(
        found[1].notes,
        [
            "`enabled_tools` is left out: write permission rules for its tools instead",
            "`required` is left out: here a server that fails ends no run",
        ]
    );
}

#[test]
fn gemini_means_sse_by_url_and_spells_variables_like_a_shell() {
    let mut desk = Desk::new().set("KEY", "k").set("APP", "a");
    let text = r#"{ "theme": "Dark", "mcpServers": {
      "tools": { "command": "python", "args": ["-m", "tools", "$KEY/${KEY}", "50%20%", "%APP%"], "cwd": "./srv",
                 "timeout": 15000, "trust": true, "includeTools": ["read"], "excludeTools": [] },
      "old": { "url": "https://old.example/sse" },
      "new": { "httpUrl": "https://new.example/mcp", "trust": false },
      "typed": { "url": "https://typed.example/mcp", "type": "http" }
    } }"#;
    desk.write("work/.gemini/settings.json", text);
    let imported = desk.import(Client::GeminiCli);
    let cwd = desk.project().join("./srv");
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
        imported.files[0].found[0].notes,
        [
            "`trust` is left out: there its calls are never asked about; here write an allow rule",
            "`includeTools` is left out: write permission rules for its tools instead",
            "`excludeTools` is left out: write permission rules for its tools instead",
        ]
    );
    desk.platform = Platform::Windows;
    let imported = desk.import(Client::GeminiCli);
    assert_eq!(
        entry(&imported.files[0].found[0])["args"][4],
        json!("${APP}")
    );
}

#[test]
fn zed_has_servers_that_only_its_extensions_start() {
    let desk = Desk::new();
    let text = r#"{
      "vim_mode": true,
      "context_servers": {
        "own": { "source": "custom", "command": "own-mcp", "args": [], "env": { "A": "1" }, "timeout": 90 },
        "older": { "command": { "path": "older-mcp", "args": ["run"], "env": { "B": "2" } }, "timeout": 60000 },
        "web": { "url": "https://web.example/mcp", "headers": { "Authorization": "Bearer hush" }, "enabled": false },
        "mcp-server-x": { "source": "extension", "settings": { "token": "hush" } }
      }
    }"#;
    desk.write(".config/zed/settings.json", text);
    let imported = desk.import(Client::Zed);
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
    let found = &imported.files[0].found;
    assert_eq!(
        found[1].notes,
        ["`timeout` is taken for milliseconds, as older versions have it"]
    );
    let problem = found[3].problem.as_ref().unwrap();
    assert!(problem.message.contains("extension of Zed"), "{problem}");
    assert!(!format!("{found:?}").contains("hush"));
}

#[test]
fn opencode_has_lists_for_commands_and_two_layouts() {
    let desk = Desk::new().set("TOKEN", "t");
    let first = r#"{
      "mcp": {
        "local": { "type": "local", "command": ["bun", "x", "my-mcp"], "environment": { "T": "{env:TOKEN}" },
                   "enabled": true, "timeout": 8000 },
        "remote": { "type": "remote", "url": "https://r.example/mcp", "enabled": false,
                    "headers": { "Authorization": "Bearer {file:~/.keys/r}" }, "oauth": {} },
      },
    }"#;
    desk.write(".config/opencode/opencode.jsonc", first);
    let imported = desk.import(Client::Opencode);
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
    let desk = Desk::new();
    desk.write("work/opencode.json", second);
    assert_eq!(
        entry(&desk.only(Client::Opencode)),
        json!({
            "command": "s", "cwd": desk.project(), "startupTimeout": 1000, "timeout": 2000, "disabled": true
        })
    );
}

#[test]
fn what_gemini_does_not_use_comes_switched_off() {
    let desk = Desk::new();
    let text = r#"{ "mcp": { "allowed": ["a", "b"], "excluded": ["b"] },
      "mcpServers": { "a": { "command": "a" }, "b": { "command": "b" }, "c": { "command": "c" } } }"#;
    desk.write(".gemini/settings.json", text);
    let imported = desk.import(Client::GeminiCli);
    let off: Vec<_> = entries(&imported)
        .into_iter()
        .map(|(_, _, entry)| entry["disabled"] == json!(true))
        .collect();
    assert_eq!(off, [false, true, true]);
    assert_eq!(
        imported.files[0].notes,
        ["switched off there by `mcp.allowed` or `mcp.excluded`, and so here: b, c"]
    );
}
