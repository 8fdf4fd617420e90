//! Whether a tool may be called: rules in, a decision with its reason out.
//!
//! Pure and compiled once. It does not read settings, ask anybody, or know whether a project is
//! trusted: who builds the [`Policy`] leaves out what does not count.
//!
//! A pattern is one of these, where `s`, `t` and `name` are globs (`*`, `?`, `[…]`):
//!
//! | pattern | fits |
//! |---|---|
//! | `mcp__s` | every tool of server `s` |
//! | `mcp__s__t` | tool `t` of server `s`; split at the first `__` after `mcp__` |
//! | `*` | everything |
//! | `name` | local tools of that name |
//!
//! An allow is held against the pair (server, raw tool name) only. A deny or an ask narrows, so it
//! also counts when it fits the wire name, by its parts or as a whole: whatever spelling its author
//! had before their eyes, it holds.
//!
//! A rule may be narrowed to some servers by their names, to a hint that the tool declares, and to the
//! arguments of the call: what a condition on them looks like and when it holds is in `permission/argument.rs`.
//!
//! Invariant: a deny that fits wins over everything, in whichever scope and place it stands.

use std::collections::BTreeSet;
use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use switchboard_config::SourcePos;

use switchboard_wire::naming::{PREFIX, SEPARATOR, server_part, split_wire_name};
use crate::id::{ServerName, ToolId, WireName};
use crate::mcp::{Hint, ToolAnnotations};

mod arguments;
mod glob;
mod pattern;
mod request;
#[cfg(test)]
mod tests;

use arguments::Condition;
pub use pattern::InvalidPattern;
use pattern::Pattern;
pub use request::{Denial, PermissionRequest, PermissionResponse};

/// What a rule says, and what is decided.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Action {
    /// Call it.
    Allow,
    /// Ask a person first.
    Ask,
    /// Do not call it.
    Deny,
}

impl Action {
    fn as_str(self) -> &'static str {
        match self {
            Self::Allow => "allow",
            Self::Ask => "ask",
            Self::Deny => "deny",
        }
    }
}

impl fmt::Display for Action {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// The text is none of the three actions.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is no action: write `allow`, `ask` or `deny`")]
pub struct UnknownAction(String);

impl FromStr for Action {
    type Err = UnknownAction;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        [Self::Allow, Self::Ask, Self::Deny]
            .into_iter()
            .find(|action| action.as_str() == text)
            .ok_or_else(|| UnknownAction(text.to_owned()))
    }
}

/// Where a rule was written, in the order in which rules are read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum RuleScope {
    /// By whoever administers the machine.
    Managed,
    /// On the command line, or by the embedding program.
    CommandLine,
    /// By this user for this project.
    Local,
    /// By this user.
    User,
    /// In the project's own file.
    Project,
}

impl fmt::Display for RuleScope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Managed => "managed",
            Self::CommandLine => "command line",
            Self::Local => "local",
            Self::User => "user",
            Self::Project => "project",
        })
    }
}

/// One rule: an action for the tools that a pattern fits.
#[derive(Clone, Debug)]
pub struct Rule {
    pattern: Pattern,
    /// All of them have to hold.
    conditions: Vec<Condition>,
    /// The only servers that it is about, if it is not about all.
    servers: Option<Arc<BTreeSet<ServerName>>>,
    written: Arc<RuleDefinition>,
    /// Its place among the rules of a policy.
    place: usize,
}

/// A rule as somebody wrote it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct RuleDefinition {
    /// What it says.
    pub action: Action,
    /// Which tools it is about.
    pub tool: String,
    /// What has to hold of the arguments.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub patterns: Vec<String>,
    /// The hint that a tool has to declare.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hint: Option<Hint>,
    /// In which scope it was written.
    pub scope: RuleScope,
    /// Where, if in a file.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub origin: Option<SourcePos>,
    /// Why there is such a rule, if nobody wrote it.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[serde(rename = "because")]
    pub reason: Option<String>,
}

impl Rule {
    /// A rule of the command line's scope.
    pub fn new(action: Action, tool: &str) -> Result<Self, InvalidPattern> {
        Ok(Self {
            pattern: Pattern::parse(tool)?,
            conditions: Vec::new(),
            servers: None,
            written: Arc::new(RuleDefinition {
                action,
                tool: tool.to_owned(),
                patterns: Vec::new(),
                hint: None,
                scope: RuleScope::CommandLine,
                origin: None,
                reason: None,
            }),
            place: 0,
        })
    }

    /// Narrows the rule to calls whose arguments fit; of several patterns all have to.
    ///
    /// ```
    /// use switchboard::permission::{Action, Rule};
    ///
    /// let rule = Rule::new(Action::Allow, "mcp__files__read_*")?.argument_pattern("path=/srv/*")?;
    /// # Ok::<(), switchboard::permission::InvalidPattern>(())
    /// ```
    pub fn argument_pattern(mut self, text: &str) -> Result<Self, InvalidPattern> {
        let condition = Condition::parse(text);
        let condition = condition.map_err(|problem| InvalidPattern::new(text, problem))?;
        self.conditions.push(condition);
        self.written_mut().patterns.push(text.to_owned());
        Ok(self)
    }

