//! Long calls of a real server: tasks, with and without a question in them, and progress.

use std::sync::Arc;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use serde_json::{Map, Value, json};
use switchboard::elicit::{ElicitAnswer, Elicitation};
use switchboard::interaction::{BoxFuture, Offers};
use switchboard::mcp::Progress;
use switchboard::permission::{Action, PermissionRequest, PermissionResponse, Rule};
use switchboard::{Host, Interaction, Readiness};
use switchboard_config::{LaunchSpec, RemoteKind, ServerConfig, ServerName};

use super::fixtures;
use super::remote::{STREAMABLE, Served};

/// Chooses what is meant, every time.
#[derive(Clone, Default)]
struct Person {
    asked: Arc<AtomicUsize>,
}

impl Interaction for Person {
    fn offers(&self) -> Offers {
        Offers::default().elicitation()
    }

    fn can_use_tool<'a>(&'a self, _: PermissionRequest) -> BoxFuture<'a, PermissionResponse> {
        Box::pin(std::future::ready(PermissionResponse::Allow))
    }

    fn elicit<'a>(&'a self, _: Elicitation<'a>) -> BoxFuture<'a, ElicitAnswer> {
        self.asked.fetch_add(1, Ordering::Relaxed);
        let chosen = ("interpretation".to_owned(), json!("snake"));
        Box::pin(std::future::ready(ElicitAnswer::Accept(Map::from_iter([
            chosen,
        ]))))
    }
}

async fn connected(config: ServerConfig, person: &Person) -> Host {
    let name = ServerName::new("it").unwrap();
    let host = Host::builder()
        .launch(LaunchSpec::from_code(name, config))
        .rule(Rule::new(Action::Allow, "mcp__it").unwrap())
        .interaction(person.clone())
        .start()
        .unwrap();
    host.wait_for(Readiness::All).await;
    host
}

/// Calls a tool; its text, and what was told on the way.
async fn call(host: &Host, tool: &str, arguments: Value) -> (String, Vec<Progress>) {
    let notes = Mutex::new(Vec::new());
    let call = host
        .call(format!("mcp__it__{tool}"), arguments)
        .on_progress(|note| notes.lock().unwrap().push(note));
    let output = tokio::time::timeout(Duration::from_secs(60), call).await;
    let output = output.unwrap().unwrap();
    (output.to_text(), notes.into_inner().unwrap())
}

/// All that takes long, with one server.
async fn try_long_calls(config: ServerConfig) {
    let person = Person::default();
    let host = connected(config, &person).await;

    let (plain, told) = call(&host, "simulate-research-query", json!({"topic": "python"})).await;
    assert!(plain.contains("Research Report: python"), "{plain}");
    let told: Vec<_> = told.into_iter().filter_map(|note| note.message).collect();
    assert!(
        told.contains(&"Generating report...".to_owned()),
        "{told:?}"
    );
    assert_eq!(person.asked.load(Ordering::Relaxed), 0);

    let ambiguous = json!({"topic": "python", "ambiguous": true});
    let (answered, _) = call(&host, "simulate-research-query", ambiguous).await;
    assert!(answered.contains("(snake)"), "{answered}");
    assert_eq!(person.asked.load(Ordering::Relaxed), 1);

    let long = json!({"duration": 1, "steps": 4});
    let (done, told) = call(&host, "trigger-long-running-operation", long).await;
    assert!(done.contains("completed"), "{done}");
    let told: Vec<_> = told
        .iter()
        .map(|note| (note.progress, note.total))
        .collect();
    let expected: Vec<_> = (1..=4).map(|step| (f64::from(step), Some(4.0))).collect();
    assert_eq!(told, expected);
    host.shutdown().await;
}

#[tokio::test]
async fn everything_takes_its_time() {
    let entry_point = "node_modules/@modelcontextprotocol/server-everything/dist/index.js";
    let Some(folder) = fixtures(entry_point) else {
        return;
    };
    let program = folder.join(entry_point).to_str().unwrap().to_owned();
    let config = ServerConfig::stdio("node", [program, "stdio".to_owned()]);
    try_long_calls(config).await;
}

#[tokio::test]
async fn everything_takes_its_time_over_http() {
    if let Some(served) = Served::start(STREAMABLE) {
        try_long_calls(ServerConfig::remote(served.url(), RemoteKind::Http)).await;
    }
}
