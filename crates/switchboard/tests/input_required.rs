//! Calls to which a modern server responds with `input_required` before it returns a result.

#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "a failed expectation fails the test"
)]

mod common;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use common::{InMemory, permissive};
use serde_json::{Map, Value, json};
use switchboard::call::{Delivery, InvalidMessage};
use switchboard::elicitation::{ElicitResponse, Elicitation};
use switchboard::interaction::{BoxFuture, ClientCapabilities, Root};
use switchboard::limits::Deadlines;
use switchboard::mcp::ErrorObject;
use switchboard::permission::{PermissionRequest, PermissionResponse};
use switchboard::sampling::SamplingRequest;
use switchboard::{CallError, Host, Interaction, Readiness};
use switchboard_testkit::{MemoryServer, Script, Step};

/// An `Interaction` that answers every elicitation after a delay and counts the elicitations.
#[derive(Clone)]
struct SlowUser {
    capabilities: ClientCapabilities,
    delay: Duration,
    elicitation_count: Arc<AtomicUsize>,
    /// Number of elicitations that the user has not answered yet.
    open_elicitations: Arc<AtomicUsize>,
}

impl SlowUser {
    fn new(capabilities: ClientCapabilities) -> Self {
        Self {
            capabilities,
            delay: Duration::ZERO,
            elicitation_count: Arc::default(),
            open_elicitations: Arc::default(),
        }
    }

    fn with_delay(delay: Duration) -> Self {
        Self {
            delay,
            ..Self::new(ClientCapabilities::default().elicitation())
        }
    }
}

/// Decrements the number of open elicitations when an elicitation ends.
struct OpenElicitation(Arc<AtomicUsize>);

impl Drop for OpenElicitation {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Interaction for SlowUser {
    fn capabilities(&self) -> ClientCapabilities {
        self.capabilities
    }

    fn can_use_tool(&self, _: PermissionRequest) -> BoxFuture<'_, PermissionResponse> {
        Box::pin(std::future::ready(PermissionResponse::Allow))
    }

    fn elicit<'a>(&'a self, question: Elicitation<'a>) -> BoxFuture<'a, ElicitResponse> {
        self.elicitation_count.fetch_add(1, Ordering::Relaxed);
        self.open_elicitations.fetch_add(1, Ordering::Relaxed);
        let open = OpenElicitation(Arc::clone(&self.open_elicitations));
        Box::pin(async move {
            let _open = open;
            tokio::time::sleep(self.delay).await;
            if question.message == "no?" {
                return ElicitResponse::Decline;
            }
            let content = [("text".to_owned(), question.message.into())];
            ElicitResponse::Accept(Map::from_iter(content))
        })
    }

    fn sample<'a>(
        &'a self,
        request: SamplingRequest<'a>,
    ) -> BoxFuture<'a, Result<Value, ErrorObject>> {
        Box::pin(std::future::ready(
            if request.system_prompt.as_deref() == Some("no?") {
                Err(ErrorObject::new(-1, "no model"))
            } else {
                Ok(json!({"model": "m"}))
            },
        ))
    }

    fn roots<'a>(&'a self, _: &'a switchboard::id::ServerName) -> BoxFuture<'a, Vec<Root>> {
        Box::pin(std::future::ready(vec![Root::new("file:///project")]))
    }
}

fn question(message: &str) -> Value {
    let schema = json!({"type": "object", "properties": {"text": {"type": "string"}}});
    let params = json!({"message": message, "requestedSchema": schema});
    json!({"method": "elicitation/create", "params": params})
}

fn input_required(requests: &Value, state: &Value) -> Step {
    let mut result = json!({"resultType": "input_required"});
    for (key, value) in [("inputRequests", requests), ("requestState", state)] {
        if !value.is_null() {
            result[key] = value.clone();
        }
    }
    Step::Reply(result)
}

