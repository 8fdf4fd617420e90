//! Parses one settings file.
//!
//! An invalid value is reported and then treated as absent, so that one run reports all problems.
//! Invariant: a problem in a restriction is an error. A managed-only key in another file is a
//! warning, because the key has no effect there. A problem in a limit is a warning, because the
//! default applies then.

use std::ops::RangeInclusive;

use super::{
    DisabledServer, LimitValue, RuleAction, RuleHint, RuleSetting, RuleValidator, VariableSetting,
    can_match_mcp_tool,
};
use crate::diagnostic::Severity;
use crate::key_table::{
    self, COUNT_RANGE, DEADLINE_KEYS, LIMIT_KEYS, LIMIT_RANGE, RULE_KEYS, TIMEOUT_RANGE,
};
use crate::nearest::nearest;
use crate::raw::{Problem, RawKind, RawMember, RawValue, SourceText, Span};
use crate::scope::Scope;
use crate::server_policy::{Profile, ServerMatch, ServerPolicy};
use crate::text::replace_control_chars;

/// Maximum number of rules in one file.
const MAX_RULES: usize = 10_000;

/// The variable with which a host marks its children.
const RESERVED_VARIABLE: &str = "SWITCHBOARD_CHILD";

const RULE_EXAMPLE: &str = r#"write { "tool": "mcp__server__tool", "action": "allow" }"#;
const MATCH_EXAMPLE: &str =
    r#"write { "name": "…" }, { "command": ["…"] } or { "url": "https://host/*" }"#;

const ACTIONS: [(&str, RuleAction); 3] = [
    ("allow", RuleAction::Allow),
    ("ask", RuleAction::Ask),
    ("deny", RuleAction::Deny),
];

const HINTS: [(&str, RuleHint); 3] = [
    ("readOnly", RuleHint::ReadOnly),
    ("destructive", RuleHint::Destructive),
    ("openWorld", RuleHint::OpenWorld),
];

const PROFILES: [(&str, Profile); 2] = [("local", Profile::Local), ("server", Profile::Server)];

pub(super) struct SettingsParser<'a> {
    pub(super) scope: Scope,
    pub(super) validator: RuleValidator,
    pub(super) text: &'a SourceText,
    pub(super) rules: Vec<RuleSetting>,
    pub(super) disabled: Vec<DisabledServer>,
    pub(super) limits: Vec<LimitValue>,
    pub(super) variables: Vec<VariableSetting>,
    /// The values of variables, which may be secrets.
    pub(super) secret_spans: Vec<Span>,
    pub(super) policy: ServerPolicy,
    pub(super) problems: Vec<Problem>,
}

impl<'a> SettingsParser<'a> {
    pub(super) fn new(scope: Scope, validator: RuleValidator, text: &'a SourceText) -> Self {
        Self {
            scope,
            validator,
            text,
            rules: Vec::new(),
            disabled: Vec::new(),
            limits: Vec::new(),
            variables: Vec::new(),
            secret_spans: Vec::new(),
            policy: ServerPolicy::default(),
            problems: Vec::new(),
        }
    }

    pub(super) fn read(&mut self, root: &RawValue) {
        for member in root.members() {
            match member.key.as_str() {
                "permissions" => self.read_rules(member),
                "disabledServers" => self.read_disabled(member),
                "env" => self.read_variables(member),
                "limits" => self.read_limits(member, &LIMIT_KEYS, LIMIT_RANGE),
                "deadlines" => self.read_limits(member, &DEADLINE_KEYS, TIMEOUT_RANGE),
                "startConcurrency" => self.read_number(member, "startConcurrency", COUNT_RANGE),
                "$schema" => {}
                key if self.scope == Scope::Managed && key_table::is_managed_key(key) => {
                    self.read_policy(member);
                }
                _ => self.report_unknown(member),
            }
        }
    }

    fn read_rules(&mut self, member: &RawMember) {
        if matches!(member.value.kind, RawKind::Object(_)) {
            return self.read_claude_permissions(member);
        }
        for item in self.items(member, "rules").iter().take(MAX_RULES) {
            if let Some(rule) = self.read_rule(item) {
                self.rules.push(rule);
            }
        }
        if let RawKind::List(items) = &member.value.kind
            && let Some(first) = items.get(MAX_RULES)
        {
            let message = format!("more than {MAX_RULES} rules");
            self.fail(first.span, message, "combine rules with globs");
        }
    }

