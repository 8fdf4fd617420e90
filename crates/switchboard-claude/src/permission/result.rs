//! What a permission callback decides, and its JSON form.

use serde_json::{Map, Value, json};

/// Whether the model may use a tool.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum PermissionResult {
    /// The tool may run.
    #[non_exhaustive]
    Allow {
        /// Arguments that replace those that the model chose. `None` keeps the model's arguments.
        updated_input: Option<Map<String, Value>>,
        /// Changes to make to the permission rules of the CLI, for example from
        /// [`ToolPermissionRequest::suggestions`].
        ///
        /// [`ToolPermissionRequest::suggestions`]: crate::ToolPermissionRequest::suggestions
        updated_permissions: Vec<Value>,
    },
    /// The tool must not run.
    #[non_exhaustive]
    Deny {
        /// The reason for the denial, which the model sees.
        message: String,
        /// Whether the denial also ends the turn.
        interrupt: bool,
    },
}

impl PermissionResult {
    /// Allows the tool with the arguments that the model chose.
    pub fn allow() -> Self {
        Self::Allow {
            updated_input: None,
            updated_permissions: Vec::new(),
        }
    }

    /// Allows the tool, but replaces the arguments that the model chose.
    pub fn allow_with(input: Map<String, Value>) -> Self {
        Self::Allow {
            updated_input: Some(input),
            updated_permissions: Vec::new(),
        }
    }

    /// Denies the tool. The model sees `message` as the reason.
    pub fn deny(message: impl Into<String>) -> Self {
        Self::Deny {
            message: message.into(),
            interrupt: false,
        }
    }

    /// Also changes the permission rules of the CLI. Has no effect on a denial.
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

    /// Makes a denial also end the turn. Has no effect if the tool is allowed.
    pub fn and_interrupt(mut self) -> Self {
        if let Self::Deny { interrupt, .. } = &mut self {
            *interrupt = true;
        }
        self
    }

    /// Builds the payload of the response to `can_use_tool`. `input` contains the tool's arguments
    /// as the CLI sent them. A response that allows the tool must contain arguments even if they
    /// are unchanged.
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
