//! Runs the command in `headersHelper` of an entry, and sends the headers that it prints.
//!
//! The headers are cached until the server rejects a request with them. Then the command runs
//! again. Requests that need new headers at the same time share one run. The command runs in its
//! own process group. The group is killed when the command has exited, after [`RUN_TIMEOUT`], or
//! when the request that started the run is cancelled.
//!
//! Invariant: no error message contains the value of a header that the command printed.

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

/// How long one run of the command may take before it is killed.
const RUN_TIMEOUT: Duration = Duration::from_secs(10);
/// How long output is read after the command has exited. The pipes may stay open longer, because a
/// descendant of the command can hold them.
const OUTPUT_GRACE_PERIOD: Duration = Duration::from_millis(500);
/// Maximum size of the command's stdout. A run that prints more fails.
const MAX_STDOUT_BYTES: usize = 64 * 1024;
/// Maximum number of bytes that are kept of the end of the command's stderr.
const STDERR_TAIL_BYTES: usize = 4 * 1024;
/// Maximum number of characters of the last line of stderr in an error message.
const MAX_QUOTED_CHARS: usize = 300;

/// An [`AuthProvider`] that runs a command and uses the headers that the command prints.
pub(crate) struct HeadersHelper {
    /// The command line, which `/bin/sh -c` runs.
    command: String,
    /// The name of the server. The command gets this name and `url` as environment variables.
    server: ServerName,
    url: String,
    /// The environment of the host. The command gets a part of it.
    variables: Arc<Variables>,
    /// The working directory of the command.
    directory: Option<PathBuf>,
    children: ProcessSupervisor,
    /// Masks the secrets of the entry, because the command may write them to stderr.
    redactor: Redactor,
    last_run: Mutex<LastRun>,
    /// Locked during a run. A request that waits for the lock then uses the outcome of that run.
    running: tokio::sync::Mutex<()>,
}

#[derive(Default)]
struct LastRun {
    /// The number of runs that have finished.
    finished_runs: u64,
    /// The outcome of the last finished run. `None` if no run has finished yet.
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
            last_run: Mutex::default(),
            running: tokio::sync::Mutex::default(),
        }
    }

    fn finished_runs(&self) -> u64 {
        lock(&self.last_run).finished_runs
    }

    fn cached_credential(&self) -> Option<Credential> {
        match &lock(&self.last_run).outcome {
            Some(Ok(credential)) => Some(credential.clone()),
            _ => None,
        }
    }

    /// Runs the command. If another run has finished since the caller read `finished_runs`, returns
    /// the outcome of that run instead.
    async fn run_or_share(&self, finished_runs: u64) -> Result<Credential, AuthError> {
        let _running = self.running.lock().await;
        {
            let last_run = lock(&self.last_run);
            let is_newer = last_run.finished_runs != finished_runs;
            if let Some(outcome) = last_run.outcome.as_ref().filter(|_| is_newer) {
                return outcome.clone();
            }
        }
        let outcome = self.run().await;
        let mut last_run = lock(&self.last_run);
        last_run.finished_runs += 1;
        last_run.outcome = Some(outcome.clone());
        outcome
    }

    async fn run(&self) -> Result<Credential, AuthError> {
        let started = self.children.start(self.launch()).await;
        let (mut process, pipes) =
            started.map_err(|error| failed(format!("could not be started: {error}")))?;
        // If the run fails or times out, this function drops `process`, which kills the process
        // group of the command.
        let finished = timeout(RUN_TIMEOUT, wait_with_output(&mut process, pipes)).await;
        let finished = finished.unwrap_or_else(|_| {
            let limit = RUN_TIMEOUT.as_secs();
            Err(failed(format!("took longer than {limit} s and was killed")))
        })?;
        // The command has exited. Kills the processes that it left in its process group.
        process.shut_down(Duration::ZERO, Duration::ZERO).await;
        let FinishedRun {
            exit,
            stdout,
            stderr,
        } = finished;
        let stdout = String::from_utf8_lossy(&stdout);
        if !exit.is_success() {
            let reason = self.describe_stderr(&stderr, &stdout);
            return Err(failed(format!("{exit}{reason}")));
        }
        output::parse_headers(&stdout)
    }

    fn launch(&self) -> Launch {
        let mut env = environment::child_env(&self.variables, &StdioConfig::new("sh"));
        for prefix in ["SWITCHBOARD", "CLAUDE_CODE_MCP"] {
            // Commands written for Claude Code read the variables with the second prefix.
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

    /// Formats the last nonempty line of stderr as the end of an error message. Masks the secrets
    /// of the entry, all words that the command wrote to stdout, and words that look like secrets.
    fn describe_stderr(&self, stderr: &[u8], stdout: &str) -> String {
        let text = String::from_utf8_lossy(stderr);
        let line = text.lines().rfind(|line| !line.trim().is_empty());
        let Some(line) = line else {
            return String::new();
        };
        let line = for_terminal(line.trim()).into_owned();
        let detected = secrets_in_arguments(std::slice::from_ref(&line));
        let printed = stdout.split_whitespace().map(Secret::from);
        let secrets = detected.into_iter().chain(printed);
        let secrets = Redactor::new(secrets.map(|secret| secret.expose().to_owned()));
        let line = secrets.redact(&self.redactor.redact(&line));
        let quoted: String = line.chars().take(MAX_QUOTED_CHARS).collect();
        format!(": {quoted}")
    }
}

impl AuthProvider for HeadersHelper {
    fn credential<'a>(
        &'a self,
        _: AuthRequest<'a>,
    ) -> BoxFuture<'a, Result<Credential, AuthError>> {
        Box::pin(async move {
            let finished_runs = self.finished_runs();
            match self.cached_credential() {
                Some(credential) => Ok(credential),
                None => self.run_or_share(finished_runs).await,
            }
        })
    }

    fn refused<'a>(&'a self, refusal: AuthRefusal<'a>) -> BoxFuture<'a, AuthVerdict> {
        Box::pin(async move {
            if refusal.previous_refusals > 0 {
                return refusal.final_verdict();
            }
            let finished_runs = self.finished_runs();
            let is_newer = |credential: &Credential| !refusal.credential.includes(credential);
            if self
                .cached_credential()
                .is_some_and(|cached| is_newer(&cached))
            {
                // Another rejected request has already run the command, and the cached headers
                // differ from the rejected ones.
                return AuthVerdict::TryAgain;
            }
            match self.run_or_share(finished_runs).await {
                Ok(printed) if is_newer(&printed) => AuthVerdict::TryAgain,
                Ok(_) => refusal.final_verdict(),
                Err(error) => AuthVerdict::Failed(error),
            }
        })
    }
}