    /// Narrows the rule to tools that declare `hint`. An allow then counts only for servers whose
    /// annotations are trusted.
    pub fn hint(mut self, hint: Hint) -> Self {
        self.written_mut().hint = Some(hint);
        self
    }

    /// Narrows the rule to the tools of these servers, whatever else its pattern fits; local tools are
    /// none of them. For rules of somebody who may speak for some servers only: what a project allows
    /// counts for the project's own.
    ///
    /// ```
    /// use switchboard::id::ServerName;
    /// use switchboard::permission::{Action, Rule};
    ///
    /// let own = ServerName::new("files").unwrap();
    /// let rule = Rule::new(Action::Allow, "mcp__*")?.only_servers([own]);
    /// # Ok::<(), switchboard::permission::InvalidPattern>(())
    /// ```
    pub fn only_servers(mut self, servers: impl IntoIterator<Item = ServerName>) -> Self {
        self.servers = Some(Arc::new(servers.into_iter().collect()));
        self
    }

    /// Says in which scope the rule was written.
    pub fn scope(mut self, scope: RuleScope) -> Self {
        self.written_mut().scope = scope;
        self
    }

    /// Says where the rule was written.
    pub fn origin(mut self, origin: SourcePos) -> Self {
        self.written_mut().origin = Some(origin);
        self
    }

    /// Says why there is such a rule, where nobody wrote it: told instead of the rule.
    pub fn reason(mut self, reason: impl Into<String>) -> Self {
        self.written_mut().reason = Some(reason.into());
        self
    }

    fn written_mut(&mut self) -> &mut RuleDefinition {
        Arc::make_mut(&mut self.written)
    }

    fn action(&self) -> Action {
        self.written.action
    }

    fn covers(&self, subject: &Asked<'_>) -> bool {
        let narrows = self.action() != Action::Allow;
        let (fits, arguments) = match subject {
            Asked::Local { name, arguments } => (
                self.servers.is_none()
                    && self.written.hint.is_none()
                    && self.pattern.fits_local(name, narrows),
                *arguments,
            ),
            Asked::Tool { of, spelled } => (
                self.is_about(&of.tool.server)
                    && self.hint_holds(of)
                    && self.pattern.fits_tool(of, *spelled, narrows),
                of.arguments,
            ),
        };
        fits && self
            .conditions
            .iter()
            .all(|condition| condition.fits(arguments, narrows))
    }

    fn is_about(&self, server: &ServerName) -> bool {
        let servers = self.servers.as_ref();
        servers.is_none_or(|servers| servers.contains(server))
    }

    fn hint_holds(&self, subject: &PolicyInput<'_>) -> bool {
        self.written.hint.is_none_or(|hint| {
            subject.annotations.declares(hint)
                && (self.action() != Action::Allow || subject.trust_annotations)
        })
    }

    fn decision(&self) -> Decision {
        Decision {
            action: self.action(),
            reason: Reason::Rule(Arc::clone(&self.written)),
        }
    }
}

/// The tool that is to be called.
#[derive(Clone, Copy, Debug)]
pub struct PolicyInput<'a> {
    /// The pair.
    pub tool: &'a ToolId,
    /// How the pair is spelled for the model.
    pub wire_name: &'a WireName,
    /// What the server claims of the tool.
    pub annotations: &'a ToolAnnotations,
    /// Whether the server's entry says that such claims may be believed.
    pub trust_annotations: bool,
    /// What would be sent; `None` where that is not known. Then rules that look at arguments count as
    /// far as they narrow.
    pub arguments: Option<&'a Map<String, Value>>,
}

/// A subject, with what all rules need to know of it found out once.
enum Asked<'a> {
    Tool {
        of: &'a PolicyInput<'a>,
        /// The parts of the wire name, where they say anything that the pair does not.
        spelled: Option<(&'a str, &'a str)>,
    },
    Local {
        name: &'a str,
        arguments: Option<&'a Map<String, Value>>,
    },
}

impl<'a> Asked<'a> {
    fn about(of: &'a PolicyInput<'a>) -> Self {
        let spelled = if is_spelled_out(of) {
            None
        } else {
            split_wire_name(of.wire_name.as_str())
        };
        Self::Tool { of, spelled }
    }
}

/// Whether the wire name is the pair itself, as nearly all are.
fn is_spelled_out(subject: &PolicyInput<'_>) -> bool {
    let ToolId { server, tool, .. } = subject.tool;
    let rest = subject.wire_name.as_str().strip_prefix(PREFIX);
    let rest = rest.and_then(|rest| rest.strip_prefix(server.as_str()));
    rest.and_then(|rest| rest.strip_prefix(SEPARATOR)) == Some(tool.as_str())
}

