//! Prepares the tool lists of in-process servers for the CLI.
//!
//! Texts are sanitized. A name that a model cannot use is encoded as a host encodes it, and decoded
//! in the calls of the CLI. Invariant: the server receives the raw name of its tool.

use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use serde_json::{Value, json};
use switchboard::id::{ServerName, ToolName};
use switchboard::mcp::Json;
use switchboard::naming;

/// The key in `_meta` that makes the CLI load a tool into the context of the model from the start.
const ALWAYS_LOAD_META: &str = "anthropic/alwaysLoad";

/// The raw names of the tools of one server whose names are encoded.
#[derive(Debug, Default)]
pub(super) struct EncodedNames(Mutex<HashMap<String, String>>);

impl EncodedNames {
    /// Sanitizes the tools in a list and encodes their names. Does nothing if there is no list.
    pub(super) fn encode(&self, server: &str, tools: Option<&mut Value>) {
        let tools = tools.and_then(Value::as_array_mut).into_iter().flatten();
        for tool in tools {
            let raw = tool.get("name").and_then(Value::as_str).map(str::to_owned);
            if let Ok(clean) = Json::from(&*tool).sanitized().to_value() {
                *tool = clean;
            }
            if let (Some(raw), Ok(server)) = (raw, ServerName::new(server)) {
                let encoded = naming::tool_part(&server, &ToolName::from(raw.as_str()));
                if encoded != raw {
                    let mut names = self.0.lock().unwrap_or_else(PoisonError::into_inner);
                    names.insert(encoded.clone(), raw);
                }
                if let Some(name) = tool.get_mut("name") {
                    *name = Value::from(encoded);
                }
            }
        }
    }

    /// Replaces the encoded name in a `tools/call` request by the raw name.
    pub(super) fn decode<'a>(&self, message: Cow<'a, str>) -> Cow<'a, str> {
        let names = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if names.is_empty() {
            return message;
        }
        let Ok(mut call) = serde_json::from_str::<Value>(&message) else {
            return message;
        };
        let name = call.pointer_mut("/params/name");
        let raw = name
            .as_deref()
            .and_then(Value::as_str)
            .and_then(|name| names.get(name));
        match (raw.cloned(), name) {
            (Some(raw), Some(name)) => {
                *name = Value::from(raw);
                Cow::Owned(call.to_string())
            }
            _ => message,
        }
    }
}

/// Marks every tool in a list of tools as always loaded. Does nothing if there is no list.
pub(super) fn mark_always_loaded(tools: Option<&mut Value>) {
    let tools = tools.and_then(Value::as_array_mut).into_iter().flatten();
    for tool in tools.filter_map(Value::as_object_mut) {
        let meta = tool.entry("_meta").or_insert_with(|| json!({}));
        if let Some(meta) = meta.as_object_mut() {
            meta.insert(ALWAYS_LOAD_META.to_owned(), true.into());
        }
    }
}
