//! The result message, which ends a turn: outcome, usage, cost and denials.

use serde_json::{Map, Value};
use switchboard::mcp::Json;

use crate::json_fields::Fields;

/// The message that ends a turn.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct ResultMessage {
    /// `success`, `error_during_execution`, `error_max_turns`, `error_max_budget_usd` and others.
    pub subtype: String,
    /// Whether the turn failed. A failure of the API has the subtype `success` and sets this field.
    pub is_error: bool,
    /// The last text of the model.
    pub result: Option<String>,
    /// Error messages.
    pub errors: Vec<String>,
    /// Number of requests to the model.
    pub num_turns: u64,
    /// Duration of the turn, in milliseconds.
    pub duration_ms: u64,
    /// Time spent waiting for the API, in milliseconds.
    pub duration_api_ms: u64,
    /// Cost of the session so far, in US dollars.
    pub total_cost_usd: Option<f64>,
    /// Tokens used.
    pub usage: Usage,
    /// Usage per model, as the CLI reports it.
    pub model_usage: Map<String, Value>,
    /// The tool uses that were denied.
    pub permission_denials: Vec<PermissionDenial>,
    /// The answer in the form of the requested JSON Schema.
    pub structured_output: Option<Value>,
    /// Why the model stopped.
    pub stop_reason: Option<String>,
    /// Why the turn ended: `completed`, `api_error`, `aborted_tools` and others.
    pub terminal_reason: Option<String>,
    /// The id of the session, for [`Options::resume`].
    ///
    /// [`Options::resume`]: crate::Options::resume
    pub session_id: String,
    /// The id of this message.
    pub uuid: Option<String>,
    /// The message as the CLI sent it.
    pub raw: Json,
}

/// Token usage.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Usage {
    /// Input tokens that were not read from the cache.
    pub input_tokens: u64,
    /// Output tokens.
    pub output_tokens: u64,
    /// Input tokens written to the cache.
    pub cache_creation_input_tokens: u64,
    /// Input tokens read from the cache.
    pub cache_read_input_tokens: u64,
    /// The usage as the CLI sent it; `null` if it sent none.
    pub raw: Json,
}

/// A tool use that was denied.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct PermissionDenial {
    /// The name of the tool.
    pub tool_name: String,
    /// The id of the tool use.
    pub tool_use_id: String,
    /// The arguments of the tool.
    pub tool_input: Value,
}

impl ResultMessage {
    pub(super) fn parse(fields: Fields<'_>, raw: Json) -> Self {
        let denials = fields.list("permission_denials").iter();
        Self {
            subtype: fields.text("subtype").unwrap_or_default(),
            is_error: fields.flag("is_error"),
            result: fields.text("result"),
            errors: fields.texts("errors"),
            num_turns: fields.count("num_turns"),
            duration_ms: fields.count("duration_ms"),
            duration_api_ms: fields.count("duration_api_ms"),
            total_cost_usd: fields.number("total_cost_usd"),
            usage: Usage::parse(fields),
            model_usage: fields.object("modelUsage"),
            permission_denials: denials.map(PermissionDenial::parse).collect(),
            structured_output: fields.value("structured_output").cloned(),
            stop_reason: fields.text("stop_reason"),
            terminal_reason: fields.text("terminal_reason"),
            session_id: fields.text("session_id").unwrap_or_default(),
            uuid: fields.text("uuid"),
            raw,
        }
    }

    /// Whether the turn succeeded.
    pub fn is_success(&self) -> bool {
        self.subtype == "success" && !self.is_error
    }
}

impl Usage {
    /// Parses the member `usage` of a message.
    pub(super) fn parse(message: Fields<'_>) -> Self {
        let usage = message.nested("usage");
        Self {
            input_tokens: usage.count("input_tokens"),
            output_tokens: usage.count("output_tokens"),
            cache_creation_input_tokens: usage.count("cache_creation_input_tokens"),
            cache_read_input_tokens: usage.count("cache_read_input_tokens"),
            raw: message
                .json("usage")
                .unwrap_or_else(|| Json::from(&Value::Null)),
        }
    }
}

impl PermissionDenial {
    fn parse(value: &Value) -> Self {
        let fields = Fields::of(value);
        Self {
            tool_name: fields.text("tool_name").unwrap_or_default(),
            tool_use_id: fields.text("tool_use_id").unwrap_or_default(),
            tool_input: fields.value("tool_input").cloned().unwrap_or_default(),
        }
    }
}
