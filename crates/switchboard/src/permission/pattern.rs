//! The pattern of one rule: what it is held against, and how its text is read.
//!
//! It knows nothing of actions: who asks says whether the wire name counts too.
//!
//! Invariant: a pattern that is held against the wire name as well fits at least what it fits
//! without.

use super::PolicyInput;
use super::glob::{Dialect, Glob, GlobError};
use switchboard_wire::naming::{PREFIX, SEPARATOR, split_wire_name};

/// Why a text is not a pattern.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the pattern {text:?} is not valid: {problem}")]
pub struct InvalidPattern {
    text: String,
    problem: Problem,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum Problem {
    #[error("it is empty; `*` fits everything")]
    Empty,
    #[error("no server after `mcp__`; `mcp__*` fits the tools of all servers")]
    NoServer,
    #[error("no tool after the last `__`; `mcp__server` fits all tools of that server")]
    NoTool,
    #[error("it is empty; `path=/srv/*` is held against the argument `path`")]
    NoCondition,
    #[error(
        "it has no `=`; write `name=glob` for the value of an argument, or begin with `*` or `{{` for \
         the JSON of all arguments"
    )]
    NoEquals,
    #[error(
        "no argument is named before the `=`; write `name=glob` without blanks around the name"
    )]
    NoArgument,
    #[error("`*=` names no argument; `*text*` is held against the JSON of all arguments")]
    AnyArgument,
    #[error(transparent)]
    Glob(#[from] GlobError),
}

impl InvalidPattern {
    pub(super) fn new(text: &str, problem: Problem) -> Self {
        Self {
            text: text.to_owned(),
            problem,
        }
    }
}

#[derive(Clone, Debug)]
pub(super) struct Pattern {
    aim: Aim,
    /// The text as one glob.
    whole: Glob,
}

#[derive(Clone, Debug)]
enum Aim {
    Everything,
    Local,
    Tools { server: Glob, tool: Glob },
}

impl Pattern {
    pub(super) fn parse(text: &str) -> Result<Self, InvalidPattern> {
        Self::read(text).map_err(|problem| InvalidPattern::new(text, problem))
    }

    fn read(text: &str) -> Result<Self, Problem> {
        let aim = match text.strip_prefix(PREFIX) {
            _ if text.is_empty() => return Err(Problem::Empty),
            _ if text == "*" => Aim::Everything,
            None => Aim::Local,
            Some(rest) => {
                let (server, tool) = rest.split_once(SEPARATOR).unwrap_or((rest, "*"));
                if server.is_empty() {
                    return Err(Problem::NoServer);
                }
                if tool.is_empty() {
                    return Err(Problem::NoTool);
                }
                Aim::Tools {
                    server: Glob::parse(server, Dialect::Name)?,
                    tool: Glob::parse(tool, Dialect::Name)?,
                }
            }
        };
        let whole = Glob::parse(text, Dialect::Name)?;
        Ok(Self { aim, whole })
    }

    /// Whether the pattern fits a tool by its pair or, where `narrows`, by its wire name.
    ///
    /// `spelled` are the parts of the wire name, `None` where they equal the pair.
    pub(super) fn fits_tool(
        &self,
        subject: &PolicyInput<'_>,
        spelled: Option<(&str, &str)>,
        narrows: bool,
    ) -> bool {
        let by_parts = |server_name: &str, tool_name: &str| match &self.aim {
            Aim::Everything => true,
            Aim::Local => false,
            Aim::Tools { server, tool } => server.matches(server_name) && tool.matches(tool_name),
        };
        let id = subject.tool;
        by_parts(id.server.as_str(), id.tool.as_str())
            || narrows
                && (spelled.is_some_and(|(server, tool)| by_parts(server, tool))
                    || self.fits_whole(subject.wire_name.as_str())
                    || self.fits_joined(id.server.as_str(), id.tool.as_str()))
    }

    /// Whether the pattern fits every tool of a server, by its name or by how that is spelled.
    pub(super) fn fits_server(&self, server: &str, spelled: &str) -> bool {
        match &self.aim {
            Aim::Everything => true,
            Aim::Local => false,
            Aim::Tools { server: name, tool } => {
                let by_parts = name.matches(server) || name.matches(spelled);
                let joined = format!("{PREFIX}{server}");
                by_parts && tool.is_everything()
                    || server.contains(SEPARATOR)
                        && (self.whole.matches(&joined)
                            || self.whole.matches(&format!("{joined}{SEPARATOR}*")))
            }
        }
    }

    /// Whether the pattern fits a local tool. Where `narrows`, a pattern for PREFIX tools counts for a
    /// local tool that took such a name.
    pub(super) fn fits_local(&self, name: &str, narrows: bool) -> bool {
        match &self.aim {
            Aim::Everything => true,
            Aim::Local => self.whole.matches(name),
            Aim::Tools { .. } if !narrows => false,
            Aim::Tools { server, tool } => {
                self.whole.matches(name)
                    || split_wire_name(name)
                        .is_some_and(|(s, t)| server.matches(s) && tool.matches(t))
            }
        }
    }

    /// Whether the pattern means a server whose name holds a `__` itself. The split at the first one
    /// takes such a name apart, but whoever wrote the rule meant the whole.
    fn fits_joined(&self, server: &str, tool: &str) -> bool {
        matches!(self.aim, Aim::Tools { .. }) && server.contains(SEPARATOR) && {
            let named = format!("{PREFIX}{server}");
            self.whole.matches(&named) || self.whole.matches(&format!("{named}{SEPARATOR}{tool}"))
        }
    }

    fn fits_whole(&self, wire: &str) -> bool {
        // A literal server can only fit at the one place where a wire name splits: `by_parts` saw it.
        let seen = matches!(&self.aim, Aim::Tools { server, .. } if server.is_literal());
        !seen && self.whole.matches(wire)
    }
}
