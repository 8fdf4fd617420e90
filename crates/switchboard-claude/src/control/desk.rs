//! Who answers what the CLI asks.

use std::panic::AssertUnwindSafe;

use futures_util::FutureExt;
use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;
use switchboard::BoxFuture;
use switchboard::mcp::Json;

use crate::elicitation::Elicitations;
use crate::hooks::Hooks;
use crate::lenient;
use crate::permission::Permissions;
use crate::servers::SdkServers;

/// All that can answer. A request of another kind is refused.
pub(crate) struct Desk {
    pub(crate) servers: SdkServers,
    pub(crate) permissions: Permissions,
    pub(crate) hooks: Hooks,
    pub(crate) elicitations: Elicitations,
}

#[derive(Debug, Deserialize)]
struct Asked<'a> {
    #[serde(default)]
    subtype: String,
    #[serde(default)]
    server_name: String,
    #[serde(borrow, default)]
    message: Option<&'a RawValue>,
}

/// A request that was taken.
pub(super) enum Taken {
    /// A message to a server of ours: it has it already.
    Message(BoxFuture<'static, Json>),
    /// Anything else, as it came.
    Other { subtype: String, request: String },
    /// What is said of one that cannot be taken.
    Unreadable(String),
}

impl Desk {
    /// Takes a request. Messages to a server are handed over here and now: the order in which they are
    /// taken is that in which they came, whichever is answered first.
    pub(super) fn take(&self, request: &str) -> Taken {
        let asked: Asked<'_> = match serde_json::from_str(request) {
            Ok(asked) => asked,
            Err(error) => return Taken::Unreadable(unreadable(&error)),
        };
        match (asked.subtype.as_str(), asked.message) {
            ("mcp_message", Some(message)) => {
                Taken::Message(Box::pin(self.servers.message(&asked.server_name, message)))
            }
            ("mcp_message", None) => Taken::Unreadable("mcp_message has no `message`".to_owned()),
            _ => Taken::Other {
                subtype: asked.subtype,
                request: request.to_owned(),
            },
        }
    }

    /// The payload of the answer, as JSON, or what the refusal says.
    pub(super) async fn answer(&self, taken: Taken) -> Result<String, String> {
        let answer = AssertUnwindSafe(self.serve(taken)).catch_unwind();
        answer.await.unwrap_or_else(|_| {
            Err("what was to answer this request panicked: see the log of the program".to_owned())
        })
    }

    async fn serve(&self, taken: Taken) -> Result<String, String> {
        let (subtype, request) = match taken {
            Taken::Message(answer) => {
                let answer = answer.await;
                return Ok(format!(r#"{{"mcp_response":{}}}"#, answer.as_str()));
            }
            Taken::Unreadable(why) => return Err(why),
            Taken::Other { subtype, request } => (subtype, request),
        };
        let answer = match subtype.as_str() {
            // What is permitted goes back to the CLI: nothing may be missing in it.
            "can_use_tool" => {
                let request = lenient::tree(&request).map_err(|error| unreadable(&error))?;
                self.permissions.can_use_tool(request).await
            }
            "hook_callback" => self.hooks.callback(outline(&request)?).await,
            "elicitation" => self.elicitations.elicit(outline(&request)?).await,
            _ => Err(format!("Unsupported control request subtype: {subtype}")),
        };
        answer.map(|answer| answer.to_string())
    }
}

fn outline(request: &str) -> Result<Value, String> {
    lenient::outline(request).map_err(|error| unreadable(&error))
}

fn unreadable(error: &serde_json::Error) -> String {
    format!("the control request cannot be read: {error}")
}
