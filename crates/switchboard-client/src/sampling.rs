//! Parses and validates `sampling/createMessage`: a server requests a completion from the model of
//! the embedding program.
//!
//! The crate never adds context of servers to the messages, even if the requesting server asks for
//! it.
//!
//! Invariant: a request never exceeds the limit `samplingTokens`. It has tools only if the client
//! announced the capability `sampling.tools`.

use serde::Deserialize;

use switchboard_wire::id::ServerName;
use switchboard_wire::mcp::ClientCapabilities;
use switchboard_wire::mcp::{ErrorObject, Json};
use switchboard_wire::text::fit;
use switchboard_wire::text::sanitize;

/// Maximum length of the system prompt, in bytes. A longer prompt is truncated.
const MAX_SYSTEM_PROMPT_BYTES: usize = 64 * 1024;
/// Maximum number of stop sequences. Further ones are dropped.
const MAX_STOP_SEQUENCES: usize = 16;
/// Maximum length of a stop sequence, in bytes. A longer one is dropped.
const MAX_STOP_SEQUENCE_BYTES: usize = 256;

/// A valid `sampling/createMessage` request. Known secrets are masked in all of its members, also
/// in those that are described as received.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct SamplingRequest<'a> {
    /// The server that requests the completion.
    pub server: &'a ServerName,
    /// The messages for the model, as received. Untrusted, because the server wrote them.
    pub messages: Json,
    /// The system prompt that the server suggests. Sanitized and truncated, but untrusted.
    pub system_prompt: Option<String>,
    /// The maximum number of tokens to generate: what the server requested, but at most the limit
    /// `sampling_tokens`.
    pub max_tokens: u64,
    /// The maximum number of tokens that the server requested; `None` if it sent none.
    pub requested_max_tokens: Option<u64>,
    /// The servers whose context the server wants in the messages. For information only: do not add
    /// any context.
    pub include_context: IncludeContext,
    /// Hints about which model to use, as received.
    pub model_preferences: Option<Json>,
    /// The temperature that the server suggests.
    pub temperature: Option<f64>,
    /// Texts at which the model stops generating.
    pub stop_sequences: Vec<String>,
    /// Tools that the model may use, as received. `None` unless the client announced
    /// `sampling.tools`.
    pub tools: Option<Json>,
    /// Whether the model may or must use a tool, as received.
    pub tool_choice: Option<Json>,
    /// Metadata for the model's provider, as received.
    pub metadata: Option<Json>,
}

/// The servers whose context a sampling request wants in its messages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum IncludeContext {
    /// No server.
    #[default]
    None,
    /// The server that sent the request.
    ThisServer,
    /// All servers of the host.
    AllServers,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct RawParams {
    messages: Json,
    system_prompt: Option<String>,
    max_tokens: Option<serde_json::Number>,
    include_context: Option<String>,
    model_preferences: Option<Json>,
    temperature: Option<f64>,
    #[serde(default)]
    stop_sequences: Option<Vec<String>>,
    tools: Option<Json>,
    tool_choice: Option<Json>,
    metadata: Option<Json>,
}

impl<'a> SamplingRequest<'a> {
    /// Parses the `params` of a request. If the server requests more than `max_tokens`, lowers the
    /// number instead of refusing the request, because a model may always generate fewer tokens.
    /// The error is what the server receives as response.
    pub(crate) fn parse(
        server: &'a ServerName,
        params: &Json,
        capabilities: ClientCapabilities,
        max_tokens: u64,
    ) -> Result<Self, ErrorObject> {
        let invalid = |problem: &str| ErrorObject::new(ErrorObject::INVALID_PARAMS, problem);
        let raw: RawParams = serde_json::from_str(params.as_str())
            .map_err(|error| invalid(&format!("`params` cannot be parsed: {error}")))?;
        if !raw.messages.as_str().starts_with('[') {
            return Err(invalid("`messages` is not an array"));
        }
        let has_tools = raw.tools.is_some() || raw.tool_choice.is_some();
        if has_tools && !capabilities.sampling_tools {
            return Err(invalid("this client does not support sampling with tools"));
        }
        let requested_max_tokens = match &raw.max_tokens {
            None => None,
            Some(number) => Some(
                parse_positive_integer(number)
                    .ok_or_else(|| invalid("`maxTokens` is not a positive integer"))?,
            ),
        };
        Ok(Self {
            server,
            system_prompt: raw.system_prompt.as_deref().map(sanitize_prompt),
            max_tokens: requested_max_tokens.unwrap_or(max_tokens).min(max_tokens),
            requested_max_tokens,
            include_context: match raw.include_context.as_deref() {
                Some("thisServer") => IncludeContext::ThisServer,
                Some("allServers") => IncludeContext::AllServers,
                _ => IncludeContext::None,
            },
            model_preferences: raw.model_preferences,
            temperature: raw
                .temperature
                .filter(|temperature| temperature.is_finite()),
            stop_sequences: keep_valid_stop_sequences(raw.stop_sequences.unwrap_or_default()),
            tools: raw.tools,
            tool_choice: raw.tool_choice,
            metadata: raw.metadata,
            messages: raw.messages,
        })
    }
}

fn parse_positive_integer(number: &serde_json::Number) -> Option<u64> {
    // Accept floats such as 100.0: languages without an integer type send 100 like that.
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "it is at least 1, and the cast saturates; the caller lowers it to a limit"
    )]
    let from_float =
        |number: f64| (number >= 1.0 && number.fract() == 0.0).then_some(number as u64);
    match number.as_u64() {
        Some(number) => Some(number).filter(|number| *number > 0),
        None => number.as_f64().and_then(from_float),
    }
}

fn sanitize_prompt(text: &str) -> String {
    fit(&sanitize(text), MAX_SYSTEM_PROMPT_BYTES).to_owned()
}

fn keep_valid_stop_sequences(mut sequences: Vec<String>) -> Vec<String> {
    sequences.retain(|text| !text.is_empty() && text.len() <= MAX_STOP_SEQUENCE_BYTES);
    sequences.truncate(MAX_STOP_SEQUENCES);
    sequences
}