    fn read_rule(&mut self, rule: &RawValue) -> Option<RuleSetting> {
        if !matches!(rule.kind, RawKind::Object(_)) {
            let message = format!("a rule must be an object, not {}", rule.kind_name());
            self.fail(rule.span, message, RULE_EXAMPLE);
            return None;
        }
        // An unknown key is an error: if it was meant to narrow the rule, ignoring the key would
        // make the rule match more calls.
        let is_unknown = |member: &&RawMember| !RULE_KEYS.contains(&member.key.as_str());
        let unknown = rule.members().iter().filter(is_unknown);
        for member in unknown.collect::<Vec<_>>() {
            let message = unknown_key(&member.key, &RULE_KEYS);
            let known = format!("known keys: {}", comma_separated(&RULE_KEYS));
            self.fail(member.key_span, message, &known);
        }
        let tool = self.required_text(rule, "tool");
        let tool = tool.filter(|(text, span)| self.check(self.validator.tool, text, *span));
        let action = self.required(rule, "action");
        let action = action.and_then(|action| self.enum_value(action, &ACTIONS));
        // `hint` is optional, but an invalid hint makes the rule invalid.
        let hint = match rule.member("hint") {
            None => Some(None),
            Some(hint) => self.enum_value(hint, &HINTS).map(Some),
        };
        let patterns = self.patterns(rule);
        let (tool, tool_span) = tool?;
        let setting = RuleSetting {
            tool,
            patterns: patterns?,
            hint: hint?,
            action: action?,
            scope: self.scope,
            origin: self.text.origin(rule.span),
        };
        self.warn_if_unmatchable(&setting.tool, tool_span);
        Some(setting)
    }

    /// Reads one pattern or a list of patterns. Returns `None` if one is invalid.
    fn patterns(&mut self, rule: &RawValue) -> Option<Vec<String>> {
        let Some(member) = rule.member("pattern") else {
            return Some(Vec::new());
        };
        let items = match &member.value.kind {
            RawKind::List(items) => items.as_slice(),
            _ => std::slice::from_ref(&member.value),
        };
        if items.is_empty() {
            let hint = "remove it, or write \"name=glob\"";
            self.fail(member.value.span, "`pattern` is empty".to_owned(), hint);
            return None;
        }
        let mut patterns = Some(Vec::new());
        for item in items {
            let text = self.text_of("pattern", item);
            let text = text.filter(|text| self.check(self.validator.pattern, text, item.span));
            patterns = patterns.zip(text).map(|(mut patterns, text)| {
                patterns.push(text);
                patterns
            });
        }
        patterns
    }

    /// Warns about a pattern that matches no MCP tool, because its rule has no effect.
    fn warn_if_unmatchable(&mut self, pattern: &str, span: Span) {
        if can_match_mcp_tool(pattern) {
            return;
        }
        let pattern = replace_control_chars(pattern);
        self.problems.push(Problem {
            severity: Severity::Warning,
            message: format!("this rule has no effect: `{pattern}` matches no MCP tool"),
            hint: Some(format!("did you mean `mcp__{pattern}`?")),
            span: Some(span),
            server: None,
        });
    }

    pub(super) fn check(
        &mut self,
        validator: fn(&str) -> Result<(), String>,
        text: &str,
        span: Span,
    ) -> bool {
        let outcome = validator(text);
        if let Err(message) = &outcome {
            self.problems.push(Problem {
                severity: Severity::Error,
                message: replace_control_chars(message),
                hint: None,
                span: Some(span),
                server: None,
            });
        }
        outcome.is_ok()
    }

    fn read_disabled(&mut self, member: &RawMember) {
        for item in self.items(member, "names of servers") {
            if let Some(name) = self.text_of(&member.key, item) {
                self.disabled.push(DisabledServer {
                    name,
                    scope: self.scope,
                    origin: self.text.origin(item.span),
                });
            }
        }
    }

