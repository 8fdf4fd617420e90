//! Locks, reads and atomically replaces one file.
//!
//! [`LockedFile`] locks the directory of the file, because the directory exists before the file
//! does, and because a separate lock file would stay behind in the project. The lock is advisory,
//! so [`LockedFile::replace`] also compares the file with the bytes that were read and fails if
//! another program changed the file.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use thiserror::Error;

use crate::raw::{ReadError, read_file};
use crate::text::{quote_for_shell, replace_control_chars};

/// How long to wait for a lock. The holder normally needs milliseconds.
const LOCK_TIMEOUT: Duration = Duration::from_secs(5);
/// Interval between attempts to take the lock.
const LOCK_RETRY: Duration = Duration::from_millis(5);
/// Maximum length of a chain of symbolic links, the same as in the Linux kernel.
const MAX_LINKS: usize = 40;

/// Why a file could not be locked, read or replaced. Except after [`Unwritable`](Self::Unwritable),
/// the file is unchanged.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum LockedFileError {
    /// The file cannot be read.
    #[error("cannot edit {}: {reason}", display(.file))]
    Unreadable {
        /// The file.
        file: PathBuf,
        /// Why it cannot be read.
        reason: String,
    },
    /// Another program kept the lock on the directory for longer than the timeout.
    #[error("cannot edit {}: another program is editing it", display(.file))]
    Locked {
        /// The file.
        file: PathBuf,
    },
    /// Another program changed the file after it was read.
    #[error("{} not changed: modified concurrently by another program", display(.file))]
    ConcurrentChange {
        /// The file.
        file: PathBuf,
    },
    /// The file is a symbolic link to a file outside the project.
    #[error(
        "{} not changed: symbolic link points outside the project ({})",
        display(.file),
        display(.target)
    )]
    LinkLeavesProject {
        /// The symbolic link.
        file: PathBuf,
        /// The file at the end of the chain of links.
        target: PathBuf,
    },
    /// The file or its directory cannot be written. If only syncing the directory failed, the file
    /// already has the new content.
    #[error("cannot write {}: {error}", display(.file))]
    Unwritable {
        /// The file.
        file: PathBuf,
        /// The error of the operating system.
        #[source]
        error: io::Error,
    },
}

impl LockedFileError {
    /// A command or action to try.
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::Unreadable { .. } => None,
            Self::LinkLeavesProject { .. } => {
                Some("replace the link with a file, or use another scope".to_owned())
            }
            Self::Locked { .. } => Some("try again when the other program has finished".to_owned()),
            Self::ConcurrentChange { .. } => Some("run the same command again".to_owned()),
            Self::Unwritable { file, error } => match error.kind() {
                io::ErrorKind::PermissionDenied => {
                    let file = quote_for_shell(&file.to_string_lossy());
                    Some(format!("make it writable: chmod u+w {file}"))
                }
                _ => None,
            },
        }
    }

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

/// A path may contain control characters; they must not reach a terminal.
fn display(path: &Path) -> String {
    replace_control_chars(&path.to_string_lossy())
}

/// A file whose directory is locked until this value is dropped.
#[derive(Debug)]
pub(crate) struct LockedFile {
    file: PathBuf,
    /// The content at the time of opening; `None` if the file did not exist.
    bytes: Option<Vec<u8>>,
    readable_by_others: bool,
    /// The open directory. Closing it releases the lock.
    directory: File,
}

