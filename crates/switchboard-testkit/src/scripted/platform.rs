//! What is around a server: a process of its own, or the memory of a test.

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

/// What is around a server.
#[derive(Debug)]
pub struct Platform(PlatformKind);

#[derive(Debug)]
enum PlatformKind {
    Process {
        /// Descriptors above 2 that were open when the process began.
        inherited: Vec<i32>,
        /// A second hold on stdout, to hand to a grandchild.
        stdout: Mutex<Option<OwnedFd>>,
        stock: Box<Catalog>,
    },
    Memory {
        memory: Arc<SharedState>,
        /// Which connection this is, from 1: stands for the process id.
        ordinal: usize,
    },
}

/// What a test can see of the servers that it runs in memory.
#[derive(Debug, Default)]
pub(crate) struct SharedState {
    seen: Mutex<Observed>,
    /// What its servers offer, over all connections and lives.
    stock: Catalog,
    /// Its connections, or lives, that have not ended.
    running: Mutex<Vec<Weak<ServerState>>>,
    /// Changes whenever something is received or done.
    changed: watch::Sender<()>,
}

#[derive(Debug, Default)]
pub(crate) struct Observed {
    pub(crate) received: Vec<Value>,
    /// The requests that a handler has begun to carry out, where the server is played by messages.
    pub(crate) executed: Vec<Value>,
    pub(crate) counters: HashMap<String, usize>,
    pub(crate) stderr: Vec<u8>,
}

impl SharedState {
    pub(crate) fn seen(&self) -> MutexGuard<'_, Observed> {
        self.seen.lock().expect("no holder panics")
    }

    /// Wakes whoever waits for a change.
    pub(crate) fn touch(&self) {
        self.changed.send_replace(());
    }

    pub(crate) fn stock(&self) -> &Catalog {
        &self.stock
    }

    /// The connections, or lives, that have not ended.
    pub(crate) fn running(&self) -> Vec<ServerHandle> {
        let mut running = self.running.lock().expect("no holder panics");
        running.retain(|shared| shared.strong_count() > 0);
        let servers = running.iter().filter_map(Weak::upgrade);
        servers.map(ServerHandle::new).collect()
    }

    pub(crate) fn changes(&self) -> watch::Receiver<()> {
        self.changed.subscribe()
    }
}

impl Platform {
    /// The process that this runs in. `inherited` are the descriptors above 2 that it began with,
    /// `stdout` a second hold on its stdout for a grandchild to keep open.
    pub fn process(inherited: Vec<i32>, stdout: Option<OwnedFd>) -> Self {
        Self(PlatformKind::Process {
            inherited,
            stdout: Mutex::new(stdout),
            stock: Box::default(),
        })
    }

    pub(crate) fn memory(memory: Arc<SharedState>, ordinal: usize) -> Self {
        Self(PlatformKind::Memory { memory, ordinal })
    }

    pub(super) fn stock(&self) -> &Catalog {
        match &self.0 {
            PlatformKind::Process { stock, .. } => stock,
            PlatformKind::Memory { memory, .. } => memory.stock(),
        }
    }

    /// Makes a server known to whoever holds the memory.
    pub(super) fn introduce(&self, shared: &Arc<ServerState>) {
        if let PlatformKind::Memory { memory, .. } = &self.0 {
            let mut running = memory.running.lock().expect("no holder panics");
            running.push(Arc::downgrade(shared));
        }
    }

    /// Wakes whoever waits for a change.
    pub(super) fn touch(&self) {
        if let PlatformKind::Memory { memory, .. } = &self.0 {
            memory.touch();
        }
    }

    pub(super) fn received(&self, line: &[u8]) {
        if let PlatformKind::Memory { memory, .. } = &self.0 {
            let message = serde_json::from_slice(line)
                .unwrap_or_else(|_| Value::String(String::from_utf8_lossy(line).into_owned()));
            memory.seen().received.push(message);
            memory.touch();
        }
    }

    /// Counts a request that a handler begins to carry out: by its method, and by method and name.
    pub(super) fn counts(&self, request: &Request) {
        let method = &request.method;
        let with_name = request
            .subject()
            .map(|subject| format!("{method} {subject}"));
        for key in [Some(method.clone()), with_name].into_iter().flatten() {
            self.counts_as(&key);
        }
    }

    /// Counts something under this key.
    pub(super) fn counts_as(&self, key: &str) {
        self.stock().count(key);
        if let PlatformKind::Memory { memory, .. } = &self.0 {
            *memory.seen().counters.entry(key.to_owned()).or_default() += 1;
        }
        self.touch();
    }

    /// A handler begins to carry out a request, where the server is played by messages.
    pub(super) fn executes(&self, request: &Request) {
        let PlatformKind::Memory { memory, .. } = &self.0 else {
            return;
        };
        let mut seen = memory.seen();
        let method = &request.method;
        seen.executed
            .push(json!({"id": request.id, "method": method, "params": request.params}));
        drop(seen);
        self.counts(request);
    }

    pub(super) fn count(&self, name: &str) -> io::Result<()> {
        match &self.0 {
            PlatformKind::Process { .. } => {
                append(Path::new(name), std::process::id().to_string().as_bytes())
            }
            PlatformKind::Memory { memory, .. } => {
                *memory.seen().counters.entry(name.to_owned()).or_default() += 1;
                memory.touch();
                Ok(())
            }
        }
    }

