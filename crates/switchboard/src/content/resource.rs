//! Renders a resource for a model: sanitizes and truncates texts, saves binary data to files.
//!
//! Invariant: every text is sanitized. The texts of all parts together have at most
//! `Limits::result_text_bytes` bytes, plus one truncation marker. The name of a saved file contains
//! nothing that the server sent, and its extension comes from [`FileType`].

use std::path::PathBuf;

use serde::Serialize;
use switchboard_wire::mcp::{ReadResourceResult, ResourceBody};
use switchboard_wire::text::one_line;

use super::truncate::{LimitedText, truncate_texts};
use super::{
    FileType, MAX_FIELD_BYTES, MAX_URI_BYTES, ResultHandle, ResultStore, base64, sanitize_owned,
};
use crate::limits::Limits;

/// Maximum length of a URI in a note.
const MAX_NOTE_URI_BYTES: usize = 200;
/// Maximum number of binary parts of one resource that are saved to files. Further binary parts are
/// replaced by a description.
const MAX_FILES: usize = 100;

/// A resource whose texts are safe to show to a model. The serialized form has only the member
/// `contents`.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[non_exhaustive]
pub struct RenderedResource {
    /// The parts, in the order in which the server sent them.
    pub contents: Vec<RenderedPart>,
    /// Remarks of the host, for example about parts that were left out or wrong MIME types.
    #[serde(skip)]
    pub notes: Vec<String>,
    /// The handle of the full text of all parts. `None` if nothing was cut, or if the full text was
    /// not stored.
    #[serde(skip)]
    pub stored: Option<ResultHandle>,
}

/// One text or one piece of binary data of a [`RenderedResource`].
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct RenderedPart {
    /// The URI that the server sent, sanitized and cut to a maximum length.
    pub uri: String,
    /// The MIME type that the server declared. If the data contradicts that type, the detected one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mime_type: Option<String>,
    /// The sanitized text. For binary data that was not saved, a description with the reason.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
    /// The file that the binary data was saved to.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub blob_saved_to: Option<PathBuf>,
}

/// Renders a resource. If its texts together exceed `Limits::result_text_bytes`, they are cut, and
/// the full text goes to `store`. Binary data goes to files of `store`.
pub fn render_resource(
    result: ReadResourceResult,
    limits: &Limits,
    store: Option<&dyn ResultStore>,
) -> RenderedResource {
    let mut resource = RenderedResource::default();
    resource.notes.extend(other_uri_note(&result));
    let mut files = 0;
    for (index, body) in result.contents.into_iter().enumerate() {
        let (part, note) = render_part(body, &mut files, store);
        resource.contents.push(part);
        let number = index + 1;
        (resource.notes).extend(note.map(|note| format!("part {number}: {note}")));
    }
    if result.left_out > 0 {
        resource.notes.push(format!(
            "{} more parts were left out (limit `contentBlocks`)",
            result.left_out
        ));
    }
    resource.truncate_text(limits.result_text_bytes, store);
    resource
}

impl RenderedResource {
    /// Truncates the texts of all parts together to `max_bytes`.
    fn truncate_text(&mut self, max_bytes: usize, store: Option<&dyn ResultStore>) {
        let texts = self.contents.iter().filter_map(|part| part.text.as_deref());
        let texts = texts.map(|text| LimitedText {
            text,
            can_be_cut: true,
        });
        let texts: Vec<_> = texts.collect();
        let Some(mut truncation) = truncate_texts(&texts, max_bytes, store) else {
            return;
        };
        let texts = self.contents.iter_mut().map(|part| &mut part.text);
        let texts = texts.filter(|text| text.is_some()).enumerate();
        for (index, text) in texts.skip(truncation.index) {
            let is_cut = index == truncation.index;
            *text = is_cut.then(|| std::mem::take(&mut truncation.replacement));
        }
        self.notes.extend(truncation.note);
        self.stored = truncation.stored;
    }
}

/// A note if the server returned no part of the requested resource, only parts of other resources.
/// Parts without a URI are not checked.
fn other_uri_note(result: &ReadResourceResult) -> Option<String> {
    let requested = result.requested_uri.as_deref()?;
    let mut uris = result.contents.iter().map(|part| part.uri.as_str());
    let other = result.contents.first()?.uri.as_str();
    if uris.any(|uri| uri.is_empty() || is_part_of(uri, requested)) {
        return None;
    }
    Some(format!(
        "the server returned {} instead of {}",
        one_line(other, MAX_NOTE_URI_BYTES),
        one_line(requested, MAX_NOTE_URI_BYTES)
    ))
}