/// A modern server that answers the first call with `input_required` and the second with a result.
fn server_asking(requests: &Value, state: &Value) -> Script {
    let steps = [
        Step::until(1, [input_required(requests, state)]),
        Step::after(2, [Step::text("done")]),
    ];
    Script::modern()
        .tool("ask")
        .tool("echo")
        .on("tools/call ask", steps)
}

async fn start(script: Script, user: &SlowUser, deadlines: Deadlines) -> (Host, MemoryServer) {
    let server = MemoryServer::new(script);
    let host = permissive()
        .interaction(user.clone())
        .deadlines(deadlines)
        .connector("s", InMemory(server.clone()))
        .start()
        .unwrap();
    host.wait_for(Readiness::All).await;
    (host, server)
}

async fn host_of(script: Script, user: &SlowUser) -> (Host, MemoryServer) {
    start(script, user, Deadlines::default()).await
}

async fn ask(host: &Host) -> Result<String, CallError> {
    let output = host.call("mcp__s__ask", json!({"a": 1})).await?;
    Ok(output.to_text())
}

#[tokio::test(start_paused = true)]
async fn input_responses_are_sent_with_second_call() {
    let requests = json!({
        "name": question("name?"),
        "sure \"é\"": question("no?"),
        "model": {"method": "sampling/createMessage", "params": {"messages": []}},
        "roots": {"method": "roots/list"},
    });
    let state = json!("{\"n\":1}\u{2028}\n\té=");
    let user = SlowUser::new(
        ClientCapabilities::default()
            .elicitation()
            .sampling()
            .roots(),
    );
    let (host, server) = host_of(server_asking(&requests, &state), &user).await;
    assert_eq!(ask(&host).await.unwrap(), "done");

    let calls = server.received_with("tools/call");
    let [first, second] = calls.as_slice() else {
        panic!("{calls:?}");
    };
    assert_ne!(first["id"], second["id"]);
    assert_eq!(second["params"]["_meta"]["progressToken"], second["id"]);
    let extensions = json!({"io.modelcontextprotocol/tasks": {}});
    let capabilities = json!({
        "elicitation": {"form": {}}, "sampling": {}, "roots": {}, "extensions": extensions,
    });
    for call in &calls {
        let params = &call["params"];
        assert_eq!(params["name"], "ask");
        assert_eq!(params["arguments"], json!({"a": 1}));
        let declared = &params["_meta"]["io.modelcontextprotocol/clientCapabilities"];
        assert_eq!(*declared, capabilities);
    }
    assert!(first["params"].get("inputResponses").is_none());
    assert!(first["params"].get("requestState").is_none());
    let expected = json!({
        "name": {"action": "accept", "content": {"text": "name?"}},
        "sure \"é\"": {"action": "decline"},
        "model": {"model": "m"},
        "roots": {"roots": [{"uri": "file:///project"}]},
    });
    assert_eq!(second["params"]["inputResponses"], expected);
    assert_eq!(second["params"]["requestState"], state);
}

#[tokio::test(start_paused = true)]
async fn request_state_is_returned_only_if_present() {
    let one = json!({"a": question("a?")});
    for (requests, state) in [
        (one.clone(), Value::Null),
        (Value::Null, json!("s")),
        (one, json!("")),
    ] {
        let user = SlowUser::with_delay(Duration::ZERO);
        let (host, server) = host_of(server_asking(&requests, &state), &user).await;
        assert_eq!(ask(&host).await.unwrap(), "done");
        let calls = server.received_with("tools/call");
        let params = &calls[1]["params"];
        assert_eq!(
            params.get("requestState"),
            Some(&state).filter(|state| !state.is_null())
        );
        assert_eq!(params.get("inputResponses").is_some(), !requests.is_null());
    }
}

