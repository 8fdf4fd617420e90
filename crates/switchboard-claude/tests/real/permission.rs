//! Who may use what: the CLI's own rules, ours, and those who are asked.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use serde_json::json;
use switchboard::interaction::BoxFuture;
use switchboard::permission::{Action, PermissionRequest, PermissionResponse, Rule};
use switchboard::{InProcessServer, Interaction};
use switchboard_claude::{Options, PermissionResult, ResultMessage};
use switchboard_testkit::fake_model::{ToolOutcome, Turn};

use crate::scene::{Pair, Scene, add, ask, calculator, result_of};

const ADD: &str = "mcp__my_calc__add";

/// What came of the wish to add 15 and 27.
struct Outcome {
    heard: ToolOutcome,
    result: ResultMessage,
    /// How often the function was called.
    calls: usize,
}

/// Lets the model add, with a server whose name has a space in it.
async fn try_to_add(configure: impl Fn(Options) -> Options) -> Option<Outcome> {
    let turns = [
        Turn::tool(ADD, json!({"a": 15, "b": 27})),
        Turn::text("So."),
    ];
    let scene = Scene::saying(turns).await?;
    let calls = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&calls);
    let add = move |pair: Pair| {
        counted.fetch_add(1, Ordering::Relaxed);
        add(pair)
    };
    let server = InProcessServer::new("calculator", "1.0").tool("add", "Adds", add);
    let options = configure(scene.options().sdk_server("my calc", server));
    let messages = ask("What is 15 + 27?", options).await;
    let outcome = Outcome {
        heard: scene.model.last_request().last_tool_result(),
        result: result_of(&messages).clone(),
        calls: calls.load(Ordering::Relaxed),
    };
    scene.close().await;
    Some(outcome)
}

fn rule(action: Action, pattern: &str) -> [Rule; 1] {
    [Rule::new(action, pattern).unwrap()]
}

fn assert_added(outcome: &Outcome) {
    let Outcome { heard, calls, .. } = outcome;
    assert_eq!((heard.text().as_str(), heard.is_error), ("42", false));
    assert_eq!(*calls, 1);
}

fn assert_denied(outcome: &Outcome) {
    let Outcome {
        heard,
        result,
        calls,
    } = outcome;
    assert!(heard.is_error, "{heard:?}");
    assert_eq!(*calls, 0, "what was denied was called");
    let denied = result.permission_denials.iter();
    let denied: Vec<_> = denied.map(|denial| denial.tool_name.as_str()).collect();
    assert_eq!(denied, [ADD]);
}

#[tokio::test]
async fn one_tool_a_server_or_all_servers_are_allowed() {
    for allowed in [ADD, "mcp__my_calc", "mcp__*"] {
        let outcome = try_to_add(|options| options.allowed_tools([allowed])).await;
        outcome.iter().for_each(assert_added);
    }
}

#[tokio::test]
async fn without_anybody_to_ask_nothing_is_allowed() {
    let outcome = try_to_add(|options| options).await;
    outcome.iter().for_each(assert_denied);
}

#[tokio::test]
async fn a_rule_allows_by_the_name_that_the_server_was_given() {
    let rules = || rule(Action::Allow, "mcp__my calc__add");
    let outcome = try_to_add(|options| options.rules(rules())).await;
    outcome.iter().for_each(assert_added);
}

#[tokio::test]
async fn a_rule_denies_whatever_else_would_allow() {
    let rules = || rule(Action::Deny, "mcp__my calc__add");
    let allow = |_| async { PermissionResult::allow() };
    let configure = |options: Options| options.rules(rules()).can_use_tool(allow);
    let outcome = try_to_add(configure).await;
    outcome.iter().for_each(assert_denied);
}

#[tokio::test]
async fn a_callback_allows_with_other_arguments() {
    let outcome = try_to_add(|options| {
        options.can_use_tool(|asked| async move {
            assert_eq!(asked.server.as_deref(), Some("my calc"));
            let mut input = asked.input;
            input.insert("a".to_owned(), 20.into());
            PermissionResult::allow_with(input)
        })
    })
    .await;
    if let Some(outcome) = outcome {
        assert_eq!((outcome.heard.text().as_str(), outcome.calls), ("47", 1));
    }
}

