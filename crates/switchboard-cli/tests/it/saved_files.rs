//! Files that earlier builds wrote still load: server cache, approvals, settings.
//!
//! The contents, file names and hashes below were written by earlier builds. Do not update them: a
//! change that makes one of these tests fail loses data of users.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use serde_json::{Value, json};

use crate::support::{TestCli, echo_server};

/// Content of a server cache file in which the tool `read` has every key that a tool can have.
const CACHED_SERVER: &str = concat!(
    r#"{"era":"legacy","tools":[{"name":"read","title":"Read","description":"Reads a file","#,
    r#""inputSchema":{"type":"object","properties":{"path":{"type":"string"}}},"#,
    r#""outputSchema":{"type":"object"},"#,
    r#""annotations":{"title":"Read","readOnlyHint":true,"destructiveHint":false,"#,
    r#""idempotentHint":true,"openWorldHint":false},"#,
    r#""execution":{"taskSupport":"optional"},"_meta":{"a":1}},"#,
    r#"{"name":"stat","inputSchema":{"type":"object"}}]}"#
);

/// Server names with the names of their cache files. A file name is a hash of the parts of the
/// entry that identify the server.
const CACHE_FILES: [(&str, &str); 3] = [
    ("files", "a75dd837506f6293f8655e254b911e1a"),
    ("far", "a95cf2d1293ae535954c3c08191a06d3"),
    ("bare", "5d55c3d6c63f5d3515d596912971b41f"),
];

fn write_private(path: &Path, text: &str) {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, text).unwrap();
    fs::set_permissions(path, Permissions::from_mode(0o600)).unwrap();
}

#[tokio::test]
async fn recorded_server_cache_is_used() {
    let cli = TestCli::empty();
    // None of these servers can be started: the tools come from the cache.
    let servers = json!({
        "files": {
            "command": "/opt/files-mcp",
            "args": ["--root", "/srv"],
            "env": {"LEVEL": "info"},
            "lazy": true,
        },
        "far": {"type": "http", "url": "https://example.com/mcp", "lazy": true},
        "bare": {"url": "https://example.com/mcp", "lazy": true},
    });
    let config = json!({ "mcpServers": servers });
    cli.sandbox.write_home(".mcp.json", config.to_string());
    let folder = cli.sandbox.state_home().join("switchboard/servers");
    for (_, key) in CACHE_FILES {
        write_private(&folder.join(format!("{key}.json")), CACHED_SERVER);
    }
    let output = cli.run(&["tools", "--json"]).await;
    assert_eq!((output.code, output.stderr.as_str()), (0, ""), "{output}");
    let tools = output.json();
    let names: Vec<_> = (tools.as_array().unwrap().iter())
        .map(|tool| tool["name"].as_str().unwrap())
        .collect();
    let expected: Vec<_> = (CACHE_FILES.iter())
        .flat_map(|(server, _)| ["read", "stat"].map(|tool| format!("mcp__{server}__{tool}")))
        .collect();
    assert_eq!(names, expected);
    let read = &tools[0];
    assert_eq!(read["title"], "Read");
    assert_eq!(read["inputSchema"]["properties"]["path"]["type"], "string");
    assert_eq!(read["outputSchema"], json!({"type": "object"}));
    assert_eq!(read["annotations"]["openWorldHint"], false);
}

