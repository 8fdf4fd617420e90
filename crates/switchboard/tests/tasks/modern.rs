//! The extension `io.modelcontextprotocol/tasks`.

use super::*;

use switchboard::call::{Delivery, Problem, TimeoutKind};

/// A task as it stands, with more members.
fn standing(status: &str, more: Value) -> Value {
    let mut task = json!({
        "resultType": "complete",
        "taskId": "t-1",
        "status": status,
        "createdAt": "2026-07-28T10:00:00Z",
        "lastUpdatedAt": "2026-07-28T10:00:00Z",
        "ttlMs": 600_000,
        "pollIntervalMs": 2_000,
    });
    if let Value::Object(more) = more {
        task.as_object_mut().unwrap().extend(more);
    }
    task
}

pub(super) fn state(status: &str, more: Value) -> Step {
    Step::Reply(standing(status, more))
}

pub(super) fn created(more: Value) -> Step {
    let mut task = standing("working", more);
    task["resultType"] = json!("task");
    Step::Reply(task)
}

pub(super) fn done(text: &str) -> Step {
    state("completed", json!({"result": text_result(text)}))
}

/// A modern server that makes a task of its one tool, and answers `tasks/get` by these steps.
pub(super) fn working(looks: impl IntoIterator<Item = Step>) -> Script {
    let mut script = Script::modern().tool("work").tool("echo");
    script.capabilities["extensions"] = json!({"io.modelcontextprotocol/tasks": {}});
    let empty = || [Step::Reply(json!({"resultType": "complete"}))];
    script
        .on(
            "tools/call work",
            [Step::count("executed"), created(json!({}))],
        )
        .on("tasks/get", looks)
        .on("tasks/update", empty())
        .on("tasks/cancel", empty())
}

#[tokio::test(start_paused = true)]
async fn a_task_is_asked_for_at_its_interval_until_it_is_done() {
    let looks = [
        Step::until(1, [state("working", json!({"statusMessage": "half"}))]),
        Step::until(2, [state("working", json!({"statusMessage": "half"}))]),
        Step::until(
            3,
            [state(
                "working",
                json!({"statusMessage": "almost", "pollIntervalMs": 8000}),
            )],
        ),
        Step::after(4, [done("42")]),
    ];
    let (host, server) = started(working(looks)).await;
    let began = tokio::time::Instant::now();
    let (outcome, told) = told_work(&host).await;
    assert_eq!(outcome.unwrap().to_text(), "42");
    assert_eq!(told, ["half", "almost"]);
    let took = began.elapsed().as_secs_f64();
    assert!((14.0..15.5).contains(&took), "{took}");

    let methods = [
        "tools/call",
        "tasks/get",
        "tasks/cancel",
        "notifications/cancelled",
    ];
    assert_eq!(counts(&server, methods), [1, 4, 0, 0]);
    let declared = json!({"extensions": {"io.modelcontextprotocol/tasks": {}}});
    for method in ["tools/call", "tasks/get"] {
        for message in server.received_with(method) {
            let meta = &message["params"]["_meta"];
            let capabilities = &meta["io.modelcontextprotocol/clientCapabilities"];
            assert_eq!(
                capabilities["extensions"], declared["extensions"],
                "{message}"
            );
        }
    }
    assert_eq!(
        server.received_with("tasks/get")[0]["params"]["taskId"],
        "t-1"
    );
}

