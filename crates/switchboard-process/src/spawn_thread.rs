//! The thread that starts children.
//!
//! `PR_SET_PDEATHSIG` kills a child when the *thread* that started it exits, and runtimes start and
//! stop their threads. So one dedicated thread starts all children of a host. Invariant: the thread
//! lives from its first job until the last [`SpawnThread`] handle is dropped; the supervisor and
//! each of its children hold one. The thread may block, for example on a program on a hanging file
//! system; only other starts and scans for escaped processes wait for it.

use std::io;
use std::sync::{Arc, Mutex};

use tokio::runtime::Handle;
use tokio::sync::{mpsc, oneshot};

use crate::lock::lock;

/// Maximum number of jobs that wait for the thread. A start takes about a millisecond, so further
/// callers of [`SpawnThread::run`] wait briefly for a free slot.
const QUEUE_CAPACITY: usize = 16;

type Job = Box<dyn FnOnce() + Send>;

/// Handle to the thread, which exits with the last clone.
#[derive(Clone, Debug, Default)]
pub(crate) struct SpawnThread {
    /// `None` until the first job, so that a host without children has no such thread.
    jobs: Arc<Mutex<Option<mpsc::Sender<Job>>>>,
}

impl SpawnThread {
    /// Runs `work` on the thread. If the caller stops waiting, the result is dropped on the thread.
    pub(crate) async fn run<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> io::Result<T> {
        let gone = || io::Error::other("the thread that starts children has exited");
        let (reply, result) = oneshot::channel();
        let runtime = Handle::current();
        let job: Job = Box::new(move || {
            let _entered = runtime.enter();
            let _ = reply.send(work());
        });
        self.jobs()?.send(job).await.map_err(|_| gone())?;
        result.await.map_err(|_| gone())
    }

    /// Queues `work`. Drops it if the thread was never started or the queue is full.
    pub(crate) fn try_enqueue(&self, work: impl FnOnce() + Send + 'static) {
        if let Some(jobs) = lock(&self.jobs).as_ref() {
            let _ = jobs.try_send(Box::new(work));
        }
    }

    /// The queue of the thread. Starts the thread if necessary.
    fn jobs(&self) -> io::Result<mpsc::Sender<Job>> {
        let mut jobs = lock(&self.jobs);
        if let Some(jobs) = jobs.as_ref() {
            return Ok(jobs.clone());
        }
        let (sender, mut receiver) = mpsc::channel::<Job>(QUEUE_CAPACITY);
        std::thread::Builder::new()
            .name("switchboard-spawn".to_owned())
            .spawn(move || {
                while let Some(job) = receiver.blocking_recv() {
                    job();
                }
            })?;
        Ok(jobs.insert(sender).clone())
    }
}
