//! Limits how many servers start at the same time.
//!
//! Many child processes that start at once slow each other down until they exceed their startup
//! timeouts. Each connection attempt therefore needs a slot, from before the child process is
//! spawned until the handshake is complete. A server that does not complete its handshake in
//! [`MAX_HOLD`] gives its slot away and continues to start, so that silent servers do not block the
//! others.
//!
//! Invariant: slots are granted in the order of the requests.

use std::num::NonZeroUsize;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt;
use tokio::sync::{AcquireError, OwnedSemaphorePermit, Semaphore};
use tokio::time::timeout;

use super::connect::ServerEndpoint;
use crate::limits::MAX_COUNT;

/// Maximum time that a connection attempt keeps its slot.
const MAX_HOLD: Duration = Duration::from_secs(5);
/// How many remote servers start at the same time.
const REMOTE_SLOTS: usize = 20;

/// The start slots of a host.
#[derive(Debug)]
pub(crate) struct StartSlots {
    children: Arc<Semaphore>,
    remote: Arc<Semaphore>,
}

/// A request for a slot. It has a place in the queue from when it was created.
pub(crate) enum StartRequest {
    Granted(StartSlot),
    Waiting(
        Pin<Box<dyn Future<Output = Result<OwnedSemaphorePermit, AcquireError>> + Send + Sync>>,
    ),
}

/// The right to start one server. `None` if the start of the server is not limited.
#[derive(Debug)]
pub(crate) struct StartSlot(Option<OwnedSemaphorePermit>);

impl StartSlots {
    /// `children` is how many child processes start at the same time.
    pub(crate) fn new(children: NonZeroUsize) -> Self {
        Self {
            children: Arc::new(Semaphore::new(children.get().min(MAX_COUNT))),
            remote: Arc::new(Semaphore::new(REMOTE_SLOTS)),
        }
    }

    /// Requests a slot for a server with this endpoint. In-process servers and connectors of the
    /// embedding program are not limited.
    pub(crate) fn request(&self, endpoint: &ServerEndpoint) -> StartRequest {
        let slots = if endpoint.is_child() {
            &self.children
        } else if endpoint.is_remote() {
            &self.remote
        } else {
            return StartRequest::Granted(StartSlot(None));
        };
        let mut waiting = Box::pin(Arc::clone(slots).acquire_owned());
        // The first poll puts the request into the queue.
        match (&mut waiting).now_or_never() {
            Some(permit) => StartRequest::Granted(StartSlot(permit.ok())),
            None => StartRequest::Waiting(waiting),
        }
    }
}

impl StartRequest {
    pub(crate) fn is_waiting(&self) -> bool {
        matches!(self, Self::Waiting(_))
    }

    /// Waits for the slot. Cancel-safe: the request keeps its place in the queue. Must not be
    /// called again after it has returned a slot.
    pub(crate) async fn granted(&mut self) -> StartSlot {
        match self {
            Self::Granted(slot) => StartSlot(slot.0.take()),
            // The semaphore is never closed.
            Self::Waiting(permit) => StartSlot(permit.await.ok()),
        }
    }
}

impl StartSlot {
    /// Runs a connection attempt. Releases the slot when the attempt ends, at the latest after
    /// [`MAX_HOLD`].
    pub(crate) async fn hold_during<T>(self, attempt: impl Future<Output = T>) -> T {
        let Some(permit) = self.0 else {
            return attempt.await;
        };
        let mut attempt = pin!(attempt);
        let outcome = timeout(MAX_HOLD, &mut attempt).await;
        drop(permit);
        match outcome {
            Ok(outcome) => outcome,
            Err(_) => attempt.await,
        }
    }
}

#[cfg(all(test, feature = "stdio"))]
mod tests {
    use std::future::{pending, ready};

    use switchboard_config::StdioConfig;
    use tokio::time::{Instant, timeout};
    use tokio_util::task::TaskTracker;

    use super::*;

    fn child() -> ServerEndpoint {
        ServerEndpoint::Stdio(StdioConfig::new("server"))
    }

    #[tokio::test(start_paused = true)]
    async fn silent_servers_delay_the_ninth_by_ten_seconds() {
        let slots = StartSlots::new(NonZeroUsize::new(4).unwrap());
        let started = Instant::now();
        let (tasks, mut silent) = (TaskTracker::new(), Vec::new());
        for _ in 0..8 {
            let mut request = slots.request(&child());
            silent.push(tasks.spawn(async move {
                let slot = request.granted().await;
                let attempt = timeout(Duration::from_secs(30), pending::<()>());
                drop(slot.hold_during(attempt).await);
            }));
        }
        let mut ninth = slots.request(&child());
        assert!(ninth.is_waiting());
        ninth.granted().await.hold_during(ready(())).await;
        assert_eq!(started.elapsed(), MAX_HOLD * 2);
        for task in silent {
            task.await.unwrap();
        }
        assert_eq!(
            started.elapsed(),
            Duration::from_secs(35),
            "the attempts were not cut"
        );
    }

    #[tokio::test(start_paused = true)]
    async fn slots_are_granted_in_order_and_released_at_once() {
        let slots = StartSlots::new(NonZeroUsize::MIN);
        let started = Instant::now();
        let mut requests: Vec<_> = (0..5).map(|_| slots.request(&child())).collect();
        assert!(!requests[0].is_waiting());
        // A later request does not overtake an earlier one that is not polled.
        let last = requests[4].granted().now_or_never();
        assert!(last.is_none());
        for request in &mut requests {
            request.granted().await.hold_during(ready(())).await;
        }
        assert_eq!(started.elapsed(), Duration::ZERO);
    }

    #[tokio::test]
    async fn dropped_request_leaves_the_queue() {
        let slots = StartSlots::new(NonZeroUsize::MIN);
        let mut first = slots.request(&child());
        let slot = first.granted().await;
        drop(slots.request(&child()));
        let mut third = slots.request(&child());
        drop(slot);
        assert!(third.granted().now_or_never().is_some());
    }
}
