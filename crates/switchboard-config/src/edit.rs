//! Edits one member of a JSONC file in place.
//!
//! [`JsonEditor`] sets or removes one member, or appends to a list. The rest of the file keeps its
//! comments, order, indentation, line ends, trailing commas and byte order mark. (The syntax tree
//! of `jsonc_parser` is not used for edits, because it reformats blank lines and one-line objects
//! around the changed member.)
//!
//! Invariants: a file with syntax errors is never written. Writes are atomic, and editors that take
//! the lock are serialized. If another program changed the file in the meantime, saving fails.

mod document;
mod format;
mod splice;

use std::path::Path;

use serde_json::{Map, Value as Json};
use thiserror::Error;

use crate::diagnostic::{Diagnostic, SourcePos};
use crate::locked_file::{LockedFile, LockedFileError};
use document::{Document, LookupError};

/// Why an edit failed.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum EditError {
    /// The content of the file cannot be edited: it is not UTF-8, has a syntax error or a duplicate
    /// key, or a value on the path has the wrong type. The file is unchanged.
    #[error("{} not changed: {}", position(.0), .0.message)]
    NotEditable(Box<Diagnostic>),
    /// The file could not be locked, read or written.
    #[error(transparent)]
    File(#[from] LockedFileError),
}

impl EditError {
    /// A command or action to try.
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::NotEditable(diagnostic) => diagnostic.hint.clone(),
            Self::File(error) => error.hint(),
        }
    }

    /// The problem in the content of the file, if that is the reason.
    pub fn diagnostic(&self) -> Option<&Diagnostic> {
        match self {
            Self::NotEditable(diagnostic) => Some(diagnostic),
            Self::File(_) => None,
        }
    }
}

fn position(diagnostic: &Diagnostic) -> String {
    diagnostic
        .origin
        .as_ref()
        .map_or_else(String::new, SourcePos::to_string)
}

/// A JSONC file that is open for editing. Its directory stays locked until the editor is dropped,
/// so other editors of files in that directory wait.
///
/// ```
/// use serde_json::json;
/// use switchboard_config::JsonEditor;
///
/// # let folder = tempfile::tempdir()?;
/// # let path = folder.path().join("mcp.json");
/// std::fs::write(&path, "{\n  // mine\n  \"mcpServers\": {}\n}\n")?;
/// let mut editor = JsonEditor::open(&path)?;
/// editor.set(&["mcpServers", "time"], &json!({ "command": "time-server" }))?;
/// editor.save()?;
/// assert_eq!(
///     std::fs::read_to_string(&path)?,
///     r#"{
///   // mine
///   "mcpServers": {
///     "time": {
///       "command": "time-server"
///     }
///   }
/// }
/// "#
/// );
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct JsonEditor {
    file: LockedFile,
    document: Document,
}

impl JsonEditor {
    /// Opens the file at `path`. A missing file is treated as an empty object, and its directory is
    /// created.
    ///
    /// Blocks for up to five seconds while another editor holds the lock.
    pub fn open(path: &Path) -> Result<Self, EditError> {
        Self::parse(LockedFile::open(path, None)?)
    }

    /// Like [`open`](Self::open), but fails if `path` is a symbolic link to a file outside of
    /// `root`. Otherwise a project could choose which of the user's files is changed.
    pub fn open_in_project(path: &Path, root: &Path) -> Result<Self, EditError> {
        Self::parse(LockedFile::open(path, Some(root))?)
    }

    fn parse(file: LockedFile) -> Result<Self, EditError> {
        let document = Document::parse(file.path(), file.bytes())?;
        Ok(Self { file, document })
    }

    /// Makes [`save`](Self::save) create a new file with the user's default permissions. Without
    /// this call, a new file gets mode 0600, because it may contain secrets. Existing files keep
    /// their permissions.
    pub fn readable_by_others(mut self) -> Self {
        self.file.set_readable_by_others();
        self
    }

