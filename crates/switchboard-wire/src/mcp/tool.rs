//! Tools, call results and progress.

use serde::{Deserialize, Serialize, Serializer};

use super::{ContentBlock, Json};
use crate::text::{for_terminal, sanitize};

/// A tool as its server lists it. All text in it is untrusted.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct ToolDefinition {
    /// The raw name, unique within its server.
    pub name: String,
    /// The display name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// The description for the model.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// JSON Schema of the arguments, as the server sent it.
    pub input_schema: Json,
    /// JSON Schema of `structuredContent`, if there is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub output_schema: Option<Json>,
    /// Hints about the tool's behaviour.
    #[serde(skip_serializing_if = "ToolAnnotations::is_empty")]
    pub annotations: ToolAnnotations,
    /// Whether the tool is called as a task (2025-11-25). Modern servers decide that per call.
    #[serde(rename = "execution", skip_serializing_if = "is_forbidden")]
    pub task_support: TaskSupport,
    /// Extension data (`_meta`), as sent.
    #[serde(rename = "_meta", skip_serializing_if = "Option::is_none")]
    pub meta: Option<Json>,
}

impl ToolDefinition {
    /// Creates a tool from a name and the schema of its arguments.
    pub fn new(name: impl Into<String>, input_schema: Json) -> Self {
        Self {
            name: name.into(),
            title: None,
            description: None,
            input_schema,
            output_schema: None,
            annotations: ToolAnnotations::default(),
            task_support: TaskSupport::default(),
            meta: None,
        }
    }

    /// Sets the description.
    pub fn description(mut self, text: impl Into<String>) -> Self {
        self.description = Some(text.into());
        self
    }

    /// Sets the hints about the tool's behaviour.
    pub fn annotations(mut self, annotations: ToolAnnotations) -> Self {
        self.annotations = annotations;
        self
    }

    /// Returns the definition for display: names, texts and the texts in the schemas are sanitized.
    /// The name can then differ from the name that the server knows.
    pub fn sanitized(&self) -> Self {
        let clean = |text: &Option<String>| text.as_ref().map(|text| sanitize(text).into_owned());
        Self {
            name: for_terminal(&self.name).into_owned(),
            title: clean(&self.title),
            description: clean(&self.description),
            input_schema: self.input_schema.sanitized(),
            output_schema: self.output_schema.as_ref().map(Json::sanitized),
            annotations: ToolAnnotations {
                title: clean(&self.annotations.title),
                ..self.annotations.clone()
            },
            task_support: self.task_support,
            meta: self.meta.as_ref().map(Json::sanitized),
        }
    }

    /// Returns the title, or the title in the annotations, or the raw name.
    pub fn display_name(&self) -> &str {
        self.title
            .as_deref()
            .or(self.annotations.title.as_deref())
            .unwrap_or(&self.name)
    }
}

/// Whether a tool of a 2025-11-25 server is called as a task.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum TaskSupport {
    /// Never. This is the default.
    #[default]
    Forbidden,
    /// Optional; the client does not use a task.
    Optional,
    /// Always.
    Required,
}

impl TaskSupport {
    /// The value as written on the wire.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Forbidden => "forbidden",
            Self::Optional => "optional",
            Self::Required => "required",
        }
    }
}

impl Serialize for TaskSupport {
    /// Writes the `execution` object of a tool.
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        #[derive(Serialize)]
        #[serde(rename_all = "camelCase")]
        struct Execution {
            task_support: &'static str,
        }
        let task_support = self.as_str();
        Execution { task_support }.serialize(serializer)
    }
}

/// Hints of a server about a tool's behaviour. They are not trustworthy.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct ToolAnnotations {
    /// The display name in versions before tools had a `title`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// The tool does not modify anything.
    #[serde(
        default,
        rename = "readOnlyHint",
        skip_serializing_if = "Option::is_none"
    )]
    pub read_only: Option<bool>,
    /// The tool may delete or overwrite something.
    #[serde(
        default,
        rename = "destructiveHint",
        skip_serializing_if = "Option::is_none"
    )]
    pub destructive: Option<bool>,
    /// Repeating a call has no further effect.
    #[serde(
        default,
        rename = "idempotentHint",
        skip_serializing_if = "Option::is_none"
    )]
    pub idempotent: Option<bool>,
    /// The tool interacts with external systems.
    #[serde(
        default,
        rename = "openWorldHint",
        skip_serializing_if = "Option::is_none"
    )]
    pub open_world: Option<bool>,
}

