//! The tools by which a model looks after its servers: what they have, what changes, who is there.
//!
//! They stand beside the tools of the servers ([`Registry::register_management_tools`]). None of
//! them asks for permission. Invariant: a deny on one of them, or on the whole of a server, holds;
//! and what is polled passes the rules of the tool that is called.
//!
//! [`Registry::register_management_tools`]: crate::registry::Registry::register_management_tools

mod resources;
mod schema;
mod servers;
mod watches;

use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};
use switchboard_wire::BoxFuture;

use crate::call::CallContext;
use crate::host::Host;
use crate::id::ServerName;
use crate::mcp::Json;
use crate::registry::{RegisterError, Registry, Tool, ToolAnswer, ToolFailure};
use crate::watch::WatchKind;

/// One of the management tools.
struct ManagementTool {
    host: Host,
    kind: Kind,
}

/// Which of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    ListResources,
    ReadResource,
    SubscribeResource,
    UnsubscribeResource,
    SubscribePolling,
    UnsubscribePolling,
    RefreshTools,
    WaitForServers,
}

impl Kind {
    const ALL: [Self; 8] = [
        Self::ListResources,
        Self::ReadResource,
        Self::SubscribeResource,
        Self::UnsubscribeResource,
        Self::SubscribePolling,
        Self::UnsubscribePolling,
        Self::RefreshTools,
        Self::WaitForServers,
    ];
}

impl Registry {
    /// Registers the management tools: list and read resources, watch them, refresh the tools of
    /// servers, wait for servers.
    pub fn register_management_tools(&mut self) -> Result<(), RegisterError> {
        let host = self.host().clone();
        Kind::ALL.into_iter().try_for_each(|kind| {
            self.register(ManagementTool {
                host: host.clone(),
                kind,
            })
        })
    }
}

impl Tool for ManagementTool {
    fn name(&self) -> &str {
        self.kind.name()
    }

    fn description(&self) -> &str {
        self.kind.description()
    }

    fn input_schema(&self) -> Json {
        self.kind.input_schema()
    }

    fn requires_permission(&self, _: &Map<String, Value>) -> bool {
        false
    }

    fn execute<'a>(
        &'a self,
        input: Map<String, Value>,
        context: &'a CallContext,
    ) -> BoxFuture<'a, Result<ToolAnswer, ToolFailure>> {
        let host = &self.host;
        Box::pin(async move {
            match self.kind {
                Kind::ListResources => resources::list(host, read(input)?).await,
                Kind::ReadResource => resources::read(host, read(input)?).await,
                Kind::SubscribeResource => watches::subscribe(host, read(input)?, context).await,
                Kind::UnsubscribeResource => {
                    watches::end(host, WatchKind::Subscription, &read(input)?, context)
                }
                Kind::SubscribePolling => watches::poll(host, read(input)?, context).await,
                Kind::UnsubscribePolling => {
                    watches::end(host, WatchKind::Poll, &read(input)?, context)
                }
                Kind::RefreshTools => servers::refresh(host, read(input)?).await,
                Kind::WaitForServers => servers::wait(host, read(input)?).await,
            }
        })
    }
}

/// Which server, where it need not be said.
#[derive(serde::Deserialize)]
struct OfServer {
    server: Option<String>,
}

/// The input as the tool wants it. Its schema was checked before, so this hardly ever fails.
fn read<T: DeserializeOwned>(input: Map<String, Value>) -> Result<T, ToolFailure> {
    serde_json::from_value(Value::Object(input))
        .map_err(|error| ToolFailure(format!("the input cannot be used: {error}")))
}

/// An answer as JSON.
fn answer(value: &impl Serialize) -> Result<ToolAnswer, ToolFailure> {
    serde_json::to_string(value)
        .map(ToolAnswer::Text)
        .map_err(|error| ToolFailure(format!("the answer cannot be written: {error}")))
}

/// Refuses to touch a server that a rule denies as a whole.
fn permit(host: &Host, server: &str) -> Result<(), ToolFailure> {
    match ServerName::new(server) {
        Ok(server) => {
            let asked = host.state().check_server_not_denied(&server);
            asked.map_err(|error| ToolFailure::of(&error))
        }
        // There is no such server.
        Err(_) => Ok(()),
    }
}

impl ToolFailure {
    fn of(error: &impl std::fmt::Display) -> Self {
        Self(error.to_string())
    }
}
