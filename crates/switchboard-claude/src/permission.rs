//! May the model use this tool?
//!
//! Rules first, as everywhere in Switchboard; what no rule decides is asked of the program's callback,
//! or else of its [`Interaction`]. MCP tools go by the name of their server as it was given, and by the
//! name of the tool as the CLI spells it; built-in tools go by their own name.
//!
//! The CLI asks (`can_use_tool`) only about what its own rules leave open. So that rules that deny or
//! want to be asked hold in any case, they have a say before every use of a tool, as a hook.
//!
//! Invariant: nothing is allowed that nobody allowed. A callback that panics has said no.

mod reply;
#[cfg(test)]
mod tests;

use std::fmt;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use futures_util::FutureExt;
use serde_json::{Map, Value};
use switchboard::id::{ServerName, ToolId, WireName};
use switchboard::mcp::{Json, ToolAnnotations};
use switchboard::naming::split_wire_name;
use switchboard::permission::{Action, Decision, Policy, Reason, Rule, Subject};
use switchboard::{
    BoxFuture, CallContext, CallOrigin, Denial, Interaction, PermissionAnswer, PermissionQuestion,
};
use switchboard_config::InvalidServerName;

pub use reply::PermissionResult;

use crate::fields::Fields;
use crate::tool_names::server_tools_pattern;

/// The program's own answer to the question whether a tool may be used.
pub(crate) type Callback =
    Arc<dyn Fn(ToolPermissionRequest) -> BoxFuture<'static, PermissionResult> + Send + Sync>;

/// What built-in tools are said to belong to, where a server is asked for.
const BUILT_IN: &str = "claude";

/// Built-in tools that look at what servers have beside their tools. The CLI asks nobody about them.
const OF_RESOURCES: [&str; 3] = [
    "ListMcpResourcesTool",
    "ReadMcpResourceTool",
    "ReadMcpResourceDirTool",
];

/// The CLI's question whether a tool may be used.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ToolPermissionRequest {
    /// The tool as the model spells it: `Bash`, `mcp__calculator__add`.
    pub tool_name: String,
    /// What it is to work on.
    pub input: Map<String, Value>,
    /// The MCP server that offers it, by the name that it was given; none for built-in tools.
    pub server: Option<String>,
    /// The use of the tool that this is about.
    pub tool_use_id: Option<String>,
    /// Changes of the CLI's rules that would save it from asking again, for
    /// [`PermissionResult::with_permissions`].
    pub suggestions: Vec<Value>,
    /// The path that the tool has no access to, if that is why it is asked.
    pub blocked_path: Option<String>,
    /// Why it is asked.
    pub decision_reason: Option<String>,
    /// The question in a few words.
    pub title: Option<String>,
    /// The tool in words for a person.
    pub display_name: Option<String>,
    /// More about the use of the tool.
    pub description: Option<String>,
    /// The subagent that wants it.
    pub agent_id: Option<String>,
    /// The question as it came.
    pub raw: Json,
}

/// Who decides about tools.
pub(crate) struct Permissions {
    policy: Policy,
    callback: Option<Callback>,
    interaction: Option<Arc<dyn Interaction>>,
    /// The servers that were declared, whose names an old CLI does not tell.
    servers: Vec<String>,
}

/// What rules have against the use of a tool, with the reason.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Objection {
    /// Nothing: the CLI goes on as it would.
    None,
    /// It is to be asked about, even if the CLI would not.
    ToBeAsked(String),
    /// It may not be used.
    Denied(String),
}

/// A tool as rules know it.
struct Named {
    tool: ToolId,
    wire: WireName,
    /// The CLI does not say what servers claim of their tools.
    annotations: ToolAnnotations,
    is_built_in: bool,
}