impl Hint {
    /// The name in permission rules.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::ReadOnly => "readOnly",
            Self::Destructive => "destructive",
            Self::OpenWorld => "openWorld",
        }
    }
}

impl ToolAnnotations {
    /// Whether neither a title nor a hint is set.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// Whether this hint is set to true.
    pub fn declares(&self, hint: Hint) -> bool {
        let value = match hint {
            Hint::ReadOnly => self.read_only,
            Hint::Destructive => self.destructive,
            Hint::OpenWorld => self.open_world,
        };
        value == Some(true)
    }

    /// Creates annotations with only `readOnlyHint` set.
    pub fn read_only() -> Self {
        Self {
            read_only: Some(true),
            ..Self::default()
        }
    }
}

/// The hints that a permission rule can refer to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub enum Hint {
    /// `readOnlyHint`
    ReadOnly,
    /// `destructiveHint`
    Destructive,
    /// `openWorldHint`
    OpenWorld,
}

/// The result of a tool. Texts are as the server sent them: neither sanitised nor truncated.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct CallToolResult {
    /// The content blocks, in order.
    pub content: Vec<ContentBlock>,
    /// The result as data, if the tool returned it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub structured_content: Option<Json>,
    /// Whether the tool reports a failure. The call itself succeeded.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub is_error: bool,
    /// Extension data (`_meta`), as sent.
    #[serde(rename = "_meta", skip_serializing_if = "Option::is_none")]
    pub meta: Option<Json>,
    /// How many blocks beyond [`Limits::content_blocks`] were dropped.
    ///
    /// [`Limits::content_blocks`]: crate::Limits::content_blocks
    #[serde(skip)]
    pub blocks_left_out: usize,
}

impl CallToolResult {
    /// Creates a result from content blocks.
    pub fn new(content: impl IntoIterator<Item = ContentBlock>) -> Self {
        Self {
            content: content.into_iter().collect(),
            ..Self::default()
        }
    }

    /// Creates a result of one text block.
    pub fn text(text: impl Into<String>) -> Self {
        Self::new([ContentBlock::text(text)])
    }

    /// Creates a failure that the tool reports, as one text block.
    pub fn error(text: impl Into<String>) -> Self {
        Self {
            is_error: true,
            ..Self::text(text)
        }
    }

    /// Sets the result as data.
    pub fn structured(mut self, value: &serde_json::Value) -> Self {
        self.structured_content = Some(value.into());
        self
    }
}

/// A progress notification of a call.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Progress {
    /// The progress so far, in units that the server chooses.
    pub progress: f64,
    /// The final value, if known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub total: Option<f64>,
    /// What the tool is doing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// How many notifications before this one were dropped because the receiver was too slow.
    #[serde(skip_deserializing, skip_serializing_if = "is_zero")]
    pub skipped: u64,
}

impl Progress {
    /// Creates a notification with an unknown total.
    pub fn new(done: f64) -> Self {
        Self {
            progress: done,
            total: None,
            message: None,
            skipped: 0,
        }
    }

    /// Sets the total.
    pub fn of(mut self, total: f64) -> Self {
        self.total = Some(total);
        self
    }

    /// Sets the message.
    pub fn message(mut self, text: impl Into<String>) -> Self {
        self.message = Some(text.into());
        self
    }
}

#[expect(
    clippy::trivially_copy_pass_by_ref,
    reason = "serde requires this signature"
)]
fn is_forbidden(support: &TaskSupport) -> bool {
    *support == TaskSupport::Forbidden
}

#[expect(
    clippy::trivially_copy_pass_by_ref,
    reason = "serde requires this signature"
)]
fn is_zero(count: &u64) -> bool {
    *count == 0
}
