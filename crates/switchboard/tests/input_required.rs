//! Calls that a modern server answers with a question first.

#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "a test that meets the unexpected shall fail"
)]

mod common;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use common::{InMemory, permissive};
use serde_json::{Map, Value, json};
use switchboard::call::{Delivery, Problem};
use switchboard::elicit::{ElicitAnswer, Elicitation};
use switchboard::interaction::{BoxFuture, Offers, Root};
use switchboard::limits::Deadlines;
use switchboard::mcp::ErrorObject;
use switchboard::permission::{PermissionRequest, PermissionResponse};
use switchboard::sampling::Sampling;
use switchboard::{CallError, Host, Interaction, Readiness};
use switchboard_testkit::{MemoryServer, Script, Step};

/// Answers what it offers, after some thought, and counts the questions.
#[derive(Clone)]
struct Person {
    offers: Offers,
    thinks: Duration,
    asked: Arc<AtomicUsize>,
    /// How many questions are open.
    open: Arc<AtomicUsize>,
}

impl Person {
    fn new(offers: Offers) -> Self {
        Self {
            offers,
            thinks: Duration::ZERO,
            asked: Arc::default(),
            open: Arc::default(),
        }
    }

    fn thinking(thinks: Duration) -> Self {
        Self {
            thinks,
            ..Self::new(Offers::default().elicitation())
        }
    }
}

struct Open(Arc<AtomicUsize>);

impl Drop for Open {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Interaction for Person {
    fn offers(&self) -> Offers {
        self.offers
    }

    fn can_use_tool(&self, _: PermissionRequest) -> BoxFuture<'_, PermissionResponse> {
        Box::pin(std::future::ready(PermissionResponse::Allow))
    }

    fn elicit<'a>(&'a self, question: Elicitation<'a>) -> BoxFuture<'a, ElicitAnswer> {
        self.asked.fetch_add(1, Ordering::Relaxed);
        self.open.fetch_add(1, Ordering::Relaxed);
        let open = Open(Arc::clone(&self.open));
        Box::pin(async move {
            let _open = open;
            tokio::time::sleep(self.thinks).await;
            if question.message == "no?" {
                return ElicitAnswer::Decline;
            }
            let content = [("said".to_owned(), question.message.into())];
            ElicitAnswer::Accept(Map::from_iter(content))
        })
    }

    fn sample<'a>(&'a self, request: Sampling<'a>) -> BoxFuture<'a, Result<Value, ErrorObject>> {
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
    let schema = json!({"type": "object", "properties": {"said": {"type": "string"}}});
    let params = json!({"message": message, "requestedSchema": schema});
    json!({"method": "elicitation/create", "params": params})
}

fn required(requests: &Value, state: &Value) -> Step {
    let mut result = json!({"resultType": "input_required"});
    for (key, value) in [("inputRequests", requests), ("requestState", state)] {
        if !value.is_null() {
            result[key] = value.clone();
        }
    }
    Step::Reply(result)
}

/// A modern server that asks first, and is content with any answer.
fn asking(requests: &Value, state: &Value) -> Script {
    let steps = [
        Step::until(1, [required(requests, state)]),
        Step::after(2, [Step::text("done")]),
    ];
    Script::modern()
        .tool("ask")
        .tool("echo")
        .on("tools/call ask", steps)
}

async fn start(script: Script, person: &Person, deadlines: Deadlines) -> (Host, MemoryServer) {
    let server = MemoryServer::new(script);
    let host = permissive()
        .interaction(person.clone())
        .deadlines(deadlines)
        .connector("s", InMemory(server.clone()))
        .start()
        .unwrap();
    host.wait_for(Readiness::All).await;
    (host, server)
}

async fn host_of(script: Script, person: &Person) -> (Host, MemoryServer) {
    start(script, person, Deadlines::default()).await
}

async fn ask(host: &Host) -> Result<String, CallError> {
    let output = host.call("mcp__s__ask", json!({"a": 1})).await?;
    Ok(output.to_text())
}

#[tokio::test(start_paused = true)]
async fn a_question_is_answered_and_the_call_sent_again() {
    let requests = json!({
        "name": question("name?"),
        "sure \"é\"": question("no?"),
        "model": {"method": "sampling/createMessage", "params": {"messages": []}},
        "roots": {"method": "roots/list"},
    });
    let state = json!("{\"n\":1}\u{2028}\n\té=");
    let everything = Person::new(Offers::default().elicitation().sampling().roots());
    let (host, server) = host_of(asking(&requests, &state), &everything).await;
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
        "name": {"action": "accept", "content": {"said": "name?"}},
        "sure \"é\"": {"action": "decline"},
        "model": {"model": "m"},
        "roots": {"roots": [{"uri": "file:///project"}]},
    });
    assert_eq!(second["params"]["inputResponses"], expected);
    assert_eq!(second["params"]["requestState"], state);
}

