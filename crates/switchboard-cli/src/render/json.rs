//! JSON output.
//!
//! `docs/json.md` documents every key, and tests compare it with the output. Invariant: a key
//! without a value is omitted, never `null`.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use serde::Serialize;
use switchboard::Output;
use switchboard::call::Delivery;
use switchboard::catalog::CatalogTool;
use switchboard::content::{Block, sanitize};
use switchboard::id::{ServerName, ToolName, WireName};
use switchboard::mcp::{Json, ToolAnnotations};
use switchboard::status::ServerDetails;
use switchboard_config::{Diagnostic, SourcePos};

use crate::failure::{Failure, Kind};

/// Serializes to indented JSON.
///
/// Characters that a terminal would interpret or hide are escaped as `\u....`, so a JSON parser
/// reads the same data.
pub(crate) fn pretty(value: &impl Serialize) -> String {
    escaped(serde_json::to_string_pretty(value).unwrap_or_default())
}

/// Serializes to one line of JSON, with the same escapes as [`pretty`].
pub(crate) fn line(value: &impl Serialize) -> String {
    escaped(serde_json::to_string(value).unwrap_or_default())
}

/// Serializes the items of a listing as an array. An element for each note follows the items.
pub(crate) fn listing<'a>(
    items: &[impl Serialize],
    notes: impl IntoIterator<Item = (&'a ServerName, &'a str)>,
) -> String {
    let items = items.iter().map(ListingElement::Item);
    let notes = notes.into_iter();
    let notes = notes.map(|(server, note)| ListingElement::Note { server, note });
    pretty(&items.chain(notes).collect::<Vec<_>>())
}

/// One element of a listing.
#[derive(Serialize)]
#[serde(untagged)]
enum ListingElement<'a, T> {
    Item(&'a T),
    /// Says that items of this server are missing.
    Note {
        server: &'a ServerName,
        note: &'a str,
    },
}

fn escaped(text: String) -> String {
    if sanitize(&text) == text {
        return text;
    }
    let mut escaped = String::with_capacity(text.len());
    for letter in text.chars() {
        if letter == '\n' || sanitize(letter.encode_utf8(&mut [0; 4])).len() == letter.len_utf8() {
            escaped.push(letter);
            continue;
        }
        for unit in letter.encode_utf16(&mut [0; 2]) {
            // Writing to a string cannot fail.
            let _ = write!(escaped, "\\u{unit:04x}");
        }
    }
    escaped
}

/// The output of `list`.
#[derive(Serialize)]
pub(crate) struct ServersJson<'a> {
    pub(crate) servers: Vec<ServerJson<'a>>,
    pub(crate) diagnostics: Vec<&'a Diagnostic>,
}

/// A server.
#[derive(Serialize)]
pub(crate) struct ServerJson<'a> {
    #[serde(flatten)]
    pub(crate) details: &'a ServerDetails,
    pub(crate) origin: &'a SourcePos,
}

/// A tool. Texts of the server are sanitized.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ToolJson<'a> {
    name: &'a WireName,
    server: &'a ServerName,
    #[serde(rename = "tool")]
    raw_name: &'a ToolName,
    #[serde(skip_serializing_if = "Option::is_none")]
    title: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    description: Option<String>,
    input_schema: Json,
    #[serde(skip_serializing_if = "Option::is_none")]
    output_schema: Option<Json>,
    #[serde(skip_serializing_if = "ToolAnnotations::is_empty")]
    annotations: ToolAnnotations,
    available: bool,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    notes: Vec<String>,
}

impl<'a> From<&'a CatalogTool> for ToolJson<'a> {
    fn from(tool: &'a CatalogTool) -> Self {
        let definition = tool.definition.sanitized();
        Self {
            name: &tool.wire_name,
            server: &tool.id.server,
            raw_name: &tool.id.tool,
            title: definition.title,
            description: definition.description,
            input_schema: definition.input_schema,
            output_schema: definition.output_schema,
            annotations: definition.annotations,
            available: tool.available,
            notes: tool.schema_notes().collect(),
        }
    }
}

/// The output of `call`.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct CallResultJson<'a> {
    content: &'a [Block],
    #[serde(skip_serializing_if = "Option::is_none")]
    structured_content: Option<&'a Json>,
    is_error: bool,
    notes: &'a [String],
    #[serde(skip_serializing_if = "Option::is_none")]
    full_result_file: Option<PathBuf>,
    #[serde(skip_serializing_if = "Option::is_none")]
    saved_to: Option<&'a Path>,
}

impl<'a> CallResultJson<'a> {
    /// `full_result_file` holds the complete result if `output` was truncated. `saved_to` is the
    /// file that `-o` names.
    pub(crate) fn new(
        output: &'a Output,
        full_result_file: Option<PathBuf>,
        saved_to: Option<&'a Path>,
    ) -> Self {
        Self {
            content: &output.blocks,
            structured_content: output.structured.as_ref(),
            is_error: output.is_error,
            notes: &output.notes,
            full_result_file,
            saved_to,
        }
    }
}

#[derive(Serialize)]
struct FailureJson<'a> {
    error: ErrorJson<'a>,
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    diagnostics: &'a [Diagnostic],
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct ErrorJson<'a> {
    kind: Kind,
    message: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    hint: Option<&'a str>,
    exit_code: u8,
    #[serde(skip_serializing_if = "Option::is_none")]
    delivery: Option<Delivery>,
}

/// The output of a command that failed.
pub(crate) fn failure(failure: &Failure) -> String {
    let parts = failure.parts();
    let failed = FailureJson {
        error: ErrorJson {
            kind: parts.kind,
            message: &parts.message,
            hint: parts.hint.as_deref(),
            exit_code: parts.kind.exit() as u8,
            delivery: parts.delivery,
        },
        diagnostics: &parts.diagnostics,
    };
    if parts.is_json_line {
        line(&failed)
    } else {
        pretty(&failed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unprintable_characters_are_escaped() {
        let text = "a\u{9b}31m\u{7f}\u{202e}\u{200b}ü漢😀";
        let printed = pretty(&[text]);
        assert_eq!(printed, "[\n  \"a\\u009b31m\\u007f\\u202e\\u200bü漢😀\"\n]");
        let back: Vec<String> = serde_json::from_str(&printed).unwrap();
        assert_eq!(back, [text]);
    }
}
