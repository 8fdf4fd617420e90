//! Checks the at-most-once guarantees for each call, with and without faults.

use std::collections::BTreeMap;
use std::time::Duration;

use switchboard::call::Delivery;
use switchboard::limits::Deadlines;
use switchboard::{CallError, Output};

use crate::fault_plan::{CallPlan, ServerAction};

/// The outcome of one call, and what the server recorded about the call.
#[derive(Debug)]
pub(crate) struct CallRecord {
    /// `None` if the caller dropped the call.
    pub(crate) outcome: Option<Result<Output, CallError>>,
    pub(crate) duration: Duration,
    /// How often the server read the complete request.
    pub(crate) received: usize,
    /// How often the server began to execute the call.
    pub(crate) executed: usize,
}

/// How a call ended, from the view of its caller and of the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum CallEnding {
    Answered,
    /// The server responded, but not with a result.
    ErrorResponse,
    /// The call failed with `OutcomeUnknown`, and the server executed it.
    UnknownExecuted,
    /// The call failed with `OutcomeUnknown`, and the server did not execute it.
    UnknownNotExecuted,
    NotSent,
    TimedOutUnknown,
    TimedOutNotSent,
    Dropped,
}

impl CallEnding {
    pub(crate) const ALL: [Self; 8] = [
        Self::Answered,
        Self::ErrorResponse,
        Self::UnknownExecuted,
        Self::UnknownNotExecuted,
        Self::NotSent,
        Self::TimedOutUnknown,
        Self::TimedOutNotSent,
        Self::Dropped,
    ];
}

/// How many calls ended in each [`CallEnding`].
pub(crate) type EndingCounts = BTreeMap<CallEnding, usize>;

/// Returns how a call ended, or an error that says which guarantee was violated.
pub(crate) fn check_call(call: &CallPlan, record: &CallRecord) -> Result<CallEnding, String> {
    if record.received > 1 || record.executed > record.received {
        return Err("the call was delivered more than once".to_owned());
    }
    let once = record.executed == 1;
    match &record.outcome {
        None => Ok(CallEnding::Dropped),
        Some(Ok(_)) if !once => Err("a result without an execution".to_owned()),
        Some(Ok(output)) => {
            let is_own = output.to_text() == call.response_text();
            let is_failed = call.action == ServerAction::FailTool;
            if is_own && output.is_error == is_failed {
                Ok(CallEnding::Answered)
            } else {
                Err("the result of another call".to_owned())
            }
        }
        Some(Err(CallError::ErrorResponse { .. }))
            if once && call.action == ServerAction::RespondError =>
        {
            Ok(CallEnding::ErrorResponse)
        }
        // The server writes half a response and then crashes. In between, it may write the
        // response to another call on the same line, which makes the line invalid.
        Some(Err(CallError::InvalidResponse { .. }))
            if once && call.action == ServerAction::CrashMidResponse =>
        {
            Ok(CallEnding::ErrorResponse)
        }
        Some(Err(error)) => check_lost_call(call, record, error),
    }
}

/// Checks a call without a response. Its error may report `Unknown` although the server did not
/// execute the call, but must not report `NotSent` if the server received the call.
fn check_lost_call(
    call: &CallPlan,
    record: &CallRecord,
    error: &CallError,
) -> Result<CallEnding, String> {
    let timed_out = matches!(error, CallError::TimedOut { .. });
    if timed_out && record.duration < min_timeout(call) {
        return Err("the call timed out too early".to_owned());
    }
    match (error, error.delivery()) {
        (_, Delivery::NotSent) if record.received > 0 => {
            Err("the server received a call reported as not sent".to_owned())
        }
        (CallError::TimedOut { .. }, Delivery::NotSent) => Ok(CallEnding::TimedOutNotSent),
        (CallError::NotSent { .. } | CallError::Unavailable { .. }, Delivery::NotSent) => {
            Ok(CallEnding::NotSent)
        }
        (CallError::TimedOut { .. }, Delivery::Unknown) => Ok(CallEnding::TimedOutUnknown),
        (CallError::OutcomeUnknown { .. }, Delivery::Unknown) if record.executed > 0 => {
            Ok(CallEnding::UnknownExecuted)
        }
        (CallError::OutcomeUnknown { .. }, Delivery::Unknown) => Ok(CallEnding::UnknownNotExecuted),
        _ => Err("the error does not state how the call ended".to_owned()),
    }
}

/// Returns the shortest time after which the call may time out: the deadline of the call or the
/// default timeout, whichever is shorter.
fn min_timeout(call: &CallPlan) -> Duration {
    let deadlines = Deadlines::default();
    let default = deadlines.call.min(deadlines.idle);
    call.deadline
        .map_or(default, |deadline| deadline.min(default))
}