    /// The file to write, after following symbolic links.
    pub fn path(&self) -> &Path {
        self.file.path()
    }

    /// The text that [`save`](Self::save) writes.
    pub fn text(&self) -> &str {
        self.document.text()
    }

    /// The value at `path`.
    pub fn value(&self, path: &[&str]) -> Option<Json> {
        Some(self.document.find(path).ok()?.value())
    }

    /// The position of the key at `path` in the edited text.
    pub fn origin(&self, path: &[&str]) -> Option<SourcePos> {
        self.document.origin_of(path)
    }

    /// Sets the value at `path`. Creates missing objects on the path.
    pub fn set(&mut self, path: &[&str], value: &Json) -> Result<(), EditError> {
        let edits = match self.document.find(path) {
            Ok(found) => found.replace(value),
            Err(LookupError::Key { object, rest }) => object.insert(rest, value),
            Err(LookupError::NotEditable(diagnostic)) => {
                return Err(EditError::NotEditable(diagnostic));
            }
        };
        self.apply(edits)
    }

    /// Adds members to the object at `path`, in one edit. Keeps the members that the object has
    /// already, and returns the keys of the added ones. Creates missing objects on the path.
    pub fn insert_missing(
        &mut self,
        path: &[&str],
        members: &Map<String, Json>,
    ) -> Result<Vec<String>, EditError> {
        let (edits, keys) = match self.document.find(path) {
            Ok(found) => found
                .insert_missing(members)
                .map_err(EditError::NotEditable)?,
            Err(LookupError::Key { object, rest }) => {
                let edits = object.insert(rest, &Json::Object(members.clone()));
                (edits, members.keys().map(String::as_str).collect())
            }
            Err(LookupError::NotEditable(diagnostic)) => {
                return Err(EditError::NotEditable(diagnostic));
            }
        };
        let keys = keys.into_iter().map(str::to_owned).collect();
        self.apply(edits)?;
        Ok(keys)
    }

    /// Removes the member at `path`. Returns false if there is none.
    pub fn remove(&mut self, path: &[&str]) -> Result<bool, EditError> {
        let edits = match self.document.find(path) {
            Ok(found) => found.remove(),
            Err(LookupError::Key { .. }) => return Ok(false),
            Err(LookupError::NotEditable(diagnostic)) => {
                return Err(EditError::NotEditable(diagnostic));
            }
        };
        self.apply(edits)?;
        Ok(true)
    }

    /// Appends `value` to the list at `path`. Creates the list if it is missing.
    pub fn append(&mut self, path: &[&str], value: &Json) -> Result<(), EditError> {
        let edits = match self.document.find(path) {
            Ok(found) => found.append(value).map_err(EditError::NotEditable)?,
            Err(LookupError::Key { object, rest }) => {
                object.insert(rest, &Json::Array(vec![value.clone()]))
            }
            Err(LookupError::NotEditable(diagnostic)) => {
                return Err(EditError::NotEditable(diagnostic));
            }
        };
        self.apply(edits)
    }

    /// Removes the item at `index` of the list at `path`. Returns false if there is none.
    pub fn remove_item(&mut self, path: &[&str], index: usize) -> Result<bool, EditError> {
        let edits = match self.document.find(path) {
            Ok(found) => found.remove_item(index),
            Err(LookupError::Key { .. }) => return Ok(false),
            Err(LookupError::NotEditable(diagnostic)) => {
                return Err(EditError::NotEditable(diagnostic));
            }
        };
        let is_found = !edits.is_empty();
        self.apply(edits)?;
        Ok(is_found)
    }

    /// Writes the file if it was changed. Concurrent readers see either the old or the new text.
    ///
    /// Fails if another program changed the file since it was opened.
    pub fn save(self) -> Result<(), EditError> {
        Ok(self.file.replace(&self.document.to_bytes())?)
    }

    fn apply(&mut self, edits: Vec<splice::TextEdit>) -> Result<(), EditError> {
        self.document = self.document.apply(edits)?;
        Ok(())
    }
}
