//! The paths of the files of each scope.
//!
//! Computes paths and reads no file. It only looks for the markers of a project. Invariant: files
//! with the user's decisions about a project are stored outside of the project.

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

use sha2::{Digest, Sha256};

use crate::diagnostic::{Diagnostic, Severity, SourcePos};
use crate::project_root::{find_project_roots, ignored_project_marker};
use crate::scope::{ConfigSources, FILE_NAME, Scope};

/// Number of bytes of the path hash in the name of a project's local directory.
const HASH_BYTES: usize = 8;

/// The base directories of the user and of the administrator.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BaseDirs {
    /// The home directory.
    pub home: PathBuf,
    /// The user's config; `$XDG_CONFIG_HOME/switchboard` on Linux.
    pub config: PathBuf,
    /// State kept between runs; `$XDG_STATE_HOME/switchboard` on Linux.
    pub state: PathBuf,
    /// The administrator's config; see [`managed_dir`].
    pub managed: PathBuf,
}

/// The directory with the administrator's files.
pub fn managed_dir() -> PathBuf {
    let path = if cfg!(target_os = "macos") {
        "/Library/Application Support/Switchboard"
    } else if cfg!(windows) {
        r"C:\ProgramData\Switchboard"
    } else {
        "/etc/switchboard"
    };
    PathBuf::from(path)
}

/// The paths of all scopes, as seen from one working directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScopePaths {
    dirs: BaseDirs,
    project: Option<PathBuf>,
    /// The roots of the projects around the project, the nearest first.
    enclosing: Vec<PathBuf>,
    /// The directory the local scope belongs to: the project root, or the working directory without
    /// a project.
    local_root: PathBuf,
    /// The directory or marker of a parent project that is ignored because another user owns it.
    ignored_marker: Option<PathBuf>,
}

impl ScopePaths {
    /// Finds the project of `cwd` and computes the paths.
    pub fn find(cwd: &Path, dirs: BaseDirs) -> Self {
        let mut roots = find_project_roots(cwd, &dirs.home).into_iter();
        let project = roots.next();
        Self {
            ignored_marker: ignored_project_marker(cwd, &dirs.home),
            local_root: project.clone().unwrap_or_else(|| cwd.to_owned()),
            project,
            enclosing: roots.collect(),
            dirs,
        }
    }

    /// A warning if a project in a parent directory is ignored because another user owns it.
    pub fn diagnostic(&self) -> Option<Diagnostic> {
        let marker = self.ignored_marker.as_deref()?;
        Some(Diagnostic {
            severity: Severity::Warning,
            message: "ignoring a project in a parent directory owned by another user".to_owned(),
            hint: Some("to use it, run the command in that directory".to_owned()),
            origin: Some(SourcePos::whole_file(Some(marker))),
            snippet: None,
            server: None,
        })
    }

    /// The root of the project that contains `cwd`.
    pub fn project(&self) -> Option<&Path> {
        self.project.as_deref()
    }

    /// The file with the servers of a scope. Some scopes have none.
    pub fn servers_file(&self, scope: Scope) -> Option<PathBuf> {
        match scope {
            Scope::Managed => Some(self.dirs.managed.join("managed-mcp.json")),
            Scope::Local => Some(self.local_dir(&self.local_root).join("mcp.json")),
            Scope::Project => Some(self.project.as_ref()?.join(FILE_NAME)),
            Scope::User => Some(self.dirs.home.join(FILE_NAME)),
            Scope::CommandLine | Scope::Dynamic | Scope::ClaudeAi => None,
        }
    }

    /// The path of the `.mcp.json` to create in the working directory for its first project server.
    /// `None` unless `scope` is [`Scope::Project`]. Also `None` if the working directory belongs to
    /// a project or is the home directory.
    pub fn new_servers_file(&self, scope: Scope) -> Option<PathBuf> {
        let is_new = scope == Scope::Project && self.project.is_none();
        let file = self.local_root.join(FILE_NAME);
        let real = fs::canonicalize(&self.local_root).ok();
        let is_home = self.local_root == self.dirs.home
            || (real.is_some() && real == fs::canonicalize(&self.dirs.home).ok());
        (is_new && !is_home).then_some(file)
    }

    /// The settings file of a scope. Some scopes have none.
    pub fn settings_file(&self, scope: Scope) -> Option<PathBuf> {
        match scope {
            Scope::Managed => Some(self.dirs.managed.join("managed-settings.json")),
            Scope::Local => Some(self.local_dir(&self.local_root).join("settings.json")),
            Scope::Project => Some(self.project.as_ref()?.join(".switchboard/settings.json")),
            Scope::User => Some(self.dirs.config.join("settings.json")),
            Scope::CommandLine | Scope::Dynamic | Scope::ClaudeAi => None,
        }
    }

    /// The user's local settings files for the projects around this one.
    ///
    /// Their restrictions apply here too. Otherwise a project could drop them by adding a
    /// `.mcp.json` in a subdirectory.
    pub fn enclosing_settings_files(&self) -> Vec<PathBuf> {
        let roots = self.enclosing.iter();
        roots
            .map(|root| self.local_dir(root).join("settings.json"))
            .collect()
    }

    /// The file with the user's approvals.
    pub fn approvals_file(&self) -> PathBuf {
        self.dirs.state.join("trust.json")
    }

    /// The files to load servers from.
    pub fn sources(&self) -> ConfigSources {
        ConfigSources {
            managed: self.servers_file(Scope::Managed),
            local: self.servers_file(Scope::Local),
            project: self.servers_file(Scope::Project),
            user: self.servers_file(Scope::User),
            ..ConfigSources::default()
        }
    }

    /// The directory with the user's files for a project. Its name contains the name of the project
    /// and a hash of its path.
    fn local_dir(&self, project: &Path) -> PathBuf {
        let real = fs::canonicalize(project).unwrap_or_else(|_| project.to_owned());
        let digest = Sha256::digest(real.as_os_str().as_encoded_bytes());
        let title: String = real
            .file_name()
            .unwrap_or_default()
            .to_string_lossy()
            .chars()
            .filter(|letter| letter.is_ascii_alphanumeric() || matches!(letter, '-' | '_' | '.'))
            .take(40)
            .collect();
        let mut name = format!("{title}-");
        for byte in digest.iter().take(HASH_BYTES) {
            // Writing to a string cannot fail.
            let _ = write!(name, "{byte:02x}");
        }
        self.dirs.config.join("projects").join(name)
    }
}
