//! Turns the return value of a tool handler into a `CallToolResult`, and the type of the value into
//! an output schema.
//!
//! Invariant: a value is serialized once, even if the result holds it twice, as structured content
//! and as text.

use schemars::JsonSchema;
use serde::Serialize;
use serde_json::value::to_raw_value;
use switchboard_wire::mcp::{CallToolResult, ContentBlock, Json};

use super::error::ToolResult;
use super::schema;

/// What a tool handler can return: serializable data, content blocks, or a complete result.
///
/// | type | result of the call |
/// |---|---|
/// | `Serialize + JsonSchema`, an object | `structuredContent` and the same JSON as text; the tool has an `outputSchema` |
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
    fn format() -> OutputFormat;

    #[doc(hidden)]
    fn into_result(self, shape: OutputShape) -> ToolResult<CallToolResult>;
}

/// The `Kind` of [`ToolOutput`] for types with `Serialize` and `JsonSchema`.
#[derive(Debug)]
pub struct DataMarker;

/// The `Kind` of [`ToolOutput`] for content blocks and complete results.
#[derive(Debug)]
pub struct BlocksMarker;

/// How the return values of a tool become results. Determined once, when the tool is created.
#[doc(hidden)]
#[derive(Debug)]
pub struct OutputFormat {
    pub(super) schema: Option<Json>,
    pub(super) shape: OutputShape,
}

#[doc(hidden)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OutputShape {
    /// The value becomes structured content, and the same JSON as text.
    Object,
    /// The result has no content.
    Unit,
    /// The value becomes text.
    Other,
}

impl OutputFormat {
    const BLOCKS: Self = Self {
        schema: None,
        shape: OutputShape::Other,
    };
}

impl<T: Serialize + JsonSchema + 'static> ToolOutput<DataMarker> for T {
    fn format() -> OutputFormat {
        let schema = schema::type_schema::<T>();
        if schema::is_object(&schema) {
            return OutputFormat {
                schema: Some(schema::to_json(schema)),
                shape: OutputShape::Object,
            };
        }
        let is_unit = schema.get("type").is_some_and(|it| it == "null");
        let shape = if is_unit {
            OutputShape::Unit
        } else {
            OutputShape::Other
        };
        OutputFormat {
            schema: None,
            shape,
        }
    }

    fn into_result(self, shape: OutputShape) -> ToolResult<CallToolResult> {
        if shape == OutputShape::Unit {
            return Ok(CallToolResult::default());
        }
        let json = to_raw_value(&self)
            .map_err(|error| format!("cannot serialize the result as JSON: {error}"))?;
        if shape == OutputShape::Object {
            let structured = Json::owned(json.get());
            let mut result = CallToolResult::text(Box::<str>::from(json));
            result.structured_content = Some(structured);
            return Ok(result);
        }
        Ok(match serde_json::from_str::<String>(json.get()) {
            Ok(text) => CallToolResult::text(text),
            Err(_) => CallToolResult::text(Box::<str>::from(json)),
        })
    }
}

impl ToolOutput<BlocksMarker> for Vec<ContentBlock> {
    fn format() -> OutputFormat {
        OutputFormat::BLOCKS
    }

    fn into_result(self, _: OutputShape) -> ToolResult<CallToolResult> {
        Ok(CallToolResult::new(self))
    }
}

impl ToolOutput<BlocksMarker> for ContentBlock {
    fn format() -> OutputFormat {
        OutputFormat::BLOCKS
    }

    fn into_result(self, shape: OutputShape) -> ToolResult<CallToolResult> {
        vec![self].into_result(shape)
    }
}

impl ToolOutput<BlocksMarker> for CallToolResult {
    fn format() -> OutputFormat {
        OutputFormat::BLOCKS
    }

    fn into_result(self, _: OutputShape) -> ToolResult<CallToolResult> {
        Ok(self)
    }
}
