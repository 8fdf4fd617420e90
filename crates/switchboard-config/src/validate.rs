//! Turns a raw entry into a [`ServerConfig`] or its first error, and lists all problems.
//!
//! The config has exactly one transport, complete and expanded. Validation runs nothing and reads
//! only the given environment. Invariant: no message contains a literal value of the entry, so no
//! message can contain a secret.

mod exposed_secrets;
mod fields;

use std::path::{Path, PathBuf};

use serde_json::Value as Json;
use thiserror::Error;

use crate::expand::Environment;
use crate::key_table::{self, TLS_KEYS, TRANSPORT_TYPES, lookup};
use crate::nearest::nearest;
use crate::raw::{Problem, RawKind, RawMember, RawValue};
use crate::scope::Scope;
use crate::server::{
    ReconnectConfig, RemoteConfig, RemoteKind, ServerConfig, StdioConfig, TlsFiles, TransportConfig,
};
use crate::server_name::ServerName;
use crate::text::replace_control_chars;
use fields::{EntryFields, LocatedError};

/// Why an entry is invalid.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Error)]
#[error("{message}")]
#[non_exhaustive]
pub struct EntryError {
    /// The error, as a lower-case fragment.
    pub message: String,
    /// A command or action to try.
    pub hint: Option<String>,
}

impl EntryError {
    /// An error without a hint. `message` is a lower-case fragment.
    pub fn new(message: impl Into<String>) -> Self {
        Self {
            message: message.into(),
            hint: None,
        }
    }

    /// Adds a hint.
    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }
}

/// The surroundings of an entry that its validation depends on.
#[derive(Clone, Copy)]
pub(crate) struct EntryContext<'a> {
    pub(crate) name: &'a ServerName,
    pub(crate) scope: Scope,
    /// The directory that relative paths in `cwd` and `tls` refer to.
    pub(crate) base: Option<&'a Path>,
    pub(crate) environment: &'a dyn Environment,
}

/// The config or the first error of an entry, and all its problems.
pub(crate) struct Validated {
    pub(crate) config: Result<ServerConfig, EntryError>,
    pub(crate) problems: Vec<Problem>,
}

/// Parses one entry from JSON.
///
/// ```
/// use std::collections::HashMap;
/// use switchboard_config::{RemoteKind, ServerConfig, ServerName, parse_server};
///
/// let json = serde_json::json!({ "type": "http", "url": "https://example.com/mcp" });
/// let config = parse_server(&ServerName::new("example")?, &json, &HashMap::new())?;
/// assert_eq!(config, ServerConfig::remote("https://example.com/mcp", RemoteKind::Http));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn parse_server(
    name: &ServerName,
    json: &Json,
    environment: &dyn Environment,
) -> Result<ServerConfig, EntryError> {
    let context = EntryContext {
        name,
        scope: Scope::Dynamic,
        base: None,
        environment,
    };
    validate(&RawValue::from_json(json), &context).config
}

/// The result of checking an entry before it is written to a file.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct CheckedEntry {
    /// The config, or the first error.
    pub config: Result<ServerConfig, EntryError>,
    /// All problems except the error in `config`. If `config` is valid, these are only warnings.
    pub warnings: Vec<EntryError>,
}

/// Checks an entry before it is written to the file of `scope`.
pub fn check_server(
    name: &ServerName,
    json: &Json,
    scope: Scope,
    environment: &dyn Environment,
) -> CheckedEntry {
    let context = EntryContext {
        name,
        scope,
        base: None,
        environment,
    };
    let Validated { config, problems } = validate(&RawValue::from_json(json), &context);
    let problem = config.as_ref().err();
    let warnings = problems.into_iter().map(|problem| EntryError {
        message: problem.message,
        hint: problem.hint,
    });
    CheckedEntry {
        warnings: warnings
            .filter(|warning| Some(warning) != problem)
            .collect(),
        config,
    }
}

/// Validates and expands one entry.
pub(crate) fn validate(raw: &RawValue, context: &EntryContext<'_>) -> Validated {
    let mut fields = EntryFields::new(raw, *context);
    let transport = read_transport(&mut fields);
    let config = match transport {
        Err(problem) => {
            fields.report(&problem);
            Err(problem.problem)
        }
        Ok(transport) => {
            let config = read_settings(&mut fields, transport);
            fields.first_error.take().map_or(Ok(config), Err)
        }
    };
    warn_unknown_keys(
        &mut fields,
        raw.members(),
        lookup::is_known,
        lookup::nearest_key,
    );
    if context.scope == Scope::Project {
        exposed_secrets::warn_exposed_secrets(&mut fields);
    }
    Validated {
        config,
        problems: fields.problems,
    }
}

