//! Listings after the first, and when there is cause for one.
//!
//! A server that announces change after change is listed at a bounded rate; a listing that failed
//! is tried again, more and more slowly; one that has outlived its time is made anew when somebody
//! uses it, and not before. Invariant: at most one listing runs at a time.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::sync::{Notify, oneshot};
use tokio::time::Instant;

use super::connect::Site;
use super::owner::Relisted;
use crate::catalog::paging::{self, Listing};
use crate::interact::BoxFuture;
use crate::mcp::Tool;
use crate::session::list_changes::ListChangeKind;
use crate::session::{RequestError, Session};

/// Lists all tools of a session, within the time that a start may take.
pub(super) fn list(
    site: &Site,
    session: &Session,
    end: Instant,
) -> impl Future<Output = Result<Listing<Tool>, RequestError>> + Send + use<> {
    let (session, limits) = (session.clone(), Arc::clone(&site.context.limits));
    let page_limit = site.deadlines.list;
    async move { paging::list(&session, &limits, page_limit, end).await }
}

/// How long the last listing is good for, and whether somebody has used it since.
#[derive(Debug)]
pub(crate) struct ShelfLife {
    began: Instant,
    /// Milliseconds from `began` to the end of it.
    end: AtomicU64,
    wanted: Notify,
}

impl ShelfLife {
    /// Good until the server says otherwise.
    const ENDLESS: u64 = u64::MAX;
    /// Whatever a server says, it is not asked more often than this.
    const MIN_POLL_INTERVAL: Duration = Duration::from_secs(1);

    pub(super) fn new() -> Self {
        Self {
            began: Instant::now(),
            end: AtomicU64::new(Self::ENDLESS),
            wanted: Notify::new(),
        }
    }

    /// There is a new listing, and it is good for so long.
    pub(super) fn begin(&self, ttl: Duration) {
        let end = if ttl.is_zero() {
            Self::ENDLESS
        } else {
            self.now()
                .saturating_add(millis(ttl.max(Self::MIN_POLL_INTERVAL)))
        };
        self.end.store(end, Ordering::Relaxed);
    }

    /// Somebody uses the listing: one that is too old is asked for anew, once.
    pub(crate) fn note_use(&self) {
        let end = self.end.load(Ordering::Relaxed);
        if end != Self::ENDLESS
            && self.now() >= end
            && self.end.swap(Self::ENDLESS, Ordering::Relaxed) != Self::ENDLESS
        {
            self.wanted.notify_one();
        }
    }

    fn now(&self) -> u64 {
        millis(self.began.elapsed())
    }
}

fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

/// Listings after the first: when the server says that its tools changed, and when one failed.
pub(super) struct Relisting {
    /// When the next one begins.
    due: Option<Instant>,
    running: Option<BoxFuture<'static, Result<Listing<Tool>, RequestError>>>,
    /// How long is waited after the next failure.
    delay: Duration,
    /// Who asked for the next one, and for the one that runs.
    asking: Vec<oneshot::Sender<Relisted>>,
    answering: Vec<oneshot::Sender<Relisted>>,
}

impl Relisting {
    /// A server that announces change after change is asked no more often than this.
    const BREATHER: Duration = Duration::from_millis(100);
    const FIRST_RETRY: Duration = Duration::from_secs(1);
    const LONGEST_RETRY: Duration = Duration::from_secs(60);

    pub(super) fn new(failed_before: bool) -> Self {
        let due = failed_before.then(|| Instant::now() + Self::FIRST_RETRY);
        Self {
            due,
            running: None,
            delay: Self::FIRST_RETRY,
            asking: Vec::new(),
            answering: Vec::new(),
        }
    }

    /// Somebody wants a listing that begins after this moment.
    pub(super) fn ask(&mut self, done: oneshot::Sender<Relisted>) {
        self.asking.push(done);
    }

    /// Tells those who asked for the listing that just ended.
    pub(super) fn tell(&mut self, outcome: &Result<(), RequestError>) {
        for done in self.answering.drain(..) {
            let _ = done.send(Some(outcome.clone()));
        }
    }

    /// The outcome of the next listing, whenever there is cause for one. May be dropped and asked
    /// again at any time.
    pub(super) async fn next(
        &mut self,
        site: &Site,
        session: &Session,
        shelf_life: &ShelfLife,
    ) -> Result<Listing<Tool>, RequestError> {
        let outcome = loop {
            if let Some(running) = &mut self.running {
                break running.await;
            }
            if !self.asking.is_empty() {
                self.due = Some(Instant::now());
            }
            match self.due {
                Some(due) => {
                    tokio::time::sleep_until(due).await;
                    self.due = None;
                    self.answering.append(&mut self.asking);
                    let end = Instant::now() + site.deadlines.startup;
                    self.running = Some(Box::pin(list(site, session, end)));
                }
                None => {
                    let wait = tokio::select! {
                        biased;
                        () = session.list_changed(ListChangeKind::Tools) => Self::BREATHER,
                        () = shelf_life.wanted.notified() => Duration::ZERO,
                    };
                    self.due = Some(Instant::now() + wait);
                }
            }
        };
        self.running = None;
        if outcome.is_ok() {
            self.delay = Self::FIRST_RETRY;
        } else {
            self.due = Some(Instant::now() + self.delay);
            self.delay = (self.delay * 2).min(Self::LONGEST_RETRY);
        }
        outcome
    }
}
