//! Creates output files that only their owner can read: logs and traces.
//!
//! Invariant: if the output file is a symbolic link, the link is not followed, except in `/dev` and
//! `/proc`.

use std::fs::{File, OpenOptions, Permissions};
use std::io;
use std::os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _};
use std::path::Path;

use rustix::fs::OFlags;
use rustix::io::Errno;

use crate::failure::Failure;

/// Creates or truncates a file with mode 0600. A symbolic link is not followed: whoever created the
/// link could choose which file is truncated.
pub(crate) fn create_private(path: &Path) -> Result<File, Failure> {
    open_private(path).map_err(|error| {
        let failed = |why: &str| Failure::usage(format!("cannot write {}: {why}", path.display()));
        match Errno::from_io_error(&error) {
            Some(Errno::LOOP) => failed("it is a symbolic link").hint("pass the real file path"),
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
    // Set the mode again: `open` does not change the mode of an existing file. The modes of
    // terminals and pipes stay the same.
    if file.metadata()?.is_file() {
        file.set_permissions(Permissions::from_mode(0o600))?;
    }
    Ok(file)
}

/// Whether the path is in `/dev` or `/proc`, where links such as `/dev/stderr` come from the
/// system.
fn is_system_path(path: &Path) -> bool {
    let directory = path
        .parent()
        .and_then(|directory| directory.canonicalize().ok());
    directory
        .is_some_and(|directory| directory == Path::new("/dev") || directory.starts_with("/proc"))
}
