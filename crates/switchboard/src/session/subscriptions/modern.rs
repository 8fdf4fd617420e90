//! Subscriptions of the modern era: one `subscriptions/listen` for all resources, replaced when others
//! are wanted.
//!
//! Invariant: the old one is ended after the new one was acknowledged, so that nothing is missed in
//! between. One that broke is asked for anew at a bounded rate; one that the server ended is not.

use std::future::pending;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use tokio::time::{Instant, sleep, sleep_until};
use tokio_util::sync::CancellationToken;

use super::{Listen, Subscriptions, Uris};
use crate::session::Session;
use crate::session::peer::Peer;
use crate::sync::lock;

/// Wishes that come together are asked for together.
const GATHERING: Duration = Duration::from_millis(20);
/// How long a server may take to acknowledge.
const ACKNOWLEDGING: Duration = Duration::from_secs(10);
/// How long is waited before one that broke is asked for again: at first, and at most.
const FIRST_PAUSE: Duration = Duration::from_secs(1);
const LONGEST_PAUSE: Duration = Duration::from_secs(60);
/// One that lasted so long was a good one: the next wait is short again.
const LASTING: Duration = Duration::from_secs(10);

/// How a `subscriptions/listen` came to its end.
pub(in crate::session) enum ListenEnd {
    /// It broke, and may be asked for again.
    Broken,
    /// The server ended it or would not begin; and why.
    Ended(String),
}

/// An open `subscriptions/listen`.
struct Listening<'a> {
    subscriptions: &'a Subscriptions,
    listen: Arc<Listen>,
    hearing: BoxFuture<'static, ListenEnd>,
    began: Instant,
}

impl Drop for Listening<'_> {
    fn drop(&mut self) {
        let listens = &mut lock(&self.subscriptions.wanted).listens;
        listens.retain(|listen| !Arc::ptr_eq(listen, &self.listen));
    }
}

impl<'a> Listening<'a> {
    fn open(session: &Session, subscriptions: &'a Subscriptions, uris: Uris) -> Self {
        let listen = Arc::new(Listen {
            id: AtomicU64::new(0),
            uris,
            is_acknowledged: CancellationToken::new(),
            is_revoked: CancellationToken::new(),
        });
        lock(&subscriptions.wanted)
            .listens
            .push(Arc::clone(&listen));
        Self {
            subscriptions,
            hearing: hear(session.clone(), Arc::clone(&listen)),
            listen,
            began: Instant::now(),
        }
    }

    async fn end(&mut self) -> ListenEnd {
        tokio::select! {
            biased;
            () = self.listen.is_revoked.cancelled() => {
                ListenEnd::Ended("the server no longer tells".to_owned())
            }
            end = &mut self.hearing => end,
        }
    }
}

fn hear(session: Session, listen: Arc<Listen>) -> BoxFuture<'static, ListenEnd> {
    async move {
        let uris: Vec<&str> = listen.uris.iter().map(|uri| &**uri).collect();
        let sent = |id| listen.id.store(id, Ordering::Relaxed);
        match &session {
            Session::Line(line) => line.listen_for_updates(&uris, sent).await,
            Session::StreamableHttp(http) => http.listen_for_updates(&uris, sent).await,
            Session::Sse2024(_) | Session::Local(_) => {
                ListenEnd::Ended("the server has no subscriptions".to_owned())
            }
        }
    }
    .boxed()
}

/// What the task does next.
enum Wake {
    Changed,
    Due,
    StreamEnd(ListenEnd),
}

struct Server<'a> {
    session: &'a Session,
    peer: &'a Peer,
    current: Option<Listening<'a>>,
    /// When to ask anew.
    due: Option<Instant>,
    /// Not before then, whatever is wanted.
    not_before: Instant,
    pause: Duration,
    /// Whether something may have gone untold.
    is_behind: bool,
}

pub(super) async fn serve(session: &Session, peer: &Peer) {
    let mut server = Server {
        session,
        peer,
        current: None,
        due: None,
        not_before: Instant::now(),
        pause: FIRST_PAUSE,
        is_behind: false,
    };
    loop {
        let due = server.due;
        let wake = tokio::select! {
            biased;
            end = end_of(&mut server.current) => Wake::StreamEnd(end),
            () = peer.subscriptions.changed.notified(), if due.is_none() => Wake::Changed,
            () = sleep_until(due.unwrap_or_else(Instant::now)), if due.is_some() => Wake::Due,
        };
        match wake {
            Wake::Changed => server.due = Some((Instant::now() + GATHERING).max(server.not_before)),
            Wake::Due => {
                server.due = None;
                server.renew().await;
            }
            Wake::StreamEnd(end) => {
                let ended = server.current.take();
                server.take_end(end, ended);
            }
        }
    }
}

async fn end_of(listening: &mut Option<Listening<'_>>) -> ListenEnd {
    match listening {
        Some(listening) => listening.end().await,
        None => pending().await,
    }
}

impl<'a> Server<'a> {
    /// Asks for what is wanted now, and ends what was asked for before.
    async fn renew(&mut self) {
        let subscriptions: &'a Subscriptions = &self.peer.subscriptions;
        let uris = subscriptions.uris();
        if uris.is_empty() {
            self.current = None;
            return;
        }
        // Whoever left and came back has not heard what was agreed to for the one before.
        if let Some(current) = &self.current
            && current.listen.uris == uris
            && !subscriptions.is_open(&uris)
        {
            return;
        }
        let mut next = Listening::open(self.session, subscriptions, uris);
        let acknowledged = next.listen.is_acknowledged.clone();
        let in_time = sleep(ACKNOWLEDGING);
        tokio::pin!(in_time);
        let outcome = loop {
            tokio::select! {
                biased;
                () = acknowledged.cancelled() => break Ok(()),
                end = next.end() => break Err(end),
                _ = end_of(&mut self.current) => {
                    self.current = None;
                    self.is_behind = true;
                }
                () = &mut in_time => {
                    let why = "the server did not acknowledge in time".to_owned();
                    break Err(ListenEnd::Ended(why));
                }
            }
        };
        match outcome {
            Ok(()) => {
                if std::mem::take(&mut self.is_behind) {
                    subscriptions.note_some(&next.listen.uris);
                }
                self.current = Some(next);
            }
            Err(end) => self.take_end(end, Some(next)),
        }
    }

    fn take_end(&mut self, end: ListenEnd, ended: Option<Listening<'_>>) {
        let Some(ended) = ended else { return };
        match end {
            ListenEnd::Broken => {
                if ended.began.elapsed() >= LASTING {
                    self.pause = FIRST_PAUSE;
                }
                let pause = self.pause.mul_f64(1.0 + 0.2 * fastrand::f64());
                self.pause = (self.pause * 2).min(LONGEST_PAUSE);
                self.not_before = Instant::now() + pause;
                self.due = Some(self.not_before);
                self.is_behind = true;
            }
            ListenEnd::Ended(why) => {
                let server = &self.peer.context.server;
                tracing::debug!(%server, why, "not told of resources");
                let still = self.current.as_ref().map(|current| &current.listen.uris);
                let lost = ended.listen.uris.iter();
                let lost = lost.filter(|uri| still.is_none_or(|still| !still.contains(*uri)));
                self.peer.subscriptions.give_up(lost, &why.into());
            }
        }
    }
}
