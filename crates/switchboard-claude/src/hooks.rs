//! Hooks: callbacks for events of the CLI.
//!
//! The `initialize` request registers each hook under a generated id. To call a hook, the CLI sends
//! a `hook_callback` request with this id. Invariant: a panic of a hook affects only the
//! `hook_callback` request that called the hook.
//!
//! ```
//! use switchboard_claude::{HookEvent, HookOutput, Hooks};
//!
//! let hooks = Hooks::new().on(HookEvent::PreToolUse, "Bash", |input| async move {
//!     let command = input.tool_input.get("command").and_then(|command| command.as_str());
//!     match command {
//!         Some(command) if command.contains("rm ") => HookOutput::deny("removing files is not allowed"),
//!         _ => HookOutput::none(),
//!     }
//! });
//! ```

mod matcher_syntax;
mod output;
#[cfg(test)]
mod tests;

use std::fmt;
use std::future::ready;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt;
use serde_json::{Map, Value, json};
use switchboard::interaction::BoxFuture;
use switchboard::mcp::Json;

pub(crate) use matcher_syntax::check_matcher;
pub use output::HookOutput;

use crate::json_fields::Fields;
use crate::permission::{Permissions, RuleVerdict};

type HookCallback = Arc<dyn Fn(HookInput) -> BoxFuture<'static, HookOutput> + Send + Sync>;

/// Prefix of the ids under which hooks are registered with the CLI. The index of the hook follows.
const ID_PREFIX: &str = "hook_";

/// An event in the CLI for which hooks can be called.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum HookEvent {
    /// A tool is about to run.
    PreToolUse,
    /// A tool has run successfully.
    PostToolUse,
    /// A tool has failed.
    PostToolUseFailure,
    /// A prompt is about to be sent to the model.
    UserPromptSubmit,
    /// The model has finished its response.
    Stop,
    /// A subagent starts.
    SubagentStart,
    /// A subagent has finished.
    SubagentStop,
    /// The CLI is about to compact the conversation.
    PreCompact,
    /// The CLI shows a notification to the user.
    Notification,
    /// A tool needs permission.
    PermissionRequest,
    /// The session starts.
    SessionStart,
    /// The session ends.
    SessionEnd,
    /// An event that this crate does not know. Holds its name.
    Other(String),
}

impl HookEvent {
    const KNOWN: [Self; 12] = [
        Self::PreToolUse,
        Self::PostToolUse,
        Self::PostToolUseFailure,
        Self::UserPromptSubmit,
        Self::Stop,
        Self::SubagentStart,
        Self::SubagentStop,
        Self::PreCompact,
        Self::Notification,
        Self::PermissionRequest,
        Self::SessionStart,
        Self::SessionEnd,
    ];

    /// The name of the event in the control protocol.
    pub fn as_str(&self) -> &str {
        match self {
            Self::PreToolUse => "PreToolUse",
            Self::PostToolUse => "PostToolUse",
            Self::PostToolUseFailure => "PostToolUseFailure",
            Self::UserPromptSubmit => "UserPromptSubmit",
            Self::Stop => "Stop",
            Self::SubagentStart => "SubagentStart",
            Self::SubagentStop => "SubagentStop",
            Self::PreCompact => "PreCompact",
            Self::Notification => "Notification",
            Self::PermissionRequest => "PermissionRequest",
            Self::SessionStart => "SessionStart",
            Self::SessionEnd => "SessionEnd",
            Self::Other(event) => event,
        }
    }
}

impl From<&str> for HookEvent {
    fn from(text: &str) -> Self {
        let mut known = Self::KNOWN.into_iter();
        known
            .find(|event| event.as_str() == text)
            .unwrap_or_else(|| Self::Other(text.to_owned()))
    }
}

/// Selects the tools for which a hook is called, and limits how long the hook may take.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct HookMatcher {
    /// A regular expression for tool names; `None` matches every tool.
    pub tools: Option<String>,
    /// How long the CLI waits for the hook. `None` for the default of the CLI.
    pub timeout: Option<Duration>,
}

