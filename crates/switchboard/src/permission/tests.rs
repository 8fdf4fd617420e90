use serde_json::{Map, Value};
use switchboard_wire::mcp::{Hint, ToolAnnotations};
use switchboard_wire::naming::wire_name;

use super::*;
use crate::id::{ServerName, ToolId, WireName};

mod arguments;
mod laws;

fn allow(pattern: &str) -> Rule {
    Rule::new(Action::Allow, pattern).unwrap()
}

fn ask(pattern: &str) -> Rule {
    Rule::new(Action::Ask, pattern).unwrap()
}

fn deny(pattern: &str) -> Rule {
    Rule::new(Action::Deny, pattern).unwrap()
}

fn tool(server: &str, name: &str) -> ToolId {
    ToolId::new(ServerName::new(server).unwrap(), name)
}

fn destructive() -> ToolAnnotations {
    let mut annotations = ToolAnnotations::default();
    annotations.destructive = Some(true);
    annotations
}

#[derive(Clone, Debug)]
struct Target {
    tool: ToolId,
    annotations: ToolAnnotations,
    trusted: bool,
    arguments: Option<Map<String, Value>>,
}

impl Target {
    fn new(server: &str, name: &str) -> Self {
        Self {
            tool: tool(server, name),
            annotations: ToolAnnotations::default(),
            trusted: false,
            arguments: Some(Map::new()),
        }
    }

    fn with(mut self, arguments: &Value) -> Self {
        self.arguments = Some(arguments.as_object().unwrap().clone());
        self
    }

    fn input<'a>(&'a self, wire: &'a WireName) -> CallFacts<'a> {
        CallFacts {
            tool: &self.tool,
            wire_name: wire,
            annotations: &self.annotations,
            trust_annotations: self.trusted,
            arguments: self.arguments.as_ref(),
        }
    }

    fn decide(&self, policy: &Policy) -> Decision {
        policy.decide(&self.input(&wire_name(&self.tool.server, &self.tool.tool)))
    }
}

fn decide(rules: impl IntoIterator<Item = Rule>, server: &str, name: &str) -> Action {
    Target::new(server, name).decide(&Policy::new(rules)).action
}

#[test]
fn allow_matches_server_and_tool_only() {
    let cases = [
        ("*", "fs", "read", true),
        ("mcp__*", "fs", "read", true),
        ("mcp__fs", "fs", "read", true),
        ("mcp__fs", "fs2", "read", false),
        ("mcp__fs", "FS", "read", false),
        ("mcp__f*", "fs", "read", true),
        ("mcp__fs__read", "fs", "read", true),
        ("mcp__fs__read", "fs", "read_all", false),
        ("mcp__fs__read_*", "fs", "read_all", true),
        ("mcp__fs__*", "fs", "a/b c", true),
        ("mcp__*__read", "fs", "read", true),
        ("mcp__fs__a__b", "fs", "a__b", true),
        ("mcp__fs___x", "fs", "_x", true),
        ("mcp__evil__foo", "evil__foo", "anything", false),
        ("mcp__evil*foo", "evil__foo", "anything", true),
        ("mcp__fs__a_b_*", "fs", "a.b", false),
        ("mcp__fs__a.b", "fs", "a.b", true),
        ("mcp*", "fs", "read", false),
        ("*read", "fs", "read", false),
        ("read", "fs", "read", false),
        ("mcp__*read", "fs", "read", false),
    ];
    for (pattern, server, name, fits) in cases {
        let expected = if fits { Action::Allow } else { Action::Ask };
        assert_eq!(
            decide([allow(pattern)], server, name),
            expected,
            "{pattern} on {server}, {name}"
        );
    }
}

#[test]
fn deny_also_matches_wire_name() {
    let cases = [
        ("mcp__fs__a.b", "fs", "a.b", true),
        ("mcp__fs__a_b_*", "fs", "a.b", true),
        ("mcp__my_server_*", "my server", "x", true),
        ("mcp__my server", "my server", "x", true),
        ("mcp*", "fs", "read", true),
        ("*read", "fs", "read", true),
        ("mcp__*read", "fs", "read", true),
        ("?cp__fs__read", "fs", "read", true),
        ("read", "fs", "read", false),
        ("mcp__f", "fs", "read", false),
        ("mcp__fs__rea", "fs", "read", false),
        ("mcp__fs_", "fs", "_read", false),
    ];
    for (pattern, server, name, fits) in cases {
        let expected = if fits { Action::Deny } else { Action::Allow };
        let rules = [allow("*"), deny(pattern)];
        assert_eq!(
            decide(rules, server, name),
            expected,
            "{pattern} on {server}, {name}"
        );
    }
}