    fn read_variables(&mut self, member: &RawMember) {
        for variable in member.value.members() {
            self.secret_spans.push(variable.value.span);
        }
        if self.scope == Scope::Project {
            let message = "`env` is ignored in the settings of a project".to_owned();
            return self.warn(member.key_span, message);
        }
        if !matches!(member.value.kind, RawKind::Object(_)) {
            let message = wrong_type(&member.key, "an object of strings", &member.value);
            return self.warn(member.key_span, message);
        }
        for variable in member.value.members() {
            match variable_value(variable) {
                Ok(value) => self.variables.push(VariableSetting {
                    name: variable.key.clone(),
                    value,
                    scope: self.scope,
                }),
                Err(problem) => {
                    let name = replace_control_chars(&variable.key);
                    let message = format!("`{name}` in `env` {problem}; ignored");
                    self.warn(variable.key_span, message);
                }
            }
        }
    }

    fn read_limits(
        &mut self,
        group: &RawMember,
        known: &'static [&'static str],
        range: RangeInclusive<u64>,
    ) {
        if !matches!(group.value.kind, RawKind::Object(_)) {
            let found = group.value.kind_name();
            let message = format!("`{}` must be an object, not {found}", group.key);
            return self.warn(group.value.span, message);
        }
        for member in group.value.members() {
            let current = key_table::current_key(&member.key);
            if let Some(current) = current
                && group.value.member(current).is_some()
            {
                let message = format!(
                    "`{}` is ignored: it is the old name of `{current}`, which is also set",
                    member.key
                );
                self.warn(member.key_span, message);
                continue;
            }
            let name = current.unwrap_or(&member.key);
            let Some(key) = known.iter().find(|key| **key == name) else {
                self.warn(member.key_span, unknown_key(&member.key, known));
                continue;
            };
            self.read_number(member, key, range.clone());
        }
    }

    /// Reads a limit or deadline.
    fn read_number(&mut self, member: &RawMember, key: &'static str, range: RangeInclusive<u64>) {
        let number = match &member.value.kind {
            RawKind::Number(digits) => digits.parse().ok(),
            _ => None,
        };
        match number.filter(|number| range.contains(number)) {
            Some(value) => self.limits.push(LimitValue {
                key,
                value,
                scope: self.scope,
            }),
            None => {
                let (low, high) = (range.start(), range.end());
                let message = format!(
                    "`{}` must be a whole number from {low} to {high}; using the default",
                    member.key
                );
                self.warn(member.value.span, message);
            }
        }
    }

    fn read_policy(&mut self, member: &RawMember) {
        match member.key.as_str() {
            // A list with an invalid item is still an allow list: servers it does not name are not
            // allowed.
            "allowedServers" => self.policy.allowed = Some(self.server_matches(member)),
            "deniedServers" => self.policy.denied = self.server_matches(member),
            "profile" => {
                self.policy.profile = self.enum_value(member, &PROFILES).unwrap_or_default();
            }
            _ => match member.value.kind {
                RawKind::Bool(flag) => self.policy.managed_only = flag,
                _ => {
                    let message = wrong_type(&member.key, "true or false", &member.value);
                    self.fail(member.value.span, message, "write true or false");
                }
            },
        }
    }

    fn server_matches(&mut self, member: &RawMember) -> Vec<ServerMatch> {
        let items = self.items(member, "servers");
        let items = items.iter().filter_map(|item| {
            let found = server_match(item);
            if found.is_none() {
                let message = format!("invalid entry in `{}`", member.key);
                self.fail(item.span, message, MATCH_EXAMPLE);
            }
            found
        });
        items.collect()
    }

    /// Returns the items of a list. If the value is not a list, reports it and returns no items.
    fn items<'v>(&mut self, member: &'v RawMember, of: &str) -> &'v [RawValue] {
        if let RawKind::List(items) = &member.value.kind {
            return items;
        }
        let message = wrong_type(&member.key, &format!("a list of {of}"), &member.value);
        self.fail(member.value.span, message, "expected a list: [ … ]");
        &[]
    }

    fn required<'v>(&mut self, rule: &'v RawValue, key: &str) -> Option<&'v RawMember> {
        let member = rule.member(key);
        if member.is_none() {
            let message = format!("`{key}` is missing in this rule");
            self.fail(rule.span, message, RULE_EXAMPLE);
        }
        member
    }

    fn required_text(&mut self, rule: &RawValue, key: &str) -> Option<(String, Span)> {
        let member = self.required(rule, key)?;
        let text = self.text_of(key, &member.value)?;
        Some((text, member.value.span))
    }

    fn text_of(&mut self, key: &str, value: &RawValue) -> Option<String> {
        if let RawKind::Text(text) = &value.kind {
            return Some(text.clone());
        }
        let message = wrong_type(key, "a string", value);
        self.fail(value.span, message, "put it in double quotes");
        None
    }

    /// Reads a string that must be one of the names in `values`.
    fn enum_value<T: Copy>(&mut self, member: &RawMember, values: &[(&str, T)]) -> Option<T> {
        let written = match &member.value.kind {
            RawKind::Text(written) => written.as_str(),
            _ => "",
        };
        let known = values.iter().find(|(name, _)| *name == written);
        if known.is_none() {
            let names: Vec<_> = values.iter().map(|(name, _)| *name).collect();
            let message = match nearest(written, &names) {
                Some(name) => format!("unknown `{}`; did you mean `{name}`?", member.key),
                None => format!("unknown `{}`", member.key),
            };
            self.fail(
                member.value.span,
                message,
                &format!("one of {}", comma_separated(&names)),
            );
        }
        known.map(|(_, value)| *value)
    }

    fn report_unknown(&mut self, member: &RawMember) {
        if key_table::is_managed_key(&member.key) {
            let message = format!(
                "`{}` is only allowed in managed settings; ignored",
                member.key
            );
            return self.warn(member.key_span, message);
        }
        let known = key_table::known_settings_keys(self.scope);
        let message = unknown_key(&member.key, &known);
        match nearest(&member.key, &known).filter(|key| key_table::is_restrictive_key(key)) {
            Some(key) => self.fail(member.key_span, message, &format!("write `{key}`")),
            None => self.warn(member.key_span, message),
        }
    }

    pub(super) fn fail(&mut self, span: Span, message: String, hint: &str) {
        self.problems.push(Problem {
            severity: Severity::Error,
            message,
            hint: Some(hint.to_owned()),
            span: Some(span),
            server: None,
        });
    }

    pub(super) fn warn(&mut self, span: Span, message: String) {
        self.problems.push(Problem {
            severity: Severity::Warning,
            message,
            hint: None,
            span: Some(span),
            server: None,
        });
    }
}

