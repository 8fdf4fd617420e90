//! Writes a resource to stdout or to a file.
//!
//! Does not expand templates or send requests; `read` does.

use std::borrow::Cow;
use std::io::{self, IsTerminal as _, Write as _};
use std::path::PathBuf;

use serde::Serialize;
use switchboard::content::{FileType, RenderedPart, RenderedResource, decode_base64, sanitize};
use switchboard::mcp::{ReadResourceResult, ResourceBody};

use crate::commands::output_file::OutputFile;
use crate::context::Context;
use crate::failure::{Failure, Kind};
use crate::render::server_text::quote_message;
use crate::render::{json, text};

/// Whether the content is written to stdout unchanged: stdout is no terminal, and `--json` was not
/// given.
pub(super) fn writes_to_pipe(context: &Context) -> bool {
    !context.console.is_json() && !io::stdout().is_terminal()
}

pub(super) fn single_part(result: &ReadResourceResult) -> Option<&ResourceBody> {
    match result.contents.as_slice() {
        [part] if result.left_out == 0 => Some(part),
        _ => None,
    }
}

pub(super) fn multi_part_error(result: &ReadResourceResult) -> Failure {
    let parts = result.contents.len() + result.left_out;
    let message = format!("the resource has {parts} parts; -o can save only one");
    Failure::new(Kind::UnusableAnswer, message)
        .hint("without -o, text is printed and binary parts are saved to files")
}

/// Whether binary content is valid base64.
pub(super) fn has_valid_content(part: &ResourceBody) -> bool {
    bytes_of(part).is_ok()
}

fn bytes_of(part: &ResourceBody) -> Result<Cow<'_, [u8]>, Failure> {
    match (&part.text, &part.blob) {
        (Some(text), _) => Ok(Cow::Borrowed(text.as_bytes())),
        (None, Some(blob)) => decode_base64(blob).map(Cow::Owned).ok_or_else(|| {
            let message = "the server sent invalid base64";
            Failure::new(Kind::UnusableAnswer, message).hint("report this to the server's author")
        }),
        (None, None) => Ok(Cow::Borrowed(&[])),
    }
}

/// Writes the content of one part of the resource unchanged: to `file` if given, otherwise to
/// stdout.
pub(super) fn write_part(
    part: &ResourceBody,
    file: Option<&OutputFile>,
    context: &Context,
) -> Result<(), Failure> {
    let bytes = bytes_of(part)?;
    let (mime_type, mismatch) = detected_type(part, &bytes);
    if let Some(mismatch) = &mismatch {
        context.console.note(&format!("note: {mismatch}"));
    }
    let Some(file) = file else {
        return print_bytes(&bytes);
    };
    file.write(&bytes)?;
    report_written(
        part,
        mime_type,
        file.path.clone(),
        mismatch.as_ref(),
        context,
    )
}

fn print_bytes(bytes: &[u8]) -> Result<(), Failure> {
    let mut stdout = io::stdout().lock();
    let written = stdout.write_all(bytes).and_then(|()| stdout.flush());
    written.map_err(|error| match error.kind() {
        io::ErrorKind::BrokenPipe => {
            Failure::new(Kind::OutputClosed, "output closed (broken pipe)")
        }
        _ => Failure::internal(format!("cannot write the result: {error}")),
    })
}

/// Returns the MIME type of a part, and a message if the content is of another type than the server
/// declared.
fn detected_type(part: &ResourceBody, bytes: &[u8]) -> (Option<String>, Option<String>) {
    if part.blob.is_none() {
        return (part.mime_type.clone(), None);
    }
    match FileType::detect(bytes, part.mime_type.as_deref()) {
        (file_type, Some(mismatch)) => {
            let mismatch = sanitize(&mismatch).into_owned();
            (Some(file_type.mime_type().to_owned()), Some(mismatch))
        }
        (_, None) => (part.mime_type.clone(), None),
    }
}

fn report_written(
    part: &ResourceBody,
    mime_type: Option<String>,
    path: PathBuf,
    mismatch: Option<&String>,
    context: &Context,
) -> Result<(), Failure> {
    let console = &context.console;
    if !console.is_json() {
        console.note(&format!("saved to {}", text::path_on_one_line(&path)));
        return Ok(());
    }
    let mut saved = RenderedPart::default();
    saved.uri.clone_from(&part.uri);
    saved.mime_type = mime_type;
    saved.blob_saved_to = Some(path);
    console.print(&json::pretty(&ResourceJson {
        contents: &[saved],
        notes: mismatch.map(std::slice::from_ref).unwrap_or_default(),
        full_result_file: None,
    }))
}

/// Output of `read --json`.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct ResourceJson<'a> {
    contents: &'a [RenderedPart],
    notes: &'a [String],
    #[serde(skip_serializing_if = "Option::is_none")]
    full_result_file: Option<PathBuf>,
}

pub(super) fn print_resource(
    resource: &RenderedResource,
    context: &Context,
) -> Result<(), Failure> {
    let console = &context.console;
    let full_result_file =
        (resource.stored.as_ref()).map(|handle| context.stored_result_path(handle));
    if console.is_json() {
        return console.print(&json::pretty(&ResourceJson {
            contents: &resource.contents,
            notes: &resource.notes,
            full_result_file,
        }));
    }
    let parts: Vec<_> = resource.contents.iter().map(render).collect();
    console.print_content(&parts.join("\n"))?;
    if resource.contents.iter().all(is_empty) {
        console.note("note: the resource is empty");
    }
    for note in &resource.notes {
        console.note(&quote_message(
            &format!("note: {note}"),
            0,
            console.stderr_columns,
        ));
    }
    if let Some(file) = full_result_file {
        console.note(&format!(
            "note: full output saved to {}",
            text::path_on_one_line(&file)
        ));
    }
    Ok(())
}

fn is_empty(part: &RenderedPart) -> bool {
    part.blob_saved_to.is_none() && part.text.as_deref().unwrap_or_default().is_empty()
}

fn render(part: &RenderedPart) -> Cow<'_, str> {
    match &part.blob_saved_to {
        Some(path) => {
            let mime = part.mime_type.as_deref().unwrap_or("unknown type");
            Cow::Owned(format!(
                "[{mime}, saved to {}]",
                text::path_on_one_line(path)
            ))
        }
        None => Cow::Borrowed(part.text.as_deref().unwrap_or_default()),
    }
}
