//! What was seen of a target, as far as it takes to tell whether and how it changed.
//!
//! Invariant: every text in it is sanitised, and no longer than was asked for.

use sha2::{Digest, Sha256};

use crate::content::{Block, Output, sanitize};
use crate::mcp::{Json, ReadResourceResult, ResourceBody};

#[derive(Debug)]
pub(crate) struct Content {
    digest: [u8; 32],
    /// How many bytes of text there are, or of data in base64.
    pub(super) size: usize,
    /// The text, unless it is too long to be kept.
    pub(super) text: Option<Box<str>>,
}

impl PartialEq for Content {
    fn eq(&self, other: &Self) -> bool {
        self.digest == other.digest
    }
}

impl Content {
    pub(super) fn of_output(output: &Output, most: usize) -> Self {
        let mut seen = Seen::new(most);
        if output.is_error {
            seen.line("the tool reports an error:");
        }
        for block in &output.blocks {
            match block {
                Block::Text { text } => seen.line(text),
                Block::Image { data, mime_type } => seen.data("image", mime_type, data),
                Block::Audio { data, mime_type } => seen.data("audio", mime_type, data),
                Block::Described { description, raw } => {
                    seen.line(description);
                    seen.mix(raw.as_ref().map(Json::as_str).unwrap_or_default());
                }
            }
        }
        let structured = output.structured.as_ref();
        seen.mix(structured.map(Json::as_str).unwrap_or_default());
        seen.finish()
    }

    pub(super) fn of_resource(result: &ReadResourceResult, most: usize) -> Self {
        let mut seen = Seen::new(most);
        let is_alone = result.contents.len() == 1;
        for body in &result.contents {
            let ResourceBody { uri, mime_type, .. } = body;
            if !is_alone {
                seen.line(&format!("[{}]", sanitize(uri)));
            }
            let mime_type = mime_type.as_deref().unwrap_or("unknown type");
            match (&body.text, &body.blob) {
                (Some(text), _) => seen.line(&sanitize(text)),
                (None, Some(blob)) => seen.data("data", &sanitize(mime_type), blob),
                (None, None) => seen.line(""),
            }
        }
        seen.mix(&result.left_out.to_string());
        seen.finish()
    }
}

/// A content that is being looked at.
struct Seen {
    hash: Sha256,
    size: usize,
    text: Option<String>,
    most: usize,
}

impl Seen {
    fn new(most: usize) -> Self {
        Self {
            hash: Sha256::new(),
            size: 0,
            text: Some(String::new()),
            most,
        }
    }

    /// Takes note of something that is not shown.
    fn mix(&mut self, text: &str) {
        self.hash.update((text.len() as u64).to_le_bytes());
        self.hash.update(text);
    }

    /// Takes a text of one or more lines.
    fn line(&mut self, text: &str) {
        self.mix(text);
        self.size += text.len();
        self.show(text);
    }

    fn data(&mut self, kind: &str, mime_type: &str, data: &str) {
        self.mix(data);
        self.size += data.len();
        let bytes = data.trim_end_matches('=').len() * 3 / 4;
        self.show(&format!("[{kind}: {mime_type}, {bytes} bytes]"));
    }

    fn show(&mut self, text: &str) {
        let Some(shown) = &mut self.text else { return };
        if shown.len() + text.len() + 1 > self.most {
            self.text = None;
            return;
        }
        if !shown.is_empty() {
            shown.push('\n');
        }
        shown.push_str(text);
    }

    fn finish(self) -> Content {
        Content {
            digest: self.hash.finalize().into(),
            size: self.size,
            text: self.text.map(String::into_boxed_str),
        }
    }
}
