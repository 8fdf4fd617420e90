//! "Always": a rule written for a person who does not want to be asked again.
//!
//! The rule is visible, in the settings of the user's own choice, and says no more than what was asked.
//! Invariant: nothing is ever written into a project's own file.

use std::path::PathBuf;

use serde_json::json;
use switchboard::id::ToolId;
use switchboard::permission::{Action, Decision, Reason, Rule, RuleScope};
use switchboard_config::{EditError, JsonEditor, Places, Scope};

use crate::render::text::path;

/// A location that such a rule can be written to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct RuleFile {
    pub(crate) scope: RuleScope,
    file: PathBuf,
}

/// What was written, and where.
#[derive(Debug)]
pub(crate) struct SavedRule {
    pub(crate) rule: String,
    /// The file and the line.
    pub(crate) location: String,
}

/// The places, the first of which is meant where nothing is said.
pub(crate) fn rule_files(places: &Places) -> Vec<RuleFile> {
    let file = |(scope, of): (RuleScope, Scope)| {
        let file = places.settings_file(of)?;
        Some(RuleFile { scope, file })
    };
    [
        (RuleScope::Local, Scope::Local),
        (RuleScope::User, Scope::User),
    ]
    .into_iter()
    .filter_map(file)
    .collect()
}

impl RuleFile {
    /// Whether a rule written here would spare the question: one that is read earlier, or stands here
    /// already, would go on asking.
    pub(crate) fn overrides(&self, asked: &Decision) -> bool {
        match &asked.reason {
            Reason::Rule(rule) => self.scope < rule.scope,
            _ => true,
        }
    }

    /// Writes a rule that allows this tool.
    pub(crate) fn allow(&self, pattern: &str) -> Result<SavedRule, EditError> {
        let rule = json!({"tool": pattern, "action": "allow"});
        let mut file = JsonEditor::open(&self.file)?;
        file.append(&["permissions"], &rule)?;
        let name = json!(pattern).to_string();
        let line = file.text().lines().enumerate();
        let line = line.filter(|(_, line)| line.contains(&name)).last();
        let location = match line {
            Some((before, _)) => format!("{}:{}", path(file.path()), before + 1),
            None => path(file.path()),
        };
        file.save()?;
        Ok(SavedRule {
            rule: format!(r#"{{ "tool": {name}, "action": "allow" }}"#),
            location,
        })
    }
}

/// The pattern that fits this tool and no other; `None` where there is none.
///
/// Made of the raw names, because an allow is held against them.
pub(crate) fn pattern(tool: &ToolId) -> Option<String> {
    let (server, name) = (tool.server.as_str(), tool.tool.as_str());
    // A pattern splits at the first `__`, wherever that came from.
    if server.contains("__") || server.ends_with('_') {
        return None;
    }
    let pattern = format!("mcp__{}__{}", escape_glob(server), escape_glob(name));
    Rule::new(Action::Allow, &pattern).ok().map(|_| pattern)
}

/// A glob that stands for this text alone.
fn escape_glob(text: &str) -> String {
    let mut glob = String::with_capacity(text.len());
    for letter in text.chars() {
        if matches!(letter, '*' | '?' | '[' | ']' | '{' | '}' | '(' | ')' | '\\') {
            glob.push('\\');
        }
        glob.push(letter);
    }
    glob
}

#[cfg(test)]
mod tests {
    use switchboard::id::ServerName;
    use switchboard::mcp::ToolAnnotations;
    use switchboard::naming::wire_name;
    use switchboard::permission::{Policy, Subject};

    use super::*;

    #[test]
    fn the_pattern_fits_its_tool_and_no_other() {
        let names = [
            "read", "a.b", "*", "[a]", "f(x)", "{a,b}", r"a\b", "a__b", "?",
        ];
        let id = |name: &str| ToolId::new(ServerName::new("fs").unwrap(), name);
        for name in names {
            let pattern = pattern(&id(name)).unwrap();
            let policy = Policy::new([Rule::new(Action::Allow, &pattern).unwrap()]);
            for other in names {
                let tool = id(other);
                let decided = policy.decide(&Subject {
                    tool: &tool,
                    wire: &wire_name(&tool.server, &tool.tool),
                    annotations: &ToolAnnotations::default(),
                    trusts_annotations: false,
                    arguments: None,
                });
                let is_allowed = decided.action == Action::Allow;
                assert_eq!(is_allowed, other == name, "{pattern} on {other}");
            }
        }
    }

    #[test]
    fn what_no_pattern_can_say_has_none() {
        for (server, name) in [("a__b", "t"), ("a_", "t"), ("a", ""), ("a", "x\ny")] {
            let tool = ToolId::new(ServerName::new(server).unwrap(), name);
            assert_eq!(pattern(&tool), None, "{server} {name:?}");
        }
    }
}
