//! The CLI as a program: where it is, and how it is started.
//!
//! Invariant: nothing of it survives its [`RunningProgram`]. This is the only place that reads the
//! environment of the process, because the CLI inherits it.

mod secrets;
mod stderr;

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use switchboard::process::{Program, ProgramStreams, RunningProgram};

pub(crate) use secrets::Secrets;
pub(crate) use stderr::Stderr;

use crate::error::Error;
use crate::options::WITHHELD;

/// What the CLI is called.
const NAME: &str = "claude";
/// Where installers put it, below the user's home.
const BELOW_HOME: [&str; 5] = [
    ".local/bin/claude",
    ".claude/local/claude",
    ".npm-global/bin/claude",
    ".yarn/bin/claude",
    "node_modules/.bin/claude",
];
const ELSEWHERE: [&str; 2] = ["/usr/local/bin/claude", "/opt/homebrew/bin/claude"];

type Variables = BTreeMap<OsString, OsString>;

/// How to start the CLI.
pub(crate) struct Launch {
    /// Where it is, if that was said.
    pub(crate) named: Option<PathBuf>,
    pub(crate) arguments: Vec<OsString>,
    /// Variables beside what this process has.
    pub(crate) variables: Vec<(OsString, OsString)>,
    pub(crate) folder: Option<PathBuf>,
}

/// A CLI that was just started.
pub(crate) struct Started {
    pub(crate) child: RunningProgram,
    pub(crate) streams: ProgramStreams,
    /// Values that are not to be repeated in error messages.
    pub(crate) secrets: Secrets,
}

impl Launch {
    /// Starts it. It has the environment of this process, and what was said besides.
    pub(crate) async fn start(self) -> Result<Started, Error> {
        let mut variables = inherited();
        variables.retain(|name, _| !WITHHELD.iter().any(|withheld| name == withheld));
        check(&self.variables, self.folder.as_deref())?;
        variables.extend(self.variables);
        let found = find(self.named.as_deref(), &variables)?;
        let not_started = |why: String| Error::NotStarted {
            program: found.clone(),
            why,
        };
        let command = text(found.as_os_str()).map_err(not_started)?;
        let arguments: Result<Vec<_>, _> = self.arguments.iter().map(|word| text(word)).collect();
        let variables = texts(variables);
        let secrets = Secrets::of(&variables);
        let mut program = Program::new(command)
            .args(arguments.map_err(not_started)?)
            .environment(variables);
        if let Some(folder) = self.folder {
            program = program.folder(folder);
        }
        let started = program.start().await;
        let mut child = started.map_err(|error| not_started(error.to_string()))?;
        let streams = child.take_streams();
        let streams = streams.ok_or_else(|| not_started("it has no streams".to_owned()))?;
        Ok(Started {
            child,
            streams,
            secrets,
        })
    }
}

#[expect(
    clippy::disallowed_methods,
    reason = "the CLI is the user's own, and inherits what the user has"
)]
fn inherited() -> Variables {
    std::env::vars_os().collect()
}

/// The file of the CLI.
fn find(named: Option<&Path>, variables: &Variables) -> Result<PathBuf, Error> {
    let sought = places(named, variables);
    if let Some(found) = sought.iter().find(|place| is_program(place)) {
        return Ok(found.clone());
    }
    match sought.as_slice() {
        [program] if program.exists() => Err(Error::NotStarted {
            program: program.clone(),
            why: "it is no file that can be executed".to_owned(),
        }),
        _ => Err(Error::NotFound { sought }),
    }
}

/// Where the CLI may be, in order. A name without a folder is looked for on the PATH, and one that was
/// given nowhere else.
fn places(named: Option<&Path>, variables: &Variables) -> Vec<PathBuf> {
    let name = match named {
        Some(path) if path.components().count() > 1 || path.is_absolute() => {
            // The CLI may work in another folder, from which a relative path would count.
            return vec![std::path::absolute(path).unwrap_or_else(|_| path.to_owned())];
        }
        named => named.unwrap_or(Path::new(NAME)),
    };
    let path = variables.get(OsStr::new("PATH")).cloned();
    let path = path.unwrap_or_default();
    let on_path = std::env::split_paths(&path).filter(|folder| folder.is_absolute());
    let on_path = on_path.map(|folder| folder.join(name));
    if named.is_some() {
        return on_path.collect();
    }
    let home = variables.get(OsStr::new("HOME")).map(Path::new);
    let below_home = home
        .into_iter()
        .flat_map(|home| BELOW_HOME.map(|place| home.join(place)));
    let elsewhere = ELSEWHERE.map(PathBuf::from);
    let mut places: Vec<PathBuf> = Vec::new();
    for place in on_path.chain(below_home).chain(elsewhere) {
        if !places.contains(&place) {
            places.push(place);
        }
    }
    places
}

