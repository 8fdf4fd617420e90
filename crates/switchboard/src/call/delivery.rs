//! Sends a permitted call, sends it again where that is safe, and converts [`RequestError`] to
//! [`CallError`].
//!
//! Invariant: a call is sent again only if no byte of it was sent, or if the protocol requires the
//! client to send it again with a credential, headers or input that the server asked for.
//! docs/delivery.md lists all cases.

use std::time::Duration;

use switchboard_client::session::{RequestError, Session, SessionEnd, ToolRequest};
use switchboard_wire::mcp::{CallToolResult, ErrorObject};
use tokio::sync::mpsc;
use tokio::time::Instant;

use super::resolve::{ResolvedTool, check_unchanged};
use super::{CallError, CallMode, Delivery, OnProgress, TimeoutKind};
use crate::host_state::HostState;

/// How many times a call is sent again after its session ended with [`Delivery::NotSent`]. Sending
/// again after a URL elicitation is not counted.
const MAX_REDELIVERIES: u32 = 2;
/// How long a call waits for the next session after its session was lost.
const REDELIVERY_WAIT: Duration = Duration::from_secs(10);

/// Sends the call once on `session` and waits for its result.
pub(super) async fn send(
    host: &HostState,
    session: &Session,
    request: &mut ToolRequest<'_>,
    mode: &mut CallMode<'_>,
) -> Result<CallToolResult, RequestError> {
    match mode {
        CallMode::Plain | CallMode::Poll(_) => session.call_tool(request).await,
        CallMode::WithProgress(listener) => {
            Box::pin(send_with_progress(host, session, request, listener)).await
        }
    }
}

/// Sends the call once and passes each progress notification to `listener` until the call returns.
async fn send_with_progress(
    host: &HostState,
    session: &Session,
    request: &mut ToolRequest<'_>,
    listener: &mut OnProgress<'_>,
) -> Result<CallToolResult, RequestError> {
    let (sender, mut notifications) = mpsc::channel(host.limits.progress_backlog);
    request.progress = Some(sender);
    let call = session.call_tool(request);
    tokio::pin!(call);
    let outcome = loop {
        tokio::select! {
            biased;
            outcome = &mut call => break outcome,
            Some(progress) = notifications.recv() => listener(progress),
        }
    };
    while let Ok(progress) = notifications.try_recv() {
        listener(progress);
    }
    outcome
}

/// An attempt to send a call that failed: its error, and the session and the request with which the
/// call can be sent again.
pub(super) struct FailedAttempt<'a> {
    pub(super) error: RequestError,
    pub(super) session: Session,
    pub(super) request: ToolRequest<'a>,
}

/// Sends a failed call again as long as it may be sent again. Returns the first result, or the first
/// error after which the call is not sent again: sending again is not safe, [`MAX_REDELIVERIES`] is
/// reached, no new session opened in time, or the tool changed.
pub(super) async fn resend_if_not_sent(
    host: &HostState,
    target: &ResolvedTool,
    failed: FailedAttempt<'_>,
    mode: &mut CallMode<'_>,
    started: Instant,
    end: Instant,
) -> Result<CallToolResult, CallError> {
    let FailedAttempt {
        mut error,
        mut session,
        mut request,
    } = failed;
    let mut redeliveries = 0;
    let mut url_was_opened = false;
    loop {
        if let RequestError::ErrorResponse(response) = &error
            && !url_was_opened
            && let Some(user_time) = session
                .complete_url_elicitations(response, host.deadlines.url_elicitation)
                .await
        {
            // The server rejected the call because the user first had to open a URL. The time that
            // the user took does not count toward the deadline of the call.
            url_was_opened = true;
            request.deadline = request.deadline.extended_by(user_time);
        } else {
            let next = session_for_redelivery(&error, &session, target, end, redeliveries).await;
            let Some(next) = next else {
                return Err(into_call_error(error, target, end - started).await);
            };
            check_unchanged(host, target)?;
            session = next;
            redeliveries += 1;
        }
        match send(host, &session, &mut request, mode).await {
            Ok(result) => return Ok(result),
            Err(again) => error = again,
        }
    }
}

/// Waits for the session that replaces the lost `session`. Returns `None` if `error` does not say
/// that the session was lost before the call was sent, if the server is not remote, after
/// [`MAX_REDELIVERIES`], or if no session opens in time.
///
/// Also returns `None` for [`RequestError::UnknownSession`]: the server received the call, and only
/// its HTTP status says that it did not execute the call.
async fn session_for_redelivery(
    error: &RequestError,
    session: &Session,
    target: &ResolvedTool,
    end: Instant,
    redeliveries: u32,
) -> Option<Session> {
    let was_not_sent = matches!(
        error,
        RequestError::Lost {
            delivery: Delivery::NotSent,
            ..
        }
    );
    if !was_not_sent || !session.is_remote() || redeliveries >= MAX_REDELIVERIES {
        return None;
    }
    let until = end.min(Instant::now() + REDELIVERY_WAIT);
    target.server.next_session(session, until).await
}

/// Converts the error of a request. `limit` is the time limit of the whole call, which includes the
/// wait before the request was sent.
async fn into_call_error(error: RequestError, target: &ResolvedTool, limit: Duration) -> CallError {
    let tool = target.tool.id.clone();
    match error {
        RequestError::ErrorResponse(error) => CallError::ErrorResponse { tool, error },
        RequestError::InvalidResponse(problem) => CallError::InvalidResponse { tool, problem },
        RequestError::TimedOut {
            after,
            idle,
            delivery,
            stray,
        } => {
            let (after, kind) = if idle {
                (after, TimeoutKind::Idle)
            } else {
                // Reports the limit of the call: `after` does not include the wait for a call slot.
                (limit, TimeoutKind::Total)
            };
            CallError::TimedOut {
                tool,
                after,
                kind,
                delivery,
                stray,
            }
        }
        RequestError::WriteQueueFull { .. }
        | RequestError::MemoryBudgetExceeded { .. }
        | RequestError::TooLong { .. } => CallError::NotSent {
            tool,
            limit: error.limit(),
            reason: error.to_string(),
        },
        RequestError::Transport(failed) => match (failed.delivery, failed.status) {
            (Delivery::Answered, Some(status)) => CallError::ErrorResponse {
                tool,
                error: ErrorObject::new(status.into(), failed.message),
            },
            (delivery, _) => undelivered(target, delivery, failed.message),
        },
        RequestError::UnknownSession => {
            let reason = format!("{error}; call it again on the new session");
            undelivered(target, Delivery::NotSent, reason)
        }
        RequestError::NeedsLogin(_)
        | RequestError::Lost {
            end: SessionEnd::NeedsLogin(_),
            ..
        } => {
            target.server.loss_reason().await;
            CallError::Unavailable(target.server.unavailable(&target.server.state()))
        }
        RequestError::Lost { delivery, end } => {
            let reason = target.server.loss_reason().await;
            undelivered(target, delivery, reason.unwrap_or_else(|| end.to_string()))
        }
    }
}

/// Returns the error of a call that got no response from the server.
fn undelivered(target: &ResolvedTool, delivery: Delivery, reason: String) -> CallError {
    let tool = target.tool.id.clone();
    match delivery {
        Delivery::NotSent => CallError::NotSent {
            tool,
            reason,
            limit: None,
        },
        _ => CallError::OutcomeUnknown { tool, reason },
    }
}
