//! A program file that was opened and hashed once, for the start of an approved program.
//!
//! Invariant: the digest is that of the open file, not of another file that replaces it at its path.

use std::fs::{self, File, Metadata};
use std::io::{self, Read as _, Seek as _};
use std::path::Path;
use std::time::{Duration, SystemTime};

use super::program_digest::{MAX_TOTAL_BYTES, digest};

/// Start of every binary that the kernel executes by itself. Everything else has an interpreter,
/// which opens the file by its path.
const ELF_MAGIC: &[u8; 4] = b"\x7fELF";

/// Maximum difference between two changes with the same timestamp: one tick of the slowest kernel
/// clock, doubled.
const TIMESTAMP_STEP: Duration = Duration::from_millis(20);
/// A script that changes this often in a row while it is checked counts as changed.
const MAX_RECENT_CHANGES: usize = 5;

/// An open file and its digest.
#[derive(Debug)]
pub(super) struct CheckedFile {
    pub(super) file: File,
    /// The hexadecimal SHA-256 of the content.
    pub(super) digest: String,
    pub(super) version: FileVersion,
    /// The kernel executes the file itself, without an interpreter.
    pub(super) is_binary: bool,
}

impl CheckedFile {
    /// Opens and hashes a file.
    pub(super) fn open(path: &Path) -> io::Result<Self> {
        let mut file = File::open(path)?;
        let mut start = Vec::new();
        (&mut file).take(4).read_to_end(&mut start)?;
        let is_binary = cfg!(target_os = "linux") && start == ELF_MAGIC;
        if !is_binary {
            wait_for_distinct_timestamp(&file)?;
        }
        // Before the content is read: a change during the read must change the version.
        let version = FileVersion::of(&file.metadata()?);
        Ok(Self {
            digest: digest_from_start(&file)?,
            version,
            is_binary,
            file,
        })
    }

    /// Fails if the content of the open file changed.
    pub(super) fn recheck(&self) -> io::Result<()> {
        if digest_from_start(&self.file)? == self.digest {
            Ok(())
        } else {
            Err(io::Error::other("the content changed"))
        }
    }
}

fn digest_from_start(mut file: &File) -> io::Result<String> {
    file.rewind()?;
    digest(file, &mut MAX_TOTAL_BYTES.clone())
}

/// Waits until the next change of the file gets another timestamp. Otherwise a file that is
/// replaced and put back quickly would keep its [`FileVersion`].
#[expect(
    clippy::disallowed_methods,
    reason = "blocks like the reads around it; there is no runtime"
)]
fn wait_for_distinct_timestamp(file: &File) -> io::Result<()> {
    for _ in 0..MAX_RECENT_CHANGES {
        let changed = FileVersion::of(&file.metadata()?).changed_at();
        // A timestamp in the future comes from another clock, and waiting does not help.
        let age = SystemTime::now().duration_since(changed);
        match age.map(|age| TIMESTAMP_STEP.checked_sub(age)) {
            Ok(Some(rest)) => std::thread::sleep(rest),
            _ => return Ok(()),
        }
    }
    Err(io::Error::other("the file keeps changing"))
}

/// Identifies a file and its last change. A change of the content, a rename and a change of the
/// timestamps each give the file another version.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct FileVersion {
    dev_inode: (u64, u64),
    length: u64,
    /// Seconds and nanoseconds since 1970. Programs cannot set this time.
    changed: (i64, i64),
}

impl FileVersion {
    /// The version of the file or symbolic link at a path.
    pub(super) fn of_link(path: &Path) -> io::Result<Self> {
        fs::symlink_metadata(path).map(|metadata| Self::of(&metadata))
    }

    #[cfg(unix)]
    fn of(metadata: &Metadata) -> Self {
        use std::os::unix::fs::MetadataExt as _;
        Self {
            dev_inode: (metadata.dev(), metadata.ino()),
            length: metadata.len(),
            changed: (metadata.ctime(), metadata.ctime_nsec()),
        }
    }

    #[cfg(not(unix))]
    fn of(metadata: &Metadata) -> Self {
        let modified = metadata.modified().ok();
        let since_1970 = modified.and_then(|at| at.duration_since(SystemTime::UNIX_EPOCH).ok());
        let since_1970 = since_1970.unwrap_or_default();
        Self {
            dev_inode: (0, 0),
            length: metadata.len(),
            changed: (
                since_1970.as_secs().try_into().unwrap_or(i64::MAX),
                since_1970.subsec_nanos().into(),
            ),
        }
    }

    fn changed_at(&self) -> SystemTime {
        let (seconds, nanos) = self.changed;
        let since_1970 = Duration::from_secs(seconds.try_into().unwrap_or(0))
            + Duration::from_nanos(nanos.try_into().unwrap_or(0));
        SystemTime::UNIX_EPOCH + since_1970
    }
}