impl Permissions {
    pub(crate) fn new(
        rules: impl IntoIterator<Item = Rule>,
        callback: Option<Callback>,
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

    /// The answer to a question: what is sent back, or why there is none.
    pub(crate) async fn can_use_tool(&self, request: Value) -> Result<Value, String> {
        let asked = self.read(&request)?;
        let input = asked.input.clone();
        Ok(self.decide(asked).await.into_reply(input))
    }

    fn read(&self, request: &Value) -> Result<ToolPermissionRequest, String> {
        let fields = Fields::of(request);
        let tool_name = fields
            .text("tool_name")
            .ok_or("can_use_tool names no tool: `tool_name` is missing")?;
        let input = match fields.value("input") {
            None => Map::new(),
            Some(Value::Object(input)) => input.clone(),
            Some(_) => return Err(format!("the input of {tool_name} is not an object")),
        };
        let told = fields.inside("mcp_server").text("name");
        Ok(ToolPermissionRequest {
            server: told.or_else(|| self.server_of(&tool_name)),
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

    /// The server behind the name of a tool: the declared one that it can be, or what stands there.
    fn server_of(&self, tool: &str) -> Option<String> {
        let declared = self.servers.iter();
        let declared = declared.filter(|server| own_name(server, tool).is_some());
        let longest = declared.max_by_key(|server| server.len()).cloned();
        longest.or_else(|| split_wire_name(tool).map(|(server, _)| server.to_owned()))
    }

    /// What the rules have against the use of a tool, whatever the CLI would say: a denial, or that
    /// it is to be asked about.
    pub(crate) fn objection(&self, tool: &str, server: Option<String>, input: &Value) -> Objection {
        let server = server.or_else(|| self.server_of(tool));
        let Ok(named) = Named::new(tool, server.as_deref()) else {
            return Objection::Denied(unspeakable(tool));
        };
        let nothing = Map::new();
        let decision = self.decision(&named, input.as_object().unwrap_or(&nothing));
        match (decision.action, &decision.reason) {
            (Action::Deny, _) => Objection::Denied(refused(tool, &Denial::Rule(decision))),
            (Action::Ask, Reason::Rule(_)) => Objection::ToBeAsked(decision.to_string()),
            _ => Objection::None,
        }
    }

    fn decision(&self, named: &Named, input: &Map<String, Value>) -> Decision {
        if !named.is_built_in {
            return self.policy.decide(&named.subject(input));
        }
        let tool = named.wire.as_str();
        let denial = self.denial_of_resources(tool, input);
        denial.unwrap_or_else(|| self.policy.decide_local(tool, input))
    }

    /// The rule against all of a server, where a built-in tool is to look at what that server has.
    fn denial_of_resources(&self, tool: &str, input: &Map<String, Value>) -> Option<Decision> {
        if !OF_RESOURCES.contains(&tool) {
            return None;
        }
        let named = input.get("server").and_then(Value::as_str);
        // Where none is named it looks at all of them.
        let is_meant =
            |server: &&str| named.is_none_or(|named| server_tools_pattern(named) == server_tools_pattern(server));
        let declared = self.servers.iter().map(String::as_str).filter(is_meant);
        let servers = declared.chain(named);
        let mut names = servers.filter_map(|server| {
            let spelled = server_tools_pattern(server);
            let spelled = spelled.strip_prefix("mcp__").unwrap_or_default();
            let name = ServerName::new(server).or_else(|_| ServerName::new(spelled));
            name.ok()
        });
        names.find_map(|name| self.policy.denial_of(&name))
    }

    async fn decide(&self, asked: ToolPermissionRequest) -> PermissionResult {
        let Ok(named) = Named::new(&asked.tool_name, asked.server.as_deref()) else {
            return PermissionResult::deny(unspeakable(&asked.tool_name));
        };
        let decision = self.decision(&named, &asked.input);
        match decision.action {
            Action::Allow => PermissionResult::allow(),
            Action::Deny => refusal(&asked.tool_name, &Denial::Rule(decision)),
            Action::Ask => match &self.callback {
                Some(callback) => call(callback, asked).await,
                None => {
                    let subject = named.subject(&asked.input);
                    self.ask(&asked, &subject, &decision).await
                }
            },
        }
    }

    async fn ask(
        &self,
        asked: &ToolPermissionRequest,
        subject: &Subject<'_>,
        decision: &Decision,
    ) -> PermissionResult {
        let nobody = PermissionAnswer::NobodyToAsk;
        let context = CallContext::default().origin(CallOrigin::Model);
        let answer = match &self.interaction {
            None => nobody,
            Some(interaction) => {
                let question = PermissionQuestion::new(subject, &asked.input, decision, &context);
                let answer = AssertUnwindSafe(interaction.permit(question));
                answer.catch_unwind().await.unwrap_or(nobody)
            }
        };
        match answer {
            PermissionAnswer::Allow => PermissionResult::allow(),
            PermissionAnswer::Deny => refusal(&asked.tool_name, &Denial::Person),
            _ => refusal(&asked.tool_name, &Denial::NobodyToAsk),
        }
    }
}

async fn call(callback: &Callback, asked: ToolPermissionRequest) -> PermissionResult {
    let tool = asked.tool_name.clone();
    let answer = AssertUnwindSafe(async { callback(asked).await });
    answer.catch_unwind().await.unwrap_or_else(|_| {
        PermissionResult::deny(format!(
            "{tool} was not executed: what decides about it panicked"
        ))
    })
}

fn refusal(tool: &str, denial: &Denial) -> PermissionResult {
    PermissionResult::deny(refused(tool, denial))
}

fn refused(tool: &str, denial: &Denial) -> String {
    format!("{tool} was not executed: {denial}")
}

fn unspeakable(tool: &str) -> String {
    format!("{tool} was not executed: its server has a name that no rule could spell")
}

impl Named {
    fn new(tool: &str, server: Option<&str>) -> Result<Self, InvalidServerName> {
        let name = ServerName::new(server.unwrap_or(BUILT_IN))?;
        let own = own_name(name.as_str(), tool);
        let spelled = || split_wire_name(tool).map(|(_, tool)| tool);
        let own = own.or_else(spelled).unwrap_or(tool);
        Ok(Self {
            tool: ToolId::new(name, own),
            wire: WireName::from(tool),
            annotations: ToolAnnotations::default(),
            is_built_in: server.is_none(),
        })
    }

    fn subject<'a>(&'a self, input: &'a Map<String, Value>) -> Subject<'a> {
        Subject {
            tool: &self.tool,
            wire: &self.wire,
            annotations: &self.annotations,
            trusts_annotations: false,
            arguments: Some(input),
        }
    }
}

/// What is left of a tool's name without that of its server.
fn own_name<'a>(server: &str, tool: &'a str) -> Option<&'a str> {
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
