//! What a hook returns, and its JSON form.

use serde_json::{Map, Value, json};

use super::HookEvent;

/// Name of the JSON member that holds the values whose meaning depends on the event.
const SPECIFIC: &str = "hookSpecificOutput";

/// What a hook returns to the CLI: nothing, a decision, or additional text.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct HookOutput {
    members: Map<String, Value>,
    /// Values whose meaning depends on the event. The name of the event is added when the output is
    /// sent.
    specific: Map<String, Value>,
}

impl HookOutput {
    /// No decision: the CLI continues as if there were no hook.
    pub fn none() -> Self {
        Self::default()
    }

    /// Blocks what triggered the event. The model sees the reason.
    pub fn block(reason: impl Into<String>) -> Self {
        Self::none()
            .with("decision", "block")
            .with("reason", reason.into())
    }

    /// Ends the turn. The user sees the reason.
    pub fn stop(reason: impl Into<String>) -> Self {
        Self::none()
            .with("continue", false)
            .with("stopReason", reason.into())
    }

    /// Allows the tool without a permission prompt ([`HookEvent::PreToolUse`]).
    pub fn allow() -> Self {
        Self::none().with_specific("permissionDecision", "allow")
    }

    /// Denies the tool ([`HookEvent::PreToolUse`]).
    pub fn deny(reason: impl Into<String>) -> Self {
        Self::permission("deny", reason.into())
    }

    /// Makes the CLI ask for permission to use the tool ([`HookEvent::PreToolUse`]).
    pub fn ask(reason: impl Into<String>) -> Self {
        Self::permission("ask", reason.into())
    }

    /// An output for which this crate has no method. `members` are sent to the CLI unchanged.
    pub fn raw(members: Map<String, Value>) -> Self {
        Self {
            members,
            specific: Map::new(),
        }
    }

    fn permission(decision: &str, reason: String) -> Self {
        Self::none()
            .with_specific("permissionDecision", decision)
            .with_specific("permissionDecisionReason", reason)
    }

    /// Adds a text to the context of the model.
    pub fn additional_context(self, text: impl Into<String>) -> Self {
        self.with_specific("additionalContext", text.into())
    }

    /// Replaces the arguments with which the tool runs ([`HookEvent::PreToolUse`]).
    pub fn updated_input(self, input: Map<String, Value>) -> Self {
        self.with_specific("updatedInput", Value::Object(input))
    }

    /// Makes the CLI show a message to the user.
    pub fn system_message(self, text: impl Into<String>) -> Self {
        self.with("systemMessage", text.into())
    }

    fn with(mut self, key: &str, value: impl Into<Value>) -> Self {
        self.members.insert(key.to_owned(), value.into());
        self
    }

    fn with_specific(mut self, key: &str, value: impl Into<Value>) -> Self {
        self.specific.insert(key.to_owned(), value.into());
        self
    }

    /// Builds the payload of the response to `hook_callback`.
    pub(super) fn into_json(self, event: &HookEvent) -> Value {
        let Self {
            mut members,
            mut specific,
        } = self;
        if !specific.is_empty() {
            specific.insert("hookEventName".to_owned(), json!(event.as_str()));
            members.insert(SPECIFIC.to_owned(), Value::Object(specific));
        }
        Value::Object(members)
    }
}