/// Whether `uri` is `resource` or names something below it.
fn is_part_of(uri: &str, resource: &str) -> bool {
    let resource = resource.trim_end_matches('/');
    uri.strip_prefix(resource)
        .is_some_and(|rest| rest.is_empty() || rest.starts_with(['/', '?', '#']))
}

/// Renders one part. Also returns a note if the data was not saved, or if the data contradicts the
/// declared MIME type. `files` is the number of files that were saved for this resource so far.
fn render_part(
    body: ResourceBody,
    files: &mut usize,
    store: Option<&dyn ResultStore>,
) -> (RenderedPart, Option<String>) {
    let declared = body.mime_type.as_deref();
    let mut part = RenderedPart {
        uri: one_line(&body.uri, MAX_URI_BYTES).into_owned(),
        mime_type: declared.map(|declared| one_line(declared, MAX_FIELD_BYTES).into_owned()),
        ..RenderedPart::default()
    };
    let Some(blob) = body.blob.filter(|_| body.text.is_none()) else {
        part.text = Some(sanitize_owned(body.text.unwrap_or_default()));
        return (part, None);
    };
    match save_blob(&blob, declared, files, store) {
        Ok(saved) => {
            if saved.mismatch.is_some() {
                part.mime_type = Some(saved.mime_type.to_owned());
            }
            part.blob_saved_to = Some(saved.path);
            (part, saved.mismatch)
        }
        Err(text) => {
            part.text = Some(format!("[{text}]"));
            (part, Some(text))
        }
    }
}

/// Binary data that was saved to a file.
pub(super) struct SavedBlob {
    pub(super) path: PathBuf,
    pub(super) size: usize,
    /// The MIME type of the file.
    pub(super) mime_type: &'static str,
    /// A note if the data contradicts the declared MIME type.
    pub(super) mismatch: Option<String>,
}

/// Decodes base64 and saves the bytes to a file. `files` is the number of files that were saved for
/// this result so far. If nothing was saved, the error describes the data and says why.
pub(super) fn save_blob(
    blob: &str,
    declared_type: Option<&str>,
    files: &mut usize,
    store: Option<&dyn ResultStore>,
) -> Result<SavedBlob, String> {
    let unsaved = |why: &str| {
        let size = base64::decoded_len(blob);
        format!("{size} bytes of binary data were not saved: {why}")
    };
    if *files == MAX_FILES {
        return Err(unsaved("the resource has too many parts"));
    }
    let Some(bytes) = base64::decode_base64(blob) else {
        return Err(unsaved("the data is not valid base64"));
    };
    let (file_type, mismatch) = FileType::detect(&bytes, declared_type);
    let Some(store) = store else {
        return Err(unsaved("no directory for files is configured"));
    };
    let path = store.store_file(&bytes, file_type);
    let path = path.map_err(|error| unsaved(&error.to_string()))?;
    *files += 1;
    Ok(SavedBlob {
        path,
        size: bytes.len(),
        mime_type: file_type.mime_type(),
        mismatch,
    })
}

#[cfg(test)]
mod tests {
    use super::super::{DirectoryResultStore, decode_base64};
    use super::*;

    const PIXEL: &str = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAQAAAC1HAwCAAAAC0lEQVR42mNk+A8AAQUBAScY42YAAAAASUVORK5CYII=";

    /// A part with neither text nor binary data.
    fn body(uri: &str, mime_type: Option<&str>) -> ResourceBody {
        let mut body = ResourceBody::text(uri, "");
        body.mime_type = mime_type.map(str::to_owned);
        body.text = None;
        body
    }

    fn text(text: &str) -> ResourceBody {
        ResourceBody::text("demo://text", text).mime_type("text/plain")
    }

    fn blob(data: &str, mime_type: &str) -> ResourceBody {
        let mut body = body("demo://blob", Some(mime_type));
        body.blob = Some(data.to_owned());
        body
    }

    #[test]
    fn answer_for_another_uri_gets_a_note() {
        let notes = |requested: &str, uris: &[&str]| {
            let mut result = read(
                uris.iter()
                    .map(|uri| ResourceBody::text(*uri, "x"))
                    .collect(),
            );
            result.requested_uri = Some(requested.to_owned());
            render_resource(result, &Limits::default(), None).notes
        };
        let none: [&str; 0] = [];
        for uris in [
            &["demo://a"][..],
            &["demo://a/b"],
            &["demo://other", "demo://a?x=1"],
            &[""],
            &[],
        ] {
            assert_eq!(notes("demo://a", uris), none, "{uris:?}");
        }
        assert_eq!(notes("demo://a/", &["demo://a"]), none);
        for uri in ["demo://b", "demo://ab", "file:///etc/passwd\u{1b}[2J"] {
            let [note] = &notes("demo://a", &[uri])[..] else {
                panic!("{uri}");
            };
            assert!(note.ends_with("instead of demo://a"), "{note}");
            assert!(!note.contains('\u{1b}'), "{note}");
        }
    }

