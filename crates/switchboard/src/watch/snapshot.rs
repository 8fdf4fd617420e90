//! A snapshot of a watched target: a hash that detects changes, and a text for the diff.
//!
//! Invariant: the text is sanitized and at most `max_text_bytes` long. The callers pass
//! `Limits::watch_text_bytes`.

use sha2::{Digest, Sha256};

use switchboard_wire::mcp::{Json, ReadResourceResult, ResourceBody};

use crate::content::{Block, Output, base64, sanitize};

/// The content of a target at one time. Two snapshots are equal if their hashes are equal.
#[derive(Debug)]
pub(super) struct Snapshot {
    hash: [u8; 32],
    /// The total size of all texts and base64 data, in bytes.
    pub(super) size: usize,
    /// The text of the target, kept for the next diff. `None` if it is longer than
    /// `max_text_bytes`.
    pub(super) text: Option<Box<str>>,
}

impl PartialEq for Snapshot {
    fn eq(&self, other: &Self) -> bool {
        self.hash == other.hash
    }
}

impl Snapshot {
    pub(super) fn of_output(output: &Output, max_text_bytes: usize) -> Self {
        let mut snapshot = SnapshotBuilder::new(max_text_bytes);
        if output.is_error {
            snapshot.add_text("the tool reports an error:");
        }
        for block in &output.blocks {
            match block {
                Block::Text { text, .. } => snapshot.add_text(text),
                Block::Image {
                    data, mime_type, ..
                } => snapshot.add_data("image", mime_type, data),
                Block::Audio {
                    data, mime_type, ..
                } => snapshot.add_data("audio", mime_type, data),
                Block::ResourceLink { description, .. } => snapshot.add_text(description),
                Block::Described {
                    description, raw, ..
                } => {
                    snapshot.add_text(description);
                    snapshot.hash(raw.as_ref().map(Json::as_str).unwrap_or_default());
                }
            }
        }
        let structured = output.structured.as_ref();
        snapshot.hash(structured.map(Json::as_str).unwrap_or_default());
        snapshot.finish()
    }

    pub(super) fn of_resource(result: &ReadResourceResult, max_text_bytes: usize) -> Self {
        let mut snapshot = SnapshotBuilder::new(max_text_bytes);
        let is_single = result.contents.len() == 1;
        for body in &result.contents {
            let ResourceBody { uri, mime_type, .. } = body;
            if !is_single {
                snapshot.add_text(&format!("[{}]", sanitize(uri)));
            }
            let mime_type = mime_type.as_deref().unwrap_or("unknown type");
            match (&body.text, &body.blob) {
                (Some(text), _) => snapshot.add_text(&sanitize(text)),
                (None, Some(blob)) => snapshot.add_data("data", &sanitize(mime_type), blob),
                (None, None) => snapshot.add_text(""),
            }
        }
        snapshot.hash(&result.left_out.to_string());
        snapshot.finish()
    }
}

struct SnapshotBuilder {
    hash: Sha256,
    size: usize,
    text: Option<String>,
    max_text_bytes: usize,
}

impl SnapshotBuilder {
    fn new(max_text_bytes: usize) -> Self {
        Self {
            hash: Sha256::new(),
            size: 0,
            text: Some(String::new()),
            max_text_bytes,
        }
    }

    /// Adds a text to the hash only.
    fn hash(&mut self, text: &str) {
        self.hash.update((text.len() as u64).to_le_bytes());
        self.hash.update(text);
    }

    /// Adds one or more lines to the hash and to the text.
    fn add_text(&mut self, text: &str) {
        self.hash(text);
        self.size += text.len();
        self.append(text);
    }

    /// Adds base64 data to the hash, and its type and size to the text.
    fn add_data(&mut self, kind: &str, mime_type: &str, data: &str) {
        self.hash(data);
        self.size += data.len();
        let bytes = base64::decoded_len(data);
        self.append(&format!("[{kind}: {mime_type}, {bytes} bytes]"));
    }

    /// Appends to the text. Drops the whole text if it would exceed `max_text_bytes`.
    fn append(&mut self, text: &str) {
        let Some(shown) = &mut self.text else { return };
        if shown.len() + text.len() + 1 > self.max_text_bytes {
            self.text = None;
            return;
        }
        if !shown.is_empty() {
            shown.push('\n');
        }
        shown.push_str(text);
    }

    fn finish(self) -> Snapshot {
        Snapshot {
            hash: self.hash.finalize().into(),
            size: self.size,
            text: self.text.map(String::into_boxed_str),
        }
    }
}
