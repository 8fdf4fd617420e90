//! The way of one call: resolve → arguments → permission → permits → deliver → content.
//!
//! What happens to few calls (waiting, asking, failing) is boxed, so that the future of an ordinary
//! one stays small.
//!
//! Invariant: nothing is sent before the arguments were checked and the call was permitted, and
//! what was permitted is what is sent.

use std::borrow::Cow;
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Map, Value};
use switchboard_wire::BoxFuture;
use tokio::sync::{AcquireError, SemaphorePermit, mpsc};
use tokio::time::{Instant, timeout_at};

use super::arguments::{Checked, is_checkable};
use super::{Call, CallContext, CallError, Consent, Manner, OnProgress, TimeoutKind, as_object};
use crate::catalog::CatalogTool;
use crate::content::{self, Output};
use crate::delivery::Delivery;
use crate::event::{CallOutcome, Event};
use crate::host::Shared;
use crate::id::{CallId, Revision, ToolId};
use crate::mcp::{CallToolResult, ErrorObject, TaskSupport};
use crate::permission::{Action, Denial, PermissionRequest, PolicyInput};
use crate::server::ServerHandle;
use crate::server::state::State;
use crate::session::{CallTarget, Deadline, RequestError, Session, SessionEnd, ToolRequest};

/// For callers who set no deadline; servers have their own.
const FAR_AWAY: Duration = Duration::from_secs(24 * 60 * 60);

pub(super) async fn run(call: &mut Call<'_>) -> Result<Output, CallError> {
    let host = call.host.shared();
    if host.is_stopping() {
        return Err(CallError::ShuttingDown);
    }
    let found = &resolve(host, &call.name, &call.context).await?;
    let arguments = check_arguments(&found.tool, &mut call.arguments)?;
    permit(host, found, arguments, &call.context, call.manner.watched()).await?;
    let mut told = Told::begin(host, &found.tool.id);
    let began = told.began;
    let end = began + time_limit(host, &found.server, &call.context, began);
    let outcome = async {
        let _permits = acquire(host, found, began, end).await?;
        let session = session_of(host, &found.server, end).await?;
        still_the_same(host, found)?;
        let mut request = ToolRequest {
            target: found,
            arguments,
            trace: call.context.traceparent.as_deref(),
            deadline: Deadline::until(end, host.deadlines().idle),
            progress: None,
            input_responses: None,
        };
        match send(host, &session, &mut request, &mut call.manner).await {
            Ok(result) => Ok(result),
            Err(error) => {
                let failed = Failed {
                    error,
                    session,
                    request,
                };
                Box::pin(go_on(host, found, failed, &mut call.manner, began, end)).await
            }
        }
    }
    .await;
    let is_watched = call.manner.watched().is_some();
    let outcome = outcome.map(|result| present(host, &found.tool, result, is_watched));
    told.outcome = match &outcome {
        Ok(output) if output.is_error => CallOutcome::ToolError,
        Ok(_) => CallOutcome::Ok,
        Err(error) => CallOutcome::Failed(error.to_string()),
    };
    outcome
}

/// Sends a call on its way, and waits for what becomes of it.
async fn send(
    host: &Shared,
    session: &Session,
    request: &mut ToolRequest<'_>,
    manner: &mut Manner<'_>,
) -> Result<CallToolResult, RequestError> {
    match manner {
        Manner::Plain(_) => session.call_tool(request).await,
        Manner::Heard(listener) => Box::pin(deliver(host, session, request, listener)).await,
    }
}

/// A call that has failed, and on which session.
struct Failed<'a> {
    error: RequestError,
    session: Session,
    request: ToolRequest<'a>,
}

