//! Opens a URL in a browser that outlives this process.
//!
//! This process kills its descendants at exit, so a short-lived helper process (this binary with
//! `__spawn-detached`) starts the browser in a new session (`setsid`) and exits at once. The URL is
//! passed as one argument and never through a shell. Invariant: callers pass only URLs that the
//! user agreed to open.

use std::ffi::OsString;
use std::io;
use std::path::PathBuf;
use std::process::{Command, ExitCode, Stdio};

use switchboard::process::Subreaper;

/// The hidden command that runs this binary as the helper process, which starts the browser.
pub(crate) const SPAWN_DETACHED: &str = "__spawn-detached";

/// The program that opens URLs on this platform.
pub(crate) const URL_OPENER: &str = if cfg!(target_os = "macos") {
    "open"
} else {
    "xdg-open"
};

/// Opens URLs with [`URL_OPENER`].
#[derive(Clone, Debug)]
pub(crate) struct Browser {
    /// Where [`URL_OPENER`] was found on this machine.
    pub(crate) program: PathBuf,
    pub(crate) subreaper: Option<Subreaper>,
}

impl Browser {
    /// Starts the browser. Success means that the browser was started, not that it shows the URL.
    pub(crate) async fn open(&self, url: &str) -> io::Result<()> {
        let args = [
            SPAWN_DETACHED.into(),
            OsString::from(&self.program),
            url.into(),
        ];
        let subreaper = self.subreaper.clone();
        let start = move || {
            let start = || command_without_stdio(this_program()?).args(args).status();
            match subreaper {
                Some(subreaper) => subreaper.pause(start),
                None => start(),
            }
        };
        let status = tokio::task::spawn_blocking(start).await;
        match status.map_err(io::Error::other)? {
            Ok(status) if !status.success() => Err(io::Error::other("could not start the browser")),
            // ECHILD: the subreaper of this process may have waited for the helper already.
            Err(error) if error.raw_os_error() != Some(ECHILD) => Err(error),
            _ => Ok(()),
        }
    }
}

const ECHILD: i32 = rustix::io::Errno::CHILD.raw_os_error();

/// Runs as the helper process: starts the first argument as a program with the rest as its
/// arguments.
pub(crate) fn spawn_detached(mut args: impl Iterator<Item = OsString>) -> ExitCode {
    let Some(program) = args.next() else {
        return ExitCode::FAILURE;
    };
    // Fails if this process is already a process group leader. The browser then stays in the
    // terminal's session.
    let _ = rustix::process::setsid();
    match command_without_stdio(program).args(args).spawn() {
        Ok(_) => ExitCode::SUCCESS,
        Err(_) => ExitCode::FAILURE,
    }
}

/// The path of the running binary. On Linux the path stays valid if the file was replaced.
fn this_program() -> io::Result<PathBuf> {
    if cfg!(target_os = "linux") {
        Ok(PathBuf::from("/proc/self/exe"))
    } else {
        std::env::current_exe()
    }
}

#[expect(
    clippy::disallowed_methods,
    reason = "the browser must outlive this process, so the process guard must not own it"
)]
fn command_without_stdio(program: impl Into<OsString>) -> Command {
    let mut command = Command::new(program.into());
    command
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    command
}
