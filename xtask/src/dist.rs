//! Builds the archive that users install from: `cargo xtask dist [--target TRIPLE]`.
//!
//! The archive contains the stripped binary, the manual pages, the completion scripts, the
//! licenses, the README and the changelog. Invariant: pages and scripts are printed by the binary
//! in the archive, so they describe exactly that binary.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use crate::steps::{Failure, Steps, cargo, program};

const STEP: &str = "dist";
const PROGRAM: &str = "switchboard";
const VERSION: &str = env!("CARGO_PKG_VERSION");
/// Shells and the file names under which their scripts are installed.
const COMPLETIONS: [(&str, &str); 3] = [
    ("bash", "switchboard.bash"),
    ("fish", "switchboard.fish"),
    ("zsh", "_switchboard"),
];
const DOCUMENTS: [&str; 4] = ["README.md", "CHANGELOG.md", "LICENSE-APACHE", "LICENSE-MIT"];

/// The platform that the binary is built for.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Target {
    /// The musl target of this machine if its standard library is installed, else the machine's own
    /// target. A binary for musl has no dependencies on the system.
    Default,
    Triple(String),
}

impl Target {
    pub(crate) fn parse(words: &[&str]) -> Option<Self> {
        match words {
            [] => Some(Self::Default),
            ["--target", triple] => Some(Self::Triple((*triple).to_owned())),
            _ => None,
        }
    }
}

pub(crate) fn run(steps: &mut Steps, target: Target) -> Result<(), Failure> {
    let triple = match target {
        Target::Triple(triple) => triple,
        Target::Default => default_triple()?,
    };
    let output = target_directory(steps.root()).join("dist");
    let build = [
        "build",
        "--release",
        "--package",
        "switchboard-cli",
        "--target",
        &triple,
    ];
    // The binary for distribution differs from that of `cargo build --release` only by its target
    // and its missing symbols.
    steps.run(
        "build",
        cargo(&build).env("CARGO_PROFILE_RELEASE_STRIP", "symbols"),
    )?;
    let binary = target_directory(steps.root()).join(&triple).join("release");
    let name = format!("{PROGRAM}-{VERSION}-{triple}");
    let staging = output.join(&name);
    let root = steps.root().to_owned();
    steps.run_work(STEP, &name, || {
        stage(&root, &binary.join(PROGRAM), &staging).map_err(|error| failed(&error))
    })?;
    let archive = output.join(format!("{name}.tar.gz"));
    steps.run(
        "archive",
        tar(&["-czf"], &archive).arg("-C").arg(&output).arg(&name),
    )?;
    steps.run("listing", &mut tar(&["-tzvf"], &archive))
}

/// Copies and generates the files of the archive.
fn stage(root: &Path, binary: &Path, staging: &Path) -> io::Result<()> {
    match fs::remove_dir_all(staging) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let manuals = staging.join("man/man1");
    let completions = staging.join("completions");
    for directory in [&manuals, &completions] {
        fs::create_dir_all(directory)?;
    }
    fs::copy(binary, staging.join(PROGRAM))?;
    for document in DOCUMENTS {
        fs::copy(root.join(document), staging.join(document))?;
    }
    fs::write(manuals.join("switchboard.1"), print(binary, &["man"])?)?;
    for command in commands(binary)? {
        let page = print(binary, &["man", &command])?;
        fs::write(manuals.join(format!("switchboard-{command}.1")), page)?;
    }
    for (shell, file) in COMPLETIONS {
        fs::write(
            completions.join(file),
            print(binary, &["completions", shell])?,
        )?;
    }
    Ok(())
}

/// The names of the commands, from the section `Commands:` of the help text.
fn commands(binary: &Path) -> io::Result<Vec<String>> {
    let help = print(binary, &["--help"])?;
    let names = commands_in(&String::from_utf8_lossy(&help));
    if names.is_empty() {
        return Err(io::Error::other("the help text lists no commands"));
    }
    Ok(names)
}

fn commands_in(help: &str) -> Vec<String> {
    let section = help.lines().skip_while(|line| *line != "Commands:").skip(1);
    section
        .take_while(|line| line.starts_with("  "))
        // Continuation lines of a description are indented further.
        .filter(|line| !line.starts_with("   "))
        .filter_map(|line| line.split_whitespace().next())
        .filter(|name| *name != "help")
        .map(str::to_owned)
        .collect()
}

/// The stdout of the binary with these arguments. Fails if the binary exits with a failure.
fn print(binary: &Path, arguments: &[&str]) -> io::Result<Vec<u8>> {
    let shown = || format!("{} {}", binary.display(), arguments.join(" "));
    let Output { status, stdout, .. } = program(binary).args(arguments).output()?;
    if !status.success() {
        return Err(io::Error::other(format!("`{}` failed: {status}", shown())));
    }
    Ok(stdout)
}

fn tar(options: &[&str], archive: &Path) -> Command {
    let mut command = program("tar");
    command.args(options).arg(archive);
    command
}

fn target_directory(root: &Path) -> PathBuf {
    let directory = crate::steps::variable("CARGO_TARGET_DIR");
    directory.map_or_else(|| root.join("target"), |directory| root.join(directory))
}

fn default_triple() -> Result<String, Failure> {
    let version = rustc(&["-vV"])?;
    let host = version
        .lines()
        .find_map(|line| line.strip_prefix("host: "))
        .unwrap_or_default()
        .to_owned();
    let musl = host.replace("-gnu", "-musl");
    let libraries = rustc(&["--print", "target-libdir", "--target", &musl])?;
    if Path::new(libraries.trim()).is_dir() {
        return Ok(musl);
    }
    println!("the target {musl} is not installed; building for {host}");
    Ok(host)
}

fn rustc(arguments: &[&str]) -> Result<String, Failure> {
    let output = program("rustc")
        .args(arguments)
        .output()
        .map_err(|error| failed(&error))?;
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

fn failed(error: &io::Error) -> Failure {
    Failure::Step {
        step: STEP,
        reason: error.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_are_read_from_help() {
        let help = "Usage: switchboard COMMAND\n\nCommands:\n  list   List servers\n         and more\n  \
                    call   Call a tool\n  help   Print help\n\nOptions:\n  --json\n";
        assert_eq!(commands_in(help), ["list", "call"]);
    }
}
