//! Decides whether the model may use a tool, and answers `can_use_tool`.
//!
//! The rules of the options decide first. If no rule decides, the callback does; without a
//! callback, the [`Interaction`] does. A rule names an MCP tool by the name that its server has in
//! the options and by the tool name as the CLI spells it, and a built-in tool by its own name.
//!
//! The CLI sends `can_use_tool` only if its own rules do not decide. Therefore a `PreToolUse` hook
//! checks every tool use against the deny and ask rules of the options
//! ([`Permissions::check_rules`]).
//!
//! Invariant: a tool runs only if a rule, the callback, the interaction or the CLI's own rules
//! allow it. If the callback panics, the tool is denied.

mod result;
#[cfg(test)]
mod tests;

use std::fmt;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use futures_util::FutureExt;
use serde_json::{Map, Value};
use switchboard::call::CallOrigin;
use switchboard::id::{ServerName, ToolId, WireName};
use switchboard::interaction::BoxFuture;
use switchboard::mcp::{Json, ToolAnnotations};
use switchboard::naming::split_wire_name;
use switchboard::permission::{
    Action, CallFacts, Decision, Denial, PermissionRequest, PermissionResponse, Policy, Reason,
    Rule,
};
use switchboard::{CallContext, Interaction};
use switchboard_config::InvalidServerName;

pub use result::PermissionResult;

use crate::json_fields::Fields;
use crate::tool_names::server_tools_pattern;

/// The callback that [`Options::can_use_tool`](crate::Options::can_use_tool) sets.
pub(crate) type PermissionCallback =
    Arc<dyn Fn(ToolPermissionRequest) -> BoxFuture<'static, PermissionResult> + Send + Sync>;

/// Stands for the server name in permission requests about built-in tools.
const BUILT_IN_SERVER: &str = "claude";

/// Built-in tools that read resources of MCP servers. The CLI runs them without asking for
/// permission.
const RESOURCE_TOOLS: [&str; 3] = [
    "ListMcpResourcesTool",
    "ReadMcpResourceTool",
    "ReadMcpResourceDirTool",
];

/// What the CLI tells a permission callback about a tool use.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ToolPermissionRequest {
    /// The full name of the tool, for example `Bash` or `mcp__calculator__add`.
    pub tool_name: String,
    /// The arguments that the model chose for the tool.
    pub input: Map<String, Value>,
    /// The name that the tool's MCP server has in the options. `None` for built-in tools. If the
    /// CLI does not send the name and no server of the options matches, this is the part of
    /// `tool_name` between `mcp__` and the next `__`.
    pub server: Option<String>,
    /// The id of this tool use.
    pub tool_use_id: Option<String>,
    /// Suggested changes to the permission rules of the CLI. If they are passed to
    /// [`PermissionResult::with_permissions`], the CLI does not ask about such a tool use again.
    pub suggestions: Vec<Value>,
    /// The path that the tool is not allowed to access. `None` if the CLI asks for another reason.
    pub blocked_path: Option<String>,
    /// Why the CLI asks for permission.
    pub decision_reason: Option<String>,
    /// A short title of the permission request for the user.
    pub title: Option<String>,
    /// The name of the tool to show to the user.
    pub display_name: Option<String>,
    /// A description of the tool use for the user.
    pub description: Option<String>,
    /// The id of the subagent that wants to use the tool. `None` for the main conversation.
    pub agent_id: Option<String>,
    /// The whole request as the CLI sent it.
    pub raw: Json,
}

/// Everything that decides about tool uses: the rules, the callback and the interaction of the
/// options.
pub(crate) struct Permissions {
    policy: Policy,
    callback: Option<PermissionCallback>,
    interaction: Option<Arc<dyn Interaction>>,
    /// The names of the MCP servers in the options. Needed to find the server of a tool by the
    /// tool's name, because an old CLI does not send the server's name, and to find the servers
    /// that a tool of [`RESOURCE_TOOLS`] reads.
    servers: Vec<String>,
}

/// Whether the deny and ask rules object to a tool use. Holds the reason if they do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum RuleVerdict {
    /// No deny or ask rule matches. The CLI continues with its own rules.
    NoObjection,
    /// An ask rule matches: permission is required even if the CLI would not ask.
    Ask(String),
    /// A deny rule matches, or the name of the tool's server is invalid.
    Deny(String),
}

