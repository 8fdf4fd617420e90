//! Finds an executable, on `PATH` or relative to a directory. Starts nothing.

use std::fs;
use std::path::{Path, PathBuf};

/// Finds the executable file that `command` would start. A `command` with a `/` is a path; if it is
/// relative, it is relative to `directory`, the working directory of the child. Any other `command`
/// is searched in `path`.
pub(crate) fn find(command: &str, path: Option<&str>, directory: &Path) -> Option<PathBuf> {
    if command.contains('/') {
        let file = directory.join(command);
        return is_program(&file).then_some(file);
    }
    let directories = std::env::split_paths(path.unwrap_or_default());
    directories
        .map(|directory| directory.join(command))
        .find(|file| is_program(file))
}

#[cfg(unix)]
fn is_program(file: &Path) -> bool {
    use std::os::unix::fs::PermissionsExt as _;
    fs::metadata(file)
        .is_ok_and(|metadata| metadata.is_file() && metadata.permissions().mode() & 0o111 != 0)
}

#[cfg(not(unix))]
fn is_program(file: &Path) -> bool {
    fs::metadata(file).is_ok_and(|metadata| metadata.is_file())
}
