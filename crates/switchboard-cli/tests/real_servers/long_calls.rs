//! Long calls of the reference server: tasks with and without elicitation, and progress.

use std::sync::Arc;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use serde_json::{Map, Value, json};
use switchboard::elicitation::{ElicitResponse, Elicitation};
use switchboard::interaction::{BoxFuture, ClientCapabilities};
use switchboard::mcp::Progress;
use switchboard::permission::{Action, PermissionRequest, PermissionResponse, Rule};
use switchboard::{Host, Interaction, Readiness};
use switchboard_config::{LaunchSpec, RemoteKind, ServerConfig, ServerName};

use super::fixtures;
use super::remote::{RunningServer, STREAMABLE};

/// Answers every elicitation with the same choice, and counts them.
#[derive(Clone, Default)]
struct FixedChoice {
    elicitations: Arc<AtomicUsize>,
}

impl Interaction for FixedChoice {
    fn capabilities(&self) -> ClientCapabilities {
        ClientCapabilities::default().elicitation()
    }

    fn can_use_tool(&self, _: PermissionRequest) -> BoxFuture<'_, PermissionResponse> {
        Box::pin(std::future::ready(PermissionResponse::Allow))
    }

    fn elicit<'a>(&'a self, _: Elicitation<'a>) -> BoxFuture<'a, ElicitResponse> {
        self.elicitations.fetch_add(1, Ordering::Relaxed);
        let chosen = ("interpretation".to_owned(), json!("snake"));
        Box::pin(std::future::ready(ElicitResponse::Accept(Map::from_iter(
            [chosen],
        ))))
    }
}

async fn connected(config: ServerConfig, choice: &FixedChoice) -> Host {
    let name = ServerName::new("it").unwrap();
    let host = Host::builder()
        .launch(LaunchSpec::trusted(name, config))
        .rule(Rule::new(Action::Allow, "mcp__it").unwrap())
        .interaction(choice.clone())
        .start()
        .unwrap();
    host.wait_for(Readiness::All).await;
    host
}

/// Calls a tool and returns its text and the progress notifications.
async fn call(host: &Host, tool: &str, arguments: Value) -> (String, Vec<Progress>) {
    let notes = Mutex::new(Vec::new());
    let call = host
        .call(format!("mcp__it__{tool}"), arguments)
        .on_progress(|note| notes.lock().unwrap().push(note));
    let output = tokio::time::timeout(Duration::from_secs(60), call).await;
    let output = output.unwrap().unwrap();
    (output.to_text(), notes.into_inner().unwrap())
}

async fn try_long_calls(config: ServerConfig) {
    let choice = FixedChoice::default();
    let host = connected(config, &choice).await;

    let topic = json!({"topic": "python"});
    let (text, progress) = call(&host, "simulate-research-query", topic).await;
    assert!(text.contains("Research Report: python"), "{text}");
    let messages: Vec<_> = (progress.into_iter())
        .filter_map(|note| note.message)
        .collect();
    assert!(
        messages.contains(&"Generating report...".to_owned()),
        "{messages:?}"
    );
    assert_eq!(choice.elicitations.load(Ordering::Relaxed), 0);

    let ambiguous = json!({"topic": "python", "ambiguous": true});
    let (text, _) = call(&host, "simulate-research-query", ambiguous).await;
    assert!(text.contains("(snake)"), "{text}");
    assert_eq!(choice.elicitations.load(Ordering::Relaxed), 1);

    let long = json!({"duration": 1, "steps": 4});
    let (text, progress) = call(&host, "trigger-long-running-operation", long).await;
    assert!(text.contains("completed"), "{text}");
    let progress: Vec<_> = progress
        .iter()
        .map(|note| (note.progress, note.total))
        .collect();
    let expected: Vec<_> = (1..=4).map(|step| (f64::from(step), Some(4.0))).collect();
    assert_eq!(progress, expected);
    host.shutdown().await;
}

#[tokio::test]
async fn everything_server_runs_long_calls() {
    let entry_point = "node_modules/@modelcontextprotocol/server-everything/dist/index.js";
    let Some(folder) = fixtures(entry_point) else {
        return;
    };
    let program = folder.join(entry_point).to_str().unwrap().to_owned();
    let config = ServerConfig::stdio("node", [program, "stdio".to_owned()]);
    try_long_calls(config).await;
}

#[tokio::test]
async fn everything_server_runs_long_calls_over_http() {
    if let Some(server) = RunningServer::start(STREAMABLE) {
        try_long_calls(ServerConfig::remote(server.url(), RemoteKind::Http)).await;
    }
}