impl LockedFile {
    /// Locks the directory of `path` and reads the file, if it exists. Creates the directory if
    /// needed.
    ///
    /// Follows symbolic links. If `root` is given, fails if `path` is a link to a file outside of
    /// `root`.
    pub(crate) fn open(path: &Path, root: Option<&Path>) -> Result<Self, LockedFileError> {
        let file = follow_links(path).map_err(|error| LockedFileError::unwritable(path, error))?;
        let failed = |error| LockedFileError::unwritable(&file, error);
        let parent = parent_dir(&file);
        // Check first, so that no directory is created outside of `root`.
        if file != path && root.is_some_and(|root| !is_within(parent, root)) {
            return Err(LockedFileError::LinkLeavesProject {
                file: path.to_path_buf(),
                target: file,
            });
        }
        create_private_dir(parent).map_err(failed)?;
        let directory = File::open(parent).map_err(failed)?;
        if !lock(&directory).map_err(failed)? {
            return Err(LockedFileError::Locked { file });
        }
        let bytes = read(&file)?;
        Ok(Self {
            file,
            bytes,
            readable_by_others: false,
            directory,
        })
    }

    /// The path of the file after following symbolic links.
    pub(crate) fn path(&self) -> &Path {
        &self.file
    }

    /// The content at the time of opening; empty if the file did not exist.
    pub(crate) fn bytes(&self) -> &[u8] {
        self.bytes.as_deref().unwrap_or_default()
    }

    /// Makes [`replace`](Self::replace) create a new file with the user's default permissions
    /// instead of mode 0600.
    pub(crate) fn set_readable_by_others(&mut self) {
        self.readable_by_others = true;
    }

    /// Replaces the content atomically. Does nothing if the file already contained `bytes` when it
    /// was opened.
    pub(crate) fn replace(&self, bytes: &[u8]) -> Result<(), LockedFileError> {
        if self.bytes.as_deref() == Some(bytes) {
            return Ok(());
        }
        let failed = |error| LockedFileError::unwritable(&self.file, error);
        let temp = self.write_temp(bytes).map_err(failed)?;
        if read(&self.file)? != self.bytes {
            return Err(LockedFileError::ConcurrentChange {
                file: self.file.clone(),
            });
        }
        temp.persist(&self.file).map_err(failed)?;
        // Without syncing the directory, a power loss could undo the rename.
        self.directory.sync_all().map_err(failed)
    }

    fn write_temp(&self, bytes: &[u8]) -> io::Result<TempFile> {
        // A file that was deleted in the meantime is no error here: `replace` detects the change
        // before it renames.
        let old = fs::metadata(&self.file).ok();
        if old.as_ref().is_some_and(|old| old.permissions().readonly()) {
            return Err(io::Error::new(
                io::ErrorKind::PermissionDenied,
                "it is read-only",
            ));
        }
        let name = self.file.file_name().unwrap_or_default();
        let name = format!(".{}.{}.new", name.to_string_lossy(), std::process::id());
        let is_public = self.readable_by_others && old.is_none();
        let mode = if is_public { 0o666 } else { 0o600 };
        let mut temp = TempFile::create(self.file.with_file_name(name), mode)?;
        if let Some(old) = old {
            copy_owner(&temp.file, &old);
            temp.file.set_permissions(old.permissions())?;
        }
        temp.write(bytes)?;
        Ok(temp)
    }
}

/// The new content under a temporary name. Dropping it without [`TempFile::persist`] deletes the
/// file.
pub(crate) struct TempFile {
    /// `None` once the file has its final name.
    path: Option<PathBuf>,
    file: File,
}

impl TempFile {
    /// Creates the file at `path`. The caller must hold the lock: an existing file is a leftover
    /// and is replaced.
    pub(crate) fn create(path: PathBuf, mode: u32) -> io::Result<Self> {
        let _ = fs::remove_file(&path);
        let mut options = OpenOptions::new();
        let file = with_mode(options.write(true).create_new(true), mode).open(&path)?;
        Ok(Self {
            path: Some(path),
            file,
        })
    }

    /// Writes `bytes` and syncs them to disk.
    pub(crate) fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.file.write_all(bytes)?;
        self.file.sync_all()
    }

    /// Renames the file to `target`.
    pub(crate) fn persist(mut self, target: &Path) -> io::Result<()> {
        if let Some(path) = &self.path {
            fs::rename(path, target)?;
        }
        self.path = None;
        Ok(())
    }
}