#[test]
fn ask_also_matches_wire_name() {
    assert_eq!(
        decide([ask("mcp__fs__a_b_*"), allow("*")], "fs", "a.b"),
        Action::Ask
    );
}

#[test]
fn deny_in_last_scope_beats_allow_in_first() {
    let rules = [
        allow("mcp__fs").scope(RuleScope::Managed),
        deny("mcp__fs__delete_*").scope(RuleScope::Project),
    ];
    assert_eq!(decide(rules.clone(), "fs", "delete_all"), Action::Deny);
    assert_eq!(decide(rules, "fs", "read"), Action::Allow);
}

#[test]
fn scopes_are_evaluated_in_fixed_order() {
    use RuleScope::{CommandLine, Local, Managed, Project, User};
    let order = [Managed, CommandLine, Local, User, Project];
    for (index, first) in order.iter().enumerate() {
        for later in &order[index + 1..] {
            let rules = [allow("mcp__fs").scope(*later), ask("mcp__fs").scope(*first)];
            assert_eq!(decide(rules, "fs", "read"), Action::Ask);
        }
    }
}

#[test]
fn first_match_in_scope_decides() {
    assert_eq!(decide([allow("*"), ask("*")], "fs", "x"), Action::Allow);
    assert_eq!(decide([ask("*"), allow("*")], "fs", "x"), Action::Ask);
}

#[test]
fn allow_by_hint_needs_trusted_annotations() {
    let mut target = Target::new("fs", "x");
    let mut decide = |rule: &Rule, annotations: &ToolAnnotations, trusted: bool| {
        target.annotations = annotations.clone();
        target.trusted = trusted;
        target.decide(&Policy::new([rule.clone()])).action
    };
    let silent = ToolAnnotations::default();
    let by_hint = allow("mcp__*").hint(Hint::ReadOnly);
    let claims = ToolAnnotations::read_only();
    assert_eq!(decide(&by_hint, &claims, true), Action::Allow);
    assert_eq!(decide(&by_hint, &claims, false), Action::Ask);
    assert_eq!(decide(&by_hint, &silent, true), Action::Ask);
    let forbidden = deny("mcp__*").hint(Hint::Destructive);
    assert_eq!(decide(&forbidden, &destructive(), false), Action::Deny);
    assert_eq!(decide(&forbidden, &silent, false), Action::Ask);
}

#[test]
fn plain_globs_match_local_tools() {
    let cases = [
        (allow("Bash"), "Bash", Action::Allow),
        (allow("Bash"), "bash", Action::Ask),
        (allow("B*"), "Bash", Action::Allow),
        (allow("*"), "Bash", Action::Allow),
        (deny("*"), "Bash", Action::Deny),
        (allow("mcp__*"), "Bash", Action::Ask),
        (deny("mcp__*"), "Bash", Action::Ask),
        (allow("mcp__fs__x"), "mcp__fs__x", Action::Ask),
        (deny("mcp__fs__x"), "mcp__fs__x", Action::Deny),
        (deny("mcp__fs"), "mcp__fs__x", Action::Deny),
        (allow("*").hint(Hint::ReadOnly), "Bash", Action::Ask),
    ];
    for (rule, name, expected) in cases {
        let decision = Policy::new([rule.clone()]).decide_local(name, &Map::new());
        assert_eq!(decision.action, expected, "{rule:?} on {name}");
    }
}

#[test]
fn decision_text_names_the_rule() {
    let target = Target {
        annotations: destructive(),
        ..Target::new("fs", "delete_all")
    };
    let cases = [
        (vec![], "needs permission: no rule matches"),
        (
            vec![deny("mcp__fs__delete_*")],
            "denied by rule `mcp__fs__delete_*` (program)",
        ),
        (
            vec![allow("mcp__*").scope(RuleScope::User)],
            "allowed by rule `mcp__*` (user)",
        ),
        (
            vec![
                ask("mcp__fs")
                    .hint(Hint::Destructive)
                    .scope(RuleScope::Managed),
            ],
            "needs permission because of rule `mcp__fs` with hint destructive (managed)",
        ),
    ];
    for (rules, expected) in cases {
        assert_eq!(target.decide(&Policy::new(rules)).to_string(), expected);
    }
}

#[test]
fn invalid_patterns_are_rejected_with_reason() {
    let cases = [
        ("", "it is empty; `*` matches everything"),
        (
            "mcp__",
            "no server after `mcp__`; `mcp__*` matches the tools of all servers",
        ),
        (
            "mcp____read",
            "no server after `mcp__`; `mcp__*` matches the tools of all servers",
        ),
        (
            "mcp__fs__",
            "no tool after the last `__`; `mcp__server` matches all tools of that server",
        ),
        ("mcp__fs__[a", "a `[` is never closed"),
    ];
    for (pattern, problem) in cases {
        assert_eq!(
            Rule::new(Action::Deny, pattern).unwrap_err().to_string(),
            format!("the pattern {pattern:?} is not valid: {problem}")
        );
    }
}

