//! Finding the project that a folder belongs to.
//!
//! Looks at names only and reads nothing. Invariant: the home folder is never a project, so what lies
//! in `~/.mcp.json` always counts as the user's own.

use std::fs;
use std::path::{Path, PathBuf};

use crate::layer::FILE_NAME;

/// The nearest folder, from `cwd` upward, that holds `.mcp.json` or `.git`.
///
/// The search ends at `home`: neither the home folder nor anything above it is the project of a
/// folder inside it.
pub fn find_project_root(cwd: &Path, home: &Path) -> Option<PathBuf> {
    find_project_roots(cwd, home).into_iter().next()
}

/// Every such folder, the nearest first: a project may lie inside another.
pub(crate) fn find_project_roots(cwd: &Path, home: &Path) -> Vec<PathBuf> {
    let real_home = fs::canonicalize(home).ok();
    cwd.ancestors()
        .take_while(|folder| !is_home(folder, home, real_home.as_deref()))
        .filter(|folder| is_present(&folder.join(FILE_NAME)) || is_present(&folder.join(".git")))
        .map(Path::to_path_buf)
        .collect()
}

fn is_home(folder: &Path, home: &Path, real_home: Option<&Path>) -> bool {
    folder == home || (real_home.is_some() && fs::canonicalize(folder).ok().as_deref() == real_home)
}

/// Present in any form: `.git` is a file in a worktree, and a dangling link still marks the place.
fn is_present(path: &Path) -> bool {
    fs::symlink_metadata(path).is_ok()
}
