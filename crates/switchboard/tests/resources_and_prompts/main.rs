//! Resources, resource templates, prompts and completions of servers.

#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "a failed expectation fails the test"
)]

#[path = "../common/mod.rs"]
mod common;
mod hostile;
mod listing_ttl;
mod rendering;

use std::collections::BTreeMap;

use common::{InMemory, child, host_with, launch, permissive};
use serde_json::{Value, json};
use switchboard::id::ServerName;
use switchboard::id::WireName;
use switchboard::interaction::{BoxFuture, ClientCapabilities, Root};
use switchboard::mcp::{Resource, Role};
use switchboard::permission::{PermissionRequest, PermissionResponse};
use switchboard::query::{CompletionTarget, Listing, QueryError, ServerItem};
use switchboard::{Host, Interaction, Readiness};
use switchboard_testkit::{Cursors, MemoryServer, Script, Step};

/// Starts a host with these servers.
async fn host_of<const COUNT: usize>(servers: [(&str, Script); COUNT]) -> Host {
    let mut builder = permissive();
    for (name, script) in servers {
        builder = builder.connector(name, InMemory(MemoryServer::new(script)));
    }
    let host = builder.start().unwrap();
    host.wait_for(Readiness::All).await;
    host
}

fn uris(listing: &Listing<Resource>) -> Vec<String> {
    let items = listing.items.iter();
    items
        .map(|resource| format!("{} {}", resource.server, resource.item.uri))
        .collect()
}

fn arguments<const COUNT: usize>(pairs: [(&str, &str); COUNT]) -> BTreeMap<String, String> {
    let own = |(name, value): (&str, &str)| (name.to_owned(), value.to_owned());
    pairs.into_iter().map(own).collect()
}

fn both_eras() -> [Script; 2] {
    [Script::legacy(), Script::modern()]
}

#[tokio::test(start_paused = true)]
async fn resources_of_all_servers_are_listed_in_order() {
    let many = (0..7).fold(Script::legacy(), |script, number| {
        script.resource(&format!("demo://{number}"), "x")
    });
    let host = host_of([
        ("b", many.paged(3, Cursors::EmptyFirst)),
        ("none", Script::modern().tool("echo")),
        ("a", Script::modern().resource("demo://a", "x")),
    ])
    .await;
    let listing = host.resources(None).await.unwrap();
    let mut expected: Vec<_> = (0..7).map(|number| format!("b demo://{number}")).collect();
    expected.push("a demo://a".to_owned());
    assert_eq!(uris(&listing), expected);
    assert!(listing.errors.is_empty());
    let of_one = host.resources(Some("a")).await.unwrap();
    assert_eq!(uris(&of_one), ["a demo://a"]);
    assert_eq!(uris(&host.resources(Some("none")).await.unwrap()), [""; 0]);
}

#[tokio::test(start_paused = true)]
async fn failing_server_hides_no_other_resources() {
    let broken = Script::legacy()
        .resource("demo://x", "x")
        .on("resources/list", [Step::error(-32603, "out of order")]);
    let hanging = Script::modern()
        .resource("demo://y", "y")
        .on("resources/list", [Step::Hang]);
    let healthy = Script::modern().resource("demo://z", "z");
    let host = host_of([("broken", broken), ("hanging", hanging), ("z", healthy)]).await;
    let listing = host.resources(None).await.unwrap();
    assert_eq!(uris(&listing), ["z demo://z"]);
    let problems: Vec<_> = listing.errors.iter().map(ToString::to_string).collect();
    assert_eq!(
        problems,
        [
            "server broken returned an error: out of order (code -32603)",
            "server hanging did not respond within 30s",
        ]
    );
    let error = host.resources(Some("broken")).await.unwrap_err();
    assert!(matches!(error, QueryError::ErrorResponse { .. }), "{error}");
    let error = host.resources(Some("missing")).await.unwrap_err();
    assert_eq!(error.to_string(), "no server named \"missing\"");
}

#[tokio::test(start_paused = true)]
async fn unsupported_templates_method_yields_empty_list() {
    let unknown = Step::error(-32601, "method not found");
    let script = Script::legacy()
        .resource("demo://x", "x")
        .on("resources/templates/list", [unknown]);
    let (host, _server) = host_with(script).await;
    let listing = host.resource_templates(Some("s")).await.unwrap();
    assert!(listing.items.is_empty() && listing.errors.is_empty());

    let (host, _server) = host_with(Script::modern().resource_template("demo://item/{id}")).await;
    let listing = host.resource_templates(None).await.unwrap();
    assert_eq!(listing.items[0].item.uri_template, "demo://item/{id}");
    let result = host.read_resource_raw("s", "demo://item/7").await.unwrap();
    assert_eq!(result.contents[0].uri, "demo://item/7");
}

