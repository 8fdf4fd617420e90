//! Which file an entry's command means, and whether the project itself brings it.
//!
//! Looks where the engine will look: on the child's own `PATH`, from the child's own folder. Reads no
//! program but one of the project's. Invariant: a program that the project can change without changing
//! its entry is never [`Place::Elsewhere`].

use std::fmt::Write as _;
use std::fs::{self, File};
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};

use sha2::{Digest, Sha256};

use crate::expand::Environment;
use crate::server::StdioConfig;

/// The largest program whose content is looked at.
const MAX_BYTES: u64 = 256 * 1024 * 1024;

/// The file behind a command.
#[derive(Clone, Debug)]
pub(super) struct Program {
    /// Where it is, in a project without links; `None` if there is no such program.
    pub(super) path: Option<PathBuf>,
    pub(super) place: Place,
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

    /// Whether the command still means what was approved. Reads the program if it is the project's.
    pub fn holds(&self) -> bool {
        let path = |name: &str| self.path.clone().filter(|_| name == "PATH");
        let now = Program::find(&self.stdio, &self.root, &path);
        let is_same_file = now.place == Place::Elsewhere || now.path == self.program.path;
        now.place == self.program.place && is_same_file
    }
}

/// Where a program lies.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Place {
    /// Outside of the project, which cannot change it.
    Elsewhere,
    /// Outside of the project, by a link in it.
    Linked,
    /// In the project, with this content.
    InProject(String),
    /// In the project, and not there.
    Missing,
    /// In the project, and its content cannot be told.
    Unreadable,
}

impl Program {
    /// Finds the program of an entry of the project at `root`.
    pub(super) fn find(stdio: &StdioConfig, root: &Path, environment: &dyn Environment) -> Self {
        let folder = stdio.cwd.as_deref().unwrap_or(root);
        let real_root = fs::canonicalize(root).unwrap_or_else(|_| root.to_owned());
        let is_inside = |path: &Path| path.starts_with(root) || path.starts_with(&real_root);
        let Some(found) = find_file(stdio, folder, environment) else {
            // A relative command may come to be at any time.
            let is_relative = stdio.command.contains('/') && !stdio.command.starts_with('/');
            let named = folder.join(&stdio.command);
            let is_ours = is_relative || (stdio.command.starts_with('/') && is_inside(&named));
            return Self {
                path: None,
                place: if is_ours {
                    Place::Missing
                } else {
                    Place::Elsewhere
                },
            };
        };
        let real = fs::canonicalize(&found).unwrap_or_else(|_| found.clone());
        let place = if is_inside(&real) {
            content_of(&real).map_or(Place::Unreadable, Place::InProject)
        } else if is_inside(&found) || !Path::new(&stdio.command).is_absolute() && is_path(stdio) {
            Place::Linked
        } else {
            Place::Elsewhere
        };
        let path = match place {
            Place::Elsewhere => found,
            _ => real,
        };
        Self {
            path: Some(path),
            place,
        }
    }
}

fn is_path(stdio: &StdioConfig) -> bool {
    stdio.command.contains('/')
}

fn find_file(stdio: &StdioConfig, folder: &Path, environment: &dyn Environment) -> Option<PathBuf> {
    if is_path(stdio) {
        let named = folder.join(&stdio.command);
        return named.is_file().then_some(named);
    }
    let path = match stdio.env.get("PATH") {
        Some(path) => path.expose().to_owned(),
        None => environment.variable("PATH")?,
    };
    // An empty or relative folder on the path means one below the child's own.
    path.split(':')
        .map(|place| folder.join(place).join(&stdio.command))
        .find(|file| is_executable(file))
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

fn content_of(path: &Path) -> io::Result<String> {
    let file = File::open(path)?;
    if file.metadata()?.len() > MAX_BYTES {
        return Err(io::ErrorKind::FileTooLarge.into());
    }
    let mut file = file.take(MAX_BYTES + 1);
    let mut hash = Sha256::new();
    let mut buffer = vec![0; 64 * 1024];
    let mut length = 0;
    loop {
        let read = file.read(&mut buffer)?;
        if read == 0 {
            return Ok(hex(&hash.finalize()));
        }
        length += read as u64;
        if length > MAX_BYTES {
            return Err(io::ErrorKind::FileTooLarge.into());
        }
        hash.update(buffer.get(..read).unwrap_or_default());
    }
}

pub(super) fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        // Writing to a string cannot fail.
        let _ = write!(text, "{byte:02x}");
        text
    })
}
