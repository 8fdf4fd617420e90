//! Tools and what comes of calling one.

use serde::{Deserialize, Serialize, Serializer};

use super::{ContentBlock, Json};

/// A tool as its server describes it. Everything in it is untrusted text.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Tool {
    /// The raw name; identity together with the server.
    pub name: String,
    /// A name for people.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// What the tool does, for the model.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// JSON Schema of the arguments, as the server sent it.
    pub input_schema: Json,
    /// JSON Schema of `structuredContent`, if the server promises one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub output_schema: Option<Json>,
    /// What the server says of the tool's behaviour.
    #[serde(skip_serializing_if = "ToolAnnotations::is_empty")]
    pub annotations: ToolAnnotations,
    /// Whether it runs as a task (2025-11-25); in the modern era servers decide that call by call.
    #[serde(rename = "execution", skip_serializing_if = "is_forbidden")]
    pub task_support: TaskSupport,
    /// Extension data, carried through.
    #[serde(rename = "_meta", skip_serializing_if = "Option::is_none")]
    pub meta: Option<Json>,
}

impl Tool {
    /// A tool with a name and the schema of its arguments.
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

    /// Says what the tool does.
    pub fn description(mut self, text: impl Into<String>) -> Self {
        self.description = Some(text.into());
        self
    }

    /// Says how the tool behaves.
    pub fn annotations(mut self, annotations: ToolAnnotations) -> Self {
        self.annotations = annotations;
        self
    }

    /// The name to show a person: the title, else the annotation's, else the raw name.
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
    /// Never: it is called plainly. What goes without saying.
    #[default]
    Forbidden,
    /// Either way; it is called plainly.
    Optional,
    /// Always.
    Required,
}

impl TaskSupport {
    /// How the protocol spells it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Forbidden => "forbidden",
            Self::Optional => "optional",
            Self::Required => "required",
        }
    }
}

impl Serialize for TaskSupport {
    /// As the object `execution` of a tool.
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

/// What a server claims about a tool's behaviour: hints, never grounds for trust.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ToolAnnotations {
    /// A name for people, from before tools had a `title` of their own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// It changes nothing.
    #[serde(
        default,
        rename = "readOnlyHint",
        skip_serializing_if = "Option::is_none"
    )]
    pub read_only: Option<bool>,
    /// It may destroy something.
    #[serde(
        default,
        rename = "destructiveHint",
        skip_serializing_if = "Option::is_none"
    )]
    pub destructive: Option<bool>,
    /// Calling it twice is like calling it once.
    #[serde(
        default,
        rename = "idempotentHint",
        skip_serializing_if = "Option::is_none"
    )]
    pub idempotent: Option<bool>,
    /// It talks to the world outside.
    #[serde(
        default,
        rename = "openWorldHint",
        skip_serializing_if = "Option::is_none"
    )]
    pub open_world: Option<bool>,
}

impl ToolAnnotations {
    /// Whether the server said nothing at all.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// Whether the server declares this hint to be true.
    pub fn declares(&self, hint: Hint) -> bool {
        let claim = match hint {
            Hint::ReadOnly => self.read_only,
            Hint::Destructive => self.destructive,
            Hint::OpenWorld => self.open_world,
        };
        claim == Some(true)
    }

    /// Claims that the tool changes nothing.
    pub fn read_only() -> Self {
        Self {
            read_only: Some(true),
            ..Self::default()
        }
    }
}

/// The hints that a permission rule may name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Hint {
    /// `readOnlyHint`
    ReadOnly,
    /// `destructiveHint`
    Destructive,
    /// `openWorldHint`
    OpenWorld,
}

/// What a tool answered, as the server sent it: not yet sanitised, not yet cut.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct CallToolResult {
    /// The blocks, in order.
    pub content: Vec<ContentBlock>,
    /// The same as data, where the tool has an output schema.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub structured_content: Option<Json>,
    /// The tool says that it failed. That is an answer, not a failed call.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub is_error: bool,
    /// Extension data, carried through.
    #[serde(rename = "_meta", skip_serializing_if = "Option::is_none")]
    pub meta: Option<Json>,
    /// How many more blocks there were than are taken ([`Limits::content_blocks`]).
    ///
    /// [`Limits::content_blocks`]: crate::Limits::content_blocks
    #[serde(skip)]
    pub blocks_left_out: usize,
}

impl CallToolResult {
    /// A result of one text block.
    pub fn text(text: impl Into<String>) -> Self {
        Self {
            content: vec![ContentBlock::text(text)],
            ..Self::default()
        }
    }

    /// A failure that the tool itself reports, as one text block.
    pub fn error(text: impl Into<String>) -> Self {
        Self {
            is_error: true,
            ..Self::text(text)
        }
    }

    /// Adds the same answer as data.
    pub fn structured(mut self, value: &serde_json::Value) -> Self {
        self.structured_content = Some(value.into());
        self
    }
}

/// One note of how far a call has come.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Progress {
    /// How far; what it counts is the server's affair.
    pub progress: f64,
    /// How far it will go, when known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub total: Option<f64>,
    /// What is being done.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// How many notes before this one were dropped because they were not taken in time.
    #[serde(skip_deserializing, skip_serializing_if = "is_zero")]
    pub skipped: u64,
}

impl Progress {
    /// A note that `done` of an unknown total is done.
    pub fn new(done: f64) -> Self {
        Self {
            progress: done,
            total: None,
            message: None,
            skipped: 0,
        }
    }

    /// Says how much there is to be done.
    pub fn of(mut self, total: f64) -> Self {
        self.total = Some(total);
        self
    }

    /// Says what is being done.
    pub fn message(mut self, text: impl Into<String>) -> Self {
        self.message = Some(text.into());
        self
    }
}

#[expect(
    clippy::trivially_copy_pass_by_ref,
    reason = "the signature serde asks for"
)]
fn is_forbidden(support: &TaskSupport) -> bool {
    *support == TaskSupport::Forbidden
}

#[expect(
    clippy::trivially_copy_pass_by_ref,
    reason = "the signature serde asks for"
)]
fn is_zero(count: &u64) -> bool {
    *count == 0
}
