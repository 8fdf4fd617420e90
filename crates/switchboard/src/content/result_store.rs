//! Where a result is kept whole when only a part of it is handed over.
//!
//! It keeps text under a random handle and gives it back, and bytes as a file to open; it does not
//! decide what is worth keeping. A [`DirectoryResultStore`] is emptied by nobody but whoever chose the directory,
//! by [`DirectoryResultStore::prune`] or with the directory.
//!
//! Invariant: a file is named by our own random handle and by nothing that a server sent.

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

const PREFIX: &str = "result-";
const DIGITS: usize = 32;

/// Keeps whole results.
pub trait ResultStore: Send + Sync {
    /// Keeps a text and says how to ask for it.
    fn store(&self, text: &str) -> io::Result<ResultHandle>;

    /// Gives a kept text back.
    fn read(&self, handle: &ResultHandle) -> io::Result<String>;

    /// Keeps bytes as a file that programs may open, and says where it is. Whoever has no files
    /// says that it cannot.
    fn store_file(&self, bytes: &[u8], file_type: FileType) -> io::Result<PathBuf> {
        let _ = (bytes, file_type);
        Err(io::Error::new(
            io::ErrorKind::Unsupported,
            "there is no folder for files",
        ))
    }
}

/// What a kept text is asked for by: `result-` and 32 hexadecimal digits, drawn at random.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct ResultHandle(u128);

impl ResultHandle {
    fn draw() -> Self {
        Self(fastrand::u128(..))
    }
}

impl fmt::Display for ResultHandle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{PREFIX}{:032x}", self.0)
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

/// The text is not a handle.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a handle is `{PREFIX}` and {DIGITS} hexadecimal digits")]
pub struct InvalidResultHandle;

impl FromStr for ResultHandle {
    type Err = InvalidResultHandle;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let digits = text.strip_prefix(PREFIX).ok_or(InvalidResultHandle)?;
        let is_digit = |byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
        if digits.len() != DIGITS || !digits.bytes().all(is_digit) {
            return Err(InvalidResultHandle);
        }
        u128::from_str_radix(digits, 16)
            .map(Self)
            .map_err(|_| InvalidResultHandle)
    }
}

/// Keeps each text as a file that only its owner may read, in a directory made when first needed.
#[derive(Debug)]
pub struct DirectoryResultStore {
    directory: PathBuf,
}

impl DirectoryResultStore {
    /// Keeps texts in `dir`, which need not exist.
    pub fn new(dir: PathBuf) -> Self {
        Self { directory: dir }
    }

    /// Where a kept text lies.
    pub fn path(&self, handle: &ResultHandle) -> PathBuf {
        self.directory.join(handle.to_string())
    }

    fn write(&self, path: &Path, content: &[u8]) -> io::Result<()> {
        make_private(&self.directory)?;
        let mut file = create(path)?;
        file.write_all(content).inspect_err(|_| {
            // Half of it under a valid name would be taken for the whole.
            fs::remove_file(path).ok();
        })
    }
}

/// Makes a file that was not there. A link in its place is not followed.
fn create(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options.open(path)
}

impl ResultStore for DirectoryResultStore {
    fn store(&self, text: &str) -> io::Result<ResultHandle> {
        let handle = ResultHandle::draw();
        self.write(&self.path(&handle), text.as_bytes())?;
        Ok(handle)
    }

    fn read(&self, handle: &ResultHandle) -> io::Result<String> {
        let path = self.path(handle);
        if !fs::symlink_metadata(&path)?.is_file() {
            return Err(io::Error::new(
                io::ErrorKind::InvalidInput,
                format!("{handle} is not a file of ours"),
            ));
        }
        fs::read_to_string(path)
    }

    fn store_file(&self, bytes: &[u8], file_type: FileType) -> io::Result<PathBuf> {
        let name = format!("{}.{}", ResultHandle::draw(), file_type.extension());
        let path = self.directory.join(name);
        self.write(&path, bytes)?;
        Ok(path)
    }
}

/// Makes the directory for its owner alone.
fn make_private(directory: &Path) -> io::Result<()> {
    let mut builder = DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(directory)?;
    check_private(directory)
}

/// A link to a directory is refused, and so is one that others may write to.
fn check_private(directory: &Path) -> io::Result<()> {
    if fs::symlink_metadata(directory)?.is_symlink() {
        return Err(io::Error::new(
            io::ErrorKind::PermissionDenied,
            format!("{} is a link", directory.display()),
        ));
    }
    #[cfg(unix)]
    {
        use std::os::unix::fs::MetadataExt as _;
        const WRITABLE_BY_OTHERS: u32 = 0o022;
        if fs::metadata(directory)?.mode() & WRITABLE_BY_OTHERS != 0 {
            return Err(io::Error::new(
                io::ErrorKind::PermissionDenied,
                format!("others may write to {}", directory.display()),
            ));
        }
    }
    Ok(())
}

/// Keeps texts in memory, the newest ones.
#[derive(Debug)]
pub struct MemoryResultStore {
    max_bytes: usize,
    kept: Mutex<Kept>,
}

#[derive(Debug, Default)]
struct Kept {
    /// Oldest first.
    texts: VecDeque<(ResultHandle, String)>,
    bytes: usize,
}

impl MemoryResultStore {
    /// Keeps at most `max_bytes` of text in all; the oldest is dropped for the newest.
    pub fn new(max_bytes: usize) -> Self {
        Self {
            max_bytes,
            kept: Mutex::default(),
        }
    }
}

impl ResultStore for MemoryResultStore {
    fn store(&self, text: &str) -> io::Result<ResultHandle> {
        if text.len() > self.max_bytes {
            return Err(io::Error::new(
                io::ErrorKind::StorageFull,
                format!("more than the {} bytes that may be kept", self.max_bytes),
            ));
        }
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        while kept.bytes + text.len() > self.max_bytes {
            let Some((_, oldest)) = kept.texts.pop_front() else {
                break;
            };
            kept.bytes -= oldest.len();
        }
        let handle = ResultHandle::draw();
        kept.bytes += text.len();
        kept.texts.push_back((handle, text.to_owned()));
        Ok(handle)
    }

    fn read(&self, handle: &ResultHandle) -> io::Result<String> {
        let kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        kept.texts
            .iter()
            .find(|(own, _)| own == handle)
            .map(|(_, text)| text.clone())
            .ok_or_else(|| io::Error::new(io::ErrorKind::NotFound, "not kept, or no longer"))
    }
}
