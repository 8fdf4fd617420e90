//! Permission rules: building a rule, formatting it, and comparing it with a call.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;

use serde::Serialize;
use switchboard_config::SourcePos;
use switchboard_wire::mcp::Hint;

use super::arguments::ArgumentCondition;
use super::pattern::{InvalidPattern, Pattern};
use super::policy::{CallFacts, RuleSubject, SubjectTool};
use super::{Action, Decision, Reason};
use crate::id::ServerName;

/// Where a rule comes from. Scopes that are listed first are evaluated first, except that the deny
/// rules of all scopes come before all other rules.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum RuleScope {
    /// Written by the administrator of the machine.
    Managed,
    /// Passed on the command line.
    CommandLine,
    /// Added in code by the embedding program.
    Program,
    /// Written by the user, for one project.
    Local,
    /// Written by the user, for all projects.
    User,
    /// Written in the settings file of the project.
    Project,
}

impl fmt::Display for RuleScope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Managed => "managed",
            Self::CommandLine => "command line",
            Self::Program => "program",
            Self::Local => "local",
            Self::User => "user",
            Self::Project => "project",
        })
    }
}

/// A permission rule: an action for the tools that a pattern matches.
#[derive(Clone, Debug)]
pub struct Rule {
    pub(super) pattern: Pattern,
    /// The conditions on the arguments. The rule matches a call only if all conditions match.
    pub(super) conditions: Vec<ArgumentCondition>,
    /// The servers that the rule is limited to. `None`: all servers and local tools.
    pub(super) servers: Option<Arc<BTreeSet<ServerName>>>,
    pub(super) definition: Arc<RuleDefinition>,
    /// The position among all rules of a policy, sorted by scope. Zero until the rule is in a
    /// policy.
    pub(super) index: usize,
}

/// The text and the origin of a rule, as its author wrote it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct RuleDefinition {
    /// What happens to calls that the rule matches.
    pub action: Action,
    /// The pattern that selects tools, such as `mcp__files__read_*`.
    pub tool: String,
    /// The patterns for arguments, such as `path=/srv/*`. All must match.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub patterns: Vec<String>,
    /// The rule matches only tools that declare this hint. `None`: no hint is required.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hint: Option<Hint>,
    /// The scope that the rule comes from.
    pub scope: RuleScope,
    /// The settings file that contains the rule, and the position in that file.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub origin: Option<SourcePos>,
    /// Why the rule exists. Set for rules that a program added, and shown to the user instead of
    /// the pattern.
    #[serde(rename = "because", skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

impl Rule {
    /// Creates a rule with the scope [`RuleScope::Program`]. `tool` is the pattern for tools.
    pub fn new(action: Action, tool: &str) -> Result<Self, InvalidPattern> {
        Ok(Self {
            pattern: Pattern::parse(tool)?,
            conditions: Vec::new(),
            servers: None,
            definition: Arc::new(RuleDefinition {
                action,
                tool: tool.to_owned(),
                patterns: Vec::new(),
                hint: None,
                scope: RuleScope::Program,
                origin: None,
                reason: None,
            }),
            index: 0,
        })
    }

    /// Limits the rule to calls whose arguments match. With several patterns, all must match.
    ///
    /// ```
    /// use switchboard::permission::{Action, Rule};
    ///
    /// let rule = Rule::new(Action::Allow, "mcp__files__read_*")?.argument_pattern("path=/srv/*")?;
    /// # Ok::<(), switchboard::permission::InvalidPattern>(())
    /// ```
    pub fn argument_pattern(mut self, text: &str) -> Result<Self, InvalidPattern> {
        let condition = ArgumentCondition::parse(text);
        let condition = condition.map_err(|problem| InvalidPattern::new(text, problem))?;
        self.conditions.push(condition);
        self.definition_mut().patterns.push(text.to_owned());
        Ok(self)
    }