#[tokio::test(start_paused = true)]
async fn texts_blobs_and_empty_resources_are_read() {
    for script in both_eras() {
        let script = script
            .resource("demo://text", "hello")
            .blob("demo://blob", "image/png", "aGk=")
            .raw_resource(json!({"uri": "demo://empty", "name": "empty", "contents": []}));
        let (host, server) = host_with(script).await;
        let text = host.read_resource_raw("s", "demo://text").await.unwrap();
        assert_eq!(text.contents[0].text.as_deref(), Some("hello"));
        let blob = host.read_resource_raw("s", "demo://blob").await.unwrap();
        assert_eq!(blob.contents[0].blob.as_deref(), Some("aGk="));
        assert_eq!(blob.contents[0].mime_type.as_deref(), Some("image/png"));
        let empty = host.read_resource_raw("s", "demo://empty").await.unwrap();
        assert_eq!(empty.contents, []);
        let requests = server.received_with("resources/read");
        assert_eq!(requests[0]["params"]["uri"], "demo://text");
    }
}

#[tokio::test(start_paused = true)]
async fn missing_resource_is_not_found_in_both_eras() {
    for (script, code) in both_eras().into_iter().zip([-32002, -32602]) {
        let (host, _server) = host_with(script.resource("demo://x", "x")).await;
        let error = host
            .read_resource_raw("s", "demo://other")
            .await
            .unwrap_err();
        assert!(error.is_not_found(), "{error}");
        let QueryError::ErrorResponse { error, .. } = error else {
            panic!("{error}");
        };
        assert_eq!(error.code, code);
    }
    let script = Script::legacy().resource("demo://x", "x");
    let other = script.on("resources/read", [Step::error(-32603, "no")]);
    let (host, _server) = host_with(other).await;
    let error = host.read_resource_raw("s", "demo://x").await.unwrap_err();
    assert!(!error.is_not_found());
}

#[tokio::test(start_paused = true)]
async fn requests_without_capability_are_not_sent() {
    let (host, server) = host_with(Script::legacy().tool("echo")).await;
    let error = host.read_resource_raw("s", "demo://x").await.unwrap_err();
    assert_eq!(error.to_string(), "server s does not support resources");
    let error = host.get_prompt_raw("s", "greet", &arguments([])).await;
    assert_eq!(
        error.unwrap_err().to_string(),
        "server s does not support prompts"
    );
    assert!(host.prompts(Some("s")).await.unwrap().items.is_empty());
    let target = CompletionTarget::Prompt("greet");
    let completion = host
        .complete("s", target, "name", "A", &arguments([]))
        .await;
    assert_eq!(completion.unwrap().values, [""; 0]);
    for method in [
        "resources/read",
        "prompts/get",
        "prompts/list",
        "completion/complete",
    ] {
        assert_eq!(server.received_with(method), [] as [Value; 0], "{method}");
    }
}

#[tokio::test]
async fn lazy_server_starts_on_read() {
    let script = Script::legacy().resource("demo://x", "awake");
    let mut config = child(&script, "resources-lazy");
    config.lazy = true;
    let host = permissive().launch(launch("s", config)).start().unwrap();
    host.wait_for(Readiness::Settled).await;
    assert_eq!(
        host.server_details("s").unwrap().phase,
        switchboard::status::ServerPhase::Dormant
    );
    let listing = host.resources(None).await.unwrap();
    assert!(
        listing.items.is_empty(),
        "listing all servers started a lazy one"
    );
    let result = host.read_resource_raw("s", "demo://x").await.unwrap();
    assert_eq!(result.contents[0].text.as_deref(), Some("awake"));
    host.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn lost_read_is_retried_once_after_reconnect() {
    let script = Script::legacy().resource("demo://x", "here");
    for method in ["resources/read", "resources/list"] {
        let crashing = script.clone().on(method, [Step::Abort]);
        let server = MemoryServer::in_sequence([crashing, script.clone()]);
        let host = permissive()
            .connector("s", InMemory(server.clone()))
            .start()
            .unwrap();
        host.wait_for(Readiness::All).await;
        if method == "resources/list" {
            assert_eq!(uris(&host.resources(Some("s")).await.unwrap()).len(), 1);
        } else {
            let result = host.read_resource_raw("s", "demo://x").await.unwrap();
            assert_eq!(result.contents[0].text.as_deref(), Some("here"));
        }
        assert_eq!(server.opened(), 2);
        assert_eq!(server.received_with(method).len(), 2, "{method}");
    }
}

#[tokio::test(start_paused = true)]
async fn repeated_crash_stops_retries() {
    let crashing = Script::legacy()
        .resource("demo://x", "x")
        .on("resources/read", [Step::Abort]);
    let (host, server) = host_with(crashing).await;
    let error = host.read_resource_raw("s", "demo://x").await.unwrap_err();
    assert!(
        matches!(error, QueryError::ConnectionLost { .. }),
        "{error}"
    );
    assert_eq!(server.received_with("resources/read").len(), 2);
}

/// An `Interaction` that offers one root to every server.
struct OneRoot;

impl Interaction for OneRoot {
    fn capabilities(&self) -> ClientCapabilities {
        ClientCapabilities::default().roots()
    }

    fn can_use_tool(&self, _: PermissionRequest) -> BoxFuture<'_, PermissionResponse> {
        Box::pin(std::future::ready(PermissionResponse::Allow))
    }

    fn roots<'a>(&'a self, _: &'a ServerName) -> BoxFuture<'a, Vec<Root>> {
        Box::pin(std::future::ready(vec![Root::new("file:///project")]))
    }
}

