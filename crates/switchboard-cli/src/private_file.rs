//! Output files that only their owner can read, such as logs and traces.

use std::fs::{File, OpenOptions, Permissions};
use std::io;
use std::os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _};
use std::path::Path;

use rustix::fs::OFlags;
use rustix::io::Errno;

use crate::failure::Failure;

/// Opens a file that only its owner may read, and empties it. A link is not followed: whoever put it
/// there would choose which file is emptied.
pub(crate) fn create_private(path: &Path) -> Result<File, Failure> {
    open_private(path).map_err(|error| {
        let failed = |why: &str| Failure::usage(format!("cannot write {}: {why}", path.display()));
        match Errno::from_io_error(&error) {
            Some(Errno::LOOP) => failed("it is a link").hint("name the file itself"),
            _ => failed(&error.to_string()),
        }
    })
}

fn open_private(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.write(true).create(true).truncate(true).mode(0o600);
    if !is_system_path(path) {
        options.custom_flags(OFlags::NOFOLLOW.bits().cast_signed());
    }
    let file = options.open(path)?;
    // The file may have been there before; a terminal or a pipe is not ours to change.
    if file.metadata()?.is_file() {
        file.set_permissions(Permissions::from_mode(0o600))?;
    }
    Ok(file)
}

/// `/dev/stderr` and `/proc/self/fd/3` are links too, and nobody else can put one there.
fn is_system_path(path: &Path) -> bool {
    let folder = path.parent().and_then(|folder| folder.canonicalize().ok());
    folder.is_some_and(|folder| folder == Path::new("/dev") || folder.starts_with("/proc"))
}
