//! Stores the full text of truncated results in memory or in a directory, and binary data in files.
//!
//! The module does not decide what to store. A [`DirectoryResultStore`] never deletes complete
//! files by itself: call [`DirectoryResultStore::prune`] or delete the directory.
//!
//! Invariant: a file name is a random handle, for binary data with an extension from [`FileType`].
//! It contains nothing that a server sent.

use std::collections::VecDeque;
use std::fmt;
use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::{Mutex, PoisonError};

use serde::{Serialize, Serializer};

use super::FileType;

mod prune;

#[cfg(test)]
mod tests;

const HANDLE_PREFIX: &str = "result-";
const HANDLE_DIGITS: usize = 32;

/// Stores the full text of truncated results, and optionally binary data of resources.
pub trait ResultStore: Send + Sync {
    /// Stores a text and returns a new handle with which [`ResultStore::read`] finds the text.
    fn store(&self, text: &str) -> io::Result<ResultHandle>;

    /// Returns the text that was stored under this handle. Fails if the store no longer has it.
    fn read(&self, handle: &ResultHandle) -> io::Result<String>;

    /// Saves binary data to a file and returns its path. The default implementation returns
    /// [`io::ErrorKind::Unsupported`].
    fn store_file(&self, bytes: &[u8], file_type: FileType) -> io::Result<PathBuf> {
        let _ = (bytes, file_type);
        Err(io::Error::new(
            io::ErrorKind::Unsupported,
            "no directory for files is configured",
        ))
    }
}

/// The handle of a stored text: `result-` and 32 random hexadecimal digits.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct ResultHandle(u128);

impl ResultHandle {
    fn random() -> Self {
        Self(fastrand::u128(..))
    }
}

impl fmt::Display for ResultHandle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{HANDLE_PREFIX}{:032x}", self.0)
    }
}

impl fmt::Debug for ResultHandle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl Serialize for ResultHandle {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// The error for a text that does not have the format of a [`ResultHandle`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a handle is `{HANDLE_PREFIX}` and {HANDLE_DIGITS} hexadecimal digits")]
pub struct InvalidResultHandle;

impl FromStr for ResultHandle {
    type Err = InvalidResultHandle;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let digits = text
            .strip_prefix(HANDLE_PREFIX)
            .ok_or(InvalidResultHandle)?;
        let is_digit = |byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
        if digits.len() != HANDLE_DIGITS || !digits.bytes().all(is_digit) {
            return Err(InvalidResultHandle);
        }
        u128::from_str_radix(digits, 16)
            .map(Self)
            .map_err(|_| InvalidResultHandle)
    }
}

/// A [`ResultStore`] that writes each text to a file that only the current user can read. The first
/// write creates the directory.
#[derive(Debug)]
pub struct DirectoryResultStore {
    directory: PathBuf,
}

impl DirectoryResultStore {
    /// Creates a store that writes to `directory`. The directory does not have to exist yet.
    pub fn new(directory: PathBuf) -> Self {
        Self { directory }
    }

    /// Returns the path of the file with the text of this handle. Does not check that the file
    /// exists.
    pub fn path(&self, handle: &ResultHandle) -> PathBuf {
        self.directory.join(handle.to_string())
    }

    fn write(&self, path: &Path, content: &[u8]) -> io::Result<()> {
        create_private_dir(&self.directory)?;
        let mut file = create_new_file(path)?;
        file.write_all(content).inspect_err(|_| {
            // Deletes the partly written file, which would look like a complete one.
            fs::remove_file(path).ok();
        })
    }
}

/// Creates a file that only the current user can read. Fails if the path exists, even if it is a
/// symbolic link without a target.
fn create_new_file(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options.open(path)
}

impl ResultStore for DirectoryResultStore {
    fn store(&self, text: &str) -> io::Result<ResultHandle> {
        let handle = ResultHandle::random();
        self.write(&self.path(&handle), text.as_bytes())?;
        Ok(handle)
    }

    fn read(&self, handle: &ResultHandle) -> io::Result<String> {
        let path = self.path(handle);
        if !fs::symlink_metadata(&path)?.is_file() {
            return Err(io::Error::new(
                io::ErrorKind::InvalidInput,
                format!("{handle} is not a regular file"),
            ));
        }
        fs::read_to_string(path)
    }

    fn store_file(&self, bytes: &[u8], file_type: FileType) -> io::Result<PathBuf> {
        let name = format!("{}.{}", ResultHandle::random(), file_type.extension());
        let path = self.directory.join(name);
        self.write(&path, bytes)?;
        Ok(path)
    }
}

/// Creates a directory that only the current user can access, unless it exists. An existing
/// directory is checked with [`check_private_dir`].
fn create_private_dir(directory: &Path) -> io::Result<()> {
    let mut builder = DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(directory)?;
    check_private_dir(directory)
}

/// Fails if the path is a symbolic link, or a directory that other users can write to.
fn check_private_dir(directory: &Path) -> io::Result<()> {
    if fs::symlink_metadata(directory)?.is_symlink() {
        return Err(io::Error::new(
            io::ErrorKind::PermissionDenied,
            format!("{} is a symbolic link", directory.display()),
        ));
    }
    #[cfg(unix)]
    {
        use std::os::unix::fs::MetadataExt as _;
        const WRITABLE_BY_OTHERS: u32 = 0o022;
        if fs::metadata(directory)?.mode() & WRITABLE_BY_OTHERS != 0 {
            return Err(io::Error::new(
                io::ErrorKind::PermissionDenied,
                format!("{} is writable by other users", directory.display()),
            ));
        }
    }
    Ok(())
}

/// A [`ResultStore`] in memory. Drops the oldest texts if the total size exceeds a maximum.
#[derive(Debug)]
pub struct MemoryResultStore {
    max_bytes: usize,
    stored: Mutex<StoredTexts>,
}

#[derive(Debug, Default)]
struct StoredTexts {
    /// The stored texts, oldest first.
    texts: VecDeque<(ResultHandle, String)>,
    /// The total size of `texts`.
    bytes: usize,
}

impl MemoryResultStore {
    /// Creates a store that keeps at most `max_bytes` bytes of text. A larger text cannot be stored
    /// at all.
    pub fn new(max_bytes: usize) -> Self {
        Self {
            max_bytes,
            stored: Mutex::default(),
        }
    }
}

impl ResultStore for MemoryResultStore {
    fn store(&self, text: &str) -> io::Result<ResultHandle> {
        if text.len() > self.max_bytes {
            return Err(io::Error::new(
                io::ErrorKind::StorageFull,
                format!("larger than the limit of {} bytes", self.max_bytes),
            ));
        }
        let mut stored = self.stored.lock().unwrap_or_else(PoisonError::into_inner);
        while stored.bytes + text.len() > self.max_bytes {
            let Some((_, oldest)) = stored.texts.pop_front() else {
                break;
            };
            stored.bytes -= oldest.len();
        }
        let handle = ResultHandle::random();
        stored.bytes += text.len();
        stored.texts.push_back((handle, text.to_owned()));
        Ok(handle)
    }

    fn read(&self, handle: &ResultHandle) -> io::Result<String> {
        let stored = self.stored.lock().unwrap_or_else(PoisonError::into_inner);
        stored
            .texts
            .iter()
            .find(|(stored_handle, _)| stored_handle == handle)
            .map(|(_, text)| text.clone())
            .ok_or_else(|| {
                io::Error::new(io::ErrorKind::NotFound, "not stored, or already dropped")
            })
    }
}
