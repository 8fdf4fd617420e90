//! What a model is given of a resource: texts clean and bounded, bytes as files.
//!
//! What a server says of bytes is not believed ([`FileType`]), and no name of its choosing reaches
//! the disk. Invariant: every text went through [`sanitize`](super::sanitize()), all of them together
//! stay within the budget plus one marker, and bytes are handed over in a file or not at all.

use std::path::PathBuf;

use serde::Serialize;

use super::result_store::{ResultHandle, ResultStore};
use super::{Block, FIELD_BYTES, FileType, Output, URI_BYTES, base64, clean, field};
use crate::limits::Limits;
use crate::mcp::{ReadResourceResult, ResourceBody};

/// How many files are made of one resource; further parts are described.
const FILES: usize = 100;

/// A resource as a model is given it. As JSON it has `contents` and nothing else.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[non_exhaustive]
pub struct RenderedResource {
    /// The parts, in order.
    pub contents: Vec<RenderedPart>,
    /// What was found out about them that the server did not say.
    #[serde(skip)]
    pub notes: Vec<String>,
    /// Under which handle the whole text is kept, when it was cut.
    #[serde(skip)]
    pub stored: Option<ResultHandle>,
}

/// One part of a resource.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct RenderedPart {
    /// Where it came from, as the server says.
    pub uri: String,
    /// What it is: as the server says, unless its bytes say otherwise.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mime_type: Option<String>,
    /// Its text; of bytes that could not be saved, why.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
    /// The file that holds its bytes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub blob_saved_to: Option<PathBuf>,
}

/// Turns what was read into what a model is given. Text beyond the budget is cut and kept by `result_store`;
/// bytes are saved there.
pub fn render_resource(
    result: ReadResourceResult,
    limits: &Limits,
    result_store: Option<&dyn ResultStore>,
) -> RenderedResource {
    let mut presented = RenderedResource::default();
    let mut files = 0;
    for (place, body) in result.contents.into_iter().enumerate() {
        let (part, note) = present_part(body, &mut files, result_store);
        presented.contents.push(part);
        let number = place + 1;
        (presented.notes).extend(note.map(|note| format!("part {number}: {note}")));
    }
    if result.left_out > 0 {
        presented.notes.push(format!(
            "{} more parts were left out (limit `content_blocks`)",
            result.left_out
        ));
    }
    presented.cut_to(limits.result_text_bytes, result_store);
    presented
}

impl RenderedResource {
    /// Cuts the texts of all parts together.
    fn cut_to(&mut self, budget: usize, result_store: Option<&dyn ResultStore>) {
        let texts = self.contents.iter_mut().filter_map(|part| part.text.take());
        let had_text: Vec<_> = texts.map(|text| Block::Text { text }).collect();
        let mut output = Output::blocks(had_text);
        output.cut_to(budget, result_store);
        // What is cut off is the end: the texts that are left belong to the first parts that had one.
        let mut texts = output.blocks.into_iter();
        for part in &mut self.contents {
            if part.blob_saved_to.is_none()
                && let Some(Block::Text { text }) = texts.next()
            {
                part.text = Some(text);
            }
        }
        self.notes.extend(output.notes);
        self.stored = output.stored;
    }
}

