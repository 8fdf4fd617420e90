//! Validation of server entries.

#![expect(
    clippy::unwrap_used,
    reason = "helpers of tests fail loudly when the test itself is wrong"
)]

use std::collections::HashMap;
use std::num::NonZeroUsize;
use std::sync::LazyLock;
use std::time::Duration;

use jsonschema::Validator;
use serde_json::{Value, json};
use switchboard_config::key_table::servers_schema;
use switchboard_config::{
    EntryError, InheritEnv, InvalidServerName, RemoteKind, ServerConfig, ServerName,
    TransportConfig, parse_server,
};

/// Whether the JSON Schema for editors accepts an entry.
fn schema_accepts(entry: &Value) -> bool {
    static SCHEMA: LazyLock<Validator> =
        LazyLock::new(|| jsonschema::validator_for(&servers_schema()).unwrap());
    SCHEMA.is_valid(&json!({ "mcpServers": { "srv": entry } }))
}

/// Parses an entry and checks that the JSON Schema agrees with the result. The schema accepts every
/// text with a variable, because only the loader knows the value.
fn parse(json: &Value) -> Result<ServerConfig, EntryError> {
    let parsed = load(json);
    let has_no_variable = !json.to_string().contains("${");
    assert_eq!(
        schema_accepts(json),
        parsed.is_ok() || !has_no_variable,
        "the schema and the loader disagree about {json}"
    );
    parsed
}

fn load(json: &Value) -> Result<ServerConfig, EntryError> {
    let environment = HashMap::from([
        ("TOKEN".to_owned(), "hush".to_owned()),
        ("LINES".to_owned(), "a\nb".to_owned()),
        ("EMPTY".to_owned(), String::new()),
    ]);
    parse_server(&ServerName::new("srv").unwrap(), json, &environment)
}

fn message(json: &Value) -> String {
    parse(json).unwrap_err().to_string()
}

fn assert_rejected(cases: &[(Value, &str)]) {
    for (json, expected) in cases {
        assert_eq!(message(json), *expected, "{json}");
    }
}

#[test]
fn command_without_type_is_stdio() {
    let json = json!({ "command": "npx", "args": ["-y", "server"] });
    assert_eq!(
        parse(&json),
        Ok(ServerConfig::stdio("npx", ["-y", "server"]))
    );
}

#[test]
fn url_without_type_is_negotiated() {
    let json = json!({ "url": "https://example.com/mcp" });
    let expected = ServerConfig::remote("https://example.com/mcp", RemoteKind::Negotiated);
    assert_eq!(parse(&json), Ok(expected));
}

#[test]
fn every_type_has_its_transport() {
    let url = "https://example.com/mcp";
    for (written, kind) in [
        ("http", RemoteKind::Http),
        ("streamable-http", RemoteKind::Http),
        ("sse", RemoteKind::Sse),
    ] {
        let json = json!({ "type": written, "url": url });
        assert_eq!(parse(&json), Ok(ServerConfig::remote(url, kind)));
    }
    let json = json!({ "type": "stdio", "command": "x" });
    assert_eq!(parse(&json), Ok(ServerConfig::stdio("x", [""; 0])));
    let json = json!({ "type": "sdk" });
    assert_eq!(parse(&json), Ok(ServerConfig::sdk("srv")));
    let json = json!({ "type": "claudeai-proxy", "url": url, "id": "srv_1" });
    assert_eq!(
        parse(&json),
        Ok(ServerConfig::new(TransportConfig::ClaudeAiProxy {
            url: url.to_owned(),
            id: "srv_1".to_owned(),
        }))
    );
}

#[test]
fn every_key_of_a_program_is_read() {
    let json = json!({
        "type": "stdio",
        "command": "./${EMPTY}server",
        "args": ["--port", 8080, "${UNSET:-x}"],
        "env": { "TOKEN": "${TOKEN}", "PORT": 8080, "DEBUG": true },
        "cwd": "sub",
        "inheritEnv": ["AWS_PROFILE"],
        "keepDaemons": true,
        "timeout": 60_000,
        "startupTimeout": 86_400_000,
        "maxConcurrentCalls": 4,
        "reconnect": { "maxAttempts": 0 },
        "lazy": true,
        "trustAnnotations": true,
        "disabled": true,
        "alwaysLoad": true,
        "auth": {}, "oauth": {}, "tools": {}, "id": "x", "name": "y"
    });
    let mut expected = ServerConfig::stdio("./server", ["--port", "8080", "x"])
        .env("TOKEN", "hush")
        .env("PORT", "8080")
        .env("DEBUG", "true")
        .cwd("sub")
        .call_timeout(Duration::from_secs(60))
        .startup_timeout(Duration::from_secs(86_400))
        .max_concurrent_calls(NonZeroUsize::new(4).unwrap());
    expected.reconnect.max_attempts = Some(0);
    expected.lazy = true;
    expected.trust_annotations = true;
    expected.disabled = true;
    expected.always_load = true;
    if let TransportConfig::Stdio(stdio) = &mut expected.transport {
        stdio.inherit_env = InheritEnv::Also(vec!["AWS_PROFILE".to_owned()]);
        stdio.keep_daemons = true;
    }
    assert_eq!(parse(&json), Ok(expected));
}

