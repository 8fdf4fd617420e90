//! The file that holds what the user said about the entries of projects.
//!
//! It lies outside of every project and belongs to the user alone. Invariants: what is written is
//! written whole or not at all, by one process at a time; and a file that cannot be understood approves
//! nothing and is not overwritten.

use std::fs::{self, DirBuilder, File, Metadata, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime};

use serde::{Deserialize, Serialize};
use thiserror::Error;

use super::ServerEntry;
use super::approvals::{Approval, Approvals, Verdict, is_about};
use super::shown::Shown;
use crate::diagnostic::{Diagnostic, Origin, Severity};
use crate::edit::{follow_links, try_lock};
use crate::server_name::ServerName;

/// The layout that is read and written.
const VERSION: u32 = 1;
/// The largest file that is read or written.
const MAX_BYTES: u64 = 8 * 1024 * 1024;
/// What is shown of an entry is kept up to this length; it only serves to tell what changed.
const MAX_SHOWN: usize = 32 * 1024;

/// How long somebody else may write before we give up. It takes milliseconds.
const PATIENCE: Duration = Duration::from_secs(5);
/// How long to wait before looking at the lock again.
const PAUSE: Duration = Duration::from_millis(5);

/// Where the user's word is kept.
#[derive(Clone, Debug)]
pub struct ApprovalsFile {
    path: PathBuf,
}

/// Why the user's word could not be read or kept.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum ApprovalsError {
    /// The file is there, and cannot be read.
    #[error("what you approved cannot be read: {0}")]
    Unreadable(#[source] io::Error),
    /// The file is there, and is not what it should be.
    #[error("what you approved cannot be understood: {0}")]
    Broken(String),
    /// Others could have written into it.
    #[error("others may write into the file of what you approved, so nothing in it counts")]
    Open,
    /// It could not be written.
    #[error("what you said could not be recorded: {0}")]
    Unwritable(#[source] io::Error),
    /// Somebody else does not let go of it.
    #[error("what you said could not be recorded: another process is writing to the file")]
    Locked,
    /// There is no more room for it.
    #[error("there is no more room for what you approved")]
    Full,
    /// What the entry would run cannot be pinned down.
    #[error(
        "server {0} cannot be approved for good: what its program holds cannot be told for sure"
    )]
    Unverifiable(ServerName),
    /// The entry needs no approval, or cannot have one.
    #[error("server {0} is not a usable entry of a project, so there is nothing to approve")]
    NotOfAProject(ServerName),
}

impl ApprovalsError {
    /// What to do about it.
    pub fn hint(&self, file: &ApprovalsFile) -> String {
        let path = file.path.display();
        match self {
            Self::Unreadable(_) | Self::Unwritable(_) => {
                format!("see to it that you may read and write {path}")
            }
            Self::Locked => {
                format!("try again; if that does not help, see who has {path}.lock open")
            }
            Self::Broken(_) => format!("move {path} away and approve again what you need"),
            Self::Open => format!("look through it, then: chmod 600 {path}"),
            Self::Full => {
                "switchboard trust --revoke takes back what is no longer needed".to_owned()
            }
            Self::Unverifiable(_) => "--trust-project approves it for one run".to_owned(),
            Self::NotOfAProject(_) => {
                "switchboard list shows what is wrong, if anything is".to_owned()
            }
        }
    }

    /// The same, as one of the findings of a load.
    pub fn diagnostic(&self, file: &ApprovalsFile) -> Diagnostic {
        Diagnostic {
            severity: Severity::Warning,
            message: format!("{self}; no server of a project is approved"),
            hint: Some(self.hint(file)),
            origin: Some(Origin::of_whole(Some(&file.path))),
            snippet: None,
            server: None,
        }
    }
}

/// Read first: what another version means by its fields is not known here.
#[derive(Deserialize)]
struct Stamp {
    version: u32,
}

#[derive(Serialize, Deserialize)]
struct Layout {
    version: u32,
    approvals: Vec<Approval>,
}

