//! Computes the SHA-256 of program files, and caches it while one configuration is loaded.
//!
//! A project can name large files in many entries. Invariant: loading a configuration reads each
//! version of a file at most once, and no more than [`MAX_TOTAL_BYTES`] of all files together.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::fmt::Write as _;
use std::fs::{File, Metadata};
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use sha2::{Digest, Sha256};

/// Maximum number of bytes that one load reads from all programs.
pub(super) const MAX_TOTAL_BYTES: u64 = 256 * 1024 * 1024;

/// The digests computed by one load.
#[derive(Debug)]
pub(crate) struct DigestCache {
    digests: RefCell<HashMap<FileIdentity, Option<String>>>,
    remaining_bytes: Cell<u64>,
}

/// Identifies a file and its version.
#[derive(Debug, PartialEq, Eq, Hash)]
struct FileIdentity {
    path: PathBuf,
    dev_inode: (u64, u64),
    length: u64,
    modified: Option<SystemTime>,
}

impl Default for DigestCache {
    fn default() -> Self {
        Self {
            digests: RefCell::default(),
            remaining_bytes: Cell::new(MAX_TOTAL_BYTES),
        }
    }
}

impl DigestCache {
    /// The hexadecimal SHA-256 of a file; `None` if the file cannot be read or the size limit is
    /// reached.
    pub(super) fn of(&self, path: &Path) -> Option<String> {
        let file = File::open(path).ok()?;
        let metadata = file.metadata().ok()?;
        let identity = FileIdentity {
            path: path.to_owned(),
            dev_inode: dev_inode(&metadata),
            length: metadata.len(),
            modified: metadata.modified().ok(),
        };
        if let Some(cached) = self.digests.borrow().get(&identity) {
            return cached.clone();
        }
        let digest = self.read(file, metadata.len()).ok();
        self.digests.borrow_mut().insert(identity, digest.clone());
        digest
    }

    fn read(&self, file: File, length: u64) -> io::Result<String> {
        if length > self.remaining_bytes.get() {
            return Err(io::ErrorKind::FileTooLarge.into());
        }
        let mut remaining_bytes = self.remaining_bytes.get();
        let digest = digest(file, &mut remaining_bytes);
        self.remaining_bytes.set(remaining_bytes);
        digest
    }
}

/// The hexadecimal SHA-256 of a file. Subtracts the bytes that it reads from `remaining_bytes`, and
/// fails if there are more: the file may grow while it is read.
pub(super) fn digest(mut file: impl Read, remaining_bytes: &mut u64) -> io::Result<String> {
    let mut hash = Sha256::new();
    let mut buffer = vec![0; 64 * 1024];
    loop {
        let read = file.read(&mut buffer)?;
        if read == 0 {
            return Ok(hex(&hash.finalize()));
        }
        let remaining = remaining_bytes.checked_sub(read as u64);
        *remaining_bytes = remaining.unwrap_or_default();
        if remaining.is_none() {
            return Err(io::ErrorKind::FileTooLarge.into());
        }
        hash.update(buffer.get(..read).unwrap_or_default());
    }
}

fn dev_inode(metadata: &Metadata) -> (u64, u64) {
    #[cfg(unix)]
    {
        use std::os::unix::fs::MetadataExt as _;
        (metadata.dev(), metadata.ino())
    }
    #[cfg(not(unix))]
    {
        let _ = metadata;
        (0, 0)
    }
}

pub(super) fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        // Writing to a string cannot fail.
        let _ = write!(text, "{byte:02x}");
        text
    })
}