#[tokio::test(start_paused = true)]
async fn what_becomes_of_a_task_becomes_of_the_call() {
    let error = json!({"code": -32_603, "message": "rate limit"});
    let failing = json!({"content": [{"type": "text", "text": "bad"}], "isError": true});
    let table = [
        (state("completed", json!({"result": failing})), "ok: bad"),
        (
            state("failed", json!({"error": error})),
            "refused: rate limit",
        ),
        (
            state("failed", json!({"statusMessage": "no disk"})),
            "refused: no disk",
        ),
        (
            state("cancelled", json!({"statusMessage": "by an operator"})),
            "refused: the server cancelled the task: by an operator",
        ),
        (Step::error(-32_602, "Task has expired"), "unknown: t-1"),
        (state("completed", json!({})), "unusable: has no result"),
        (
            state("paused", json!({})),
            "unusable: unknown status \"paused\"",
        ),
        (
            Step::Reply(json!({"resultType": "complete"})),
            "unusable: taskId",
        ),
    ];
    for (look, expected) in table {
        let (host, server) = started(working([look])).await;
        let found = match work(&host).await {
            Ok(output) => format!("ok: {}", output.to_text()),
            Err(CallError::ErrorResponse { error, .. }) => format!("refused: {}", error.message),
            Err(error @ CallError::OutcomeUnknown { .. }) => format!("unknown: {error}"),
            Err(error @ CallError::InvalidResponse { .. }) => format!("unusable: {error}"),
            Err(error) => panic!("{expected}: {error}"),
        };
        let (kind, words) = expected.split_once(": ").unwrap();
        assert!(found.starts_with(kind) && found.contains(words), "{found}");
        settle().await;
        // Only what may still run is told to stop.
        let may_run = usize::from(expected.contains("status \"") || expected.contains("taskId"));
        assert_eq!(
            counts(&server, ["tools/call", "tasks/cancel"]),
            [1, may_run],
            "{expected}"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn a_task_that_nobody_waits_for_is_cancelled() {
    let (host, server) = started(working([state("working", json!({}))])).await;
    assert!(tokio::time::timeout(seconds(7), work(&host)).await.is_err());
    let cancelled = server.wait_received("tasks/cancel", 1).await;
    assert_eq!(cancelled[0]["params"]["taskId"], "t-1");
    settle().await;
    let methods = ["tasks/cancel", "notifications/cancelled"];
    assert_eq!(counts(&server, methods), [1, 0]);
}

#[tokio::test(start_paused = true)]
async fn a_task_is_told_to_stop_when_the_host_shuts_down() {
    let (host, server) = started(working([state("working", json!({}))])).await;
    assert!(tokio::time::timeout(seconds(7), work(&host)).await.is_err());
    host.shutdown().await;
    assert_eq!(counts(&server, ["tasks/cancel"]), [1]);
}

#[tokio::test(start_paused = true)]
async fn the_absolute_deadline_holds_however_alive_a_task_is() {
    let (host, server) = started(working([state("working", json!({}))])).await;
    let began = tokio::time::Instant::now();
    let error = work(&host).await.unwrap_err();
    let CallError::TimedOut { kind, delivery, .. } = error else {
        panic!("{error}");
    };
    assert_eq!(kind, TimeoutKind::Total);
    assert_eq!(delivery, Delivery::Unknown);
    assert_eq!(began.elapsed(), Deadlines::default().call);
    server.wait_received("tasks/cancel", 1).await;
}

#[tokio::test(start_paused = true)]
async fn a_task_that_is_no_longer_answered_for_is_given_up() {
    let looks = [Step::until(3, [state("working", json!({}))]), Step::Hang];
    let (host, server) = started(working(looks)).await;
    let error = work(&host).await.unwrap_err();
    let CallError::TimedOut { kind, after, .. } = error else {
        panic!("{error}");
    };
    assert_eq!(kind, TimeoutKind::Idle);
    assert_eq!(after, Deadlines::default().idle);
    server.wait_received("tasks/cancel", 1).await;
}

fn asks(keys: &[&str]) -> Step {
    let question = json!({"method": "elicitation/create", "params": form()});
    let requests: Map<_, _> = keys
        .iter()
        .map(|key| ((*key).to_owned(), question.clone()))
        .collect();
    state("input_required", json!({"inputRequests": requests}))
}

#[tokio::test(start_paused = true)]
async fn what_a_task_asks_is_answered_once_whatever_is_repeated() {
    // The same question is there in several looks, and later a second one beside it.
    let looks = [
        Step::until(3, [asks(&["a"])]),
        Step::until(5, [asks(&["a", "b"])]),
        Step::after(6, [done("hello")]),
    ];
    let server = MemoryServer::new(working(looks));
    let person = Person {
        thinks: seconds(24 * 60 * 60),
        ..Person::default()
    };
    let host = host_of(&server, &person, Deadlines::default()).await;
    // People take longer than a call may.
    assert_eq!(work(&host).await.unwrap().to_text(), "hello");
    assert_eq!(person.asked(), 2);
    let answer = json!({"action": "accept", "content": {"name": "Ada"}});
    let given: Vec<_> = server
        .received_with("tasks/update")
        .into_iter()
        .map(|update| update["params"]["inputResponses"].clone())
        .collect();
    assert_eq!(given, [json!({"a": answer}), json!({"b": answer})]);
    assert_eq!(counts(&server, ["tools/call", "tasks/cancel"]), [1, 0]);
}

#[tokio::test(start_paused = true)]
async fn the_questions_of_a_task_are_bounded_and_must_be_offered() {
    let many = (1..=20).map(|count| {
        let key = format!("question {count}");
        Step::until(count, [asks(&[&key])])
    });
    let server = MemoryServer::new(working(many));
    let person = Person::default();
    let host = host_of(&server, &person, Deadlines::default()).await;
    let error = work(&host).await.unwrap_err();
    let CallError::InvalidResponse { problem, .. } = error else {
        panic!("{error}");
    };
    assert_eq!(problem, Problem::TooManyRounds { limit: 8 });
    assert_eq!(person.asked(), 8);
    server.wait_received("tasks/cancel", 1).await;

    let foreign = json!({"inputRequests": {"a": {"method": "sampling/createMessage"}}});
    let server = MemoryServer::new(working([state("input_required", foreign)]));
    let host = host_of(&server, &Person::default(), Deadlines::default()).await;
    let error = work(&host).await.unwrap_err().to_string();
    assert!(error.contains("does not support"), "{error}");
    server.wait_received("tasks/cancel", 1).await;
}

#[tokio::test(start_paused = true)]
async fn a_call_dropped_while_a_person_thinks_cancels_its_task() {
    let server = MemoryServer::new(working([asks(&["a"])]));
    let person = Person {
        thinks: seconds(3_600),
        ..Person::default()
    };
    let host = host_of(&server, &person, Deadlines::default()).await;
    assert!(
        tokio::time::timeout(seconds(60), work(&host))
            .await
            .is_err()
    );
    server.wait_received("tasks/cancel", 1).await;
    assert_eq!(counts(&server, ["tasks/update"]), [0]);
}

#[tokio::test(start_paused = true)]
async fn a_task_outlives_the_session_and_runs_once() {
    let first = working([state("working", json!({})), Step::Abort]);
    let second = working([
        Step::until(1, [state("working", json!({}))]),
        Step::after(2, [done("42")]),
    ]);
    let server = MemoryServer::in_sequence([first, second]);
    let host = host_of(&server, &Person::default(), Deadlines::default()).await;
    assert_eq!(work(&host).await.unwrap().to_text(), "42");
    assert_eq!(server.opened(), 2);
    assert_eq!(server.count("executed"), 1);
    assert_eq!(counts(&server, ["tools/call", "tasks/cancel"]), [1, 0]);
}

#[tokio::test(start_paused = true)]
async fn a_task_that_the_next_session_does_not_know_is_unknown() {
    let first = working([Step::Abort]);
    let second = working([Step::error(-32_602, "Task not found")]);
    let server = MemoryServer::in_sequence([first, second]);
    let host = host_of(&server, &Person::default(), Deadlines::default()).await;
    let error = work(&host).await.unwrap_err();
    assert_eq!(error.delivery(), Delivery::Unknown);
    assert!(!error.is_transient());
    assert!(error.to_string().contains("t-1"), "{error}");
    assert_eq!(server.count("executed"), 1);
}

#[tokio::test(start_paused = true)]
async fn only_calls_become_tasks_and_only_where_that_was_announced() {
    let (host, _) = started(
        Script::legacy()
            .tool("work")
            .on("tools/call work", [created(json!({}))]),
    )
    .await;
    let error = work(&host).await.unwrap_err();
    assert!(
        matches!(error, CallError::InvalidResponse { .. }),
        "{error}"
    );

    let mut script = Script::modern()
        .tool("work")
        .on("resources/read", [created(json!({}))]);
    script.capabilities["resources"] = json!({});
    let (host, server) = started(script).await;
    let error = host.read_resource_raw("s", "a://b").await.unwrap_err();
    assert!(error.to_string().contains("a task"), "{error}");
    assert_eq!(counts(&server, ["tasks/get"]), [0]);
}
