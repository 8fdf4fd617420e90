//! The file on disk: found, locked, read, and replaced as a whole.
//!
//! The lock is on the folder, which is there before the file is and leaves nothing behind in a project.
//! It binds only those who ask for it, so what is replaced is compared with what was read.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use super::EditError;
use crate::raw::{ReadError, read_file};

/// How long somebody else may edit before we give up. An edit takes milliseconds.
const PATIENCE: Duration = Duration::from_secs(5);
/// How long to wait before looking at the lock again.
const PAUSE: Duration = Duration::from_millis(5);
/// As many links are followed as the system would.
const MAX_LINKS: usize = 40;

#[derive(Debug)]
pub(super) struct Stored {
    file: PathBuf,
    /// What was read; `None`: the file did not exist.
    bytes: Option<Vec<u8>>,
    readable_by_others: bool,
    /// The folder, locked as long as it is open.
    folder: File,
}

impl Stored {
    /// `within`: the folder that links must not lead out of.
    pub(super) fn open(path: &Path, within: Option<&Path>) -> Result<Self, EditError> {
        let file = follow_links(path).map_err(|error| EditError::unwritable(path, error))?;
        let failed = |error| EditError::unwritable(&file, error);
        let parent = folder_of(&file);
        // Before anything is made there.
        if file != path && within.is_some_and(|root| !is_within(parent, root)) {
            return Err(EditError::LeadsOut {
                file: path.to_path_buf(),
                target: file,
            });
        }
        make_folder(parent).map_err(failed)?;
        let folder = File::open(parent).map_err(failed)?;
        if !lock(&folder).map_err(failed)? {
            return Err(EditError::Locked { file });
        }
        let bytes = read(&file)?;
        Ok(Self {
            file,
            bytes,
            readable_by_others: false,
            folder,
        })
    }

    pub(super) fn file(&self) -> &Path {
        &self.file
    }

    pub(super) fn bytes(&self) -> &[u8] {
        self.bytes.as_deref().unwrap_or_default()
    }

    pub(super) fn readable_by_others(&mut self) {
        self.readable_by_others = true;
    }

    pub(super) fn replace(&self, bytes: &[u8]) -> Result<(), EditError> {
        if self.bytes.as_deref() == Some(bytes) {
            return Ok(());
        }
        let failed = |error| EditError::unwritable(&self.file, error);
        let draft = Draft::write(self, bytes).map_err(failed)?;
        if read(&self.file)? != self.bytes {
            return Err(EditError::ChangedMeanwhile {
                file: self.file.clone(),
            });
        }
        draft.put_in_place(&self.file).map_err(failed)?;
        // Without it the new name may be gone after a power cut, though not the old content.
        self.folder.sync_all().map_err(failed)
    }
}

/// The new content under a name of its own, which is gone when it was not put in place.
struct Draft {
    path: Option<PathBuf>,
}

impl Draft {
    fn write(stored: &Stored, bytes: &[u8]) -> io::Result<Self> {
        let name = stored.file.file_name().unwrap_or_default();
        let name = format!(".{}.{}.new", name.to_string_lossy(), std::process::id());
        let path = stored.file.with_file_name(name);
        // Whoever holds the lock is the only one with this name, so one that is there was left behind.
        let _ = fs::remove_file(&path);
        let mut options = OpenOptions::new();
        options.write(true).create_new(true);
        // Whether it is still there is told by the comparison.
        let old = fs::metadata(&stored.file).ok();
        if old.as_ref().is_some_and(|old| old.permissions().readonly()) {
            return Err(io::Error::new(
                io::ErrorKind::PermissionDenied,
                "it is read-only",
            ));
        }
        #[cfg(unix)]
        {
            use std::os::unix::fs::OpenOptionsExt as _;
            let is_open = stored.readable_by_others && old.is_none();
            options.mode(if is_open { 0o666 } else { 0o600 });
        }
        let mut file = options.open(&path)?;
        let draft = Self { path: Some(path) };
        if let Some(old) = old {
            keep_owner(&file, &old);
            file.set_permissions(old.permissions())?;
        }
        file.write_all(bytes)?;
        file.sync_all()?;
        Ok(draft)
    }

    fn put_in_place(mut self, file: &Path) -> io::Result<()> {
        if let Some(path) = &self.path {
            fs::rename(path, file)?;
        }
        self.path = None;
        Ok(())
    }
}

impl Drop for Draft {
    fn drop(&mut self) {
        if let Some(path) = &self.path {
            let _ = fs::remove_file(path);
        }
    }
}

/// An administrator who edits somebody's file does not take it from them. Nobody else can give files
/// away, and then it is theirs already.
fn keep_owner(file: &File, old: &fs::Metadata) {
    #[cfg(unix)]
    {
        use std::os::unix::fs::{MetadataExt as _, fchown};
        let _ = fchown(file, Some(old.uid()), Some(old.gid()));
    }
    #[cfg(not(unix))]
    let _ = (file, old);
}

fn read(file: &Path) -> Result<Option<Vec<u8>>, EditError> {
    match read_file(file) {
        Ok(bytes) => Ok(Some(bytes)),
        Err(ReadError::Missing) => Ok(None),
        Err(error) => Err(EditError::unreadable(file, &error)),
    }
}

/// The file that `path` means in the end, whether or not it exists: a link stays a link.
pub(crate) fn follow_links(path: &Path) -> io::Result<PathBuf> {
    let mut file = path.to_path_buf();
    for _ in 0..MAX_LINKS {
        let is_link = fs::symlink_metadata(&file).is_ok_and(|found| found.is_symlink());
        if !is_link {
            return Ok(file);
        }
        let target = fs::read_link(&file)?;
        file = file.parent().unwrap_or(Path::new("")).join(target);
    }
    Err(io::Error::other("too many links lead from one to the next"))
}

fn folder_of(file: &Path) -> &Path {
    match file.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    }
}

/// Whether a folder is `root` or lies in it. One that does not exist lies nowhere.
fn is_within(folder: &Path, root: &Path) -> bool {
    let real = fs::canonicalize(folder)
        .ok()
        .zip(fs::canonicalize(root).ok());
    real.is_some_and(|(folder, root)| folder.starts_with(root))
}

fn make_folder(folder: &Path) -> io::Result<()> {
    let mut builder = DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    {
        use std::os::unix::fs::DirBuilderExt as _;
        builder.mode(0o700);
    }
    builder.create(folder)
}

/// Locks the folder until it is closed. False: somebody else does not let go of it.
fn lock(folder: &File) -> io::Result<bool> {
    let until = Instant::now() + PATIENCE;
    while !try_lock(folder)? {
        if Instant::now() >= until {
            return Ok(false);
        }
        // Not a sleep of anybody's clock: this is called where one may block.
        std::thread::park_timeout(PAUSE);
    }
    Ok(true)
}

#[cfg(unix)]
pub(crate) fn try_lock(folder: &File) -> io::Result<bool> {
    use rustix::fs::{FlockOperation, flock};
    use rustix::io::Errno;

    match flock(folder, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => Ok(true),
        Err(Errno::WOULDBLOCK | Errno::INTR) => Ok(false),
        // A file system without such locks: the comparison when writing is what is left.
        Err(Errno::BADF | Errno::INVAL | Errno::NOLCK | Errno::OPNOTSUPP | Errno::NOSYS) => {
            Ok(true)
        }
        Err(error) => Err(error.into()),
    }
}

#[cfg(not(unix))]
pub(crate) fn try_lock(_folder: &File) -> io::Result<bool> {
    Ok(true)
}
