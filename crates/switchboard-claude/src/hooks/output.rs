//! What a hook has to say.

use serde_json::{Map, Value, json};

use super::HookEvent;

/// What only some events take.
const SPECIFIC: &str = "hookSpecificOutput";

/// What a hook has to say: nothing, or what is to happen.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct HookOutput {
    members: Map<String, Value>,
    /// What depends on the event, whose name is added when that is known.
    specific: Map<String, Value>,
}

impl HookOutput {
    /// Nothing: everything goes its way.
    pub fn none() -> Self {
        Self::default()
    }

    /// Stops what happened, for a reason that the model is told.
    pub fn block(reason: impl Into<String>) -> Self {
        Self::none()
            .with("decision", "block")
            .with("reason", reason.into())
    }

    /// Ends the turn, for a reason that the user is told.
    pub fn stop(reason: impl Into<String>) -> Self {
        Self::none()
            .with("continue", false)
            .with("stopReason", reason.into())
    }

    /// Lets the tool be used without a question ([`HookEvent::PreToolUse`]).
    pub fn allow() -> Self {
        Self::none().with_specific("permissionDecision", "allow")
    }

    /// Does not let the tool be used ([`HookEvent::PreToolUse`]).
    pub fn deny(reason: impl Into<String>) -> Self {
        Self::permission("deny", reason.into())
    }

    /// Asks before the tool is used ([`HookEvent::PreToolUse`]).
    pub fn ask(reason: impl Into<String>) -> Self {
        Self::permission("ask", reason.into())
    }

    /// What the CLI takes, where there is no method for it.
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

    /// Tells the model something besides.
    pub fn additional_context(self, text: impl Into<String>) -> Self {
        self.with_specific("additionalContext", text.into())
    }

    /// Has the tool work on something else ([`HookEvent::PreToolUse`]).
    pub fn updated_input(self, input: Map<String, Value>) -> Self {
        self.with_specific("updatedInput", Value::Object(input))
    }

    /// Tells the user something.
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

    /// As the CLI wants it.
    pub(super) fn into_reply(self, event: &HookEvent) -> Value {
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
