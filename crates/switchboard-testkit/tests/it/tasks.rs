//! Calls that become tasks, in both eras.

use std::time::Duration;

use serde_json::{Value, json};
use switchboard_testkit::{MemoryServer, Script, TaskOptions, tool};
use tokio::time::Instant;

use crate::client::{Wire, modern, open};

const EXTENSION: &str = "io.modelcontextprotocol/tasks";

fn research(arguments: &Value) -> Value {
    json!({"name": "research", "arguments": arguments})
}

/// A legacy request to run it as a task.
fn as_task(arguments: &Value) -> Value {
    let mut params = research(arguments);
    params["task"] = json!({"ttl": 60_000});
    params
}

/// The parameters of a request of a client that knows the extension.
fn declared(params: &Value) -> Value {
    let mut params = modern(params);
    params["_meta"]["io.modelcontextprotocol/clientCapabilities"] =
        json!({"extensions": {EXTENSION: {}}});
    params
}

async fn begin(wire: &mut Wire, arguments: &Value) -> Value {
    let begun = wire.ask("tools/call", declared(&research(arguments))).await;
    begun["taskId"].clone()
}

async fn poll(wire: &mut Wire, id: &Value) -> Value {
    wire.ask("tasks/get", declared(&json!({"taskId": id})))
        .await
}

#[tokio::test(start_paused = true)]
async fn a_modern_call_becomes_a_task_that_ends_after_so_many_polls() {
    let server = MemoryServer::new(Script::modern().research());
    let mut wire = open(&server);
    let arguments = json!({"topic": "owls", "steps": 2});
    let begun = wire
        .ask("tools/call", declared(&research(&arguments)))
        .await;
    let mut task = json!({
        "resultType": "task",
        "taskId": "task-1",
        "status": "working",
        "statusMessage": "step 0 of 2",
        "createdAt": "2026-07-28T00:00:00Z",
        "lastUpdatedAt": "2026-07-28T00:00:00Z",
        "ttlMs": null,
        "pollIntervalMs": 1000,
    });
    assert_eq!(begun, task);
    task["resultType"] = json!("complete");
    task["statusMessage"] = json!("step 1 of 2");
    assert_eq!(poll(&mut wire, &json!("task-1")).await, task);
    task["status"] = json!("completed");
    task["statusMessage"] = json!("step 2 of 2");
    let text = "research on owls in 2 steps";
    task["result"] = json!({"content": [{"type": "text", "text": text}]});
    for _ in 0..2 {
        assert_eq!(poll(&mut wire, &json!("task-1")).await, task);
    }
    assert_eq!(server.count("ran research"), 1);
    assert_eq!(server.count("tasks/get task-1"), 3);
}

