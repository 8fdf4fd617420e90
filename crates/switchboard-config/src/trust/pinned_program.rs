//! Which file an entry's command means, and whether the project itself brings it.
//!
//! Looks where the engine will look: on the child's own `PATH`, from the child's own folder. Reads no
//! program but one of the project's. Invariant: a program that the project can change without changing
//! its entry is never [`Place::Elsewhere`].

use std::ffi::OsString;
use std::fs;
use std::path::{Component, Path, PathBuf};

use super::program_digest::Digests;
use crate::expand::Environment;
use crate::server::StdioConfig;

/// As many links are followed as the system would.
const MAX_LINKS: usize = 40;

/// The file behind a command.
#[derive(Clone, Debug)]
pub(super) struct Program {
    /// Where it is, in a project without links; `None` if there is no such program.
    pub(super) path: Option<PathBuf>,
    pub(super) place: Place,
    /// What to execute for it.
    file: Option<PathBuf>,
}

/// The program that was there when an entry was approved.
///
/// A project can change its files at any time; whoever starts the program looks again right before.
#[derive(Clone, Debug)]
pub struct Seal {
    program: Program,
    stdio: StdioConfig,
    root: PathBuf,
    path: Option<String>,
}

/// The seal of an entry is broken: its command means something else than what was approved.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the program is no longer the one that was approved")]
pub struct Broken;

impl Seal {
    pub(super) fn of(
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

    /// The file to execute, and no other: a search of one's own might end elsewhere. `None` if the
    /// `PATH` leads to no such program. Reads the program if it is the project's.
    pub fn open(&self) -> Result<Option<PathBuf>, Broken> {
        let path = |name: &str| self.path.clone().filter(|_| name == "PATH");
        let now = Program::find(&self.stdio, &self.root, &path, &Digests::default());
        let is_same_file = now.place == Place::Elsewhere || now.path == self.program.path;
        if now.place == self.program.place && is_same_file {
            Ok(now.file)
        } else {
            Err(Broken)
        }
    }
}

/// Where a program lies.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Place {
    /// Outside of the project, which cannot change it.
    Elsewhere,
    /// Outside of the project, by a link in it.
    Linked,
    /// In the project or named from there, with this content.
    InProject(String),
    /// Not there, and may come to be at any time.
    Missing,
    /// Its content cannot be told.
    Unreadable,
}

/// What a command leads to.
enum Found {
    File {
        file: PathBuf,
        /// Counted from the child's folder.
        is_relative: bool,
    },
    /// Nothing at this place.
    NotAt(PathBuf),
    /// Nothing on the `PATH`.
    Nowhere,
    /// Something that is not the same for each process.
    Fleeting(PathBuf),
}

impl Program {
    /// Finds the program of an entry of the project at `root`.
    pub(super) fn find(
        stdio: &StdioConfig,
        root: &Path,
        environment: &dyn Environment,
        digests: &Digests,
    ) -> Self {
        let root = std::path::absolute(root).unwrap_or_else(|_| root.to_owned());
        let folder = root.join(stdio.cwd.as_deref().unwrap_or(&root));
        let (file, is_relative) = match find_file(stdio, &folder, environment) {
            Found::File { file, is_relative } => (file, is_relative),
            Found::NotAt(file) => return Self::without_path(Place::Missing, Some(file)),
            Found::Nowhere => return Self::without_path(Place::Elsewhere, None),
            Found::Fleeting(file) => {
                return Self {
                    path: Some(file.clone()),
                    place: Place::Unreadable,
                    file: Some(file),
                };
            }
        };
        let real_root = fs::canonicalize(&root).unwrap_or_else(|_| root.clone());
        let repository = repository_of(&real_root);
        let is_inside = |path: &Path| {
            let mut roots = [&root, &real_root].into_iter().chain(&repository);
            roots.any(|root| path.starts_with(root))
        };
        let Some(real) = resolve(&file) else {
            return Self {
                path: Some(file.clone()),
                place: Place::Unreadable,
                file: Some(file),
            };
        };
        let is_link_out = !is_inside(&real) && is_inside(&without_dots(&file));
        let place = if is_link_out {
            Place::Linked
        } else if is_relative || is_inside(&real) {
            let digest = digests.of(&real);
            digest.map_or(Place::Unreadable, Place::InProject)
        } else {
            Place::Elsewhere
        };
        let path = match place {
            Place::Elsewhere => file.clone(),
            _ => real,
        };
        Self {
            path: Some(path),
            place,
            file: Some(file),
        }
    }

    fn without_path(place: Place, file: Option<PathBuf>) -> Self {
        Self {
            path: None,
            place,
            file,
        }
    }
}

fn find_file(stdio: &StdioConfig, folder: &Path, environment: &dyn Environment) -> Found {
    if stdio.command.contains('/') {
        let file = folder.join(&stdio.command);
        return match file.is_file() {
            _ if is_fleeting(&without_dots(&file)) => Found::Fleeting(file),
            false => Found::NotAt(file),
            true => Found::File {
                file,
                is_relative: !stdio.command.starts_with('/'),
            },
        };
    }
    let path = match stdio.env.get("PATH") {
        Some(path) => Some(path.expose().to_owned()),
        None => environment.variable("PATH"),
    };
    // An empty or relative folder on the path means one below the child's own.
    for place in path.iter().flat_map(|path| path.split(':')) {
        let file = folder.join(place).join(&stdio.command);
        // What lies there for the child need not lie there for us.
        if is_fleeting(&without_dots(&file)) {
            return Found::Fleeting(file);
        }
        if is_executable(&file) {
            return Found::File {
                file,
                is_relative: !place.starts_with('/'),
            };
        }
    }
    Found::Nowhere
}

/// Whether each process sees something else at this path: `/proc/self/cwd` for one.
fn is_fleeting(path: &Path) -> bool {
    let is_device = path.starts_with("/dev") && !path.starts_with("/dev/shm");
    path.starts_with("/proc") || is_device
}

/// Where a path leads without links; `None` if that is not the same for each process, or nowhere.
fn resolve(path: &Path) -> Option<PathBuf> {
    let parts = |path: &Path| -> Vec<OsString> {
        let parts = path.components().rev();
        parts.map(|part| part.as_os_str().to_owned()).collect()
    };
    let mut ahead = parts(path);
    let mut here = PathBuf::new();
    let mut links = 0;
    while let Some(part) = ahead.pop() {
        if part == ".." {
            here.pop();
            continue;
        }
        let next = here.join(&part);
        if is_fleeting(&next) && next != Path::new("/dev") {
            return None;
        }
        let is_link = fs::symlink_metadata(&next).ok()?.is_symlink();
        if !is_link {
            here = next;
            continue;
        }
        links += 1;
        if links > MAX_LINKS {
            return None;
        }
        ahead.extend(parts(&fs::read_link(&next).ok()?));
    }
    Some(here)
}

/// As it reads, whatever links there are.
fn without_dots(path: &Path) -> PathBuf {
    let mut plain = PathBuf::new();
    for part in path.components() {
        match part {
            Component::ParentDir => {
                plain.pop();
            }
            Component::CurDir => {}
            part => plain.push(part),
        }
    }
    plain
}

/// The repository that a project is a part of.
fn repository_of(root: &Path) -> Option<PathBuf> {
    let mut folders = root.ancestors();
    folders
        .find(|folder| folder.join(".git").exists())
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
