//! What a [`DirectoryResultStore`] has kept for long enough.
//!
//! Invariant: only regular files with a name that we make are removed, and no link is followed.

use std::fs;
use std::io;
use std::path::PathBuf;
use std::time::{Duration, SystemTime};

use super::{DirectoryResultStore, ResultHandle, check_private};

/// No ending that we give is longer.
const LONGEST_ENDING: usize = 4;

/// A file of ours.
struct Kept {
    modified: SystemTime,
    bytes: u64,
    path: PathBuf,
}

impl DirectoryResultStore {
    /// Removes what was kept longer than `older_than` ago, and of the rest the oldest as long as all of
    /// it has more than `most_bytes`. Says how many files are gone.
    ///
    /// Anything in the directory that is not ours stays, and so does a file that cannot be removed. It
    /// blocks for as long as the directory takes to be read.
    pub fn prune(&self, older_than: Duration, most_bytes: u64) -> io::Result<usize> {
        match check_private(&self.directory) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(0),
            checked => checked?,
        }
        let entries = fs::read_dir(&self.directory)?.flatten();
        let mut kept: Vec<_> = entries.filter_map(|entry| Kept::of(&entry)).collect();
        kept.sort_by_key(|file| file.modified);
        let now = SystemTime::now();
        let mut bytes = kept.iter().map(|file| file.bytes).sum::<u64>();
        let mut removed = 0;
        for file in kept {
            // What is from the future is new.
            let age = now.duration_since(file.modified).unwrap_or_default();
            if age <= older_than && bytes <= most_bytes {
                break;
            }
            // Another program may have been faster, and then it is gone too.
            if fs::remove_file(&file.path).is_ok() {
                removed += 1;
            }
            bytes = bytes.saturating_sub(file.bytes);
        }
        Ok(removed)
    }
}

impl Kept {
    fn of(entry: &fs::DirEntry) -> Option<Self> {
        is_ours(entry.file_name().to_str()?).then_some(())?;
        // Of a link it is the link's own.
        let metadata = entry.metadata().ok().filter(fs::Metadata::is_file)?;
        Some(Self {
            modified: metadata.modified().ok()?,
            bytes: metadata.len(),
            path: entry.path(),
        })
    }
}

/// A handle, and an ending where it is a file to open.
fn is_ours(name: &str) -> bool {
    let is_letter = |byte| matches!(byte, b'a'..=b'z' | b'0'..=b'9');
    let (handle, ending) = match name.split_once('.') {
        Some((handle, ending)) => (handle, Some(ending)),
        None => (name, None),
    };
    handle.parse::<ResultHandle>().is_ok()
        && ending.is_none_or(|ending| {
            (1..=LONGEST_ENDING).contains(&ending.len()) && ending.bytes().all(is_letter)
        })
}
