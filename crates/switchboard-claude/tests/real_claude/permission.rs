//! Permission by the tool lists and rules of the options, by callbacks and by interactions.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use serde_json::json;
use switchboard::interaction::BoxFuture;
use switchboard::permission::{Action, PermissionRequest, PermissionResponse, Rule};
use switchboard::{InProcessServer, Interaction};
use switchboard_claude::{Options, PermissionResult, ResultMessage};
use switchboard_testkit::fake_model::{ToolOutcome, Turn};

use crate::harness::{Harness, Pair, add, calculator, result_of, run_query};

const ADD: &str = "mcp__my_calc__add";

/// What happened when the model tried to add 15 and 27.
struct Outcome {
    tool_result: ToolOutcome,
    result: ResultMessage,
    /// How often the tool has run.
    calls: usize,
}

/// Lets the model call the tool `add` of the server `my calc`, whose name contains a space. Returns
/// `None` if the CLI is not installed.
async fn try_to_add(configure: impl Fn(Options) -> Options) -> Option<Outcome> {
    let turns = [
        Turn::tool(ADD, json!({"a": 15, "b": 27})),
        Turn::text("So."),
    ];
    let harness = Harness::with_turns(turns).await?;
    let calls = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&calls);
    let add = move |pair: Pair| {
        counted.fetch_add(1, Ordering::Relaxed);
        add(pair)
    };
    let server = InProcessServer::new("calculator", "1.0").tool("add", "Adds", add);
    let options = configure(harness.options().sdk_server("my calc", server));
    let messages = run_query("What is 15 + 27?", options).await;
    let outcome = Outcome {
        tool_result: harness.model.last_request().last_tool_result(),
        result: result_of(&messages).clone(),
        calls: calls.load(Ordering::Relaxed),
    };
    harness.close().await;
    Some(outcome)
}

fn rule(action: Action, pattern: &str) -> [Rule; 1] {
    [Rule::new(action, pattern).unwrap()]
}

fn assert_added(outcome: &Outcome) {
    let Outcome {
        tool_result, calls, ..
    } = outcome;
    assert_eq!(
        (tool_result.text().as_str(), tool_result.is_error),
        ("42", false)
    );
    assert_eq!(*calls, 1);
}

fn assert_denied(outcome: &Outcome) {
    let Outcome {
        tool_result,
        result,
        calls,
    } = outcome;
    assert!(tool_result.is_error, "{tool_result:?}");
    assert_eq!(*calls, 0, "a denied tool ran");
    let denied = result.permission_denials.iter();
    let denied: Vec<_> = denied.map(|denial| denial.tool_name.as_str()).collect();
    assert_eq!(denied, [ADD]);
}

#[tokio::test]
async fn tool_server_or_all_servers_are_allowed() {
    for allowed in [ADD, "mcp__my_calc", "mcp__*"] {
        let outcome = try_to_add(|options| options.allowed_tools([allowed])).await;
        outcome.iter().for_each(assert_added);
    }
}

#[tokio::test]
async fn without_handler_tools_are_denied() {
    let outcome = try_to_add(|options| options).await;
    outcome.iter().for_each(assert_denied);
}

#[tokio::test]
async fn rule_matches_the_configured_server_name() {
    let rules = || rule(Action::Allow, "mcp__my calc__add");
    let outcome = try_to_add(|options| options.rules(rules())).await;
    outcome.iter().for_each(assert_added);
}

#[tokio::test]
async fn deny_rule_overrides_callback() {
    let rules = || rule(Action::Deny, "mcp__my calc__add");
    let allow = |_| async { PermissionResult::allow() };
    let configure = |options: Options| options.rules(rules()).can_use_tool(allow);
    let outcome = try_to_add(configure).await;
    outcome.iter().for_each(assert_denied);
}