fn read_transport(fields: &mut EntryFields<'_>) -> Result<TransportConfig, LocatedError> {
    let raw = fields.raw;
    let expected = || EntryError::new(format!("expected an object, found {}", raw.kind_name()));
    if !matches!(raw.kind, RawKind::Object(_)) {
        let hint = r#"write { "command": "…" } or { "url": "…" }"#;
        return Err(LocatedError::at(raw.span, expected().hint(hint)));
    }
    if let (Some(_), Some(url)) = (raw.member("command"), raw.member("url")) {
        let problem = EntryError::new("`command` and `url` are mutually exclusive")
            .hint("keep `command` for a program to start, or `url` for a remote server");
        return Err(LocatedError::at(url.key_span, problem));
    }
    match read_type(fields)? {
        Some(Type::Stdio) => read_stdio(fields),
        Some(Type::Remote(kind)) => read_remote(fields, kind),
        Some(Type::Sdk) => Ok(TransportConfig::Sdk {
            name: fields
                .unexpanded_text("name")
                .unwrap_or_else(|| fields.context.name.to_string()),
        }),
        Some(Type::ClaudeAiProxy) => read_claude_ai(fields),
        None if raw.member("command").is_some() => read_stdio(fields),
        None if raw.member("url").is_some() => read_remote(fields, RemoteKind::Negotiated),
        None => {
            let problem = EntryError::new("missing `command` or `url`")
                .hint("add `command` for a program to start, or `url` for a remote server");
            Err(LocatedError::at(raw.span, problem))
        }
    }
}

#[derive(Clone, Copy)]
enum Type {
    Stdio,
    Remote(RemoteKind),
    Sdk,
    ClaudeAiProxy,
}

/// Returns the transport named by `type`, one of [`TRANSPORT_TYPES`].
fn transport_type(name: &str) -> Option<Type> {
    Some(match name {
        "stdio" => Type::Stdio,
        "http" | "streamable-http" => Type::Remote(RemoteKind::Http),
        "sse" => Type::Remote(RemoteKind::Sse),
        "sdk" => Type::Sdk,
        "claudeai-proxy" => Type::ClaudeAiProxy,
        _ => return None,
    })
}

fn read_type(fields: &mut EntryFields<'_>) -> Result<Option<Type>, LocatedError> {
    let Some(member) = fields.raw.member("type") else {
        return Ok(None);
    };
    let RawKind::Text(written) = &member.value.kind else {
        return Err(LocatedError::wrong_type(member, "a string"));
    };
    let known = transport_type(written).ok_or_else(|| unknown_type(member, written))?;
    Ok(Some(known))
}

fn unknown_type(member: &RawMember, written: &str) -> LocatedError {
    let problem = match nearest(written, &TRANSPORT_TYPES) {
        Some(name) => EntryError::new(format!("unknown `type`; did you mean `{name}`?")),
        None => EntryError::new("unknown `type`"),
    };
    let hint = format!("one of {}", TRANSPORT_TYPES.join(", "));
    LocatedError::at(member.value.span, problem.hint(hint))
}

fn read_stdio(fields: &mut EntryFields<'_>) -> Result<TransportConfig, LocatedError> {
    let command = fields.require("command")?;
    let program = fields.text_of(command);
    if program.as_deref() == Some("") {
        fields.fail(command, EntryError::new("`command` is empty"));
    }
    let mut stdio = StdioConfig::new(program.unwrap_or_default());
    stdio.args = fields.string_list("args");
    stdio.env = fields.secrets("env", fields::check_variable);
    stdio.cwd = fields.text("cwd").map(|cwd| fields.context.resolve(&cwd));
    stdio.inherit_env = fields.inherit_env();
    stdio.keep_daemons = fields.flag("keepDaemons");
    Ok(TransportConfig::Stdio(stdio))
}

fn read_remote(
    fields: &mut EntryFields<'_>,
    kind: RemoteKind,
) -> Result<TransportConfig, LocatedError> {
    let mut remote = RemoteConfig::new(read_url(fields)?, kind);
    remote.headers = fields.secrets("headers", fields::check_header);
    remote.headers_helper = fields.unexpanded_text("headersHelper");
    remote.tls = read_tls(fields);
    Ok(TransportConfig::Remote(remote))
}

