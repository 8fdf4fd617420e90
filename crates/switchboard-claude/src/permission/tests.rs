use std::sync::Mutex;

use serde_json::json;

use super::*;

/// Says the same to everybody and remembers what was asked.
struct Person {
    answer: PermissionAnswer,
    asked: Questions,
}

impl Interaction for Person {
    fn permit<'a>(&'a self, question: PermissionQuestion<'a>) -> BoxFuture<'a, PermissionAnswer> {
        let asked = format!(
            "{} as {} with {}: {}",
            question.tool,
            question.wire_name,
            Value::Object(question.arguments.clone()),
            question.decision
        );
        self.asked.lock().unwrap().push(asked);
        Box::pin(std::future::ready(self.answer))
    }
}

/// What a person was asked.
type Questions = Arc<Mutex<Vec<String>>>;

fn person(answer: PermissionAnswer) -> (Option<Arc<dyn Interaction>>, Questions) {
    let asked = Questions::default();
    let person = Person {
        answer,
        asked: Arc::clone(&asked),
    };
    (Some(Arc::new(person)), asked)
}

fn callback<A>(answer: impl Fn(ToolPermissionRequest) -> A + Send + Sync + 'static) -> Callback
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

fn addition() -> Value {
    json!({
        "subtype": "can_use_tool", "tool_name": "mcp__calc__add",
        "mcp_server": {"name": "calc", "source": "sdk"}, "display_name": "Add",
        "input": {"a": 15, "b": 27},
        "permission_suggestions": [{"type": "addRules"}], "tool_use_id": "toolu_01",
    })
}

fn command() -> Value {
    json!({"tool_name": "Bash", "input": {"command": "ls"}})
}

async fn reply(permissions: &Permissions, request: Value) -> Value {
    permissions.can_use_tool(request).await.unwrap()
}

fn by_rules(given: &[(Action, &str)]) -> Permissions {
    Permissions::new(rules(given), None, None, Vec::new())
}

#[tokio::test]
async fn rules_answer_without_a_question() {
    let permissions = by_rules(&[
        (Action::Allow, "mcp__calc__add"),
        (Action::Allow, "Bash"),
        (Action::Deny, "mcp__calc__divide"),
        (Action::Deny, "Write"),
    ]);
    let allowed = json!({"behavior": "allow", "updatedInput": {"a": 15, "b": 27}});
    assert_eq!(reply(&permissions, addition()).await, allowed);
    let allowed = json!({"behavior": "allow", "updatedInput": {"command": "ls"}});
    assert_eq!(reply(&permissions, command()).await, allowed);
    for tool in ["mcp__calc__divide", "Write"] {
        let said = reply(&permissions, json!({"tool_name": tool, "input": {}})).await;
        let why = format!("{tool} was not executed: denied by rule `{tool}` (command line)");
        assert_eq!(said, json!({"behavior": "deny", "message": why}));
    }
}

#[tokio::test]
async fn a_rule_for_a_tool_of_a_server_is_not_about_a_built_in_tool() {
    let permissions = by_rules(&[(Action::Allow, "mcp__*"), (Action::Allow, "add")]);
    assert_eq!(reply(&permissions, command()).await["behavior"], "deny");
    let permissions = by_rules(&[(Action::Allow, "add")]);
    assert_eq!(reply(&permissions, addition()).await["behavior"], "deny");
}

#[tokio::test]
async fn a_server_goes_by_the_name_that_it_was_given() {
    let told = json!({"tool_name": "mcp__my_calc_v1__add", "mcp_server": {"name": "my calc.v1"}, "input": {}});
    let permissions = by_rules(&[(Action::Allow, "mcp__my calc.v1__add")]);
    assert_eq!(reply(&permissions, told).await["behavior"], "allow");

    let untold = json!({"tool_name": "mcp__my_calc_v1__add", "input": {}});
    assert_eq!(
        reply(&permissions, untold.clone()).await["behavior"],
        "deny"
    );
    let declared = vec!["my".to_owned(), "my calc.v1".to_owned()];
    let rule = rules(&[(Action::Allow, "mcp__my calc.v1__add")]);
    let permissions = Permissions::new(rule, None, None, declared);
    assert_eq!(reply(&permissions, untold).await["behavior"], "allow");
}

#[tokio::test]
async fn what_no_rule_decides_is_asked_of_the_person() {
    for (answer, behavior) in [
        (PermissionAnswer::Allow, "allow"),
        (PermissionAnswer::Deny, "deny"),
        (PermissionAnswer::NobodyToAsk, "deny"),
    ] {
        let (somebody, asked) = person(answer);
        let permissions = Permissions::new([], None, somebody, Vec::new());
        assert_eq!(reply(&permissions, addition()).await["behavior"], behavior);
        assert_eq!(reply(&permissions, command()).await["behavior"], behavior);
        assert_eq!(
            *asked.lock().unwrap(),
            [
                r#"add of server calc as mcp__calc__add with {"a":15,"b":27}: to be asked about: no rule fits"#,
                r#"Bash of server claude as Bash with {"command":"ls"}: to be asked about: no rule fits"#,
            ]
        );
    }
}

#[tokio::test]
async fn nobody_is_a_no() {
    let said = reply(&by_rules(&[]), addition()).await;
    let why = "mcp__calc__add was not executed: it needs permission, and there is nobody to ask";
    assert_eq!(said, json!({"behavior": "deny", "message": why}));
}

#[tokio::test]
async fn the_callback_goes_before_the_person_and_after_the_rules() {
    let answer = callback(|asked| async move {
        assert_eq!(asked.server.as_deref(), Some("calc"));
        assert_eq!(asked.tool_use_id.as_deref(), Some("toolu_01"));
        let mut input = asked.input;
        input.insert("a".to_owned(), json!(20));
        PermissionResult::allow_with(input).with_permissions(asked.suggestions)
    });
    let (somebody, asked) = person(PermissionAnswer::Deny);
    let denied = rules(&[(Action::Deny, "Bash")]);
    let permissions = Permissions::new(denied, Some(answer), somebody, Vec::new());
    assert_eq!(
        reply(&permissions, addition()).await,
        json!({"behavior": "allow", "updatedInput": {"a": 20, "b": 27},
            "updatedPermissions": [{"type": "addRules"}]})
    );
    assert_eq!(reply(&permissions, command()).await["behavior"], "deny");
    assert!(asked.lock().unwrap().is_empty());
}

#[tokio::test]
async fn a_callback_can_end_the_turn() {
    let answer = callback(|_| async { PermissionResult::deny("no thanks").and_interrupt() });
    let permissions = Permissions::new([], Some(answer), None, Vec::new());
    assert_eq!(
        reply(&permissions, command()).await,
        json!({"behavior": "deny", "message": "no thanks", "interrupt": true})
    );
}

#[tokio::test]
async fn a_callback_that_panics_has_said_no() {
    let at_once = callback(|_| -> std::future::Ready<PermissionResult> { panic!("at once") });
    let later = callback(|_| async { panic!("later") });
    for answer in [at_once, later] {
        let permissions = Permissions::new([], Some(answer), None, Vec::new());
        assert_eq!(reply(&permissions, command()).await["behavior"], "deny");
    }
}

#[tokio::test]
async fn a_question_that_cannot_be_read_is_an_error() {
    let permissions = by_rules(&[(Action::Allow, "*")]);
    for odd in [
        json!({}),
        json!({"tool_name": "Bash", "input": 5}),
        json!(null),
    ] {
        assert!(permissions.can_use_tool(odd).await.is_err());
    }
    let unspeakable = json!({"tool_name": "x", "mcp_server": {"name": "\u{7}"}, "input": {}});
    assert_eq!(reply(&permissions, unspeakable).await["behavior"], "deny");
}

#[tokio::test]
async fn a_server_that_is_denied_has_no_resources_either() {
    let denied = rules(&[(Action::Deny, "mcp__my calc"), (Action::Allow, "*")]);
    let declared = vec!["my calc".to_owned(), "other".to_owned()];
    let permissions = Permissions::new(denied, None, None, declared);
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
        let objection = permissions.objection(tool, None, &input);
        let is_denied = matches!(objection, Objection::Denied(_));
        assert_eq!(is_denied, behavior == "deny", "{tool} {input}");
        let asked = json!({"tool_name": tool, "input": input});
        assert_eq!(reply(&permissions, asked).await["behavior"], behavior);
    }
}
