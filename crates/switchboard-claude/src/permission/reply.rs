//! What is said to the question whether a tool may be used, and how it is sent.

use serde_json::{Map, Value, json};

/// What a callback says to the question whether a tool may be used.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum PermissionResult {
    /// It may.
    #[non_exhaustive]
    Allow {
        /// What it works on instead of what the model wanted.
        updated_input: Option<Map<String, Value>>,
        /// Changes of the CLI's rules, as [`ToolPermissionRequest::suggestions`] has some.
        ///
        /// [`ToolPermissionRequest::suggestions`]: crate::ToolPermissionRequest::suggestions
        updated_permissions: Vec<Value>,
    },
    /// It may not.
    #[non_exhaustive]
    Deny {
        /// Why, in words for the model.
        message: String,
        /// Whether the whole turn ends with it.
        interrupt: bool,
    },
}

impl PermissionResult {
    /// It may.
    pub fn allow() -> Self {
        Self::Allow {
            updated_input: None,
            updated_permissions: Vec::new(),
        }
    }

    /// It may, on this input instead of what the model wanted.
    pub fn allow_with(input: Map<String, Value>) -> Self {
        Self::Allow {
            updated_input: Some(input),
            updated_permissions: Vec::new(),
        }
    }

    /// It may not, for a reason that the model is told.
    pub fn deny(message: impl Into<String>) -> Self {
        Self::Deny {
            message: message.into(),
            interrupt: false,
        }
    }

    /// Changes the CLI's rules as well, if this allows the tool.
    pub fn with_permissions(mut self, changes: impl IntoIterator<Item = Value>) -> Self {
        if let Self::Allow {
            updated_permissions,
            ..
        } = &mut self
        {
            updated_permissions.extend(changes);
        }
        self
    }

    /// Ends the whole turn, if this denies the tool.
    pub fn and_interrupt(mut self) -> Self {
        if let Self::Deny { interrupt, .. } = &mut self {
            *interrupt = true;
        }
        self
    }

    /// As the CLI wants it, which is told the input in any case.
    pub(super) fn into_reply(self, input: Map<String, Value>) -> Value {
        let mut reply = Map::new();
        let mut put = |key: &str, value: Value| reply.insert(key.to_owned(), value);
        match self {
            Self::Allow {
                updated_input,
                updated_permissions,
            } => {
                put("behavior", json!("allow"));
                put("updatedInput", updated_input.unwrap_or(input).into());
                if !updated_permissions.is_empty() {
                    put("updatedPermissions", updated_permissions.into());
                }
            }
            Self::Deny { message, interrupt } => {
                put("behavior", json!("deny"));
                put("message", message.into());
                if interrupt {
                    put("interrupt", json!(true));
                }
            }
        }
        Value::Object(reply)
    }
}