#[tokio::test(start_paused = true)]
async fn request_state_is_returned_byte_for_byte() {
    let written = r#""\u00e9\/\ud83d\ude00\u0000 \"é\"""#;
    let reply = format!(
        r#"{{"jsonrpc":"2.0","id":$ID,"result":{{"resultType":"input_required","requestState":{written}}}}}"#
    );
    let steps = [
        Step::until(1, [Step::raw(&reply)]),
        Step::after(2, [Step::text("done")]),
    ];
    let folder = tempfile::tempdir().unwrap();
    let mut script = Script::modern().tool("ask").on("tools/call ask", steps);
    let record = folder.path().join("received");
    script.record = Some(record.clone());
    let (host, _) = host_of(script, &SlowUser::with_delay(Duration::ZERO)).await;
    assert_eq!(ask(&host).await.unwrap(), "done");
    let received = std::fs::read_to_string(record).unwrap();
    assert!(received.contains(&format!(r#""requestState":{written},"#)));
}

#[tokio::test(start_paused = true)]
async fn input_rounds_per_call_are_limited() {
    let steps = [input_required(&json!({"a": question("a?")}), &json!("s"))];
    let script = Script::modern().tool("ask").on("tools/call ask", steps);
    let user = SlowUser::with_delay(Duration::from_secs(1));
    let (host, server) = host_of(script, &user).await;
    let error = ask(&host).await.unwrap_err();
    let CallError::InvalidResponse { problem, .. } = &error else {
        panic!("{error:?}");
    };
    assert_eq!(*problem, InvalidMessage::TooManyInputRequests { limit: 8 });
    assert_eq!(problem.limit(), Some("input_requests"));
    assert_eq!(user.elicitation_count.load(Ordering::Relaxed), 8);
    let calls = server.received_with("tools/call");
    let mut ids: Vec<_> = calls.iter().map(|call| call["id"].as_u64()).collect();
    ids.dedup();
    assert_eq!(ids.len(), 9);
}

#[tokio::test(start_paused = true)]
async fn concurrent_input_rounds_are_independent() {
    let ask_once = |name: &str| {
        [
            Step::until(
                1,
                [input_required(&json!({name: question(name)}), &json!(name))],
            ),
            Step::after(2, [Step::text(name)]),
        ]
    };
    let script = Script::modern()
        .tool("one")
        .tool("two")
        .tool("echo")
        .on("tools/call one", ask_once("one"))
        .on("tools/call two", ask_once("two"));
    let (host, server) = host_of(script, &SlowUser::with_delay(Duration::from_secs(5))).await;
    let one = host.call("mcp__s__one", json!({}));
    let two = host.call("mcp__s__two", json!({}));
    let concurrent = async {
        server.wait_received("tools/call", 2).await;
        let output = host.call("mcp__s__echo", json!({"message": "hi"})).await;
        // The user has not answered yet, so the host has repeated neither `one` nor `two`. The
        // server has received one call of each tool.
        assert_eq!(server.received_with("tools/call").len(), 3);
        output
    };
    let (one, two, concurrent) = tokio::join!(one, two, concurrent);
    assert_eq!(one.unwrap().to_text(), "one");
    assert_eq!(two.unwrap().to_text(), "two");
    assert_eq!(concurrent.unwrap().to_text(), "hi");
    let mut rounds = 0;
    for call in server.received_with("tools/call") {
        let params = &call["params"];
        let Some(state) = params.get("requestState") else {
            assert!(params.get("inputResponses").is_none(), "{call}");
            continue;
        };
        rounds += 1;
        assert_eq!(*state, params["name"]);
        let answered: Vec<_> = params["inputResponses"]
            .as_object()
            .unwrap()
            .keys()
            .collect();
        assert_eq!(answered, [params["name"].as_str().unwrap()]);
    }
    assert_eq!(rounds, 2);
}

#[tokio::test(start_paused = true)]
async fn invalid_input_requests_fail_without_asking() {
    let many: Map<String, Value> = (0..33)
        .map(|number| (number.to_string(), question("?")))
        .collect();
    let url = json!({"mode": "url", "message": "?", "url": "https://example.com"});
    let table = [
        (
            json!({"a": question("a?"), "b": {"method": "sampling/createMessage"}}),
            json!(null),
        ),
        (
            json!({"a": question("a?"), "b": {"method": "made/up"}}),
            json!("s"),
        ),
        (
            json!({"a": question("a?"), "b": {"method": "elicitation/create", "params": url}}),
            json!(null),
        ),
        (json!({"a": {"params": {}}}), json!(null)),
        (json!({"a": "elicitation/create"}), json!(null)),
        (json!([question("a?")]), json!(null)),
        (Value::Object(many), json!(null)),
        (json!({}), json!(null)),
        (json!(null), json!(null)),
        (json!({"a": question("a?")}), json!({"n": 1})),
        (json!({"a": question("a?")}), json!(7)),
    ];
    for (requests, state) in table {
        let user = SlowUser::with_delay(Duration::ZERO);
        let (host, server) = host_of(server_asking(&requests, &state), &user).await;
        let error = ask(&host).await.unwrap_err();
        assert!(
            matches!(error, CallError::InvalidResponse { .. }),
            "{requests}: {error}"
        );
        assert_eq!(server.received_with("tools/call").len(), 1, "{requests}");
        assert_eq!(
            user.elicitation_count.load(Ordering::Relaxed),
            0,
            "{requests}"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn duplicate_input_request_keys_are_invalid() {
    let reply = r#"{"jsonrpc":"2.0","id":$ID,"result":{"resultType":"input_required","inputRequests":
        {"a":{"method":"elicitation/create","params":{}},"\u0061":{"method":"roots/list"}}}}"#;
    let steps = [Step::raw(&reply.replace('\n', ""))];
    let script = Script::modern().tool("ask").on("tools/call ask", steps);
    let (host, _) = host_of(script, &SlowUser::with_delay(Duration::ZERO)).await;
    let error = ask(&host).await.unwrap_err().to_string();
    assert!(error.contains("duplicate key"), "{error}");
}

#[tokio::test(start_paused = true)]
async fn refused_input_request_fails_the_call() {
    let params = json!({"messages": [], "systemPrompt": "no?"});
    let requests = json!({"a": {"method": "sampling/createMessage", "params": params}});
    let user = SlowUser::new(ClientCapabilities::default().sampling());
    let (host, server) = host_of(server_asking(&requests, &json!(null)), &user).await;
    let error = ask(&host).await.unwrap_err().to_string();
    assert!(error.contains("no model"), "{error}");
    assert_eq!(server.received_with("tools/call").len(), 1);
}

#[tokio::test(start_paused = true)]
async fn input_required_is_a_protocol_error_for_listings() {
    let steps = [input_required(&json!({"a": question("a?")}), &json!("s"))];
    let methods = ["tools/list", "resources/list", "prompts/list"];
    let script = Script::modern()
        .tool("ask")
        .resource("demo://x", "read")
        .prompt("greet");
    let script = methods
        .into_iter()
        .fold(script, |script, method| script.on(method, steps.clone()));
    let user = SlowUser::with_delay(Duration::ZERO);
    let started = tokio::time::Instant::now();
    let (host, server) = host_of(script, &user).await;
    assert!(started.elapsed() < Deadlines::default().startup);
    let reason = |method: &str| {
        format!("it is `input_required`, which a server may not send for `{method}`")
    };
    let error = host.server_status("s").unwrap().error.unwrap();
    assert!(error.contains(&reason("tools/list")), "{error}");
    let errors = [
        host.resources(Some("s")).await.unwrap_err().to_string(),
        host.prompts(Some("s")).await.unwrap_err().to_string(),
    ];
    for (method, error) in methods.into_iter().skip(1).zip(errors) {
        assert!(error.contains(&reason(method)), "{error}");
    }
    for method in methods {
        assert_eq!(server.received_with(method).len(), 1, "{method}");
    }
    assert_eq!(user.elicitation_count.load(Ordering::Relaxed), 0);
}

#[tokio::test(start_paused = true)]
async fn input_required_from_legacy_server_is_invalid() {
    let steps = [input_required(&json!({"a": question("a?")}), &json!(null))];
    let script = Script::legacy().tool("ask").on("tools/call ask", steps);
    let user = SlowUser::with_delay(Duration::ZERO);
    let (host, _) = host_of(script, &user).await;
    let error = ask(&host).await.unwrap_err();
    assert!(
        matches!(error, CallError::InvalidResponse { .. }),
        "{error}"
    );
    assert_eq!(user.elicitation_count.load(Ordering::Relaxed), 0);
}

#[tokio::test(start_paused = true)]
async fn dropped_call_closes_its_elicitation() {
    let requests = json!({"a": question("a?")});
    let user = SlowUser::with_delay(Duration::from_secs(1_000));
    let (host, server) = host_of(server_asking(&requests, &json!("s")), &user).await;
    let dropped = tokio::time::timeout(Duration::from_secs(10), ask(&host)).await;
    assert!(dropped.is_err());
    assert_eq!(user.elicitation_count.load(Ordering::Relaxed), 1);
    assert_eq!(user.open_elicitations.load(Ordering::Relaxed), 0);
    let output = host.call("mcp__s__echo", json!({"message": "hi"})).await;
    assert_eq!(output.unwrap().to_text(), "hi");
    assert_eq!(server.received_with("tools/call").len(), 2);
}

#[tokio::test(start_paused = true)]
async fn only_server_time_counts_toward_deadline() {
    let steps = [
        Step::DelayMs(40_000),
        Step::until(
            1,
            [input_required(&json!({"a": question("a?")}), &json!(null))],
        ),
        Step::until(
            2,
            [input_required(&json!({"b": question("b?")}), &json!(null))],
        ),
        Step::text("done"),
    ];
    for (seconds, is_enough) in [(130, true), (110, false)] {
        let steps = steps.clone();
        let script = Script::modern().tool("ask").on("tools/call ask", steps);
        let mut deadlines = Deadlines::default();
        deadlines.call = Duration::from_secs(seconds);
        let user = SlowUser::with_delay(Duration::from_secs(3 * 60 * 60));
        let (host, server) = start(script, &user, deadlines).await;
        let outcome = ask(&host).await;
        assert_eq!(server.received_with("tools/call").len(), 3);
        match outcome {
            Ok(text) => assert!(is_enough && text == "done"),
            Err(CallError::TimedOut {
                delivery, after, ..
            }) => {
                assert!(!is_enough);
                assert_eq!(delivery, Delivery::Unknown);
                assert_eq!(after, Duration::from_secs(seconds));
            }
            Err(other) => panic!("{other:?}"),
        }
    }
}

#[tokio::test(start_paused = true)]
async fn crash_during_elicitation_is_outcome_unknown() {
    let requests = json!({"a": question("a?")});
    let user = SlowUser::with_delay(Duration::from_secs(1_000));
    let (host, server) = host_of(server_asking(&requests, &json!("s")), &user).await;
    let kill = async {
        server.wait_received("tools/call", 1).await;
        tokio::time::sleep(Duration::from_secs(1)).await;
        server.kill();
    };
    let (outcome, ()) = tokio::join!(ask(&host), kill);
    let error = outcome.unwrap_err();
    assert!(matches!(error, CallError::OutcomeUnknown { .. }), "{error}");
    assert_eq!(user.open_elicitations.load(Ordering::Relaxed), 0);
    let calls = server.received_with("tools/call");
    assert_eq!(calls.len(), 1, "the call was sent again");
}

#[tokio::test(start_paused = true)]
async fn missing_capabilities_are_named() {
    let refusal = Step::Error {
        code: ErrorObject::MISSING_CAPABILITY,
        message: "not enough".to_owned(),
        data: Some(json!({"requiredCapabilities": {"elicitation": {}, "sampling": {}}})),
    };
    let script = Script::modern().tool("ask").on("tools/call ask", [refusal]);
    let (host, _) = host_of(script, &SlowUser::new(ClientCapabilities::default())).await;
    let error = ask(&host).await.unwrap_err().to_string();
    assert!(
        error.contains("client capabilities elicitation, sampling"),
        "{error}"
    );
}
