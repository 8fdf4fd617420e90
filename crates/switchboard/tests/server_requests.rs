//! What servers ask of us.

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
use switchboard::elicit::{ElicitAnswer, Elicitation};
use switchboard::interaction::{BoxFuture, Offers, Root};
use switchboard::limits::Limits;
use switchboard::mcp::ErrorObject;
use switchboard::permission::{PermissionRequest, PermissionResponse};
use switchboard::sampling::Sampling;
use switchboard::{Host, Interaction, Readiness};
use switchboard_testkit::{MemoryServer, Script, Step};

/// Offers everything, and takes its time over questions.
struct Obliging {
    offers: Offers,
    thinks: Duration,
}

impl Interaction for Obliging {
    fn offers(&self) -> Offers {
        self.offers
    }

    fn can_use_tool(&self, _: PermissionRequest) -> BoxFuture<'_, PermissionResponse> {
        Box::pin(std::future::ready(PermissionResponse::Allow))
    }

    fn elicit<'a>(&'a self, question: Elicitation<'a>) -> BoxFuture<'a, ElicitAnswer> {
        Box::pin(async move {
            tokio::time::sleep(self.thinks).await;
            let content = [("said".to_owned(), question.message.into())];
            ElicitAnswer::Accept(Map::from_iter(content))
        })
    }

    fn sample<'a>(&'a self, request: Sampling<'a>) -> BoxFuture<'a, Result<Value, ErrorObject>> {
        let model = request.server.to_string();
        Box::pin(std::future::ready(Ok(json!({ "model": model }))))
    }

    fn roots<'a>(&'a self, _: &'a switchboard::id::ServerName) -> BoxFuture<'a, Vec<Root>> {
        Box::pin(std::future::ready(vec![Root::new("file:///project")]))
    }
}

/// A question with one field, for the words that are said back.
fn form(message: &str) -> Value {
    let fields = json!({"said": {"type": "string"}});
    json!({"message": message, "requestedSchema": {"type": "object", "properties": fields}})
}

fn asking(method: &str, params: Value) -> MemoryServer {
    let steps = [Step::request(method, params), Step::ReplyWithResponse];
    MemoryServer::new(Script::legacy().tool("ask").on("tools/call ask", steps))
}

async fn answer_to(server: &MemoryServer, interaction: Obliging) -> Value {
    let host = permissive()
        .interaction(interaction)
        .connector("s", InMemory(server.clone()))
        .start()
        .unwrap();
    host.wait_for(Readiness::All).await;
    let output = host.call("mcp__s__ask", json!({})).await.unwrap();
    serde_json::from_str(&output.to_text()).unwrap()
}

fn everything() -> Obliging {
    let offers = Offers::default().elicitation().sampling().roots();
    Obliging {
        offers,
        thinks: Duration::ZERO,
    }
}

#[tokio::test(start_paused = true)]
async fn what_is_offered_is_answered() {
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
            json!({"action": "accept", "content": {"said": "name?"}}),
        ),
    ] {
        let server = asking(method, params);
        let answer = answer_to(&server, everything()).await;
        assert_eq!(answer["result"], expected, "{method}");
        let capabilities = &server.received_with("initialize")[0]["params"]["capabilities"];
        assert_eq!(
            *capabilities,
            json!({"elicitation": {}, "sampling": {}, "roots": {"listChanged": true}})
        );
    }
}

#[tokio::test(start_paused = true)]
async fn what_is_not_offered_is_refused_properly() {
    for method in [
        "roots/list",
        "sampling/createMessage",
        "elicitation/create",
        "made/up",
    ] {
        let server = asking(method, json!({}));
        let nothing = Obliging {
            offers: Offers::default(),
            thinks: Duration::ZERO,
        };
        let answer = answer_to(&server, nothing).await;
        assert_eq!(answer["error"]["code"], -32601, "{method}");
        let capabilities = &server.received_with("initialize")[0]["params"]["capabilities"];
        assert_eq!(*capabilities, json!({}));
    }
}

#[tokio::test(start_paused = true)]
async fn a_ping_is_answered_in_the_middle_of_the_handshake() {
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
async fn the_time_a_person_thinks_does_not_count_against_the_call() {
    let server = asking("elicitation/create", form("sure?"));
    let slow = Obliging {
        thinks: Duration::from_secs(3 * 60 * 60),
        ..everything()
    };
    let answer = answer_to(&server, slow).await;
    assert_eq!(answer["result"]["action"], "accept");
}

#[tokio::test(start_paused = true)]
async fn a_flood_of_questions_is_bounded() {
    let flood = (0..100).map(|n| {
        Step::raw(&format!(
            r#"{{"jsonrpc":"2.0","id":"q{n}","method":"elicitation/create","params":{{"message":"?"}}}}"#
        ))
    });
    let steps = flood.chain([Step::text("asked")]);
    let server = MemoryServer::new(Script::legacy().tool("ask").on("tools/call ask", steps));
    let slow = Obliging {
        thinks: Duration::from_secs(1_000),
        ..everything()
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
async fn a_modern_server_has_nothing_to_ask() {
    let ask = Step::raw(r#"{"jsonrpc":"2.0","id":1,"method":"roots/list"}"#);
    let script = Script::modern()
        .tool("ask")
        .on("tools/call ask", [ask, Step::text("fine")]);
    let server = MemoryServer::new(script);
    let host = permissive()
        .interaction(everything())
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
