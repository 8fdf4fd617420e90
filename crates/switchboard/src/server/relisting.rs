//! Listings after the first, and when there is cause for one.
//!
//! A server that announces change after change is listed at a bounded rate; a listing that failed
//! is tried again, more and more slowly. Invariant: at most one listing runs at a time.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use super::connect::Site;
use crate::catalog::paging::{self, Listing};
use crate::interact::BoxFuture;
use crate::session::{RequestError, Session};

/// Lists all tools of a session, within the time that a start may take.
pub(super) fn list(
    site: &Site,
    session: &Session,
    end: Instant,
) -> impl Future<Output = Result<Listing, RequestError>> + Send + use<> {
    let (session, limits) = (session.clone(), Arc::clone(&site.context.limits));
    let page_limit = site.deadlines.list;
    async move { paging::list_tools(&session, &limits, page_limit, end).await }
}

/// Listings after the first: when the server says that its tools changed, and when one failed.
pub(super) struct Relisting {
    /// When the next one begins.
    due: Option<Instant>,
    running: Option<BoxFuture<'static, Result<Listing, RequestError>>>,
    /// How long is waited after the next failure.
    delay: Duration,
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
        }
    }

    /// The outcome of the next listing, whenever there is cause for one. May be dropped and asked
    /// again at any time.
    pub(super) async fn next(
        &mut self,
        site: &Site,
        session: &Session,
    ) -> Result<Listing, RequestError> {
        let outcome = loop {
            if let Some(running) = &mut self.running {
                break running.await;
            }
            match self.due {
                Some(due) => {
                    tokio::time::sleep_until(due).await;
                    self.due = None;
                    let end = Instant::now() + site.deadlines.startup;
                    self.running = Some(Box::pin(list(site, session, end)));
                }
                None => {
                    session.tools_changed().await;
                    self.due = Some(Instant::now() + Self::BREATHER);
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
