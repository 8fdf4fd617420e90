//! An entry as written, with secrets masked, for display.
//!
//! Variables are not expanded. Invariant: literal values of secret keys (see
//! [`lookup::is_secret_key`]), such as `env`, `headers` and `auth`, are replaced by `***`, and only
//! references such as `${TOKEN}` stay. Detected secrets in other values, such as arguments and
//! URLs, are masked too.

use serde::Serialize;
use serde_json::{Map, Value as Json, json};

use crate::expand::is_reference_only;
use crate::key_table::{TLS_KEYS, lookup};
use crate::raw::{RawKind, RawValue};
use crate::secret::Secret;
use crate::secret_detection;
use crate::server::{InheritEnv, RemoteConfig, ServerConfig, StdioConfig, TransportConfig};

/// An entry as written, with secrets masked. It always has a `type`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(transparent)]
pub struct MaskedEntry(Map<String, Json>);

impl MaskedEntry {
    /// The entry as a JSON object.
    pub fn as_object(&self) -> &Map<String, Json> {
        &self.0
    }

    pub(crate) fn from_raw(raw: &RawValue) -> Self {
        let mut object = Map::new();
        if raw.member("type").is_none() {
            let remote = raw.member("url").is_some() && raw.member("command").is_none();
            object.insert(
                "type".to_owned(),
                json!(if remote { "http" } else { "stdio" }),
            );
        }
        for member in raw.members() {
            let value = if lookup::is_secret_key(&member.key) {
                mask_all(&member.value)
            } else {
                mask_detected(to_json(&member.value))
            };
            object.insert(member.key.clone(), value);
        }
        Self(object)
    }

    /// Masks an entry given as JSON.
    pub fn from_json(entry: &Json) -> Self {
        Self::from_raw(&RawValue::from_json(entry))
    }

    /// The entry that would produce `config`, without keys that have their default value.
    pub(crate) fn from_server_config(config: &ServerConfig) -> Self {
        let mut object = Map::new();
        object.insert("type".to_owned(), json!(config.transport.kind_name()));
        let mut put = |key: &str, value: Option<Json>| {
            if let Some(value) = value {
                object.insert(key.to_owned(), value);
            }
        };
        match &config.transport {
            TransportConfig::Stdio(stdio) => put_stdio(&mut put, stdio),
            TransportConfig::Remote(remote) => put_remote(&mut put, remote),
            TransportConfig::Sdk { name } => put("name", Some(json!(name))),
            TransportConfig::ClaudeAiProxy { url, id } => {
                put("url", Some(json!(url)));
                put("id", Some(json!(id)));
            }
        }
        put_settings(&mut put, config);
        for key in ["command", "args", "url", "headersHelper"] {
            if let Some(value) = object.get_mut(key) {
                *value = mask_detected(value.take());
            }
        }
        Self(object)
    }
}

fn put_stdio(put: &mut impl FnMut(&str, Option<Json>), stdio: &StdioConfig) {
    put("command", Some(json!(stdio.command)));
    put("args", (!stdio.args.is_empty()).then(|| json!(stdio.args)));
    put("env", (!stdio.env.is_empty()).then(|| json!(stdio.env)));
    put(
        "cwd",
        stdio.cwd.as_ref().map(|cwd| json!(cwd.to_string_lossy())),
    );
    put(
        "inheritEnv",
        match &stdio.inherit_env {
            InheritEnv::Default => None,
            InheritEnv::All => Some(json!("all")),
            InheritEnv::Also(names) => Some(json!(names)),
        },
    );
    put("keepDaemons", stdio.keep_daemons.then(|| json!(true)));
}

fn put_remote(put: &mut impl FnMut(&str, Option<Json>), remote: &RemoteConfig) {
    put("url", Some(json!(remote.url)));
    put(
        "headers",
        (!remote.headers.is_empty()).then(|| json!(remote.headers)),
    );
    put(
        "headersHelper",
        remote.headers_helper.as_ref().map(|helper| json!(helper)),
    );
    let files = [&remote.tls.ca, &remote.tls.cert, &remote.tls.key];
    let files = TLS_KEYS.iter().zip(files);
    let files = files.filter_map(|(key, file)| {
        let file = file.as_ref()?.to_string_lossy();
        Some(((*key).to_owned(), json!(file)))
    });
    let files: Map<String, Json> = files.collect();
    put("tls", (!files.is_empty()).then(|| json!(files)));
}

fn put_settings(put: &mut impl FnMut(&str, Option<Json>), config: &ServerConfig) {
    let millis = |limit: std::time::Duration| json!(u64::try_from(limit.as_millis()).ok());
    put("timeout", config.call_timeout.map(millis));
    put("startupTimeout", config.startup_timeout.map(millis));
    put(
        "maxConcurrentCalls",
        config.max_concurrent_calls.map(|limit| json!(limit)),
    );
    put(
        "reconnect",
        config
            .reconnect
            .max_attempts
            .map(|attempts| json!({ "maxAttempts": attempts })),
    );
    for (key, flag) in [
        ("lazy", config.lazy),
        ("trustAnnotations", config.trust_annotations),
        ("disabled", config.disabled),
        ("alwaysLoad", config.always_load),
    ] {
        put(key, flag.then(|| json!(true)));
    }
}

pub(crate) fn to_json(value: &RawValue) -> Json {
    map_leaves(value, &|leaf| match &leaf.kind {
        RawKind::Bool(flag) => Json::Bool(*flag),
        RawKind::Number(digits) => digits.parse().map_or_else(|_| json!(digits), Json::Number),
        RawKind::Text(text) => json!(text),
        RawKind::Null | RawKind::List(_) | RawKind::Object(_) => Json::Null,
    })
}

fn mask_all(value: &RawValue) -> Json {
    map_leaves(value, &|leaf| match &leaf.kind {
        RawKind::Null => Json::Null,
        RawKind::Text(text) if is_reference_only(text) => json!(text),
        _ => json!(Secret::MASK),
    })
}

/// Masks detected secrets. In a list, a flag such as `--token` marks the next item as a secret.
fn mask_detected(value: Json) -> Json {
    match value {
        Json::String(text) => json!(secret_detection::mask_ranges(
            &text,
            &secret_detection::find_in_text(&text)
        )),
        Json::Array(items) => {
            let words = items.iter().map(|item| item.as_str().unwrap_or_default());
            let parts = secret_detection::find_in_arguments(&words.collect::<Vec<_>>());
            let items = items.into_iter().zip(parts);
            items
                .map(|(item, parts)| match item {
                    Json::String(text) => json!(secret_detection::mask_ranges(&text, &parts)),
                    other => mask_detected(other),
                })
                .collect()
        }
        Json::Object(members) => Json::Object(
            members
                .into_iter()
                .map(|(key, value)| (key, mask_detected(value)))
                .collect(),
        ),
        other => other,
    }
}

fn map_leaves(value: &RawValue, leaf: &dyn Fn(&RawValue) -> Json) -> Json {
    match &value.kind {
        RawKind::List(items) => items.iter().map(|item| map_leaves(item, leaf)).collect(),
        RawKind::Object(members) => members
            .iter()
            .map(|member| (member.key.clone(), map_leaves(&member.value, leaf)))
            .collect(),
        _ => leaf(value),
    }
}