/// The names of a tool, in the form in which rules are matched against them.
struct ToolRef {
    tool: ToolId,
    wire: WireName,
    /// Always empty: the CLI does not forward the annotations of tools.
    annotations: ToolAnnotations,
    is_built_in: bool,
}

impl Permissions {
    pub(crate) fn new(
        rules: impl IntoIterator<Item = Rule>,
        callback: Option<PermissionCallback>,
        interaction: Option<Arc<dyn Interaction>>,
        servers: Vec<String>,
    ) -> Self {
        Self {
            policy: Policy::new(rules),
            callback,
            interaction,
            servers,
        }
    }

    /// Answers a `can_use_tool` request. Returns the payload of the response, or an error message
    /// for the CLI.
    pub(crate) async fn can_use_tool(&self, request: Value) -> Result<Value, String> {
        let request = self.parse(&request)?;
        let input = request.input.clone();
        Ok(self.decide(request).await.into_json(input))
    }

    fn parse(&self, request: &Value) -> Result<ToolPermissionRequest, String> {
        let fields = Fields::of(request);
        let tool_name = fields
            .text("tool_name")
            .ok_or("can_use_tool has no `tool_name`")?;
        let input = match fields.value("input") {
            None => Map::new(),
            Some(Value::Object(input)) => input.clone(),
            Some(_) => return Err(format!("the input of {tool_name} is not an object")),
        };
        let sent_server = fields.nested("mcp_server").text("name");
        Ok(ToolPermissionRequest {
            server: sent_server.or_else(|| self.server_of(&tool_name)),
            tool_name,
            input,
            tool_use_id: fields.text("tool_use_id"),
            suggestions: fields.list("permission_suggestions").to_vec(),
            blocked_path: fields.text("blocked_path"),
            decision_reason: fields.text("decision_reason"),
            title: fields.text("title"),
            display_name: fields.text("display_name"),
            description: fields.text("description"),
            agent_id: fields.text("agent_id"),
            raw: Json::from(request),
        })
    }

    /// Finds the server of a tool by the tool's name. If several servers of the options match, the
    /// one with the longest name is returned. If none matches, the part of the tool's name between
    /// `mcp__` and the next `__` is returned. `None` for built-in tools.
    fn server_of(&self, tool: &str) -> Option<String> {
        let configured = self.servers.iter();
        let matching = configured.filter(|server| raw_tool_name(server, tool).is_some());
        let longest = matching.max_by_key(|server| server.len()).cloned();
        longest.or_else(|| split_wire_name(tool).map(|(server, _)| server.to_owned()))
    }

    /// Checks a tool use against the deny and ask rules. The CLI's own rules do not affect the
    /// verdict.
    pub(crate) fn check_rules(
        &self,
        tool: &str,
        server: Option<String>,
        input: &Value,
    ) -> RuleVerdict {
        let server = server.or_else(|| self.server_of(tool));
        let Ok(tool_ref) = ToolRef::new(tool, server.as_deref()) else {
            return RuleVerdict::Deny(invalid_server_message(tool));
        };
        let empty = Map::new();
        let decision = self.decide_by_rules(&tool_ref, input.as_object().unwrap_or(&empty));
        match (decision.action, &decision.reason) {
            (Action::Deny, _) => RuleVerdict::Deny(denial_message(tool, &Denial::Rule(decision))),
            (Action::Ask, Reason::Rule(_)) => RuleVerdict::Ask(decision.to_string()),
            _ => RuleVerdict::NoObjection,
        }
    }

    fn decide_by_rules(&self, tool_ref: &ToolRef, input: &Map<String, Value>) -> Decision {
        if !tool_ref.is_built_in {
            return self.policy.decide(&tool_ref.subject(input));
        }
        let tool = tool_ref.wire.as_str();
        let denial = self.resource_tool_denial(tool, input);
        denial.unwrap_or_else(|| self.policy.decide_local(tool, input))
    }

