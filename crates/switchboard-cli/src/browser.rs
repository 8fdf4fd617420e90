//! The user's browser, started so that it has nothing to do with us.
//!
//! It gets the address as one argument and no shell sees it, it has another session than this terminal,
//! and it outlives the program: whatever is started below this process is ended with its servers, so it
//! is started by another process that leaves at once. Invariant: only what the user consented to comes
//! here.

use std::ffi::OsString;
use std::io;
use std::path::PathBuf;
use std::process::{Command, ExitCode, Stdio};

use switchboard::process::Subreaper;

/// The hidden word under which this binary starts something and leaves.
pub(crate) const SPAWN_DETACHED: &str = "__start-apart";

/// What this platform opens addresses with.
pub(crate) const PROGRAM: &str = if cfg!(target_os = "macos") {
    "open"
} else {
    "xdg-open"
};

/// Opens addresses.
#[derive(Clone, Debug)]
pub(crate) struct Browser {
    /// Where [`PROGRAM`] lies.
    pub(crate) program: PathBuf,
    pub(crate) subreaper: Option<Subreaper>,
}

impl Browser {
    /// Has an address opened. That it was begun is all that is known.
    pub(crate) async fn open(&self, url: &str) -> io::Result<()> {
        let words = [
            SPAWN_DETACHED.into(),
            OsString::from(&self.program),
            url.into(),
        ];
        let subreaper = self.subreaper.clone();
        let start = move || {
            let start = || command_without_stdio(this_program()?).args(words).status();
            match subreaper {
                Some(subreaper) => subreaper.pause(start),
                None => start(),
            }
        };
        let status = tokio::task::spawn_blocking(start).await;
        match status.map_err(io::Error::other)? {
            Ok(status) if !status.success() => Err(io::Error::other("it could not be started")),
            // Who looks after orphans may have taken leave of it before we did.
            Err(error) if error.raw_os_error() != Some(NO_CHILD) => Err(error),
            _ => Ok(()),
        }
    }
}

/// `ECHILD`
const NO_CHILD: i32 = rustix::io::Errno::CHILD.raw_os_error();

/// What the hidden word does: the first word is a program, the others are its arguments.
pub(crate) fn spawn_detached(mut words: impl Iterator<Item = OsString>) -> ExitCode {
    let Some(program) = words.next() else {
        return ExitCode::FAILURE;
    };
    // Already so if we lead our group; then it stays with the terminal, and can do without.
    let _ = rustix::process::setsid();
    match command_without_stdio(program).args(words).spawn() {
        Ok(_) => ExitCode::SUCCESS,
        Err(_) => ExitCode::FAILURE,
    }
}

/// The running one, even if its file was replaced, where that can be said.
fn this_program() -> io::Result<PathBuf> {
    if cfg!(target_os = "linux") {
        Ok(PathBuf::from("/proc/self/exe"))
    } else {
        std::env::current_exe()
    }
}

#[expect(
    clippy::disallowed_methods,
    reason = "what is started here is the user's, and is to outlive the program"
)]
fn command_without_stdio(program: impl Into<OsString>) -> Command {
    let mut command = Command::new(program.into());
    command
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    command
}