#[tokio::test]
async fn a_callback_denies_in_its_own_words() {
    let deny = |_| async { PermissionResult::deny("no thanks") };
    let outcome = try_to_add(|options| options.can_use_tool(deny)).await;
    if let Some(outcome) = outcome {
        assert_denied(&outcome);
        assert_eq!(outcome.heard.text(), "no thanks");
    }
}

struct Agreeable;

impl Interaction for Agreeable {
    fn can_use_tool<'a>(&'a self, _: PermissionRequest) -> BoxFuture<'a, PermissionResponse> {
        Box::pin(std::future::ready(PermissionResponse::Allow))
    }
}

#[tokio::test]
async fn a_person_is_asked_where_no_rule_decides() {
    let outcome = try_to_add(|options| options.interaction(Agreeable)).await;
    outcome.iter().for_each(assert_added);
}

#[tokio::test]
async fn built_in_tools_go_by_their_own_names() {
    let turns = [
        Turn::tool(
            "Bash",
            json!({"command": "touch made", "description": "make"}),
        ),
        Turn::text("So."),
    ];
    let Some(scene) = Scene::saying(turns).await else {
        return;
    };
    let options = scene.options().rules(rule(Action::Deny, "Bash"));
    let messages = ask("Make it", options).await;
    assert_eq!(result_of(&messages).permission_denials[0].tool_name, "Bash");
    assert!(scene.model.last_request().last_tool_result().is_error);
    scene.close().await;
}

#[tokio::test]
async fn a_tool_that_is_disallowed_is_not_offered() {
    let Some(scene) = Scene::saying([Turn::text("So.")]).await else {
        return;
    };
    let options = scene
        .with_calculator()
        .disallowed_tools(["mcp__calculator__divide", "Bash"]);
    ask("What is there?", options).await;
    let request = scene.model.last_request();
    assert!(request.tool("mcp__calculator__add").is_some());
    assert!(request.tool("mcp__calculator__divide").is_none());
    assert!(request.tool("Bash").is_none());
    scene.close().await;
}

#[tokio::test]
async fn a_server_that_is_denied_has_no_resources_either() {
    for (denied, expected) in [("mcp__my calc", true), ("mcp__other", false)] {
        let read = json!({"server": "my calc", "uri": "memo://1"});
        let turns = [Turn::tool("ReadMcpResourceTool", read), Turn::text("So.")];
        let Some(scene) = Scene::saying(turns).await else {
            return;
        };
        let reads = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&reads);
        let read = move || {
            counted.fetch_add(1, Ordering::Relaxed);
            async { Ok("the memo") }
        };
        let server = InProcessServer::new("memos", "1.0").resource("memo://1", "memo", read);
        let options = scene
            .options()
            .sdk_server("my calc", server)
            .rules(rule(Action::Deny, denied));
        ask("What does it say?", options).await;
        let heard = scene.model.last_request().last_tool_result();
        assert_eq!(heard.is_error, expected, "{heard:?}");
        assert_eq!(heard.text().contains("the memo"), !expected, "{heard:?}");
        assert_eq!(reads.load(Ordering::Relaxed) == 0, expected);
        scene.close().await;
    }
}

#[tokio::test]
async fn a_whole_server_or_all_of_them_are_disallowed() {
    for disallowed in ["mcp__calculator", "mcp__*"] {
        let Some(scene) = Scene::saying([Turn::text("So.")]).await else {
            return;
        };
        let options = scene.options().sdk_server("calculator", calculator());
        ask("What is there?", options.disallowed_tools([disallowed])).await;
        let request = scene.model.last_request();
        assert!(request.tool("mcp__calculator__add").is_none());
        assert!(request.tool("mcp__calculator__divide").is_none());
        scene.close().await;
    }
}
