//! What a handler returned, as the result of a call.
//!
//! Invariant: a value is written once, whatever is made of it.

use schemars::JsonSchema;
use serde::Serialize;
use serde_json::value::to_raw_value;

use super::error::ToolResult;
use super::schema;
use crate::mcp::{CallToolResult, ContentBlock, Json};

/// What a tool can return: data of any type that has a schema, blocks, or a whole result.
///
/// | type | what the caller is given |
/// |---|---|
/// | `Serialize + JsonSchema`, an object | `structuredContent` and the same as text; the tool has an `outputSchema` |
/// | a string | that text |
/// | `()` | no content |
/// | other data | its JSON as text |
/// | [`ContentBlock`], `Vec<ContentBlock>` | these blocks |
/// | [`CallToolResult`] | itself |
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be the result of a tool",
    label = "cannot be the result of a tool",
    note = "derive `serde::Serialize` and `schemars::JsonSchema` for it, or return `String`, `()`, `ContentBlock`, \
            `Vec<ContentBlock>` or `CallToolResult`"
)]
pub trait ToolOutput<Kind>: 'static {
    #[doc(hidden)]
    fn form() -> Form;

    #[doc(hidden)]
    fn into_result(self, shape: Shape) -> ToolResult<CallToolResult>;
}

/// Of results that are data.
#[derive(Debug)]
pub struct Data;

/// Of results that are what a model sees.
#[derive(Debug)]
pub struct Blocks;

/// How the values of a type are told, found out once.
#[doc(hidden)]
#[derive(Debug)]
pub struct Form {
    pub(super) schema: Option<Json>,
    pub(super) shape: Shape,
}

#[doc(hidden)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape {
    /// As data and as text.
    Object,
    /// Not at all.
    Nothing,
    /// As text.
    Other,
}

impl Form {
    const BLOCKS: Self = Self {
        schema: None,
        shape: Shape::Other,
    };
}

impl<T: Serialize + JsonSchema + 'static> ToolOutput<Data> for T {
    fn form() -> Form {
        let schema = schema::of::<T>();
        if schema::is_object(&schema) {
            return Form {
                schema: Some(schema::to_json(schema)),
                shape: Shape::Object,
            };
        }
        let is_nothing = schema.get("type").is_some_and(|kind| kind == "null");
        let shape = if is_nothing {
            Shape::Nothing
        } else {
            Shape::Other
        };
        Form {
            schema: None,
            shape,
        }
    }

    fn into_result(self, shape: Shape) -> ToolResult<CallToolResult> {
        if shape == Shape::Nothing {
            return Ok(CallToolResult::default());
        }
        let written = to_raw_value(&self)
            .map_err(|error| format!("the result cannot be written as JSON: {error}"))?;
        if shape == Shape::Object {
            return Ok(CallToolResult {
                structured_content: Some(Json::owned(written.get())),
                ..CallToolResult::text(Box::<str>::from(written))
            });
        }
        Ok(match serde_json::from_str::<String>(written.get()) {
            Ok(text) => CallToolResult::text(text),
            Err(_) => CallToolResult::text(Box::<str>::from(written)),
        })
    }
}

impl ToolOutput<Blocks> for Vec<ContentBlock> {
    fn form() -> Form {
        Form::BLOCKS
    }

    fn into_result(self, _: Shape) -> ToolResult<CallToolResult> {
        Ok(CallToolResult {
            content: self,
            ..CallToolResult::default()
        })
    }
}

impl ToolOutput<Blocks> for ContentBlock {
    fn form() -> Form {
        Form::BLOCKS
    }

    fn into_result(self, shape: Shape) -> ToolResult<CallToolResult> {
        vec![self].into_result(shape)
    }
}

impl ToolOutput<Blocks> for CallToolResult {
    fn form() -> Form {
        Form::BLOCKS
    }

    fn into_result(self, _: Shape) -> ToolResult<CallToolResult> {
        Ok(self)
    }
}
