//! Tasks of protocol version 2025-11-25.

use super::*;

use switchboard::call::Delivery;
use switchboard::mcp::TaskSupport;

fn task_json(status: &str, message: &str) -> Value {
    json!({
        "taskId": "t-1",
        "status": status,
        "statusMessage": message,
        "createdAt": "2025-11-25T10:00:00Z",
        "lastUpdatedAt": "2025-11-25T10:00:00Z",
        "ttl": 600_000,
        "pollInterval": 2_000,
    })
}

fn task_state(status: &str) -> Step {
    Step::Reply(task_json(status, status))
}

/// A reply with a task that has this status and a poll interval of 50 ms.
pub(super) fn task_state_soon(status: &str) -> Step {
    let mut task = task_json(status, status);
    task["pollInterval"] = json!(50);
    Step::Reply(task)
}

/// A server of 2025-11-25 whose only tool declares this `taskSupport`.
fn server_with_task_support(support: &str) -> Script {
    let mut tool = switchboard_testkit::tool("work");
    tool["execution"] = json!({"taskSupport": support});
    let mut script = Script::legacy().raw_tool(tool);
    script.capabilities["tasks"] =
        json!({"list": {}, "cancel": {}, "requests": {"tools": {"call": {}}}});
    script
}

pub(super) fn server_with_task(poll_replies: impl IntoIterator<Item = Step>) -> Script {
    let created = Step::Reply(json!({"task": task_json("working", "started")}));
    server_with_task_support("required")
        .on("tools/call work", [Step::count("executed"), created])
        .on("tasks/get", poll_replies)
        .on("tasks/result", [Step::Reply(text_result("42"))])
        .on("tasks/cancel", [Step::Reply(task_json("cancelled", ""))])
}

#[tokio::test(start_paused = true)]
async fn required_task_support_sends_task_call() {
    let poll_replies = [
        Step::until(2, [task_state("working")]),
        Step::after(3, [task_state("completed")]),
    ];
    let (host, server) = start_with_script(server_with_task(poll_replies)).await;
    assert_eq!(
        host.tools()[0].definition.task_support,
        TaskSupport::Required
    );
    let (outcome, progress) = call_work_with_progress(&host).await;
    assert_eq!(outcome.unwrap().to_text(), "42");
    assert_eq!(progress, ["started", "working"]);
    let calls = server.received_with("tools/call");
    assert_eq!(calls[0]["params"]["task"], json!({"ttl": 3_600_000}));
    let methods = ["tools/call", "tasks/get", "tasks/result", "tasks/cancel"];
    assert_eq!(request_counts(&server, methods), [1, 3, 1, 0]);
    assert_eq!(
        server.received_with("tasks/result")[0]["params"]["taskId"],
        "t-1"
    );
}

#[tokio::test(start_paused = true)]
async fn other_task_support_sends_plain_call() {
    let mut without_capability = server_with_task_support("required");
    without_capability.capabilities["tasks"] = json!({"requests": {}});
    for script in [
        server_with_task_support("optional"),
        server_with_task_support("forbidden"),
        server_with_task_support("?"),
        without_capability,
    ] {
        let script = script.on("tools/call work", [Step::text("plain")]);
        let (host, server) = start_with_script(script).await;
        assert_eq!(call_work(&host).await.unwrap().to_text(), "plain");
        let calls = server.received_with("tools/call");
        assert!(calls[0]["params"].get("task").is_none());
    }
}

#[tokio::test(start_paused = true)]
async fn immediate_result_skips_polling() {
    let script =
        server_with_task_support("required").on("tools/call work", [Step::text("at once")]);
    let (host, server) = start_with_script(script).await;
    assert_eq!(call_work(&host).await.unwrap().to_text(), "at once");
    assert_eq!(
        request_counts(&server, ["tasks/get", "tasks/cancel"]),
        [0, 0]
    );
}

#[tokio::test(start_paused = true)]
async fn elicitation_during_result_request_is_answered() {
    let poll_replies = [
        Step::until(4, [task_state("input_required")]),
        Step::after(5, [task_state("working")]),
    ];
    let ask = Step::request("elicitation/create", form());
    let script = server_with_task(poll_replies).on(
        "tasks/result",
        [ask, Step::delay(seconds(1_200)), Step::ReplyWithResponse],
    );
    let server = MemoryServer::new(script);
    let user = SlowUser {
        delay: seconds(2 * 60 * 60),
        ..SlowUser::default()
    };
    let host = host_of(&server, &user, Deadlines::default()).await;
    // Neither the delay of the user nor the silence of the server during `tasks/result` times out.
    let output = call_work(&host).await.unwrap();
    assert!(output.to_text().contains("Ada"), "{output:?}");
    assert_eq!(user.form_count(), 1);
    assert_eq!(
        request_counts(&server, ["tools/call", "tasks/result", "tasks/cancel"]),
        [1, 1, 0]
    );
}

#[tokio::test(start_paused = true)]
async fn failed_task_returns_its_error() {
    let error = Step::error(-32_603, "it broke");
    let script = server_with_task([task_state("failed")]).on("tasks/result", [error]);
    let (host, server) = start_with_script(script).await;
    let error = call_work(&host).await.unwrap_err();
    let CallError::ErrorResponse { error, .. } = error else {
        panic!("{error}");
    };
    assert_eq!(error.message, "it broke");
    assert_eq!(
        request_counts(&server, ["tasks/result", "tasks/cancel"]),
        [1, 0]
    );

    let failing = json!({"content": [{"type": "text", "text": "bad"}], "isError": true});
    let script =
        server_with_task([task_state("failed")]).on("tasks/result", [Step::Reply(failing)]);
    let (host, _) = start_with_script(script).await;
    assert!(call_work(&host).await.unwrap().is_error);
}

#[tokio::test(start_paused = true)]
async fn dropped_call_cancels_task_if_supported() {
    for (capability, cancels) in [(json!({}), 1), (json!(null), 0)] {
        let mut script = server_with_task([task_state("working")]);
        script.capabilities["tasks"]["cancel"] = capability;
        let (host, server) = start_with_script(script).await;
        assert!(
            tokio::time::timeout(seconds(7), call_work(&host))
                .await
                .is_err()
        );
        settle().await;
        let methods = ["tasks/cancel", "notifications/cancelled"];
        assert_eq!(request_counts(&server, methods), [cancels, 0]);
    }
}

#[tokio::test(start_paused = true)]
async fn task_result_survives_reconnect() {
    let first = server_with_task([task_state("completed")]).on("tasks/result", [Step::Abort]);
    let server = MemoryServer::in_sequence([first, server_with_task([task_state("completed")])]);
    let host = host_of(&server, &SlowUser::default(), Deadlines::default()).await;
    assert_eq!(call_work(&host).await.unwrap().to_text(), "42");
    assert_eq!(server.count("executed"), 1);

    let first = server_with_task([task_state("working"), Step::Abort]);
    let second = server_with_task([Step::error(-32_602, "Task not found")]);
    let server = MemoryServer::in_sequence([first, second]);
    let host = host_of(&server, &SlowUser::default(), Deadlines::default()).await;
    let error = call_work(&host).await.unwrap_err();
    assert_eq!(error.delivery(), Delivery::Unknown);
    assert!(error.to_string().contains("t-1"), "{error}");
    assert_eq!(server.count("executed"), 1);
}