    fn read(contents: Vec<ResourceBody>) -> ReadResourceResult {
        ReadResourceResult::new(contents)
    }

    fn store() -> (tempfile::TempDir, DirectoryResultStore) {
        let temporary = tempfile::tempdir().unwrap();
        let store = DirectoryResultStore::new(temporary.path().join("results"));
        (temporary, store)
    }

    #[test]
    fn json_shape_matches_other_agents() {
        let (_temporary, store) = store();
        let result = read(vec![text("a\u{1b}[31mb"), blob(PIXEL, "image/png")]);
        let rendered = render_resource(result, &Limits::default(), Some(&store));
        let saved = rendered.contents[1].blob_saved_to.clone().unwrap();
        assert_eq!(
            serde_json::to_value(&rendered).unwrap(),
            serde_json::json!({"contents": [
                {"uri": "demo://text", "mimeType": "text/plain", "text": "ab"},
                {"uri": "demo://blob", "mimeType": "image/png", "blobSavedTo": saved},
            ]})
        );
        assert_eq!(std::fs::read(saved).unwrap(), decode_base64(PIXEL).unwrap());
        assert_eq!(rendered.notes, [""; 0]);
    }

    #[test]
    fn empty_resource_has_empty_text() {
        let limits = Limits::default();
        let rendered = render_resource(read(Vec::new()), &limits, None);
        assert_eq!(rendered, RenderedResource::default());
        let rendered = render_resource(read(vec![text("")]), &limits, None);
        assert_eq!(rendered.contents[0].text.as_deref(), Some(""));
    }

    #[test]
    fn long_texts_are_cut_and_stored() {
        let (_temporary, store) = store();
        let mut limits = Limits::default();
        limits.result_text_bytes = 10;
        let parts = vec![
            text("12345678"),
            blob(PIXEL, "image/png"),
            text("abcdefgh"),
            text("third text"),
        ];
        let rendered = render_resource(read(parts), &limits, Some(&store));
        let handle = rendered.stored.unwrap();
        assert_eq!(
            store.read(&handle).unwrap(),
            "12345678\nabcdefgh\nthird text"
        );
        let texts: Vec<_> = (rendered.contents.iter())
            .map(|part| part.text.as_deref())
            .collect();
        let marker =
            format!("[truncated: 28 bytes total, first 10 shown; full text stored as {handle}]");
        let cut = format!("a\n{marker}");
        assert_eq!(texts, [Some("12345678"), None, Some(cut.as_str()), None]);
    }

    #[test]
    fn html_declared_as_image_is_saved_as_text() {
        let (_temporary, store) = store();
        let page = "PGh0bWw+PHNjcmlwdD5hbGVydCgxKTwvc2NyaXB0Pg==";
        let result = read(vec![blob(page, "image/png")]);
        let rendered = render_resource(result, &Limits::default(), Some(&store));
        let part = &rendered.contents[0];
        assert_eq!(part.mime_type.as_deref(), Some("text/html"));
        assert_eq!(
            part.blob_saved_to.as_ref().unwrap().extension().unwrap(),
            "txt"
        );
        assert_eq!(
            rendered.notes,
            ["part 1: declared as image/png, but the data looks like HTML or other markup"]
        );
    }

    #[test]
    fn unsaved_data_is_described() {
        let result = || read(vec![blob("not base64!", "image/png")]);
        let (_temporary, store) = store();
        let rendered = render_resource(result(), &Limits::default(), Some(&store));
        let why = "8 bytes of binary data were not saved: the data is not valid base64";
        assert_eq!(rendered.contents[0].text, Some(format!("[{why}]")));
        assert_eq!(rendered.notes, [format!("part 1: {why}")]);

        let result = read(vec![blob(PIXEL, "image/png")]);
        let rendered = render_resource(result, &Limits::default(), None);
        assert!(rendered.notes[0].ends_with("no directory for files is configured"));
    }

    #[test]
    fn files_per_resource_are_limited() {
        let (temporary, store) = store();
        let parts = (0..=MAX_FILES).map(|_| blob(PIXEL, "image/png")).collect();
        let rendered = render_resource(read(parts), &Limits::default(), Some(&store));
        assert!(rendered.contents[MAX_FILES].text.is_some());
        let files = std::fs::read_dir(temporary.path().join("results")).unwrap();
        assert_eq!(files.count(), MAX_FILES);
    }
}
