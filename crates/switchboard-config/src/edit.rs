//! Editing a JSON file in place, as its owner would by hand.
//!
//! One member is set, removed or added to a list; every other byte stays: comments, order, indentation,
//! line ends, trailing commas and the mark at the very beginning. (The syntax tree of `jsonc_parser` was
//! no help: it tidies up blank lines and one-line objects around what it changes.) Invariants: a file that
//! cannot be understood is never written to, and neither a reader nor another writer ever loses anything:
//! writing is atomic, writers that know this lock take turns, and what others changed meanwhile is noticed.

mod document;
mod format;
mod splice;
mod store;

use std::io;
use std::path::{Path, PathBuf};

use serde_json::Value as Json;
use thiserror::Error;

use crate::diagnostic::{Diagnostic, Origin};
use crate::raw::ReadError;
use crate::text::replace_control_chars;
use document::{Document, Missing};
use store::Stored;
pub(crate) use store::{follow_links, try_lock};

/// Why a file was not edited. It is as it was, whatever the reason.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum EditError {
    /// What it holds cannot be understood, or is not what the edit needs to find there.
    #[error("{} was not changed: {}", at(.0), .0.message)]
    Unusable(Box<Diagnostic>),
    /// It cannot be read.
    #[error("cannot edit {}: {reason}", shown(.file))]
    Unreadable {
        /// The file.
        file: PathBuf,
        /// What stands in the way.
        reason: String,
    },
    /// Somebody else is editing it, or a file beside it, and does not come to an end.
    #[error("cannot edit {}: another program is editing it", shown(.file))]
    Locked {
        /// The file.
        file: PathBuf,
    },
    /// Another program wrote to it while it was edited.
    #[error("{} was not changed: another program changed it at the same time", shown(.file))]
    ChangedMeanwhile {
        /// The file.
        file: PathBuf,
    },
    /// It is a link to somewhere else than it may lead to.
    #[error("{} was not changed: it is a link that leads out of the project, to {}", shown(.file), shown(.target))]
    LeadsOut {
        /// The file.
        file: PathBuf,
        /// Where the link leads.
        target: PathBuf,
    },
    /// It cannot be written.
    #[error("cannot write {}: {error}", shown(.file))]
    Unwritable {
        /// The file.
        file: PathBuf,
        /// What the system says.
        #[source]
        error: io::Error,
    },
}

impl EditError {
    /// What to do about it.
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::Unusable(diagnostic) => diagnostic.hint.clone(),
            Self::Unreadable { .. } => None,
            Self::LeadsOut { .. } => {
                Some("put a file in its place, or choose another scope".to_owned())
            }
            Self::Locked { .. } => Some("wait until it has ended, and try again".to_owned()),
            Self::ChangedMeanwhile { .. } => Some("run the same command again".to_owned()),
            Self::Unwritable { file, error } => match error.kind() {
                io::ErrorKind::PermissionDenied => {
                    Some(format!("make it writable: chmod u+w {}", shown(file)))
                }
                _ => None,
            },
        }
    }

    /// What is wrong with the content of the file, where that is the reason.
    pub fn diagnostic(&self) -> Option<&Diagnostic> {
        match self {
            Self::Unusable(diagnostic) => Some(diagnostic),
            _ => None,
        }
    }
}

/// A folder may be called anything, and what it is called is not to act on a terminal.
fn shown(path: &Path) -> String {
    replace_control_chars(&path.to_string_lossy())
}

fn at(diagnostic: &Diagnostic) -> String {
    diagnostic
        .origin
        .as_ref()
        .map_or_else(String::new, Origin::to_string)
}

/// A file while it is edited. Until it is dropped nobody else edits it, or a file beside it, in this way.
///
/// ```
/// use serde_json::json;
/// use switchboard_config::EditedFile;
///
/// # let folder = tempfile::tempdir()?;
/// # let path = folder.path().join("mcp.json");
/// std::fs::write(&path, "{\n  // mine\n  \"mcpServers\": {}\n}\n")?;
/// let mut file = EditedFile::open(&path)?;
/// file.set(&["mcpServers", "time"], &json!({ "command": "time-server" }))?;
/// file.save()?;
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
pub struct EditedFile {
    stored: Stored,
    document: Document,
}

