//! The steps of one call: resolve → check arguments → check permission → take slots → send →
//! render.
//!
//! Steps that few calls need (waiting for a slot or a server, sending again) are boxed futures. The
//! future of a call that needs none of them stays small.
//!
//! Invariant: a call is not sent before its arguments were checked and the call was permitted. If
//! the tool changes between the permission check and sending, the call fails.

use std::borrow::Cow;
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Map, Value};
use switchboard_client::session::{Deadline, Session, ToolRequest};
use switchboard_wire::BoxFuture;
use switchboard_wire::mcp::CallToolResult;
use switchboard_wire::schema::{CompiledSchema, Validation, is_checkable};
use switchboard_wire::text::sanitize;
use tokio::sync::{AcquireError, SemaphorePermit};
use tokio::time::{Instant, timeout_at};

use super::delivery::{FailedAttempt, resend_if_not_sent, send};
use super::resolve::{ResolvedTool, check_unchanged, resolve, wait_until_started};
use super::{
    Call, CallContext, CallError, Delivery, StrayOutput, TimeoutKind, WatchApproval,
    arguments_object, join_violations,
};
use crate::catalog::CatalogTool;
use crate::content::{self, Output};
use crate::event::{CallOutcome, Event};
use crate::host_state::HostState;
use crate::id::{CallId, ToolId};
use crate::permission::{Action, CallFacts, Denial, PermissionRequest};
use crate::server::ServerHandle;

pub(super) async fn run(call: &mut Call<'_>) -> Result<Output, CallError> {
    let host = call.host;
    if host.is_stopping() {
        return Err(CallError::ShuttingDown);
    }
    let target = &resolve(host, &call.wire_name, &call.context).await?;
    let validation = match validate_arguments(host, &target.tool, &mut call.arguments)? {
        Check::Done(validation) => validation,
        Check::Running(validation) => validation.await,
    };
    let arguments = accept_arguments(&target.tool, &mut call.arguments, validation)?;
    let approval = call.mode.remembered_approval();
    check_permission(host, target, arguments, &call.context, approval).await?;
    let mut events = CallEvents::start(host, &target.tool.id);
    let started = events.started;
    let end = started + time_limit(host, &target.server, &call.context, started);
    let outcome = async {
        let slots = acquire_slots(host, target, started, end).await?;
        let session = current_session(host, &target.server, end).await?;
        check_unchanged(host, target)?;
        let mut request = ToolRequest {
            target,
            arguments,
            trace: call.context.traceparent.as_deref(),
            deadline: Deadline::until(end, call.context.timeout.unwrap_or(host.deadlines.idle)),
            progress: None,
            input_responses: None,
        };
        let result = match send(host, &session, &mut request, &mut call.mode).await {
            Ok(result) => result,
            Err(error) => {
                let failed = FailedAttempt {
                    error,
                    session,
                    request,
                };
                let retry = resend_if_not_sent(host, target, failed, &mut call.mode, started, end);
                Box::pin(retry).await?
            }
        };
        drop(slots);
        let rendered = check_and_render(host, &target.tool, result, approval.is_some());
        // Awaited here, because a value that lives across several `await`s of the outer function
        // enlarges its future.
        Ok::<Output, CallError>(match rendered {
            Check::Done(output) => output,
            Check::Running(output) => output.await,
        })
    }
    .await;
    events.outcome = match &outcome {
        Ok(output) if output.is_error => CallOutcome::ToolError,
        Ok(_) => CallOutcome::Ok,
        Err(error @ CallError::OutcomeUnknown { .. }) => {
            CallOutcome::Unknown(sanitize(&error.to_string()).into_owned())
        }
        Err(error) => CallOutcome::Failed(sanitize(&error.to_string()).into_owned()),
    };
    outcome
}

/// Sends [`Event::CallStarted`] when it is created, and [`Event::CallFinished`] when it is dropped.
struct CallEvents<'a> {
    host: &'a HostState,
    /// `None` if no listener was subscribed when the call started.
    call: Option<CallId>,
    tool: &'a ToolId,
    started: Instant,
    outcome: CallOutcome,
}

impl<'a> CallEvents<'a> {
    fn start(host: &'a HostState, tool: &'a ToolId) -> Self {
        let mut call = None;
        host.events.send(|| Event::CallStarted {
            call: *call.insert(host.next_call_id()),
            tool: tool.clone(),
        });
        Self {
            host,
            call,
            tool,
            started: Instant::now(),
            outcome: CallOutcome::Cancelled,
        }
    }
}

impl Drop for CallEvents<'_> {
    fn drop(&mut self) {
        self.host.events.send(|| Event::CallFinished {
            call: self.call.unwrap_or_else(|| self.host.next_call_id()),
            tool: self.tool.clone(),
            elapsed: self.started.elapsed(),
            outcome: self.outcome.clone(),
        });
    }
}

