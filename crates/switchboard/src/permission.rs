//! Permission rules: decide whether a tool may be called, and why.
//!
//! Pure. The module does not read settings and does not ask users. It does not know which projects
//! the user trusts: the program that builds a [`Policy`] leaves out the rules of projects that are
//! not trusted.
//!
//! A rule matches tools by a pattern. In this table, `s`, `t` and `name` are globs (`*`, `?`,
//! `[…]`):
//!
//! | pattern | matches |
//! |---|---|
//! | `mcp__s` | every tool of server `s` |
//! | `mcp__s__t` | tool `t` of server `s`; split at the first `__` after `mcp__` |
//! | `*` | everything |
//! | `name` | local tools of that name |
//!
//! An allow rule is compared only with the names of the server and the tool. A deny or ask rule is
//! also compared with the wire name, as a whole and split into its server part and tool part. So a
//! deny or ask rule matches both the original names and the wire name.
//!
//! A rule can be limited to some servers, to tools that declare a hint, and to calls whose
//! arguments match (`permission/arguments.rs`).
//!
//! Invariant: a matching deny rule wins over every other rule, regardless of scope and position.

mod arguments;
mod glob;
mod pattern;
mod policy;
mod request;
mod rule;
#[cfg(test)]
mod tests;

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

pub use pattern::InvalidPattern;
pub use policy::{CallFacts, Policy};
pub use request::{Denial, PermissionRequest, PermissionResponse};
pub use rule::{Rule, RuleDefinition, RuleScope};

/// What a rule or a decision does with a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Action {
    /// Make the call.
    Allow,
    /// Ask the user first.
    Ask,
    /// Do not make the call.
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

    /// Returns how strictly the pattern and the conditions of a rule with this action match.
    fn match_mode(self) -> MatchMode {
        match self {
            Self::Allow => MatchMode::Exact,
            Self::Ask | Self::Deny => MatchMode::Broad,
        }
    }
}

impl fmt::Display for Action {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// The error for a text that is not the name of an [`Action`].
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not an action: write `allow`, `ask` or `deny`")]
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

/// How strictly a rule matches. An allow rule must not match more calls than its author meant. A
/// deny rule must not match fewer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum MatchMode {
    /// For allow rules. Compares the names of the server and the tool, and argument values as they
    /// are.
    Exact,
    /// For deny and ask rules. Also compares the wire name and other forms of argument values.
    /// Matches if the arguments of the call are not known.
    Broad,
}

impl MatchMode {
    fn is_broad(self) -> bool {
        self == Self::Broad
    }
}

/// What happens to a call, and why. [`Policy`] makes this decision.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Decision {
    /// What happens to the call.
    pub action: Action,
    /// Why: the rule that decided, or that no rule matches.
    pub reason: Reason,
}

/// The reason for a decision.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Reason {
    /// This rule decided: it is the first one that matches.
    Rule(Arc<RuleDefinition>),
    /// No rule matches, so the user is asked.
    Default,
}

impl fmt::Display for Decision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.action {
            Action::Allow => "allowed",
            Action::Ask => "needs permission",
            Action::Deny => "denied",
        })?;
        match &self.reason {
            Reason::Default => f.write_str(": no rule matches"),
            Reason::Rule(rule) if rule.reason.is_some() => write!(f, ": {rule}"),
            Reason::Rule(rule) if self.action == Action::Ask => write!(f, " because of {rule}"),
            Reason::Rule(rule) => write!(f, " by {rule}"),
        }
    }
}
