//! Deletes old files of a [`DirectoryResultStore`].
//!
//! Invariant: only regular files are deleted, and only if their name has the format that the store
//! uses. Symbolic links are not followed.

use std::fs;
use std::io;
use std::path::PathBuf;
use std::time::{Duration, SystemTime};

use super::{DirectoryResultStore, ResultHandle, check_private_dir};

/// The length of the longest extension in [`FileType::extension`](super::FileType::extension).
const MAX_EXTENSION_LEN: usize = 4;

/// A regular file in the directory of the store. The file name has the format that the store uses.
struct StoredFile {
    modified: SystemTime,
    bytes: u64,
    path: PathBuf,
}

impl DirectoryResultStore {
    /// Deletes files older than `max_age`. If the remaining files are larger than `max_total_bytes`
    /// in total, also deletes the oldest of them. Returns the number of deleted files.
    ///
    /// Does not delete files whose names do not have the format that the store uses. Skips files
    /// that cannot be deleted. Blocks the thread while it accesses the file system.
    pub fn prune(&self, max_age: Duration, max_total_bytes: u64) -> io::Result<usize> {
        match check_private_dir(&self.directory) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(0),
            checked => checked?,
        }
        let entries = fs::read_dir(&self.directory)?.flatten();
        let mut files: Vec<_> = entries
            .filter_map(|entry| StoredFile::from_entry(&entry))
            .collect();
        files.sort_by_key(|file| file.modified);
        let now = SystemTime::now();
        let mut bytes = files.iter().map(|file| file.bytes).sum::<u64>();
        let mut removed = 0;
        for file in files {
            // A modification time in the future counts as age zero.
            let age = now.duration_since(file.modified).unwrap_or_default();
            if age <= max_age && bytes <= max_total_bytes {
                break;
            }
            // Deleting fails if another process has deleted the file in the meantime.
            if fs::remove_file(&file.path).is_ok() {
                removed += 1;
            }
            bytes = bytes.saturating_sub(file.bytes);
        }
        Ok(removed)
    }
}

impl StoredFile {
    fn from_entry(entry: &fs::DirEntry) -> Option<Self> {
        is_result_file_name(entry.file_name().to_str()?).then_some(())?;
        // `DirEntry::metadata` does not follow symbolic links.
        let metadata = entry.metadata().ok().filter(fs::Metadata::is_file)?;
        Some(Self {
            modified: metadata.modified().ok()?,
            bytes: metadata.len(),
            path: entry.path(),
        })
    }
}

/// Whether the name is a [`ResultHandle`], alone or with an extension of at most
/// [`MAX_EXTENSION_LEN`] characters.
fn is_result_file_name(name: &str) -> bool {
    let is_extension_char = |byte| matches!(byte, b'a'..=b'z' | b'0'..=b'9');
    let (handle, extension) = match name.split_once('.') {
        Some((handle, extension)) => (handle, Some(extension)),
        None => (name, None),
    };
    handle.parse::<ResultHandle>().is_ok()
        && extension.is_none_or(|extension| {
            (1..=MAX_EXTENSION_LEN).contains(&extension.len())
                && extension.bytes().all(is_extension_char)
        })
}
