//! What may be started, what is shown of it, and when two are the same.

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    reason = "helpers of tests fail loudly when the test itself is wrong"
)]

use std::collections::HashMap;
use std::fs;
use std::time::Duration;

use serde_json::{Value, json};
use switchboard_config::{
    Admission, Consent, LaunchSpec, Loaded, RemoteKind, Scope, Secret, ServerConfig, ServerName,
    Source, Sources, Trust, load,
};
use tempfile::TempDir;

fn load_inline(json: &str) -> Loaded {
    let sources = Sources {
        command_line: vec![Source::Inline(json.to_owned())],
        ..Sources::default()
    };
    let environment = HashMap::from([("TOKEN".to_owned(), "hush".to_owned())]);
    load(&sources, &environment)
}

fn spec(json: &str) -> LaunchSpec {
    match load_inline(json)
        .config
        .server("a")
        .unwrap()
        .admit(&Trust::none())
    {
        Admission::Launch(spec) => spec,
        other => panic!("{other:?}"),
    }
}

fn written(entry: &Value) -> String {
    let json = json!({ "mcpServers": { "a": entry } }).to_string();
    let loaded = load_inline(&json);
    serde_json::to_string(loaded.config.server("a").unwrap().written()).unwrap()
}

fn in_code(config: ServerConfig) -> LaunchSpec {
    LaunchSpec::from_code(ServerName::new("a").unwrap(), config)
}

#[test]
fn a_project_entry_waits_for_approval_and_others_do_not() {
    let folder = TempDir::new().unwrap();
    let file = |name: &str| {
        let path = folder.path().join(name);
        let entry = json!({ "mcpServers": { name: { "command": "x" } } });
        fs::write(&path, entry.to_string()).unwrap();
        path
    };
    let sources = Sources {
        command_line: vec![Source::File(file("named"))],
        managed: Some(file("managed")),
        local: Some(file("local")),
        project: Some(file("project")),
        user: Some(file("user")),
        strict: false,
    };
    let loaded = load(&sources, &HashMap::new());
    let admitted = |trust: &Trust| -> Vec<Result<Consent, String>> {
        let servers = &loaded.config.servers;
        let consent = |admission| match admission {
            Admission::Launch(spec) => Ok(spec.consent()),
            Admission::AwaitingApproval { hint, .. } => Err(hint),
            Admission::Refused(refusal) => Err(refusal.to_string()),
            Admission::Invalid(problem) => Err(problem.to_string()),
        };
        servers
            .iter()
            .map(|entry| consent(entry.admit(trust)))
            .collect()
    };
    assert_eq!(
        admitted(&Trust::none()),
        [
            Ok(Consent::Administrator),
            Ok(Consent::CommandLine),
            Ok(Consent::UserFile),
            Err("switchboard trust project".to_owned()),
            Ok(Consent::UserFile),
        ]
    );
    assert_eq!(
        admitted(&Trust::project_for_this_run()),
        [
            Ok(Consent::Administrator),
            Ok(Consent::CommandLine),
            Ok(Consent::UserFile),
            Ok(Consent::TrustProjectFlag),
            Ok(Consent::UserFile),
        ]
    );
}

#[test]
fn a_project_cannot_use_the_account_of_its_user() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join(".mcp.json");
    let entry = json!({ "type": "claudeai-proxy", "url": "https://example.com", "id": "x" });
    fs::write(&path, json!({ "mcpServers": { "a": entry } }).to_string()).unwrap();
    let sources = Sources {
        project: Some(path),
        ..Sources::default()
    };
    let loaded = load(&sources, &HashMap::new());
    let Admission::Invalid(problem) =
        loaded.config.servers[0].admit(&Trust::project_for_this_run())
    else {
        panic!("the entry was admitted");
    };
    assert_eq!(
        problem.to_string(),
        "`claudeai-proxy` is not allowed in a project's file"
    );
}

#[test]
fn an_entry_is_shown_as_written_without_literal_secrets() {
    let entry = json!({
        "command": "${NOBODY:-npx}",
        "args": ["${TOKEN}", 1],
        "env": { "A": "${TOKEN}", "B": "literal", "C": "x${TOKEN}", "D": "${TOKEN:-literal}", "E": 5 },
        "headers": "literal",
        "oauth": { "clientSecret": "literal" },
        "apiKey": "literal",
        "timeout": 5
    });
    let expected = json!({
        "type": "stdio",
        "command": "${NOBODY:-npx}",
        "args": ["${TOKEN}", 1],
        "env": { "A": "${TOKEN}", "B": "***", "C": "***", "D": "***", "E": "***" },
        "headers": "***",
        "oauth": { "clientSecret": "***" },
        "apiKey": "***",
        "timeout": 5
    });
    assert_eq!(written(&entry), expected.to_string());
}

