//! The way of one call: resolve → arguments → permission → permits → deliver → content.
//!
//! Invariant: nothing is sent before the arguments were checked and the call was permitted, and
//! what was permitted is what is sent.

use std::borrow::Cow;
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Map, Value};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc};
use tokio::time::{Instant, timeout_at};

use super::arguments::{Checked, is_checkable};
use super::{Call, CallContext, CallError, Denial, OnProgress, as_object};
use crate::catalog::CatalogTool;
use crate::content::{self, Output};
use crate::event::Event;
use crate::host::Shared;
use crate::id::{CallId, ToolId};
use crate::interact::PermissionQuestion;
use crate::mcp::CallToolResult;
use crate::permission::{Action, Subject};
use crate::server::ServerHandle;
use crate::server::state::State;
use crate::session::{Delivery, Patience, RequestError, Session, ToolRequest};

/// For callers who set no deadline; servers have their own.
const FAR_AWAY: Duration = Duration::from_secs(24 * 60 * 60);

pub(super) async fn run(call: Call<'_>) -> Result<Output, CallError> {
    let Call {
        host,
        name,
        arguments,
        context,
        on_progress,
    } = call;
    let host = host.shared();
    if host.is_stopping() {
        return Err(CallError::ShuttingDown);
    }
    let waited_until = context
        .deadline
        .unwrap_or_else(|| Instant::now() + FAR_AWAY);
    let (tool, server) = resolve(host, &name, waited_until).await?;
    let arguments = check_arguments(&tool, arguments)?;
    permit(host, &tool, &server, &arguments, &context).await?;
    let mut told = Told::begin(host, &tool.id);
    let limit = time_limit(host, &server, &context);
    let end = Instant::now() + limit;
    let outcome = async {
        let _permits = acquire(host, &server, &tool.id, limit).await?;
        let session = session_of(&server, end).await?;
        still_the_same(host, &tool, &server)?;
        let request = ToolRequest {
            tool: tool.id.tool.as_str(),
            arguments: &arguments,
            trace: context.trace.as_deref(),
            patience: patience(host, end),
            progress: None,
        };
        match deliver(host, &session, request, on_progress).await {
            Ok(result) => Ok(result),
            Err(error) => Err(call_error(error, &tool.id, &server, limit).await),
        }
    }
    .await;
    let outcome = outcome.map(|result| present(host, &tool, result));
    told.outcome = match &outcome {
        Ok(output) if output.is_error => "the tool failed".into(),
        Ok(_) => "ok".into(),
        Err(error) => error.to_string().into(),
    };
    outcome
}

/// Tells the beginning of a call and, however it comes about, its end.
struct Told<'a> {
    host: &'a Shared,
    call: CallId,
    tool: &'a ToolId,
    began: Instant,
    outcome: Cow<'static, str>,
}

impl<'a> Told<'a> {
    fn begin(host: &'a Shared, tool: &'a ToolId) -> Self {
        let call = host.next_call();
        host.events().send(|| Event::CallStarted {
            call,
            tool: tool.clone(),
        });
        Self {
            host,
            call,
            tool,
            began: Instant::now(),
            outcome: Cow::Borrowed("cancelled"),
        }
    }
}

impl Drop for Told<'_> {
    fn drop(&mut self) {
        self.host.events().send(|| Event::CallFinished {
            call: self.call,
            tool: self.tool.clone(),
            elapsed: self.began.elapsed(),
            outcome: std::mem::take(&mut self.outcome).into_owned(),
        });
    }
}

/// Finds the tool and its server. A server that is still starting, or dormant, is waited for.
async fn resolve(
    host: &Shared,
    name: &str,
    until: Instant,
) -> Result<(Arc<CatalogTool>, Arc<ServerHandle>), CallError> {
    if let Some(found) = find(host, name) {
        return Ok(found);
    }
    let Some(server) = host.server_named_in(name) else {
        return Err(unknown_tool(host, name));
    };
    let state = settled(&server, until).await;
    match find(host, name) {
        Some(found) => Ok(found),
        None if state.session.is_some() && state.enabled => Err(unknown_tool(host, name)),
        None => Err(unavailable(&server, &state)),
    }
}

