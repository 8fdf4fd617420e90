//! From a raw entry to a valid one.
//!
//! Here wrong combinations end: what comes out has exactly one transport, complete and expanded.
//! Nothing is run and nothing but the given environment is asked. Invariant: no message holds a value
//! of the entry, so none can hold a secret.

mod exposed_secrets;
mod fields;

use std::path::{Path, PathBuf};

use serde_json::Value as Json;
use thiserror::Error;

use crate::expand::Environment;
use crate::key_table::{self, TLS_KEYS, TRANSPORT_TYPES, lookup};
use crate::nearest::nearest;
use crate::raw::{Finding, RawKind, RawMember, RawValue};
use crate::scope::Scope;
use crate::server::{
    ReconnectConfig, RemoteConfig, RemoteKind, ServerConfig, StdioConfig, TlsFiles, TransportConfig,
};
use crate::server_name::ServerName;
use crate::text::replace_control_chars;
use fields::{Fields, Located};

/// Why an entry cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Error)]
#[error("{message}")]
#[non_exhaustive]
pub struct EntryProblem {
    /// What is wrong, as a lower-case fragment.
    pub message: String,
    /// What to do about it.
    pub hint: Option<String>,
}

impl EntryProblem {
    /// What is wrong, as a lower-case fragment.
    pub fn new(message: impl Into<String>) -> Self {
        Self {
            message: message.into(),
            hint: None,
        }
    }

    /// Adds what to do about it.
    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }
}

/// What an entry is validated for.
#[derive(Clone, Copy)]
pub(crate) struct EntryContext<'a> {
    pub(crate) name: &'a ServerName,
    pub(crate) scope: Scope,
    /// What a relative `cwd` is relative to.
    pub(crate) base: Option<&'a Path>,
    pub(crate) environment: &'a dyn Environment,
}

/// A valid entry or the first reason why it is not, and all that is to be said about it.
pub(crate) struct Validated {
    pub(crate) config: Result<ServerConfig, EntryProblem>,
    pub(crate) findings: Vec<Finding>,
}

/// Reads one entry that is given as data in code.
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
) -> Result<ServerConfig, EntryProblem> {
    let context = EntryContext {
        name,
        scope: Scope::Dynamic,
        base: None,
        environment,
    };
    validate(&RawValue::from_json(json), &context).config
}

/// What is to be said about an entry that somebody wants to write down.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct CheckedEntry {
    /// The entry in its valid shape, or why it has none.
    pub config: Result<ServerConfig, EntryProblem>,
    /// What merely looks wrong with it.
    pub warnings: Vec<EntryProblem>,
}

/// Checks an entry before it is written into the file of `scope`.
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
    let Validated { config, findings } = validate(&RawValue::from_json(json), &context);
    let problem = config.as_ref().err();
    let warnings = findings.into_iter().map(|finding| EntryProblem {
        message: finding.message,
        hint: finding.hint,
    });
    CheckedEntry {
        warnings: warnings.filter(|told| Some(told) != problem).collect(),
        config,
    }
}

/// Checks and expands one entry.
pub(crate) fn validate(raw: &RawValue, context: &EntryContext<'_>) -> Validated {
    let mut fields = Fields::new(raw, *context);
    let transport = read_transport(&mut fields);
    let config = match transport {
        Err(problem) => {
            fields.report(&problem);
            Err(problem.problem)
        }
        Ok(transport) => {
            let config = read_settings(&mut fields, transport);
            fields.first_problem.take().map_or(Ok(config), Err)
        }
    };
    warn_of_unknown_keys(
        &mut fields,
        raw.members(),
        lookup::is_known,
        lookup::suggest,
    );
    if context.scope == Scope::Project {
        exposed_secrets::warn_of_secrets(&mut fields);
    }
    Validated {
        config,
        findings: fields.findings,
    }
}

