//! Translates the `permissions` object of Claude Code to rules.
//!
//! `{"allow": ["mcp__server__tool"], "ask": […], "deny": […]}`. Only entries that name MCP tools
//! become rules; all other entries are for the tools of Claude Code and are reported once as ignored.
//! Invariant: a restriction that could apply to an MCP tool is never ignored.

use super::parse::SettingsParser;
use super::{MCP_TOOL_PREFIX, RuleAction, RuleSetting, can_match_mcp_tool};
use crate::nearest::nearest;
use crate::raw::{RawKind, RawMember, RawValue};
use crate::text::replace_control_chars;

/// The lists, in the order of their precedence in Claude Code.
const LISTS: [(&str, RuleAction); 3] = [
    ("deny", RuleAction::Deny),
    ("ask", RuleAction::Ask),
    ("allow", RuleAction::Allow),
];
/// Maximum number of ignored entries that the diagnostic names.
const MAX_NAMED: usize = 5;
/// Maximum number of entries of one list.
const MAX_ENTRIES: usize = 10_000;

impl SettingsParser<'_> {
    pub(super) fn read_claude_permissions(&mut self, permissions: &RawMember) {
        let mut ignored = Vec::new();
        for member in permissions.value.members() {
            let names = LISTS.map(|(name, _)| name);
            if names.contains(&member.key.as_str()) {
                continue;
            }
            // A misspelt list may contain restrictions.
            match nearest(&member.key, &names) {
                Some(name) => {
                    let key = replace_control_chars(&member.key);
                    let message = format!("unknown key `{key}`; did you mean `{name}`?");
                    self.fail(member.key_span, message, &format!("write `{name}`"));
                }
                None => ignored.push(member.key.clone()),
            }
        }
        for (name, action) in LISTS {
            if let Some(list) = permissions.value.member(name) {
                self.read_list(list, action, &mut ignored);
            }
        }
        if !ignored.is_empty() {
            let message = describe_ignored(&ignored);
            self.warn(permissions.key_span, message);
        }
    }

    fn read_list(&mut self, list: &RawMember, action: RuleAction, ignored: &mut Vec<String>) {
        let RawKind::List(items) = &list.value.kind else {
            let message = format!("`{}` must be a list of tool names", list.key);
            return self.fail(list.value.span, message, r#"write ["mcp__server__tool"]"#);
        };
        if let Some(first) = items.get(MAX_ENTRIES) {
            let message = format!("more than {MAX_ENTRIES} entries");
            self.fail(first.span, message, "combine entries with globs");
        }
        for item in items.iter().take(MAX_ENTRIES) {
            self.read_entry(item, action, ignored);
        }
    }

    fn read_entry(&mut self, item: &RawValue, action: RuleAction, ignored: &mut Vec<String>) {
        let RawKind::Text(tool) = &item.kind else {
            let message = format!("a tool name must be a string, not {}", item.kind_name());
            return self.fail(item.span, message, "put it in double quotes");
        };
        let is_for_mcp = match action {
            RuleAction::Allow => tool.starts_with(MCP_TOOL_PREFIX),
            // `*` also restricts MCP tools. `Bash(…)` and other names do not.
            RuleAction::Ask | RuleAction::Deny => can_match_mcp_tool(tool),
        };
        if !is_for_mcp {
            ignored.push(tool.clone());
        } else if self.check(self.validator.tool, tool, item.span) {
            self.rules.push(RuleSetting {
                tool: tool.clone(),
                patterns: Vec::new(),
                hint: None,
                action,
                scope: self.scope,
                origin: self.text.origin(item.span),
            });
        }
    }
}

fn describe_ignored(ignored: &[String]) -> String {
    let names = ignored.iter().take(MAX_NAMED);
    let mut names: Vec<_> = names
        .map(|name| format!("`{}`", replace_control_chars(name)))
        .collect();
    let more = ignored.len().saturating_sub(MAX_NAMED);
    if more > 0 {
        names.push(format!("{more} more"));
    }
    let names = names.join(", ");
    format!("ignored entries of `permissions` that name no MCP tool: {names}")
}
