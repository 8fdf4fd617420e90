use std::sync::Mutex;

use serde_json::json;

use super::*;

/// Answers every permission request in the same way and records the requests.
struct FixedAnswer {
    answer: PermissionResponse,
    questions: Questions,
}

impl Interaction for FixedAnswer {
    fn can_use_tool(&self, question: PermissionRequest) -> BoxFuture<'_, PermissionResponse> {
        let text = format!(
            "{} as {} with {}: {}",
            question.tool,
            question.wire_name,
            Value::Object(question.arguments.clone()),
            question.decision
        );
        self.questions.lock().unwrap().push(text);
        Box::pin(std::future::ready(self.answer))
    }
}

/// The permission requests that were recorded.
type Questions = Arc<Mutex<Vec<String>>>;

fn interaction(answer: PermissionResponse) -> (Option<Arc<dyn Interaction>>, Questions) {
    let questions = Questions::default();
    let interaction = FixedAnswer {
        answer,
        questions: Arc::clone(&questions),
    };
    (Some(Arc::new(interaction)), questions)
}

fn callback<A>(
    answer: impl Fn(ToolPermissionRequest) -> A + Send + Sync + 'static,
) -> PermissionCallback
where
    A: Future<Output = PermissionResult> + Send + 'static,
{
    Arc::new(move |request| Box::pin(answer(request)))
}

fn rules(rules: &[(Action, &str)]) -> Vec<Rule> {
    let rules = rules.iter();
    rules
        .map(|(action, tool)| Rule::new(*action, tool).unwrap())
        .collect()
}

fn add_request() -> Value {
    json!({
        "subtype": "can_use_tool", "tool_name": "mcp__calc__add",
        "mcp_server": {"name": "calc", "source": "sdk"}, "display_name": "Add",
        "input": {"a": 15, "b": 27},
        "permission_suggestions": [{"type": "addRules"}], "tool_use_id": "toolu_01",
    })
}

fn bash_request() -> Value {
    json!({"tool_name": "Bash", "input": {"command": "ls"}})
}

async fn respond(permissions: &Permissions, request: Value) -> Value {
    permissions.can_use_tool(request).await.unwrap()
}

fn with_rules(given: &[(Action, &str)]) -> Permissions {
    Permissions::new(rules(given), None, None, Vec::new())
}

#[tokio::test]
async fn rules_decide_without_asking() {
    let permissions = with_rules(&[
        (Action::Allow, "mcp__calc__add"),
        (Action::Allow, "Bash"),
        (Action::Deny, "mcp__calc__divide"),
        (Action::Deny, "Write"),
    ]);
    let allowed = json!({"behavior": "allow", "updatedInput": {"a": 15, "b": 27}});
    assert_eq!(respond(&permissions, add_request()).await, allowed);
    let allowed = json!({"behavior": "allow", "updatedInput": {"command": "ls"}});
    assert_eq!(respond(&permissions, bash_request()).await, allowed);
    for tool in ["mcp__calc__divide", "Write"] {
        let denied = respond(&permissions, json!({"tool_name": tool, "input": {}})).await;
        let message = format!("{tool} was not executed: denied by rule `{tool}` (program)");
        assert_eq!(denied, json!({"behavior": "deny", "message": message}));
    }
}

#[tokio::test]
async fn server_rules_ignore_built_in_tools() {
    let permissions = with_rules(&[(Action::Allow, "mcp__*"), (Action::Allow, "add")]);
    assert_eq!(
        respond(&permissions, bash_request()).await["behavior"],
        "deny"
    );
    let permissions = with_rules(&[(Action::Allow, "add")]);
    assert_eq!(
        respond(&permissions, add_request()).await["behavior"],
        "deny"
    );
}

#[tokio::test]
async fn rules_use_the_configured_server_name() {
    let with_server = json!({"tool_name": "mcp__my_calc_v1__add", "mcp_server": {"name": "my calc.v1"}, "input": {}});
    let permissions = with_rules(&[(Action::Allow, "mcp__my calc.v1__add")]);
    assert_eq!(
        respond(&permissions, with_server).await["behavior"],
        "allow"
    );

    let without_server = json!({"tool_name": "mcp__my_calc_v1__add", "input": {}});
    assert_eq!(
        respond(&permissions, without_server.clone()).await["behavior"],
        "deny"
    );
    let configured = vec!["my".to_owned(), "my calc.v1".to_owned()];
    let rule = rules(&[(Action::Allow, "mcp__my calc.v1__add")]);
    let permissions = Permissions::new(rule, None, None, configured);
    assert_eq!(
        respond(&permissions, without_server).await["behavior"],
        "allow"
    );
}

