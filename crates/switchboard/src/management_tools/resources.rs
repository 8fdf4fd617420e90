//! `ListMcpResources` and `ReadMcpResource`.

use serde::{Deserialize, Serialize};
use switchboard_server::ToolResult;
use switchboard_wire::mcp::Resource;
use switchboard_wire::text::one_line;

use super::{OptionalServer, json_output};
use crate::call::CallContext;
use crate::content::{Block, Output, sanitize};
use crate::host::Host;
use crate::query::ServerItem;

/// Longer names and MIME types of resources are cut to this many bytes.
const MAX_NAME_BYTES: usize = 200;
/// Longer descriptions of resources are cut to this many bytes.
const MAX_DESCRIPTION_BYTES: usize = 1_000;

/// A resource in the result of `ListMcpResources`.
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
    /// Returns `None` if the URI contains control characters or sanitizing would change it. The
    /// model could not read such a resource: it would send back the changed URI, and the host
    /// rejects control characters.
    fn new(resource: &ServerItem<Resource>) -> Option<Self> {
        let Resource {
            uri,
            name,
            description,
            mime_type,
            ..
        } = &*resource.item;
        let is_clean = sanitize(uri) == *uri && !uri.chars().any(char::is_control);
        is_clean.then(|| Self {
            uri: uri.clone(),
            name: one_line(name, MAX_NAME_BYTES).into_owned(),
            mime_type: mime_type
                .as_ref()
                .map(|mime_type| one_line(mime_type, MAX_NAME_BYTES).into_owned()),
            description: description
                .as_ref()
                .map(|text| one_line(text, MAX_DESCRIPTION_BYTES).into_owned()),
            server: resource.server.to_string(),
        })
    }
}

pub(super) async fn list(
    host: &Host,
    input: OptionalServer,
    context: &CallContext,
) -> ToolResult<Output> {
    let server = input.server.as_deref();
    let listing = host.resources_of(server, context).await?;
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
    // Notes do not go into the text: it stays valid JSON.
    let mut output = json_output(&listed)?;
    let errors = listing.errors.iter().map(ToString::to_string);
    let notes = errors.chain(listing.notes.iter().map(ToString::to_string));
    output
        .notes
        .extend(notes.map(|note| sanitize(&note).into_owned()));
    if skipped > 0 {
        output.notes.push(format!(
            "{skipped} more resources were left out (limit `resultTextBytes`); ask for one server"
        ));
    }
    Ok(output)
}

/// Appends each note as a separate block, so that the first block of the output stays valid JSON.
fn with_notes(mut output: Output, notes: &[String]) -> Output {
    let notes = notes.iter();
    let notes = notes.map(|note| Block::text(format!("[{}]", sanitize(note))));
    output.blocks.extend(notes);
    output
}

#[derive(Deserialize)]
pub(super) struct ReadInput {
    server: String,
    uri: String,
}

pub(super) async fn read(
    host: &Host,
    input: ReadInput,
    context: &CallContext,
) -> ToolResult<Output> {
    let resource = host
        .read_resource_of(&input.server, &input.uri, context)
        .await?;
    Ok(with_notes(json_output(&resource)?, &resource.notes))
}
