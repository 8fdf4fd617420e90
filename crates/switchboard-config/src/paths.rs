//! Where the files of each scope lie.
//!
//! Works out paths and reads nothing but the names that tell where a project begins. Invariant: what a
//! user decided about a project lies outside of it.

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

use sha2::{Digest, Sha256};

use crate::diagnostic::{Diagnostic, Origin, Severity};
use crate::project_root::{find_project_roots, ignored_mark};
use crate::scope::{FILE_NAME, Scope, Sources};

/// How many bytes of a path's hash tell one project from another.
const HASH_BYTES: usize = 8;

/// The folders that a user's own files are in, as the platform has them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Folders {
    /// The home folder.
    pub home: PathBuf,
    /// What the user configured; `$XDG_CONFIG_HOME/switchboard` on Linux.
    pub config: PathBuf,
    /// What is remembered from one run to the next; `$XDG_STATE_HOME/switchboard` on Linux.
    pub state: PathBuf,
    /// What the administrator configured; see [`managed_folder`].
    pub managed: PathBuf,
}

/// Where the administrator of a machine keeps files for Switchboard.
pub fn managed_folder() -> PathBuf {
    let path = if cfg!(target_os = "macos") {
        "/Library/Application Support/Switchboard"
    } else if cfg!(windows) {
        r"C:\ProgramData\Switchboard"
    } else {
        "/etc/switchboard"
    };
    PathBuf::from(path)
}

/// Where everything lies for somebody who works in one folder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Places {
    folders: Folders,
    project: Option<PathBuf>,
    /// The roots of the projects that the project lies in, the nearest first.
    enclosing: Vec<PathBuf>,
    /// What the local scope belongs to: the project, or the folder itself where there is none.
    here: PathBuf,
    /// What would have made a project, were it not somebody else's.
    ignored: Option<PathBuf>,
}

impl Places {
    /// The places of somebody who works in `cwd`.
    pub fn find(cwd: &Path, folders: Folders) -> Self {
        let mut roots = find_project_roots(cwd, &folders.home).into_iter();
        let project = roots.next();
        Self {
            ignored: ignored_mark(cwd, &folders.home),
            here: project.clone().unwrap_or_else(|| cwd.to_owned()),
            project,
            enclosing: roots.collect(),
            folders,
        }
    }

    /// What is to be said about how the project was looked for.
    pub fn diagnostic(&self) -> Option<Diagnostic> {
        let ignored = self.ignored.as_deref()?;
        Some(Diagnostic {
            severity: Severity::Warning,
            message: "a project above this folder is ignored, because it belongs to another user"
                .to_owned(),
            hint: Some("if you trust them, work in that folder itself".to_owned()),
            origin: Some(Origin::of_whole(Some(ignored))),
            snippet: None,
            server: None,
        })
    }

    /// The root of the project, if `cwd` is in one.
    pub fn project(&self) -> Option<&Path> {
        self.project.as_deref()
    }

    /// The file that holds the servers of a scope. Some scopes have none.
    pub fn servers_file(&self, scope: Scope) -> Option<PathBuf> {
        match scope {
            Scope::Managed => Some(self.folders.managed.join("managed-mcp.json")),
            Scope::Local => Some(self.local_folder(&self.here).join("mcp.json")),
            Scope::Project => Some(self.project.as_ref()?.join(FILE_NAME)),
            Scope::User => Some(self.folders.home.join(FILE_NAME)),
            Scope::CommandLine | Scope::Dynamic | Scope::ClaudeAi => None,
        }
    }

    /// The file that would make a project of this folder, where there is none. The home folder is none.
    pub fn new_servers_file(&self, scope: Scope) -> Option<PathBuf> {
        let is_new = scope == Scope::Project && self.project.is_none();
        let file = self.here.join(FILE_NAME);
        let real = fs::canonicalize(&self.here).ok();
        let is_home = self.here == self.folders.home
            || (real.is_some() && real == fs::canonicalize(&self.folders.home).ok());
        (is_new && !is_home).then_some(file)
    }

    /// The file that holds the settings of a scope. Some scopes have none.
    pub fn settings_file(&self, scope: Scope) -> Option<PathBuf> {
        match scope {
            Scope::Managed => Some(self.folders.managed.join("managed-settings.json")),
            Scope::Local => Some(self.local_folder(&self.here).join("settings.json")),
            Scope::Project => Some(self.project.as_ref()?.join(".switchboard/settings.json")),
            Scope::User => Some(self.folders.config.join("settings.json")),
            Scope::CommandLine | Scope::Dynamic | Scope::ClaudeAi => None,
        }
    }

    /// The user's settings for the projects that this one lies in. What they take away counts here too:
    /// else a `.mcp.json` in a subfolder would be enough to get rid of it.
    pub fn enclosing_settings_files(&self) -> Vec<PathBuf> {
        let roots = self.enclosing.iter();
        roots
            .map(|root| self.local_folder(root).join("settings.json"))
            .collect()
    }

    /// The file that holds what the user approved.
    pub fn approvals_file(&self) -> PathBuf {
        self.folders.state.join("trust.json")
    }

    /// The files that servers are read from.
    pub fn sources(&self) -> Sources {
        Sources {
            managed: self.servers_file(Scope::Managed),
            local: self.servers_file(Scope::Local),
            project: self.servers_file(Scope::Project),
            user: self.servers_file(Scope::User),
            ..Sources::default()
        }
    }

    /// What this user keeps for a project: one folder per path, named so that a person finds it.
    fn local_folder(&self, project: &Path) -> PathBuf {
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
        self.folders.config.join("projects").join(name)
    }
}
