//! An open session together with the child process that serves it.
//!
//! [`LiveSession`] ends the session first and then the child. It collects the exit code and the
//! last output of a child that failed. Invariant: dropping a [`LiveSession`] ends the child and all
//! tasks of the session.

use std::fmt;
use std::time::Duration;

#[cfg(feature = "stdio")]
use switchboard_process::ChildProcess;
use tokio::time::{Instant, timeout};
use tokio_util::sync::CancellationToken;

use super::error::{ConnectError, ServerOutput};
use crate::connect_stage::ConnectAttempt;
use crate::deadlines::Deadlines;
use crate::session::{Session, SessionEnd};
use crate::stderr::StderrTail;

/// Maximum duration of each wait for the last output or the exit code of a child. After the end of
/// stdout, the session waits for the exit code, then for the end of stderr. After the exit of the
/// child, the session waits for the end of stdout.
const LAST_OUTPUT_WAIT: Duration = Duration::from_millis(500);

/// An open session with its child process, if it has one. Dropping it ends the session and the
/// child.
pub struct LiveSession {
    /// The session. Dropping this `LiveSession` closes the session, even if clones of the session
    /// exist.
    pub session: Session,
    #[cfg(feature = "stdio")]
    process: Option<ChildProcess>,
    /// The last lines that the child wrote to stderr. `None` without a child.
    pub stderr: Option<StderrTail>,
    deadlines: Deadlines,
    /// Ends the tasks of this session when cancelled. One of these tasks reads stderr, so
    /// [`shut_down`](Self::shut_down) cancels the token only after the child has exited.
    stop: CancellationToken,
    opened_at: Instant,
    /// How long each step of the connection attempt took.
    pub attempt: ConnectAttempt,
}

impl LiveSession {
    pub(super) fn new(session: Session, deadlines: Deadlines, stop: CancellationToken) -> Self {
        Self {
            session,
            #[cfg(feature = "stdio")]
            process: None,
            stderr: None,
            deadlines,
            stop,
            opened_at: Instant::now(),
            attempt: ConnectAttempt::default(),
        }
    }

    /// Adds the child process that serves the session.
    #[cfg(feature = "stdio")]
    pub(super) fn with_child(mut self, process: ChildProcess, stderr: StderrTail) -> Self {
        self.process = Some(process);
        self.stderr = Some(stderr);
        self
    }

    /// Fails if the program of the child changed since it was approved. A child without an approved
    /// program is not checked.
    #[cfg(feature = "stdio")]
    pub(super) async fn recheck_program(&self) -> Result<(), ConnectError> {
        match &self.process {
            Some(process) => Ok(process.recheck_executable().await?),
            None => Ok(()),
        }
    }

    #[cfg(not(feature = "stdio"))]
    #[expect(clippy::unused_async, reason = "same signature as with `stdio`")]
    pub(super) async fn recheck_program(&self) -> Result<(), ConnectError> {
        Ok(())
    }

    /// The time since the transport was opened.
    pub fn age(&self) -> Duration {
        self.opened_at.elapsed()
    }

    /// Ends the session, then the child. Closes stdin, sends SIGTERM if the child does not exit,
    /// and SIGKILL if it still does not exit. The time limits are in [`Deadlines`].
    #[cfg_attr(not(feature = "stdio"), expect(unused_mut))]
    pub async fn shut_down(mut self) {
        let session = self.session.clone();
        // Send pending cancellations, or the server keeps executing the cancelled calls.
        let _ = timeout(self.deadlines.exit_after_eof, session.flush_notifications()).await;
        self.session.close();
        #[cfg(feature = "http")]
        if let Session::StreamableHttp(http) = session {
            http.delete_session(self.deadlines.exit_after_eof).await;
        }
        #[cfg(feature = "stdio")]
        if let Some(process) = self.process.take() {
            process
                .shut_down(
                    self.deadlines.exit_after_eof,
                    self.deadlines.exit_after_term,
                )
                .await;
        }
        self.stop.cancel();
    }

    /// Whether the server is a child process of this program.
    pub fn has_child(&self) -> bool {
        // A session has a stderr if and only if it has a child.
        self.stderr.is_some()
    }

    /// Waits until the session ends or its child exits. Both must be watched: a descendant may keep
    /// the stdout of the child open after the child has exited.
    pub async fn ended(&mut self) {
        let session = self.session.clone();
        tokio::select! {
            biased;
            _ = session.ended() => {}
            () = self.child_ended() => {
                // Give the session time to read what the child wrote before it exited.
                let _ = timeout(LAST_OUTPUT_WAIT, session.ended()).await;
                session.close();
            }
        }
    }

    async fn child_ended(&mut self) {
        #[cfg(feature = "stdio")]
        if let Some(process) = &mut self.process {
            process.wait().await;
            return;
        }
        std::future::pending::<()>().await;
    }

    /// Returns why the session ended: the transport error, the exit code of the child and the last
    /// output of the child. Waits a short time for each of them.
    pub async fn failure(&mut self) -> ConnectError {
        // After a failed write, the session ends when the reader ends, or after a delay.
        let end = timeout(2 * LAST_OUTPUT_WAIT, self.session.ended()).await;
        let end = end.unwrap_or(SessionEnd::Eof { partial_line: None });
        if let SessionEnd::NeedsLogin(login) = end {
            return ConnectError::NeedsLogin(login);
        }
        let exit = self.exit_outcome().await;
        let output = self.last_output().await;
        let reason = match (&end, exit) {
            (
                SessionEnd::Eof { partial_line: None } | SessionEnd::Io(_) | SessionEnd::Closed,
                Some(exit),
            ) => format!("the server {exit}"),
            (end, Some(exit)) => format!("{end}; it {exit}"),
            (end, None) => end.to_string(),
        };
        ConnectError::SessionEnded { reason, output }
    }

    /// Describes how the child exited. `None` without a child, or if it is still running after
    /// [`LAST_OUTPUT_WAIT`].
    async fn exit_outcome(&mut self) -> Option<String> {
        #[cfg(feature = "stdio")]
        if let Some(process) = &mut self.process {
            let exit = timeout(LAST_OUTPUT_WAIT, process.wait()).await.ok()?;
            return Some(exit.to_string());
        }
        None
    }

    /// The output of the server. Waits at most [`LAST_OUTPUT_WAIT`] for the end of its stderr.
    async fn last_output(&self) -> ServerOutput {
        if let Some(stderr) = &self.stderr {
            let _ = timeout(LAST_OUTPUT_WAIT, stderr.drained()).await;
        }
        self.output()
    }

    /// The output of the server so far.
    pub(super) fn output(&self) -> ServerOutput {
        let stray_stdout = match &self.session {
            Session::Line(line) => line.stray_output(),
            _ => None,
        };
        let stderr = self.stderr.as_ref().map(StderrTail::last_lines);
        ServerOutput {
            stderr: stderr.unwrap_or_default(),
            stray_stdout,
        }
    }
}

impl fmt::Debug for LiveSession {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LiveSession")
            .field("session", &self.session)
            .field("attempt", &self.attempt)
            .finish_non_exhaustive()
    }
}

impl Drop for LiveSession {
    fn drop(&mut self) {
        self.session.close();
        self.stop.cancel();
    }
}
