//! Finds the tool and the server that a wire name refers to, and checks before sending that
//! neither has changed.

use std::sync::Arc;
use std::time::Duration;

use switchboard_client::session::{CallTarget, Session};
use switchboard_wire::BoxFuture;
use switchboard_wire::mcp::TaskSupport;
use tokio::time::{Instant, timeout_at};

use super::{CallContext, CallError};
use crate::catalog::{Catalog, CatalogTool};
use crate::host_state::HostState;
use crate::id::Revision;
use crate::server::ServerHandle;
use crate::server::state::State;

/// How long a call whose context has no deadline waits for its server to start. Normally the
/// startup timeout of the server ends the wait long before.
const NO_DEADLINE: Duration = Duration::from_secs(24 * 60 * 60);

/// The tool that a call refers to, and its server.
#[derive(Debug)]
pub(super) struct ResolvedTool {
    /// The revision of the catalog that contains the tool.
    revision: Revision,
    pub(super) tool: Arc<CatalogTool>,
    pub(super) server: Arc<ServerHandle>,
}

impl CallTarget for ResolvedTool {
    fn tool(&self) -> &str {
        self.tool.id.tool.as_str()
    }

    fn requires_task(&self) -> bool {
        self.tool.definition.task_support == TaskSupport::Required
    }

    fn next_session<'a>(
        &'a self,
        of: &'a Session,
        until: Instant,
    ) -> BoxFuture<'a, Option<Session>> {
        Box::pin(self.server.next_session(of, until))
    }
}

/// Finds the tool and its server. Fails if `context` does not include the server. If the catalog has no such tool, but a server matches the wire
/// name, waits until that server has started and looks again. A dormant server is started.
pub(super) async fn resolve(
    host: &HostState,
    wire_name: &str,
    context: &CallContext,
) -> Result<ResolvedTool, CallError> {
    if let Some(target) = lookup(host, wire_name) {
        check_selected(&target.server, wire_name, context)?;
        if target.server.is_separate_for(&context.principal) {
            return Box::pin(resolve_for_principal(&target.server, wire_name, context)).await;
        }
        return Ok(target);
    }
    let Some(server) = host.server_for_wire_name(wire_name) else {
        return Err(unknown_tool(&host.catalog(), wire_name, context));
    };
    check_selected(&server, wire_name, context)?;
    if server.is_separate_for(&context.principal) {
        return Box::pin(resolve_for_principal(&server, wire_name, context)).await;
    }
    let until = context.deadline;
    let until = until.unwrap_or_else(|| Instant::now() + NO_DEADLINE);
    let state = wait_until_started(&server, until).await;
    match lookup(host, wire_name) {
        Some(target) => Ok(target),
        None if state.session.is_some() && state.enabled => {
            Err(unknown_tool(&host.catalog(), wire_name, context))
        }
        None => Err(CallError::Unavailable(server.unavailable(&state))),
    }
}

/// Finds the tool in the catalog of a principal that has its own session with the server. Opens the
/// session if there is none.
async fn resolve_for_principal(
    server: &Arc<ServerHandle>,
    wire_name: &str,
    context: &CallContext,
) -> Result<ResolvedTool, CallError> {
    let server = server.for_principal(&context.principal);
    let server = server.map_err(CallError::Unavailable)?;
    let until = context.deadline;
    let until = until.unwrap_or_else(|| Instant::now() + NO_DEADLINE);
    let state = wait_until_started(&server, until).await;
    let catalog = server.catalog();
    match catalog.get(wire_name) {
        Some(tool) => Ok(ResolvedTool {
            revision: catalog.revision(),
            tool: Arc::clone(tool),
            server: Arc::clone(&server),
        }),
        None if state.session.is_some() => Err(unknown_tool(&catalog, wire_name, context)),
        None => Err(CallError::Unavailable(server.unavailable(&state))),
    }
}

/// Fails if the request may not use the server.
fn check_selected(
    server: &ServerHandle,
    wire_name: &str,
    context: &CallContext,
) -> Result<(), CallError> {
    let server = &server.settings().name;
    if context.servers.contains(server) {
        return Ok(());
    }
    Err(CallError::ServerNotSelected {
        name: wire_name.to_owned(),
        server: server.clone(),
    })
}

/// Waits until the server is connected or has failed, at most until `until`. Starts a dormant
/// server. Returns the state of the server at the end of the wait.
pub(super) fn wait_until_started(server: &ServerHandle, until: Instant) -> BoxFuture<'_, State> {
    Box::pin(async move {
        match timeout_at(until, server.start_and_settle()).await {
            Ok(state) => state,
            Err(_) => server.state(),
        }
    })
}

/// Fails if the wire name now refers to another tool, definition or server than in `target`. The
/// catalog can change while the user is asked or while the call waits for a slot or for a session.
pub(super) fn check_unchanged(host: &HostState, target: &ResolvedTool) -> Result<(), CallError> {
    let ResolvedTool {
        revision,
        tool,
        server,
    } = target;
    let catalog = server.catalog();
    if catalog.revision() == *revision {
        return Ok(());
    }
    let is_current = host
        .server(&tool.id.server)
        .is_some_and(|now| now.is_same_or_owns(server));
    match catalog.get(tool.wire_name.as_str()) {
        Some(now) if now.id == tool.id && now.definition == tool.definition && is_current => Ok(()),
        _ => Err(CallError::ToolChanged {
            tool: tool.id.clone(),
        }),
    }
}

fn lookup(host: &HostState, wire_name: &str) -> Option<ResolvedTool> {
    let catalog = host.catalog();
    let tool = catalog.get(wire_name).map(Arc::clone)?;
    let server = host.server(&tool.id.server)?;
    Some(ResolvedTool {
        revision: catalog.revision(),
        tool,
        server,
    })
}

fn unknown_tool(catalog: &Catalog, wire_name: &str, context: &CallContext) -> CallError {
    let names: Vec<_> = catalog
        .tools()
        .iter()
        .filter(|tool| context.servers.contains(&tool.id.server))
        .map(|tool| tool.wire_name.as_str())
        .collect();
    let nearest = switchboard_config::nearest(wire_name, &names).map(str::to_owned);
    CallError::UnknownTool {
        name: wire_name.to_owned(),
        nearest,
    }
}
