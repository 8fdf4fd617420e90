//! What holds for every set of rules, checked against a slow reference.

use proptest::collection::vec;
use proptest::prelude::*;

use super::*;

/// The rules as the documents have them, without any cleverness.
mod reference {
    use RuleScope::{CommandLine, Local, Managed, Project, User};

    use super::*;

    pub(super) fn decide(rules: &[Rule], target: &Target) -> Action {
        let fitting = |rule: &&Rule| fits(rule, target);
        if rules
            .iter()
            .filter(fitting)
            .any(|rule| rule.action == Action::Deny)
        {
            return Action::Deny;
        }
        [Managed, CommandLine, Local, User, Project]
            .into_iter()
            .flat_map(|scope| rules.iter().filter(move |rule| rule.scope == scope))
            .find(fitting)
            .map_or(Action::Ask, |rule| rule.action)
    }

    fn fits(rule: &Rule, target: &Target) -> bool {
        let believed = rule.hint.is_none_or(|hint| {
            target.annotations.declares(hint) && (rule.action != Action::Allow || target.trusted)
        });
        let id = &target.tool;
        let wire = wire_name(&id.server, &id.tool).to_string();
        let (server, tool) = wire[5..].split_once("__").unwrap();
        let narrows = rule.action != Action::Allow;
        believed
            && (fits_pair(&rule.text, id.server.as_str(), id.tool.as_str())
                || narrows && fits_pair(&rule.text, server, tool)
                || narrows && glob(&rule.text, &wire)
                || narrows && fits_joined(&rule.text, id.server.as_str(), id.tool.as_str()))
    }

    fn fits_joined(pattern: &str, server: &str, tool: &str) -> bool {
        pattern.starts_with("mcp__")
            && server.contains("__")
            && (glob(pattern, &format!("mcp__{server}"))
                || glob(pattern, &format!("mcp__{server}__{tool}")))
    }

    fn fits_pair(pattern: &str, server: &str, tool: &str) -> bool {
        match pattern.strip_prefix("mcp__") {
            None => pattern == "*",
            Some(rest) => match rest.split_once("__") {
                None => glob(rest, server),
                Some((s, t)) => glob(s, server) && glob(t, tool),
            },
        }
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

fn a_rule() -> impl Strategy<Value = Rule> {
    use RuleScope::{CommandLine, Local, Managed, Project, User};
    let pattern = prop_oneof![
        3 => "mcp__[ab*?]{1,3}__[ab_*?.é]{1,4}",
        2 => "mcp__[ab*?]{1,3}",
        1 => Just("*".to_owned()),
        1 => "[mcp*]{1,2}[*_]{1,3}[ab*]{0,2}",
        1 => Just("mcp__*".to_owned()),
        // Patterns made from what a tool became.
        1 => "[ab]\\.[ab]".prop_map(|t| {
            wire_name(&ServerName::new("a").unwrap(), &t.as_str().into()).to_string()
        }),
    ];
    (
        prop_oneof![Just(Action::Allow), Just(Action::Ask), Just(Action::Deny)],
        pattern,
        prop::option::weighted(
            0.3,
            prop_oneof![Just(Hint::ReadOnly), Just(Hint::Destructive)],
        ),
        prop_oneof![
            Just(Managed),
            Just(CommandLine),
            Just(Local),
            Just(User),
            Just(Project)
        ],
    )
        .prop_filter_map("a pattern", |(action, pattern, hint, scope)| {
            let rule = Rule::new(action, &pattern).ok()?.scope(scope);
            Some(match hint {
                Some(hint) => rule.hint(hint),
                None => rule,
            })
        })
}

fn a_target() -> impl Strategy<Value = Target> {
    (
        "[ab]{1,2}|a__b|a b",
        "[ab_.é]{1,4}",
        any::<(bool, Option<bool>, Option<bool>)>(),
    )
        .prop_map(|(server, name, (trusted, read_only, destructive))| Target {
            annotations: ToolAnnotations {
                read_only,
                destructive,
                ..ToolAnnotations::default()
            },
            trusted,
            ..Target::new(&server, &name)
        })
}

fn is_narrower_or_equal(one: Action, other: Action) -> bool {
    let width = |action| match action {
        Action::Deny => 0,
        Action::Ask => 1,
        Action::Allow => 2,
    };
    width(one) <= width(other)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(4000))]

    #[test]
    fn it_decides_as_the_slow_reference(rules in vec(a_rule(), 0..12), target in a_target()) {
        let decided = target.decide(&Policy::new(rules.clone())).action;
        prop_assert_eq!(decided, reference::decide(&rules, &target));
    }

    #[test]
    fn adding_a_deny_never_widens(
        rules in vec(a_rule(), 0..8),
        extra in a_rule(),
        at in any::<prop::sample::Index>(),
        target in a_target(),
    ) {
        let before = target.decide(&Policy::new(rules.clone())).action;
        let extra = Rule { action: Action::Deny, ..extra };
        let mut more = rules;
        more.insert(at.index(more.len() + 1), extra.clone());
        let after = target.decide(&Policy::new(more)).action;
        prop_assert!(is_narrower_or_equal(after, before));
        if target.decide(&Policy::new([extra])).action == Action::Deny {
            prop_assert_eq!(after, Action::Deny);
        } else {
            prop_assert_eq!(after, before);
        }
    }

    #[test]
    fn the_order_and_the_scope_of_denies_do_not_matter(
        rules in vec(a_rule(), 0..8),
        shuffled in vec(a_rule(), 0..8).prop_shuffle(),
        target in a_target(),
    ) {
        let denies = |rules: &[Rule]| -> Vec<Rule> {
            rules.iter().map(|rule| Rule { action: Action::Deny, ..rule.clone() }).collect()
        };
        let forward = [rules.clone(), denies(&shuffled)].concat();
        let mut backward = denies(&shuffled);
        backward.reverse();
        for deny in &mut backward {
            deny.scope = RuleScope::Project;
        }
        backward.extend(rules);
        prop_assert_eq!(
            target.decide(&Policy::new(forward)).action,
            target.decide(&Policy::new(backward)).action
        );
    }
}
