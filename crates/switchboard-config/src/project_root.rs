//! Finding the project that a folder belongs to.
//!
//! Looks at names only and reads nothing. Invariant: the home folder is never a project, so what lies
//! in `~/.mcp.json` always counts as the user's own.

use std::fs;
use std::path::{Path, PathBuf};

use crate::scope::FILE_NAME;

/// The nearest folder, from `cwd` upward, that holds `.mcp.json` or `.git`.
///
/// The search ends at `home`: neither the home folder nor anything above it is the project of a
/// folder inside it. What a stranger put into a folder above, `/tmp` for one, makes no project of it.
pub fn find_project_root(cwd: &Path, home: &Path) -> Option<PathBuf> {
    find_project_roots(cwd, home).into_iter().next()
}

/// Every such folder, the nearest first: a project may lie inside another.
pub(crate) fn find_project_roots(cwd: &Path, home: &Path) -> Vec<PathBuf> {
    candidates(cwd, home)
        .filter(|folder| strangers_mark(cwd, folder).is_none())
        .map(Path::to_path_buf)
        .collect()
}

/// What makes a project of a folder above, and does not count because it is somebody else's: the one
/// that would have been found.
pub(crate) fn ignored_mark(cwd: &Path, home: &Path) -> Option<PathBuf> {
    let found = candidates(cwd, home).next()?;
    strangers_mark(cwd, found)
}

/// The folders from `cwd` upward that look like projects.
fn candidates<'a>(cwd: &'a Path, home: &'a Path) -> impl Iterator<Item = &'a Path> {
    let real_home = fs::canonicalize(home).ok();
    cwd.ancestors()
        .take_while(move |folder| !is_home(folder, home, real_home.as_deref()))
        .filter(|folder| is_present(&folder.join(FILE_NAME)) || is_present(&folder.join(".git")))
}

/// What is read of a project.
fn marks(folder: &Path) -> impl Iterator<Item = PathBuf> {
    [FILE_NAME, ".git", ".switchboard"]
        .map(|name| folder.join(name))
        .into_iter()
}

/// What in a folder above `cwd`, or that folder itself, is neither ours nor the system's. Whoever owns
/// `cwd` is no stranger in it.
#[cfg(unix)]
fn strangers_mark(cwd: &Path, folder: &Path) -> Option<PathBuf> {
    use std::os::unix::fs::MetadataExt as _;

    if folder == cwd {
        return None;
    }
    let owner = |path: &Path| fs::symlink_metadata(path).ok().map(|found| found.uid());
    let known = [
        Some(0),
        Some(rustix::process::geteuid().as_raw()),
        owner(cwd),
    ];
    let is_strange = |path: &PathBuf| {
        let owner = owner(path);
        owner.is_some() && !known.contains(&owner)
    };
    std::iter::once(folder.to_path_buf())
        .chain(marks(folder))
        .find(is_strange)
}

#[cfg(not(unix))]
fn strangers_mark(_cwd: &Path, _folder: &Path) -> Option<PathBuf> {
    None
}

fn is_home(folder: &Path, home: &Path, real_home: Option<&Path>) -> bool {
    folder == home || (real_home.is_some() && fs::canonicalize(folder).ok().as_deref() == real_home)
}

/// Present in any form: `.git` is a file in a worktree, and a dangling link still marks the place.
fn is_present(path: &Path) -> bool {
    fs::symlink_metadata(path).is_ok()
}
