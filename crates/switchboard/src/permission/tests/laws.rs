//! Properties that hold for every set of rules, and a comparison with a simple reference
//! implementation.

use proptest::collection::vec;
use proptest::prelude::*;
use serde_json::json;
use switchboard_testkit::repetitions;

use super::*;

/// The number of cases per property, unless `SWITCHBOARD_REPEAT` sets another one.
const CASES: u32 = 4_000;

/// The reference implementation: rules as documented, without optimizations.
mod reference {
    use RuleScope::{CommandLine, Local, Managed, Program, Project, User};

    use super::*;

    pub(super) fn decide(rules: &[Rule], target: &Target) -> Action {
        let is_match = |rule: &&Rule| matches(rule, target);
        if rules
            .iter()
            .filter(is_match)
            .any(|rule| rule.action() == Action::Deny)
        {
            return Action::Deny;
        }
        [Managed, CommandLine, Program, Local, User, Project]
            .into_iter()
            .flat_map(|scope| {
                rules
                    .iter()
                    .filter(move |rule| rule.definition.scope == scope)
            })
            .find(is_match)
            .map_or(Action::Ask, |rule| rule.definition.action)
    }

    fn matches(rule: &Rule, target: &Target) -> bool {
        let only_servers = &rule.servers;
        let rule = &rule.definition;
        let hint_matches = rule.hint.is_none_or(|hint| {
            target.annotations.declares(hint) && (rule.action != Action::Allow || target.trusted)
        });
        let mut patterns = rule.patterns.iter();
        let id = &target.tool;
        let wire = wire_name(&id.server, &id.tool).to_string();
        let (server, tool) = wire[5..].split_once("__").unwrap();
        let is_broad = rule.action != Action::Allow;
        let servers = only_servers.as_ref();
        hint_matches
            && servers.is_none_or(|servers| servers.iter().any(|server| *server == id.server))
            && patterns.all(|pattern| condition(pattern, target.arguments.as_ref(), is_broad))
            && (matches_pair(&rule.tool, id.server.as_str(), id.tool.as_str())
                || is_broad && matches_pair(&rule.tool, server, tool)
                || is_broad && glob(&rule.tool, &wire)
                || is_broad && matches_joined(&rule.tool, id.server.as_str(), id.tool.as_str()))
    }

    fn matches_joined(pattern: &str, server: &str, tool: &str) -> bool {
        pattern.starts_with("mcp__")
            && server.contains("__")
            && (glob(pattern, &format!("mcp__{server}"))
                || glob(pattern, &format!("mcp__{server}__{tool}")))
    }

    fn matches_pair(pattern: &str, server: &str, tool: &str) -> bool {
        match pattern.strip_prefix("mcp__") {
            None => pattern == "*",
            Some(rest) => match rest.split_once("__") {
                None => glob(rest, server),
                Some((s, t)) => glob(s, server) && glob(t, tool),
            },
        }
    }

    fn condition(pattern: &str, arguments: Option<&Map<String, Value>>, is_broad: bool) -> bool {
        let Some(arguments) = arguments else {
            return is_broad;
        };
        let all = Value::Object(arguments.clone());
        let (value, pattern, is_json) = match pattern.split_once('=') {
            _ if pattern.starts_with(['*', '{']) => (Some(&all), pattern, true),
            Some((path, pattern)) if path.starts_with('/') => (all.pointer(path), pattern, false),
            Some((name, pattern)) => (all.get(name), pattern, false),
            None => unreachable!("every generated pattern has a `=`"),
        };
        let Some(value) = value else { return false };
        let is_wild = pattern.contains(['*', '?']);
        match is_broad {
            true if is_json => glob(pattern, &text(value)),
            true => {
                let keys = keys_inside(value).into_iter().map(Value::from);
                let mut parts = inside(value).into_iter().chain(keys);
                parts.any(|value| matches_any_form(pattern, &value))
            }
            false => {
                glob(pattern, &text(value))
                    && !(is_wild && (inside(value).iter().any(escapes) || keys_escape(value)))
            }
        }
    }

    fn text(value: &Value) -> String {
        match value {
            Value::String(text) => text.clone(),
            other => sorted(other).to_string(),
        }
    }

