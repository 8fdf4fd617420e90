//! A server's request for a completion by the embedder's model, read and bounded.
//!
//! Nothing is added to what the server sent: no context of this or of other servers, whatever it
//! wishes. Invariant: a request never asks for more tokens than the limit, and for tools only where
//! they are offered.

use serde::Deserialize;

use switchboard_wire::id::ServerName;
use switchboard_wire::mcp::ClientCapabilities as Offers;
use switchboard_wire::mcp::{ErrorObject, Json};
use switchboard_wire::text::fit;
use switchboard_wire::text::sanitize;

/// How much of a system prompt is kept, in bytes.
const PROMPT_BYTES: usize = 64 * 1024;
/// How many stop sequences are kept, and how long each may be, in bytes.
const STOP_SEQUENCES: usize = 16;
const STOP_BYTES: usize = 256;

/// What a server asks of a model.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Sampling<'a> {
    /// Who asks.
    pub server: &'a ServerName,
    /// The messages, as sent: untrusted.
    pub messages: Json,
    /// What the server would like the model to be told first: untrusted.
    pub system_prompt: Option<String>,
    /// The most tokens to be made. What the server asked for, or less: the limit `sampling_tokens`.
    pub max_tokens: u64,
    /// How many tokens the server asked for.
    pub tokens_asked: Option<u64>,
    /// Whether the server wished for the context of servers to be added. It is not, and whoever
    /// answers is not to add any.
    pub context_wish: ContextWish,
    /// Which models it would like, as sent.
    pub model_preferences: Option<Json>,
    /// The temperature it would like.
    pub temperature: Option<f64>,
    /// Where the model is to stop.
    pub stop_sequences: Vec<String>,
    /// Tools for the model, as sent, where they are offered.
    pub tools: Option<Json>,
    /// How the model is to use them, as sent.
    pub tool_choice: Option<Json>,
    /// What is passed on to the provider of the model, as sent.
    pub metadata: Option<Json>,
}

/// Whose context a server wished to be added to the messages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum ContextWish {
    /// None.
    #[default]
    None,
    /// Its own.
    ThisServer,
    /// That of all servers.
    AllServers,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Written {
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

impl<'a> Sampling<'a> {
    /// Reads what a server asks for. More tokens than `most_tokens` are not refused but lowered: a
    /// model may always say less.
    pub(crate) fn read(
        server: &'a ServerName,
        params: &Json,
        offers: Offers,
        most_tokens: u64,
    ) -> Result<Self, ErrorObject> {
        let refused = |what: &str| ErrorObject::new(ErrorObject::INVALID_PARAMS, what);
        let written: Written = serde_json::from_str(params.as_str())
            .map_err(|error| refused(&format!("params cannot be read: {error}")))?;
        if !written.messages.as_str().starts_with('[') {
            return Err(refused("`messages` is not a list"));
        }
        let has_tools = written.tools.is_some() || written.tool_choice.is_some();
        if has_tools && !offers.sampling_tools {
            return Err(refused(
                "tools for the model are not offered by this client",
            ));
        }
        let tokens_asked = match &written.max_tokens {
            None => None,
            Some(number) => Some(
                whole(number)
                    .ok_or_else(|| refused("`maxTokens` is not a whole number above 0"))?,
            ),
        };
        Ok(Self {
            server,
            system_prompt: written.system_prompt.as_deref().map(prompt),
            max_tokens: tokens_asked.unwrap_or(most_tokens).min(most_tokens),
            tokens_asked,
            context_wish: match written.include_context.as_deref() {
                Some("thisServer") => ContextWish::ThisServer,
                Some("allServers") => ContextWish::AllServers,
                _ => ContextWish::None,
            },
            model_preferences: written.model_preferences,
            temperature: written.temperature.filter(|degrees| degrees.is_finite()),
            stop_sequences: stops(written.stop_sequences.unwrap_or_default()),
            tools: written.tools,
            tool_choice: written.tool_choice,
            metadata: written.metadata,
            messages: written.messages,
        })
    }
}

fn whole(number: &serde_json::Number) -> Option<u64> {
    // Some languages know no whole numbers, and write 100.0.
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "it is lowered to a limit in any case"
    )]
    let rounded = |number: f64| (number >= 1.0 && number.fract() == 0.0).then_some(number as u64);
    match number.as_u64() {
        Some(number) => Some(number).filter(|number| *number > 0),
        None => number.as_f64().and_then(rounded),
    }
}

fn prompt(text: &str) -> String {
    fit(&sanitize(text), PROMPT_BYTES).to_owned()
}

fn stops(mut sequences: Vec<String>) -> Vec<String> {
    sequences.retain(|text| !text.is_empty() && text.len() <= STOP_BYTES);
    sequences.truncate(STOP_SEQUENCES);
    sequences
}
