//! Reads and writes the approvals file, `trust.json`.
//!
//! The file lies outside of every project and is writable by its owner only. Invariants: writes are
//! atomic and serialized by a lock. An invalid file approves nothing and is never overwritten.

use std::collections::HashSet;
use std::fs::{self, File, Metadata, OpenOptions};
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use serde::{Deserialize, Serialize};
use thiserror::Error;

use super::ServerEntry;
use super::approvals::{ApprovalRecord, Approvals, Verdict};
use super::review::ReviewFields;
use crate::diagnostic::{Diagnostic, Severity, SourcePos};
use crate::locked_file::{self, TempFile, create_private_dir, follow_links, with_mode};
use crate::server_name::ServerName;
use crate::text::quote_for_shell;

/// Version of the file format.
const VERSION: u32 = 1;
/// Maximum size of the file.
const MAX_BYTES: u64 = 8 * 1024 * 1024;
/// Maximum size of the review fields in one record. Larger ones are dropped: they only serve to
/// show what changed.
const MAX_REVIEW_BYTES: usize = 32 * 1024;

/// The approvals file of a user.
#[derive(Clone, Debug)]
pub struct ApprovalsFile {
    path: PathBuf,
}

/// Why approvals could not be read or recorded.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum ApprovalsError {
    /// The file exists and cannot be read.
    #[error("cannot read approvals: {0}")]
    Unreadable(#[source] io::Error),
    /// The file exists and its content is invalid.
    #[error("invalid approvals file: {0}")]
    Invalid(String),
    /// Other users can write to the file, or own it.
    #[error("the approvals file is writable by other users; ignoring it")]
    WritableByOthers,
    /// The file cannot be written.
    #[error("cannot record the decision: {0}")]
    Unwritable(#[source] io::Error),
    /// Another process kept the lock for longer than the timeout.
    #[error("cannot record the decision: another process is writing to the approvals file")]
    Locked,
    /// The file would exceed its maximum size.
    #[error("the approvals file is full")]
    Full,
    /// The program of the entry has no verifiable content.
    #[error("server {0} cannot be approved permanently: its program cannot be verified")]
    Unverifiable(ServerName),
    /// The entry is invalid, or is not from a project and needs no approval.
    #[error("server {0} is not a valid project entry")]
    NotAProjectEntry(ServerName),
}

impl ApprovalsError {
    /// A command or action to try.
    pub fn hint(&self, file: &ApprovalsFile) -> String {
        let path = file.path.display();
        match self {
            Self::Unreadable(_) | Self::Unwritable(_) => {
                format!("check the permissions of {path}")
            }
            Self::Locked => {
                format!("try again; if it persists, check which process holds {path}.lock")
            }
            Self::Invalid(_) => format!("rename {path} and approve again"),
            Self::WritableByOthers => {
                let path = quote_for_shell(&file.path.to_string_lossy());
                format!("review it, then run: chmod 600 {path}")
            }
            Self::Full => "to remove old decisions: switchboard trust --revoke NAME".to_owned(),
            Self::Unverifiable(_) => "to approve it for one run: --trust-project".to_owned(),
            Self::NotAProjectEntry(_) => "to see its status: switchboard list".to_owned(),
        }
    }

    /// The error as a warning, to be shown with the diagnostics of a load.
    pub fn diagnostic(&self, file: &ApprovalsFile) -> Diagnostic {
        Diagnostic {
            severity: Severity::Warning,
            message: format!("{self}; treating all project servers as unapproved"),
            hint: Some(self.hint(file)),
            origin: Some(SourcePos::whole_file(Some(&file.path))),
            snippet: None,
            server: None,
        }
    }
}

/// Parsed first: the fields of another version may have another meaning.
#[derive(Deserialize)]
struct FormatVersion {
    version: u32,
}

#[derive(Serialize, Deserialize)]
struct ApprovalsJson {
    version: u32,
    approvals: Vec<ApprovalRecord>,
}

impl ApprovalsFile {
    /// The file at `path`, which may not exist yet.
    pub fn at(path: impl Into<PathBuf>) -> Self {
        Self { path: path.into() }
    }

    /// The path of the file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Reads all decisions. A missing file contains none.
    pub fn read(&self) -> Result<Approvals, ApprovalsError> {
        let records = match self.open()? {
            Some(file) => parse(file)?,
            None => Vec::new(),
        };
        Ok(Approvals {
            records,
            file: Some(fs::canonicalize(&self.path).unwrap_or_else(|_| self.path.clone())),
        })
    }

    /// Records `verdict` for `entries` and replaces earlier decisions about servers of the same
    /// name and project.
    ///
    /// Pass the entries that were shown to the user: the record contains their content hash.
    pub fn record(
        &self,
        entries: &[&ServerEntry],
        verdict: Verdict,
        decided_at: SystemTime,
    ) -> Result<Approvals, ApprovalsError> {
        let new = entries
            .iter()
            .map(|entry| new_record(entry, verdict, decided_at));
        let new: Vec<_> = new.collect::<Result<_, _>>()?;
        self.change(|records| {
            let replaced: HashSet<_> = new.iter().map(ApprovalRecord::key).collect();
            records.retain(|old| !replaced.contains(&old.key()));
            records.extend(new.iter().cloned());
        })
    }

    /// Deletes the records for which `should_revoke` returns true, and returns them.
    pub fn revoke(
        &self,
        should_revoke: impl Fn(&ApprovalRecord) -> bool,
    ) -> Result<Vec<ApprovalRecord>, ApprovalsError> {
        if !self.read()?.records.iter().any(&should_revoke) {
            return Ok(Vec::new());
        }
        let mut revoked = Vec::new();
        self.change(|records| {
            revoked = records
                .extract_if(.., |record| should_revoke(record))
                .collect();
        })?;
        Ok(revoked)
    }

    fn change(
        &self,
        change: impl FnOnce(&mut Vec<ApprovalRecord>),
    ) -> Result<Approvals, ApprovalsError> {
        // Replace the target of a symbolic link, not the link.
        let target = follow_links(&self.path).map_err(ApprovalsError::Unwritable)?;
        let _lock = lock(&target)?;
        let mut approvals = self.read()?;
        change(&mut approvals.records);
        let json = ApprovalsJson {
            version: VERSION,
            approvals: approvals.records,
        };
        let mut text = serde_json::to_vec_pretty(&json)
            .map_err(|error| ApprovalsError::Unwritable(error.into()))?;
        text.push(b'\n');
        if text.len() as u64 > MAX_BYTES {
            return Err(ApprovalsError::Full);
        }
        write(&target, &text).map_err(ApprovalsError::Unwritable)?;
        approvals.records = json.approvals;
        Ok(approvals)
    }

    fn open(&self) -> Result<Option<File>, ApprovalsError> {
        let check = |metadata: &Metadata| {
            if !metadata.is_file() {
                return Err(ApprovalsError::Invalid("it is not a file".to_owned()));
            }
            is_private(metadata)
                .then_some(())
                .ok_or(ApprovalsError::WritableByOthers)
        };
        let opened = fs::metadata(&self.path).and_then(|metadata| {
            // Opening a pipe would block until the other end is opened.
            let file = metadata
                .is_file()
                .then(|| File::open(&self.path))
                .transpose()?;
            Ok((metadata, file))
        });
        match opened {
            Ok((metadata, None)) => check(&metadata).map(|()| None),
            Ok((_, Some(file))) => {
                check(&file.metadata().map_err(ApprovalsError::Unreadable)?)?;
                Ok(Some(file))
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(ApprovalsError::Unreadable(error)),
        }
    }
}

/// Locks the approvals file until the returned file is closed. The lock is on a separate file,
/// because the approvals file itself is replaced by a rename.
fn lock(target: &Path) -> Result<File, ApprovalsError> {
    let file = open_lock(target).map_err(ApprovalsError::Unwritable)?;
    match locked_file::lock(&file) {
        Ok(true) => Ok(file),
        Ok(false) => Err(ApprovalsError::Locked),
        Err(error) => Err(ApprovalsError::Unwritable(error)),
    }
}

fn open_lock(target: &Path) -> io::Result<File> {
    if let Some(directory) = target.parent() {
        create_private_dir(directory)?;
    }
    let mut options = OpenOptions::new();
    options.write(true).create(true).truncate(false);
    with_mode(&mut options, 0o600).open(sibling(target, "lock"))
}

/// Replaces the file atomically. The caller holds the lock.
fn write(target: &Path, text: &[u8]) -> io::Result<()> {
    let mut temp = TempFile::create(sibling(target, "draft"), 0o600)?;
    temp.write(text)?;
    temp.persist(target)
}

fn sibling(target: &Path, ending: &str) -> PathBuf {
    let mut name = target.file_name().unwrap_or_default().to_owned();
    name.push(".");
    name.push(ending);
    target.with_file_name(name)
}

fn new_record(
    entry: &ServerEntry,
    verdict: Verdict,
    decided_at: SystemTime,
) -> Result<ApprovalRecord, ApprovalsError> {
    let name = entry.name();
    let (Some(project), Some(review)) = (entry.project(), entry.review()) else {
        return Err(ApprovalsError::NotAProjectEntry(name.clone()));
    };
    let hash = entry.content_hash();
    let hash = hash.ok_or_else(|| ApprovalsError::Unverifiable(name.clone()))?;
    let length = serde_json::to_string(review).map_or(usize::MAX, |text| text.len());
    Ok(ApprovalRecord {
        project,
        server: name.clone(),
        verdict,
        hash: hash.clone(),
        decided_at,
        review: if length <= MAX_REVIEW_BYTES {
            review.clone()
        } else {
            ReviewFields::default()
        },
    })
}

fn parse(file: File) -> Result<Vec<ApprovalRecord>, ApprovalsError> {
    let invalid = |reason: &str| Err(ApprovalsError::Invalid(reason.to_owned()));
    let mut text = Vec::new();
    file.take(MAX_BYTES + 1)
        .read_to_end(&mut text)
        .map_err(ApprovalsError::Unreadable)?;
    if text.len() as u64 > MAX_BYTES {
        return invalid("it is larger than 8 MiB");
    }
    match serde_json::from_slice::<FormatVersion>(&text) {
        Ok(FormatVersion { version: VERSION }) => {}
        Ok(_) => return invalid("another version of switchboard wrote it"),
        Err(error) => return invalid(&error.to_string()),
    }
    match serde_json::from_slice::<ApprovalsJson>(&text) {
        Ok(json) => Ok(json.approvals),
        Err(error) => invalid(&error.to_string()),
    }
}

/// Returns true if the file belongs to the user and no other user can write to it.
fn is_private(metadata: &Metadata) -> bool {
    #[cfg(unix)]
    {
        use std::os::unix::fs::MetadataExt as _;
        let is_own = metadata.uid() == rustix::process::geteuid().as_raw();
        is_own && metadata.mode() & 0o022 == 0
    }
    #[cfg(not(unix))]
    {
        let _ = metadata;
        true
    }
}