impl HookMatcher {
    /// Matches every tool, with the default timeout of the CLI.
    pub fn all() -> Self {
        Self::default()
    }

    /// Sets how long the CLI waits for the hook. The CLI receives the timeout in whole seconds.
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = Some(timeout);
        self
    }
}

impl From<&str> for HookMatcher {
    fn from(tools: &str) -> Self {
        Self {
            tools: Some(tools.to_owned()),
            timeout: None,
        }
    }
}

/// What the CLI tells a hook about an event.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct HookInput {
    /// The event for which the hook is called.
    pub event: HookEvent,
    /// The id of the session.
    pub session_id: String,
    /// Path of the file with the transcript of the conversation.
    pub transcript_path: Option<String>,
    /// The working directory of the session.
    pub cwd: Option<String>,
    /// The permission mode of the session.
    pub permission_mode: Option<String>,
    /// The name of the tool; `None` if the event does not concern a tool.
    pub tool_name: Option<String>,
    /// The arguments of the tool; null if the event does not concern a tool.
    pub tool_input: Value,
    /// The result of the tool; null unless the tool has run.
    pub tool_response: Value,
    /// The id of this tool use; `None` if the event does not concern a tool.
    pub tool_use_id: Option<String>,
    /// The name that the tool's MCP server has in the options. `None` for built-in tools, and if
    /// the CLI does not send it.
    pub server: Option<String>,
    /// The prompt; `None` for events other than [`HookEvent::UserPromptSubmit`].
    pub prompt: Option<String>,
    /// The whole input as the CLI sent it.
    pub raw: Json,
}

impl HookInput {
    fn parse(input: &Value, tool_use_id: Option<String>) -> Self {
        let fields = Fields::of(input);
        let event = fields.text("hook_event_name").unwrap_or_default();
        Self {
            event: HookEvent::from(event.as_str()),
            session_id: fields.text("session_id").unwrap_or_default(),
            transcript_path: fields.text("transcript_path"),
            cwd: fields.text("cwd"),
            permission_mode: fields.text("permission_mode"),
            tool_name: fields.text("tool_name"),
            tool_input: fields.value("tool_input").cloned().unwrap_or_default(),
            tool_response: fields.value("tool_response").cloned().unwrap_or_default(),
            tool_use_id: tool_use_id.or_else(|| fields.text("tool_use_id")),
            server: fields.nested("mcp_server").text("name"),
            prompt: fields.text("prompt"),
            raw: Json::from(input),
        }
    }
}

/// The hooks of a session, in the order in which they were added.
#[derive(Clone, Default)]
pub struct Hooks {
    /// The position of a hook in this list is part of its id.
    registered: Vec<RegisteredHook>,
}

#[derive(Clone)]
struct RegisteredHook {
    event: HookEvent,
    matcher: HookMatcher,
    /// Whether a panic or timeout of the hook blocks the event.
    block_on_failure: bool,
    callback: HookCallback,
}

impl Hooks {
    /// The regular expressions of all matchers.
    pub(crate) fn tool_patterns(&self) -> impl Iterator<Item = &str> {
        let matchers = self.registered.iter().map(|hook| &hook.matcher);
        matchers.filter_map(|matcher| matcher.tools.as_deref())
    }

    /// Creates a set without hooks.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a hook: the CLI calls `callback` for each `event` that `matcher` selects. `matcher` is
    /// [`HookMatcher::all`] or a regular expression for tool names. With an invalid expression,
    /// starting the CLI fails with [`Error::InvalidInput`](crate::Error::InvalidInput), because the
    /// CLI would ignore the hook.
    ///
    /// If a hook for [`HookEvent::PreToolUse`] panics, the tool is denied. If such a hook times
    /// out, a current CLI denies the tool, and an older CLI continues without the hook.
    pub fn on<F, O>(
        mut self,
        event: HookEvent,
        matcher: impl Into<HookMatcher>,
        callback: F,
    ) -> Self
    where
        F: Fn(HookInput) -> O + Send + Sync + 'static,
        O: Future<Output = HookOutput> + Send + 'static,
    {
        self.registered.push(RegisteredHook {
            block_on_failure: event == HookEvent::PreToolUse,
            event,
            matcher: matcher.into(),
            callback: Arc::new(move |input| Box::pin(callback(input))),
        });
        self
    }

