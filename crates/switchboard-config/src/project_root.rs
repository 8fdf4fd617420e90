//! Finds the project that a directory belongs to.
//!
//! Looks at file names and owners only and reads no file. Invariant: the home directory is never a
//! project, so `~/.mcp.json` always belongs to the user scope.

use std::fs;
use std::path::{Path, PathBuf};

use crate::scope::FILE_NAME;

/// Returns the nearest directory from `cwd` upward that contains `.mcp.json` or `.git`.
///
/// The search stops at `home`: the home directory and its parents are never the project of a
/// directory inside it. A parent directory is ignored if another user owns it or one of its
/// markers, such as a `/tmp/.git`.
pub fn find_project_root(cwd: &Path, home: &Path) -> Option<PathBuf> {
    find_project_roots(cwd, home).into_iter().next()
}

/// Returns all project roots from `cwd` upward, the nearest first. A project may be nested in
/// another.
pub(crate) fn find_project_roots(cwd: &Path, home: &Path) -> Vec<PathBuf> {
    candidates(cwd, home)
        .filter(|directory| foreign_owned_marker(cwd, directory).is_none())
        .map(Path::to_path_buf)
        .collect()
}

/// Returns the path because of which the nearest candidate is ignored: the candidate itself or one
/// of its markers, if another user owns it.
pub(crate) fn ignored_project_marker(cwd: &Path, home: &Path) -> Option<PathBuf> {
    let nearest = candidates(cwd, home).next()?;
    foreign_owned_marker(cwd, nearest)
}

/// The directories from `cwd` upward that contain a marker of a project.
fn candidates<'a>(cwd: &'a Path, home: &'a Path) -> impl Iterator<Item = &'a Path> {
    let real_home = fs::canonicalize(home).ok();
    cwd.ancestors()
        .take_while(move |directory| !is_home(directory, home, real_home.as_deref()))
        .filter(|directory| exists(&directory.join(FILE_NAME)) || exists(&directory.join(".git")))
}

/// The files and directories in `directory` whose owners are checked.
fn project_markers(directory: &Path) -> impl Iterator<Item = PathBuf> {
    [FILE_NAME, ".git", ".switchboard"]
        .map(|name| directory.join(name))
        .into_iter()
}

/// Returns `directory` or one of its markers if its owner is not root, the current user or the
/// owner of `cwd`. Always `None` for `cwd` itself: the user chose to work there.
#[cfg(unix)]
fn foreign_owned_marker(cwd: &Path, directory: &Path) -> Option<PathBuf> {
    use std::os::unix::fs::MetadataExt as _;

    if directory == cwd {
        return None;
    }
    let owner = |path: &Path| fs::symlink_metadata(path).ok().map(|found| found.uid());
    let trusted_owners = [
        Some(0),
        Some(rustix::process::geteuid().as_raw()),
        owner(cwd),
    ];
    let has_foreign_owner = |path: &PathBuf| {
        let owner = owner(path);
        owner.is_some() && !trusted_owners.contains(&owner)
    };
    std::iter::once(directory.to_path_buf())
        .chain(project_markers(directory))
        .find(has_foreign_owner)
}

#[cfg(not(unix))]
fn foreign_owned_marker(_cwd: &Path, _directory: &Path) -> Option<PathBuf> {
    None
}

fn is_home(directory: &Path, home: &Path, real_home: Option<&Path>) -> bool {
    directory == home
        || (real_home.is_some() && fs::canonicalize(directory).ok().as_deref() == real_home)
}

/// Returns true for any kind of file: `.git` is a regular file in a worktree, and a dangling link
/// counts too.
fn exists(path: &Path) -> bool {
    fs::symlink_metadata(path).is_ok()
}
