//! Launch decisions, masked entries, and equality of launches.

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
    ConfigSource, ConfigSources, Consent, LaunchDecision, LaunchSpec, LoadedConfig, RemoteKind,
    Scope, Secret, ServerConfig, ServerName, Trust, load,
};
use tempfile::TempDir;

fn load_inline(json: &str) -> LoadedConfig {
    let sources = ConfigSources {
        command_line: vec![ConfigSource::Inline(json.to_owned())],
        ..ConfigSources::default()
    };
    let environment = HashMap::from([("TOKEN".to_owned(), "hush".to_owned())]);
    load(&sources, &environment)
}

fn spec(json: &str) -> LaunchSpec {
    match load_inline(json)
        .config
        .server("a")
        .unwrap()
        .decide_launch(&Trust::none())
    {
        LaunchDecision::Launch(spec) => spec,
        other => panic!("{other:?}"),
    }
}

fn masked_text(entry: &Value) -> String {
    let json = json!({ "mcpServers": { "a": entry } }).to_string();
    let loaded = load_inline(&json);
    serde_json::to_string(loaded.config.server("a").unwrap().masked_entry()).unwrap()
}

fn trusted_spec(config: ServerConfig) -> LaunchSpec {
    LaunchSpec::trusted(ServerName::new("a").unwrap(), config)
}

#[test]
fn only_project_entries_need_approval() {
    let folder = TempDir::new().unwrap();
    let file = |name: &str| {
        let path = folder.path().join(name);
        let entry = json!({ "mcpServers": { name: { "command": "x" } } });
        fs::write(&path, entry.to_string()).unwrap();
        path
    };
    let sources = ConfigSources {
        command_line: vec![ConfigSource::File(file("named"))],
        managed: Some(file("managed")),
        local: Some(file("local")),
        project: Some(file("project")),
        user: Some(file("user")),
        strict: false,
    };
    let loaded = load(&sources, &HashMap::new());
    let consents = |trust: &Trust| -> Vec<Result<Consent, String>> {
        let servers = &loaded.config.servers;
        let consent = |decision| match decision {
            LaunchDecision::Launch(spec) => Ok(spec.consent()),
            LaunchDecision::AwaitingApproval { hint, .. } => Err(hint),
            LaunchDecision::Refused(refusal) => Err(refusal.to_string()),
            LaunchDecision::Invalid(problem) => Err(problem.to_string()),
        };
        servers
            .iter()
            .map(|entry| consent(entry.decide_launch(trust)))
            .collect()
    };
    assert_eq!(
        consents(&Trust::none()),
        [
            Ok(Consent::Administrator),
            Ok(Consent::CommandLine),
            Ok(Consent::UserFile),
            Err("switchboard trust project".to_owned()),
            Ok(Consent::UserFile),
        ]
    );
    assert_eq!(
        consents(&Trust::project_for_this_run()),
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
fn project_cannot_use_claude_ai_account() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join(".mcp.json");
    let entry = json!({ "type": "claudeai-proxy", "url": "https://example.com", "id": "x" });
    fs::write(&path, json!({ "mcpServers": { "a": entry } }).to_string()).unwrap();
    let sources = ConfigSources {
        project: Some(path),
        ..ConfigSources::default()
    };
    let loaded = load(&sources, &HashMap::new());
    let LaunchDecision::Invalid(problem) =
        loaded.config.servers[0].decide_launch(&Trust::project_for_this_run())
    else {
        panic!("the entry is not invalid");
    };
    assert_eq!(
        problem.to_string(),
        "`claudeai-proxy` is not allowed in a project's file"
    );
}

#[test]
fn masked_entry_hides_literal_secrets() {
    let entry = json!({
        "command": "${UNSET:-npx}",
        "args": ["${TOKEN}", 1],
        "env": { "A": "${TOKEN}", "B": "literal", "C": "x${TOKEN}", "D": "${TOKEN:-literal}", "E": 5 },
        "headers": "literal",
        "oauth": { "clientSecret": "literal" },
        "apiKey": "literal",
        "timeout": 5
    });
    let expected = json!({
        "type": "stdio",
        "command": "${UNSET:-npx}",
        "args": ["${TOKEN}", 1],
        "env": { "A": "${TOKEN}", "B": "***", "C": "***", "D": "***", "E": "***" },
        "headers": "***",
        "oauth": { "clientSecret": "***" },
        "apiKey": "***",
        "timeout": 5
    });
    assert_eq!(masked_text(&entry), expected.to_string());
}

#[test]
fn masked_entry_hides_detected_secrets() {
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
    assert_eq!(masked_text(&entry), expected.to_string());

    let config = ServerConfig::remote("https://a:hush@b.c/?token=hush&x=1", RemoteKind::Http);
    assert_eq!(
        serde_json::to_value(trusted_spec(config).masked_entry()).unwrap(),
        json!({ "type": "http", "url": "https://a:***@b.c/?token=***&x=1" })
    );
    let config = ServerConfig::stdio("hub", ["--password", "hush"]);
    assert_eq!(
        serde_json::to_value(trusted_spec(config).masked_entry()).unwrap(),
        json!({ "type": "stdio", "command": "hub", "args": ["--password", "***"] })
    );
}

#[test]
fn masked_entry_always_has_type() {
    for (entry, expected) in [
        (json!({ "url": "u" }), json!({ "type": "http", "url": "u" })),
        (
            json!({ "url": "u", "type": "sse" }),
            json!({ "url": "u", "type": "sse" }),
        ),
        (json!({}), json!({ "type": "stdio" })),
        (json!("x"), json!({ "type": "stdio" })),
    ] {
        assert_eq!(masked_text(&entry), expected.to_string());
    }
}

#[test]
fn trusted_spec_has_masked_entry() {
    let config = ServerConfig::stdio("npx", ["-y"])
        .env("TOKEN", "hush")
        .cwd("/srv")
        .call_timeout(Duration::from_secs(1));
    let spec = trusted_spec(config);
    assert_eq!(
        serde_json::to_value(spec.masked_entry()).unwrap(),
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
        serde_json::to_value(trusted_spec(config).masked_entry()).unwrap(),
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
        serde_json::to_string(spec.masked_entry()).unwrap()
    );
    assert!(
        !shown.contains("hush") && !shown.contains("Bearer"),
        "{shown}"
    );
    assert_eq!(format!("{:?}", Secret::new("hush")), "***");
    assert_eq!(Secret::new("hush").expose(), "hush");
}

#[test]
fn formatting_does_not_change_launch() {
    let plain = spec(
        r#"{ "mcpServers": { "a": { "command": "x", "args": ["hush"], "env": { "A": "1", "B": "2" } } } }"#,
    );
    let other = spec(
        r#"// other
        { "mcpServers": { "a": { "env": { "B": 2, "A": "1", }, "args": ["${TOKEN}"], "type": "stdio", "command": "x" } } }"#,
    );
    assert!(plain.is_same_launch(&other));
    let same = ServerConfig::stdio("x", ["hush"])
        .env("A", "1")
        .env("B", "2");
    assert!(plain.is_same_launch(&trusted_spec(same.clone())));
    assert!(!plain.is_same_launch(&trusted_spec(same.clone().env("B", "3"))));
    assert!(!plain.is_same_launch(&trusted_spec(same.cwd("/"))));
}

#[test]
fn scope_names_are_consistent() {
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
