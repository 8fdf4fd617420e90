//! Plays a script message by message, for transports that are no stream of lines.
//!
//! It is given a message and where its answer goes. Invariant: a request is counted when its handler
//! begins, and not when it arrives.

use std::sync::{Arc, Mutex};

use serde_json::{Value, json};
use tokio::sync::{oneshot, watch};

use super::handler::Handler;
use super::message::Request;
use super::output::HandlerOutput;
use super::platform::{Platform, SharedState};
use super::state::ServerState;
use super::{Queue, ServerExit, choose_steps, defaults};
use crate::script::Script;

/// One life of a server.
#[derive(Debug)]
pub(crate) struct ScriptDriver {
    shared: Arc<ServerState>,
    queue: Mutex<Queue>,
}

impl ScriptDriver {
    /// The n-th life, which leaves what a test can see in `memory`.
    pub(crate) fn new(script: Script, memory: &Arc<SharedState>, ordinal: usize) -> Self {
        let host = Platform::memory(Arc::clone(memory), ordinal);
        let shared = Arc::new(ServerState::new(script, tokio::io::sink(), host));
        shared.host.introduce(&shared);
        Self {
            shared,
            queue: Mutex::default(),
        }
    }

    /// Runs the steps that come before everything else. What they say is heard by nobody.
    pub(crate) async fn begin(&self) {
        let script = self.shared.script();
        self.shared.start_clocks();
        let _ = Handler::unprompted(&self.shared).run(&script.start).await;
    }

    /// Whether the request is answered as the modern revision wants it.
    pub(crate) fn is_modern(&self, request: &Request) -> bool {
        defaults::is_modern(&self.shared.script(), request)
    }

    /// Starts to answer a request; the outlet is finished when that is done. `scope` tells requests of
    /// the same id apart. The receiver wakes when its handler begins.
    pub(crate) fn answer(
        &self,
        scope: &str,
        request: Request,
        outlet: Arc<dyn HandlerOutput>,
    ) -> oneshot::Receiver<()> {
        let (begins, has_begun) = oneshot::channel();
        let (steps, round) = choose_steps(&self.shared, &request);
        let key = scoped(scope, &request.id);
        self.shared.notice(scope, &request, Some(&outlet));
        let cancelled = self.shared.begin(&key);
        let is_serial = self.shared.script().serial;
        let turn = is_serial.then(|| self.queue.lock().expect("no holder panics").take_turn());
        let shared = Arc::clone(&self.shared);
        let scope = scope.to_owned();
        let work = async move {
            shared.host.executes(&request);
            let _ = begins.send(());
            let mut handler = Handler::for_request(&shared, request, round, cancelled)
                .through(Arc::clone(&outlet), &scope);
            handler.answer(&steps).await;
            shared.finish(&key);
            outlet.finish();
        };
        self.shared.spawn(async move {
            match turn {
                Some(turn) => turn.run(work).await,
                None => work.await,
            }
        });
        has_begun
    }

    /// Starts to heed a notification.
    pub(crate) fn heed(&self, scope: &str, notification: &Request, outlet: Arc<dyn HandlerOutput>) {
        let script = self.shared.script();
        let (method, subject) = (&notification.method, notification.subject());
        let Some((key, steps)) = script.steps_for(method, subject, None) else {
            if method == "notifications/cancelled"
                && let Some(id) = notification.params.get("requestId")
            {
                self.cancel(scope, id);
            }
            return;
        };
        let (round, steps) = (self.shared.next_round(key), steps.to_vec());
        let never_cancelled = watch::channel(false).1;
        let mut handler =
            Handler::for_request(&self.shared, notification.clone(), round, never_cancelled)
                .through(outlet, scope);
        self.shared.spawn(async move {
            let _ = handler.run(&steps).await;
        });
    }

    /// Hands over the answer to a request of the server.
    pub(crate) fn deliver(&self, response: Value) {
        self.shared.deliver(response);
    }

    pub(crate) fn cancel(&self, scope: &str, id: &Value) {
        self.shared.cancel(&scoped(scope, id));
    }

    /// Sends a notification to each open subscription.
    pub(crate) async fn publish(&self, method: &str, params: &Value) {
        let _ = self.shared.publish(method, Some(params)).await;
    }

    /// Waits until the script ends the server.
    pub(crate) async fn ended(&self) -> ServerExit {
        self.shared.ended().await;
        self.shared.how_ended().unwrap_or(ServerExit::Exited(0))
    }
}

impl ScriptDriver {
    /// Nothing that was begun goes on.
    pub(crate) fn abort(&self) {
        self.shared.abort_tasks();
    }
}

impl Drop for ScriptDriver {
    fn drop(&mut self) {
        self.shared.abort_tasks();
    }
}

fn scoped(scope: &str, id: &Value) -> Value {
    json!([scope, id])
}
