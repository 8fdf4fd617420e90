//! `ListMcpResources` and `ReadMcpResource`.

use serde::{Deserialize, Serialize};

use super::{OptionalServer, to_answer};
use crate::content::{Block, field, sanitize};
use crate::host::Host;
use crate::query::ServerItem;
use crate::registry::{ToolAnswer, ToolFailure};
use switchboard_wire::mcp::Resource;

/// How much of a name is shown, in bytes.
const MAX_NAME_BYTES: usize = 200;
/// How much of a description is shown, in bytes.
const MAX_DESCRIPTION_BYTES: usize = 1_000;

/// A resource in the answer of `ListMcpResources`.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct ListedResource {
    uri: String,
    name: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    mime_type: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    description: Option<String>,
    server: String,
}

impl ListedResource {
    /// Returns `None` if sanitizing would change the URI: the model could not read the resource.
    fn new(resource: &ServerItem<Resource>) -> Option<Self> {
        let Resource {
            uri,
            name,
            title,
            description,
            mime_type,
            ..
        } = &*resource.item;
        let is_clean = sanitize(uri) == *uri && !uri.chars().any(char::is_control);
        is_clean.then(|| Self {
            uri: uri.clone(),
            name: field(title.as_ref().unwrap_or(name), MAX_NAME_BYTES).into_owned(),
            mime_type: mime_type
                .as_ref()
                .map(|mime_type| field(mime_type, MAX_NAME_BYTES).into_owned()),
            description: description
                .as_ref()
                .map(|text| field(text, MAX_DESCRIPTION_BYTES).into_owned()),
            server: resource.server.to_string(),
        })
    }
}

pub(super) async fn list(host: &Host, input: OptionalServer) -> Result<ToolAnswer, ToolFailure> {
    let listing = host.resources(input.server.as_deref()).await;
    let listing = listing.map_err(|error| ToolFailure::new(&error))?;
    let mut budget = host.state().limits.result_text_bytes;
    let (mut listed, mut skipped) = (Vec::new(), 0_usize);
    for resource in listing.items.iter().filter_map(ListedResource::new) {
        let size = serde_json::to_string(&resource).map_or(0, |text| text.len() + 1);
        match budget.checked_sub(size).filter(|_| skipped == 0) {
            Some(rest) => {
                budget = rest;
                listed.push(resource);
            }
            None => skipped += 1,
        }
    }
    let mut notes: Vec<_> = listing.errors.iter().map(ToString::to_string).collect();
    if skipped > 0 {
        notes.push(format!(
            "{skipped} more resources were left out (limit `result_text_bytes`); ask for one server"
        ));
    }
    Ok(with_notes(to_answer(&listed)?, &notes))
}

/// Adds notes as separate blocks, so that the first block stays valid JSON.
fn with_notes(answer: ToolAnswer, notes: &[String]) -> ToolAnswer {
    match answer {
        ToolAnswer::Text(text) if !notes.is_empty() => {
            let notes = notes.iter().map(|note| format!("[{}]", sanitize(note)));
            let texts = std::iter::once(text).chain(notes);
            ToolAnswer::Blocks(texts.map(|text| Block::Text { text }).collect())
        }
        answer => answer,
    }
}

#[derive(Deserialize)]
pub(super) struct ReadInput {
    server: String,
    uri: String,
}

pub(super) async fn read(host: &Host, input: ReadInput) -> Result<ToolAnswer, ToolFailure> {
    let resource = host.read_resource(&input.server, &input.uri).await;
    let resource = resource.map_err(|error| ToolFailure::new(&error))?;
    Ok(with_notes(to_answer(&resource)?, &resource.notes))
}