impl ApprovalsFile {
    /// The file at `path`, which need not exist.
    pub fn at(path: impl Into<PathBuf>) -> Self {
        Self { path: path.into() }
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Everything that the user said so far. Without a file, that is nothing.
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

    /// Records what the user said about these very entries, which are those that they were shown.
    pub fn record(
        &self,
        entries: &[&ServerEntry],
        verdict: Verdict,
        at: SystemTime,
    ) -> Result<Approvals, ApprovalsError> {
        let new = entries.iter().map(|entry| approval(entry, verdict, at));
        let new: Vec<_> = new.collect::<Result<_, _>>()?;
        self.change(|records| {
            records.retain(|old| {
                !new.iter()
                    .any(|new| is_about(old, &new.project, &new.server))
            });
            records.extend(new.clone());
        })
    }

    /// Takes back what the user said, as far as `is_meant`. Comes back with what that was.
    pub fn revoke(
        &self,
        is_meant: impl Fn(&Approval) -> bool,
    ) -> Result<Vec<Approval>, ApprovalsError> {
        if !self.read()?.records.iter().any(&is_meant) {
            return Ok(Vec::new());
        }
        let mut revoked = Vec::new();
        self.change(|records| {
            revoked = records.extract_if(.., |record| is_meant(record)).collect();
        })?;
        Ok(revoked)
    }

    fn change(&self, change: impl FnOnce(&mut Vec<Approval>)) -> Result<Approvals, ApprovalsError> {
        // A link stays a link.
        let target = follow_links(&self.path).map_err(ApprovalsError::Unwritable)?;
        let _alone = lock(&target)?;
        let mut approvals = self.read()?;
        change(&mut approvals.records);
        let layout = Layout {
            version: VERSION,
            approvals: approvals.records,
        };
        let mut text = serde_json::to_vec_pretty(&layout)
            .map_err(|error| ApprovalsError::Unwritable(error.into()))?;
        text.push(b'\n');
        if text.len() as u64 > MAX_BYTES {
            return Err(ApprovalsError::Full);
        }
        write(&target, &text).map_err(ApprovalsError::Unwritable)?;
        approvals.records = layout.approvals;
        Ok(approvals)
    }

    fn open(&self) -> Result<Option<File>, ApprovalsError> {
        let check = |metadata: &Metadata| {
            if !metadata.is_file() {
                return Err(ApprovalsError::Broken("it is not a file".to_owned()));
            }
            is_private(metadata)
                .then_some(())
                .ok_or(ApprovalsError::Open)
        };
        let opened = fs::metadata(&self.path).and_then(|metadata| {
            // Opening a pipe waits for its other end.
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

/// Waits until nobody else changes the file, and keeps it so. The lock is a file of its own: the one
/// with the content is replaced.
fn lock(target: &Path) -> Result<File, ApprovalsError> {
    let lock = open_lock(target).map_err(ApprovalsError::Unwritable)?;
    let until = Instant::now() + PATIENCE;
    while !try_lock(&lock).map_err(ApprovalsError::Unwritable)? {
        if Instant::now() >= until {
            return Err(ApprovalsError::Locked);
        }
        // Not a sleep of anybody's clock: this is called where one may block.
        std::thread::park_timeout(PAUSE);
    }
    Ok(lock)
}

fn open_lock(target: &Path) -> io::Result<File> {
    if let Some(folder) = target.parent() {
        let mut builder = DirBuilder::new();
        #[cfg(unix)]
        std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
        builder.recursive(true).create(folder)?;
    }
    let mut options = OpenOptions::new();
    options.write(true).create(true).truncate(false);
    private(&mut options).open(beside(target, "lock"))
}

/// Replaces the file. The lock is held.
fn write(target: &Path, text: &[u8]) -> io::Result<()> {
    let draft = beside(target, "draft");
    // Left by a process that was killed: the lock says that nobody is at work on it.
    fs::remove_file(&draft).ok();
    let mut options = OpenOptions::new();
    let mut file = private(options.write(true).create_new(true)).open(&draft)?;
    let written = file.write_all(text).and_then(|()| file.sync_all());
    let written = written.and_then(|()| fs::rename(&draft, target));
    if written.is_err() {
        fs::remove_file(&draft).ok();
    }
    written
}

fn beside(target: &Path, ending: &str) -> PathBuf {
    let mut name = target.file_name().unwrap_or_default().to_owned();
    name.push(".");
    name.push(ending);
    target.with_file_name(name)
}

fn approval(
    entry: &ServerEntry,
    verdict: Verdict,
    at: SystemTime,
) -> Result<Approval, ApprovalsError> {
    let name = entry.name();
    let (Some(project), Some(shown)) = (entry.project(), entry.shown()) else {
        return Err(ApprovalsError::NotOfAProject(name.clone()));
    };
    let hash = entry.content_hash();
    let hash = hash.ok_or_else(|| ApprovalsError::Unverifiable(name.clone()))?;
    let length = serde_json::to_string(shown).map_or(usize::MAX, |text| text.len());
    Ok(Approval {
        project,
        server: name.clone(),
        verdict,
        hash: hash.clone(),
        at,
        shown: if length <= MAX_SHOWN {
            shown.clone()
        } else {
            Shown::default()
        },
    })
}

fn parse(file: File) -> Result<Vec<Approval>, ApprovalsError> {
    let broken = |why: &str| Err(ApprovalsError::Broken(why.to_owned()));
    let mut text = Vec::new();
    file.take(MAX_BYTES + 1)
        .read_to_end(&mut text)
        .map_err(ApprovalsError::Unreadable)?;
    if text.len() as u64 > MAX_BYTES {
        return broken("it is larger than 8 MiB");
    }
    match serde_json::from_slice::<Stamp>(&text) {
        Ok(Stamp { version: VERSION }) => {}
        Ok(_) => return broken("another version of switchboard wrote it"),
        Err(error) => return broken(&error.to_string()),
    }
    match serde_json::from_slice::<Layout>(&text) {
        Ok(layout) => Ok(layout.approvals),
        Err(error) => broken(&error.to_string()),
    }
}

fn private(options: &mut OpenOptions) -> &mut OpenOptions {
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(options, 0o600);
    options
}

/// Whether nobody but the user could have written it.
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