/// What follows the failure of a call: it goes once more where it was certainly not carried out, and
/// comes to its end otherwise.
async fn go_on(
    host: &Shared,
    found: &Found,
    failed: Failed<'_>,
    manner: &mut Manner<'_>,
    began: Instant,
    end: Instant,
) -> Result<CallToolResult, CallError> {
    let Failed {
        mut error,
        mut session,
        mut request,
    } = failed;
    let mut redeliveries = 0;
    let mut was_visited = false;
    loop {
        if let RequestError::ErrorResponse(refusal) = &error
            && !was_visited
            && let Some(thought) = session
                .complete_url_elicitations(refusal, host.deadlines().visit)
                .await
        {
            // It was not carried out: it goes once more, and people's time does not count.
            was_visited = true;
            request.deadline = request.deadline.extended_by(thought);
        } else {
            let next = next_session(&error, &session, found, end, redeliveries).await;
            let Some(next) = next else {
                return Err(call_error(error, found, end - began).await);
            };
            still_the_same(host, found)?;
            session = next;
            redeliveries += 1;
        }
        match send(host, &session, &mut request, manner).await {
            Ok(result) => return Ok(result),
            Err(again) => error = again,
        }
    }
}

/// Tells the beginning of a call and, however it comes about, its end.
struct Told<'a> {
    host: &'a Shared,
    /// Counted when there is somebody to tell.
    call: Option<CallId>,
    tool: &'a ToolId,
    began: Instant,
    outcome: CallOutcome,
}

impl<'a> Told<'a> {
    fn begin(host: &'a Shared, tool: &'a ToolId) -> Self {
        let mut call = None;
        host.events().send(|| Event::CallStarted {
            call: *call.insert(host.next_call()),
            tool: tool.clone(),
        });
        Self {
            host,
            call,
            tool,
            began: Instant::now(),
            outcome: CallOutcome::Cancelled,
        }
    }
}

impl Drop for Told<'_> {
    fn drop(&mut self) {
        self.host.events().send(|| Event::CallFinished {
            call: self.call.unwrap_or_else(|| self.host.next_call()),
            tool: self.tool.clone(),
            elapsed: self.began.elapsed(),
            outcome: self.outcome.clone(),
        });
    }
}

/// A tool that was found, and where.
#[derive(Debug)]
struct Found {
    /// The state of the catalog in which it was found.
    revision: Revision,
    tool: Arc<CatalogTool>,
    server: Arc<ServerHandle>,
}

impl CallTarget for Found {
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

/// Finds the tool and its server. A server that is still starting, or dormant, is waited for.
async fn resolve(host: &Shared, name: &str, context: &CallContext) -> Result<Found, CallError> {
    if let Some(found) = find(host, name) {
        return Ok(found);
    }
    let Some(server) = host.server_named_in(name) else {
        return Err(unknown_tool(host, name));
    };
    let until = context.deadline;
    let until = until.unwrap_or_else(|| Instant::now() + FAR_AWAY);
    let state = settled(&server, until).await;
    match find(host, name) {
        Some(found) => Ok(found),
        None if state.session.is_some() && state.enabled => Err(unknown_tool(host, name)),
        None => Err(unavailable(&server, &state)),
    }
}

/// The server's state once it is no longer starting, or when there is no more time to wait for that.
fn settled(server: &ServerHandle, until: Instant) -> BoxFuture<'_, State> {
    Box::pin(async move {
        match timeout_at(until, server.settled()).await {
            Ok(state) => state,
            Err(_) => server.state(),
        }
    })
}

fn find(host: &Shared, name: &str) -> Option<Found> {
    let catalog = host.catalog();
    let tool = catalog.get(name).map(Arc::clone)?;
    let server = host.server(&tool.id.server)?;
    Some(Found {
        revision: catalog.revision(),
        tool,
        server,
    })
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

/// Checks the arguments, which have to be an object; none at all count as an empty one.
fn check_arguments<'a>(
    tool: &CatalogTool,
    arguments: &'a mut Cow<'_, Value>,
) -> Result<&'a Map<String, Value>, CallError> {
    let invalid = |violations| CallError::InvalidArguments {
        tool: tool.id.clone(),
        violations,
    };
    as_object(arguments).map_err(|violation| invalid(vec![violation]))?;
    match tool.input.check(arguments) {
        Checked::Fits => {}
        Checked::Violates(violations) => return Err(invalid(violations)),
        Checked::Unchecked(why) => {
            tracing::warn!(tool = %tool.id, why, "arguments are not checked");
        }
    }
    as_object(arguments).map_err(|violation| invalid(vec![violation]))
}

