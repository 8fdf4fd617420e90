//! The end of a turn: what came of it and what it cost.

use serde_json::{Map, Value};
use switchboard::mcp::Json;

use crate::fields::Fields;

/// The end of a turn.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct ResultMessage {
    /// `success`, `error_during_execution`, `error_max_turns`, `error_max_budget_usd` and others.
    pub subtype: String,
    /// Whether it failed. A failure of the API has the subtype `success` and says so here.
    pub is_error: bool,
    /// What the model said last.
    pub result: Option<String>,
    /// What went wrong.
    pub errors: Vec<String>,
    /// How often the model was asked.
    pub num_turns: u64,
    /// How long it took, in milliseconds.
    pub duration_ms: u64,
    /// How much of that was spent waiting for the API.
    pub duration_api_ms: u64,
    /// What the session has cost so far, in dollars.
    pub total_cost_usd: Option<f64>,
    /// What was used.
    pub usage: Usage,
    /// What was used of each model, as the CLI says it.
    pub model_usage: Map<String, Value>,
    /// The uses of tools that were not permitted.
    pub permission_denials: Vec<PermissionDenial>,
    /// The answer in the shape that was asked for, if one was.
    pub structured_output: Option<Value>,
    /// Why the model stopped.
    pub stop_reason: Option<String>,
    /// Why the turn ended: `completed`, `api_error`, `aborted_tools` and others.
    pub terminal_reason: Option<String>,
    /// The session: [`Options::resume`] takes it up again.
    ///
    /// [`Options::resume`]: crate::Options::resume
    pub session_id: String,
    /// The name of this message.
    pub uuid: Option<String>,
    /// The message as it came.
    pub raw: Json,
}

/// What was used, in tokens.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Usage {
    /// What went in and was not in the cache.
    pub input_tokens: u64,
    /// What came out.
    pub output_tokens: u64,
    /// What was put into the cache.
    pub cache_creation_input_tokens: u64,
    /// What came out of the cache.
    pub cache_read_input_tokens: u64,
    /// All that the CLI says of it; `null` if it says nothing.
    pub raw: Json,
}

/// A use of a tool that was not permitted.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct PermissionDenial {
    /// The tool.
    pub tool_name: String,
    /// The use of it.
    pub tool_use_id: String,
    /// What it was to work on.
    pub tool_input: Value,
}

impl ResultMessage {
    pub(super) fn read(fields: Fields<'_>, raw: Json) -> Self {
        let denials = fields.list("permission_denials").iter();
        Self {
            subtype: fields.text("subtype").unwrap_or_default(),
            is_error: fields.flag("is_error"),
            result: fields.text("result"),
            errors: fields.texts("errors"),
            num_turns: fields.count("num_turns"),
            duration_ms: fields.count("duration_ms"),
            duration_api_ms: fields.count("duration_api_ms"),
            total_cost_usd: fields.amount("total_cost_usd"),
            usage: Usage::read(fields),
            model_usage: fields.object("modelUsage"),
            permission_denials: denials.map(PermissionDenial::of).collect(),
            structured_output: fields.value("structured_output").cloned(),
            stop_reason: fields.text("stop_reason"),
            terminal_reason: fields.text("terminal_reason"),
            session_id: fields.text("session_id").unwrap_or_default(),
            uuid: fields.text("uuid"),
            raw,
        }
    }

    /// Whether the turn came to its end as it should.
    pub fn is_success(&self) -> bool {
        self.subtype == "success" && !self.is_error
    }
}

impl Usage {
    /// Reads the member `usage`.
    pub(super) fn read(of: Fields<'_>) -> Self {
        let usage = of.inside("usage");
        Self {
            input_tokens: usage.count("input_tokens"),
            output_tokens: usage.count("output_tokens"),
            cache_creation_input_tokens: usage.count("cache_creation_input_tokens"),
            cache_read_input_tokens: usage.count("cache_read_input_tokens"),
            raw: of.json("usage").unwrap_or_else(|| Json::from(&Value::Null)),
        }
    }
}

impl PermissionDenial {
    fn of(value: &Value) -> Self {
        let fields = Fields::of(value);
        Self {
            tool_name: fields.text("tool_name").unwrap_or_default(),
            tool_use_id: fields.text("tool_use_id").unwrap_or_default(),
            tool_input: fields.value("tool_input").cloned().unwrap_or_default(),
        }
    }
}
