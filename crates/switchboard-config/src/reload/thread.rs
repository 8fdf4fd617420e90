//! A thread that looks at files now and then.
//!
//! Invariant: it ends with the [`Watcher`], at the latest when the look under way is over.

use std::convert::Infallible;
use std::io;
use std::sync::mpsc::{RecvTimeoutError, SyncSender, sync_channel};
use std::thread;
use std::time::Instant;

use super::{Reading, Targets, Watched};
use crate::expand::Environment;

/// Watches files on a thread of its own, so that a slow disk holds up nobody else. Dropping it ends that.
///
/// ```
/// use std::sync::mpsc::sync_channel;
/// use switchboard_config::{Sources, Targets, Watcher};
///
/// let (tell, readings) = sync_channel(1);
/// let targets = || Targets::from(Sources { user: Some("mcp.json".into()), ..Sources::default() });
/// let watcher = Watcher::spawn(targets, |_: &str| None, move |reading| drop(tell.send(reading)))?;
/// let first = readings.recv().unwrap_or_default();
/// assert!(first.loaded.config.servers.is_empty());
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Debug)]
pub struct Watcher {
    /// Nothing is ever sent: the thread sees it go.
    _held: SyncSender<Infallible>,
}

impl Watcher {
    /// Starts to watch. `targets` is asked before every look, so that a project may come into being;
    /// `tell` gets what there is at the beginning, and whatever changes from then on.
    pub fn spawn(
        mut targets: impl FnMut() -> Targets + Send + 'static,
        environment: impl Environment + Send + 'static,
        mut tell: impl FnMut(Reading) + Send + 'static,
    ) -> io::Result<Self> {
        let (held, is_held) = sync_channel(0);
        let mut watched = Watched::new();
        let watch = move || {
            loop {
                if let Some(reading) = watched.look(&targets(), &environment, Instant::now()) {
                    tell(reading);
                }
                if is_held.recv_timeout(watched.pause()) != Err(RecvTimeoutError::Timeout) {
                    return;
                }
            }
        };
        let name = "switchboard-config".to_owned();
        thread::Builder::new().name(name).spawn(watch)?;
        Ok(Self { _held: held })
    }
}
