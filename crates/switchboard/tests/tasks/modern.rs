//! Tasks of the extension `io.modelcontextprotocol/tasks`.

use super::*;

use switchboard::call::{Delivery, InvalidMessage, TimeoutKind};

/// A task with this status and additional members.
fn task_json(status: &str, more: Value) -> Value {
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

pub(super) fn task_state(status: &str, more: Value) -> Step {
    Step::Reply(task_json(status, more))
}

pub(super) fn created(more: Value) -> Step {
    let mut task = task_json("working", more);
    task["resultType"] = json!("task");
    Step::Reply(task)
}

pub(super) fn done(text: &str) -> Step {
    task_state("completed", json!({"result": text_result(text)}))
}

/// A modern server that runs `work` as a task and answers `tasks/get` with these steps.
pub(super) fn server_with_task(poll_replies: impl IntoIterator<Item = Step>) -> Script {
    let mut script = Script::modern().tool("work").tool("echo");
    script.capabilities["extensions"] = json!({"io.modelcontextprotocol/tasks": {}});
    let empty = || [Step::Reply(json!({"resultType": "complete"}))];
    script
        .on(
            "tools/call work",
            [Step::count("executed"), created(json!({}))],
        )
        .on("tasks/get", poll_replies)
        .on("tasks/update", empty())
        .on("tasks/cancel", empty())
}

#[tokio::test(start_paused = true)]
async fn task_is_polled_at_its_interval() {
    let poll_replies = [
        Step::until(1, [task_state("working", json!({"statusMessage": "half"}))]),
        Step::until(2, [task_state("working", json!({"statusMessage": "half"}))]),
        Step::until(
            3,
            [task_state(
                "working",
                json!({"statusMessage": "almost", "pollIntervalMs": 8000}),
            )],
        ),
        Step::after(4, [done("42")]),
    ];
    let (host, server) = start_with_script(server_with_task(poll_replies)).await;
    let start_time = tokio::time::Instant::now();
    let (outcome, progress) = call_work_with_progress(&host).await;
    assert_eq!(outcome.unwrap().to_text(), "42");
    assert_eq!(progress, ["half", "almost"]);
    let duration = start_time.elapsed().as_secs_f64();
    assert!((14.0..15.5).contains(&duration), "{duration}");

    let methods = [
        "tools/call",
        "tasks/get",
        "tasks/cancel",
        "notifications/cancelled",
    ];
    assert_eq!(request_counts(&server, methods), [1, 4, 0, 0]);
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
async fn task_status_decides_call_outcome() {
    let error = json!({"code": -32_603, "message": "rate limit"});
    let failing = json!({"content": [{"type": "text", "text": "bad"}], "isError": true});
    let table = [
        (
            task_state("completed", json!({"result": failing})),
            "ok: bad",
        ),
        (
            task_state("failed", json!({"error": error})),
            "refused: rate limit",
        ),
        (
            task_state("failed", json!({"statusMessage": "no disk"})),
            "refused: no disk",
        ),
        (
            task_state("cancelled", json!({"statusMessage": "by an operator"})),
            "refused: the server cancelled the task: by an operator",
        ),
        (Step::error(-32_602, "Task has expired"), "unknown: t-1"),
        (
            task_state("completed", json!({})),
            "unusable: has no result",
        ),
        (
            task_state("paused", json!({})),
            "unusable: unknown status \"paused\"",
        ),
        (
            Step::Reply(json!({"resultType": "complete"})),
            "unusable: taskId",
        ),
    ];
    for (poll_reply, expected) in table {
        let (host, server) = start_with_script(server_with_task([poll_reply])).await;
        let actual = match call_work(&host).await {
            Ok(output) => format!("ok: {}", output.to_text()),
            Err(CallError::ErrorResponse { error, .. }) => format!("refused: {}", error.message),
            Err(error @ CallError::OutcomeUnknown { .. }) => format!("unknown: {error}"),
            Err(error @ CallError::InvalidResponse { .. }) => format!("unusable: {error}"),
            Err(error) => panic!("{expected}: {error}"),
        };
        let (kind, message) = expected.split_once(": ").unwrap();
        assert!(
            actual.starts_with(kind) && actual.contains(message),
            "{actual}"
        );
        settle().await;
        // Only a task that may still run is cancelled.
        let may_run = usize::from(expected.contains("status \"") || expected.contains("taskId"));
        assert_eq!(
            request_counts(&server, ["tools/call", "tasks/cancel"]),
            [1, may_run],
            "{expected}"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn dropped_call_cancels_its_task() {
    let (host, server) =
        start_with_script(server_with_task([task_state("working", json!({}))])).await;
    assert!(
        tokio::time::timeout(seconds(7), call_work(&host))
            .await
            .is_err()
    );
    let cancelled = server.wait_received("tasks/cancel", 1).await;
    assert_eq!(cancelled[0]["params"]["taskId"], "t-1");
    settle().await;
    let methods = ["tasks/cancel", "notifications/cancelled"];
    assert_eq!(request_counts(&server, methods), [1, 0]);
}

#[tokio::test(start_paused = true)]
async fn shutdown_cancels_tasks() {
    let (host, server) =
        start_with_script(server_with_task([task_state("working", json!({}))])).await;
    assert!(
        tokio::time::timeout(seconds(7), call_work(&host))
            .await
            .is_err()
    );
    host.shutdown().await;
    assert_eq!(request_counts(&server, ["tasks/cancel"]), [1]);
}

#[tokio::test(start_paused = true)]
async fn total_timeout_ends_a_running_task() {
    let (host, server) =
        start_with_script(server_with_task([task_state("working", json!({}))])).await;
    let start_time = tokio::time::Instant::now();
    let error = call_work(&host).await.unwrap_err();
    let CallError::TimedOut { kind, delivery, .. } = error else {
        panic!("{error}");
    };
    assert_eq!(kind, TimeoutKind::Total);
    assert_eq!(delivery, Delivery::Unknown);
    assert_eq!(start_time.elapsed(), Deadlines::default().call);
    server.wait_received("tasks/cancel", 1).await;
}

#[tokio::test(start_paused = true)]
async fn unanswered_poll_hits_idle_timeout() {
    let poll_replies = [
        Step::until(3, [task_state("working", json!({}))]),
        Step::Hang,
    ];
    let (host, server) = start_with_script(server_with_task(poll_replies)).await;
    let error = call_work(&host).await.unwrap_err();
    let CallError::TimedOut { kind, after, .. } = error else {
        panic!("{error}");
    };
    assert_eq!(kind, TimeoutKind::Idle);
    assert_eq!(after, Deadlines::default().idle);
    server.wait_received("tasks/cancel", 1).await;
}

fn task_asking(keys: &[&str]) -> Step {
    let question = json!({"method": "elicitation/create", "params": form()});
    let requests: Map<_, _> = keys
        .iter()
        .map(|key| ((*key).to_owned(), question.clone()))
        .collect();
    task_state("input_required", json!({"inputRequests": requests}))
}

#[tokio::test(start_paused = true)]
async fn repeated_input_request_is_answered_once() {
    // Several poll replies repeat the same question. Later replies add a second one.
    let poll_replies = [
        Step::until(3, [task_asking(&["a"])]),
        Step::until(5, [task_asking(&["a", "b"])]),
        Step::after(6, [done("hello")]),
    ];
    let server = MemoryServer::new(server_with_task(poll_replies));
    let user = SlowUser {
        delay: seconds(24 * 60 * 60),
        ..SlowUser::default()
    };
    let host = host_of(&server, &user, Deadlines::default()).await;
    // The user takes longer than the call timeout.
    assert_eq!(call_work(&host).await.unwrap().to_text(), "hello");
    assert_eq!(user.form_count(), 2);
    let answer = json!({"action": "accept", "content": {"name": "Ada"}});
    let responses: Vec<_> = server
        .received_with("tasks/update")
        .into_iter()
        .map(|update| update["params"]["inputResponses"].clone())
        .collect();
    assert_eq!(responses, [json!({"a": answer}), json!({"b": answer})]);
    assert_eq!(
        request_counts(&server, ["tools/call", "tasks/cancel"]),
        [1, 0]
    );
}

#[tokio::test(start_paused = true)]
async fn task_input_requests_are_limited() {
    let many = (1..=20).map(|count| {
        let key = format!("question {count}");
        Step::until(count, [task_asking(&[&key])])
    });
    let server = MemoryServer::new(server_with_task(many));
    let user = SlowUser::default();
    let host = host_of(&server, &user, Deadlines::default()).await;
    let error = call_work(&host).await.unwrap_err();
    let CallError::InvalidResponse { problem, .. } = error else {
        panic!("{error}");
    };
    assert_eq!(problem, InvalidMessage::TooManyInputRequests { limit: 8 });
    assert_eq!(user.form_count(), 8);
    server.wait_received("tasks/cancel", 1).await;

    let unsupported = json!({"inputRequests": {"a": {"method": "sampling/createMessage"}}});
    let server = MemoryServer::new(server_with_task([task_state(
        "input_required",
        unsupported,
    )]));
    let host = host_of(&server, &SlowUser::default(), Deadlines::default()).await;
    let error = call_work(&host).await.unwrap_err().to_string();
    assert!(error.contains("does not support"), "{error}");
    server.wait_received("tasks/cancel", 1).await;
}

#[tokio::test(start_paused = true)]
async fn call_dropped_during_elicitation_cancels_task() {
    let server = MemoryServer::new(server_with_task([task_asking(&["a"])]));
    let user = SlowUser {
        delay: seconds(3_600),
        ..SlowUser::default()
    };
    let host = host_of(&server, &user, Deadlines::default()).await;
    assert!(
        tokio::time::timeout(seconds(60), call_work(&host))
            .await
            .is_err()
    );
    server.wait_received("tasks/cancel", 1).await;
    assert_eq!(request_counts(&server, ["tasks/update"]), [0]);
}

#[tokio::test(start_paused = true)]
async fn task_survives_reconnect_and_runs_once() {
    let first = server_with_task([task_state("working", json!({})), Step::Abort]);
    let second = server_with_task([
        Step::until(1, [task_state("working", json!({}))]),
        Step::after(2, [done("42")]),
    ]);
    let server = MemoryServer::in_sequence([first, second]);
    let host = host_of(&server, &SlowUser::default(), Deadlines::default()).await;
    assert_eq!(call_work(&host).await.unwrap().to_text(), "42");
    assert_eq!(server.opened(), 2);
    assert_eq!(server.count("executed"), 1);
    assert_eq!(
        request_counts(&server, ["tools/call", "tasks/cancel"]),
        [1, 0]
    );
}

#[tokio::test(start_paused = true)]
async fn task_lost_on_reconnect_is_outcome_unknown() {
    let first = server_with_task([Step::Abort]);
    let second = server_with_task([Step::error(-32_602, "Task not found")]);
    let server = MemoryServer::in_sequence([first, second]);
    let host = host_of(&server, &SlowUser::default(), Deadlines::default()).await;
    let error = call_work(&host).await.unwrap_err();
    assert_eq!(error.delivery(), Delivery::Unknown);
    assert!(!error.is_transient());
    assert!(error.to_string().contains("t-1"), "{error}");
    assert_eq!(server.count("executed"), 1);
}

#[tokio::test(start_paused = true)]
async fn unannounced_task_is_invalid() {
    let (host, _) = start_with_script(
        Script::legacy()
            .tool("work")
            .on("tools/call work", [created(json!({}))]),
    )
    .await;
    let error = call_work(&host).await.unwrap_err();
    assert!(
        matches!(error, CallError::InvalidResponse { .. }),
        "{error}"
    );

    let mut script = Script::modern()
        .tool("work")
        .on("resources/read", [created(json!({}))]);
    script.capabilities["resources"] = json!({});
    let (host, server) = start_with_script(script).await;
    let error = host.read_resource_raw("s", "a://b").await.unwrap_err();
    assert!(error.to_string().contains("a task"), "{error}");
    assert_eq!(request_counts(&server, ["tasks/get"]), [0]);
}
