//! The content of programs, read once and not without end.
//!
//! A project can name one large file in many entries. Invariant: one load reads each file once, and of
//! all files together no more than [`BUDGET`].

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::fmt::Write as _;
use std::fs::{File, Metadata};
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use sha2::{Digest, Sha256};

/// How much is read, of all programs together.
const BUDGET: u64 = 256 * 1024 * 1024;

/// The digests of one load.
#[derive(Debug)]
pub(crate) struct Digests {
    known: RefCell<HashMap<Identity, Option<String>>>,
    left: Cell<u64>,
}

/// What tells a file from another, and from itself after a change.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Identity {
    path: PathBuf,
    place: (u64, u64),
    length: u64,
    changed: Option<SystemTime>,
}

impl Default for Digests {
    fn default() -> Self {
        Self {
            known: RefCell::default(),
            left: Cell::new(BUDGET),
        }
    }
}

impl Digests {
    /// The digest of a file; `None` if it cannot be read, or not any more.
    pub(super) fn of(&self, path: &Path) -> Option<String> {
        let file = File::open(path).ok()?;
        let metadata = file.metadata().ok()?;
        let identity = Identity {
            path: path.to_owned(),
            place: place(&metadata),
            length: metadata.len(),
            changed: metadata.modified().ok(),
        };
        if let Some(known) = self.known.borrow().get(&identity) {
            return known.clone();
        }
        let digest = self.read(file, metadata.len()).ok();
        self.known.borrow_mut().insert(identity, digest.clone());
        digest
    }

    fn read(&self, mut file: File, length: u64) -> io::Result<String> {
        if length > self.left.get() {
            return Err(io::ErrorKind::FileTooLarge.into());
        }
        let mut hash = Sha256::new();
        let mut buffer = vec![0; 64 * 1024];
        loop {
            let read = file.read(&mut buffer)?;
            if read == 0 {
                return Ok(hex(&hash.finalize()));
            }
            // It may grow while it is read.
            let left = self.left.get().checked_sub(read as u64);
            self.left.set(left.unwrap_or_default());
            if left.is_none() {
                return Err(io::ErrorKind::FileTooLarge.into());
            }
            hash.update(buffer.get(..read).unwrap_or_default());
        }
    }
}

fn place(metadata: &Metadata) -> (u64, u64) {
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
