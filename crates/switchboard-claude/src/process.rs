//! Finds the executable of the CLI and starts it.
//!
//! Invariant: when [`RunningProgram`] is dropped, no process that the CLI started survives. This is
//! the only module of the crate that reads the environment of the current process, which the CLI
//! inherits.

mod secret_mask;
mod stderr_tail;

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use switchboard::process::{Program, ProgramStreams, RunningProgram};

pub(crate) use secret_mask::SecretMask;
pub(crate) use stderr_tail::StderrTail;

use crate::error::Error;
use crate::options::NOT_INHERITED;

/// File name of the CLI's executable.
const NAME: &str = "claude";
/// Paths at which installers put the executable, relative to the home directory.
const HOME_LOCATIONS: [&str; 5] = [
    ".local/bin/claude",
    ".claude/local/claude",
    ".npm-global/bin/claude",
    ".yarn/bin/claude",
    "node_modules/.bin/claude",
];
const SYSTEM_LOCATIONS: [&str; 2] = ["/usr/local/bin/claude", "/opt/homebrew/bin/claude"];

type Variables = BTreeMap<OsString, OsString>;

/// Everything that is needed to start the CLI.
pub(crate) struct CliLaunch {
    /// Path or file name of the executable. `None` to search the PATH and the install locations.
    pub(crate) program: Option<PathBuf>,
    pub(crate) arguments: Vec<OsString>,
    /// Variables that are added to the environment that the CLI inherits from the current process.
    pub(crate) variables: Vec<(OsString, OsString)>,
    pub(crate) cwd: Option<PathBuf>,
}

/// A CLI process that was just started, with its streams.
pub(crate) struct StartedCli {
    pub(crate) child: RunningProgram,
    pub(crate) streams: ProgramStreams,
    /// Masks the secrets in the environment of the process.
    pub(crate) secrets: SecretMask,
}

impl CliLaunch {
    pub(crate) async fn start(self) -> Result<StartedCli, Error> {
        let mut variables = process_environment();
        variables.retain(|name, _| !NOT_INHERITED.iter().any(|excluded| name == excluded));
        check(&self.variables, self.cwd.as_deref())?;
        variables.extend(self.variables);
        let found = find(self.program.as_deref(), &variables)?;
        let not_started = |cause: String| Error::NotStarted {
            program: found.clone(),
            cause,
        };
        let command = to_utf8(found.as_os_str()).map_err(not_started)?;
        let arguments: Result<Vec<_>, _> = self.arguments.iter().map(|arg| to_utf8(arg)).collect();
        let variables = utf8_variables(variables);
        let secrets = SecretMask::from_env(&variables);
        let mut program = Program::new(command)
            .args(arguments.map_err(not_started)?)
            .envs(variables);
        if let Some(cwd) = self.cwd {
            program = program.current_dir(cwd);
        }
        let started = program.start().await;
        let mut child = started.map_err(|error| not_started(error.to_string()))?;
        let streams = child.take_streams();
        let streams = streams.ok_or_else(|| not_started("it has no streams".to_owned()))?;
        Ok(StartedCli {
            child,
            streams,
            secrets,
        })
    }
}

#[expect(
    clippy::disallowed_methods,
    reason = "the CLI inherits the user's environment"
)]
fn process_environment() -> Variables {
    std::env::vars_os().collect()
}

fn find(program: Option<&Path>, variables: &Variables) -> Result<PathBuf, Error> {
    let searched = candidates(program, variables);
    if let Some(found) = searched.iter().find(|path| is_executable(path)) {
        return Ok(found.clone());
    }
    match searched.as_slice() {
        [program] if program.exists() => Err(Error::NotStarted {
            program: program.clone(),
            cause: "not an executable file".to_owned(),
        }),
        _ => Err(Error::NotFound { searched }),
    }
}

/// Returns the paths at which to look for the executable, in order. A `program` with a directory is
/// the only path. A bare file name is looked up on the PATH only. If `program` is `None`, the PATH
/// is followed by the install locations.
fn candidates(program: Option<&Path>, variables: &Variables) -> Vec<PathBuf> {
    let name = match program {
        Some(path) if path.components().count() > 1 || path.is_absolute() => {
            // Make the path absolute, because the CLI may be started in another working directory.
            return vec![std::path::absolute(path).unwrap_or_else(|_| path.to_owned())];
        }
        program => program.unwrap_or(Path::new(NAME)),
    };
    let path = variables.get(OsStr::new("PATH")).cloned();
    let path = path.unwrap_or_default();
    let on_path = std::env::split_paths(&path).filter(|directory| directory.is_absolute());
    let on_path = on_path.map(|directory| directory.join(name));
    if program.is_some() {
        return on_path.collect();
    }
    let home = variables.get(OsStr::new("HOME")).map(Path::new);
    let below_home = home
        .into_iter()
        .flat_map(|home| HOME_LOCATIONS.map(|location| home.join(location)));
    let system = SYSTEM_LOCATIONS.map(PathBuf::from);
    let mut candidates: Vec<PathBuf> = Vec::new();
    for candidate in on_path.chain(below_home).chain(system) {
        if !candidates.contains(&candidate) {
            candidates.push(candidate);
        }
    }
    candidates
}