async fn permit(
    host: &Shared,
    found: &Found,
    arguments: &Map<String, Value>,
    context: &CallContext,
    watched: Option<&Consent>,
) -> Result<(), CallError> {
    let Found { tool, server, .. } = found;
    let annotations = &tool.definition.annotations;
    let subject = PolicyInput {
        tool: &tool.id,
        wire_name: &tool.wire_name,
        annotations,
        trust_annotations: server.profile().trusts_annotations,
        arguments: Some(arguments),
    };
    let Some(decision) = host.policy().deny_or_ask(&subject) else {
        return Ok(());
    };
    let denied = |denial| CallError::Denied {
        tool: tool.id.clone(),
        denial,
    };
    if decision.action == Action::Deny {
        return Err(denied(Denial::Rule(decision)));
    }
    let given = watched.and_then(|consent| consent.given(&tool.definition));
    if let Some(outcome) = given {
        return outcome.map_err(denied);
    }
    let request = PermissionRequest::new(&subject, arguments, &decision, context);
    let response = host.interaction().can_use_tool(request).await;
    let outcome = response.into_result();
    if let Some(consent) = watched {
        consent.keep(&tool.definition, &outcome);
    }
    outcome.map_err(denied)
}

/// People take their time, and so do permits and servers that are started for a call: what was
/// permitted must still be what would be called.
fn still_the_same(host: &Shared, found: &Found) -> Result<(), CallError> {
    let Found {
        revision,
        tool,
        server,
    } = found;
    if host.catalog().revision() == *revision {
        return Ok(());
    }
    match find(host, tool.wire_name.as_str()) {
        Some(now)
            if now.tool.id == tool.id
                && now.tool.definition == tool.definition
                && Arc::ptr_eq(&now.server, server) =>
        {
            Ok(())
        }
        _ => Err(CallError::ToolChanged {
            tool: tool.id.clone(),
        }),
    }
}

/// How long the call may take, people's time not counted.
fn time_limit(
    host: &Shared,
    server: &ServerHandle,
    context: &CallContext,
    now: Instant,
) -> Duration {
    let own = server.profile().call_timeout;
    let own = own.unwrap_or(host.deadlines().call);
    let left = |deadline: Instant| deadline.saturating_duration_since(now);
    context
        .deadline
        .map_or(own, |deadline| left(deadline).min(own))
}

type Permits<'a> = (SemaphorePermit<'a>, SemaphorePermit<'a>);

/// Waits for its turn: first with its server, then in the whole host, so that calls that wait for
/// a slow server hold up nobody else.
async fn acquire<'a>(
    host: &'a Shared,
    found: &'a Found,
    began: Instant,
    end: Instant,
) -> Result<Permits<'a>, CallError> {
    let (own, reserve, all) = (
        found.server.permits(),
        found.server.reserve(),
        host.permits(),
    );
    if let Ok(own) = own.try_acquire()
        && let Ok(any) = reserve.try_acquire().or_else(|_| all.try_acquire())
    {
        return Ok((own, any));
    }
    let both = async {
        let own = own.acquire().await?;
        let any = tokio::select! {
            biased;
            permit = reserve.acquire() => permit?,
            permit = all.acquire() => permit?,
        };
        Ok((own, any))
    };
    match Box::pin(timeout_at(end, both)).await {
        Ok(Err(AcquireError { .. })) => Err(CallError::ShuttingDown),
        // Its turn may come in the very moment in which its time is up: then it is not made.
        Ok(Ok(permits)) if Instant::now() < end => Ok(permits),
        _ => Err(CallError::TimedOut {
            tool: found.tool.id.clone(),
            after: end - began,
            kind: TimeoutKind::Total,
            delivery: Delivery::NotSent,
            saw_unknown_ids: false,
        }),
    }
}

