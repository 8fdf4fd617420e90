//! Permission rules: decide whether a tool may be called, and why.
//!
//! Pure: rules are compiled once, and evaluating them does no I/O. The module neither reads settings
//! nor asks users, and does not know which projects are trusted. The program that builds a [`Policy`]
//! leaves out the rules that do not apply.
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
//! compared with the wire name, in parts and as a whole, so that it applies to every spelling that its
//! author may have seen.
//!
//! A rule can be limited to some servers, to tools that declare a hint, and to calls whose arguments
//! match (`permission/arguments.rs`).
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

    /// How a rule with this action matches.
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

/// How much a pattern matches. A rule must never allow more than its author meant, and never deny
/// less.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum MatchMode {
    /// For allows: the pair of server and tool, and the argument value as it is.
    Exact,
    /// For denies and asks: every spelling of the tool and of the value, and unknown values.
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