impl EditedFile {
    /// Opens the file at `path`; one that does not exist counts as an empty object. Its folder is made.
    /// Waits a few seconds while somebody else edits it.
    pub fn open(path: &Path) -> Result<Self, EditError> {
        Self::read(Stored::open(path, None)?)
    }

    /// As [`open`](Self::open), and fails if links lead from `path` to a file outside of the folder
    /// `root`: whoever wrote a project does not choose which other file is changed.
    pub fn open_within(path: &Path, root: &Path) -> Result<Self, EditError> {
        Self::read(Stored::open(path, Some(root))?)
    }

    fn read(stored: Stored) -> Result<Self, EditError> {
        let document = Document::parse(stored.file(), stored.bytes())?;
        Ok(Self { stored, document })
    }

    /// Lets a file that does not exist yet be read by others, as far as the user lets files be. Otherwise
    /// it is for the user alone, because it may come to hold secrets.
    pub fn readable_by_others(mut self) -> Self {
        self.stored.readable_by_others();
        self
    }

    /// The file that is written to: the one at the end of all links.
    pub fn path(&self) -> &Path {
        self.stored.file()
    }

    /// The text as it would be written.
    pub fn text(&self) -> &str {
        self.document.text()
    }

    /// What stands at `path`.
    pub fn value(&self, path: &[&str]) -> Option<Json> {
        Some(self.document.find(path).ok()?.value())
    }

    /// Where the member at `path` stands in the text as it would be written.
    pub fn origin(&self, path: &[&str]) -> Option<Origin> {
        self.document.origin_of(path)
    }

    /// Makes `value` what stands at `path`. Objects on the way there are made as needed.
    pub fn set(&mut self, path: &[&str], value: &Json) -> Result<(), EditError> {
        let changes = match self.document.find(path) {
            Ok(found) => found.replace(value),
            Err(Missing::Key { object, rest }) => object.insert(rest, value),
            Err(Missing::Wrong(diagnostic)) => return Err(EditError::Unusable(diagnostic)),
        };
        self.apply(changes)
    }

    /// Takes out the member at `path`. False: there is none.
    pub fn remove(&mut self, path: &[&str]) -> Result<bool, EditError> {
        let changes = match self.document.find(path) {
            Ok(found) => found.remove(),
            Err(Missing::Key { .. }) => return Ok(false),
            Err(Missing::Wrong(diagnostic)) => return Err(EditError::Unusable(diagnostic)),
        };
        self.apply(changes)?;
        Ok(true)
    }

    /// Adds `value` to the end of the list at `path`, which is made as needed.
    pub fn append(&mut self, path: &[&str], value: &Json) -> Result<(), EditError> {
        let changes = match self.document.find(path) {
            Ok(found) => found.append(value).map_err(EditError::Unusable)?,
            Err(Missing::Key { object, rest }) => {
                object.insert(rest, &Json::Array(vec![value.clone()]))
            }
            Err(Missing::Wrong(diagnostic)) => return Err(EditError::Unusable(diagnostic)),
        };
        self.apply(changes)
    }

    /// Writes the file, if anything was changed: whoever reads it meanwhile sees all of the old text or
    /// all of the new. Fails if another program wrote to it since it was opened.
    pub fn save(self) -> Result<(), EditError> {
        self.stored.replace(&self.document.to_bytes())
    }

    fn apply(&mut self, changes: Vec<splice::Change>) -> Result<(), EditError> {
        self.document = self.document.with(changes)?;
        Ok(())
    }
}

impl EditError {
    fn unreadable(file: &Path, error: &ReadError) -> Self {
        Self::Unreadable {
            file: file.to_path_buf(),
            reason: error.to_string(),
        }
    }

    fn unwritable(file: &Path, error: io::Error) -> Self {
        Self::Unwritable {
            file: file.to_path_buf(),
            error,
        }
    }
}