    /// Denies a built-in tool that reads resources if a rule denies all tools of a server whose
    /// resources the tool would read.
    fn resource_tool_denial(&self, tool: &str, input: &Map<String, Value>) -> Option<Decision> {
        if !RESOURCE_TOOLS.contains(&tool) {
            return None;
        }
        let named = input.get("server").and_then(Value::as_str);
        // If the input names no server, the tool reads the resources of all servers.
        let is_read = |server: &&str| {
            named.is_none_or(|named| server_tools_pattern(named) == server_tools_pattern(server))
        };
        let configured = self.servers.iter().map(String::as_str).filter(is_read);
        let servers = configured.chain(named);
        let mut names = servers.filter_map(|server| {
            let pattern = server_tools_pattern(server);
            let normalized = pattern.strip_prefix("mcp__").unwrap_or_default();
            let name = ServerName::new(server).or_else(|_| ServerName::new(normalized));
            name.ok()
        });
        names.find_map(|name| self.policy.server_denial(&name))
    }

    async fn decide(&self, request: ToolPermissionRequest) -> PermissionResult {
        let Ok(tool_ref) = ToolRef::new(&request.tool_name, request.server.as_deref()) else {
            return PermissionResult::deny(invalid_server_message(&request.tool_name));
        };
        let decision = self.decide_by_rules(&tool_ref, &request.input);
        match decision.action {
            Action::Allow => PermissionResult::allow(),
            Action::Deny => deny(&request.tool_name, &Denial::Rule(decision)),
            Action::Ask => match &self.callback {
                Some(callback) => call(callback, request).await,
                None => {
                    let subject = tool_ref.subject(&request.input);
                    self.ask(&request, &subject, &decision).await
                }
            },
        }
    }

    async fn ask(
        &self,
        request: &ToolPermissionRequest,
        subject: &CallFacts<'_>,
        decision: &Decision,
    ) -> PermissionResult {
        let unanswered = PermissionResponse::NoInteraction;
        let context = CallContext::default().origin(CallOrigin::Model);
        let answer = match &self.interaction {
            None => unanswered,
            Some(interaction) => {
                let question = PermissionRequest::new(subject, &request.input, decision, &context);
                let answer = AssertUnwindSafe(interaction.can_use_tool(question));
                answer.catch_unwind().await.unwrap_or(unanswered)
            }
        };
        match answer {
            PermissionResponse::Allow => PermissionResult::allow(),
            PermissionResponse::Deny => deny(&request.tool_name, &Denial::User),
            _ => deny(&request.tool_name, &Denial::NoInteraction),
        }
    }
}

async fn call(callback: &PermissionCallback, request: ToolPermissionRequest) -> PermissionResult {
    let tool = request.tool_name.clone();
    let answer = AssertUnwindSafe(async { callback(request).await });
    answer.catch_unwind().await.unwrap_or_else(|_| {
        PermissionResult::deny(format!(
            "{tool} was not executed: the permission callback panicked"
        ))
    })
}

fn deny(tool: &str, denial: &Denial) -> PermissionResult {
    PermissionResult::deny(denial_message(tool, denial))
}

fn denial_message(tool: &str, denial: &Denial) -> String {
    format!("{tool} was not executed: {denial}")
}

fn invalid_server_message(tool: &str) -> String {
    format!("{tool} was not executed: invalid server name")
}

impl ToolRef {
    fn new(tool: &str, server: Option<&str>) -> Result<Self, InvalidServerName> {
        let name = ServerName::new(server.unwrap_or(BUILT_IN_SERVER))?;
        let raw_name = raw_tool_name(name.as_str(), tool);
        let wire_part = || split_wire_name(tool).map(|(_, tool)| tool);
        let raw_name = raw_name.or_else(wire_part).unwrap_or(tool);
        Ok(Self {
            tool: ToolId::new(name, raw_name),
            wire: WireName::from(tool),
            annotations: ToolAnnotations::default(),
            is_built_in: server.is_none(),
        })
    }

    fn subject<'a>(&'a self, input: &'a Map<String, Value>) -> CallFacts<'a> {
        CallFacts {
            tool: &self.tool,
            wire_name: &self.wire,
            annotations: &self.annotations,
            trust_annotations: false,
            arguments: Some(input),
        }
    }
}

/// Returns the tool name without the prefix `mcp__<server>__`. Returns `None` if it has another
/// prefix.
fn raw_tool_name<'a>(server: &str, tool: &'a str) -> Option<&'a str> {
    let rest = tool.strip_prefix(server_tools_pattern(server).as_str())?;
    rest.strip_prefix("__")
}

impl fmt::Debug for Permissions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Permissions")
            .field("policy", &self.policy)
            .field("callback", &self.callback.is_some())
            .field("interaction", &self.interaction.is_some())
            .finish_non_exhaustive()
    }
}