    fn sorted(value: &Value) -> Value {
        match value {
            Value::Array(items) => items.iter().map(sorted).collect(),
            Value::Object(members) => {
                let members: std::collections::BTreeMap<_, _> = members.iter().collect();
                let members = members.into_iter();
                members
                    .map(|(key, value)| (key.clone(), sorted(value)))
                    .collect()
            }
            scalar => scalar.clone(),
        }
    }

    /// Returns the value and everything inside it.
    fn inside(value: &Value) -> Vec<Value> {
        let within: Vec<&Value> = match value {
            Value::Array(items) => items.iter().collect(),
            Value::Object(members) => members.values().collect(),
            _ => Vec::new(),
        };
        let within = within.into_iter().flat_map(inside);
        std::iter::once(value.clone()).chain(within).collect()
    }

    fn matches_any_form(pattern: &str, value: &Value) -> bool {
        let texts: Vec<String> = value.as_str().map(forms).unwrap_or_default();
        let paths = texts.iter().map(|text| decoded(text));
        let paths = paths.filter(|path| path.contains('/'));
        let paths: Vec<String> = paths.map(|path| normalized(&path)).collect();
        let whole = value.as_f64().filter(|number| number.fract() == 0.0);
        let whole = whole.map(|number| format!("{number:.0}"));
        let forms = [Some(text(value)), whole].into_iter().flatten();
        let mut forms = forms.chain(texts).chain(paths);
        forms.any(|form| glob(pattern, &form))
    }

    /// Returns the forms of a text that a deny rule is compared with, without the normalized paths.
    fn forms(text: &str) -> Vec<String> {
        let trimmed = text.trim().to_owned();
        let plain = percent_decoded(&trimmed).trim().to_owned();
        let slashed = plain.replace('\\', "/");
        let path = slashed
            .strip_prefix("file://")
            .unwrap_or(&slashed)
            .to_owned();
        vec![text.to_owned(), trimmed, plain, slashed, path]
    }

    /// Decodes the percent codes that [`any_value`](super::any_value) generates.
    fn percent_decoded(text: &str) -> String {
        let text = decoded(text).replace("%78", "x").replace("%00", "\0");
        let text = text.replace("%c0%ae", "\u{fffd}\u{fffd}");
        text.replace("%252e", "%2e")
    }

    fn decoded(text: &str) -> String {
        let text = text.replace("%2e", ".").replace("%2E", ".");
        let text = text.replace("%2f", "/").replace("%2F", "/");
        text.replace("%5c", "\\").replace("%5C", "\\")
    }

    fn normalized(path: &str) -> String {
        use std::path::{Component, Path, PathBuf};
        let mut out = PathBuf::new();
        for component in Path::new(path).components() {
            match (component, out.components().next_back()) {
                (Component::CurDir, _) | (Component::ParentDir, Some(Component::RootDir)) => {}
                (Component::ParentDir, Some(Component::Normal(_))) => drop(out.pop()),
                (component, _) => out.push(component),
            }
        }
        out.to_str().unwrap().to_owned()
    }

    fn escapes(value: &Value) -> bool {
        value.as_str().is_some_and(text_escapes)
    }

    fn text_escapes(text: &str) -> bool {
        let suspicious = ["\0", "%00", "%252e", "%c0%ae", "\u{ff0e}"];
        let has_dots = |text: &str| {
            let text = text.replace(['\\', ' ', '\t'], "/").replace(':', "/");
            format!("/{text}/").contains("/../")
        };
        let plain = percent_decoded(text);
        suspicious.iter().any(|part| text.contains(part))
            || has_dots(&plain)
            || has_dots(&plain.replace('\t', ""))
    }

    fn keys_escape(value: &Value) -> bool {
        keys_inside(value).iter().any(|key| text_escapes(key))
    }

    fn keys_inside(value: &Value) -> Vec<String> {
        let inside = inside(value);
        let objects = inside.iter().filter_map(Value::as_object);
        objects.flat_map(Map::keys).cloned().collect()
    }

    fn glob(pattern: &str, name: &str) -> bool {
        let mut pattern = pattern.chars();
        let mut rest = name.chars();
        match pattern.next() {
            None => name.is_empty(),
            Some('*') => {
                glob(pattern.as_str(), name)
                    || rest.next().is_some()
                        && glob(&format!("*{}", pattern.as_str()), rest.as_str())
            }
            Some('?') => rest.next().is_some() && glob(pattern.as_str(), rest.as_str()),
            Some(own) => rest.next() == Some(own) && glob(pattern.as_str(), rest.as_str()),
        }
    }
}

