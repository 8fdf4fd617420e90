//! The thread that starts children.
//!
//! The kernel ends a child when the *thread* that started it is gone, and the threads of a runtime
//! come and go. So children are started on a thread of their own, which lives exactly as long as
//! somebody holds a [`Spawner`] (the host, and every child that it started). It may also block: a
//! program on a file system that hangs holds up other starts, and nothing else. For the same reason
//! it is the thread that looks for processes left behind.

use std::io;
use std::sync::{Arc, Mutex};

use tokio::runtime::Handle;
use tokio::sync::{mpsc, oneshot};

use crate::sync::lock;

/// Starting a child takes a millisecond; whoever has to wait for more than these waits a little.
const WAITING: usize = 16;

type Job = Box<dyn FnOnce() + Send>;

/// Hands work to the thread; the thread ends with the last clone.
#[derive(Clone, Debug, Default)]
pub(crate) struct Spawner {
    /// Made with the first child, so that a host without children has no such thread.
    jobs: Arc<Mutex<Option<mpsc::Sender<Job>>>>,
}

impl Spawner {
    /// Does `work` on the thread. What it makes is dropped there if nobody waits for it any more.
    pub(crate) async fn run<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> io::Result<T> {
        let gone = || io::Error::other("the thread that starts children is gone");
        let (reply, answer) = oneshot::channel();
        let runtime = Handle::current();
        let job: Job = Box::new(move || {
            let _entered = runtime.enter();
            let _ = reply.send(work());
        });
        self.thread()?.send(job).await.map_err(|_| gone())?;
        answer.await.map_err(|_| gone())
    }

    /// Does `work` on the thread when its turn comes, unless there is no thread or too much waits.
    pub(crate) fn run_soon(&self, work: impl FnOnce() + Send + 'static) {
        if let Some(jobs) = lock(&self.jobs).as_ref() {
            let _ = jobs.try_send(Box::new(work));
        }
    }

    fn thread(&self) -> io::Result<mpsc::Sender<Job>> {
        let mut jobs = lock(&self.jobs);
        if let Some(jobs) = jobs.as_ref() {
            return Ok(jobs.clone());
        }
        let (sender, mut receiver) = mpsc::channel::<Job>(WAITING);
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