    /// Writes to stderr; waits while nobody reads it.
    pub(super) async fn stderr(&self, bytes: &[u8]) -> io::Result<()> {
        match &self.0 {
            PlatformKind::Process { .. } => {
                let mut stderr = tokio::io::stderr();
                stderr.write_all(bytes).await?;
                stderr.flush().await
            }
            PlatformKind::Memory { memory, .. } => {
                memory.seen().stderr.extend_from_slice(bytes);
                Ok(())
            }
        }
    }

    /// Reports a fault of the script.
    pub(super) fn complain(&self, what: &str) {
        match &self.0 {
            PlatformKind::Process { .. } => {
                let _ = writeln!(io::stderr(), "scripted-server: {what}");
            }
            PlatformKind::Memory { memory, .. } => {
                let line = format!("scripted server: {what}\n");
                memory.seen().stderr.extend_from_slice(line.as_bytes());
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

    /// Writes a line to each inherited descriptor that can be written to.
    pub(super) fn use_descriptors(&self) {
        for number in self.inherited_descriptors() {
            let path = format!("/proc/self/fd/{number}");
            // Whoever runs the tests may leave descriptors of other kinds open, and needs them.
            let is_file = std::fs::metadata(&path).is_ok_and(|found| found.is_file());
            if is_file && let Ok(mut file) = OpenOptions::new().append(true).open(path) {
                let _ = file.write_all(b"the scripted server was here\n");
            }
        }
    }

    /// The environment, sorted by name; none in memory, where it would be the test's own.
    #[expect(
        clippy::disallowed_methods,
        reason = "showing what the child was given is the point"
    )]
    pub(super) fn environment(&self) -> Vec<(String, String)> {
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

    pub(super) fn forget_stdout(&self) {
        if let PlatformKind::Process { stdout, .. } = &self.0 {
            *stdout.lock().expect("no holder panics") = None;
        }
    }

    /// Signal 9 to itself. Returns in memory, where the streams are dropped instead.
    pub(super) fn kill_self(&self) {
        if let PlatformKind::Process { .. } = &self.0 {
            let _ = rustix::process::kill_process(rustix::process::getpid(), Signal::KILL);
        }
    }

    /// Starts the sleeping grandchild, and returns when it stands where it was asked to.
    #[expect(
        clippy::disallowed_methods,
        reason = "a grandchild that is left behind on purpose"
    )]
    pub(super) async fn spawn_grandchild(&self, grandchild: Grandchild) -> io::Result<()> {
        let held = match &self.0 {
            PlatformKind::Process { stdout, .. } if grandchild.hold_stdout => stdout
                .lock()
                .expect("no holder panics")
                .as_ref()
                .map(OwnedFd::try_clone)
                .transpose()?,
            _ => None,
        };
        let place = match (grandchild.double_fork, grandchild.setsid) {
            (true, _) => "orphan",
            (false, true) => "own-session",
            (false, false) => "in-group",
        };
        let mut child = tokio::process::Command::new(std::env::current_exe()?)
            .args(["linger", place, &grandchild.seconds.to_string()])
            .stdin(Stdio::null())
            .stdout(held.map_or_else(Stdio::null, Stdio::from))
            .stderr(Stdio::piped())
            .spawn()?;
        let mut first_line = String::new();
        if let Some(stderr) = child.stderr.take() {
            BufReader::new(stderr).read_line(&mut first_line).await?;
        }
        match first_line.trim_end() {
            "up" => Ok(()),
            complaint => Err(io::Error::other(complaint.to_owned())),
        }
    }
}

/// Starts two processes that start two processes each, and so on.
#[expect(
    clippy::disallowed_methods,
    reason = "processes that are left behind on purpose"
)]
pub fn spawn_breeders(generations: u32) -> io::Result<()> {
    let Some(next) = generations.checked_sub(1) else {
        return Ok(());
    };
    for _ in 0..2 {
        std::process::Command::new(std::env::current_exe()?)
            .args(["breed", &next.to_string()])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()?;
    }
    Ok(())
}

/// Writes a file; `~/` at the beginning of its path is the home directory.
#[expect(
    clippy::disallowed_methods,
    reason = "where the child was told that its home is"
)]
pub(super) fn write_file(path: &Path, text: &str) -> io::Result<()> {
    let path = match (path.strip_prefix("~"), std::env::var_os("HOME")) {
        (Ok(rest), Some(home)) => Path::new(&home).join(rest),
        _ => path.to_owned(),
    };
    std::fs::write(path, text)
}

/// Survives SIGTERM from now on: tokio's handler stays for the life of the process.
pub(super) fn ignore_term() -> io::Result<()> {
    signal(SignalKind::terminate()).map(drop)
}

/// Stops this process until somebody continues it.
pub(super) fn stop_self() -> io::Result<()> {
    rustix::process::kill_process(rustix::process::getpid(), Signal::STOP)?;
    Ok(())
}

/// Appends one line in one write, so that several processes can share the file.
pub(super) fn append(path: &Path, line: &[u8]) -> io::Result<()> {
    let mut file = OpenOptions::new().append(true).create(true).open(path)?;
    file.write_all(&[line, b"\n"].concat())
}
