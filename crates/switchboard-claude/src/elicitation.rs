//! Answers elicitations (forms and URLs) that MCP servers send through the CLI.
//!
//! An elicitation is validated before the [`Interaction`] receives it, and the answer is validated
//! before it is sent. Invariant: without an interaction that supports elicitation, the answer is
//! `decline`. At most one elicitation of each server is open at a time.

#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::fmt;
use std::panic::AssertUnwindSafe;
use std::sync::{Arc, Mutex, PoisonError};

use futures_util::FutureExt;
use serde_json::{Map, Value, json};
use switchboard::Interaction;
use switchboard::elicitation::{ElicitResponse, Elicitation};
use switchboard::id::ServerName;
use switchboard::mcp::Json;
use tokio::sync::Semaphore;

use crate::json_fields::Fields;

/// Maximum number of servers that may send elicitations. Bounds the memory if a CLI sends ever new
/// server names.
const MAX_SERVERS: usize = 1024;

/// Pairs of member names: in the control protocol, and in the parameters of `elicitation/create`.
const MEMBERS: [(&str, &str); 5] = [
    ("mode", "mode"),
    ("message", "message"),
    ("requested_schema", "requestedSchema"),
    ("url", "url"),
    ("elicitation_id", "elicitationId"),
];

/// Passes elicitations to the interaction, one at a time for each server.
pub(crate) struct ElicitationQueues {
    interaction: Option<Arc<dyn Interaction>>,
    /// One semaphore with a single permit for each server that has sent an elicitation.
    slots: Mutex<HashMap<ServerName, Arc<Semaphore>>>,
}

impl ElicitationQueues {
    pub(crate) fn new(interaction: Option<Arc<dyn Interaction>>) -> Self {
        Self {
            interaction,
            slots: Mutex::default(),
        }
    }

    /// Answers an `elicitation` request of the CLI. Returns the payload of the response, or an
    /// error message for the CLI.
    pub(crate) async fn elicit(&self, request: Value) -> Result<Value, String> {
        let Some(interaction) = &self.interaction else {
            return Ok(decline());
        };
        let fields = Fields::of(&request);
        let server = fields.text("mcp_server_name").unwrap_or_default();
        let server = ServerName::new(&server)
            .map_err(|problem| format!("invalid server name: {problem}"))?;
        let capabilities = interaction.capabilities_for(&server);
        if !capabilities.elicitation && !capabilities.elicitation_url {
            return Ok(decline());
        }
        let question = Elicitation::parse(&server, &mcp_params(fields), capabilities)
            .map_err(|error| error.message.clone())?;
        let mode = question.mode.clone();
        let slot = self.slot(&server)?;
        let _permit = slot.acquire().await.map_err(|_| "session is closing")?;
        let answer = AssertUnwindSafe(interaction.elicit(question));
        let answer = answer
            .catch_unwind()
            .await
            .unwrap_or(ElicitResponse::Cancel);
        Ok(answer.into_result(&mode, &server))
    }

    fn slot(&self, server: &ServerName) -> Result<Arc<Semaphore>, String> {
        let mut slots = self.slots.lock().unwrap_or_else(PoisonError::into_inner);
        if slots.len() >= MAX_SERVERS && !slots.contains_key(server) {
            return Err(format!("elicitations from more than {MAX_SERVERS} servers"));
        }
        let slot = slots.entry(server.clone());
        Ok(Arc::clone(
            slot.or_insert_with(|| Arc::new(Semaphore::new(1))),
        ))
    }
}

fn decline() -> Value {
    json!({"action": "decline"})
}

/// Builds the parameters of `elicitation/create` from a request of the control protocol.
fn mcp_params(request: Fields<'_>) -> Json {
    let members = MEMBERS.iter();
    let members = members
        .filter_map(|(control, mcp)| Some(((*mcp).to_owned(), request.value(control)?.clone())));
    Json::from(&Value::Object(members.collect::<Map<_, _>>()))
}

impl fmt::Debug for ElicitationQueues {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ElicitationQueues")
            .field("interaction", &self.interaction.is_some())
            .finish_non_exhaustive()
    }
}
