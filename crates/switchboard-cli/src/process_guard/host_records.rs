//! Files that list running hosts, one per host, named by the host's id.
//!
//! The file is removed when the host shuts down. If a file exists but the process of the host is
//! gone, the next start of this program kills the processes that the host left behind. Invariant:
//! only a valid record leads to a signal, and no file outside the directory of the records is read
//! or removed.

use std::fs::{self, DirBuilder, Metadata, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

use switchboard::process::{HostId, HostLiveness, HostRecord, kill_leftovers};

/// Maximum bytes of a record. A longer file is invalid; a valid record is much shorter.
const MAX_RECORD_BYTES: u64 = 512;

/// An empty file younger than this is not removed: another process may have created it and not yet
/// written the record.
const EMPTY_FILE_GRACE: Duration = Duration::from_secs(60);

/// The directory with the records of all running hosts of this user.
#[derive(Debug)]
pub(super) struct HostRecords {
    directory: PathBuf,
}

/// The record of one host of this process. Dropping this value removes the file, except during a
/// panic: the next start of this program then cleans up after the host.
#[derive(Debug)]
pub(super) struct HostRecordFile {
    path: PathBuf,
}

/// What a file in the directory of the records contains, and so what to do with it.
enum RecordState {
    /// The host process is gone and may have left processes behind.
    Stale(HostRecord),
    /// The content is not a record, or is from before the last boot. The file is removed.
    Invalid,
    /// The record of a running host, a new empty file whose record may follow, or a file that no
    /// host of this user wrote. The file is kept.
    Other,
}

impl HostRecords {
    pub(super) fn new(directory: PathBuf) -> Self {
        Self { directory }
    }

    /// Writes the record of a host of this process.
    pub(super) fn write(&self, id: HostId) -> io::Result<HostRecordFile> {
        let record = HostRecord::of_this_process(id)?;
        DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(&self.directory)?;
        if !self.is_ours() {
            return Err(io::Error::other(
                "the directory belongs to another user or is a symbolic link",
            ));
        }
        let path = self.directory.join(id.to_string());
        let mut file = OpenOptions::new()
            .write(true)
            .create_new(true)
            .mode(0o600)
            .open(&path)?;
        let record_file = HostRecordFile { path };
        // Write the record in one call, so that a concurrent reader sees either nothing or the
        // whole record.
        file.write_all(record.to_string().as_bytes())?;
        Ok(record_file)
    }

    /// Kills the processes that dead hosts left behind and removes their records. Returns the
    /// number of killed processes.
    pub(super) fn clean_up(&self) -> usize {
        if !self.is_ours() {
            return 0;
        }
        let mut stale = Vec::new();
        let mut outdated = Vec::new();
        for entry in fs::read_dir(&self.directory)
            .into_iter()
            .flatten()
            .flatten()
        {
            match examine(&entry.path()) {
                RecordState::Stale(record) => stale.push(record),
                RecordState::Invalid => {}
                RecordState::Other => continue,
            }
            outdated.push(entry.path());
        }
        let killed = kill_leftovers(&stale);
        for path in outdated {
            // Ignore the error: another process may have removed the file already.
            fs::remove_file(path).ok();
        }
        killed
    }

    /// Whether the path is a directory that this user owns, and not a symbolic link.
    fn is_ours(&self) -> bool {
        let metadata = fs::symlink_metadata(&self.directory);
        metadata.is_ok_and(|metadata| metadata.is_dir() && is_owned(&metadata))
    }
}

impl Drop for HostRecordFile {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            fs::remove_file(&self.path).ok();
        }
    }
}

fn is_owned(metadata: &Metadata) -> bool {
    metadata.uid() == rustix::process::geteuid().as_raw()
}

fn examine(path: &Path) -> RecordState {
    let name = path.file_name().and_then(|name| name.to_str());
    let Some(Ok(id)) = name.map(str::parse::<HostId>) else {
        return RecordState::Other;
    };
    match fs::symlink_metadata(path) {
        Ok(file) if !file.is_file() || !is_owned(&file) => return RecordState::Other,
        Ok(file) if file.len() > MAX_RECORD_BYTES => return RecordState::Invalid,
        Ok(file) if file.len() == 0 && !is_old(&file) => return RecordState::Other,
        Ok(_) => {}
        Err(_) => return RecordState::Other,
    }
    let record = fs::read_to_string(path).ok();
    let record = record.and_then(|text| text.parse::<HostRecord>().ok());
    match record.filter(|record| record.host() == id) {
        Some(record) => match record.liveness() {
            HostLiveness::Gone => RecordState::Stale(record),
            HostLiveness::BeforeReboot => RecordState::Invalid,
            _ => RecordState::Other,
        },
        None => RecordState::Invalid,
    }
}

fn is_old(file: &Metadata) -> bool {
    let age = file.modified().ok().and_then(|time| time.elapsed().ok());
    age.is_some_and(|age| age > EMPTY_FILE_GRACE)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt as _, symlink};

    use super::*;

    fn names(directory: &Path) -> Vec<String> {
        let mut names: Vec<_> = fs::read_dir(directory)
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        names
    }

    #[test]
    fn record_is_private_and_removed_with_host() {
        let directory = tempfile::tempdir().unwrap();
        let directory = directory.path().join("a/hosts");
        let records = HostRecords::new(directory.clone());
        let id = HostId::new();
        let record = records.write(id).unwrap();
        assert_eq!(names(&directory), [id.to_string()]);
        let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!((mode(&directory), mode(&record.path)), (0o700, 0o600));
        // The record belongs to this process, which is alive.
        assert_eq!(records.clean_up(), 0);
        assert_eq!(names(&directory), [id.to_string()]);
        drop(record);
        assert_eq!(names(&directory), [""; 0]);
    }

    #[test]
    fn invalid_records_are_never_followed() {
        let root = tempfile::tempdir().unwrap();
        let directory = root.path().join("hosts");
        fs::create_dir(&directory).unwrap();
        let write = |name: &str, text: &str| fs::write(directory.join(name), text).unwrap();
        let ids: Vec<_> = (0..6).map(|_| HostId::new().to_string()).collect();
        let outside = root.path().join("precious");
        fs::write(&outside, "precious").unwrap();

        write("notes.txt", "not ours");
        symlink(&outside, directory.join(&ids[0])).unwrap();
        fs::create_dir(directory.join(&ids[1])).unwrap();
        write(&ids[2], "");
        let mut left = vec!["notes.txt".to_owned()];
        left.extend_from_slice(&ids[..3]);
        left.sort();

        write(&ids[3], "nonsense");
        write(&ids[4], &"x".repeat(1000));
        let record = HostRecord::of_this_process(HostId::new()).unwrap();
        write(&ids[5], &record.to_string());
        assert_eq!(HostRecords::new(directory.clone()).clean_up(), 0);
        assert_eq!(names(&directory), left);
        assert_eq!(fs::read_to_string(&outside).unwrap(), "precious");
    }

    #[test]
    fn symlinked_folder_is_not_used() {
        let root = tempfile::tempdir().unwrap();
        let elsewhere = root.path().join("elsewhere");
        fs::create_dir(&elsewhere).unwrap();
        let nonsense = HostId::new().to_string();
        fs::write(elsewhere.join(&nonsense), "nonsense").unwrap();
        symlink(&elsewhere, root.path().join("hosts")).unwrap();
        let records = HostRecords::new(root.path().join("hosts"));
        assert!(records.write(HostId::new()).is_err());
        assert_eq!(records.clean_up(), 0);
        assert_eq!(names(&elsewhere), [nonsense]);
    }
}
