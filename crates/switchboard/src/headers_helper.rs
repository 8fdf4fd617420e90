//! Headers that a command prints: the entry's `headersHelper`.
//!
//! What it printed is kept until the server refuses it; then the command runs anew, once for all who
//! wait for it. It is a child like any other of the host's: in a group of its own, ended when its time
//! is up and when nobody waits for it any more. Invariant: nothing of its output is in any error.

mod output;

use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use switchboard_config::{Secret, StdioConfig, secrets_in_arguments};
use switchboard_process::{
    ChildPipes, ChildProcess, ExitOutcome, Launch, MARKER_VARIABLE, ProcessSupervisor,
};
use tokio::io::{AsyncRead, AsyncReadExt};
use tokio::time::timeout;

use crate::content::for_terminal;
use crate::id::ServerName;
use crate::server::environment;
use crate::server::environment::Variables;
use switchboard_client::auth::{
    AuthError, AuthProvider, AuthRefusal, AuthRequest, AuthVerdict, Credential,
};
use switchboard_wire::BoxFuture;
use switchboard_wire::redact::Redactor;
use switchboard_wire::sync::lock;

/// The longest that the command may take.
const LONGEST: Duration = Duration::from_secs(10);
/// How long is waited for the rest of its output once it has exited: somebody else may hold it open.
const LAST_WORDS: Duration = Duration::from_millis(500);
/// As much it may print.
const MAX_OUTPUT: usize = 64 * 1024;
/// As much of the end of its stderr is kept.
const MAX_STDERR: usize = 4 * 1024;
/// As much of its last line is quoted.
const QUOTED_CHARS: usize = 300;

/// The command of an entry, and what it printed last.
pub(crate) struct HeadersHelper {
    command: String,
    /// Whose headers they are, and where they go; the command is told.
    server: ServerName,
    url: String,
    variables: Arc<Variables>,
    directory: Option<PathBuf>,
    children: ProcessSupervisor,
    /// The entry's own secrets, which the command may repeat when it fails.
    redactor: Redactor,
    kept: Mutex<Kept>,
    /// Held while the command runs, so that it runs once for all who wait.
    turn: tokio::sync::Mutex<()>,
}

#[derive(Default)]
struct Kept {
    /// How often the command has run.
    runs: u64,
    /// What came of it the last time.
    outcome: Option<Result<Credential, AuthError>>,
}

impl HeadersHelper {
    pub(crate) fn new(
        command: String,
        server: ServerName,
        url: String,
        variables: Arc<Variables>,
        directory: Option<PathBuf>,
        children: ProcessSupervisor,
        redactor: Redactor,
    ) -> Self {
        Self {
            command,
            server,
            url,
            variables,
            directory,
            children,
            redactor,
            kept: Mutex::default(),
            turn: tokio::sync::Mutex::default(),
        }
    }

    fn runs(&self) -> u64 {
        lock(&self.kept).runs
    }

    fn held(&self) -> Option<Credential> {
        match &lock(&self.kept).outcome {
            Some(Ok(credential)) => Some(credential.clone()),
            _ => None,
        }
    }

    /// Runs the command, unless somebody else has done so since it had run `runs` times.
    async fn run_once_since(&self, runs: u64) -> Result<Credential, AuthError> {
        let _turn = self.turn.lock().await;
        {
            let kept = lock(&self.kept);
            if let Some(outcome) = kept.outcome.as_ref().filter(|_| kept.runs != runs) {
                return outcome.clone();
            }
        }
        let outcome = self.run().await;
        let mut kept = lock(&self.kept);
        kept.runs += 1;
        kept.outcome = Some(outcome.clone());
        outcome
    }

    async fn run(&self) -> Result<Credential, AuthError> {
        let started = self.children.start(self.launch()).await;
        let (mut process, pipes) =
            started.map_err(|error| failed(format!("was not started: {error}")))?;
        // Whatever comes of it, dropping the process ends its whole group.
        let finished = timeout(LONGEST, read(&mut process, pipes)).await;
        let finished = finished.unwrap_or_else(|_| {
            let limit = LONGEST.as_secs();
            Err(failed(format!("took longer than {limit} s and was ended")))
        })?;
        process.shut_down(Duration::ZERO, Duration::ZERO).await;
        let Finished {
            exit,
            stdout,
            stderr,
        } = finished;
        let text = String::from_utf8_lossy(&stdout);
        if !exit.is_success() {
            let words = self.last_line(&stderr, &text);
            return Err(failed(format!("{exit}{words}")));
        }
        output::parse(&text)
    }