/// The server's state once it is no longer starting, or when there is no more time to wait for that.
async fn settled(server: &ServerHandle, until: Instant) -> State {
    match timeout_at(until, server.settled()).await {
        Ok(state) => state,
        Err(_) => server.state(),
    }
}

fn find(host: &Shared, name: &str) -> Option<(Arc<CatalogTool>, Arc<ServerHandle>)> {
    let tool = host.catalog().find(name).map(Arc::clone)?;
    let server = host.server(&tool.id.server)?;
    Some((tool, server))
}

fn unknown_tool(host: &Shared, name: &str) -> CallError {
    let catalog = host.catalog();
    let names: Vec<_> = catalog
        .tools()
        .iter()
        .map(|tool| tool.wire_name.as_str())
        .collect();
    let nearest = switchboard_config::nearest(name, &names).map(str::to_owned);
    CallError::UnknownTool {
        name: name.to_owned(),
        nearest,
    }
}

fn unavailable(server: &ServerHandle, state: &State) -> CallError {
    CallError::Unavailable {
        server: server.profile().name.clone(),
        status: state.status(),
        reason: state.error(),
        hint: state.detail(),
        retry_in: server.next_attempt(),
    }
}

fn check_arguments(tool: &CatalogTool, arguments: Value) -> Result<Map<String, Value>, CallError> {
    let invalid = |violations| CallError::InvalidArguments {
        tool: tool.id.clone(),
        violations,
    };
    let arguments = as_object(arguments).map_err(|violation| invalid(vec![violation]))?;
    let value = Value::Object(arguments);
    let checked = tool.input.check(&value);
    let Value::Object(arguments) = value else {
        return Ok(Map::new());
    };
    match checked {
        Checked::Fits => Ok(arguments),
        Checked::Violates(violations) => Err(invalid(violations)),
        Checked::Unchecked(why) => {
            tracing::warn!(tool = %tool.id, why, "arguments are not checked");
            Ok(arguments)
        }
    }
}

async fn permit(
    host: &Shared,
    tool: &Arc<CatalogTool>,
    server: &ServerHandle,
    arguments: &Map<String, Value>,
    context: &CallContext,
) -> Result<(), CallError> {
    let annotations = &tool.definition.annotations;
    let subject = Subject {
        tool: &tool.id,
        wire: &tool.wire_name,
        annotations,
        trusts_annotations: server.profile().trusts_annotations,
    };
    let decision = host.policy().decide(&subject);
    let denied = |denial| CallError::Denied {
        tool: tool.id.clone(),
        denial,
    };
    match decision.action {
        Action::Allow => return Ok(()),
        Action::Deny => return Err(denied(Denial::Rule(decision))),
        Action::Ask => {}
    }
    let question = PermissionQuestion {
        tool: &tool.id,
        wire_name: &tool.wire_name,
        arguments,
        annotations,
        context,
    };
    let answer = host.interaction().permit(question).await;
    answer.into_result().map_err(denied)
}

/// People take their time, and so do permits and servers that are started for a call: what was
/// permitted must still be what would be called.
fn still_the_same(
    host: &Shared,
    tool: &CatalogTool,
    server: &Arc<ServerHandle>,
) -> Result<(), CallError> {
    match find(host, tool.wire_name.as_str()) {
        Some((now, owner))
            if now.id == tool.id
                && now.definition == tool.definition
                && Arc::ptr_eq(&owner, server) =>
        {
            Ok(())
        }
        _ => Err(CallError::Redefined {
            tool: tool.id.clone(),
        }),
    }
}

/// How long the call may take, people's time not counted.
fn time_limit(host: &Shared, server: &ServerHandle, context: &CallContext) -> Duration {
    let own = server.profile().call_timeout;
    let own = own.unwrap_or(host.deadlines().call);
    let left = |deadline: Instant| deadline.saturating_duration_since(Instant::now());
    context
        .deadline
        .map_or(own, |deadline| left(deadline).min(own))
}

fn patience(host: &Shared, end: Instant) -> Patience {
    let total = end.saturating_duration_since(Instant::now());
    let idle = Some(host.deadlines().idle).filter(|idle| *idle < total);
    Patience { total, idle }
}