/// The outcome of a check against a schema. A check that takes long is a boxed future, which keeps
/// the future of the call small.
enum Check<'a, T> {
    Done(T),
    Running(BoxFuture<'a, T>),
}

/// Validates the arguments against the input schema of the tool.
fn validate_arguments<'a>(
    host: &'a HostState,
    tool: &'a CatalogTool,
    arguments: &mut Cow<'_, Value>,
) -> Result<Check<'a, Validation>, CallError> {
    require_object(tool, arguments)?;
    let schema = &tool.input_schema;
    Ok(match schema.validate_quickly(arguments) {
        Some(validation) => Check::Done(validation),
        None => {
            let arguments = Value::clone(arguments);
            Check::Running(Box::pin(host.schema_checks.validate(schema, arguments)))
        }
    })
}

/// Fails if the arguments do not match the input schema. If the schema cannot be used, checks only
/// that the arguments are an object.
fn accept_arguments<'a>(
    tool: &CatalogTool,
    arguments: &'a mut Cow<'_, Value>,
    validation: Validation,
) -> Result<&'a Map<String, Value>, CallError> {
    match validation {
        Validation::Valid => {}
        Validation::Invalid(violations) => {
            return Err(CallError::InvalidArguments {
                tool: tool.id.clone(),
                violations,
            });
        }
        Validation::Unusable(why) => {
            tracing::warn!(tool = %tool.id, why, "arguments are not validated");
        }
    }
    require_object(tool, arguments)
}

fn require_object<'a>(
    tool: &CatalogTool,
    arguments: &'a mut Cow<'_, Value>,
) -> Result<&'a Map<String, Value>, CallError> {
    arguments_object(arguments).map_err(|violation| CallError::InvalidArguments {
        tool: tool.id.clone(),
        violations: vec![violation],
    })
}

/// Evaluates the permission rules, and asks the user if the rules require it. For a poll of a
/// watch, `approval` can hold the answer to an earlier poll. The user is then not asked again.
async fn check_permission(
    host: &HostState,
    target: &ResolvedTool,
    arguments: &Map<String, Value>,
    context: &CallContext,
    approval: Option<&WatchApproval>,
) -> Result<(), CallError> {
    let ResolvedTool { tool, server, .. } = target;
    let input = CallFacts {
        tool: &tool.id,
        wire_name: &tool.wire_name,
        annotations: &tool.definition.annotations,
        trust_annotations: server.settings().trusts_annotations,
        arguments: Some(arguments),
    };
    let Some(decision) = host.policy().deny_or_ask(&input) else {
        return Ok(());
    };
    let denied = |denial| CallError::Denied {
        tool: tool.id.clone(),
        denial,
    };
    if decision.action == Action::Deny {
        return Err(denied(Denial::Rule(decision)));
    }
    let remembered = approval.and_then(|approval| approval.lookup(&tool.definition));
    if let Some(outcome) = remembered {
        return outcome.map_err(denied);
    }
    let request = PermissionRequest::new(&input, arguments, &decision, context);
    let response = host.interaction.can_use_tool(request).await;
    let outcome = response.into_result();
    if let Some(approval) = approval {
        approval.record(&tool.definition, &outcome);
    }
    outcome.map_err(denied)
}

/// Returns how long the call may take from `now`: the timeout in `context`, else the
/// `call_timeout` of the server, else `Deadlines::call` of the host, but never beyond the deadline
/// in `context`. `now` is after the user permitted the call, so the time that the user took counts
/// only toward that deadline.
fn time_limit(
    host: &HostState,
    server: &ServerHandle,
    context: &CallContext,
    now: Instant,
) -> Duration {
    let limit = context.timeout.or(server.settings().call_timeout);
    let limit = limit.unwrap_or(host.deadlines.call);
    let remaining = |deadline: Instant| deadline.saturating_duration_since(now);
    context
        .deadline
        .map_or(limit, |deadline| remaining(deadline).min(limit))
}

/// The two permits that a call in flight holds: a call slot of its server, and either a reserved
/// slot of its server or a slot of the host.
type CallSlots<'a> = (SemaphorePermit<'a>, SemaphorePermit<'a>);