fn is_program(place: &Path) -> bool {
    let about = place.metadata();
    about.is_ok_and(|about| about.is_file() && about.permissions().mode() & 0o111 != 0)
}

fn text(word: &OsStr) -> Result<String, String> {
    let text = word.to_str().map(str::to_owned);
    text.ok_or_else(|| format!("{} is not UTF-8: rename it", word.display()))
}

/// Whether what was asked for can be done.
fn check(variables: &[(OsString, OsString)], folder: Option<&Path>) -> Result<(), Error> {
    let is_text = |word: &OsStr| word.to_str().is_some();
    let mut odd = variables
        .iter()
        .filter(|(name, value)| !is_text(name) || !is_text(value));
    if let Some((name, _)) = odd.next() {
        let name = name.display();
        return Err(Error::Unusable(format!(
            "the variable {name} for the Claude CLI is not UTF-8: change it where `Options::env` (or \
             `Options::cwd`, for PWD) sets it"
        )));
    }
    match folder {
        Some(folder) if !folder.is_dir() => {
            let folder = folder.display();
            Err(Error::Unusable(format!(
                "{folder}, where the Claude CLI is to work, is no folder: make it, or name another with \
                 `Options::cwd`"
            )))
        }
        _ => Ok(()),
    }
}

/// What is inherited and not UTF-8 cannot be handed on, and is hardly meant for the CLI.
fn texts(variables: Variables) -> BTreeMap<String, String> {
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

    fn put_program(place: &Path) {
        std::fs::create_dir_all(place.parent().unwrap()).unwrap();
        std::fs::write(place, "#!/bin/sh\n").unwrap();
        std::fs::set_permissions(place, std::fs::Permissions::from_mode(0o755)).unwrap();
    }

    #[test]
    fn the_path_goes_before_the_usual_places_and_what_cannot_be_executed_is_passed_over() {
        let folder = tempfile::tempdir().unwrap();
        let (path, home) = (folder.path().join("bin"), folder.path().join("home"));
        let variables = variables(&[("PATH", &path), ("HOME", &home)]);
        put_program(&home.join(".claude/local/claude"));
        std::fs::create_dir_all(&path).unwrap();
        std::fs::write(path.join("claude"), "no program").unwrap();
        let found = find(None, &variables).unwrap();
        assert_eq!(found, home.join(".claude/local/claude"));
        put_program(&path.join("claude"));
        assert_eq!(find(None, &variables).unwrap(), path.join("claude"));
    }

    #[test]
    fn where_it_was_looked_for_and_how_to_install_it_is_said() {
        let nowhere = Path::new("/nowhere");
        let variables = variables(&[("PATH", nowhere), ("HOME", nowhere)]);
        let places = places(None, &variables);
        assert!(places.starts_with(&["/nowhere/claude".into()]));
        let said = Error::NotFound { sought: places }.to_string();
        assert!(said.contains("/nowhere/.local/bin/claude"), "{said}");
        assert!(
            said.contains("npm install -g @anthropic-ai/claude-code"),
            "{said}"
        );
    }

    #[test]
    fn what_was_asked_for_and_cannot_be_done_is_said() {
        use std::os::unix::ffi::OsStringExt;
        let odd = OsString::from_vec(vec![b'x', 0xff]);
        let error = check(&[("ODD".into(), odd)], None).unwrap_err().to_string();
        assert!(error.contains("ODD") && error.contains("UTF-8"), "{error}");
        let nowhere = Path::new("/nowhere/at/all");
        let error = check(&[], Some(nowhere)).unwrap_err().to_string();
        assert!(error.starts_with("/nowhere/at/all"), "{error}");
        assert!(error.contains("Options::cwd"), "{error}");
        check(&[("A".into(), "b".into())], Some(Path::new("/"))).unwrap();
    }

    #[test]
    fn one_that_is_named_is_looked_for_there_alone() {
        let folder = tempfile::tempdir().unwrap();
        put_program(&folder.path().join("claude"));
        put_program(&folder.path().join("claude-next"));
        let variables = variables(&[("PATH", folder.path())]);
        let named = Path::new("claude-next");
        let found = find(Some(named), &variables).unwrap();
        assert_eq!(found, folder.path().join("claude-next"));
        let missing = folder.path().join("missing/claude");
        let error = find(Some(&missing), &variables).unwrap_err();
        assert!(matches!(error, Error::NotFound { sought } if sought == [missing]));
    }
}
