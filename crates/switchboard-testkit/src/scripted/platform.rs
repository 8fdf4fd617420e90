//! Where a scripted server runs: as a child process, or in memory inside the test process.

use std::collections::HashMap;
use std::fs::OpenOptions;
use std::io::{self, Write as _};
use std::os::fd::OwnedFd;
use std::path::Path;
use std::process::Stdio;
use std::sync::{Arc, Mutex, MutexGuard, Weak};

use rustix::process::Signal;
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::watch;

use super::catalog::Catalog;
use super::message::Request;
use super::server_handle::ServerHandle;
use super::state::ServerState;
use crate::script::Grandchild;

/// What a scripted server can observe and change besides its two streams: in a child process, the
/// process and files; in memory, the state that the server shares with the test.
#[derive(Debug)]
pub struct Platform(PlatformKind);

#[derive(Debug)]
enum PlatformKind {
    Process {
        /// File descriptors above 2 that were open when the process started.
        inherited: Vec<i32>,
        /// A duplicate of stdout, for a grandchild that keeps it open.
        stdout: Mutex<Option<OwnedFd>>,
        catalog: Box<Catalog>,
    },
    Memory {
        shared: Arc<SharedState>,
        /// The number of this in-memory connection, or of this start of the HTTP server, counted
        /// from 1. Scripts use it where a child process has a pid.
        ordinal: usize,
    },
}

/// State that all connections and restarts of an in-memory or HTTP server share. Tests inspect and
/// change it.
#[derive(Debug, Default)]
pub(crate) struct SharedState {
    observed: Mutex<Observed>,
    /// The resources, prompts and tasks, kept across connections and restarts.
    catalog: Catalog,
    /// The servers that still run: one per open in-memory connection, or one per start of an HTTP
    /// server.
    running: Mutex<Vec<Weak<ServerState>>>,
    /// Wakes the tests that wait for a condition, after each recorded event.
    changed: watch::Sender<()>,
}

#[derive(Debug, Default)]
pub(crate) struct Observed {
    pub(crate) received: Vec<Value>,
    /// The requests whose handler has started. Only a [`ScriptDriver`](super::ScriptDriver) records
    /// them.
    pub(crate) executed: Vec<Value>,
    pub(crate) counters: HashMap<String, usize>,
    pub(crate) stderr: Vec<u8>,
}

impl SharedState {
    pub(crate) fn observed(&self) -> MutexGuard<'_, Observed> {
        self.observed.lock().expect("the lock is not poisoned")
    }

    /// Wakes the tests that wait for a change.
    pub(crate) fn notify_change(&self) {
        self.changed.send_replace(());
    }

    pub(crate) fn catalog(&self) -> &Catalog {
        &self.catalog
    }

    /// The servers that still run: one per open in-memory connection, or one per start of an HTTP
    /// server.
    pub(crate) fn running(&self) -> Vec<ServerHandle> {
        let mut running = self.running.lock().expect("the lock is not poisoned");
        running.retain(|state| state.strong_count() > 0);
        let servers = running.iter().filter_map(Weak::upgrade);
        servers.map(ServerHandle::new).collect()
    }

    pub(crate) fn changes(&self) -> watch::Receiver<()> {
        self.changed.subscribe()
    }
}

impl Platform {
    /// The platform of a server in its own process. `inherited` are the file descriptors above 2
    /// that the process started with. `stdout` is a duplicate of stdout, for a grandchild that
    /// keeps it open.
    pub fn process(inherited: Vec<i32>, stdout: Option<OwnedFd>) -> Self {
        Self(PlatformKind::Process {
            inherited,
            stdout: Mutex::new(stdout),
            catalog: Box::default(),
        })
    }

    pub(crate) fn memory(shared: Arc<SharedState>, ordinal: usize) -> Self {
        Self(PlatformKind::Memory { shared, ordinal })
    }

    pub(super) fn catalog(&self) -> &Catalog {
        match &self.0 {
            PlatformKind::Process { catalog, .. } => catalog,
            PlatformKind::Memory { shared, .. } => shared.catalog(),
        }
    }

    /// Adds an in-memory or HTTP server to the running servers of its shared state.
    pub(super) fn register(&self, state: &Arc<ServerState>) {
        if let PlatformKind::Memory { shared, .. } = &self.0 {
            let mut running = shared.running.lock().expect("the lock is not poisoned");
            running.push(Arc::downgrade(state));
        }
    }