#[tokio::test(start_paused = true)]
async fn a_state_goes_back_only_if_there_was_one() {
    let one = json!({"a": question("a?")});
    for (requests, state) in [
        (one.clone(), Value::Null),
        (Value::Null, json!("s")),
        (one, json!("")),
    ] {
        let person = Person::thinking(Duration::ZERO);
        let (host, server) = host_of(asking(&requests, &state), &person).await;
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
async fn a_state_goes_back_as_it_was_written() {
    let written = r#""\u00e9\/\ud83d\ude00\u0000 \"é\"""#;
    let asked = format!(
        r#"{{"jsonrpc":"2.0","id":$ID,"result":{{"resultType":"input_required","requestState":{written}}}}}"#
    );
    let steps = [
        Step::until(1, [Step::raw(&asked)]),
        Step::after(2, [Step::text("done")]),
    ];
    let folder = tempfile::tempdir().unwrap();
    let mut script = Script::modern().tool("ask").on("tools/call ask", steps);
    let record = folder.path().join("received");
    script.record = Some(record.clone());
    let (host, _) = host_of(script, &Person::thinking(Duration::ZERO)).await;
    assert_eq!(ask(&host).await.unwrap(), "done");
    let received = std::fs::read_to_string(record).unwrap();
    assert!(received.contains(&format!(r#""requestState":{written},"#)));
}

/// E9: a server that asks for ever.
#[tokio::test(start_paused = true)]
async fn the_rounds_of_a_call_are_counted() {
    let steps = [required(&json!({"a": question("a?")}), &json!("s"))];
    let script = Script::modern().tool("ask").on("tools/call ask", steps);
    let person = Person::thinking(Duration::from_secs(1));
    let (host, server) = host_of(script, &person).await;
    let error = ask(&host).await.unwrap_err();
    let CallError::InvalidResponse { problem, .. } = &error else {
        panic!("{error:?}");
    };
    assert_eq!(*problem, Problem::TooManyRounds { limit: 8 });
    assert_eq!(problem.limit(), Some("input_rounds"));
    assert_eq!(person.asked.load(Ordering::Relaxed), 8);
    let calls = server.received_with("tools/call");
    let mut ids: Vec<_> = calls.iter().map(|call| call["id"].as_u64()).collect();
    ids.dedup();
    assert_eq!(ids.len(), 9);
}

#[tokio::test(start_paused = true)]
async fn calls_at_the_same_time_know_nothing_of_each_other() {
    let round = |name: &str| {
        [
            Step::until(1, [required(&json!({name: question(name)}), &json!(name))]),
            Step::after(2, [Step::text(name)]),
        ]
    };
    let script = Script::modern()
        .tool("one")
        .tool("two")
        .tool("echo")
        .on("tools/call one", round("one"))
        .on("tools/call two", round("two"));
    let (host, server) = host_of(script, &Person::thinking(Duration::from_secs(5))).await;
    let one = host.call("mcp__s__one", json!({}));
    let two = host.call("mcp__s__two", json!({}));
    let between = async {
        server.wait_received("tools/call", 2).await;
        let output = host.call("mcp__s__echo", json!({"message": "hi"})).await;
        // Nobody had answered by then.
        assert_eq!(server.received_with("tools/call").len(), 3);
        output
    };
    let (one, two, between) = tokio::join!(one, two, between);
    assert_eq!(one.unwrap().to_text(), "one");
    assert_eq!(two.unwrap().to_text(), "two");
    assert_eq!(between.unwrap().to_text(), "hi");
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
async fn what_cannot_be_answered_fails_the_call_and_nobody_is_asked() {
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
        let person = Person::thinking(Duration::ZERO);
        let (host, server) = host_of(asking(&requests, &state), &person).await;
        let error = ask(&host).await.unwrap_err();
        assert!(
            matches!(error, CallError::InvalidResponse { .. }),
            "{requests}: {error}"
        );
        assert_eq!(server.received_with("tools/call").len(), 1, "{requests}");
        assert_eq!(person.asked.load(Ordering::Relaxed), 0, "{requests}");
    }
}

/// E11: two questions of one name.
#[tokio::test(start_paused = true)]
async fn a_name_that_stands_twice_is_no_question() {
    let asked = r#"{"jsonrpc":"2.0","id":$ID,"result":{"resultType":"input_required","inputRequests":
        {"a":{"method":"elicitation/create","params":{}},"\u0061":{"method":"roots/list"}}}}"#;
    let steps = [Step::raw(&asked.replace('\n', ""))];
    let script = Script::modern().tool("ask").on("tools/call ask", steps);
    let (host, _) = host_of(script, &Person::thinking(Duration::ZERO)).await;
    let error = ask(&host).await.unwrap_err().to_string();
    assert!(error.contains("stands twice"), "{error}");
}

#[tokio::test(start_paused = true)]
async fn what_is_refused_here_fails_the_call() {
    let params = json!({"messages": [], "systemPrompt": "no?"});
    let requests = json!({"a": {"method": "sampling/createMessage", "params": params}});
    let person = Person::new(Offers::default().sampling());
    let (host, server) = host_of(asking(&requests, &json!(null)), &person).await;
    let error = ask(&host).await.unwrap_err().to_string();
    assert!(error.contains("no model"), "{error}");
    assert_eq!(server.received_with("tools/call").len(), 1);
}

#[tokio::test(start_paused = true)]
async fn older_servers_cannot_ask_in_this_way() {
    let steps = [required(&json!({"a": question("a?")}), &json!(null))];
    let script = Script::legacy().tool("ask").on("tools/call ask", steps);
    let person = Person::thinking(Duration::ZERO);
    let (host, _) = host_of(script, &person).await;
    let error = ask(&host).await.unwrap_err();
    assert!(
        matches!(error, CallError::InvalidResponse { .. }),
        "{error}"
    );
    assert_eq!(person.asked.load(Ordering::Relaxed), 0);
}

#[tokio::test(start_paused = true)]
async fn a_call_that_is_dropped_while_a_person_thinks_takes_the_question_back() {
    let requests = json!({"a": question("a?")});
    let person = Person::thinking(Duration::from_secs(1_000));
    let (host, server) = host_of(asking(&requests, &json!("s")), &person).await;
    let dropped = tokio::time::timeout(Duration::from_secs(10), ask(&host)).await;
    assert!(dropped.is_err());
    assert_eq!(person.asked.load(Ordering::Relaxed), 1);
    assert_eq!(person.open.load(Ordering::Relaxed), 0);
    let output = host.call("mcp__s__echo", json!({"message": "hi"})).await;
    assert_eq!(output.unwrap().to_text(), "hi");
    assert_eq!(server.received_with("tools/call").len(), 2);
}

#[tokio::test(start_paused = true)]
async fn the_time_of_people_does_not_count_and_that_of_the_server_does() {
    let steps = [
        Step::DelayMs(40_000),
        Step::until(1, [required(&json!({"a": question("a?")}), &json!(null))]),
        Step::until(2, [required(&json!({"b": question("b?")}), &json!(null))]),
        Step::text("done"),
    ];
    for (seconds, is_enough) in [(130, true), (110, false)] {
        let steps = steps.clone();
        let script = Script::modern().tool("ask").on("tools/call ask", steps);
        let mut deadlines = Deadlines::default();
        deadlines.call = Duration::from_secs(seconds);
        let person = Person::thinking(Duration::from_secs(3 * 60 * 60));
        let (host, server) = start(script, &person, deadlines).await;
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
async fn a_call_whose_server_goes_while_a_person_thinks_is_unknown() {
    let requests = json!({"a": question("a?")});
    let person = Person::thinking(Duration::from_secs(1_000));
    let (host, server) = host_of(asking(&requests, &json!("s")), &person).await;
    let kill = async {
        server.wait_received("tools/call", 1).await;
        tokio::time::sleep(Duration::from_secs(1)).await;
        server.kill();
    };
    let (outcome, ()) = tokio::join!(ask(&host), kill);
    let error = outcome.unwrap_err();
    assert!(matches!(error, CallError::OutcomeUnknown { .. }), "{error}");
    assert_eq!(person.open.load(Ordering::Relaxed), 0);
    let calls = server.received_with("tools/call");
    assert_eq!(calls.len(), 1, "it was not sent again");
}

#[tokio::test(start_paused = true)]
async fn a_server_that_wants_more_says_what() {
    let refusal = Step::Error {
        code: ErrorObject::MISSING_CAPABILITY,
        message: "not enough".to_owned(),
        data: Some(json!({"requiredCapabilities": {"elicitation": {}, "sampling": {}}})),
    };
    let script = Script::modern().tool("ask").on("tools/call ask", [refusal]);
    let (host, _) = host_of(script, &Person::new(Offers::default())).await;
    let error = ask(&host).await.unwrap_err().to_string();
    assert!(
        error.contains("client capabilities elicitation, sampling"),
        "{error}"
    );
}