#[test]
fn actions_use_lower_case() {
    for (text, action) in [
        ("allow", Action::Allow),
        ("ask", Action::Ask),
        ("deny", Action::Deny),
    ] {
        assert_eq!(text.parse(), Ok(action));
        assert_eq!(action.to_string(), text);
        assert_eq!(serde_json::to_value(action).unwrap(), text);
    }
    assert_eq!(
        "Deny".parse::<Action>().unwrap_err().to_string(),
        "\"Deny\" is not an action: write `allow`, `ask` or `deny`"
    );
}

#[test]
fn deny_matches_server_name_with_double_underscore() {
    let target = Target::new("my__srv", "t");
    for pattern in ["mcp__my__srv", "mcp__my__srv__t", "mcp__my__srv__*"] {
        let policy = Policy::new([allow("mcp__*"), deny(pattern)]);
        assert_eq!(target.decide(&policy).action, Action::Deny, "{pattern}");
    }
}

#[test]
fn rule_for_some_servers_ignores_others() {
    let own = || [ServerName::new("own").unwrap()];
    for pattern in ["mcp__*", "*", "mcp__o*", "mcp__other"] {
        let rule = allow(pattern).only_servers(own());
        let fits = pattern != "mcp__other";
        assert_eq!(decide([rule.clone()], "own", "t") == Action::Allow, fits);
        assert_eq!(decide([rule], "other", "t"), Action::Ask, "{pattern}");
    }
    assert_eq!(
        decide([allow("*").only_servers([])], "own", "t"),
        Action::Ask
    );
    let local = Policy::new([allow("*").only_servers(own())]);
    assert_eq!(local.decide_local("own", &Map::new()).action, Action::Ask);
}

#[test]
fn deny_rule_with_former_wire_name_still_denies() {
    let server = ServerName::new("modelcontextprotocol-server-everything").unwrap();
    let tool = ToolId::new(server.clone(), "echo");
    let wire_name = crate::naming::wire_name(&tool.server, &tool.tool);
    let former = crate::naming::former_wire_name(&tool.server, &tool.tool).unwrap();
    assert_ne!(wire_name, former);
    let decide = |action, pattern: &str| {
        let policy = Policy::new([Rule::new(action, pattern).unwrap()]);
        let action = policy
            .decide(&CallFacts {
                tool: &tool,
                wire_name: &wire_name,
                annotations: &ToolAnnotations::default(),
                trust_annotations: false,
                arguments: None,
            })
            .action;
        (action, policy.server_denial(&server).is_some())
    };
    let (part, _) = crate::naming::split_wire_name(former.as_str()).unwrap();
    let whole = format!("mcp__{part}");
    assert_eq!(decide(Action::Deny, former.as_str()), (Action::Deny, false));
    assert_eq!(decide(Action::Deny, &whole), (Action::Deny, true));
    // Allow rules are compared with raw names only.
    assert_eq!(decide(Action::Allow, former.as_str()), (Action::Ask, false));
}

#[test]
fn only_whole_server_rule_denies_server() {
    let server = ServerName::new("git_hub__x").unwrap();
    let denies = |pattern: &str| {
        let rule = Rule::new(Action::Deny, pattern).unwrap();
        Policy::new([rule]).server_denial(&server).is_some()
    };
    let spelled = crate::naming::server_part(&server);
    for pattern in [
        "*",
        "mcp__*",
        "mcp__*__*",
        "mcp__git_hub__x",
        "mcp__git_hub__x__*",
        &format!("mcp__{spelled}"),
        &format!("mcp__{spelled}__*"),
    ] {
        assert!(denies(pattern), "{pattern}");
    }
    for pattern in [
        "mcp__other",
        "mcp__git_hub__x__read_*",
        "mcp__*__read",
        "git_hub__x",
    ] {
        assert!(!denies(pattern), "{pattern}");
    }
    let some = Rule::new(Action::Deny, "mcp__*").unwrap();
    let narrowed = [
        some.clone().argument_pattern("path=/etc/*").unwrap(),
        some.clone().hint(Hint::Destructive),
        some.only_servers([ServerName::new("other").unwrap()]),
        Rule::new(Action::Ask, "mcp__*").unwrap(),
        Rule::new(Action::Allow, "mcp__*").unwrap(),
    ];
    assert!(Policy::new(narrowed).server_denial(&server).is_none());
}
