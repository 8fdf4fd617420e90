//! A temporary home and project directory for a command-line program.
//!
//! Invariant: a program started by [`Sandbox::command`] inherits only `PATH` from the environment
//! of the test.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use tempfile::TempDir;

use crate::process_scan::{TAG_VARIABLE, unique_tag};

/// Environment variables and the directories that they name, relative to the root of the sandbox.
const DIRECTORIES: [(&str, &str); 8] = [
    ("HOME", "home"),
    ("XDG_CONFIG_HOME", "home/.config"),
    ("XDG_DATA_HOME", "home/.local/share"),
    ("XDG_STATE_HOME", "home/.local/state"),
    ("XDG_CACHE_HOME", "home/.cache"),
    ("XDG_RUNTIME_DIR", "run"),
    ("TMPDIR", "tmp"),
    // Only debug builds of `switchboard` read this variable.
    ("SWITCHBOARD_TEST_MANAGED", "etc"),
];

/// A temporary directory with a home, the XDG directories and a project. It is removed on drop.
#[derive(Debug)]
pub struct Sandbox {
    /// Deletes the directory on drop.
    _directory: TempDir,
    /// The canonical path of the sandbox's directory.
    root: PathBuf,
    /// The tag in the environment of every process started from the sandbox.
    tag: String,
}

impl Sandbox {
    /// Creates the directories.
    #[expect(clippy::new_without_default, reason = "`new` creates directories")]
    pub fn new() -> Self {
        let directory = tempfile::Builder::new()
            .prefix("sb-")
            .tempdir()
            .expect("a temporary directory");
        let root = directory
            .path()
            .canonicalize()
            .expect("the directory exists");
        for (_, name) in DIRECTORIES {
            fs::create_dir_all(root.join(name)).expect("the sandbox is writable");
        }
        fs::create_dir_all(root.join("project")).expect("the sandbox is writable");
        set_mode(&root.join("run"), 0o700);
        Self {
            _directory: directory,
            root,
            tag: unique_tag(),
        }
    }

    /// The directory that contains all other directories of the sandbox.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// The directory `$HOME`.
    pub fn home(&self) -> PathBuf {
        self.root.join("home")
    }

    /// The directory `$XDG_CONFIG_HOME`.
    pub fn config_home(&self) -> PathBuf {
        self.root.join("home/.config")
    }

    /// The directory `$XDG_DATA_HOME`.
    pub fn data_home(&self) -> PathBuf {
        self.root.join("home/.local/share")
    }

    /// The directory `$XDG_STATE_HOME`.
    pub fn state_home(&self) -> PathBuf {
        self.root.join("home/.local/state")
    }

    /// The directory `$XDG_CACHE_HOME`.
    pub fn cache_home(&self) -> PathBuf {
        self.root.join("home/.cache")
    }

    /// The directory `$XDG_RUNTIME_DIR`.
    pub fn runtime_dir(&self) -> PathBuf {
        self.root.join("run")
    }

    /// The project directory, which is the working directory of started programs.
    pub fn project(&self) -> PathBuf {
        self.root.join("project")
    }

    /// The tag of every process started from the sandbox, see
    /// [`processes_with_tag`](crate::processes_with_tag).
    pub fn tag(&self) -> &str {
        &self.tag
    }

    /// Writes a file and creates its parent directories. A relative path is relative to the
    /// project; an absolute path must be inside the sandbox.
    pub fn write(&self, path: impl AsRef<Path>, contents: impl AsRef<[u8]>) -> PathBuf {
        let path = self.project().join(path);
        assert!(
            path.starts_with(&self.root),
            "{} is outside of the sandbox",
            path.display()
        );
        let parent = path.parent().expect("a file has a directory");
        fs::create_dir_all(parent).expect("the sandbox is writable");
        fs::write(&path, contents)
            .unwrap_or_else(|error| panic!("cannot write {}: {error}", path.display()));
        path
    }

    /// Writes a file below `$HOME`.
    pub fn write_home(&self, path: impl AsRef<Path>, contents: impl AsRef<[u8]>) -> PathBuf {
        self.write(self.home().join(path), contents)
    }

    /// Writes a file below `$XDG_CONFIG_HOME`.
    pub fn write_config(&self, path: impl AsRef<Path>, contents: impl AsRef<[u8]>) -> PathBuf {
        self.write(self.config_home().join(path), contents)
    }

    /// Writes an executable file. A relative path is relative to the project.
    pub fn write_executable(&self, path: impl AsRef<Path>, contents: impl AsRef<[u8]>) -> PathBuf {
        let path = self.write(path, contents);
        set_mode(&path, 0o755);
        path
    }

    /// Reads a text file. A relative path is relative to the project.
    pub fn read(&self, path: impl AsRef<Path>) -> String {
        let path = self.project().join(path);
        fs::read_to_string(&path)
            .unwrap_or_else(|error| panic!("cannot read {}: {error}", path.display()))
    }

    /// The environment variables that name the directories, for a program that a test starts
    /// without [`Sandbox::command`].
    pub fn variables(&self) -> Vec<(String, String)> {
        let variable = |(variable, name): (&str, &str)| {
            let path = self.root.join(name);
            let path = path
                .to_str()
                .expect("temporary directories have plain names");
            (variable.to_owned(), path.to_owned())
        };
        DIRECTORIES.map(variable).to_vec()
    }

    /// A command that runs `program` in the project directory, with only the sandbox's environment
    /// and `PATH`.
    #[expect(
        clippy::disallowed_methods,
        reason = "starts the program under test and passes PATH on"
    )]
    pub fn command(&self, program: impl AsRef<OsStr>) -> Command {
        let mut command = Command::new(program);
        command.current_dir(self.project()).env_clear();
        command.envs(std::env::var_os("PATH").map(|path| ("PATH", path)));
        command.envs(DIRECTORIES.map(|(variable, name)| (variable, self.root.join(name))));
        command.envs([("LANG", "C.UTF-8"), ("TZ", "UTC")]);
        command.env(TAG_VARIABLE, &self.tag);
        command
    }
}

fn set_mode(path: &Path, mode: u32) {
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).expect("the sandbox is writable");
}
