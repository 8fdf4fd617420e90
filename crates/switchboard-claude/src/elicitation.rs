//! What MCP servers of the CLI ask the user: forms and addresses.
//!
//! The engine reads and judges the question before anybody sees it, and the answer before it is sent.
//! Invariant: what nobody is there to answer, or nobody offered to answer, is declined; questions of
//! one server are asked one at a time.

#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::fmt;
use std::panic::AssertUnwindSafe;
use std::sync::{Arc, Mutex, PoisonError};

use futures_util::FutureExt;
use serde_json::{Map, Value, json};
use switchboard::id::ServerName;
use switchboard::mcp::Json;
use switchboard::{ElicitAnswer, Elicitation, Interaction};
use tokio::sync::Semaphore;

use crate::fields::Fields;

/// How many servers' turns are remembered: a CLI that makes up names does not fill the memory.
const MOST_SERVERS: usize = 1024;

/// The CLI's words for the members of a question, and the protocol's.
const MEMBERS: [(&str, &str); 5] = [
    ("mode", "mode"),
    ("message", "message"),
    ("requested_schema", "requestedSchema"),
    ("url", "url"),
    ("elicitation_id", "elicitationId"),
];

/// Who answers the questions of servers.
pub(crate) struct Elicitations {
    interaction: Option<Arc<dyn Interaction>>,
    turns: Mutex<HashMap<ServerName, Arc<Semaphore>>>,
}

impl Elicitations {
    pub(crate) fn new(interaction: Option<Arc<dyn Interaction>>) -> Self {
        Self {
            interaction,
            turns: Mutex::default(),
        }
    }

    /// The answer to a question: what is sent back, or why there is none.
    pub(crate) async fn elicit(&self, request: Value) -> Result<Value, String> {
        let Some(interaction) = &self.interaction else {
            return Ok(declined());
        };
        let asked = Fields::of(&request);
        let server = asked.text("mcp_server_name").unwrap_or_default();
        let server = ServerName::new(&server).map_err(|problem| {
            format!("who asks is not clear: the name of the server {problem}")
        })?;
        let offers = interaction.offers_to(&server);
        if !offers.elicitation && !offers.elicitation_url {
            return Ok(declined());
        }
        let question = Elicitation::parse(&server, &params(asked), offers)
            .map_err(|error| error.message.clone())?;
        let mode = question.mode.clone();
        let turn = self.turn(&server)?;
        let _turn = turn
            .acquire()
            .await
            .map_err(|_| "nobody is asked any more")?;
        let answer = AssertUnwindSafe(interaction.elicit(question));
        let answer = answer.catch_unwind().await.unwrap_or(ElicitAnswer::Cancel);
        Ok(answer.into_result(&mode, &server))
    }

    fn turn(&self, server: &ServerName) -> Result<Arc<Semaphore>, String> {
        let mut turns = self.turns.lock().unwrap_or_else(PoisonError::into_inner);
        if turns.len() >= MOST_SERVERS && !turns.contains_key(server) {
            return Err(format!("more than {MOST_SERVERS} servers have asked"));
        }
        let turn = turns.entry(server.clone());
        Ok(Arc::clone(
            turn.or_insert_with(|| Arc::new(Semaphore::new(1))),
        ))
    }
}

fn declined() -> Value {
    json!({"action": "decline"})
}

/// The question as the server put it.
fn params(asked: Fields<'_>) -> Json {
    let members = MEMBERS.iter();
    let members = members
        .filter_map(|(ours, theirs)| Some(((*theirs).to_owned(), asked.value(ours)?.clone())));
    Json::from(&Value::Object(members.collect::<Map<_, _>>()))
}

impl fmt::Debug for Elicitations {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Elicitations")
            .field("interaction", &self.interaction.is_some())
            .finish_non_exhaustive()
    }
}
