//! Decodes the results of `initialize` and `server/discover`.

use serde::Deserialize;

use super::{InvalidMessage, parse, task};
use crate::jsonrpc::RawResult;
use crate::limits::FieldLimits;
use crate::mcp::{Implementation, Json, ServerCapabilities};
use crate::scan;
use crate::text::truncate_marked;

/// The result of `initialize`.
#[derive(Debug, PartialEq)]
pub struct InitializeResult {
    /// The protocol version that the server chose, not validated.
    pub version: String,
    /// What the server reports about itself.
    pub server: ServerDescription,
}

/// The result of `server/discover`.
#[derive(Clone, Debug, PartialEq)]
pub struct DiscoverResult {
    /// The protocol versions that the server supports, not validated.
    pub supported: Vec<String>,
    /// What the server reports about itself.
    pub server: ServerDescription,
}

/// What a server reports about itself, in both eras.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ServerDescription {
    /// Name and version.
    pub info: Option<Implementation>,
    /// The capabilities.
    pub capabilities: ServerCapabilities,
    /// Instructions for the model.
    pub instructions: Option<String>,
}

impl ServerDescription {
    /// Stores a member of the result, if it is part of the description. Truncates long texts.
    fn set_member(&mut self, key: &[u8], value: &[u8], limits: &FieldLimits) {
        match key {
            b"serverInfo" => self.info = implementation(value, limits),
            b"capabilities" => self.capabilities = capabilities(value, limits),
            b"instructions" => {
                let text = parse(value);
                let max_bytes = limits.description_bytes;
                self.instructions = text.map(|text| truncate_marked(text, max_bytes));
            }
            _ => {}
        }
    }
}

/// Decodes the name and version of a server. Truncates long texts.
fn implementation(bytes: &[u8], limits: &FieldLimits) -> Option<Implementation> {
    let mut info: Implementation = parse(bytes)?;
    let bounded = |text| truncate_marked(text, limits.name_bytes);
    info.name = bounded(info.name);
    info.version = bounded(info.version);
    info.title = info.title.map(bounded);
    Some(info)
}

/// Decodes the result of `initialize`.
pub fn initialize_result(
    result: &RawResult,
    limits: &FieldLimits,
) -> Result<InitializeResult, InvalidMessage> {
    let mut version = None;
    let mut server = ServerDescription::default();
    result.members(|key, value| match key {
        b"protocolVersion" => version = parse(value),
        _ => server.set_member(key, value, limits),
    })?;
    let version = version.ok_or_else(|| InvalidMessage::malformed("no `protocolVersion`"))?;
    Ok(InitializeResult { version, server })
}

/// Decodes the result of `server/discover`.
pub fn discover_result(
    result: &RawResult,
    limits: &FieldLimits,
) -> Result<DiscoverResult, InvalidMessage> {
    let mut supported = None;
    let mut server = ServerDescription::default();
    let mut info_in_meta = None;
    result.members(|key, value| match key {
        b"supportedVersions" => supported = parse(value),
        b"_meta" => {
            // If `_meta` is not an object, it contains no server info.
            let _ = scan::members(value, |key, value| {
                if *key == *b"io.modelcontextprotocol/serverInfo" {
                    info_in_meta = implementation(value, limits);
                }
            });
        }
        _ => server.set_member(key, value, limits),
    })?;
    server.info = info_in_meta.or(server.info);
    let supported = supported.ok_or_else(|| InvalidMessage::malformed("no `supportedVersions`"))?;
    Ok(DiscoverResult { supported, server })
}

fn capabilities(bytes: &[u8], limits: &FieldLimits) -> ServerCapabilities {
    #[derive(Default, Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct RawCapability {
        #[serde(default)]
        list_changed: bool,
        #[serde(default)]
        subscribe: bool,
    }
    let mut capabilities = ServerCapabilities {
        raw: (bytes.len() <= limits.schema_bytes)
            .then(|| Json::parse_bytes(bytes))
            .flatten(),
        ..ServerCapabilities::default()
    };
    // If the value is not an object, the server has no capabilities.
    let _ = scan::members(bytes, |key, value| {
        let is_offered = value != b"null" && value != b"false";
        let raw: RawCapability = parse(value).unwrap_or_default();
        match &*key {
            b"tools" => {
                capabilities.tools = is_offered;
                capabilities.tools_list_changed = raw.list_changed;
            }
            b"resources" => {
                capabilities.resources = is_offered;
                capabilities.resources_list_changed = raw.list_changed;
                capabilities.resources_subscribe = raw.subscribe;
            }
            b"prompts" => {
                capabilities.prompts = is_offered;
                capabilities.prompts_list_changed = raw.list_changed;
            }
            b"logging" => capabilities.logging = is_offered,
            b"completions" => capabilities.completions = is_offered,
            b"tasks" => {
                (capabilities.tasks, capabilities.tasks_cancel) = task::task_capability(value);
            }
            _ => {}
        }
    });
    capabilities
}