fn is_executable(path: &Path) -> bool {
    let metadata = path.metadata();
    metadata.is_ok_and(|file| file.is_file() && file.permissions().mode() & 0o111 != 0)
}

fn to_utf8(text: &OsStr) -> Result<String, String> {
    let utf8 = text.to_str().map(str::to_owned);
    utf8.ok_or_else(|| format!("{} is not UTF-8; rename it", text.display()))
}

/// Checks that the variables are valid UTF-8 and that `cwd` is a directory.
fn check(variables: &[(OsString, OsString)], cwd: Option<&Path>) -> Result<(), Error> {
    let is_utf8 = |text: &OsStr| text.to_str().is_some();
    let mut invalid = variables
        .iter()
        .filter(|(name, value)| !is_utf8(name) || !is_utf8(value));
    if let Some((name, _)) = invalid.next() {
        let name = name.display();
        return Err(Error::InvalidInput(format!(
            "environment variable {name} is not UTF-8; change it in `Options::env` (or \
             `Options::cwd`, for PWD)"
        )));
    }
    match cwd {
        Some(cwd) if !cwd.is_dir() => {
            let cwd = cwd.display();
            Err(Error::InvalidInput(format!(
                "{cwd} is not a directory; create it or change `Options::cwd`"
            )))
        }
        _ => Ok(()),
    }
}

/// Drops inherited variables that are not valid UTF-8, because the process API accepts only UTF-8.
fn utf8_variables(variables: Variables) -> BTreeMap<String, String> {
    let variables = variables.into_iter();
    variables
        .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn variables(pairs: &[(&str, &Path)]) -> Variables {
        let pairs = pairs.iter();
        pairs
            .map(|(name, value)| (name.into(), value.into()))
            .collect()
    }

    fn write_executable(path: &Path) {
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, "#!/bin/sh\n").unwrap();
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o755)).unwrap();
    }

    #[test]
    fn path_precedes_install_locations() {
        let folder = tempfile::tempdir().unwrap();
        let (path, home) = (folder.path().join("bin"), folder.path().join("home"));
        let variables = variables(&[("PATH", &path), ("HOME", &home)]);
        write_executable(&home.join(".claude/local/claude"));
        std::fs::create_dir_all(&path).unwrap();
        std::fs::write(path.join("claude"), "no program").unwrap();
        let found = find(None, &variables).unwrap();
        assert_eq!(found, home.join(".claude/local/claude"));
        write_executable(&path.join("claude"));
        assert_eq!(find(None, &variables).unwrap(), path.join("claude"));
    }

    #[test]
    fn not_found_names_paths_and_installer() {
        let nowhere = Path::new("/nowhere");
        let variables = variables(&[("PATH", nowhere), ("HOME", nowhere)]);
        let searched = candidates(None, &variables);
        assert!(searched.starts_with(&["/nowhere/claude".into()]));
        let text = Error::NotFound { searched }.to_string();
        assert!(text.contains("/nowhere/.local/bin/claude"), "{text}");
        assert!(
            text.contains("npm install -g @anthropic-ai/claude-code"),
            "{text}"
        );
    }

    #[test]
    fn invalid_variable_or_cwd_is_rejected() {
        use std::os::unix::ffi::OsStringExt;
        let invalid = OsString::from_vec(vec![b'x', 0xff]);
        let error = check(&[("ODD".into(), invalid)], None)
            .unwrap_err()
            .to_string();
        assert!(error.contains("ODD") && error.contains("UTF-8"), "{error}");
        let nowhere = Path::new("/nowhere/at/all");
        let error = check(&[], Some(nowhere)).unwrap_err().to_string();
        assert!(error.starts_with("/nowhere/at/all"), "{error}");
        assert!(error.contains("Options::cwd"), "{error}");
        check(&[("A".into(), "b".into())], Some(Path::new("/"))).unwrap();
    }

    #[test]
    fn named_program_is_searched_nowhere_else() {
        let folder = tempfile::tempdir().unwrap();
        write_executable(&folder.path().join("claude"));
        write_executable(&folder.path().join("claude-next"));
        let variables = variables(&[("PATH", folder.path())]);
        let named = Path::new("claude-next");
        let found = find(Some(named), &variables).unwrap();
        assert_eq!(found, folder.path().join("claude-next"));
        let missing = folder.path().join("missing/claude");
        let error = find(Some(&missing), &variables).unwrap_err();
        assert!(matches!(error, Error::NotFound { searched } if searched == [missing]));
    }
}
