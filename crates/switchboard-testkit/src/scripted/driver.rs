//! Plays a script message by message, for transports that are not line streams.
//!
//! The transport passes each message together with the output for its response. Invariant: a
//! request is counted when its handler starts, not when the request arrives.

use std::sync::{Arc, Mutex};

use serde_json::{Value, json};
use tokio::sync::{oneshot, watch};

use super::handler::Handler;
use super::message::Request;
use super::output::HandlerOutput;
use super::platform::{Platform, SharedState};
use super::state::ServerState;
use super::{SerialQueue, ServerExit, choose_steps, defaults};
use crate::script::Script;

/// One run of a scripted HTTP server, from its start to its stop or restart.
#[derive(Debug)]
pub(crate) struct ScriptDriver {
    state: Arc<ServerState>,
    queue: Mutex<SerialQueue>,
}

impl ScriptDriver {
    /// Creates run number `ordinal` of the server whose runs share `shared`.
    pub(crate) fn new(script: Script, shared: &Arc<SharedState>, ordinal: usize) -> Self {
        let platform = Platform::memory(Arc::clone(shared), ordinal);
        let state = Arc::new(ServerState::new(script, tokio::io::sink(), platform));
        state.platform.register(&state);
        Self {
            state,
            queue: Mutex::default(),
        }
    }

    /// Runs the start steps of the script. What these steps write is discarded.
    pub(crate) async fn begin(&self) {
        let script = self.state.script();
        self.state.start_clocks();
        let _ = Handler::without_request(&self.state)
            .run(&script.start)
            .await;
    }

    /// Returns whether the server handles the request by the rules of the modern era.
    pub(crate) fn is_modern(&self, request: &Request) -> bool {
        defaults::is_modern(&self.state.script(), request)
    }

    /// Spawns the handler of a request. The handler calls `output.finish()` when it ends. `scope`
    /// distinguishes requests with equal ids: it is the id of the client's session, or in the
    /// modern era a name that is unique to the request. The returned receiver completes when the
    /// handler starts.
    pub(crate) fn start_request(
        &self,
        scope: &str,
        request: Request,
        output: Arc<dyn HandlerOutput>,
    ) -> oneshot::Receiver<()> {
        let (begins, has_begun) = oneshot::channel();
        let (steps, occurrence) = choose_steps(&self.state, &request);
        let key = scoped(scope, &request.id);
        self.state.register_client(scope, &request, Some(&output));
        let cancelled = self.state.start_request(&key);
        let is_serial = self.state.script().serial;
        let turn = is_serial.then(|| {
            self.queue
                .lock()
                .expect("the lock is not poisoned")
                .take_turn()
        });
        let state = Arc::clone(&self.state);
        let scope = scope.to_owned();
        let work = async move {
            state.platform.record_execution(&request);
            let _ = begins.send(());
            let mut handler = Handler::for_request(&state, request, occurrence, cancelled)
                .with_output(Arc::clone(&output), &scope);
            handler.run_request(&steps).await;
            state.finish_request(&key);
            output.finish();
        };
        self.state.spawn(async move {
            match turn {
                Some(turn) => turn.run(work).await,
                None => work.await,
            }
        });
        has_begun
    }

    /// Spawns the handler of a notification if the script has steps for it. Otherwise only a
    /// cancellation has an effect.
    pub(crate) fn handle_notification(
        &self,
        scope: &str,
        notification: &Request,
        output: Arc<dyn HandlerOutput>,
    ) {
        let script = self.state.script();
        let (method, subject) = (&notification.method, notification.subject());
        let Some((key, steps)) = script.steps_for(method, subject, None) else {
            if method == "notifications/cancelled"
                && let Some(id) = notification.params.get("requestId")
            {
                self.cancel(scope, id);
            }
            return;
        };
        let (occurrence, steps) = (self.state.next_occurrence(key), steps.to_vec());
        let never_cancelled = watch::channel(false).1;
        let mut handler = Handler::for_request(
            &self.state,
            notification.clone(),
            occurrence,
            never_cancelled,
        )
        .with_output(output, scope);
        self.state.spawn(async move {
            let _ = handler.run(&steps).await;
        });
    }

    /// Passes the response of the client to the handler that waits for it.
    pub(crate) fn deliver(&self, response: Value) {
        self.state.deliver(response);
    }

    pub(crate) fn cancel(&self, scope: &str, id: &Value) {
        self.state.cancel(&scoped(scope, id));
    }

    /// Sends a notification to each open `subscriptions/listen` request whose filter matches.
    pub(crate) async fn publish(&self, method: &str, params: &Value) {
        let _ = self.state.publish(method, Some(params)).await;
    }

    /// Waits until the script ends the server.
    pub(crate) async fn ended(&self) -> ServerExit {
        self.state.wait_exit().await;
        self.state.exit_status().unwrap_or(ServerExit::Exited(0))
    }
}

impl ScriptDriver {
    /// Aborts all handlers.
    pub(crate) fn abort(&self) {
        self.state.abort_tasks();
    }
}

impl Drop for ScriptDriver {
    fn drop(&mut self) {
        self.state.abort_tasks();
    }
}

fn scoped(scope: &str, id: &Value) -> Value {
    json!([scope, id])
}
