//! Parses and validates `sampling/createMessage`: a server requests a completion from the model of
//! the embedding program.
//!
//! The client adds no context of this or other servers, even if the server requests it.
//!
//! Invariant: a request never exceeds the token limit, and has tools only if the client announced
//! the capability.

use serde::Deserialize;

use switchboard_wire::id::ServerName;
use switchboard_wire::mcp::ClientCapabilities;
use switchboard_wire::mcp::{ErrorObject, Json};
use switchboard_wire::text::fit;
use switchboard_wire::text::sanitize;

/// A longer system prompt is truncated to this many bytes.
const MAX_SYSTEM_PROMPT_BYTES: usize = 64 * 1024;
/// Further stop sequences are dropped.
const MAX_STOP_SEQUENCES: usize = 16;
/// Longer stop sequences are dropped.
const MAX_STOP_SEQUENCE_BYTES: usize = 256;

/// A valid `sampling/createMessage` request.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct SamplingRequest<'a> {
    /// The server that sent the request.
    pub server: &'a ServerName,
    /// The messages as received: untrusted.
    pub messages: Json,
    /// The system prompt that the server suggests: sanitized and truncated, but untrusted.
    pub system_prompt: Option<String>,
    /// The maximum number of tokens to generate: the requested maximum, lowered to the limit
    /// `sampling_tokens`.
    pub max_tokens: u64,
    /// The maximum that the server requested.
    pub requested_max_tokens: Option<u64>,
    /// The context that the server requested. For information only: add no context to the messages.
    pub include_context: IncludeContext,
    /// The models that the server prefers, as received.
    pub model_preferences: Option<Json>,
    /// The temperature that the server suggests.
    pub temperature: Option<f64>,
    /// Texts at which the model stops.
    pub stop_sequences: Vec<String>,
    /// Tools for the model, as received. `None` unless the client announced `sampling.tools`.
    pub tools: Option<Json>,
    /// How the model uses the tools, as received.
    pub tool_choice: Option<Json>,
    /// Metadata for the provider of the model, as received.
    pub metadata: Option<Json>,
}

/// The servers whose context a server asks to be added to the messages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum IncludeContext {
    /// None.
    #[default]
    None,
    /// The requesting server.
    ThisServer,
    /// All servers.
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
    /// Parses the `params` of a request. Lowers `maxTokens` to `max_tokens` instead of refusing the
    /// request: a model may always generate fewer tokens. The error is the response to the server.
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
    // Languages without an integer type serialize 100 as 100.0.
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
