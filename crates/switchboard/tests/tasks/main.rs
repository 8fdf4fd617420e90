//! Tool calls that servers run as tasks, in both forms of the protocol: the tasks extension of the
//! modern era, and the tasks of version 2025-11-25.

#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "a failed expectation fails the test"
)]

#[path = "../common/mod.rs"]
mod common;
mod hostile;
mod legacy;
mod modern;
mod remote;

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use common::{InMemory, permissive};
use serde_json::{Map, Value, json};
use switchboard::elicitation::{ElicitResponse, Elicitation};
use switchboard::interaction::{BoxFuture, ClientCapabilities};
use switchboard::limits::Deadlines;
use switchboard::mcp::Progress;
use switchboard::permission::{PermissionRequest, PermissionResponse};
use switchboard::{CallError, Host, Interaction, Output, Readiness};
use switchboard_testkit::{MemoryServer, Script, Step};

const WORK: &str = "mcp__s__work";

/// Accepts every form after a delay and counts the forms.
#[derive(Clone, Default)]
struct SlowUser {
    delay: Duration,
    form_count: Arc<AtomicUsize>,
}

impl SlowUser {
    fn form_count(&self) -> usize {
        self.form_count.load(Ordering::Relaxed)
    }
}

impl Interaction for SlowUser {
    fn capabilities(&self) -> ClientCapabilities {
        ClientCapabilities::default().elicitation()
    }

    fn can_use_tool(&self, _: PermissionRequest) -> BoxFuture<'_, PermissionResponse> {
        Box::pin(std::future::ready(PermissionResponse::Allow))
    }

    fn elicit<'a>(&'a self, _: Elicitation<'a>) -> BoxFuture<'a, ElicitResponse> {
        self.form_count.fetch_add(1, Ordering::Relaxed);
        Box::pin(async {
            tokio::time::sleep(self.delay).await;
            ElicitResponse::Accept(Map::from_iter([("name".to_owned(), json!("Ada"))]))
        })
    }
}

fn form() -> Value {
    json!({
        "message": "Who are you?",
        "requestedSchema": {"type": "object", "properties": {"name": {"type": "string"}}},
    })
}

/// Starts a host whose only server is `server`.
async fn host_of(server: &MemoryServer, user: &SlowUser, deadlines: Deadlines) -> Host {
    let host = permissive()
        .interaction(user.clone())
        .deadlines(deadlines)
        .connector("s", InMemory(server.clone()))
        .start()
        .unwrap();
    host.wait_for(Readiness::All).await;
    host
}

async fn start_with_script(script: Script) -> (Host, MemoryServer) {
    let server = MemoryServer::new(script);
    let host = host_of(&server, &SlowUser::default(), Deadlines::default()).await;
    (host, server)
}

async fn call_work(host: &Host) -> Result<Output, CallError> {
    host.call(WORK, json!({"a": 1})).await
}

/// Calls the tool `work`. Returns the outcome and the messages of the progress notifications.
async fn call_work_with_progress(host: &Host) -> (Result<Output, CallError>, Vec<String>) {
    let messages = Mutex::new(Vec::new());
    let record = |progress: Progress| messages.lock().unwrap().extend(progress.message);
    let outcome = host.call(WORK, json!({})).on_progress(record).await;
    (outcome, messages.into_inner().unwrap())
}

fn text_result(text: &str) -> Value {
    json!({"content": [{"type": "text", "text": text}]})
}

fn seconds(count: u64) -> Duration {
    Duration::from_secs(count)
}

/// Returns how many messages of each method the server received.
fn request_counts<const N: usize>(server: &MemoryServer, methods: [&str; N]) -> [usize; N] {
    methods.map(|method| server.received_with(method).len())
}

/// Gives the server a second to receive all sent messages.
async fn settle() {
    tokio::time::sleep(seconds(1)).await;
}
