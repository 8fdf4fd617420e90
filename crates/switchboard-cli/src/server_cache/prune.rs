//! Deletes old files of a [`FileServerCache`].
//!
//! Invariant: only regular files are deleted, and only if the cache can have written them: a key
//! with the extension `json`, or a temporary file of a write that was interrupted.

use std::ffi::OsStr;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use super::{FileServerCache, is_plain_key};

/// A temporary file that is older than this was left by an interrupted write.
const TEMP_MAX_AGE: Duration = Duration::from_secs(60 * 60);

struct CacheFile {
    path: PathBuf,
    age: Duration,
    bytes: u64,
    is_temporary: bool,
}

impl FileServerCache {
    /// Deletes files that were written or confirmed more than `max_age` ago. If the remaining files
    /// are larger than `max_total_bytes` in total, also deletes the oldest of them. Returns the
    /// number of deleted files. Blocks the thread while it accesses the file system.
    pub(crate) fn prune(&self, max_age: Duration, max_total_bytes: u64) -> io::Result<usize> {
        let entries = match fs::read_dir(&self.directory) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(0),
            entries => entries?,
        };
        let now = SystemTime::now();
        let entries = entries.flatten();
        let mut files: Vec<_> = entries
            .filter_map(|entry| CacheFile::from_entry(&entry, now))
            .collect();
        files.sort_by_key(|file| std::cmp::Reverse(file.age));
        let mut bytes: u64 = files.iter().map(|file| file.bytes).sum();
        let mut removed = 0;
        for file in files {
            let is_old = file.age > max_age || file.is_temporary && file.age > TEMP_MAX_AGE;
            if !is_old && (bytes <= max_total_bytes || file.is_temporary) {
                continue;
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

impl CacheFile {
    fn from_entry(entry: &fs::DirEntry, now: SystemTime) -> Option<Self> {
        let path = entry.path();
        let name = entry.file_name();
        let name = Path::new(name.to_str()?);
        let stem = name.file_stem().and_then(OsStr::to_str)?;
        let temporary_key = stem.strip_prefix('.');
        let is_cache_file = name.extension() == Some(OsStr::new("json")) && temporary_key.is_none();
        if !is_plain_key(temporary_key.unwrap_or(stem)) || !is_cache_file && temporary_key.is_none()
        {
            return None;
        }
        // `DirEntry::metadata` does not follow symbolic links.
        let metadata = entry.metadata().ok().filter(fs::Metadata::is_file)?;
        // A modification time in the future counts as age zero.
        let age = now.duration_since(metadata.modified().ok()?);
        Some(Self {
            path,
            age: age.unwrap_or_default(),
            bytes: metadata.len(),
            is_temporary: temporary_key.is_some(),
        })
    }
}
