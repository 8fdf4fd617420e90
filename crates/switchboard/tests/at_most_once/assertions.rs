//! What has to be true of every call, whatever happened to its connection.

use std::collections::BTreeMap;
use std::time::Duration;

use switchboard::call::Delivery;
use switchboard::limits::Deadlines;
use switchboard::{CallError, Output};

use crate::fault_plan::{CallPlan, Deed};

/// One call, when all is over.
#[derive(Debug)]
pub(crate) struct Seen {
    /// `None` when its caller gave it up.
    pub(crate) outcome: Option<Result<Output, CallError>>,
    pub(crate) took: Duration,
    /// How often the server has read it whole.
    pub(crate) received: usize,
    /// How often the server has begun to carry it out.
    pub(crate) executed: usize,
}

/// How a call ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Fate {
    Answered,
    /// The server answered, but with no result.
    Refused,
    /// Lost, and it was carried out.
    UnknownAndDone,
    /// Lost, and it was not carried out.
    UnknownAndUndone,
    NotSent,
    LateAndUnknown,
    LateAndNotSent,
    GivenUp,
}

impl Fate {
    pub(crate) const ALL: [Self; 8] = [
        Self::Answered,
        Self::Refused,
        Self::UnknownAndDone,
        Self::UnknownAndUndone,
        Self::NotSent,
        Self::LateAndUnknown,
        Self::LateAndNotSent,
        Self::GivenUp,
    ];
}

/// How many calls met each fate.
pub(crate) type Tally = BTreeMap<Fate, usize>;

/// Says how a call ended, or what is wrong with that.
pub(crate) fn judge(call: &CallPlan, seen: &Seen) -> Result<Fate, String> {
    if seen.received > 1 || seen.executed > seen.received {
        return Err("it was delivered more than once".to_owned());
    }
    let once = seen.executed == 1;
    match &seen.outcome {
        None => Ok(Fate::GivenUp),
        Some(Ok(_)) if !once => Err("a result of nothing".to_owned()),
        Some(Ok(output)) => {
            let is_own = output.to_text() == call.answer();
            let is_failed = call.deed == Deed::FailTool;
            if is_own && output.is_error == is_failed {
                Ok(Fate::Answered)
            } else {
                Err("the answer of another call".to_owned())
            }
        }
        Some(Err(CallError::ErrorResponse { .. })) if once && call.deed == Deed::Refuse => {
            Ok(Fate::Refused)
        }
        // Another answer came to stand in the same line as the half one.
        Some(Err(CallError::InvalidResponse { .. })) if once && call.deed == Deed::DieInAnswer => {
            Ok(Fate::Refused)
        }
        Some(Err(error)) => judge_loss(call, seen, error),
    }
}

/// A call without an answer: its error may be too careful, but never too sure.
fn judge_loss(call: &CallPlan, seen: &Seen, error: &CallError) -> Result<Fate, String> {
    let is_late = matches!(error, CallError::TimedOut { .. });
    if is_late && seen.took < patience_of(call) {
        return Err("it was given up before its time".to_owned());
    }
    match (error, error.delivery()) {
        (_, Delivery::NotSent) if seen.received > 0 => {
            Err("the server has what was not sent".to_owned())
        }
        (CallError::TimedOut { .. }, Delivery::NotSent) => Ok(Fate::LateAndNotSent),
        (CallError::NotSent { .. } | CallError::Unavailable { .. }, Delivery::NotSent) => {
            Ok(Fate::NotSent)
        }
        (CallError::TimedOut { .. }, Delivery::Unknown) => Ok(Fate::LateAndUnknown),
        (CallError::OutcomeUnknown { .. }, Delivery::Unknown) if seen.executed > 0 => {
            Ok(Fate::UnknownAndDone)
        }
        (CallError::OutcomeUnknown { .. }, Delivery::Unknown) => Ok(Fate::UnknownAndUndone),
        _ => Err("an error that does not tell the call's fate".to_owned()),
    }
}

/// The least time that is waited for an answer.
fn patience_of(call: &CallPlan) -> Duration {
    let deadlines = Deadlines::default();
    let own = deadlines.call.min(deadlines.idle);
    call.deadline.map_or(own, |deadline| deadline.min(own))
}
