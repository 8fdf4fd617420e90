//! Permission rules: decide whether a tool may be called, and why.
//!
//! Pure. The module does not read settings and does not ask users. It does not know which projects
//! are trusted: the program that builds a [`Policy`] leaves out the rules of other projects.
//!
//! A rule matches tools by a pattern, in which `s`, `t` and `name` are globs (`*`, `?`, `[…]`):
//!
//! | pattern | matches |
//! |---|---|
//! | `mcp__s` | every tool of server `s` |
//! | `mcp__s__t` | tool `t` of server `s`; split at the first `__` after `mcp__` |
//! | `*` | everything |
//! | `name` | local tools of that name |
//!
//! An allow is compared only with the pair of server name and tool name. A deny or an ask is also
//! compared with the wire name, as a whole and split into server and tool. So it matches whichever
//! name its author wrote.
//!
//! A rule can be limited to some servers, to tools that declare a hint, and to calls whose
//! arguments match (`permission/arguments.rs`).
//!
//! Invariant: a matching deny wins over every other rule, regardless of scope and position.

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
pub use policy::{Policy, PolicyInput};
pub use request::{Denial, PermissionRequest, PermissionResponse};
pub use rule::{Rule, RuleDefinition, RuleScope};

/// The action of a rule or of a decision.
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

    /// How strictly a rule with this action matches.
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

/// The text is not an action.
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

/// How strictly a pattern matches. An allow must not match more than its author meant, and a deny
/// not less.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum MatchMode {
    /// For allows. Compares the pair of server and tool, and argument values as they are.
    Exact,
    /// For denies and asks. Also compares the wire name and other forms of argument values, and
    /// matches unknown arguments.
    Broad,
}

impl MatchMode {
    fn is_broad(self) -> bool {
        self == Self::Broad
    }
}

/// The action for a call, and the reason.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Decision {
    /// The action.
    pub action: Action,
    /// The reason.
    pub reason: Reason,
}

/// The reason for a decision.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Reason {
    /// A rule matches.
    Rule(Arc<RuleDefinition>),
    /// No rule matches.
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