async fn session_of(
    host: &Shared,
    server: &ServerHandle,
    until: Instant,
) -> Result<Session, CallError> {
    if let Some(session) = server.session() {
        server.note_use();
        return Ok(session);
    }
    let state = settled(server, until).await;
    let session = state.session.clone();
    match session {
        Some(session) => Ok(session),
        None if host.is_stopping() => Err(CallError::ShuttingDown),
        None => Err(unavailable(server, &state)),
    }
}

/// How often a call that never left, or that the server did not take, is delivered again.
const REDELIVERIES: u32 = 2;
/// How long it waits for a session to be delivered on.
const REDELIVERY: Duration = Duration::from_secs(10);

/// The session on which a call is delivered again: only one that was certainly not carried out, and
/// only to a server that comes back soon.
async fn next_session(
    error: &RequestError,
    session: &Session,
    found: &Found,
    end: Instant,
    redeliveries: u32,
) -> Option<Session> {
    let is_lost = matches!(
        error,
        RequestError::Lost {
            delivery: Delivery::NotSent,
            ..
        }
    );
    if !is_lost || !session.is_remote() || redeliveries >= REDELIVERIES {
        return None;
    }
    let until = end.min(Instant::now() + REDELIVERY);
    found.server.next_session(session, until).await
}

/// Delivers a call whose caller wants to know how far it has come.
async fn deliver(
    host: &Shared,
    session: &Session,
    request: &mut ToolRequest<'_>,
    listener: &mut OnProgress<'_>,
) -> Result<CallToolResult, RequestError> {
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

async fn call_error(error: RequestError, found: &Found, limit: Duration) -> CallError {
    let tool = found.tool.id.clone();
    match error {
        RequestError::ErrorResponse(error) => CallError::ErrorResponse { tool, error },
        RequestError::InvalidResponse(problem) => CallError::InvalidResponse { tool, problem },
        RequestError::TimedOut {
            after,
            idle,
            delivery,
            saw_unknown_ids,
        } => CallError::TimedOut {
            tool,
            // The wait for a permit came out of the same limit.
            after: if idle { after } else { limit },
            kind: if idle {
                TimeoutKind::Idle
            } else {
                TimeoutKind::Total
            },
            delivery,
            saw_unknown_ids,
        },
        RequestError::WriteQueueFull { .. }
        | RequestError::MemoryBudgetExceeded { .. }
        | RequestError::TooLong { .. } => CallError::NotSent {
            tool,
            limit: error.limit(),
            reason: error.to_string(),
        },
        RequestError::Transport(failed) => {
            let reason = failed.message;
            match (failed.delivery, failed.status) {
                (Delivery::NotSent, _) => CallError::NotSent {
                    tool,
                    reason,
                    limit: None,
                },
                (Delivery::Answered, Some(status)) => CallError::ErrorResponse {
                    tool,
                    error: ErrorObject::new(status.into(), reason),
                },
                _ => CallError::OutcomeUnknown { tool, reason },
            }
        }
        RequestError::NeedsLogin(_)
        | RequestError::Lost {
            end: SessionEnd::NeedsLogin(_),
            ..
        } => {
            found.server.reason_of_loss().await;
            unavailable(&found.server, &found.server.state())
        }
        RequestError::Lost { delivery, end } => {
            let reason = found.server.reason_of_loss().await;
            let reason = reason.unwrap_or_else(|| end.to_string());
            match delivery {
                Delivery::NotSent => CallError::NotSent {
                    tool,
                    reason,
                    limit: None,
                },
                _ => CallError::OutcomeUnknown { tool, reason },
            }
        }
    }
}

fn present(host: &Shared, tool: &CatalogTool, result: CallToolResult, is_watched: bool) -> Output {
    let note = check_structured(host, tool, &result);
    let server = Some(&tool.id.server);
    let mut output = if is_watched {
        // It is compared as a whole with the next one, and nobody will ask for it.
        let mut limits = host.limits().clone();
        limits.result_text_bytes = usize::MAX;
        limits.result_media_bytes = usize::MAX;
        content::render_tool_result_from(server, result, &limits, None)
    } else {
        content::render_tool_result_from(server, result, host.limits(), host.result_store())
    };
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