/// Generates conditions on arguments that match [`any_arguments`] in a part of the cases.
fn any_condition() -> impl Strategy<Value = String> {
    let glob = prop_oneof![
        "[x/.*?1]{0,4}",
        Just("/x/*".to_owned()),
        "/x|/x/x|x/x",
        Just("*x*".to_owned()),
        Just("true".to_owned()),
        Just("1".to_owned()),
        Just("*".to_owned()),
    ];
    let selector = prop_oneof!["[ab]", Just("/a/b".to_owned()), Just("/a/0".to_owned())];
    prop_oneof![
        4 => (selector, glob).prop_map(|(selector, glob)| format!("{selector}={glob}")),
        1 => r#"\*"?[abx]"?[:,]?\*"#,
        1 => Just("*".to_owned()),
        1 => Just(r#"{"a":*"#.to_owned()),
    ]
}

fn any_value() -> impl Strategy<Value = Value> {
    let text = prop_oneof![
        "[x/.]{0,5}",
        "(/|\\./|\\.\\./|%2e%2E/|x/|//){1,4}x?",
        "/(\\./|/|x/\\.\\./|\\.%2e/){1,2}x(/x)?",
        Just("x\0".to_owned()),
        Just(r"x\..\x".to_owned()),
        "/x/(\\.\t\\.|\\.\\.%00|%252e%252e|%c0%ae%c0%ae|\u{ff0e}\u{ff0e})/x",
        "(file://| |\t)?(/|\\\\)(%78|x|\\.\\.)(/|\\\\)x ?",
    ];
    let scalar = prop_oneof![
        4 => text.prop_map(Value::from),
        1 => prop_oneof![Just(json!(1)), Just(json!(1.0)), Just(json!(-1.5)), Just(json!(1e300))],
        1 => prop_oneof![Just(json!(true)), Just(json!(null))],
    ];
    scalar.prop_recursive(2, 6, 3, |inner| {
        let key = prop_oneof![4 => "[ab]", 1 => "\\.\\.|/x/x"];
        let members = vec((key, inner.clone()), 0..3);
        prop_oneof![
            vec(inner, 0..3).prop_map(Value::from),
            members.prop_map(|members| members.into_iter().collect()),
        ]
    })
}

fn any_arguments() -> impl Strategy<Value = Option<Map<String, Value>>> {
    let members = vec(("[ab]", any_value()), 0..3);
    prop::option::weighted(
        0.95,
        members.prop_map(|members| members.into_iter().collect()),
    )
}

/// Generates rules of all actions and scopes, with and without conditions, hints and servers.
fn any_rule() -> impl Strategy<Value = Rule> {
    use RuleScope::{CommandLine, Local, Managed, Program, Project, User};
    let tool = prop_oneof![
        3 => "mcp__[ab*?]{1,3}__[ab_*?.é]{1,4}",
        2 => "mcp__[ab*?]{1,3}",
        1 => Just("*".to_owned()),
        1 => "[mcp*]{1,2}[*_]{1,3}[ab*]{0,2}",
        1 => Just("mcp__*".to_owned()),
        // The wire name of a tool as the pattern.
        1 => "[ab]\\.[ab]".prop_map(|t| {
            wire_name(&ServerName::new("a").unwrap(), &t.as_str().into()).to_string()
        }),
    ];
    let patterns = prop_oneof![
        2 => Just(Vec::new()),
        1 => vec(any_condition(), 1..=2),
    ];
    (
        prop_oneof![Just(Action::Allow), Just(Action::Ask), Just(Action::Deny)],
        tool,
        patterns,
        prop::option::weighted(
            0.3,
            prop_oneof![Just(Hint::ReadOnly), Just(Hint::Destructive)],
        ),
        prop_oneof![
            Just(Managed),
            Just(CommandLine),
            Just(Program),
            Just(Local),
            Just(User),
            Just(Project)
        ],
        prop::option::weighted(0.2, vec("[ab]{1,2}", 0..3)),
    )
        .prop_filter_map(
            "a pattern",
            |(action, tool, patterns, hint, scope, servers)| {
                let rule = Rule::new(action, &tool).ok()?.scope(scope);
                let rule = match servers {
                    Some(names) => {
                        rule.only_servers(names.iter().map(|name| ServerName::new(name).unwrap()))
                    }
                    None => rule,
                };
                let mut patterns = patterns.iter();
                let rule =
                    patterns.try_fold(rule, |rule, text| rule.argument_pattern(text).ok())?;
                Some(match hint {
                    Some(hint) => rule.hint(hint),
                    None => rule,
                })
            },
        )
}

/// Generates calls. Rules from [`any_rule`] match a part of these calls.
fn any_target() -> impl Strategy<Value = Target> {
    (
        "[ab]{1,2}|a__b|a b",
        "[ab_.é]{1,4}",
        any::<(bool, Option<bool>, Option<bool>)>(),
        any_arguments(),
    )
        .prop_map(
            |(server, name, (trusted, read_only, destructive), arguments)| {
                let mut target = Target::new(&server, &name);
                target.annotations.read_only = read_only;
                target.annotations.destructive = destructive;
                target.trusted = trusted;
                target.arguments = arguments;
                target
            },
        )
}

/// Returns the same rule with another action.
fn with_action(rule: &Rule, action: Action) -> Rule {
    let mut rule = rule.clone();
    rule.definition_mut().action = action;
    rule
}

fn permits_at_most(one: Action, other: Action) -> bool {
    let rank = |action| match action {
        Action::Deny => 0,
        Action::Ask => 1,
        Action::Allow => 2,
    };
    rank(one) <= rank(other)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(repetitions(CASES)))]

    #[test]
    fn stress_rules_agree_with_reference(rules in vec(any_rule(), 0..12), target in any_target()) {
        let decided = target.decide(&Policy::new(rules.clone())).action;
        prop_assert_eq!(decided, reference::decide(&rules, &target));
    }

    #[test]
    fn stress_rules_with_another_deny_never_allow_more(
        rules in vec(any_rule(), 0..8),
        extra in any_rule(),
        at in any::<prop::sample::Index>(),
        target in any_target(),
    ) {
        let before = target.decide(&Policy::new(rules.clone())).action;
        let extra = with_action(&extra, Action::Deny);
        let mut more = rules;
        more.insert(at.index(more.len() + 1), extra.clone());
        let after = target.decide(&Policy::new(more)).action;
        prop_assert!(permits_at_most(after, before));
        if target.decide(&Policy::new([extra])).action == Action::Deny {
            prop_assert_eq!(after, Action::Deny);
        } else {
            prop_assert_eq!(after, before);
        }
    }

    #[test]
    fn stress_rules_ignore_order_and_scope_of_denies(
        rules in vec(any_rule(), 0..8),
        shuffled in vec(any_rule(), 0..8).prop_shuffle(),
        target in any_target(),
    ) {
        let denies = |rules: &[Rule]| -> Vec<Rule> {
            rules.iter().map(|rule| with_action(rule, Action::Deny)).collect()
        };
        let forward = [rules.clone(), denies(&shuffled)].concat();
        let mut backward = denies(&shuffled);
        backward.reverse();
        for deny in &mut backward {
            deny.definition_mut().scope = RuleScope::Project;
        }
        backward.extend(rules);
        prop_assert_eq!(
            target.decide(&Policy::new(forward)).action,
            target.decide(&Policy::new(backward)).action
        );
    }

    #[test]
    fn stress_rules_match_as_deny_if_they_match_as_allow(
        rule in any_rule(),
        target in any_target(),
    ) {
        let decided = |action| target.decide(&Policy::new([with_action(&rule, action)])).action;
        if decided(Action::Allow) == Action::Allow {
            prop_assert_eq!(decided(Action::Deny), Action::Deny);
        }
    }

    #[test]
    fn stress_rules_report_matches_in_order(
        rules in vec(any_rule(), 0..8),
        target in any_target(),
    ) {
        let policy = Policy::new(rules);
        let wire = wire_name(&target.tool.server, &target.tool.tool);
        let matching = policy.matching_rules(&target.input(&wire));
        prop_assert!(matching.is_sorted_by_key(|rule| rule.scope));
        let first = |action| matching.iter().find(|rule| (rule.action == Action::Deny) == action);
        let expected = first(true).or_else(|| first(false)).cloned();
        let expected = expected.map_or(Reason::Default, Reason::Rule);
        prop_assert_eq!(target.decide(&policy).reason, expected);
    }
}
