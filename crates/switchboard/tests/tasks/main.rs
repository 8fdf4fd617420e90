//! Calls that servers carry out as tasks: the extension of the modern era, and the tasks of
//! 2025-11-25.

#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "a test that meets the unexpected shall fail"
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
use switchboard::elicit::{ElicitAnswer, Elicitation};
use switchboard::interaction::{BoxFuture, Offers};
use switchboard::limits::Deadlines;
use switchboard::mcp::Progress;
use switchboard::permission::{PermissionRequest, PermissionResponse};
use switchboard::{CallError, Host, Interaction, Output, Readiness};
use switchboard_testkit::{MemoryServer, Script, Step};

const WORK: &str = "mcp__s__work";

/// Answers every form, after some thought, and counts them.
#[derive(Clone, Default)]
struct Person {
    thinks: Duration,
    asked: Arc<AtomicUsize>,
}

impl Person {
    fn asked(&self) -> usize {
        self.asked.load(Ordering::Relaxed)
    }
}

impl Interaction for Person {
    fn offers(&self) -> Offers {
        Offers::default().elicitation()
    }

    fn can_use_tool(&self, _: PermissionRequest) -> BoxFuture<'_, PermissionResponse> {
        Box::pin(std::future::ready(PermissionResponse::Allow))
    }

    fn elicit<'a>(&'a self, _: Elicitation<'a>) -> BoxFuture<'a, ElicitAnswer> {
        self.asked.fetch_add(1, Ordering::Relaxed);
        Box::pin(async {
            tokio::time::sleep(self.thinks).await;
            ElicitAnswer::Accept(Map::from_iter([("name".to_owned(), json!("Ada"))]))
        })
    }
}

fn form() -> Value {
    json!({
        "message": "Who are you?",
        "requestedSchema": {"type": "object", "properties": {"name": {"type": "string"}}},
    })
}

/// A host whose one server is this one.
async fn host_of(server: &MemoryServer, person: &Person, deadlines: Deadlines) -> Host {
    let host = permissive()
        .interaction(person.clone())
        .deadlines(deadlines)
        .connector("s", InMemory(server.clone()))
        .start()
        .unwrap();
    host.wait_for(Readiness::All).await;
    host
}

async fn started(script: Script) -> (Host, MemoryServer) {
    let server = MemoryServer::new(script);
    let host = host_of(&server, &Person::default(), Deadlines::default()).await;
    (host, server)
}

async fn work(host: &Host) -> Result<Output, CallError> {
    host.call(WORK, json!({"a": 1})).await
}

/// Makes the call, and returns what was told meanwhile too.
async fn told_work(host: &Host) -> (Result<Output, CallError>, Vec<String>) {
    let notes = Mutex::new(Vec::new());
    let told = |note: Progress| notes.lock().unwrap().extend(note.message);
    let outcome = host.call(WORK, json!({})).on_progress(told).await;
    (outcome, notes.into_inner().unwrap())
}

fn text_result(text: &str) -> Value {
    json!({"content": [{"type": "text", "text": text}]})
}

fn seconds(count: u64) -> Duration {
    Duration::from_secs(count)
}

/// How many messages of each method came, in the order of the list.
fn counts<const N: usize>(server: &MemoryServer, methods: [&str; N]) -> [usize; N] {
    methods.map(|method| server.received_with(method).len())
}

/// Lets what was sent arrive.
async fn settle() {
    tokio::time::sleep(seconds(1)).await;
}