    fn launch(&self) -> Launch {
        let mut env = environment::child_env(&self.variables, &StdioConfig::new("sh"));
        for prefix in ["SWITCHBOARD", "CLAUDE_CODE_MCP"] {
            // The second is what commands written for Claude Code read.
            env.insert(format!("{prefix}_SERVER_NAME"), self.server.to_string());
            env.insert(format!("{prefix}_SERVER_URL"), self.url.clone());
        }
        Launch {
            args: vec!["-c".to_owned(), self.command.clone()],
            cwd: self.directory.clone(),
            env,
            parent_marker: self.variables.get(MARKER_VARIABLE).cloned(),
            ..Launch::new("/bin/sh")
        }
    }

    /// The last line of what it wrote to stderr, as the end of a message: without the entry's secrets,
    /// without what it printed, and without what looks like a secret.
    fn last_line(&self, stderr: &[u8], stdout: &str) -> String {
        let text = String::from_utf8_lossy(stderr);
        let line = text.lines().rfind(|line| !line.trim().is_empty());
        let Some(line) = line else {
            return String::new();
        };
        let line = for_terminal(line.trim()).into_owned();
        let looks = secrets_in_arguments(std::slice::from_ref(&line));
        let printed = stdout.split_whitespace().map(Secret::from);
        let secrets = looks.into_iter().chain(printed);
        let secrets = Redactor::new(secrets.map(|secret| secret.expose().to_owned()));
        let line = secrets.redact(&self.redactor.redact(&line));
        format!(": {}", line.chars().take(QUOTED_CHARS).collect::<String>())
    }
}

impl AuthProvider for HeadersHelper {
    fn credential<'a>(
        &'a self,
        _: AuthRequest<'a>,
    ) -> BoxFuture<'a, Result<Credential, AuthError>> {
        Box::pin(async move {
            let runs = self.runs();
            match self.held() {
                Some(credential) => Ok(credential),
                None => self.run_once_since(runs).await,
            }
        })
    }

    fn refused<'a>(&'a self, refusal: AuthRefusal<'a>) -> BoxFuture<'a, AuthVerdict> {
        Box::pin(async move {
            if refusal.before > 0 {
                return refusal.final_verdict();
            }
            let runs = self.runs();
            let is_newer = |held: &Credential| !refusal.credential.includes(held);
            if self.held().is_some_and(|held| is_newer(&held)) {
                // Somebody else was refused as well, and faster.
                return AuthVerdict::TryAgain;
            }
            match self.run_once_since(runs).await {
                Ok(printed) if is_newer(&printed) => AuthVerdict::TryAgain,
                Ok(_) => refusal.final_verdict(),
                Err(error) => AuthVerdict::Failed(error),
            }
        })
    }
}

/// What a command left that came to its end.
struct Finished {
    exit: ExitOutcome,
    stdout: Vec<u8>,
    stderr: Vec<u8>,
}

async fn read(process: &mut ChildProcess, pipes: ChildPipes) -> Result<Finished, AuthError> {
    let ChildPipes {
        stdin,
        stdout,
        stderr,
    } = pipes;
    drop(stdin);
    let (mut printed, mut words) = (Vec::new(), Vec::new());
    let exit = {
        let reading = async {
            tokio::try_join!(
                read_all(stdout, &mut printed),
                read_tail(stderr, &mut words)
            )
        };
        tokio::pin!(reading);
        tokio::select! {
            biased;
            read = &mut reading => {
                read?;
                process.wait().await
            }
            exit = process.wait() => {
                if let Ok(read) = timeout(LAST_WORDS, &mut reading).await {
                    read?;
                }
                exit
            }
        }
    };
    Ok(Finished {
        exit,
        stdout: printed,
        stderr: words,
    })
}

async fn read_all(stream: impl AsyncRead + Unpin, into: &mut Vec<u8>) -> Result<(), AuthError> {
    let limit = MAX_OUTPUT as u64 + 1;
    // A stream that breaks ends.
    let _ = stream.take(limit).read_to_end(into).await;
    if into.len() > MAX_OUTPUT {
        let limit = MAX_OUTPUT / 1024;
        return Err(failed(format!("printed more than {limit} KiB")));
    }
    Ok(())
}

async fn read_tail(
    mut stream: impl AsyncRead + Unpin,
    into: &mut Vec<u8>,
) -> Result<(), AuthError> {
    let mut piece = vec![0; MAX_STDERR];
    while let Ok(count @ 1..) = stream.read(&mut piece).await {
        into.extend(piece.iter().take(count));
        into.drain(..into.len().saturating_sub(MAX_STDERR));
    }
    Ok(())
}

fn failed(what: String) -> AuthError {
    AuthError::Helper { what }
}

#[cfg(test)]
mod tests;
