//! Requests that servers send to the client: ping, roots, sampling, elicitation.

#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "a failed expectation fails the test"
)]

mod common;

use std::time::Duration;

use common::{InMemory, permissive};
use serde_json::{Map, Value, json};
use switchboard::elicitation::{ElicitResponse, Elicitation};
use switchboard::interaction::{BoxFuture, ClientCapabilities, Root};
use switchboard::limits::Limits;
use switchboard::mcp::ErrorObject;
use switchboard::permission::{PermissionRequest, PermissionResponse};
use switchboard::sampling::SamplingRequest;
use switchboard::{Host, Interaction, Readiness};
use switchboard_testkit::{MemoryServer, Script, Step};

/// Accepts every elicitation after `delay`, and answers sampling and roots requests at once.
struct DelayedAnswers {
    capabilities: ClientCapabilities,
    delay: Duration,
}

impl Interaction for DelayedAnswers {
    fn capabilities(&self) -> ClientCapabilities {
        self.capabilities
    }

    fn can_use_tool(&self, _: PermissionRequest) -> BoxFuture<'_, PermissionResponse> {
        Box::pin(std::future::ready(PermissionResponse::Allow))
    }

    fn elicit<'a>(&'a self, question: Elicitation<'a>) -> BoxFuture<'a, ElicitResponse> {
        Box::pin(async move {
            tokio::time::sleep(self.delay).await;
            let content = [("text".to_owned(), question.message.into())];
            ElicitResponse::Accept(Map::from_iter(content))
        })
    }

    fn sample<'a>(
        &'a self,
        request: SamplingRequest<'a>,
    ) -> BoxFuture<'a, Result<Value, ErrorObject>> {
        let model = request.server.to_string();
        Box::pin(std::future::ready(Ok(json!({ "model": model }))))
    }

    fn roots<'a>(&'a self, _: &'a switchboard::id::ServerName) -> BoxFuture<'a, Vec<Root>> {
        Box::pin(std::future::ready(vec![Root::new("file:///project")]))
    }
}

/// The parameters of an elicitation: a form with one text field.
fn form(message: &str) -> Value {
    let fields = json!({"text": {"type": "string"}});
    json!({"message": message, "requestedSchema": {"type": "object", "properties": fields}})
}

fn server_asking(method: &str, params: Value) -> MemoryServer {
    let steps = [Step::request(method, params), Step::ReplyWithResponse];
    MemoryServer::new(Script::legacy().tool("ask").on("tools/call ask", steps))
}

async fn response_to(server: &MemoryServer, interaction: DelayedAnswers) -> Value {
    let host = permissive()
        .interaction(interaction)
        .connector("s", InMemory(server.clone()))
        .start()
        .unwrap();
    host.wait_for(Readiness::All).await;
    let output = host.call("mcp__s__ask", json!({})).await.unwrap();
    serde_json::from_str(&output.to_text()).unwrap()
}

fn all_capabilities() -> DelayedAnswers {
    let capabilities = ClientCapabilities::default()
        .elicitation()
        .sampling()
        .roots();
    DelayedAnswers {
        capabilities,
        delay: Duration::ZERO,
    }
}

#[tokio::test(start_paused = true)]
async fn offered_requests_are_answered() {
    for (method, params, expected) in [
        ("ping", json!({}), json!({})),
        (
            "roots/list",
            json!({}),
            json!({"roots": [{"uri": "file:///project"}]}),
        ),
        (
            "sampling/createMessage",
            json!({"messages": []}),
            json!({"model": "s"}),
        ),
        (
            "elicitation/create",
            form("name?"),
            json!({"action": "accept", "content": {"text": "name?"}}),
        ),
    ] {
        let server = server_asking(method, params);
        let response = response_to(&server, all_capabilities()).await;
        assert_eq!(response["result"], expected, "{method}");
        let capabilities = &server.received_with("initialize")[0]["params"]["capabilities"];
        assert_eq!(
            *capabilities,
            json!({"elicitation": {}, "sampling": {}, "roots": {"listChanged": true}})
        );
    }
}

#[tokio::test(start_paused = true)]
async fn unoffered_requests_are_method_not_found() {
    for method in [
        "roots/list",
        "sampling/createMessage",
        "elicitation/create",
        "made/up",
    ] {
        let server = server_asking(method, json!({}));
        let nothing = DelayedAnswers {
            capabilities: ClientCapabilities::default(),
            delay: Duration::ZERO,
        };
        let response = response_to(&server, nothing).await;
        assert_eq!(response["error"]["code"], -32601, "{method}");
        let capabilities = &server.received_with("initialize")[0]["params"]["capabilities"];
        assert_eq!(*capabilities, json!({}));
    }
}

#[tokio::test(start_paused = true)]
async fn ping_during_handshake_is_answered() {
    let steps = [Step::request("ping", json!({})), Step::Default];
    let server = MemoryServer::new(Script::legacy().tool("echo").on("initialize", steps));
    let host = permissive()
        .connector("s", InMemory(server))
        .start()
        .unwrap();
    host.wait_for(Readiness::All).await;
    assert_eq!(host.tools().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn elicitation_time_does_not_count_toward_call() {
    let server = server_asking("elicitation/create", form("sure?"));
    let slow = DelayedAnswers {
        delay: Duration::from_secs(3 * 60 * 60),
        ..all_capabilities()
    };
    let response = response_to(&server, slow).await;
    assert_eq!(response["result"]["action"], "accept");
}

#[tokio::test(start_paused = true)]
async fn open_elicitations_are_limited() {
    let flood = (0..100).map(|n| {
        Step::raw(&format!(
            r#"{{"jsonrpc":"2.0","id":"q{n}","method":"elicitation/create","params":{{"message":"?"}}}}"#
        ))
    });
    let steps = flood.chain([Step::text("asked")]);
    let server = MemoryServer::new(Script::legacy().tool("ask").on("tools/call ask", steps));
    let slow = DelayedAnswers {
        delay: Duration::from_secs(1_000),
        ..all_capabilities()
    };
    let mut limits = Limits::default();
    limits.questions_per_minute = 1_000;
    let host: Host = permissive()
        .limits(limits)
        .interaction(slow)
        .connector("s", InMemory(server.clone()))
        .start()
        .unwrap();
    host.wait_for(Readiness::All).await;
    host.call("mcp__s__ask", json!({})).await.unwrap();
    tokio::time::sleep_until(tokio::time::Instant::now() + Duration::from_secs(1)).await;
    let refused = server
        .received()
        .iter()
        .filter(|message| message.get("error").is_some())
        .count();
    assert_eq!(refused, 84);
}

#[tokio::test(start_paused = true)]
async fn modern_server_requests_are_ignored() {
    let ask = Step::raw(r#"{"jsonrpc":"2.0","id":1,"method":"roots/list"}"#);
    let script = Script::modern()
        .tool("ask")
        .on("tools/call ask", [ask, Step::text("fine")]);
    let server = MemoryServer::new(script);
    let host = permissive()
        .interaction(all_capabilities())
        .connector("s", InMemory(server.clone()))
        .start()
        .unwrap();
    host.wait_for(Readiness::All).await;
    host.call("mcp__s__ask", json!({})).await.unwrap();
    assert!(
        server
            .received()
            .iter()
            .all(|message| message.get("method").is_some())
    );
}
