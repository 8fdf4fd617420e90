//! Resolves the command of an entry to a file, and checks before the launch that it is still the
//! approved file.
//!
//! Resolution works like the engine's: with the `PATH` and the working directory of the child. Only
//! programs that belong to the project are read: those in the project or its git repository, and
//! those given by a relative path. Invariant: a program that the project can change without
//! changing its entry is never [`ProgramLocation::Elsewhere`].

use std::ffi::OsString;
use std::fs::{self, File};
use std::path::{Component, Path, PathBuf};

use super::checked_file::{CheckedFile, FileVersion};
use crate::expand::Environment;
use crate::server::StdioConfig;

/// Maximum length of a chain of symbolic links, the same as the kernel's.
const MAX_LINKS: usize = 40;

/// The file that a command resolves to.
#[derive(Clone, Debug)]
pub(super) struct Program {
    /// The file; `None` if it was not found. Symbolic links are resolved if the project can change
    /// the file or a link to it.
    pub(super) path: Option<PathBuf>,
    pub(super) location: ProgramLocation,
    /// The path to execute.
    file: Option<PathBuf>,
}

/// The program of an approved entry.
///
/// The project can change its files at any time, so call [`verify`](Self::verify) right before
/// starting the program.
#[derive(Clone, Debug)]
pub struct PinnedProgram {
    program: Program,
    stdio: StdioConfig,
    root: PathBuf,
    path: Option<String>,
}

/// The command of an approved entry resolves to another program, or the content of the program
/// changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the program changed since it was approved")]
pub struct ProgramChanged;

impl PinnedProgram {
    pub(super) fn new(
        program: &Program,
        stdio: &StdioConfig,
        root: &Path,
        environment: &dyn Environment,
    ) -> Self {
        Self {
            program: program.clone(),
            stdio: stdio.clone(),
            root: root.to_owned(),
            path: environment.variable("PATH"),
        }
    }

    /// Resolves the command again and returns the file to execute, or `None` if it is not on the
    /// `PATH`. Reads the program if it belongs to the project. Blocks.
    pub fn verify(&self) -> Result<Option<VerifiedProgram>, ProgramChanged> {
        let path = |name: &str| self.path.clone().filter(|_| name == "PATH");
        let mut checked = None;
        let now = Program::find(&self.stdio, &self.root, &path, |real| {
            let file = CheckedFile::open(real).ok()?;
            Some(checked.insert(file).digest.clone())
        });
        let is_same_file =
            now.location == ProgramLocation::Elsewhere || now.path == self.program.path;
        if now.location != self.program.location || !is_same_file {
            return Err(ProgramChanged);
        }
        Ok(now.file.map(|path| VerifiedProgram {
            link: FileVersion::of_link(&path).ok(),
            path,
            checked,
            program: self.clone(),
        }))
    }
}

/// The file of an approved program, checked immediately before the start.
#[derive(Debug)]
pub struct VerifiedProgram {
    path: PathBuf,
    /// The version of the path itself, which may be a symbolic link to the program.
    link: Option<FileVersion>,
    /// The file whose content was hashed; `None` for a program outside of the project.
    checked: Option<CheckedFile>,
    program: PinnedProgram,
}

impl VerifiedProgram {
    /// The path to execute. Another search of the `PATH` could find another file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The file whose content was hashed, if it is a binary of the project. Execute this file and
    /// not the path: another file may have replaced it there.
    pub fn binary(&self) -> Option<&File> {
        let checked = self.checked.as_ref()?;
        checked.is_binary.then_some(&checked.file)
    }

    /// Checks that the program did not change since it was verified. Blocks.
    ///
    /// A script is executed by its path, so this also fails if another file was at the path in
    /// the meantime.
    pub fn recheck(&self) -> Result<(), ProgramChanged> {
        let Some(checked) = &self.checked else {
            return Ok(());
        };
        if checked.is_binary {
            return checked.recheck().map_err(|_| ProgramChanged);
        }
        let now = self.program.verify()?.ok_or(ProgramChanged)?;
        let version = now.checked.map(|checked| checked.version);
        if now.link == self.link && version.as_ref() == Some(&checked.version) {
            Ok(())
        } else {
            Err(ProgramChanged)
        }
    }
}

/// Where a program is stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum ProgramLocation {
    /// Outside of the project, which cannot change it, or not found on the `PATH`.
    Elsewhere,
    /// Outside of the project, reached by a symbolic link inside it.
    Linked,
    /// In the project or its git repository, or given by a relative path; with the SHA-256 of its
    /// content.
    InProject(String),
    /// The command is a path, and no file exists there. The project could create it at any time.
    Missing,
    /// Its content cannot be read, is too large, or differs per process.
    Unreadable,
}

/// Result of resolving a command.
enum CommandLookup {
    File {
        file: PathBuf,
        /// True if the path was relative to the child's working directory.
        is_relative: bool,
    },
    /// The command is a path, and no file exists there.
    MissingAt(PathBuf),
    /// The command is a name, and no directory of the `PATH` contains it.
    NotOnPath,
    /// A path under `/proc` or `/dev`, which may refer to another file in the child.
    PerProcessPath(PathBuf),
}