#[test]
fn arguments_and_addresses_are_shown_without_what_looks_like_a_secret() {
    let entry = json!({
        "command": "npx",
        "args": ["-y", "hub", "--token", "hush", 5, "--level=debug", "KEY=hush"],
        "cwd": "/srv"
    });
    let expected = json!({
        "type": "stdio",
        "command": "npx",
        "args": ["-y", "hub", "--token", "***", 5, "--level=debug", "KEY=***"],
        "cwd": "/srv"
    });
    assert_eq!(written(&entry), expected.to_string());

    let config = ServerConfig::remote("https://a:hush@b.c/?token=hush&x=1", RemoteKind::Http);
    assert_eq!(
        serde_json::to_value(in_code(config).written()).unwrap(),
        json!({ "type": "http", "url": "https://a:***@b.c/?token=***&x=1" })
    );
    let config = ServerConfig::stdio("hub", ["--password", "hush"]);
    assert_eq!(
        serde_json::to_value(in_code(config).written()).unwrap(),
        json!({ "type": "stdio", "command": "hub", "args": ["--password", "***"] })
    );
}

#[test]
fn an_entry_is_always_shown_with_a_type() {
    for (entry, expected) in [
        (json!({ "url": "u" }), json!({ "type": "http", "url": "u" })),
        (
            json!({ "url": "u", "type": "sse" }),
            json!({ "url": "u", "type": "sse" }),
        ),
        (json!({}), json!({ "type": "stdio" })),
        (json!("x"), json!({ "type": "stdio" })),
    ] {
        assert_eq!(written(&entry), expected.to_string());
    }
}

#[test]
fn a_server_made_in_code_is_shown_as_one_would_write_it() {
    let config = ServerConfig::stdio("npx", ["-y"])
        .env("TOKEN", "hush")
        .cwd("/srv")
        .call_timeout(Duration::from_secs(1));
    let spec = in_code(config);
    assert_eq!(
        serde_json::to_value(spec.written()).unwrap(),
        json!({
            "type": "stdio", "command": "npx", "args": ["-y"], "env": { "TOKEN": "***" },
            "cwd": "/srv", "timeout": 1000
        })
    );
    assert_eq!(
        (spec.scope(), spec.consent()),
        (Scope::Dynamic, Consent::Embedder)
    );

    let config = ServerConfig::remote("https://example.com", RemoteKind::Sse).header("A", "hush");
    assert_eq!(
        serde_json::to_value(in_code(config).written()).unwrap(),
        json!({ "type": "sse", "url": "https://example.com", "headers": { "A": "***" } })
    );
}

#[test]
fn secrets_are_never_printed() {
    let spec = spec(
        r#"{ "mcpServers": { "a": { "url": "https://example.com", "headers": { "A": "Bearer ${TOKEN}" } } } }"#,
    );
    let shown = format!(
        "{spec:?} {}",
        serde_json::to_string(spec.written()).unwrap()
    );
    assert!(
        !shown.contains("hush") && !shown.contains("Bearer"),
        "{shown}"
    );
    assert_eq!(format!("{:?}", Secret::new("hush")), "***");
    assert_eq!(Secret::new("hush").expose(), "hush");
}

#[test]
fn how_an_entry_is_written_does_not_change_what_it_launches() {
    let plain = spec(
        r#"{ "mcpServers": { "a": { "command": "x", "args": ["hush"], "env": { "A": "1", "B": "2" } } } }"#,
    );
    let other = spec(
        r#"// other
        { "mcpServers": { "a": { "env": { "B": 2, "A": "1", }, "args": ["${TOKEN}"], "type": "stdio", "command": "x" } } }"#,
    );
    assert!(plain.same_launch(&other));
    let same = ServerConfig::stdio("x", ["hush"])
        .env("A", "1")
        .env("B", "2");
    assert!(plain.same_launch(&in_code(same.clone())));
    assert!(!plain.same_launch(&in_code(same.clone().env("B", "3"))));
    assert!(!plain.same_launch(&in_code(same.cwd("/"))));
}

#[test]
fn scopes_are_called_the_same_everywhere() {
    for (scope, name) in [
        (Scope::Managed, "managed"),
        (Scope::CommandLine, "command-line"),
        (Scope::Local, "local"),
        (Scope::Project, "project"),
        (Scope::User, "user"),
        (Scope::Dynamic, "dynamic"),
        (Scope::ClaudeAi, "claudeai"),
    ] {
        assert_eq!(scope.to_string(), name);
        assert_eq!(serde_json::to_value(scope).unwrap(), json!(name));
    }
}
