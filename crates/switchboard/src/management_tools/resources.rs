//! What servers let one read.

use serde::{Deserialize, Serialize};

use super::{OfServer, answer};
use crate::content::{Block, field, sanitize};
use crate::host::Host;
use crate::mcp::Resource;
use crate::query::ServerItem;
use crate::registry::{ToolAnswer, ToolFailure};

/// How much of a name or a description a model is told, in bytes.
const NAME_BYTES: usize = 200;
const DESCRIPTION_BYTES: usize = 1_000;

/// A resource as a model is told of it.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Listed {
    uri: String,
    name: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    mime_type: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    description: Option<String>,
    server: String,
}

impl Listed {
    /// `None` for an address that cannot be shown as it is: a model could not ask for it either.
    fn of(offered: &ServerItem<Resource>) -> Option<Self> {
        let Resource {
            uri,
            name,
            title,
            description,
            mime_type,
            ..
        } = &*offered.item;
        let is_plain = sanitize(uri) == *uri && !uri.chars().any(char::is_control);
        is_plain.then(|| Self {
            uri: uri.clone(),
            name: field(title.as_ref().unwrap_or(name), NAME_BYTES).into_owned(),
            mime_type: mime_type
                .as_ref()
                .map(|kind| field(kind, NAME_BYTES).into_owned()),
            description: description
                .as_ref()
                .map(|text| field(text, DESCRIPTION_BYTES).into_owned()),
            server: offered.server.to_string(),
        })
    }
}

pub(super) async fn list(host: &Host, of: OfServer) -> Result<ToolAnswer, ToolFailure> {
    let offer = host.resources(of.server.as_deref()).await;
    let offer = offer.map_err(|error| ToolFailure::of(&error))?;
    let mut room = host.state().limits.result_text_bytes;
    let (mut listed, mut left_out) = (Vec::new(), 0_usize);
    for resource in offer.items.iter().filter_map(Listed::of) {
        let size = serde_json::to_string(&resource).map_or(0, |text| text.len() + 1);
        match room.checked_sub(size).filter(|_| left_out == 0) {
            Some(rest) => {
                room = rest;
                listed.push(resource);
            }
            None => left_out += 1,
        }
    }
    let mut notes: Vec<_> = offer.errors.iter().map(ToString::to_string).collect();
    if left_out > 0 {
        notes.push(format!(
            "{left_out} more resources were left out (limit `result_text_bytes`); ask for one server"
        ));
    }
    Ok(with_notes(answer(&listed)?, &notes))
}

/// The answer is exact; what else there is to say stands behind it.
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
pub(super) struct Read {
    server: String,
    uri: String,
}

pub(super) async fn read(host: &Host, read: Read) -> Result<ToolAnswer, ToolFailure> {
    let presented = host.read_resource(&read.server, &read.uri).await;
    let presented = presented.map_err(|error| ToolFailure::of(&error))?;
    Ok(with_notes(answer(&presented)?, &presented.notes))
}
