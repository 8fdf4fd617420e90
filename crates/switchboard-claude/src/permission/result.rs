//! The decision of a permission callback and its JSON form.

use serde_json::{Map, Value, json};

/// The decision whether a tool may be used.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum PermissionResult {
    /// The tool may run.
    #[non_exhaustive]
    Allow {
        /// Replaces the arguments that the model chose.
        updated_input: Option<Map<String, Value>>,
        /// Changes of the CLI's rules, for example from [`ToolPermissionRequest::suggestions`].
        ///
        /// [`ToolPermissionRequest::suggestions`]: crate::ToolPermissionRequest::suggestions
        updated_permissions: Vec<Value>,
    },
    /// The tool must not run.
    #[non_exhaustive]
    Deny {
        /// The reason, which the model sees.
        message: String,
        /// Whether to end the whole turn.
        interrupt: bool,
    },
}

impl PermissionResult {
    /// Allows the tool.
    pub fn allow() -> Self {
        Self::Allow {
            updated_input: None,
            updated_permissions: Vec::new(),
        }
    }

    /// Allows the tool with other arguments than the model chose.
    pub fn allow_with(input: Map<String, Value>) -> Self {
        Self::Allow {
            updated_input: Some(input),
            updated_permissions: Vec::new(),
        }
    }

    /// Denies the tool. The model sees the message.
    pub fn deny(message: impl Into<String>) -> Self {
        Self::Deny {
            message: message.into(),
            interrupt: false,
        }
    }

    /// Also changes the CLI's rules. Has no effect on a denial.
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

    /// Also ends the whole turn. Has no effect if the tool is allowed.
    pub fn and_interrupt(mut self) -> Self {
        if let Self::Deny { interrupt, .. } = &mut self {
            *interrupt = true;
        }
        self
    }

    /// Builds the payload of the response. The CLI requires the input even if it is unchanged.
    pub(super) fn into_json(self, input: Map<String, Value>) -> Value {
        let mut payload = Map::new();
        let mut put = |key: &str, value: Value| payload.insert(key.to_owned(), value);
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
        Value::Object(payload)
    }
}