    /// Adds a hook that checks every tool use against the deny and ask rules of `permissions`.
    /// Without it, the rules would apply only to the tool uses for which the CLI sends
    /// `can_use_tool`.
    pub(crate) fn with_rules(mut self, permissions: Permissions) -> Self {
        let permissions = Arc::new(permissions);
        self.registered.push(RegisteredHook {
            event: HookEvent::PreToolUse,
            matcher: HookMatcher::all(),
            block_on_failure: true,
            callback: Arc::new(move |input| {
                let tool = input.tool_name.unwrap_or_default();
                let verdict = permissions.check_rules(&tool, input.server, &input.tool_input);
                Box::pin(ready(match verdict {
                    RuleVerdict::NoObjection => HookOutput::none(),
                    RuleVerdict::Ask(reason) => HookOutput::ask(reason),
                    RuleVerdict::Deny(reason) => HookOutput::deny(reason),
                }))
            }),
        });
        self
    }

    /// Builds the member `hooks` of the `initialize` request. Returns `None` if there are no hooks.
    pub(crate) fn to_json(&self) -> Option<Value> {
        let mut events: Map<String, Value> = Map::new();
        for (index, hook) in self.registered.iter().enumerate() {
            let event = events.entry(hook.event.as_str());
            if let Value::Array(entries) = event.or_insert_with(|| json!([])) {
                entries.push(hook.to_json(index));
            }
        }
        (!events.is_empty()).then_some(Value::Object(events))
    }

    /// Runs the hook that a `hook_callback` request names. Returns the payload of the response, or
    /// an error message for the CLI.
    pub(crate) async fn callback(&self, request: Value) -> Result<Value, String> {
        let fields = Fields::of(&request);
        let id = fields.text("callback_id").unwrap_or_default();
        let hook = self
            .find(&id)
            .ok_or_else(|| format!("unknown hook `{id}`"))?;
        let input = fields.value("input").unwrap_or(&Value::Null);
        let input = HookInput::parse(input, fields.text("tool_use_id"));
        let event = input.event.clone();
        let output = AssertUnwindSafe(async { (hook.callback)(input).await });
        let output = output.catch_unwind().await;
        let panicked = || format!("the hook for {} panicked", event.as_str());
        let output = match output {
            Ok(output) => output,
            // Deny explicitly instead of returning an error: an older CLI ignores `onFailure` and
            // continues after a failed hook.
            Err(_) if hook.block_on_failure => HookOutput::deny(panicked()),
            Err(_) => return Err(panicked()),
        };
        Ok(output.into_json(&event))
    }

    fn find(&self, id: &str) -> Option<&RegisteredHook> {
        let index = id.strip_prefix(ID_PREFIX)?.parse::<usize>().ok()?;
        self.registered.get(index)
    }
}

impl RegisteredHook {
    fn to_json(&self, index: usize) -> Value {
        let mut entry = Map::new();
        let mut put = |key: &str, value: Value| entry.insert(key.to_owned(), value);
        put("matcher", json!(self.matcher.tools));
        put("hookCallbackIds", json!([format!("{ID_PREFIX}{index}")]));
        if let Some(timeout) = self.matcher.timeout {
            put("timeout", timeout.as_secs().max(1).into());
        }
        if self.block_on_failure {
            put("onFailure", json!("block"));
        }
        Value::Object(entry)
    }
}

impl fmt::Debug for Hooks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let hooks = self.registered.iter();
        let hooks = hooks.map(|hook| (hook.event.as_str(), &hook.matcher.tools));
        f.debug_list().entries(hooks).finish()
    }
}