impl Drop for TempFile {
    fn drop(&mut self) {
        if let Some(path) = &self.path {
            let _ = fs::remove_file(path);
        }
    }
}

/// Sets the Unix mode with which `options` creates a file.
pub(crate) fn with_mode(options: &mut OpenOptions, mode: u32) -> &mut OpenOptions {
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(options, mode);
    #[cfg(not(unix))]
    let _ = mode;
    options
}

/// Gives the new file the owner of the old one, so that a file edited by root still belongs to its
/// user.
///
/// Ignores errors: users other than root cannot change owners, but a file that they may replace
/// normally belongs to them already.
fn copy_owner(file: &File, old: &fs::Metadata) {
    #[cfg(unix)]
    {
        use std::os::unix::fs::{MetadataExt as _, fchown};
        let _ = fchown(file, Some(old.uid()), Some(old.gid()));
    }
    #[cfg(not(unix))]
    let _ = (file, old);
}

fn read(file: &Path) -> Result<Option<Vec<u8>>, LockedFileError> {
    match read_file(file) {
        Ok(bytes) => Ok(Some(bytes)),
        Err(ReadError::Missing) => Ok(None),
        Err(error) => Err(LockedFileError::unreadable(file, &error)),
    }
}

/// Returns the file at the end of all symbolic links, whether or not it exists.
///
/// Writing to the result keeps the links. A rename onto `path` would replace the first link.
pub(crate) fn follow_links(path: &Path) -> io::Result<PathBuf> {
    let mut file = path.to_path_buf();
    for _ in 0..MAX_LINKS {
        let is_link = fs::symlink_metadata(&file).is_ok_and(|found| found.is_symlink());
        if !is_link {
            return Ok(file);
        }
        let target = fs::read_link(&file)?;
        file = file.parent().unwrap_or(Path::new("")).join(target);
    }
    Err(io::Error::other("too many levels of symbolic links"))
}

fn parent_dir(file: &Path) -> &Path {
    match file.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    }
}

/// Returns true if `directory` exists and is `root` or below it.
fn is_within(directory: &Path, root: &Path) -> bool {
    let real = fs::canonicalize(directory)
        .ok()
        .zip(fs::canonicalize(root).ok());
    real.is_some_and(|(directory, root)| directory.starts_with(root))
}

/// Creates `directory` and its parents with mode 0700, unless they exist.
pub(crate) fn create_private_dir(directory: &Path) -> io::Result<()> {
    let mut builder = DirBuilder::new();
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.recursive(true).create(directory)
}

/// Takes an exclusive lock on `file`, which lasts until `file` is closed. Returns false after
/// [`LOCK_TIMEOUT`].
pub(crate) fn lock(file: &File) -> io::Result<bool> {
    let deadline = Instant::now() + LOCK_TIMEOUT;
    while !try_lock(file)? {
        if Instant::now() >= deadline {
            return Ok(false);
        }
        // `park_timeout` because `thread::sleep` is banned by clippy.toml; callers run on threads
        // that may block.
        std::thread::park_timeout(LOCK_RETRY);
    }
    Ok(true)
}

#[cfg(unix)]
fn try_lock(file: &File) -> io::Result<bool> {
    use rustix::fs::{FlockOperation, flock};
    use rustix::io::Errno;

    match flock(file, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => Ok(true),
        Err(Errno::WOULDBLOCK | Errno::INTR) => Ok(false),
        // The file system has no locks. `LockedFile::replace` still detects concurrent changes.
        Err(Errno::BADF | Errno::INVAL | Errno::NOLCK | Errno::OPNOTSUPP | Errno::NOSYS) => {
            Ok(true)
        }
        Err(error) => Err(error.into()),
    }
}

#[cfg(not(unix))]
fn try_lock(_file: &File) -> io::Result<bool> {
    Ok(true)
}