#[tokio::test]
async fn recorded_era_skips_probe() {
    let cli = TestCli::with_servers([("ant", echo_server().record("record").into())]);
    let call = ["call", "mcp__ant__echo", "message=x", "--yes"];
    assert_eq!(cli.run(&call).await.code, 0);
    // This test replaces the content of the cache file but keeps the file name, which depends on
    // the path of the sandbox.
    let folder = cli.sandbox.state_home().join("switchboard/servers");
    let file = fs::read_dir(folder).unwrap().next().unwrap().unwrap();
    write_private(&file.path(), r#"{"era":"legacy"}"#);
    fs::remove_file(cli.sandbox.project().join("record")).unwrap();
    assert_eq!(cli.run(&call).await.code, 0);
    let record = switchboard_testkit::read_record(cli.sandbox.project().join("record"));
    let is_probe = |message: &Value| message["method"] == "server/discover";
    assert!(!record.iter().any(is_probe), "{record:?}");
}

#[tokio::test]
async fn recorded_approvals_are_used() {
    let cli = TestCli::empty();
    let servers = json!({
        "program": {"command": "sh", "args": ["-c", "exit 3"], "env": {"TOKEN": "${TOKEN:-}"}},
        "remote": {"type": "http", "url": "http://127.0.0.1:1/mcp"},
        "never": {"type": "http", "url": "http://127.0.0.1:1/mcp"},
    });
    let config = json!({ "mcpServers": servers });
    cli.sandbox.write(".mcp.json", config.to_string());
    let project = cli.sandbox.project().canonicalize().unwrap();
    let record = |server: &str, verdict: &str, hash: &str, shown: Value| {
        json!({
            "project": project,
            "server": server,
            "verdict": verdict,
            "hash": format!("sha256:{hash}"),
            "at": 1_790_000_000,
            "shown": shown,
        })
    };
    let program = "e53d402cf2c10e2a1ff8e6109a66bbcac7be1a57d228b33c8f0f94cc8fcec6b6";
    let remote = "377e884d1342aa5049be329c599188c801442a10509bc3619b64700880565646";
    let shown_program = json!({
        "type": "stdio",
        "command": "sh",
        "args": ["-c", "exit 3"],
        "env": {"TOKEN": "${TOKEN:-}"},
        "program": "/usr/bin/sh",
        "variables": ["TOKEN"],
    });
    let shown_remote = json!({"type": "http", "url": "http://127.0.0.1:1/mcp"});
    let approvals = json!({
        "version": 1,
        "approvals": [
            record("program", "approved", program, shown_program),
            record("remote", "approved", remote, shown_remote.clone()),
            record("never", "rejected", remote, shown_remote),
        ],
    });
    let file = cli.sandbox.state_home().join("switchboard/trust.json");
    write_private(&file, &format!("{approvals:#}\n"));
    let output = cli
        .run_command(cli.command_without_trust(&["list", "--json"]))
        .await;
    let list = output.json();
    assert_eq!(list["diagnostics"], json!([]), "{output}");
    let error = |server: usize| list["servers"][server]["error"].as_str().unwrap();
    assert!(error(0).contains("exited with code 3"), "{output}");
    assert!(error(1).contains("127.0.0.1:1"), "{output}");
    assert!(error(2).contains("rejected"), "{output}");
    let recorded = cli
        .run_command(cli.command_without_trust(&["trust", "--list", "--json"]))
        .await
        .json();
    assert_eq!(recorded["approvals"][0]["at"], "2026-09-21T14:13:20.000Z");
    assert_eq!(recorded["approvals"][2]["verdict"], "rejected");
}

#[tokio::test]
async fn recorded_settings_are_used() {
    let cli = TestCli::with_servers([("ant", echo_server().into()), ("bee", echo_server().into())]);
    let limits = [
        "messageBytes",
        "memoryBytes",
        "jsonNodes",
        "jsonDepth",
        "treeNodes",
        "outboxBytes",
        "listPages",
        "toolsPerServer",
        "resourcesPerServer",
        "promptsPerServer",
        "listingBytes",
        "cursorBytes",
        "stderrTailBytes",
        "inboundRequests",
        "inputRounds",
        "questionsPerMinute",
        "samplingsPerMinute",
        "samplingTokens",
        "logMessagesPerSecond",
        "progressBacklog",
        "eventBacklog",
        "contentBlocks",
        "resultTextBytes",
        "resultMediaBytes",
        "callsPerServer",
        "callsInFlight",
        "watches",
        "watchTextBytes",
    ];
    let deadlines = [
        "startup",
        "call",
        "idle",
        "list",
        "probe",
        "connect",
        "silence",
        "signOfLife",
        "visit",
        "exitAfterEof",
        "exitAfterTerm",
    ];
    let all = |keys: &[&str], value: u64| -> Value {
        let members = keys.iter().map(|key| ((*key).to_owned(), json!(value)));
        Value::Object(members.collect())
    };
    let settings = json!({
        "permissions": [
            {"tool": "mcp__ant__echo", "action": "allow"},
            {"tool": "mcp__ant", "pattern": ["a=1", "*"], "action": "deny"},
            {"tool": "mcp__*", "hint": "readOnly", "action": "ask"},
        ],
        "disabledServers": ["bee"],
        "limits": all(&limits, 100_000),
        "deadlines": all(&deadlines, 20_000),
    });
    cli.sandbox
        .write_config("switchboard/settings.json", settings.to_string());
    let output = cli.run(&["list", "--json"]).await;
    let list = output.json();
    assert_eq!(list["diagnostics"], json!([]), "{output}");
    assert_eq!(list["servers"][0]["status"], "connected", "{output}");
    assert_eq!(list["servers"][1]["status"], "disabled", "{output}");
    let call = cli.run(&["call", "mcp__ant__echo", "message=hi"]).await;
    assert_eq!((call.code, call.stdout.as_str()), (0, "hi"), "{call}");
    let denied = cli
        .run(&["call", "mcp__ant__add", "a=1", "b=2", "--yes"])
        .await;
    assert_eq!(denied.code, 6, "{denied}");
}
