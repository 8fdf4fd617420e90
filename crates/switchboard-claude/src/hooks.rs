//! Functions of this program that the CLI calls when something happens.
//!
//! They are declared in `initialize` under names of ours, by which the CLI calls them.
//! Invariant: a hook that panics is that call's error, and nobody else's.
//!
//! ```
//! use switchboard_claude::{HookEvent, HookOutput, Hooks};
//!
//! let hooks = Hooks::new().on(HookEvent::PreToolUse, "Bash", |input| async move {
//!     let command = input.tool_input.get("command").and_then(|command| command.as_str());
//!     match command {
//!         Some(command) if command.contains("rm ") => HookOutput::deny("nothing is removed here"),
//!         _ => HookOutput::none(),
//!     }
//! });
//! ```

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
use switchboard::BoxFuture;
use switchboard::mcp::Json;

pub use output::HookOutput;

use crate::fields::Fields;
use crate::permission::{Objection, Permissions};

type Callback = Arc<dyn Fn(HookInput) -> BoxFuture<'static, HookOutput> + Send + Sync>;

/// What the names of hooks begin with.
const PREFIX: &str = "hook_";

/// When a hook is called.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum HookEvent {
    /// Before a tool is used.
    PreToolUse,
    /// After a tool was used.
    PostToolUse,
    /// After the use of a tool failed.
    PostToolUseFailure,
    /// When somebody said something to the model.
    UserPromptSubmit,
    /// When the model is done.
    Stop,
    /// When a subagent begins.
    SubagentStart,
    /// When a subagent is done.
    SubagentStop,
    /// Before the conversation is made shorter.
    PreCompact,
    /// When the user is to be told something.
    Notification,
    /// When somebody would be asked about a tool.
    PermissionRequest,
    /// When the session begins.
    SessionStart,
    /// When the session ends.
    SessionEnd,
    /// One that is not known here.
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

    /// The event as the CLI spells it.
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

/// For what a hook is called, and how long it may take.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct HookMatcher {
    /// The tools that it is about, as a regular expression; all if there is none.
    pub tools: Option<String>,
    /// How long the CLI waits for it; its own time if there is none.
    pub timeout: Option<Duration>,
}

impl HookMatcher {
    /// For everything.
    pub fn all() -> Self {
        Self::default()
    }

    /// How long the CLI waits for the hook, in whole seconds.
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

/// What happened.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct HookInput {
    /// What.
    pub event: HookEvent,
    /// The session.
    pub session_id: String,
    /// The file that the conversation is kept in.
    pub transcript_path: Option<String>,
    /// The folder that the session works in.
    pub cwd: Option<String>,
    /// Which questions are asked.
    pub permission_mode: Option<String>,
    /// The tool that it is about.
    pub tool_name: Option<String>,
    /// What the tool works on; null if it is about none.
    pub tool_input: Value,
    /// What the tool gave; null if there is nothing yet.
    pub tool_response: Value,
    /// The use of the tool.
    pub tool_use_id: Option<String>,
    /// The MCP server that offers the tool, by the name that it was given.
    pub server: Option<String>,
    /// What somebody said to the model.
    pub prompt: Option<String>,
    /// All of it, as it came.
    pub raw: Json,
}

impl HookInput {
    fn read(input: &Value, tool_use_id: Option<String>) -> Self {
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
            server: fields.inside("mcp_server").text("name"),
            prompt: fields.text("prompt"),
            raw: Json::from(input),
        }
    }
}

/// Functions that the CLI calls when something happens.
#[derive(Clone, Default)]
pub struct Hooks {
    /// The place of each is part of its name.
    registered: Vec<Registered>,
}

#[derive(Clone)]
struct Registered {
    event: HookEvent,
    matcher: HookMatcher,
    /// Whether what it is about is stopped if the hook cannot answer.
    fails_closed: bool,
    callback: Callback,
}

impl Hooks {
    /// None yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Calls `callback` when `event` happens to what `matcher` fits: [`HookMatcher::all`], or a regular
    /// expression for the names of tools. Of an expression that is none the CLI says nothing, and the
    /// hook is not called.
    ///
    /// Before the use of a tool ([`HookEvent::PreToolUse`]), a hook that panics or does not answer in
    /// time has said no.
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
        self.registered.push(Registered {
            fails_closed: event == HookEvent::PreToolUse,
            event,
            matcher: matcher.into(),
            callback: Arc::new(move |input| Box::pin(callback(input))),
        });
        self
    }

    /// Gives rules a say before every use of a tool, since the CLI asks about some of them only.
    pub(crate) fn guarded(mut self, permissions: Permissions) -> Self {
        let permissions = Arc::new(permissions);
        self.registered.push(Registered {
            event: HookEvent::PreToolUse,
            matcher: HookMatcher::all(),
            fails_closed: true,
            callback: Arc::new(move |input| {
                let tool = input.tool_name.unwrap_or_default();
                let objection = permissions.objection(&tool, input.server, &input.tool_input);
                Box::pin(ready(match objection {
                    Objection::None => HookOutput::none(),
                    Objection::ToBeAsked(why) => HookOutput::ask(why),
                    Objection::Denied(why) => HookOutput::deny(why),
                }))
            }),
        });
        self
    }

    /// What `initialize` says of them; nothing if there are none.
    pub(crate) fn declared(&self) -> Option<Value> {
        let mut declared: Map<String, Value> = Map::new();
        for (place, hook) in self.registered.iter().enumerate() {
            let event = declared.entry(hook.event.as_str());
            if let Value::Array(entries) = event.or_insert_with(|| json!([])) {
                entries.push(hook.declared(place));
            }
        }
        (!declared.is_empty()).then_some(Value::Object(declared))
    }

    /// The answer to a call: what is sent back, or why there is none.
    pub(crate) async fn callback(&self, request: Value) -> Result<Value, String> {
        let fields = Fields::of(&request);
        let id = fields.text("callback_id").unwrap_or_default();
        let hook = self
            .find(&id)
            .ok_or_else(|| format!("there is no hook `{id}`"))?;
        let input = fields.value("input").unwrap_or(&Value::Null);
        let input = HookInput::read(input, fields.text("tool_use_id"));
        let event = input.event.clone();
        let output = AssertUnwindSafe(async { (hook.callback)(input).await });
        let output = output.catch_unwind().await;
        let panicked = || format!("the hook for {} panicked", event.as_str());
        let output = match output {
            Ok(output) => output,
            // Said in so many words: an older CLI goes on after a hook that failed.
            Err(_) if hook.fails_closed => HookOutput::deny(panicked()),
            Err(_) => return Err(panicked()),
        };
        Ok(output.into_reply(&event))
    }

    fn find(&self, id: &str) -> Option<&Registered> {
        let place = id.strip_prefix(PREFIX)?.parse::<usize>().ok()?;
        self.registered.get(place)
    }
}

impl Registered {
    fn declared(&self, place: usize) -> Value {
        let mut entry = Map::new();
        let mut put = |key: &str, value: Value| entry.insert(key.to_owned(), value);
        put("matcher", json!(self.matcher.tools));
        put("hookCallbackIds", json!([format!("{PREFIX}{place}")]));
        if let Some(timeout) = self.matcher.timeout {
            put("timeout", timeout.as_secs().max(1).into());
        }
        if self.fails_closed {
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
