//! Checks the at-most-once guarantees for each call, with and without faults.

use std::collections::BTreeMap;

use switchboard::call::Delivery;
use switchboard::{CallError, Output};

use crate::fault_plan::CallPlan;

/// The outcome of one call, and what the server recorded about the call.
#[derive(Debug)]
pub(crate) struct CallRecord {
    /// `None` if the caller dropped the call.
    pub(crate) outcome: Option<Result<Output, CallError>>,
    /// How often the server read the complete request of the call and did not reject the request.
    pub(crate) accepted: usize,
    /// How often the server began to execute the call.
    pub(crate) executed: usize,
}

/// How a call ended, from the view of its caller and of the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum CallEnding {
    Answered,
    /// The server rejected the call with an HTTP status.
    Rejected,
    /// The call failed with `OutcomeUnknown`, and the server executed it.
    UnknownExecuted,
    /// The call failed with `OutcomeUnknown`, and the server did not execute it.
    UnknownNotExecuted,
    NotSent,
    TimedOut,
    Dropped,
}

impl CallEnding {
    pub(crate) const ALL: [Self; 7] = [
        Self::Answered,
        Self::Rejected,
        Self::UnknownExecuted,
        Self::UnknownNotExecuted,
        Self::NotSent,
        Self::TimedOut,
        Self::Dropped,
    ];
}

/// How many calls ended in each [`CallEnding`].
pub(crate) type EndingCounts = BTreeMap<CallEnding, usize>;

/// Returns how a call ended, or an error that says which guarantee was violated.
pub(crate) fn check_call(call: &CallPlan, record: &CallRecord) -> Result<CallEnding, String> {
    if record.executed > 1 || record.accepted > 1 {
        return Err("the call was delivered more than once".to_owned());
    }
    match &record.outcome {
        None => Ok(CallEnding::Dropped),
        Some(Ok(_)) if record.executed == 0 => Err("a result without an execution".to_owned()),
        Some(Ok(output)) if output.is_error || output.to_text() != call.response_text() => {
            Err("the result of another call".to_owned())
        }
        Some(Ok(_)) => Ok(CallEnding::Answered),
        Some(Err(error)) => check_lost_call(record, error),
    }
}

/// Checks a call without a result. Its error may report `Unknown` although the server did not
/// execute the call, but must not report `NotSent` if the server accepted the call.
fn check_lost_call(record: &CallRecord, error: &CallError) -> Result<CallEnding, String> {
    let is_unreceived = record.executed == 0 && record.accepted == 0;
    match (error, error.delivery()) {
        (_, Delivery::NotSent) if !is_unreceived => {
            Err("the server received a call reported as not sent".to_owned())
        }
        (CallError::OutcomeUnknown { .. }, Delivery::Unknown) if record.executed > 0 => {
            Ok(CallEnding::UnknownExecuted)
        }
        (CallError::OutcomeUnknown { .. }, Delivery::Unknown) => Ok(CallEnding::UnknownNotExecuted),
        (CallError::TimedOut { .. }, Delivery::Unknown | Delivery::NotSent) => {
            Ok(CallEnding::TimedOut)
        }
        (CallError::NotSent { .. } | CallError::Unavailable { .. }, Delivery::NotSent) => {
            Ok(CallEnding::NotSent)
        }
        // The scripted server returns no JSON-RPC errors, so the host made this error from an HTTP
        // status.
        (CallError::ErrorResponse { .. }, Delivery::Answered) if is_unreceived => {
            Ok(CallEnding::Rejected)
        }
        _ => Err("the error does not state how the call ended".to_owned()),
    }
}
