//! Small files that say which hosts are running: one each, named by its tag.
//!
//! A host removes its own at its end. A file whose host is gone tells the next start that there may
//! be something left. Invariant: a file that is not exactly such a record leads to no signal, and
//! nothing outside of the folder is ever read, followed or removed.

use std::fs::{self, DirBuilder, Metadata, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

use switchboard::process::{HostId, HostLiveness, HostRecord, kill_leftovers};

/// A record is far shorter.
const MAX_RECORD_BYTES: u64 = 512;

/// A file that is empty for longer than this is not just being written.
const EMPTY_FILE_GRACE: Duration = Duration::from_secs(60);

/// The folder with the files.
#[derive(Debug)]
pub(super) struct HostRecords {
    folder: PathBuf,
}

/// The file of a host of this process. It is removed when this is dropped, unless in a panic: then
/// the next start shall have a look.
#[derive(Debug)]
pub(super) struct HostRecordFile {
    path: PathBuf,
}

/// What a file turned out to be.
enum RecordState {
    /// Of a host that is gone: to be cleaned up after.
    Stale(HostRecord),
    /// Of no use to anybody.
    Invalid,
    /// None of our business.
    Other,
}

impl HostRecords {
    pub(super) fn new(folder: PathBuf) -> Self {
        Self { folder }
    }

    /// Writes down that this process has a host with this tag.
    pub(super) fn write(&self, tag: HostId) -> io::Result<HostRecordFile> {
        let record = HostRecord::of_this_process(tag)?;
        DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(&self.folder)?;
        if !self.is_ours() {
            return Err(io::Error::other("its folder is not ours"));
        }
        let path = self.folder.join(tag.to_string());
        let mut file = OpenOptions::new()
            .write(true)
            .create_new(true)
            .mode(0o600)
            .open(&path)?;
        let written = HostRecordFile { path };
        // In one write: whoever reads meanwhile sees nothing or all of it.
        file.write_all(record.to_string().as_bytes())?;
        Ok(written)
    }

    /// Ends what hosts left that are gone, and forgets them. Returns how many processes there were.
    pub(super) fn clean_up(&self) -> usize {
        if !self.is_ours() {
            return 0;
        }
        let mut stale = Vec::new();
        let mut done_with = Vec::new();
        for entry in fs::read_dir(&self.folder).into_iter().flatten().flatten() {
            match examine(&entry.path()) {
                RecordState::Stale(record) => stale.push(record),
                RecordState::Invalid => {}
                RecordState::Other => continue,
            }
            done_with.push(entry.path());
        }
        let ended = kill_leftovers(&stale);
        for path in done_with {
            // Another start may have done it.
            fs::remove_file(path).ok();
        }
        ended
    }

    /// A folder of ours, and not a way to somewhere else.
    fn is_ours(&self) -> bool {
        let metadata = fs::symlink_metadata(&self.folder);
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
    let Some(Ok(tag)) = name.map(str::parse::<HostId>) else {
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
    match record.filter(|record| record.host() == tag) {
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

    fn names(folder: &Path) -> Vec<String> {
        let mut names: Vec<_> = fs::read_dir(folder)
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        names
    }

    #[test]
    fn a_record_is_private_and_goes_with_its_host() {
        let folder = tempfile::tempdir().unwrap();
        let folder = folder.path().join("a/hosts");
        let records = HostRecords::new(folder.clone());
        let tag = HostId::new();
        let record = records.write(tag).unwrap();
        assert_eq!(names(&folder), [tag.to_string()]);
        let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!((mode(&folder), mode(&record.path)), (0o700, 0o600));
        // The host of the record is this very process.
        assert_eq!(records.clean_up(), 0);
        assert_eq!(names(&folder), [tag.to_string()]);
        drop(record);
        assert_eq!(names(&folder), [""; 0]);
    }

    #[test]
    fn what_is_no_record_is_removed_or_left_but_never_followed() {
        let root = tempfile::tempdir().unwrap();
        let folder = root.path().join("hosts");
        fs::create_dir(&folder).unwrap();
        let write = |name: &str, text: &str| fs::write(folder.join(name), text).unwrap();
        let tags: Vec<_> = (0..6).map(|_| HostId::new().to_string()).collect();
        let outside = root.path().join("precious");
        fs::write(&outside, "precious").unwrap();

        write("notes.txt", "not ours");
        symlink(&outside, folder.join(&tags[0])).unwrap();
        fs::create_dir(folder.join(&tags[1])).unwrap();
        write(&tags[2], "");
        let mut left = vec!["notes.txt".to_owned()];
        left.extend_from_slice(&tags[..3]);
        left.sort();

        write(&tags[3], "nonsense");
        write(&tags[4], &"x".repeat(1000));
        let record = HostRecord::of_this_process(HostId::new()).unwrap();
        write(&tags[5], &record.to_string());
        assert_eq!(HostRecords::new(folder.clone()).clean_up(), 0);
        assert_eq!(names(&folder), left);
        assert_eq!(fs::read_to_string(&outside).unwrap(), "precious");
    }

    #[test]
    fn a_folder_that_leads_elsewhere_is_not_used() {
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