    /// Wakes the tests that wait for a change.
    pub(super) fn notify_change(&self) {
        if let PlatformKind::Memory { shared, .. } = &self.0 {
            shared.notify_change();
        }
    }

    pub(super) fn record_received(&self, line: &[u8]) {
        if let PlatformKind::Memory { shared, .. } = &self.0 {
            let message = serde_json::from_slice(line)
                .unwrap_or_else(|_| Value::String(String::from_utf8_lossy(line).into_owned()));
            shared.observed().received.push(message);
            shared.notify_change();
        }
    }

    /// Increments the counters of a request whose handler starts: by method, and by method and
    /// name.
    pub(super) fn count_request(&self, request: &Request) {
        let method = &request.method;
        let with_name = request
            .subject()
            .map(|subject| format!("{method} {subject}"));
        for key in [Some(method.clone()), with_name].into_iter().flatten() {
            self.count_key(&key);
        }
    }

    /// Increments the counter `key`.
    pub(super) fn count_key(&self, key: &str) {
        self.catalog().count(key);
        if let PlatformKind::Memory { shared, .. } = &self.0 {
            *shared
                .observed()
                .counters
                .entry(key.to_owned())
                .or_default() += 1;
        }
        self.notify_change();
    }

    /// Records a request whose handler starts and increments its counters.
    pub(super) fn record_execution(&self, request: &Request) {
        let PlatformKind::Memory { shared, .. } = &self.0 else {
            return;
        };
        let mut observed = shared.observed();
        let method = &request.method;
        observed
            .executed
            .push(json!({"id": request.id, "method": method, "params": request.params}));
        drop(observed);
        self.count_request(request);
    }

    pub(super) fn count_step(&self, name: &str) -> io::Result<()> {
        match &self.0 {
            PlatformKind::Process { .. } => {
                append(Path::new(name), std::process::id().to_string().as_bytes())
            }
            PlatformKind::Memory { shared, .. } => {
                *shared
                    .observed()
                    .counters
                    .entry(name.to_owned())
                    .or_default() += 1;
                shared.notify_change();
                Ok(())
            }
        }
    }

    /// Writes to stderr; waits while the pipe is full. In memory, appends to the stderr that tests
    /// read.
    pub(super) async fn stderr(&self, bytes: &[u8]) -> io::Result<()> {
        match &self.0 {
            PlatformKind::Process { .. } => {
                let mut stderr = tokio::io::stderr();
                stderr.write_all(bytes).await?;
                stderr.flush().await
            }
            PlatformKind::Memory { shared, .. } => {
                shared.observed().stderr.extend_from_slice(bytes);
                Ok(())
            }
        }
    }

    /// Writes an error in the script to stderr.
    pub(super) fn report_script_error(&self, problem: &str) {
        match &self.0 {
            PlatformKind::Process { .. } => {
                let _ = writeln!(io::stderr(), "scripted-server: {problem}");
            }
            PlatformKind::Memory { shared, .. } => {
                let line = format!("scripted server: {problem}\n");
                shared.observed().stderr.extend_from_slice(line.as_bytes());
            }
        }
    }

    pub(super) fn process_id(&self) -> usize {
        match &self.0 {
            PlatformKind::Process { .. } => usize::try_from(std::process::id()).unwrap_or_default(),
            PlatformKind::Memory { ordinal, .. } => *ordinal,
        }
    }

    pub(super) fn inherited_descriptors(&self) -> &[i32] {
        match &self.0 {
            PlatformKind::Process { inherited, .. } => inherited,
            PlatformKind::Memory { .. } => &[],
        }
    }

    /// Writes a line to each inherited descriptor that is a regular file.
    pub(super) fn write_to_inherited_fds(&self) {
        for number in self.inherited_descriptors() {
            let path = format!("/proc/self/fd/{number}");
            // The test runner may leave other kinds of descriptors, such as pipes, open and still
            // use them.
            let is_file = std::fs::metadata(&path).is_ok_and(|found| found.is_file());
            if is_file && let Ok(mut file) = OpenOptions::new().append(true).open(path) {
                let _ = file.write_all(b"written by scripted-server\n");
            }
        }
    }

