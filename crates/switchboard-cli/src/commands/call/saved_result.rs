//! Saves the result of a call to the file that `-o` names.
//!
//! The image, the audio or the embedded binary resource of the result is saved. A result without
//! binary data is saved as text.

use std::fs;
use std::path::PathBuf;

use serde_json::Value;
use switchboard::Output;
use switchboard::content::{Block, decode_base64};

use crate::commands::output_file::OutputFile;
use crate::failure::{Failure, Kind};
use crate::render::text::path_on_one_line;

/// The binary data of a block.
enum BinaryData {
    Base64(String),
    /// A file of the result store.
    Stored(PathBuf),
}

/// Saves the result and returns the rest, which is to be printed.
pub(super) fn save(output: &Output, file: &OutputFile) -> Result<Output, Failure> {
    let binary: Vec<_> = output.blocks.iter().filter_map(BinaryData::of).collect();
    let bytes = match binary.as_slice() {
        [] => output.to_text().into_bytes(),
        [data] => data.bytes()?,
        several => {
            let count = several.len();
            let message = format!("the result has {count} binary parts; -o can save only one");
            return Err(Failure::new(Kind::UnusableAnswer, message));
        }
    };
    file.write(&bytes)?;
    let mut rest = output.clone();
    if binary.is_empty() {
        rest.blocks.clear();
    } else {
        rest.blocks.retain(|block| BinaryData::of(block).is_none());
    }
    Ok(rest)
}

impl BinaryData {
    fn of(block: &Block) -> Option<Self> {
        match block {
            Block::Image { data, .. } | Block::Audio { data, .. } => {
                Some(Self::Base64(data.clone()))
            }
            Block::Described {
                blob_saved_to: Some(path),
                ..
            } => Some(Self::Stored(path.clone())),
            Block::Described { raw, .. } => {
                let raw = raw.as_ref()?.to_value().ok()?;
                let data = raw.pointer("/resource/blob").and_then(Value::as_str)?;
                Some(Self::Base64(data.to_owned()))
            }
            _ => None,
        }
    }

    fn bytes(&self) -> Result<Vec<u8>, Failure> {
        match self {
            Self::Base64(data) => decode_base64(data).ok_or_else(|| {
                Failure::new(Kind::UnusableAnswer, "the server sent invalid base64")
            }),
            Self::Stored(path) => fs::read(path).map_err(|error| {
                Failure::internal(format!("cannot read {}: {error}", path_on_one_line(path)))
            }),
        }
    }
}