/// What was decided, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Decision {
    /// What to do.
    pub action: Action,
    /// On which grounds.
    pub reason: Reason,
}

/// The grounds of a decision.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Reason {
    /// A rule fits.
    Rule(Arc<RuleDefinition>),
    /// No rule fits.
    Default,
}

impl fmt::Display for Decision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.action {
            Action::Allow => "allowed",
            Action::Ask => "to be asked about",
            Action::Deny => "denied",
        })?;
        match &self.reason {
            Reason::Default => f.write_str(": no rule fits"),
            Reason::Rule(rule) if rule.reason.is_some() => write!(f, ": {rule}"),
            Reason::Rule(rule) => write!(f, " by {rule}"),
        }
    }
}

impl fmt::Display for RuleDefinition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.reason {
            Some(reason) => f.write_str(reason)?,
            None => write!(f, "rule `{}`", self.tool)?,
        }
        for (place, pattern) in self.patterns.iter().enumerate() {
            let word = if place == 0 { "where" } else { "and" };
            write!(f, " {word} `{pattern}`")?;
        }
        if let Some(hint) = self.hint {
            write!(f, " with hint {}", spell_hint(hint))?;
        }
        match &self.origin {
            Some(origin) => write!(f, " ({}, {origin})", self.scope),
            None => write!(f, " ({})", self.scope),
        }
    }
}

fn spell_hint(hint: Hint) -> &'static str {
    match hint {
        Hint::ReadOnly => "readOnly",
        Hint::Destructive => "destructive",
        Hint::OpenWorld => "openWorld",
    }
}

/// A set of rules, in reading order. The default has none and asks about everything.
#[derive(Clone, Debug, Default)]
pub struct Policy {
    /// Searched first; the earliest that fits is the one named.
    denies: Vec<Rule>,
    /// Allows and asks; the first that fits decides.
    others: Vec<Rule>,
}

impl Policy {
    /// Puts rules into reading order: by scope, and within a scope as given.
    pub fn new(rules: impl IntoIterator<Item = Rule>) -> Self {
        let mut rules: Vec<Rule> = rules.into_iter().collect();
        rules.sort_by_key(|rule| rule.written.scope);
        for (place, rule) in rules.iter_mut().enumerate() {
            rule.place = place;
        }
        let (denies, others) = rules
            .into_iter()
            .partition(|rule| rule.action() == Action::Deny);
        Self { denies, others }
    }

    /// Decides on a tool of an MCP server.
    pub fn decide(&self, subject: &PolicyInput<'_>) -> Decision {
        self.decide_on(&Asked::about(subject))
    }

    /// What stands in the way of calling a tool of an MCP server. Mostly nothing does, and then nobody
    /// wants to know which rule allows it.
    pub(crate) fn deny_or_ask(&self, subject: &PolicyInput<'_>) -> Option<Decision> {
        match self.deciding(&Asked::about(subject)) {
            Some(rule) if rule.action() == Action::Allow => None,
            rule => Some(decision(rule)),
        }
    }

    /// Decides on a local tool, one that no MCP server offers.
    pub fn decide_local(&self, name: &str, arguments: &Map<String, Value>) -> Decision {
        let arguments = Some(arguments);
        self.decide_on(&Asked::Local { name, arguments })
    }

    /// The rule that denies all of a server, if there is one: then nothing else of it may be used
    /// either. A rule about some of its tools, some calls or some hints does not.
    pub fn server_denial(&self, server: &ServerName) -> Option<Decision> {
        let spelled = server_part(server);
        let mut denies = self.denies.iter();
        denies
            .find(|rule| {
                rule.conditions.is_empty()
                    && rule.written.hint.is_none()
                    && rule.is_about(server)
                    && rule.pattern.fits_server(server.as_str(), &spelled)
            })
            .map(Rule::decision)
    }

    /// Every rule that fits, in reading order: not only the one that decides.
    pub fn matching_rules(&self, subject: &PolicyInput<'_>) -> Vec<Arc<RuleDefinition>> {
        let asked = Asked::about(subject);
        let mut fitting: Vec<&Rule> = self.all().filter(|rule| rule.covers(&asked)).collect();
        fitting.sort_by_key(|rule| rule.place);
        let written = fitting.into_iter().map(|rule| Arc::clone(&rule.written));
        written.collect()
    }

    fn all(&self) -> impl Iterator<Item = &Rule> {
        self.denies.iter().chain(&self.others)
    }

    fn decide_on(&self, subject: &Asked<'_>) -> Decision {
        decision(self.deciding(subject))
    }

    fn deciding(&self, subject: &Asked<'_>) -> Option<&Rule> {
        self.all().find(|rule| rule.covers(subject))
    }
}

/// What the rule that decides says, or the lack of one.
fn decision(rule: Option<&Rule>) -> Decision {
    rule.map_or(
        Decision {
            action: Action::Ask,
            reason: Reason::Default,
        },
        Rule::decision,
    )
}