fn present_part(
    body: ResourceBody,
    files: &mut usize,
    result_store: Option<&dyn ResultStore>,
) -> (RenderedPart, Option<String>) {
    let mut part = RenderedPart {
        uri: field(&body.uri, URI_BYTES).into_owned(),
        mime_type: (body.mime_type.as_deref()).map(|said| field(said, FIELD_BYTES).into_owned()),
        ..RenderedPart::default()
    };
    let Some(blob) = body.blob.filter(|_| body.text.is_none()) else {
        part.text = Some(clean(body.text.unwrap_or_default()));
        return (part, None);
    };
    let unsaved = |mut part: RenderedPart, why: &str| {
        let size = base64::decoded_len(&blob);
        let text = format!("{size} bytes of binary data were not saved: {why}");
        part.text = Some(format!("[{text}]"));
        (part, Some(text))
    };
    if *files == FILES {
        return unsaved(part, "the resource has too many parts");
    }
    let Some(bytes) = base64::decode_base64(&blob) else {
        return unsaved(part, "what the server sent is not base64");
    };
    let (file_type, lie) = FileType::of(&bytes, body.mime_type.as_deref());
    if lie.is_some() {
        part.mime_type = Some(file_type.mime_type().to_owned());
    }
    let Some(result_store) = result_store else {
        return unsaved(part, "there is no folder for files");
    };
    match result_store.store_file(&bytes, file_type) {
        Ok(path) => {
            *files += 1;
            part.blob_saved_to = Some(path);
            (part, lie)
        }
        Err(error) => unsaved(part, &error.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::super::DirectoryResultStore;
    use super::*;

    const PIXEL: &str = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAQAAAC1HAwCAAAAC0lEQVR42mNk+A8AAQUBAScY42YAAAAASUVORK5CYII=";

    fn body(uri: &str, mime_type: Option<&str>) -> ResourceBody {
        ResourceBody {
            uri: uri.to_owned(),
            mime_type: mime_type.map(str::to_owned),
            text: None,
            blob: None,
            meta: None,
        }
    }

    fn text(text: &str) -> ResourceBody {
        ResourceBody {
            text: Some(text.to_owned()),
            ..body("demo://text", Some("text/plain"))
        }
    }

    fn blob(data: &str, mime_type: &str) -> ResourceBody {
        ResourceBody {
            blob: Some(data.to_owned()),
            ..body("demo://blob", Some(mime_type))
        }
    }

    fn read(contents: Vec<ResourceBody>) -> ReadResourceResult {
        ReadResourceResult {
            contents,
            ..ReadResourceResult::default()
        }
    }

    fn folder() -> (tempfile::TempDir, DirectoryResultStore) {
        let temporary = tempfile::tempdir().unwrap();
        let result_store = DirectoryResultStore::new(temporary.path().join("spill"));
        (temporary, result_store)
    }

    #[test]
    fn the_shape_is_the_one_that_models_know() {
        let (_temporary, result_store) = folder();
        let result = read(vec![text("a\u{1b}[31mb"), blob(PIXEL, "image/png")]);
        let presented = render_resource(result, &Limits::default(), Some(&result_store));
        let saved = presented.contents[1].blob_saved_to.clone().unwrap();
        assert_eq!(
            serde_json::to_value(&presented).unwrap(),
            serde_json::json!({"contents": [
                {"uri": "demo://text", "mimeType": "text/plain", "text": "ab"},
                {"uri": "demo://blob", "mimeType": "image/png", "blobSavedTo": saved},
            ]})
        );
        assert_eq!(
            std::fs::read(saved).unwrap(),
            base64::decode_base64(PIXEL).unwrap()
        );
        assert_eq!(presented.notes, [""; 0]);
    }

    #[test]
    fn an_empty_resource_is_empty_and_not_missing() {
        let limits = Limits::default();
        let presented = render_resource(read(Vec::new()), &limits, None);
        assert_eq!(presented, RenderedResource::default());
        let presented = render_resource(read(vec![text("")]), &limits, None);
        assert_eq!(presented.contents[0].text.as_deref(), Some(""));
    }

    #[test]
    fn texts_together_keep_to_the_budget_and_the_whole_is_kept() {
        let (_temporary, result_store) = folder();
        let mut limits = Limits::default();
        limits.result_text_bytes = 10;
        let parts = vec![
            text("12345678"),
            blob(PIXEL, "image/png"),
            text("abcdefgh"),
            text("never seen"),
        ];
        let presented = render_resource(read(parts), &limits, Some(&result_store));
        let handle = presented.stored.unwrap();
        assert_eq!(
            result_store.read(&handle).unwrap(),
            "12345678\nabcdefgh\nnever seen"
        );
        let texts: Vec<_> = (presented.contents.iter())
            .map(|part| part.text.as_deref())
            .collect();
        let marker =
            format!("[cut: 28 bytes in all, the first 10 shown; the whole is kept as {handle}]");
        let cut = format!("a\n{marker}");
        assert_eq!(texts, [Some("12345678"), None, Some(cut.as_str()), None]);
    }

    #[test]
    fn r7_a_page_that_is_said_to_be_a_picture_is_no_picture() {
        let (_temporary, result_store) = folder();
        let page = "PGh0bWw+PHNjcmlwdD5hbGVydCgxKTwvc2NyaXB0Pg==";
        let result = read(vec![blob(page, "image/png")]);
        let presented = render_resource(result, &Limits::default(), Some(&result_store));
        let part = &presented.contents[0];
        assert_eq!(part.mime_type.as_deref(), Some("text/html"));
        assert_eq!(
            part.blob_saved_to.as_ref().unwrap().extension().unwrap(),
            "txt"
        );
        assert_eq!(
            presented.notes,
            ["part 1: said to be image/png, but it begins like HTML or other markup"]
        );
    }

    #[test]
    fn what_cannot_be_saved_is_said_in_its_place() {
        let result = || read(vec![blob("not base64!", "image/png")]);
        let (_temporary, result_store) = folder();
        let presented = render_resource(result(), &Limits::default(), Some(&result_store));
        let why = "8 bytes of binary data were not saved: what the server sent is not base64";
        assert_eq!(presented.contents[0].text, Some(format!("[{why}]")));
        assert_eq!(presented.notes, [format!("part 1: {why}")]);

        let result = read(vec![blob(PIXEL, "image/png")]);
        let presented = render_resource(result, &Limits::default(), None);
        assert!(presented.notes[0].ends_with("there is no folder for files"));
    }

    #[test]
    fn the_files_of_one_resource_are_counted() {
        let (temporary, result_store) = folder();
        let parts = (0..=FILES).map(|_| blob(PIXEL, "image/png")).collect();
        let presented = render_resource(read(parts), &Limits::default(), Some(&result_store));
        assert!(presented.contents[FILES].text.is_some());
        let files = std::fs::read_dir(temporary.path().join("spill")).unwrap();
        assert_eq!(files.count(), FILES);
    }
}
