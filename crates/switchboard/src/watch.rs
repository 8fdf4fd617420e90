//! Watches: report changes of a resource or of a tool result.
//!
//! A watch subscribes to a resource, or polls a resource or a tool. Detected changes stay in a
//! table until the embedding program takes them as events, for example between two turns of its
//! agent, with [`Host::drain_watch_events`](crate::Host::drain_watch_events) or
//! [`Host::next_watch_event`](crate::Host::next_watch_event).
//!
//! A watch refers to its server by name. The watch survives reconnects and config changes that keep
//! or replace the server, and ends when the server is removed.
//!
//! Invariants:
//!
//! - Each detected change of the content is reported once.
//! - A watch has at most one pending change: from the last reported content to the current content.
//! - Polls of one watch never overlap.
//! - Every poll of a tool passes the permission rules.

mod diff;
mod event;
mod request;
mod snapshot;
mod table;
mod task;

use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;
use switchboard_wire::schema::Validation;
use tokio::sync::oneshot;
use tokio::time::timeout;

pub use event::{WatchChange, WatchEvent};
pub use request::{Watch, WatchError, WatchKind, WatchRequest, WatchTarget};
pub(crate) use table::WatchTable;

use crate::host_state::HostState;
use crate::query::{QueryError, check_uri};
use request::MIN_INTERVAL;
use table::WatchSpec;
use task::WatchTask;

/// The part of the time limit of `start_watch` that is for the server to accept a subscription.
const SUBSCRIBE_TIMEOUT: Duration = Duration::from_secs(30);

/// Checks the target, spawns the task of the watch and waits until the task reports that the watch
/// has started. See [`Host::watch`](crate::Host::watch).
pub(crate) async fn start_watch(
    host: Arc<HostState>,
    table: Arc<WatchTable>,
    request: WatchRequest,
) -> Result<Watch, WatchError> {
    if request.interval < MIN_INTERVAL {
        return Err(WatchError::IntervalTooShort(request.interval));
    }
    let server = host.query_server_for(&request.server, &request.context)?;
    let server = server.settings().name.clone();
    if let WatchTarget::Resource { uri } = &request.target {
        check_uri(uri)?;
    }
    let spec = table.insert(server, request, &host.stop)?;
    let pending = PendingWatch {
        table: &table,
        spec: Some(Arc::clone(&spec)),
    };
    check_target(&host, &spec).await?;
    let (started_sender, started) = oneshot::channel();
    let task = WatchTask::new(
        Arc::clone(&host),
        Arc::clone(&table),
        Arc::clone(&spec),
        started_sender,
    );
    host.tasks.spawn(task.run());
    let limit = SUBSCRIBE_TIMEOUT + host.deadlines.startup + host.deadlines.list;
    match timeout(limit, started).await {
        Ok(Ok(outcome)) => outcome?,
        Ok(Err(_)) if host.is_stopping() => return Err(QueryError::ShuttingDown.into()),
        Ok(Err(_)) => return Err(WatchError::Ended),
        Err(_) => {
            let server = spec.server.clone();
            let after = limit;
            return Err(QueryError::TimedOut { server, after }.into());
        }
    }
    pending.keep();
    Ok(table.describe(&spec))
}

/// Rejects an unavailable server, an unknown tool, and arguments that violate the schema of the
/// tool.
async fn check_target(host: &HostState, spec: &WatchSpec) -> Result<(), WatchError> {
    let server = host.query_server_for(spec.server.as_str(), &spec.context)?;
    host.query_session(&server).await?;
    let WatchTarget::Tool { name, arguments } = &spec.target else {
        return Ok(());
    };
    let catalog = server.catalog();
    let mut tools = catalog.tools_of(&spec.server);
    if let Some(tool) = tools.find(|tool| tool.id.tool == *name) {
        let arguments = Value::Object(arguments.clone());
        let validation = match tool.input_schema.validate_quickly(&arguments) {
            Some(validation) => validation,
            None => {
                host.schema_checks
                    .validate(&tool.input_schema, arguments)
                    .await
            }
        };
        return match validation {
            Validation::Invalid(violations) => Err(WatchError::InvalidArguments {
                tool: tool.id.clone(),
                violations,
            }),
            _ => Ok(()),
        };
    }
    let tools = catalog.tools_of(&spec.server);
    let names: Vec<_> = tools.map(|tool| tool.id.tool.as_str()).collect();
    Err(WatchError::UnknownTool {
        server: spec.server.clone(),
        tool: name.clone(),
        nearest: switchboard_config::nearest(name.as_str(), &names).map(str::to_owned),
    })
}

/// Removes a watch from the table when dropped. [`Self::keep`] prevents that after the watch has
/// started.
struct PendingWatch<'a> {
    table: &'a WatchTable,
    spec: Option<Arc<WatchSpec>>,
}

impl PendingWatch<'_> {
    fn keep(mut self) {
        self.spec = None;
    }
}

impl Drop for PendingWatch<'_> {
    fn drop(&mut self) {
        if let Some(spec) = &self.spec {
            self.table.remove(spec.id.as_str());
        }
    }
}