fn read_tls(fields: &mut EntryFields<'_>) -> TlsFiles {
    let mut tls = TlsFiles::default();
    let Some(member) = fields.raw.member("tls") else {
        return tls;
    };
    if !matches!(member.value.kind, RawKind::Object(_)) {
        fields.fail_type(member, "an object such as { \"ca\": \"ca.pem\" }");
        return tls;
    }
    let mut file = |key: &str| {
        let path = fields.text_of(member.value.member(key)?)?;
        if path.is_empty() {
            let problem = EntryError::new(format!("`{key}` in `tls` is empty"));
            fields.fail(member, problem.hint("set it to the path of a PEM file"));
            return None;
        }
        Some(fields.context.resolve(&path))
    };
    [tls.ca, tls.cert, tls.key] = TLS_KEYS.map(&mut file);
    if tls.cert.is_some() != tls.key.is_some() {
        let problem = EntryError::new("`tls.cert` and `tls.key` must be given together");
        fields.fail(member, problem.hint("set both, or only `ca`"));
    }
    let suggest = |key: &str| nearest(key, &TLS_KEYS);
    let is_known = |key: &str| TLS_KEYS.contains(&key);
    warn_unknown_keys(fields, member.value.members(), is_known, suggest);
    tls
}

fn read_claude_ai(fields: &mut EntryFields<'_>) -> Result<TransportConfig, LocatedError> {
    if fields.context.scope == Scope::Project {
        // A project must not choose a server that uses the user's account.
        let problem = EntryError::new("`claudeai-proxy` is not allowed in a project's file")
            .hint("move the entry to ~/.mcp.json");
        let span = fields.require("type")?.value.span;
        return Err(LocatedError::at(span, problem));
    }
    let url = read_url(fields)?;
    fields.require("id")?;
    let id = fields.unexpanded_text("id").unwrap_or_default();
    Ok(TransportConfig::ClaudeAiProxy { url, id })
}

fn read_url(fields: &mut EntryFields<'_>) -> Result<String, LocatedError> {
    let member = fields.require("url")?;
    let Some(url) = fields.text_of(member) else {
        return Ok(String::new());
    };
    if !is_http_url(&url) {
        let problem = EntryError::new("`url` is not an http(s) URL")
            .hint("expected https://HOST or http://HOST");
        fields.fail(member, problem);
    }
    Ok(url)
}

/// A quick check that finds typing errors early. The transport parses the URL completely.
fn is_http_url(url: &str) -> bool {
    let Some((scheme, rest)) = url.split_once("://") else {
        return false;
    };
    let is_web = scheme.eq_ignore_ascii_case("http") || scheme.eq_ignore_ascii_case("https");
    let has_host = !rest.is_empty() && !rest.starts_with(['/', '?', '#', ':']);
    is_web && has_host && !rest.contains(|c: char| c.is_whitespace() || c.is_control())
}

fn read_settings(fields: &mut EntryFields<'_>, transport: TransportConfig) -> ServerConfig {
    ServerConfig {
        startup_timeout: fields.duration("startupTimeout"),
        call_timeout: fields.duration("timeout"),
        max_concurrent_calls: fields.count("maxConcurrentCalls"),
        reconnect: read_reconnect(fields),
        lazy: fields.flag("lazy"),
        trust_annotations: fields.flag("trustAnnotations"),
        disabled: fields.flag("disabled"),
        always_load: fields.flag("alwaysLoad"),
        ..ServerConfig::new(transport)
    }
}

fn read_reconnect(fields: &mut EntryFields<'_>) -> ReconnectConfig {
    const KEY: &str = "maxAttempts";
    let mut reconnect = ReconnectConfig::default();
    let Some(member) = fields.raw.member("reconnect") else {
        return reconnect;
    };
    if !matches!(member.value.kind, RawKind::Object(_)) {
        fields.fail_type(member, "an object such as { \"maxAttempts\": 5 }");
        return reconnect;
    }
    if let Some(attempts) = member.value.member(KEY) {
        reconnect.max_attempts = fields.number(attempts, key_table::ATTEMPTS_RANGE);
    }
    let suggest = |key: &str| nearest(key, &[KEY]);
    warn_unknown_keys(fields, member.value.members(), |key| key == KEY, suggest);
    reconnect
}

fn warn_unknown_keys(
    fields: &mut EntryFields<'_>,
    members: &[RawMember],
    is_known: fn(&str) -> bool,
    suggest: impl Fn(&str) -> Option<&'static str>,
) {
    for member in members.iter().filter(|member| !is_known(&member.key)) {
        let key = replace_control_chars(&member.key);
        let message = match suggest(&member.key) {
            Some(known) => format!("unknown key `{key}`; did you mean `{known}`?"),
            None => format!("unknown key `{key}`"),
        };
        fields.warn(member.key_span, message);
    }
}

impl EntryContext<'_> {
    /// Resolves a path of the entry. Paths of a project's entry are relative to the project root.
    fn resolve(&self, path: &str) -> PathBuf {
        match self.base {
            Some(base) => base.join(path),
            None => PathBuf::from(path),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_listed_type_has_a_transport() {
        for name in TRANSPORT_TYPES {
            assert!(transport_type(name).is_some(), "{name}");
        }
    }
}