#[test]
fn every_key_of_a_remote_server_is_read() {
    let json = json!({
        "url": "http://${HOST:-localhost}:3000",
        "headers": { "Authorization": "Bearer ${TOKEN}", "X-Retries": 3 },
        "headersHelper": "print-headers ${TOKEN}",
        "tls": { "ca": "${HOST:-certs}/ca.pem", "cert": "/c.pem", "key": "/k.pem" }
    });
    let mut expected = ServerConfig::remote("http://localhost:3000", RemoteKind::Negotiated)
        .header("Authorization", "Bearer hush")
        .header("X-Retries", "3");
    if let TransportConfig::Remote(remote) = &mut expected.transport {
        remote.headers_helper = Some("print-headers ${TOKEN}".to_owned());
        remote.tls.ca = Some("certs/ca.pem".into());
        remote.tls.cert = Some("/c.pem".into());
        remote.tls.key = Some("/k.pem".into());
    }
    assert_eq!(parse(&json), Ok(expected));
}

#[test]
fn invalid_tls_is_rejected() {
    let url = "https://example.com";
    assert_rejected(&[
        (
            json!({ "url": url, "tls": "ca.pem" }),
            "`tls` must be an object such as { \"ca\": \"ca.pem\" }, not a string",
        ),
        (
            json!({ "url": url, "tls": { "ca": true } }),
            "`ca` must be a string, not a boolean",
        ),
        (
            json!({ "url": url, "tls": { "ca": "" } }),
            "`ca` in `tls` is empty",
        ),
        (
            json!({ "url": url, "tls": { "cert": "c.pem" } }),
            "`tls.cert` and `tls.key` must be given together",
        ),
    ]);
}

#[test]
fn entry_needs_exactly_one_transport() {
    let url = "https://example.com";
    assert_rejected(&[
        (json!("npx"), "expected an object, found a string"),
        (json!({}), "missing `command` or `url`"),
        (
            json!({ "command": "x", "url": url }),
            "`command` and `url` are mutually exclusive",
        ),
        (
            json!({ "type": "stdio", "command": "x", "url": url }),
            "`command` and `url` are mutually exclusive",
        ),
        (
            json!({ "type": "stdio", "url": url }),
            "`command` is missing",
        ),
        (
            json!({ "type": "http", "command": "x" }),
            "`url` is missing",
        ),
        (
            json!({ "type": "claudeai-proxy", "url": url }),
            "`id` is missing",
        ),
        (
            json!({ "type": "https", "url": url }),
            "unknown `type`; did you mean `http`?",
        ),
        (json!({ "type": "websocket", "url": url }), "unknown `type`"),
        (
            json!({ "type": 1, "command": "x" }),
            "`type` must be a string, not a number",
        ),
    ]);
}

#[test]
fn invalid_texts_are_rejected() {
    let url = "https://example.com";
    assert_rejected(&[
        (json!({ "command": "" }), "`command` is empty"),
        (json!({ "command": "${EMPTY}" }), "`command` is empty"),
        (
            json!({ "command": ["x"] }),
            "`command` must be a string, not a list",
        ),
        (
            json!({ "command": "x\0" }),
            "`command` must not contain a NUL character",
        ),
        (
            json!({ "command": "x", "args": [null] }),
            "`args` must be a list of strings, but contains null",
        ),
        (
            json!({ "command": "x", "env": [] }),
            "`env` must be an object of strings, not a list",
        ),
        (
            json!({ "command": "x", "env": { "A": {} } }),
            "`A` must be a string, not an object",
        ),
        (
            json!({ "command": "x", "env": { "A=B": "c" } }),
            "`A=B` in `env` is not a valid variable name",
        ),
        (
            json!({ "command": "x", "cwd": null }),
            "`cwd` must be a string, not null",
        ),
        (
            json!({ "url": "localhost:3000" }),
            "`url` is not an http(s) URL",
        ),
        (
            json!({ "url": "ws://localhost" }),
            "`url` is not an http(s) URL",
        ),
        (
            json!({ "url": "https:///path" }),
            "`url` is not an http(s) URL",
        ),
        (
            json!({ "url": url, "headers": { "a b": "c" } }),
            "`a b` in `headers` is not a valid header name",
        ),
        (
            json!({ "url": url, "headers": { "A": "${LINES}" } }),
            "`A` in `headers` must not contain line breaks or other control characters",
        ),
        (json!({ "url": "${UNSET}" }), "variable UNSET is not set"),
    ]);
}