#[tokio::test]
async fn callback_replaces_arguments() {
    let outcome = try_to_add(|options| {
        options.can_use_tool(|request| async move {
            assert_eq!(request.server.as_deref(), Some("my calc"));
            let mut input = request.input;
            input.insert("a".to_owned(), 20.into());
            PermissionResult::allow_with(input)
        })
    })
    .await;
    if let Some(outcome) = outcome {
        assert_eq!(
            (outcome.tool_result.text().as_str(), outcome.calls),
            ("47", 1)
        );
    }
}

#[tokio::test]
async fn callback_message_reaches_the_model() {
    let deny = |_| async { PermissionResult::deny("no thanks") };
    let outcome = try_to_add(|options| options.can_use_tool(deny)).await;
    if let Some(outcome) = outcome {
        assert_denied(&outcome);
        assert_eq!(outcome.tool_result.text(), "no thanks");
    }
}

struct AllowAll;

impl Interaction for AllowAll {
    fn can_use_tool(&self, _: PermissionRequest) -> BoxFuture<'_, PermissionResponse> {
        Box::pin(std::future::ready(PermissionResponse::Allow))
    }
}

#[tokio::test]
async fn undecided_tool_goes_to_interaction() {
    let outcome = try_to_add(|options| options.interaction(AllowAll)).await;
    outcome.iter().for_each(assert_added);
}

#[tokio::test]
async fn rules_match_built_in_tools() {
    let turns = [
        Turn::tool(
            "Bash",
            json!({"command": "touch made", "description": "make"}),
        ),
        Turn::text("So."),
    ];
    let Some(harness) = Harness::with_turns(turns).await else {
        return;
    };
    let options = harness.options().rules(rule(Action::Deny, "Bash"));
    let messages = run_query("Make it", options).await;
    assert_eq!(result_of(&messages).permission_denials[0].tool_name, "Bash");
    assert!(harness.model.last_request().last_tool_result().is_error);
    harness.close().await;
}

#[tokio::test]
async fn disallowed_tool_is_not_offered() {
    let Some(harness) = Harness::with_turns([Turn::text("So.")]).await else {
        return;
    };
    let options = harness
        .with_calculator()
        .disallowed_tools(["mcp__calculator__divide", "Bash"]);
    run_query("What is there?", options).await;
    let request = harness.model.last_request();
    assert!(request.tool("mcp__calculator__add").is_some());
    assert!(request.tool("mcp__calculator__divide").is_none());
    assert!(request.tool("Bash").is_none());
    harness.close().await;
}

#[tokio::test]
async fn denied_server_denies_its_resources() {
    for (denied, expected) in [("mcp__my calc", true), ("mcp__other", false)] {
        let read = json!({"server": "my calc", "uri": "memo://1"});
        let turns = [Turn::tool("ReadMcpResourceTool", read), Turn::text("So.")];
        let Some(harness) = Harness::with_turns(turns).await else {
            return;
        };
        let reads = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&reads);
        let read = move || {
            counted.fetch_add(1, Ordering::Relaxed);
            async { Ok("the memo") }
        };
        let server = InProcessServer::new("memos", "1.0").resource("memo://1", "memo", read);
        let options = harness
            .options()
            .sdk_server("my calc", server)
            .rules(rule(Action::Deny, denied));
        run_query("What does it say?", options).await;
        let tool_result = harness.model.last_request().last_tool_result();
        assert_eq!(tool_result.is_error, expected, "{tool_result:?}");
        assert_eq!(
            tool_result.text().contains("the memo"),
            !expected,
            "{tool_result:?}"
        );
        assert_eq!(reads.load(Ordering::Relaxed) == 0, expected);
        harness.close().await;
    }
}

#[tokio::test]
async fn server_or_all_servers_are_disallowed() {
    for disallowed in ["mcp__calculator", "mcp__*"] {
        let Some(harness) = Harness::with_turns([Turn::text("So.")]).await else {
            return;
        };
        let options = harness.options().sdk_server("calculator", calculator());
        run_query("What is there?", options.disallowed_tools([disallowed])).await;
        let request = harness.model.last_request();
        assert!(request.tool("mcp__calculator__add").is_none());
        assert!(request.tool("mcp__calculator__divide").is_none());
        harness.close().await;
    }
}
