//! The tasks of 2025-11-25.

use super::*;

use switchboard::call::Delivery;
use switchboard::mcp::TaskSupport;

fn standing(status: &str, message: &str) -> Value {
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

fn state(status: &str) -> Step {
    Step::Reply(standing(status, status))
}

/// The same, to be asked again soon.
pub(super) fn soon(status: &str) -> Step {
    let mut task = standing(status, status);
    task["pollInterval"] = json!(50);
    Step::Reply(task)
}

/// A server of 2025-11-25 whose one tool says this of tasks.
fn serving(support: &str) -> Script {
    let mut tool = switchboard_testkit::tool("work");
    tool["execution"] = json!({"taskSupport": support});
    let mut script = Script::legacy().raw_tool(tool);
    script.capabilities["tasks"] =
        json!({"list": {}, "cancel": {}, "requests": {"tools": {"call": {}}}});
    script
}

pub(super) fn working(looks: impl IntoIterator<Item = Step>) -> Script {
    let created = Step::Reply(json!({"task": standing("working", "begun")}));
    serving("required")
        .on("tools/call work", [Step::count("executed"), created])
        .on("tasks/get", looks)
        .on("tasks/result", [Step::Reply(text_result("42"))])
        .on("tasks/cancel", [Step::Reply(standing("cancelled", ""))])
}

#[tokio::test(start_paused = true)]
async fn a_tool_that_has_to_be_a_task_is_called_as_one() {
    let looks = [
        Step::until(2, [state("working")]),
        Step::after(3, [state("completed")]),
    ];
    let (host, server) = started(working(looks)).await;
    assert_eq!(
        host.tools()[0].definition.task_support,
        TaskSupport::Required
    );
    let (outcome, told) = told_work(&host).await;
    assert_eq!(outcome.unwrap().to_text(), "42");
    assert_eq!(told, ["begun", "working"]);
    let calls = server.received_with("tools/call");
    assert_eq!(calls[0]["params"]["task"], json!({"ttl": 3_600_000}));
    let methods = ["tools/call", "tasks/get", "tasks/result", "tasks/cancel"];
    assert_eq!(counts(&server, methods), [1, 3, 1, 0]);
    assert_eq!(
        server.received_with("tasks/result")[0]["params"]["taskId"],
        "t-1"
    );
}

#[tokio::test(start_paused = true)]
async fn a_tool_that_need_not_be_a_task_is_called_plainly() {
    let mut unable = serving("required");
    unable.capabilities["tasks"] = json!({"requests": {}});
    for script in [
        serving("optional"),
        serving("forbidden"),
        serving("?"),
        unable,
    ] {
        let script = script.on("tools/call work", [Step::text("plain")]);
        let (host, server) = started(script).await;
        assert_eq!(work(&host).await.unwrap().to_text(), "plain");
        let calls = server.received_with("tools/call");
        assert!(calls[0]["params"].get("task").is_none());
    }
}

#[tokio::test(start_paused = true)]
async fn a_server_that_answers_at_once_is_believed() {
    let script = serving("required").on("tools/call work", [Step::text("at once")]);
    let (host, server) = started(script).await;
    assert_eq!(work(&host).await.unwrap().to_text(), "at once");
    assert_eq!(counts(&server, ["tasks/get", "tasks/cancel"]), [0, 0]);
}

#[tokio::test(start_paused = true)]
async fn input_is_asked_for_while_the_result_is() {
    let looks = [
        Step::until(4, [state("input_required")]),
        Step::after(5, [state("working")]),
    ];
    let ask = Step::request("elicitation/create", form());
    let script = working(looks).on(
        "tasks/result",
        [ask, Step::delay(seconds(1_200)), Step::ReplyWithResponse],
    );
    let server = MemoryServer::new(script);
    let person = Person {
        thinks: seconds(2 * 60 * 60),
        ..Person::default()
    };
    let host = host_of(&server, &person, Deadlines::default()).await;
    // Neither the time of the person counts, nor the silence on the way to the result.
    let output = work(&host).await.unwrap();
    assert!(output.to_text().contains("Ada"), "{output:?}");
    assert_eq!(person.asked(), 1);
    assert_eq!(
        counts(&server, ["tools/call", "tasks/result", "tasks/cancel"]),
        [1, 1, 0]
    );
}

#[tokio::test(start_paused = true)]
async fn a_failed_task_fails_in_the_words_of_its_result() {
    let error = Step::error(-32_603, "it broke");
    let script = working([state("failed")]).on("tasks/result", [error]);
    let (host, server) = started(script).await;
    let error = work(&host).await.unwrap_err();
    let CallError::ErrorResponse { error, .. } = error else {
        panic!("{error}");
    };
    assert_eq!(error.message, "it broke");
    assert_eq!(counts(&server, ["tasks/result", "tasks/cancel"]), [1, 0]);

    let failing = json!({"content": [{"type": "text", "text": "bad"}], "isError": true});
    let script = working([state("failed")]).on("tasks/result", [Step::Reply(failing)]);
    let (host, _) = started(script).await;
    assert!(work(&host).await.unwrap().is_error);
}

#[tokio::test(start_paused = true)]
async fn a_task_that_nobody_waits_for_is_cancelled_where_that_can_be() {
    for (capability, cancels) in [(json!({}), 1), (json!(null), 0)] {
        let mut script = working([state("working")]);
        script.capabilities["tasks"]["cancel"] = capability;
        let (host, server) = started(script).await;
        assert!(tokio::time::timeout(seconds(7), work(&host)).await.is_err());
        settle().await;
        let methods = ["tasks/cancel", "notifications/cancelled"];
        assert_eq!(counts(&server, methods), [cancels, 0]);
    }
}

#[tokio::test(start_paused = true)]
async fn the_next_session_is_asked_for_the_result() {
    let first = working([state("completed")]).on("tasks/result", [Step::Abort]);
    let server = MemoryServer::in_sequence([first, working([state("completed")])]);
    let host = host_of(&server, &Person::default(), Deadlines::default()).await;
    assert_eq!(work(&host).await.unwrap().to_text(), "42");
    assert_eq!(server.count("executed"), 1);

    let first = working([state("working"), Step::Abort]);
    let second = working([Step::error(-32_602, "Task not found")]);
    let server = MemoryServer::in_sequence([first, second]);
    let host = host_of(&server, &Person::default(), Deadlines::default()).await;
    let error = work(&host).await.unwrap_err();
    assert_eq!(error.delivery(), Delivery::Unknown);
    assert!(error.to_string().contains("t-1"), "{error}");
    assert_eq!(server.count("executed"), 1);
}