    /// Limits the rule to tools that declare `hint`. The rule then matches no local tool. An allow
    /// rule with a hint applies only to servers whose annotations are trusted.
    pub fn hint(mut self, hint: Hint) -> Self {
        self.definition_mut().hint = Some(hint);
        self
    }

    /// Limits the rule to these servers, even if its pattern matches tools of other servers. The
    /// rule then matches no local tool.
    ///
    /// Use this method for rules whose author controls only some servers. For example, an allow
    /// rule in a project file applies only to the servers of that project.
    ///
    /// ```
    /// use switchboard::id::ServerName;
    /// use switchboard::permission::{Action, Rule};
    ///
    /// let files = ServerName::new("files").unwrap();
    /// let rule = Rule::new(Action::Allow, "mcp__*")?.only_servers([files]);
    /// # Ok::<(), switchboard::permission::InvalidPattern>(())
    /// ```
    pub fn only_servers(mut self, servers: impl IntoIterator<Item = ServerName>) -> Self {
        self.servers = Some(Arc::new(servers.into_iter().collect()));
        self
    }

    /// Sets the scope of the rule.
    pub fn scope(mut self, scope: RuleScope) -> Self {
        self.definition_mut().scope = scope;
        self
    }

    /// Sets the settings file that contains the rule, and the position in that file.
    pub fn origin(mut self, origin: SourcePos) -> Self {
        self.definition_mut().origin = Some(origin);
        self
    }

    /// Sets why the rule exists, for rules that a program adds. The reason is shown to the user
    /// instead of the pattern.
    pub fn reason(mut self, reason: impl Into<String>) -> Self {
        self.definition_mut().reason = Some(reason.into());
        self
    }

    pub(super) fn definition_mut(&mut self) -> &mut RuleDefinition {
        Arc::make_mut(&mut self.definition)
    }

    pub(super) fn action(&self) -> Action {
        self.definition.action
    }

    pub(super) fn matches(&self, input: &RuleSubject<'_>) -> bool {
        let mode = self.action().match_mode();
        let matches = match &input.tool {
            SubjectTool::Local { name } => {
                self.servers.is_none()
                    && self.definition.hint.is_none()
                    && self.pattern.matches_local_tool(name, mode)
            }
            SubjectTool::Mcp {
                tool,
                wire_parts,
                former_wire_name,
            } => {
                self.applies_to_server(&tool.tool.server)
                    && self.hint_matches(tool)
                    && (self.pattern.matches_tool(tool, *wire_parts, mode)
                        || (former_wire_name.as_ref()).is_some_and(|name| {
                            self.pattern.matches_former_wire_name(name.as_str(), mode)
                        }))
            }
        };
        let mut conditions = self.conditions.iter();
        matches && conditions.all(|condition| condition.matches(&input.arguments, mode))
    }

    pub(super) fn applies_to_server(&self, server: &ServerName) -> bool {
        let servers = self.servers.as_ref();
        servers.is_none_or(|servers| servers.contains(server))
    }

    fn hint_matches(&self, input: &CallFacts<'_>) -> bool {
        self.definition.hint.is_none_or(|hint| {
            input.annotations.declares(hint)
                && (self.action() != Action::Allow || input.trust_annotations)
        })
    }

    pub(super) fn decision(&self) -> Decision {
        Decision {
            action: self.action(),
            reason: Reason::Rule(Arc::clone(&self.definition)),
        }
    }
}

impl fmt::Display for RuleDefinition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.reason {
            Some(reason) => f.write_str(reason)?,
            None => write!(f, "rule `{}`", self.tool)?,
        }
        for (index, pattern) in self.patterns.iter().enumerate() {
            let word = if index == 0 { "where" } else { "and" };
            write!(f, " {word} `{pattern}`")?;
        }
        if let Some(hint) = self.hint {
            write!(f, " with hint {}", hint.as_str())?;
        }
        match &self.origin {
            Some(origin) => write!(f, " ({}, {origin})", self.scope),
            None => write!(f, " ({})", self.scope),
        }
    }
}
