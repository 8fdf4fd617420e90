//! The thread that starts children.
//!
//! The kernel ends a child when the *thread* that started it is gone, and the threads of a runtime
//! come and go. So children are started on a thread of their own, which lives exactly as long as
//! somebody holds a [`Spawner`] (the host, and every child that it started).

use std::io;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex};

use tokio::process::{Child, Command};
use tokio::runtime::Handle;
use tokio::sync::oneshot;

use crate::sync::lock;

/// Starting a child takes a millisecond; whoever has to wait for more than these waits a little.
const WAITING: usize = 16;

/// Hands commands to the thread; the thread ends with the last clone.
#[derive(Clone, Debug, Default)]
pub(crate) struct Spawner {
    /// Made with the first child, so that a host without children has no such thread.
    orders: Arc<Mutex<Option<SyncSender<Order>>>>,
}

struct Order {
    command: Command,
    runtime: Handle,
    reply: oneshot::Sender<io::Result<Child>>,
}

impl Spawner {
    /// Starts a child that dies with the thread.
    pub(crate) async fn spawn(&self, command: Command) -> io::Result<Child> {
        let gone = || io::Error::other("the thread that starts children is gone");
        let (reply, answer) = oneshot::channel();
        let order = Order {
            command,
            runtime: Handle::current(),
            reply,
        };
        self.thread()?.send(order).map_err(|_| gone())?;
        answer.await.map_err(|_| gone())?
    }

    fn thread(&self) -> io::Result<SyncSender<Order>> {
        let mut orders = lock(&self.orders);
        if let Some(orders) = orders.as_ref() {
            return Ok(orders.clone());
        }
        let (sender, receiver) = sync_channel(WAITING);
        std::thread::Builder::new()
            .name("switchboard-spawn".to_owned())
            .spawn(move || carry_out(&receiver))?;
        Ok(orders.insert(sender).clone())
    }
}

fn carry_out(orders: &Receiver<Order>) {
    while let Ok(Order {
        mut command,
        runtime,
        reply,
    }) = orders.recv()
    {
        let _entered = runtime.enter();
        // If nobody waits for it any more, the child is dropped here, and that ends it.
        let _ = reply.send(command.spawn());
    }
}
