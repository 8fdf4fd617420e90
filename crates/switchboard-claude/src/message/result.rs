//! The result message, which ends a turn: outcome, token usage, cost and denied tool uses.

use serde_json::{Map, Value};
use switchboard::mcp::Json;

use crate::json_fields::Fields;

/// The message that ends a turn and summarizes it.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct ResultMessage {
    /// The outcome of the turn: `success`, `error_during_execution`, `error_max_turns`,
    /// `error_max_budget_usd` and others.
    pub subtype: String,
    /// Whether the turn failed. If a request to the model failed, `subtype` is `success`
    /// nevertheless, and only this field is set.
    pub is_error: bool,
    /// The last text of the model.
    pub result: Option<String>,
    /// Descriptions of the errors that made the turn fail. Empty if there are none.
    pub errors: Vec<String>,
    /// Number of requests to the model.
    pub num_turns: u64,
    /// Duration of the turn, in milliseconds.
    pub duration_ms: u64,
    /// Time spent waiting for the API, in milliseconds.
    pub duration_api_ms: u64,
    /// Cost of the whole session up to now, in US dollars.
    pub total_cost_usd: Option<f64>,
    /// The tokens that the turn used.
    pub usage: Usage,
    /// Token usage and cost per model, as the CLI reports them.
    pub model_usage: Map<String, Value>,
    /// The tool uses that were denied in this turn.
    pub permission_denials: Vec<PermissionDenial>,
    /// The answer as JSON that matches the schema of
    /// [`Options::json_schema`](crate::Options::json_schema).
    pub structured_output: Option<Value>,
    /// Why the model stopped generating, for example `end_turn`.
    pub stop_reason: Option<String>,
    /// Why the turn ended: `completed`, `api_error`, `aborted_tools` and others.
    pub terminal_reason: Option<String>,
    /// The id of the session. Pass it to [`Options::resume`] to continue the session.
    ///
    /// [`Options::resume`]: crate::Options::resume
    pub session_id: String,
    /// The id of this message, a UUID.
    pub uuid: Option<String>,
    /// The whole message as the CLI sent it.
    pub raw: Json,
}

/// How many tokens were used.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Usage {
    /// Input tokens that were neither read from nor written to the prompt cache.
    pub input_tokens: u64,
    /// Tokens that the model generated.
    pub output_tokens: u64,
    /// Input tokens that were written to the prompt cache.
    pub cache_creation_input_tokens: u64,
    /// Input tokens that were read from the prompt cache.
    pub cache_read_input_tokens: u64,
    /// The usage as the CLI sent it; `null` if it sent none.
    pub raw: Json,
}

/// A tool use that was denied, so that the tool did not run.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct PermissionDenial {
    /// The name of the tool.
    pub tool_name: String,
    /// The id of the tool use.
    pub tool_use_id: String,
    /// The arguments that the model chose for the tool.
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

    /// Whether the turn succeeded: no error is reported and `subtype` is `success`.
    pub fn is_success(&self) -> bool {
        self.subtype == "success" && !self.is_error
    }
}

impl Usage {
    /// Parses the member `usage` of a message. Missing counts are 0.
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