/// Returns the value of a variable, or what is wrong with the variable.
fn variable_value(variable: &RawMember) -> Result<String, &'static str> {
    let name = variable.key.as_str();
    if name.is_empty() || name.contains(['=', '\0']) {
        return Err("is not the name of a variable");
    }
    if name == RESERVED_VARIABLE {
        return Err("is reserved");
    }
    match &variable.value.kind {
        RawKind::Text(text) if text.contains('\0') => Err("contains a NUL character"),
        RawKind::Text(text) => Ok(text.clone()),
        RawKind::Number(digits) => Ok(digits.clone()),
        RawKind::Bool(flag) => Ok(flag.to_string()),
        _ => Err("must be a string"),
    }
}

fn server_match(item: &RawValue) -> Option<ServerMatch> {
    let [member] = item.members() else {
        return None;
    };
    match (member.key.as_str(), &member.value.kind) {
        ("name", RawKind::Text(name)) => Some(ServerMatch::Name(name.clone())),
        ("url", RawKind::Text(url)) => Some(ServerMatch::Url(url.clone())),
        ("command", RawKind::List(words)) if !words.is_empty() => {
            let words = words.iter().map(|word| match &word.kind {
                RawKind::Text(word) => Some(word.clone()),
                _ => None,
            });
            words.collect::<Option<_>>().map(ServerMatch::Command)
        }
        _ => None,
    }
}

fn wrong_type(key: &str, expected: &str, found: &RawValue) -> String {
    format!("`{key}` must be {expected}, not {}", found.kind_name())
}

fn unknown_key(key: &str, known: &[&str]) -> String {
    let nearest = nearest(key, known);
    let key = replace_control_chars(key);
    match nearest {
        Some(known) => format!("unknown key `{key}`; did you mean `{known}`?"),
        None => format!("unknown key `{key}`"),
    }
}

fn comma_separated(names: &[&str]) -> String {
    names.join(", ")
}
