//! A thread that polls config files.
//!
//! Invariant: dropping [`ReloadThread`] ends the thread, after the current poll at the latest.

use std::convert::Infallible;
use std::io;
use std::sync::mpsc::{RecvTimeoutError, SyncSender, sync_channel};
use std::thread;
use std::time::Instant;

use super::{ConfigPoller, ConfigSnapshot, PolledFiles};
use crate::expand::Environment;

/// Polls config files on its own thread, so that a slow disk blocks nothing else. Dropping it stops
/// the thread.
///
/// ```
/// use std::sync::mpsc::sync_channel;
/// use switchboard_config::{ConfigSources, PolledFiles, ReloadThread};
///
/// let (sender, snapshots) = sync_channel(1);
/// let files = || PolledFiles::from(ConfigSources { user: Some("mcp.json".into()), ..Default::default() });
/// let thread = ReloadThread::spawn(files, |_: &str| None, move |snapshot| drop(sender.send(snapshot)))?;
/// let first = snapshots.recv().unwrap_or_default();
/// assert!(first.loaded.config.servers.is_empty());
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Debug)]
pub struct ReloadThread {
    /// Never sends: the thread stops when the channel disconnects.
    _alive: SyncSender<Infallible>,
}

impl ReloadThread {
    /// Starts the thread. It calls `files` before each poll, because the project may be created
    /// later. It calls `on_change` with the initial config and with each later snapshot.
    pub fn spawn(
        mut files: impl FnMut() -> PolledFiles + Send + 'static,
        environment: impl Environment + Send + 'static,
        mut on_change: impl FnMut(ConfigSnapshot) + Send + 'static,
    ) -> io::Result<Self> {
        let (alive, stopped) = sync_channel(0);
        let mut poller = ConfigPoller::new();
        let run = move || {
            loop {
                if let Some(snapshot) = poller.poll(&files(), &environment, Instant::now()) {
                    on_change(snapshot);
                }
                if stopped.recv_timeout(poller.next_delay()) != Err(RecvTimeoutError::Timeout) {
                    return;
                }
            }
        };
        let name = "switchboard-config".to_owned();
        thread::Builder::new().name(name).spawn(run)?;
        Ok(Self { _alive: alive })
    }
}
