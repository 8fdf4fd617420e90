//! Requests and notifications of the reference server: elicitation, sampling, roots, log messages
//! and resource updates.

use std::time::Duration;

use serde_json::{Map, Value, json};
use switchboard::elicitation::{ElicitMode, ElicitResponse, Elicitation};
use switchboard::event::Events;
use switchboard::interaction::{BoxFuture, ClientCapabilities, Root};
use switchboard::mcp::{ErrorObject, LogLevel};
use switchboard::permission::{Action, PermissionRequest, PermissionResponse, Rule};
use switchboard::sampling::SamplingRequest;
use switchboard::watch::{WatchChange, WatchKind, WatchRequest};
use switchboard::{Event, Host, Interaction, Readiness};
use switchboard_config::{LaunchSpec, RemoteKind, ServerConfig, ServerName};
use tokio::time::timeout;

use super::fixtures;
use super::remote::{RunningServer, STREAMABLE};

const TIMEOUT: Duration = Duration::from_secs(60);

/// Accepts every request, and fills in the field `name`.
struct AcceptAll;

impl Interaction for AcceptAll {
    fn capabilities(&self) -> ClientCapabilities {
        let capabilities = ClientCapabilities::default()
            .elicitation()
            .elicitation_url();
        capabilities.sampling().roots()
    }

    fn can_use_tool(&self, _: PermissionRequest) -> BoxFuture<'_, PermissionResponse> {
        Box::pin(std::future::ready(PermissionResponse::Allow))
    }

    fn elicit<'a>(&'a self, question: Elicitation<'a>) -> BoxFuture<'a, ElicitResponse> {
        let values = match &question.mode {
            ElicitMode::Form(form) => {
                assert_eq!(form.fields.len(), 13, "{form:?}");
                let mut values = form.defaults();
                values.insert("name".to_owned(), json!("Ada"));
                values
            }
            _ => Map::new(),
        };
        Box::pin(std::future::ready(ElicitResponse::Accept(values)))
    }

    fn sample<'a>(
        &'a self,
        request: SamplingRequest<'a>,
    ) -> BoxFuture<'a, Result<Value, ErrorObject>> {
        let text = format!("{} tokens at most", request.max_tokens);
        Box::pin(std::future::ready(Ok(json!({
            "role": "assistant",
            "content": {"type": "text", "text": text},
            "model": "none",
        }))))
    }

    fn roots<'a>(&'a self, _: &'a ServerName) -> BoxFuture<'a, Vec<Root>> {
        let root = Root::new("file:///srv/project");
        Box::pin(std::future::ready(vec![root]))
    }
}

async fn call(host: &Host, tool: &str, arguments: Value) -> String {
    let call = host.call(format!("mcp__it__{tool}"), arguments);
    let output = timeout(TIMEOUT, call).await.unwrap().unwrap();
    output.to_text()
}

async fn wait_for_event(events: &mut Events, condition: impl Fn(&Event) -> bool) {
    let wait = async { while !condition(&events.next().await.unwrap()) {} };
    timeout(TIMEOUT, wait).await.unwrap();
}

async fn try_requests(config: ServerConfig) {
    let name = ServerName::new("it").unwrap();
    let host = Host::builder()
        .launch(LaunchSpec::trusted(name, config))
        .rule(Rule::new(Action::Allow, "mcp__it").unwrap())
        .interaction(AcceptAll)
        .server_log_level(LogLevel::Debug)
        .start()
        .unwrap();
    let mut events = host.events();
    host.wait_for(Readiness::All).await;

    let form = call(&host, "trigger-elicitation-request", json!({})).await;
    for given in [
        "Name: Ada",
        "Favorite Integer: 42",
        "\"hero-1\"",
        "\"fish-1\"",
    ] {
        assert!(form.contains(given), "{given}: {form}");
    }
    let url = json!({"url": "https://example.org/consent"});
    let opened = call(&host, "trigger-url-elicitation", url).await;
    assert!(opened.contains("User completed"), "{opened}");
    let sampled = json!({"prompt": "hello", "maxTokens": 7});
    let sampled = call(&host, "trigger-sampling-request", sampled).await;
    assert!(sampled.contains("7 tokens at most"), "{sampled}");
    let roots = call(&host, "get-roots-list", json!({})).await;
    assert!(roots.contains("file:///srv/project"), "{roots}");

    // The text of this resource contains the current time, so every read returns a change.
    let watched = "demo://resource/dynamic/text/1";
    let watch = host.watch(WatchRequest::subscription("it", watched)).await;
    assert_eq!(watch.unwrap().effective_kind, WatchKind::Subscription);
    wait_for_event(&mut events, |event| {
        matches!(event, Event::ServerLogged { data: Some(data), .. }
            if data.as_str().contains("Subscribe Resource request"))
    })
    .await;
    call(&host, "toggle-subscriber-updates", json!({})).await;
    let change = timeout(TIMEOUT, host.next_watch_event()).await;
    let change = change.unwrap().unwrap();
    assert!(
        matches!(change.change, WatchChange::Changed { .. }),
        "{change:?}"
    );
    assert!(
        change.diff.unwrap().contains("+Resource 1"),
        "{}",
        change.summary
    );
    host.shutdown().await;
}

#[tokio::test]
async fn everything_server_requests_are_answered() {
    let entry_point = "node_modules/@modelcontextprotocol/server-everything/dist/index.js";
    let Some(folder) = fixtures(entry_point) else {
        return;
    };
    let program = folder.join(entry_point).to_str().unwrap().to_owned();
    try_requests(ServerConfig::stdio("node", [program, "stdio".to_owned()])).await;
}

#[tokio::test]
async fn everything_server_requests_are_answered_over_http() {
    if let Some(server) = RunningServer::start(STREAMABLE) {
        try_requests(ServerConfig::remote(server.url(), RemoteKind::Http)).await;
    }
}