#[tokio::test(start_paused = true)]
async fn input_required_works_for_reads_and_prompts() {
    let question = json!({
        "resultType": "input_required",
        "inputRequests": {"roots": {"method": "roots/list"}},
        "requestState": "kept",
    });
    let steps = || {
        [
            Step::until(1, [Step::Reply(question.clone())]),
            Step::after(2, [Step::Default]),
        ]
    };
    let script = Script::modern()
        .resource("demo://x", "read")
        .prompt("plain")
        .on("resources/read", steps())
        .on("prompts/get", steps());
    let server = MemoryServer::new(script);
    let host = permissive()
        .interaction(OneRoot)
        .connector("s", InMemory(server.clone()))
        .start()
        .unwrap();
    host.wait_for(Readiness::All).await;
    let result = host.read_resource_raw("s", "demo://x").await.unwrap();
    assert_eq!(result.contents[0].text.as_deref(), Some("read"));
    let prompt = host
        .get_prompt_raw("s", "plain", &arguments([]))
        .await
        .unwrap();
    assert_eq!(prompt.messages.len(), 1);
    assert_eq!(
        server.received_with("prompts/get")[0]["params"]["arguments"],
        json!({})
    );
    for method in ["resources/read", "prompts/get"] {
        let requests = server.received_with(method);
        let [_, second] = requests.as_slice() else {
            panic!("{requests:?}");
        };
        let params = &second["params"];
        assert_eq!(params["requestState"], "kept");
        let roots = &params["inputResponses"]["roots"]["roots"];
        assert_eq!(*roots, json!([{"uri": "file:///project"}]));
    }
}

#[tokio::test(start_paused = true)]
async fn prompts_are_found_by_wire_name() {
    for script in both_eras() {
        let (host, server) = host_with(script.prompt("greet").prompt("picture")).await;
        let listing = host.prompts(None).await.unwrap();
        let names: Vec<_> = listing.items.iter().map(ServerItem::wire_name).collect();
        let names: Vec<_> = names.iter().map(WireName::as_str).collect();
        assert_eq!(names, ["mcp__s__greet", "mcp__s__picture"]);
        let required: Vec<_> = (listing.items[0].item.arguments.iter())
            .map(|argument| (argument.name.as_str(), argument.required))
            .collect();
        assert_eq!(required, [("name", true), ("style", false)]);

        let found = host.find_prompt("mcp__s__greet").await.unwrap().unwrap();
        assert_eq!(found.item.name, "greet");
        assert!(host.find_prompt("mcp__s__other").await.unwrap().is_none());
        assert!(host.find_prompt("mcp__x__greet").await.unwrap().is_none());

        let values = arguments([("name", "Ann"), ("style", "kind")]);
        let prompt = host.get_prompt_raw("s", "greet", &values).await.unwrap();
        let roles: Vec<_> = prompt.messages.iter().map(|message| message.role).collect();
        assert_eq!(roles, [Role::User, Role::Assistant]);
        let requests = server.received_with("prompts/get");
        assert_eq!(requests[0]["params"]["arguments"], json!(values));
        let error = host
            .get_prompt_raw("s", "other", &values)
            .await
            .unwrap_err();
        assert!(matches!(error, QueryError::ErrorResponse { .. }), "{error}");
    }
}

#[tokio::test(start_paused = true)]
async fn completion_receives_previous_arguments() {
    let script = Script::modern()
        .prompt("greet")
        .resource_template("demo://{city}")
        .completion("demo://{city}", "city", ["Paris", "Prague", "Rome"])
        .completion_when("greet", "style", [("name", "Ann")], ["kind", "kurt"]);
    let (host, server) = host_with(script).await;
    let target = CompletionTarget::ResourceTemplate("demo://{city}");
    let none = arguments([]);
    let completion = host
        .complete("s", target, "city", "P", &none)
        .await
        .unwrap();
    assert_eq!(completion.values, ["Paris", "Prague"]);
    let target = CompletionTarget::Prompt("greet");
    let known = arguments([("name", "Ann")]);
    let completion = host.complete("s", target, "style", "k", &known).await;
    assert_eq!(completion.unwrap().values, ["kind", "kurt"]);
    let completion = host.complete("s", target, "style", "k", &none).await;
    assert_eq!(completion.unwrap().values, [""; 0]);
    let requests = server.received_with("completion/complete");
    assert!(requests[0]["params"].get("context").is_none());
    let params = &requests[1]["params"];
    assert_eq!(
        params["ref"],
        json!({"type": "ref/prompt", "name": "greet"})
    );
    assert_eq!(params["argument"], json!({"name": "style", "value": "k"}));
    assert_eq!(params["context"], json!({"arguments": {"name": "Ann"}}));
}