type Permits = (OwnedSemaphorePermit, OwnedSemaphorePermit);

/// Waits for its turn: first with its server, then in the whole host, so that calls that wait for
/// a slow server hold up nobody else.
async fn acquire(
    host: &Shared,
    server: &ServerHandle,
    tool: &ToolId,
    limit: Duration,
) -> Result<Permits, CallError> {
    async fn take(semaphore: Arc<Semaphore>) -> Result<OwnedSemaphorePermit, CallError> {
        let permit = semaphore.acquire_owned().await;
        permit.map_err(|_| CallError::ShuttingDown)
    }
    let both = async { Ok((take(server.permits()).await?, take(host.permits()).await?)) };
    match tokio::time::timeout(limit, both).await {
        Ok(permits) => permits,
        Err(_) => Err(CallError::TimedOut {
            tool: tool.clone(),
            after: limit,
            idle: false,
            delivery: Delivery::NotSent,
        }),
    }
}

async fn session_of(server: &ServerHandle, until: Instant) -> Result<Session, CallError> {
    if let Some(session) = server.session() {
        return Ok(session);
    }
    let state = settled(server, until).await;
    let session = state.session.clone();
    session.ok_or_else(|| unavailable(server, &state))
}

async fn deliver(
    host: &Shared,
    session: &Session,
    mut request: ToolRequest<'_>,
    on_progress: Option<OnProgress<'_>>,
) -> Result<CallToolResult, RequestError> {
    let Some(mut listener) = on_progress else {
        return session.call_tool(request).await;
    };
    let (sender, mut notes) = mpsc::channel(host.limits().progress_backlog);
    request.progress = Some(sender);
    let call = session.call_tool(request);
    tokio::pin!(call);
    let outcome = loop {
        tokio::select! {
            biased;
            outcome = &mut call => break outcome,
            Some(note) = notes.recv() => listener(note),
        }
    };
    while let Ok(note) = notes.try_recv() {
        listener(note);
    }
    outcome
}

async fn call_error(
    error: RequestError,
    tool: &ToolId,
    server: &ServerHandle,
    limit: Duration,
) -> CallError {
    let tool = tool.clone();
    match error {
        RequestError::Refused(error) => CallError::Refused { tool, error },
        RequestError::Unusable(problem) => CallError::Unusable { tool, problem },
        RequestError::TimedOut {
            after,
            idle,
            delivery,
        } => CallError::TimedOut {
            tool,
            // The wait for a permit came out of the same limit.
            after: if idle { after } else { limit },
            idle,
            delivery,
        },
        RequestError::Congested { .. } | RequestError::TooLong { .. } => CallError::NotSent {
            tool,
            reason: error.to_string(),
        },
        RequestError::Lost { delivery, end } => {
            let reason = server.reason_of_loss().await;
            let reason = reason.unwrap_or_else(|| end.to_string());
            match delivery {
                Delivery::NotSent => CallError::NotSent { tool, reason },
                _ => CallError::OutcomeUnknown { tool, reason },
            }
        }
    }
}

fn present(host: &Shared, tool: &CatalogTool, result: CallToolResult) -> Output {
    let note = check_structured(host, tool, &result);
    let mut output = content::present(result, host.limits(), host.spill());
    output.notes.extend(note);
    output
}

/// Checks structured content against the schema that the tool promised. A broken promise is worth
/// a note; the result is the model's to judge.
fn check_structured(host: &Shared, tool: &CatalogTool, result: &CallToolResult) -> Option<String> {
    let schema = tool.output.as_ref()?;
    let Some(structured) = &result.structured_content else {
        return (!result.is_error)
            .then(|| "the structured content that the tool promises is missing".to_owned());
    };
    if !is_checkable(structured, host.limits().tree_nodes) {
        return Some("the structured content was not checked: it is too large".to_owned());
    }
    let value = structured.to_value().ok()?;
    match schema.check(&value) {
        Checked::Fits => None,
        Checked::Violates(violations) => Some(format!(
            "the structured content does not fit the tool's output schema: {}",
            super::list(&violations)
        )),
        Checked::Unchecked(why) => Some(format!("the structured content was not checked: {why}")),
    }
}
