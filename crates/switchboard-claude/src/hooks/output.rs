//! The output of a hook and its JSON form.

use serde_json::{Map, Value, json};

use super::HookEvent;

/// The member for values that depend on the event.
const SPECIFIC: &str = "hookSpecificOutput";

/// The output of a hook: nothing, or a decision.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct HookOutput {
    members: Map<String, Value>,
    /// Values that depend on the event. Its name is added when the output is sent.
    specific: Map<String, Value>,
}

impl HookOutput {
    /// No output: the CLI continues.
    pub fn none() -> Self {
        Self::default()
    }

    /// Blocks the event. The model sees the reason.
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

    /// Requires permission for the tool ([`HookEvent::PreToolUse`]).
    pub fn ask(reason: impl Into<String>) -> Self {
        Self::permission("ask", reason.into())
    }

    /// Output for which there is no method here, as the CLI expects it.
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

    /// Adds text to the context of the model.
    pub fn additional_context(self, text: impl Into<String>) -> Self {
        self.with_specific("additionalContext", text.into())
    }

    /// Replaces the arguments of the tool ([`HookEvent::PreToolUse`]).
    pub fn updated_input(self, input: Map<String, Value>) -> Self {
        self.with_specific("updatedInput", Value::Object(input))
    }

    /// Shows the user a message.
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

    /// Builds the payload of the response.
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