#[tokio::test(start_paused = true)]
async fn a_modern_task_asks_and_is_answered_by_an_update() {
    let mut wire = open(&MemoryServer::new(Script::modern().research()));
    let id = begin(&mut wire, &json!({"steps": 2, "ask": true})).await;
    for _ in 0..2 {
        let asking = poll(&mut wire, &id).await;
        assert_eq!(asking["status"], "input_required");
        let request = &asking["inputRequests"]["question-1"];
        assert_eq!(request["method"], "elicitation/create");
        assert_eq!(request["params"]["mode"], "form");
    }
    let answer = json!({"action": "accept", "content": {"depth": "long"}});
    for (key, status) in [("other", "input_required"), ("question-1", "completed")] {
        let params = json!({"taskId": id, "inputResponses": {key: answer}});
        let acknowledged = wire.ask("tasks/update", declared(&params)).await;
        assert_eq!(acknowledged, json!({"resultType": "complete"}));
        assert_eq!(poll(&mut wire, &id).await["status"], status);
    }
    let ended = poll(&mut wire, &id).await;
    let text = ended["result"]["content"][0]["text"].as_str().unwrap();
    assert!(text.ends_with(r#"answered {"depth":"long"}"#), "{text}");
}

#[tokio::test(start_paused = true)]
async fn a_modern_task_is_cancelled_fails_or_is_not_there() {
    let mut wire = open(&MemoryServer::new(Script::modern().research()));
    let id = begin(&mut wire, &json!({})).await;
    let cancelled = wire
        .ask("tasks/cancel", declared(&json!({"taskId": id})))
        .await;
    assert_eq!(cancelled, json!({"resultType": "complete"}));
    assert_eq!(poll(&mut wire, &id).await["status"], "cancelled");
    let id = begin(&mut wire, &json!({"steps": 1, "fail": true})).await;
    let failed = poll(&mut wire, &id).await;
    assert_eq!(
        (&failed["status"], &failed["error"]["code"]),
        (&json!("failed"), &json!(-32603))
    );
    for method in ["tasks/get", "tasks/update", "tasks/cancel"] {
        let response = wire.ask(method, declared(&json!({"taskId": "none"}))).await;
        assert_eq!(response["error"]["code"], -32602, "{method}");
        let response = wire.ask(method, modern(&json!({"taskId": id}))).await;
        assert_eq!(response["error"]["code"], -32021, "{method}");
    }
    for method in ["tasks/result", "tasks/list"] {
        let response = wire.ask(method, declared(&json!({"taskId": id}))).await;
        assert_eq!(response["error"]["code"], -32601, "{method}");
    }
}

#[tokio::test(start_paused = true)]
async fn who_does_not_know_tasks_waits_or_is_refused() {
    let before = Instant::now();
    let mut wire = open(&MemoryServer::new(Script::modern().research()));
    let result = wire
        .ask("tools/call", modern(&research(&json!({"steps": 3}))))
        .await;
    assert_eq!(result["resultType"], "complete");
    assert_eq!(before.elapsed(), Duration::from_secs(3));
    let mut only_as_task = tool("research");
    only_as_task["execution"]["taskSupport"] = json!("required");
    let mut script = Script::modern().research();
    script.tools = vec![only_as_task.clone()];
    let mut wire = open(&MemoryServer::new(script));
    let response = wire.ask("tools/call", modern(&research(&json!({})))).await;
    assert_eq!(response["error"]["code"], -32021);
    let mut script = Script::legacy().research();
    script.tools = vec![only_as_task];
    let mut wire = open(&MemoryServer::new(script));
    let response = wire.ask("tools/call", research(&json!({}))).await;
    assert_eq!(response["error"]["code"], -32601);
}

#[tokio::test(start_paused = true)]
async fn a_legacy_task_is_polled_listed_and_fetched() {
    let server = MemoryServer::new(Script::legacy().research());
    let mut wire = open(&server);
    let begun = wire
        .ask("tools/call", as_task(&json!({"topic": "owls", "steps": 2})))
        .await;
    let mut task = json!({
        "taskId": "task-1",
        "status": "working",
        "statusMessage": "step 0 of 2",
        "createdAt": "2026-07-28T00:00:00Z",
        "lastUpdatedAt": "2026-07-28T00:00:00Z",
        "ttl": 60_000,
        "pollInterval": 1000,
    });
    assert_eq!(begun, json!({"task": task}));
    task["statusMessage"] = json!("step 1 of 2");
    let id = json!({"taskId": "task-1"});
    assert_eq!(wire.ask("tasks/get", id.clone()).await, task);
    assert_eq!(
        wire.ask("tasks/list", json!({})).await,
        json!({"tasks": [task]})
    );
    let result = wire.ask("tasks/result", id.clone()).await;
    assert_eq!(
        result,
        json!({
            "content": [{"type": "text", "text": "research on owls in 2 steps"}],
            "_meta": {"io.modelcontextprotocol/related-task": id},
        })
    );
    let response = wire.ask("tasks/cancel", id).await;
    assert_eq!(response["error"]["code"], -32602, "it has ended");
    let response = wire.ask("tasks/update", json!({"taskId": "task-1"})).await;
    assert_eq!(response["error"]["code"], -32601);
}

#[tokio::test(start_paused = true)]
async fn a_legacy_task_asks_while_its_result_is_awaited() {
    let mut wire = open(&MemoryServer::new(Script::legacy().research()));
    wire.ask("tools/call", as_task(&json!({"steps": 2, "ask": true})))
        .await;
    let id = json!({"taskId": "task-1"});
    let polled = wire.ask("tasks/get", id.clone()).await;
    assert_eq!(polled["status"], "input_required");
    wire.request("tasks/result", id.clone()).await;
    let asked = wire.next().await;
    assert_eq!(asked["method"], "elicitation/create");
    assert_eq!(
        asked["params"]["_meta"]["io.modelcontextprotocol/related-task"],
        id
    );
    let declined = json!({"jsonrpc": "2.0", "id": asked["id"], "result": {"action": "decline"}});
    wire.send(&declined).await;
    let result = wire.next().await;
    let text = result["result"]["content"][0]["text"].as_str().unwrap();
    assert!(text.ends_with(r#"answered "decline""#), "{text}");
}

#[tokio::test(start_paused = true)]
async fn a_legacy_task_is_cancelled_or_expires() {
    let mut wire = open(&MemoryServer::new(Script::legacy().research()));
    wire.ask("tools/call", as_task(&json!({}))).await;
    let id = json!({"taskId": "task-1"});
    assert_eq!(
        wire.ask("tasks/cancel", id.clone()).await["status"],
        "cancelled"
    );
    let response = wire.ask("tasks/result", id.clone()).await;
    assert_eq!(response["error"]["code"], -32603);
    tokio::time::sleep(Duration::from_secs(60)).await;
    let response = wire.ask("tasks/get", id).await;
    assert_eq!(response["error"]["code"], -32602);
}

#[tokio::test(start_paused = true)]
async fn a_task_outlives_the_connection_it_was_begun_on() {
    let server = MemoryServer::new(Script::modern().research());
    let mut wire = open(&server);
    let id = begin(&mut wire, &json!({"steps": 2})).await;
    poll(&mut wire, &id).await;
    server.kill();
    let mut wire = open(&server);
    assert_eq!(poll(&mut wire, &id).await["status"], "completed");
    assert_eq!(server.count("ran research"), 1);
}

#[tokio::test(start_paused = true)]
async fn a_task_that_goes_on_by_time_tells_who_listens() {
    let tasking = TaskOptions {
        by_time: true,
        ..TaskOptions::default()
    };
    let script = Script::modern().research().tasking(tasking.clone());
    let mut wire = open(&MemoryServer::new(script));
    let id = begin(&mut wire, &json!({"steps": 2})).await;
    assert_eq!(poll(&mut wire, &id).await["statusMessage"], "step 0 of 2");
    let filter = json!({"taskIds": [id]});
    let params = json!({"notifications": filter});
    let refused = wire.ask("subscriptions/listen", modern(&params)).await;
    assert_eq!(refused["error"]["code"], -32021);
    wire.request("subscriptions/listen", declared(&params))
        .await;
    assert_eq!(wire.next().await["params"]["notifications"], filter);
    for (status, after) in [("working", 1), ("completed", 2)] {
        let told = wire.next().await;
        assert_eq!(told["method"], "notifications/tasks");
        assert_eq!(told["params"]["status"], status);
        assert_eq!(
            told["params"]["lastUpdatedAt"],
            format!("2026-07-28T00:00:0{after}Z")
        );
    }
    let script = Script::legacy().research().tasking(tasking);
    let mut wire = open(&MemoryServer::new(script));
    wire.ask("tools/call", as_task(&json!({"steps": 1}))).await;
    let told = wire.next().await;
    assert_eq!(told["method"], "notifications/tasks/status");
    assert_eq!(told["params"]["status"], "completed");
}