fn read_transport(fields: &mut Fields<'_>) -> Result<TransportConfig, Located> {
    let raw = fields.raw;
    let expected = || EntryProblem::new(format!("expected an object, found {}", raw.kind_name()));
    if !matches!(raw.kind, RawKind::Object(_)) {
        let hint = r#"write { "command": "…" } or { "url": "…" }"#;
        return Err(Located::at(raw.span, expected().hint(hint)));
    }
    if let (Some(_), Some(url)) = (raw.member("command"), raw.member("url")) {
        let problem = EntryProblem::new("both `command` and `url` are given")
            .hint("keep `command` for a program to start, or `url` for a remote server");
        return Err(Located::at(url.key_span, problem));
    }
    match read_type(fields)? {
        Some(Type::Stdio) => read_stdio(fields),
        Some(Type::Remote(kind)) => read_remote(fields, kind),
        Some(Type::Sdk) => Ok(TransportConfig::Sdk {
            name: fields
                .plain_text("name")
                .unwrap_or_else(|| fields.context.name.to_string()),
        }),
        Some(Type::ClaudeAiProxy) => read_proxy(fields),
        None if raw.member("command").is_some() => read_stdio(fields),
        None if raw.member("url").is_some() => read_remote(fields, RemoteKind::Negotiated),
        None => {
            let problem = EntryProblem::new("neither `command` nor `url` is given")
                .hint("give `command` for a program to start, or `url` for a remote server");
            Err(Located::at(raw.span, problem))
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

fn read_type(fields: &mut Fields<'_>) -> Result<Option<Type>, Located> {
    let Some(member) = fields.raw.member("type") else {
        return Ok(None);
    };
    let RawKind::Text(written) = &member.value.kind else {
        return Err(Located::wrong_type(member, "a string"));
    };
    let known = transport_type(written).ok_or_else(|| unknown_type(member, written))?;
    Ok(Some(known))
}

fn unknown_type(member: &RawMember, written: &str) -> Located {
    let problem = match nearest(written, &TRANSPORT_TYPES) {
        Some(name) => EntryProblem::new(format!("unknown `type`; did you mean `{name}`?")),
        None => EntryProblem::new("unknown `type`"),
    };
    let hint = format!("one of {}", TRANSPORT_TYPES.join(", "));
    Located::at(member.value.span, problem.hint(hint))
}

fn read_stdio(fields: &mut Fields<'_>) -> Result<TransportConfig, Located> {
    let command = fields.require("command")?;
    let program = fields.text_of(command);
    if program.as_deref() == Some("") {
        fields.fail(command, EntryProblem::new("`command` is empty"));
    }
    let mut stdio = StdioConfig::new(program.unwrap_or_default());
    stdio.args = fields.texts("args");
    stdio.env = fields.secrets("env", fields::check_variable);
    stdio.cwd = fields.text("cwd").map(|cwd| fields.context.resolve(&cwd));
    stdio.inherit_env = fields.inherit_env();
    stdio.keep_daemons = fields.flag("keepDaemons");
    Ok(TransportConfig::Stdio(stdio))
}

fn read_remote(fields: &mut Fields<'_>, kind: RemoteKind) -> Result<TransportConfig, Located> {
    let mut remote = RemoteConfig::new(read_url(fields)?, kind);
    remote.headers = fields.secrets("headers", fields::check_header);
    remote.headers_helper = fields.plain_text("headersHelper");
    remote.tls = read_tls(fields);
    Ok(TransportConfig::Remote(remote))
}

fn read_tls(fields: &mut Fields<'_>) -> TlsFiles {
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
            let problem = EntryProblem::new(format!("`{key}` in `tls` is empty"));
            fields.fail(
                member,
                problem.hint("write the path of a file in PEM format"),
            );
            return None;
        }
        Some(fields.context.resolve(&path))
    };
    [tls.ca, tls.cert, tls.key] = TLS_KEYS.map(&mut file);
    if tls.cert.is_some() != tls.key.is_some() {
        let problem = EntryProblem::new("`cert` and `key` in `tls` go together");
        fields.fail(member, problem.hint("give both, or only `ca`"));
    }
    let suggest = |key: &str| nearest(key, &TLS_KEYS);
    let is_known = |key: &str| TLS_KEYS.contains(&key);
    warn_of_unknown_keys(fields, member.value.members(), is_known, suggest);
    tls
}

fn read_proxy(fields: &mut Fields<'_>) -> Result<TransportConfig, Located> {
    if fields.context.scope == Scope::Project {
        // A project must not decide where the user's account is used.
        let problem = EntryProblem::new("`claudeai-proxy` is not allowed in a project's file")
            .hint("move the entry to the .mcp.json of your home folder");
        let span = fields.require("type")?.value.span;
        return Err(Located::at(span, problem));
    }
    let url = read_url(fields)?;
    fields.require("id")?;
    let id = fields.plain_text("id").unwrap_or_default();
    Ok(TransportConfig::ClaudeAiProxy { url, id })
}

fn read_url(fields: &mut Fields<'_>) -> Result<String, Located> {
    let member = fields.require("url")?;
    let Some(url) = fields.text_of(member) else {
        return Ok(String::new());
    };
    if !is_web_address(&url) {
        let problem = EntryProblem::new("`url` is not a web address")
            .hint("it begins with https:// or http:// and a host");
        fields.fail(member, problem);
    }
    Ok(url)
}

/// As much as is needed to tell a slip early; what connects parses it in full.
fn is_web_address(url: &str) -> bool {
    let Some((scheme, rest)) = url.split_once("://") else {
        return false;
    };
    let is_web = scheme.eq_ignore_ascii_case("http") || scheme.eq_ignore_ascii_case("https");
    let has_host = !rest.is_empty() && !rest.starts_with(['/', '?', '#', ':']);
    is_web && has_host && !rest.contains(|c: char| c.is_whitespace() || c.is_control())
}

fn read_settings(fields: &mut Fields<'_>, transport: TransportConfig) -> ServerConfig {
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

fn read_reconnect(fields: &mut Fields<'_>) -> ReconnectConfig {
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
        reconnect.max_attempts = fields.number(attempts, key_table::ATTEMPTS);
    }
    let suggest = |key: &str| nearest(key, &[KEY]);
    warn_of_unknown_keys(fields, member.value.members(), |key| key == KEY, suggest);
    reconnect
}

fn warn_of_unknown_keys(
    fields: &mut Fields<'_>,
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
    /// A path as the host is to take it: a project's is relative to its root.
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