#[test]
fn out_of_range_numbers_are_rejected() {
    assert_rejected(&[
        (
            json!({ "command": "x", "inheritEnv": true }),
            "`inheritEnv` must be \"all\" or a list of names",
        ),
        (
            json!({ "command": "x", "inheritEnv": "some" }),
            "`inheritEnv` must be \"all\" or a list of names",
        ),
        (
            json!({ "command": "x", "timeout": 0 }),
            "`timeout` must be a whole number from 1 to 86400000",
        ),
        (
            json!({ "command": "x", "timeout": -1 }),
            "`timeout` must be a whole number from 1 to 86400000",
        ),
        (
            json!({ "command": "x", "timeout": 1.5 }),
            "`timeout` must be a whole number from 1 to 86400000",
        ),
        (
            json!({ "command": "x", "startupTimeout": 86_400_001 }),
            "`startupTimeout` must be a whole number from 1 to 86400000",
        ),
        (
            json!({ "command": "x", "timeout": "5s" }),
            "`timeout` must be a whole number from 1 to 86400000, not a string",
        ),
        (
            json!({ "command": "x", "maxConcurrentCalls": 0 }),
            "`maxConcurrentCalls` must be a whole number from 1 to 4294967295",
        ),
        (
            json!({ "command": "x", "reconnect": 5 }),
            "`reconnect` must be an object such as { \"maxAttempts\": 5 }, not a number",
        ),
        (
            json!({ "command": "x", "lazy": "yes" }),
            "`lazy` must be true or false, not a string",
        ),
    ]);
}

#[test]
fn unset_variable_hint_names_export() {
    let problem = parse(&json!({ "command": "${GITHUB_TOKEN}" })).unwrap_err();
    assert_eq!(problem.message, "variable GITHUB_TOKEN is not set");
    assert_eq!(
        problem.hint.as_deref(),
        Some("export GITHUB_TOKEN=… or write ${GITHUB_TOKEN:-default}")
    );
}

#[test]
fn expansion_size_is_limited() {
    let environment = |_: &str| Some("x".repeat(1000));
    let json = json!({ "command": "x", "args": vec!["${A}"; 10_000] });
    let problem = parse_server(&ServerName::new("srv").unwrap(), &json, &environment).unwrap_err();
    assert_eq!(problem.message, "expanded value exceeds 262144 bytes");
}

#[test]
fn invalid_server_names_are_rejected() {
    assert!(ServerName::new("a".repeat(256)).is_ok());
    assert!("my server (ü)".parse::<ServerName>().is_ok());
    for (name, expected) in [
        (String::new(), "server name must not be empty"),
        (
            "a".repeat(257),
            "server name must not be longer than 256 characters",
        ),
        (
            "a\u{1b}[31m".to_owned(),
            "server name must not contain control or invisible characters",
        ),
        (
            "a\u{202e}b".to_owned(),
            "server name must not contain control or invisible characters",
        ),
    ] {
        assert_eq!(ServerName::new(&name).unwrap_err().to_string(), expected);
    }
}

#[test]
fn lookalike_names_are_rejected() {
    for hidden in [
        '\u{2800}',
        '\u{3164}',
        '\u{ffa0}',
        '\u{115f}',
        '\u{a0}',
        '\u{3000}',
        '\u{ad}',
        '\u{fe0f}',
        '\u{e0041}',
        '\u{2003}',
    ] {
        for name in [
            hidden.to_string(),
            format!("a{hidden}"),
            format!("a{hidden}b"),
        ] {
            assert_eq!(
                ServerName::new(&name),
                Err(InvalidServerName::Unprintable),
                "{name:?}"
            );
        }
    }
    for name in ["a ", " a", " "] {
        assert_eq!(ServerName::new(name), Err(InvalidServerName::SpaceAtEnd));
    }
    for name in ["a b", "größe", "名前", "🚀", "a.b/c"] {
        assert!(ServerName::new(name).is_ok(), "{name}");
    }
}