#[tokio::test]
async fn undecided_tool_goes_to_interaction() {
    for (answer, behavior) in [
        (PermissionResponse::Allow, "allow"),
        (PermissionResponse::Deny, "deny"),
        (PermissionResponse::NoInteraction, "deny"),
    ] {
        let (handler, questions) = interaction(answer);
        let permissions = Permissions::new([], None, handler, Vec::new());
        assert_eq!(
            respond(&permissions, add_request()).await["behavior"],
            behavior
        );
        assert_eq!(
            respond(&permissions, bash_request()).await["behavior"],
            behavior
        );
        assert_eq!(
            *questions.lock().unwrap(),
            [
                r#"add of server calc as mcp__calc__add with {"a":15,"b":27}: needs permission: no rule matches"#,
                r#"Bash of server claude as Bash with {"command":"ls"}: needs permission: no rule matches"#,
            ]
        );
    }
}

#[tokio::test]
async fn without_handler_tools_are_denied() {
    let denied = respond(&with_rules(&[]), add_request()).await;
    let message = "mcp__calc__add was not executed: it needs permission and no user can be asked";
    assert_eq!(denied, json!({"behavior": "deny", "message": message}));
}

#[tokio::test]
async fn rules_then_callback_then_interaction_decide() {
    let answer = callback(|request| async move {
        assert_eq!(request.server.as_deref(), Some("calc"));
        assert_eq!(request.tool_use_id.as_deref(), Some("toolu_01"));
        let mut input = request.input;
        input.insert("a".to_owned(), json!(20));
        PermissionResult::allow_with(input).with_permissions(request.suggestions)
    });
    let (handler, questions) = interaction(PermissionResponse::Deny);
    let denied = rules(&[(Action::Deny, "Bash")]);
    let permissions = Permissions::new(denied, Some(answer), handler, Vec::new());
    assert_eq!(
        respond(&permissions, add_request()).await,
        json!({"behavior": "allow", "updatedInput": {"a": 20, "b": 27},
            "updatedPermissions": [{"type": "addRules"}]})
    );
    assert_eq!(
        respond(&permissions, bash_request()).await["behavior"],
        "deny"
    );
    assert!(questions.lock().unwrap().is_empty());
}

#[tokio::test]
async fn callback_can_interrupt_the_turn() {
    let answer = callback(|_| async { PermissionResult::deny("no thanks").and_interrupt() });
    let permissions = Permissions::new([], Some(answer), None, Vec::new());
    assert_eq!(
        respond(&permissions, bash_request()).await,
        json!({"behavior": "deny", "message": "no thanks", "interrupt": true})
    );
}

#[tokio::test]
async fn panicking_callback_denies() {
    let at_once = callback(|_| -> std::future::Ready<PermissionResult> { panic!("at once") });
    let later = callback(|_| async { panic!("later") });
    for answer in [at_once, later] {
        let permissions = Permissions::new([], Some(answer), None, Vec::new());
        assert_eq!(
            respond(&permissions, bash_request()).await["behavior"],
            "deny"
        );
    }
}

#[tokio::test]
async fn malformed_request_is_rejected() {
    let permissions = with_rules(&[(Action::Allow, "*")]);
    for odd in [
        json!({}),
        json!({"tool_name": "Bash", "input": 5}),
        json!(null),
    ] {
        assert!(permissions.can_use_tool(odd).await.is_err());
    }
    let invalid_server = json!({"tool_name": "x", "mcp_server": {"name": "\u{7}"}, "input": {}});
    assert_eq!(
        respond(&permissions, invalid_server).await["behavior"],
        "deny"
    );
}

#[tokio::test]
async fn denied_server_denies_its_resources() {
    let denied = rules(&[(Action::Deny, "mcp__my calc"), (Action::Allow, "*")]);
    let configured = vec!["my calc".to_owned(), "other".to_owned()];
    let permissions = Permissions::new(denied, None, None, configured);
    for (tool, input, behavior) in [
        ("ReadMcpResourceTool", json!({"server": "my calc"}), "deny"),
        ("ReadMcpResourceTool", json!({"server": "my_calc"}), "deny"),
        (
            "ReadMcpResourceDirTool",
            json!({"server": "my calc"}),
            "deny",
        ),
        ("ListMcpResourcesTool", json!({"server": "my calc"}), "deny"),
        ("ListMcpResourcesTool", json!({}), "deny"),
        ("ListMcpResourcesTool", json!({"server": "other"}), "allow"),
        ("ReadMcpResourceTool", json!({"server": "other"}), "allow"),
        ("Bash", json!({"server": "my calc"}), "allow"),
    ] {
        let verdict = permissions.check_rules(tool, None, &input);
        let is_denied = matches!(verdict, RuleVerdict::Deny(_));
        assert_eq!(is_denied, behavior == "deny", "{tool} {input}");
        let request = json!({"tool_name": tool, "input": input});
        assert_eq!(respond(&permissions, request).await["behavior"], behavior);
    }
}
