//! The tool pattern of a rule: parsing and matching.
//!
//! Invariant: everything that matches in [`MatchMode::Exact`] also matches in
//! [`MatchMode::Broad`].

use switchboard_wire::naming::{PREFIX, SEPARATOR, split_wire_name};

use super::glob::{Glob, GlobContext, GlobError};
use super::{CallFacts, MatchMode};

/// The error for a text that is not a valid pattern of a rule.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the pattern {text:?} is not valid: {problem}")]
pub struct InvalidPattern {
    text: String,
    problem: PatternProblem,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum PatternProblem {
    #[error("it is empty; `*` matches everything")]
    Empty,
    #[error("no server after `mcp__`; `mcp__*` matches the tools of all servers")]
    NoServer,
    #[error("no tool after the last `__`; `mcp__server` matches all tools of that server")]
    NoTool,
    #[error("it is empty; for example, `path=/srv/*` matches the argument `path`")]
    EmptyCondition,
    #[error(
        "it has no `=`; write `name=glob` for the value of an argument, or begin with `*` or `{{` for \
         the JSON of all arguments"
    )]
    NoEquals,
    #[error(
        "no argument is named before the `=`; write `name=glob` without spaces around the name"
    )]
    NoArgument,
    #[error("`*=` names no argument; `*text*` matches the JSON of all arguments")]
    WildcardArgument,
    #[error(transparent)]
    Glob(#[from] GlobError),
}

impl InvalidPattern {
    pub(super) fn new(text: &str, problem: PatternProblem) -> Self {
        Self {
            text: text.to_owned(),
            problem,
        }
    }
}

/// A compiled tool pattern.
#[derive(Clone, Debug)]
pub(super) struct Pattern {
    target: PatternTarget,
    /// The whole pattern as one glob, including `mcp__`.
    full_glob: Glob,
}

#[derive(Clone, Debug)]
enum PatternTarget {
    Everything,
    LocalTools,
    McpTools { server: Glob, tool: Glob },
}

impl Pattern {
    pub(super) fn parse(text: &str) -> Result<Self, InvalidPattern> {
        Self::parse_text(text).map_err(|problem| InvalidPattern::new(text, problem))
    }

    fn parse_text(text: &str) -> Result<Self, PatternProblem> {
        let target = match text.strip_prefix(PREFIX) {
            _ if text.is_empty() => return Err(PatternProblem::Empty),
            _ if text == "*" => PatternTarget::Everything,
            None => PatternTarget::LocalTools,
            Some(rest) => {
                let (server, tool) = rest.split_once(SEPARATOR).unwrap_or((rest, "*"));
                if server.is_empty() {
                    return Err(PatternProblem::NoServer);
                }
                if tool.is_empty() {
                    return Err(PatternProblem::NoTool);
                }
                PatternTarget::McpTools {
                    server: Glob::parse(server, GlobContext::Name)?,
                    tool: Glob::parse(tool, GlobContext::Name)?,
                }
            }
        };
        let full_glob = Glob::parse(text, GlobContext::Name)?;
        Ok(Self { target, full_glob })
    }

    /// Whether the pattern matches the server and the tool or, in broad mode, the wire name.
    ///
    /// `wire_parts` are the server part and the tool part of the wire name. `None` means that they
    /// equal the names of the server and the tool.
    pub(super) fn matches_tool(
        &self,
        input: &CallFacts<'_>,
        wire_parts: Option<(&str, &str)>,
        mode: MatchMode,
    ) -> bool {
        let matches_parts = |server_name: &str, tool_name: &str| match &self.target {
            PatternTarget::Everything => true,
            PatternTarget::LocalTools => false,
            PatternTarget::McpTools { server, tool } => {
                server.matches(server_name) && tool.matches(tool_name)
            }
        };
        let id = input.tool;
        matches_parts(id.server.as_str(), id.tool.as_str())
            || mode.is_broad()
                && (wire_parts.is_some_and(|(server, tool)| matches_parts(server, tool))
                    || self.matches_wire_name(input.wire_name.as_str())
                    || self.matches_server_with_separator(id.server.as_str(), id.tool.as_str()))
    }

    /// Whether the pattern matches the wire name that an earlier release gave a tool.
    pub(super) fn matches_former_wire_name(&self, name: &str, mode: MatchMode) -> bool {
        matches!(self.target, PatternTarget::McpTools { .. })
            && mode.is_broad()
            && self.matches_local_tool(name, mode)
    }

    /// Whether the pattern matches every tool of a server. `wire_part` is the server part of the
    /// wire names of its tools.
    pub(super) fn matches_whole_server(&self, server: &str, wire_part: &str) -> bool {
        match &self.target {
            PatternTarget::Everything => true,
            PatternTarget::LocalTools => false,
            PatternTarget::McpTools {
                server: server_glob,
                tool,
            } => {
                let matches_server = server_glob.matches(server) || server_glob.matches(wire_part);
                let full_name = format!("{PREFIX}{server}");
                matches_server && tool.is_everything()
                    || server.contains(SEPARATOR)
                        && (self.full_glob.matches(&full_name)
                            || self.full_glob.matches(&format!("{full_name}{SEPARATOR}*")))
            }
        }
    }

    /// Whether the pattern matches a local tool. In broad mode, a pattern for MCP tools also
    /// matches a local tool whose name has the form of a wire name.
    pub(super) fn matches_local_tool(&self, name: &str, mode: MatchMode) -> bool {
        match &self.target {
            PatternTarget::Everything => true,
            PatternTarget::LocalTools => self.full_glob.matches(name),
            PatternTarget::McpTools { server, tool } => {
                mode.is_broad()
                    && (self.full_glob.matches(name)
                        || split_wire_name(name)
                            .is_some_and(|(s, t)| server.matches(s) && tool.matches(t)))
            }
        }
    }

    /// Whether the pattern matches a server whose name contains `__`, or a tool of that server. The
    /// parser splits a pattern at the first `__` after `mcp__`, which is inside such a server name,
    /// so this method compares the whole pattern.
    fn matches_server_with_separator(&self, server: &str, tool: &str) -> bool {
        matches!(self.target, PatternTarget::McpTools { .. }) && server.contains(SEPARATOR) && {
            let server = format!("{PREFIX}{server}");
            self.full_glob.matches(&server)
                || self
                    .full_glob
                    .matches(&format!("{server}{SEPARATOR}{tool}"))
        }
    }

    fn matches_wire_name(&self, wire_name: &str) -> bool {
        // If the server glob is literal, the pattern matches the wire name only if it matches the
        // parts of the wire name. `matches_tool` has already compared the parts.
        let is_already_compared =
            matches!(&self.target, PatternTarget::McpTools { server, .. } if server.is_literal());
        !is_already_compared && self.full_glob.matches(wire_name)
    }
}