/// The exit status and the output of one run of the command.
struct FinishedRun {
    exit: ExitOutcome,
    stdout: Vec<u8>,
    /// The last [`STDERR_TAIL_BYTES`] of stderr.
    stderr: Vec<u8>,
}

/// Reads stdout and stderr until both end, and waits for the exit of the command. After the exit,
/// reads for at most [`OUTPUT_GRACE_PERIOD`].
async fn wait_with_output(
    process: &mut ChildProcess,
    pipes: ChildPipes,
) -> Result<FinishedRun, AuthError> {
    drop(pipes.stdin);
    let (mut stdout, mut stderr) = (Vec::new(), Vec::new());
    let exit = {
        let read_pipes = async {
            tokio::try_join!(
                read_stdout(pipes.stdout, &mut stdout),
                read_stderr_tail(pipes.stderr, &mut stderr)
            )
        };
        tokio::pin!(read_pipes);
        tokio::select! {
            biased;
            read = &mut read_pipes => {
                read?;
                process.wait().await
            }
            exit = process.wait() => {
                if let Ok(read) = timeout(OUTPUT_GRACE_PERIOD, &mut read_pipes).await {
                    read?;
                }
                exit
            }
        }
    };
    Ok(FinishedRun {
        exit,
        stdout,
        stderr,
    })
}

async fn read_stdout(
    stream: impl AsyncRead + Unpin,
    output: &mut Vec<u8>,
) -> Result<(), AuthError> {
    let limit = MAX_STDOUT_BYTES as u64 + 1;
    // A read error counts as the end of the command's stdout.
    let _ = stream.take(limit).read_to_end(output).await;
    if output.len() > MAX_STDOUT_BYTES {
        let limit = MAX_STDOUT_BYTES / 1024;
        return Err(failed(format!("printed more than {limit} KiB")));
    }
    Ok(())
}

/// Reads the whole stream and keeps the last [`STDERR_TAIL_BYTES`] in `tail`.
async fn read_stderr_tail(
    mut stream: impl AsyncRead + Unpin,
    tail: &mut Vec<u8>,
) -> Result<(), AuthError> {
    let mut chunk = vec![0; STDERR_TAIL_BYTES];
    while let Ok(count @ 1..) = stream.read(&mut chunk).await {
        tail.extend(chunk.iter().take(count));
        tail.drain(..tail.len().saturating_sub(STDERR_TAIL_BYTES));
    }
    Ok(())
}

fn failed(problem: String) -> AuthError {
    AuthError::Helper { problem }
}

#[cfg(test)]
mod tests;
