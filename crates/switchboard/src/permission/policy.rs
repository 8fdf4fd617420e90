//! Sorts permission rules and finds the rule that decides on a call.
//!
//! Pure. Invariant: deny rules are evaluated before all others, so a matching deny rule always
//! wins.

use std::sync::Arc;

use serde_json::{Map, Value};
use switchboard_wire::mcp::ToolAnnotations;
use switchboard_wire::naming::{
    self, PREFIX, SEPARATOR, former_server_part, server_part, split_wire_name,
};

use super::arguments::ComparedArguments;
use super::{Action, Decision, Reason, Rule, RuleDefinition};
use crate::id::{ServerName, ToolId, WireName};

/// The properties of a tool call that rules are compared with.
#[derive(Clone, Copy, Debug)]
pub struct CallFacts<'a> {
    /// The server and the tool.
    pub tool: &'a ToolId,
    /// The name by which the model calls the tool.
    pub wire_name: &'a WireName,
    /// The server's hints about the tool.
    pub annotations: &'a ToolAnnotations,
    /// Whether the config entry of the server says that the hints of the server are trusted.
    pub trust_annotations: bool,
    /// The arguments of the call, or `None` if they are not known. With `None`, the conditions on
    /// arguments of a deny or ask rule match, and those of an allow rule do not.
    pub arguments: Option<&'a Map<String, Value>>,
}

/// The call that rules are compared with. Holds values that all rules need, computed once per call.
pub(super) struct RuleSubject<'a> {
    pub(super) tool: SubjectTool<'a>,
    pub(super) arguments: ComparedArguments<'a>,
}

/// The tool of a call that rules are compared with.
pub(super) enum SubjectTool<'a> {
    Mcp {
        tool: &'a CallFacts<'a>,
        /// The server part and the tool part of the wire name. `None` if they equal the names of
        /// the server and the tool.
        wire_parts: Option<(&'a str, &'a str)>,
        /// The wire name that earlier releases gave the tool, if it was another one.
        former_wire_name: Option<WireName>,
    },
    Local {
        name: &'a str,
    },
}

impl<'a> RuleSubject<'a> {
    fn new(tool: &'a CallFacts<'a>) -> Self {
        let wire_parts = if wire_name_has_raw_names(tool) {
            None
        } else {
            split_wire_name(tool.wire_name.as_str())
        };
        let former_wire_name =
            wire_parts.and_then(|_| naming::former_wire_name(&tool.tool.server, &tool.tool.tool));
        Self {
            tool: SubjectTool::Mcp {
                tool,
                wire_parts,
                former_wire_name,
            },
            arguments: ComparedArguments::new(tool.arguments),
        }
    }
}

/// Whether the wire name is `mcp__server__tool` with the names of the server and the tool as they
/// are. True for nearly all tools.
fn wire_name_has_raw_names(input: &CallFacts<'_>) -> bool {
    let ToolId { server, tool, .. } = input.tool;
    let rest = input.wire_name.as_str().strip_prefix(PREFIX);
    let rest = rest.and_then(|rest| rest.strip_prefix(server.as_str()));
    rest.and_then(|rest| rest.strip_prefix(SEPARATOR)) == Some(tool.as_str())
}

/// A set of rules. The default has no rules and asks about every call.
#[derive(Clone, Debug, Default)]
pub struct Policy {
    /// The deny rules, evaluated first. The first match decides.
    denies: Vec<Rule>,
    /// The allow and ask rules, evaluated if no deny rule matches. The first match decides.
    allows_and_asks: Vec<Rule>,
}

impl Policy {
    /// Creates a policy. Sorts the rules by scope; rules of one scope keep their order.
    pub fn new(rules: impl IntoIterator<Item = Rule>) -> Self {
        let mut rules: Vec<Rule> = rules.into_iter().collect();
        rules.sort_by_key(|rule| rule.definition.scope);
        for (index, rule) in rules.iter_mut().enumerate() {
            rule.index = index;
        }
        let (denies, allows_and_asks) = rules
            .into_iter()
            .partition(|rule| rule.action() == Action::Deny);
        Self {
            denies,
            allows_and_asks,
        }
    }

    /// Decides on a call of an MCP tool.
    pub fn decide(&self, input: &CallFacts<'_>) -> Decision {
        decision_of_first_match(self.first_match(&RuleSubject::new(input)))
    }

    /// Decides on a call of an MCP tool. Returns `None` if a rule allows the call. Most calls are
    /// allowed, and the reason is not needed then.
    pub(crate) fn deny_or_ask(&self, input: &CallFacts<'_>) -> Option<Decision> {
        match self.first_match(&RuleSubject::new(input)) {
            Some(rule) if rule.action() == Action::Allow => None,
            rule => Some(decision_of_first_match(rule)),
        }
    }

    /// Decides on a call of a local tool.
    pub fn decide_local(&self, name: &str, arguments: &Map<String, Value>) -> Decision {
        decision_of_first_match(self.first_match(&RuleSubject {
            tool: SubjectTool::Local { name },
            arguments: ComparedArguments::new(Some(arguments)),
        }))
    }

    /// Returns the decision of the first rule that denies all tools of a server, if there is one.
    /// Such a rule also denies the resources and prompts of the server. A deny rule that is limited
    /// to some tools, arguments or hints does not.
    pub fn server_denial(&self, server: &ServerName) -> Option<Decision> {
        let wire_part = server_part(server);
        let former_part = former_server_part(server);
        let mut denies = self.denies.iter();
        denies
            .find(|rule| {
                rule.conditions.is_empty()
                    && rule.definition.hint.is_none()
                    && rule.applies_to_server(server)
                    && (rule
                        .pattern
                        .matches_whole_server(server.as_str(), &wire_part)
                        || former_part.as_ref().is_some_and(|part| {
                            rule.pattern.matches_whole_server(server.as_str(), part)
                        }))
            })
            .map(Rule::decision)
    }

    /// Returns all rules that match, sorted by scope and then by position.
    pub fn matching_rules(&self, input: &CallFacts<'_>) -> Vec<Arc<RuleDefinition>> {
        let input = RuleSubject::new(input);
        let mut rules: Vec<&Rule> = self.all().filter(|rule| rule.matches(&input)).collect();
        rules.sort_by_key(|rule| rule.index);
        let definitions = rules.into_iter().map(|rule| Arc::clone(&rule.definition));
        definitions.collect()
    }

    fn all(&self) -> impl Iterator<Item = &Rule> {
        self.denies.iter().chain(&self.allows_and_asks)
    }

    fn first_match(&self, input: &RuleSubject<'_>) -> Option<&Rule> {
        self.all().find(|rule| rule.matches(input))
    }
}

/// Returns the decision of `rule`, the first rule that matches. Without a matching rule, the
/// decision is to ask the user.
fn decision_of_first_match(rule: Option<&Rule>) -> Decision {
    rule.map_or(
        Decision {
            action: Action::Ask,
            reason: Reason::Default,
        },
        Rule::decision,
    )
}
