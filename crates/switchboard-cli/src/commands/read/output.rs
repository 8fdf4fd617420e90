//! Writes a resource to stdout or to a file.

use std::borrow::Cow;
use std::fs::OpenOptions;
use std::io::{self, IsTerminal as _, Write as _};
use std::path::{Path, PathBuf};

use serde::Serialize;
use switchboard::content::{FileType, PresentedPart, PresentedResource, decode_blob, sanitize};
use switchboard::mcp::{ReadResourceResult, ResourceBody};

use crate::context::Context;
use crate::failure::{Failure, Kind};
use crate::render::{json, text};

/// Whether what is printed goes to a program, which wants it as it is.
pub(super) fn is_for_pipe(context: &Context) -> bool {
    !context.console.is_json() && !io::stdout().is_terminal()
}

pub(super) fn one_part(result: &ReadResourceResult) -> Option<&ResourceBody> {
    match result.contents.as_slice() {
        [part] if result.left_out == 0 => Some(part),
        _ => None,
    }
}

pub(super) fn not_one(result: &ReadResourceResult) -> Failure {
    let parts = result.contents.len() + result.left_out;
    let message = format!("the resource has {parts} parts, and a file holds one");
    Failure::new(Kind::UnusableAnswer, message)
        .hint("without -o they are printed, and bytes are saved")
}

pub(super) fn bytes_of(part: &ResourceBody) -> Result<Cow<'_, [u8]>, Failure> {
    match (&part.text, &part.blob) {
        (Some(text), _) => Ok(Cow::Borrowed(text.as_bytes())),
        (None, Some(blob)) => decode_blob(blob).map(Cow::Owned).ok_or_else(|| {
            let message = "what the server sent as binary data is not base64";
            Failure::new(Kind::UnusableAnswer, message).hint("tell whoever makes the server")
        }),
        (None, None) => Ok(Cow::Borrowed(&[])),
    }
}

pub(super) fn print_bytes(bytes: &[u8]) -> Result<(), Failure> {
    let mut stdout = io::stdout().lock();
    let written = stdout.write_all(bytes).and_then(|()| stdout.flush());
    written.map_err(|error| match error.kind() {
        io::ErrorKind::BrokenPipe => Failure::new(Kind::OutputClosed, "nobody reads the result"),
        _ => Failure::internal(format!("cannot write the result: {error}")),
    })
}

pub(super) fn check_free(path: &Path, is_forced: bool) -> Result<(), Failure> {
    if is_forced || path.symlink_metadata().is_err() {
        return Ok(());
    }
    Err(exists(path))
}

fn exists(path: &Path) -> Failure {
    let message = format!("{} exists already", text::path(path));
    Failure::usage(message).hint("name another file, or pass --force to replace it")
}

pub(super) fn write_file(path: &Path, bytes: &[u8], is_forced: bool) -> Result<(), Failure> {
    let mut options = OpenOptions::new();
    options.write(true);
    if is_forced {
        options.create(true).truncate(true);
    } else {
        options.create_new(true);
    }
    let written = options
        .open(path)
        .and_then(|mut file| file.write_all(bytes));
    written.map_err(|error| match error.kind() {
        io::ErrorKind::AlreadyExists => exists(path),
        _ => Failure::usage(format!("cannot write {}: {error}", text::path(path)))
            .hint("name another file"),
    })
}

/// What a part is made of, and what was wrong with what its server says of that.
pub(super) fn judged(part: &ResourceBody, bytes: &[u8]) -> (Option<String>, Option<String>) {
    if part.blob.is_none() {
        return (part.mime_type.clone(), None);
    }
    match FileType::of(bytes, part.mime_type.as_deref()) {
        (file_type, Some(lie)) => {
            let lie = sanitize(&lie).into_owned();
            (Some(file_type.mime_type().to_owned()), Some(lie))
        }
        (_, None) => (part.mime_type.clone(), None),
    }
}

pub(super) fn tell_written(
    part: &ResourceBody,
    mime_type: Option<String>,
    path: PathBuf,
    lie: Option<&String>,
    context: &Context,
) -> Result<(), Failure> {
    let console = &context.console;
    if !console.is_json() {
        console.note(&format!("written to {}", text::path(&path)));
        return Ok(());
    }
    let mut told = PresentedPart::default();
    told.uri.clone_from(&part.uri);
    told.mime_type = mime_type;
    told.blob_saved_to = Some(path);
    console.print(&json::pretty(&Written {
        contents: &[told],
        notes: lie.map(std::slice::from_ref).unwrap_or_default(),
        whole: None,
    }))
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Written<'a> {
    contents: &'a [PresentedPart],
    notes: &'a [String],
    #[serde(skip_serializing_if = "Option::is_none")]
    whole: Option<PathBuf>,
}

pub(super) fn show(resource: &PresentedResource, context: &Context) -> Result<(), Failure> {
    let console = &context.console;
    let whole = (resource.whole.as_ref()).map(|handle| context.stored_result_path(handle));
    if console.is_json() {
        return console.print(&json::pretty(&Written {
            contents: &resource.contents,
            notes: &resource.notes,
            whole,
        }));
    }
    let parts: Vec<_> = resource.contents.iter().map(render).collect();
    console.print(&parts.join("\n"))?;
    if resource.contents.iter().all(is_empty) {
        console.note("note: the resource is empty");
    }
    for note in &resource.notes {
        console.note(&format!("note: {}", sanitize(note)));
    }
    if let Some(whole) = whole {
        console.note(&format!("note: the whole is in {}", text::path(&whole)));
    }
    Ok(())
}

fn is_empty(part: &PresentedPart) -> bool {
    part.blob_saved_to.is_none() && part.text.as_deref().unwrap_or_default().is_empty()
}

fn render(part: &PresentedPart) -> Cow<'_, str> {
    match &part.blob_saved_to {
        Some(path) => {
            let mime = part.mime_type.as_deref().unwrap_or("of unknown type");
            Cow::Owned(format!("[{mime}, saved to {}]", text::path(path)))
        }
        None => Cow::Borrowed(part.text.as_deref().unwrap_or_default()),
    }
}