impl Program {
    /// Finds the program of an entry of the project at `root`. `digest` computes the SHA-256 of a
    /// file.
    pub(super) fn find(
        stdio: &StdioConfig,
        root: &Path,
        environment: &dyn Environment,
        digest: impl FnOnce(&Path) -> Option<String>,
    ) -> Self {
        let root = std::path::absolute(root).unwrap_or_else(|_| root.to_owned());
        let directory = root.join(stdio.cwd.as_deref().unwrap_or(&root));
        let (file, is_relative) = match find_file(stdio, &directory, environment) {
            CommandLookup::File { file, is_relative } => (file, is_relative),
            CommandLookup::MissingAt(file) => {
                return Self::without_path(ProgramLocation::Missing, Some(file));
            }
            CommandLookup::NotOnPath => {
                return Self::without_path(ProgramLocation::Elsewhere, None);
            }
            CommandLookup::PerProcessPath(file) => {
                return Self {
                    path: Some(file.clone()),
                    location: ProgramLocation::Unreadable,
                    file: Some(file),
                };
            }
        };
        let real_root = fs::canonicalize(&root).unwrap_or_else(|_| root.clone());
        let repository = git_root(&real_root);
        let is_inside = |path: &Path| {
            let mut roots = [&root, &real_root].into_iter().chain(&repository);
            roots.any(|root| path.starts_with(root))
        };
        let Some(real) = resolve(&file) else {
            return Self {
                path: Some(file.clone()),
                location: ProgramLocation::Unreadable,
                file: Some(file),
            };
        };
        let is_link_out = !is_inside(&real) && is_inside(&normalize_lexically(&file));
        let location = if is_link_out {
            ProgramLocation::Linked
        } else if is_relative || is_inside(&real) {
            digest(&real).map_or(ProgramLocation::Unreadable, ProgramLocation::InProject)
        } else {
            ProgramLocation::Elsewhere
        };
        let path = match location {
            ProgramLocation::Elsewhere => file.clone(),
            _ => real,
        };
        Self {
            path: Some(path),
            location,
            file: Some(file),
        }
    }

    fn without_path(location: ProgramLocation, file: Option<PathBuf>) -> Self {
        Self {
            path: None,
            location,
            file,
        }
    }
}

fn find_file(
    stdio: &StdioConfig,
    directory: &Path,
    environment: &dyn Environment,
) -> CommandLookup {
    if stdio.command.contains('/') {
        let file = directory.join(&stdio.command);
        return match file.is_file() {
            _ if is_per_process_path(&normalize_lexically(&file)) => {
                CommandLookup::PerProcessPath(file)
            }
            false => CommandLookup::MissingAt(file),
            true => CommandLookup::File {
                file,
                is_relative: !stdio.command.starts_with('/'),
            },
        };
    }
    let path = match stdio.env.get("PATH") {
        Some(path) => Some(path.expose().to_owned()),
        None => environment.variable("PATH"),
    };
    // Empty and relative directories on the `PATH` are relative to the child's working directory.
    for path_dir in path.iter().flat_map(|path| path.split(':')) {
        let file = directory.join(path_dir).join(&stdio.command);
        // The child may find a program there even if this process does not.
        if is_per_process_path(&normalize_lexically(&file)) {
            return CommandLookup::PerProcessPath(file);
        }
        if is_executable(&file) {
            return CommandLookup::File {
                file,
                is_relative: !path_dir.starts_with('/'),
            };
        }
    }
    CommandLookup::NotOnPath
}

/// Returns true if processes see different files at this path, such as `/proc/self/cwd`.
fn is_per_process_path(path: &Path) -> bool {
    let is_device = path.starts_with("/dev") && !path.starts_with("/dev/shm");
    path.starts_with("/proc") || is_device
}

/// Resolves all symbolic links. Returns `None` if a link is broken or passes through a per-process
/// path.
fn resolve(path: &Path) -> Option<PathBuf> {
    let parts = |path: &Path| -> Vec<OsString> {
        let parts = path.components().rev();
        parts.map(|part| part.as_os_str().to_owned()).collect()
    };
    let mut pending = parts(path);
    let mut resolved = PathBuf::new();
    let mut links = 0;
    while let Some(part) = pending.pop() {
        if part == ".." {
            resolved.pop();
            continue;
        }
        let next = resolved.join(&part);
        if is_per_process_path(&next) && next != Path::new("/dev") {
            return None;
        }
        let is_link = fs::symlink_metadata(&next).ok()?.is_symlink();
        if !is_link {
            resolved = next;
            continue;
        }
        links += 1;
        if links > MAX_LINKS {
            return None;
        }
        pending.extend(parts(&fs::read_link(&next).ok()?));
    }
    Some(resolved)
}

/// Removes `.` and `..` without looking at symbolic links.
fn normalize_lexically(path: &Path) -> PathBuf {
    let mut normalized = PathBuf::new();
    for part in path.components() {
        match part {
            Component::ParentDir => {
                normalized.pop();
            }
            Component::CurDir => {}
            part => normalized.push(part),
        }
    }
    normalized
}

/// The root of the git repository that contains the project.
fn git_root(root: &Path) -> Option<PathBuf> {
    let mut directories = root.ancestors();
    directories
        .find(|directory| directory.join(".git").exists())
        .map(Path::to_owned)
}

fn is_executable(path: &Path) -> bool {
    let Ok(metadata) = fs::metadata(path) else {
        return false;
    };
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt as _;
        if metadata.permissions().mode() & 0o111 == 0 {
            return false;
        }
    }
    metadata.is_file()
}