    /// The environment of the process, sorted by name. Empty in memory, where it would be the
    /// environment of the test.
    #[expect(
        clippy::disallowed_methods,
        reason = "the script prints the environment of the child"
    )]
    pub(super) fn env_vars(&self) -> Vec<(String, String)> {
        if let PlatformKind::Memory { .. } = &self.0 {
            return Vec::new();
        }
        let mut variables: Vec<_> = std::env::vars_os()
            .map(|(name, value)| {
                let text = |text: std::ffi::OsString| text.to_string_lossy().into_owned();
                (text(name), text(value))
            })
            .collect();
        variables.sort();
        variables
    }

    pub(super) fn drop_stdout(&self) {
        if let PlatformKind::Process { stdout, .. } = &self.0 {
            *stdout.lock().expect("the lock is not poisoned") = None;
        }
    }

    /// Sends SIGKILL to this process. Has no effect in memory, where
    /// [`ServerExit::Killed`](super::ServerExit::Killed) ends the server.
    pub(super) fn kill_self(&self) {
        if let PlatformKind::Process { .. } = &self.0 {
            let _ = rustix::process::kill_process(rustix::process::getpid(), Signal::KILL);
        }
    }

    /// Starts the sleeping grandchild and waits until it is running in the requested process group.
    #[expect(
        clippy::disallowed_methods,
        reason = "the grandchild outlives the server on purpose"
    )]
    pub(super) async fn spawn_grandchild(&self, grandchild: Grandchild) -> io::Result<()> {
        let stdout_copy = match &self.0 {
            PlatformKind::Process { stdout, .. } if grandchild.hold_stdout => stdout
                .lock()
                .expect("the lock is not poisoned")
                .as_ref()
                .map(OwnedFd::try_clone)
                .transpose()?,
            _ => None,
        };
        let group = match (grandchild.double_fork, grandchild.setsid) {
            (true, _) => "orphan",
            (false, true) => "own-session",
            (false, false) => "in-group",
        };
        let mut child = tokio::process::Command::new(std::env::current_exe()?)
            .args(["linger", group, &grandchild.seconds.to_string()])
            .stdin(Stdio::null())
            .stdout(stdout_copy.map_or_else(Stdio::null, Stdio::from))
            .stderr(Stdio::piped())
            .spawn()?;
        let mut first_line = String::new();
        if let Some(stderr) = child.stderr.take() {
            BufReader::new(stderr).read_line(&mut first_line).await?;
        }
        match first_line.trim_end() {
            "up" => Ok(()),
            message => Err(io::Error::other(message.to_owned())),
        }
    }
}

/// Starts two processes that each start two processes, for `generations` generations.
#[expect(
    clippy::disallowed_methods,
    reason = "the processes outlive the server on purpose"
)]
pub fn spawn_fork_bomb(generations: u32) -> io::Result<()> {
    let Some(next) = generations.checked_sub(1) else {
        return Ok(());
    };
    for _ in 0..2 {
        std::process::Command::new(std::env::current_exe()?)
            .args(["fork-bomb", &next.to_string()])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()?;
    }
    Ok(())
}

/// Writes a file; a leading `~/` of the path is the home directory.
#[expect(clippy::disallowed_methods, reason = "the home directory of the child")]
pub(super) fn write_file(path: &Path, text: &str) -> io::Result<()> {
    let path = match (path.strip_prefix("~"), std::env::var_os("HOME")) {
        (Ok(rest), Some(home)) => Path::new(&home).join(rest),
        _ => path.to_owned(),
    };
    std::fs::write(path, text)
}

/// Ignores SIGTERM from now on: tokio's signal handler stays installed until the process ends.
pub(super) fn ignore_term() -> io::Result<()> {
    signal(SignalKind::terminate()).map(drop)
}

/// Stops this process until it receives SIGCONT.
pub(super) fn stop_self() -> io::Result<()> {
    rustix::process::kill_process(rustix::process::getpid(), Signal::STOP)?;
    Ok(())
}

/// Appends one line to a file in a single write, so that several processes can share the file.
pub(super) fn append(path: &Path, line: &[u8]) -> io::Result<()> {
    let mut file = OpenOptions::new().append(true).create(true).open(path)?;
    file.write_all(&[line, b"\n"].concat())
}