/// Waits for a call slot of the server, then for a reserved slot or a slot of the host. In this
/// order, a call that waits for a slot of a slow server does not occupy a slot of the host.
async fn acquire_slots<'a>(
    host: &'a HostState,
    target: &'a ResolvedTool,
    started: Instant,
    end: Instant,
) -> Result<CallSlots<'a>, CallError> {
    let server = target.server.call_slots();
    let (reserved, shared) = (target.server.reserved_slots(), &host.call_slots);
    if let Ok(own) = server.try_acquire()
        && let Ok(other) = reserved.try_acquire().or_else(|_| shared.try_acquire())
    {
        return Ok((own, other));
    }
    let both = async {
        let own = server.acquire().await?;
        let other = tokio::select! {
            biased;
            slot = reserved.acquire() => slot?,
            slot = shared.acquire() => slot?,
        };
        Ok((own, other))
    };
    match Box::pin(timeout_at(end, both)).await {
        Ok(Err(AcquireError { .. })) => Err(CallError::ShuttingDown),
        // `timeout_at` can return the slots although `end` has passed. The call then times out.
        Ok(Ok(slots)) if Instant::now() < end => Ok(slots),
        _ => Err(CallError::TimedOut {
            tool: target.tool.id.clone(),
            after: end - started,
            kind: TimeoutKind::Total,
            delivery: Delivery::NotSent,
            stray: StrayOutput::None,
        }),
    }
}

/// Returns the open session of the server. Waits if the server is starting. Starts the server if it
/// is dormant.
async fn current_session(
    host: &HostState,
    server: &ServerHandle,
    until: Instant,
) -> Result<Session, CallError> {
    if let Some(session) = server.session() {
        server.refresh_if_expired();
        return Ok(session);
    }
    let state = wait_until_started(server, until).await;
    match &state.session {
        Some(session) => Ok(session.clone()),
        None if host.is_stopping() => Err(CallError::ShuttingDown),
        None => Err(CallError::Unavailable(server.unavailable(&state))),
    }
}

/// Validates the structured content of the result and renders the result for a model.
fn check_and_render<'a>(
    host: &'a HostState,
    tool: &'a CatalogTool,
    result: CallToolResult,
    is_poll: bool,
) -> Check<'a, Output> {
    match check_output_schema(host, tool, &result) {
        OutputCheck::Done(note) => Check::Done(render(host, tool, result, note, is_poll)),
        OutputCheck::TooLong(schema, value) => Check::Running(Box::pin(async move {
            let validation = host.schema_checks.validate(schema, value).await;
            render(host, tool, result, explain(validation), is_poll)
        })),
    }
}

/// Renders the result for a model, and adds the note about its schema. The result of a poll is neither truncated nor stored, because
/// the watch compares the full result with the result of the next poll.
fn render(
    host: &HostState,
    tool: &CatalogTool,
    result: CallToolResult,
    note: Option<String>,
    is_poll: bool,
) -> Output {
    let server = Some(&tool.id.server);
    let mut output = if is_poll {
        let mut limits = (*host.limits).clone();
        limits.result_text_bytes = usize::MAX;
        limits.result_media_bytes = usize::MAX;
        content::render_tool_result_from(server, result, &limits, None)
    } else {
        let result_store = host.result_store.as_deref();
        content::render_tool_result_from(server, result, &host.limits, result_store)
    };
    output.notes.extend(note);
    output
}

/// The outcome of [`check_output_schema`].
enum OutputCheck<'a> {
    /// A note for the model if the content is not valid.
    Done(Option<String>),
    /// Validating this value takes too long for the runtime.
    TooLong(&'a Arc<CompiledSchema>, Value),
}

/// Validates structured content against the output schema of the tool. Returns a note for the model
/// if the content does not match or cannot be validated, or if it is missing from a result without
/// `isError`. The result is still returned.
fn check_output_schema<'a>(
    host: &HostState,
    tool: &'a CatalogTool,
    result: &CallToolResult,
) -> OutputCheck<'a> {
    let Some(schema) = tool.output_schema.as_ref() else {
        return OutputCheck::Done(None);
    };
    let Some(structured) = &result.structured_content else {
        return OutputCheck::Done((!result.is_error).then(|| {
            "structured content is missing although the tool declares an output schema".to_owned()
        }));
    };
    if !is_checkable(structured, host.limits.json_tree_nodes) {
        let note = "the structured content was not validated: it is too large";
        return OutputCheck::Done(Some(note.to_owned()));
    }
    let Ok(value) = structured.to_value() else {
        return OutputCheck::Done(None);
    };
    match schema.validate_quickly(&value) {
        Some(validation) => OutputCheck::Done(explain(validation)),
        None => OutputCheck::TooLong(schema, value),
    }
}

/// Returns a note for the model if structured content is not valid.
fn explain(validation: Validation) -> Option<String> {
    match validation {
        Validation::Valid => None,
        Validation::Invalid(violations) => Some(format!(
            "the structured content does not match the output schema: {}",
            join_violations(&violations)
        )),
        Validation::Unusable(why) => {
            Some(format!("the structured content was not validated: {why}"))
        }
    }
}
