//! What has to be true of every call, whatever happened to its connection.

use std::collections::BTreeMap;

use switchboard::call::Delivery;
use switchboard::{CallError, Output};

use crate::fault_plan::CallPlan;

/// One call, when all is over.
#[derive(Debug)]
pub(crate) struct Seen {
    /// `None` when its caller gave it up.
    pub(crate) outcome: Option<Result<Output, CallError>>,
    /// How often the server has read it whole and has not turned it down.
    pub(crate) taken: usize,
    /// How often the server has begun to carry it out.
    pub(crate) executed: usize,
}

/// How a call ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Fate {
    Answered,
    /// The server turned it down, by a status.
    TurnedDown,
    /// Lost, and it was carried out.
    UnknownAndDone,
    /// Lost, and it was not carried out.
    UnknownAndUndone,
    NotSent,
    Late,
    GivenUp,
}

impl Fate {
    pub(crate) const ALL: [Self; 7] = [
        Self::Answered,
        Self::TurnedDown,
        Self::UnknownAndDone,
        Self::UnknownAndUndone,
        Self::NotSent,
        Self::Late,
        Self::GivenUp,
    ];
}

/// How many calls met each fate.
pub(crate) type Tally = BTreeMap<Fate, usize>;

/// Says how a call ended, or what is wrong with that.
pub(crate) fn judge(call: &CallPlan, seen: &Seen) -> Result<Fate, String> {
    if seen.executed > 1 || seen.taken > 1 {
        return Err("it was delivered more than once".to_owned());
    }
    match &seen.outcome {
        None => Ok(Fate::GivenUp),
        Some(Ok(_)) if seen.executed == 0 => Err("a result of nothing".to_owned()),
        Some(Ok(output)) if output.is_error || output.to_text() != call.answer() => {
            Err("the answer of another call".to_owned())
        }
        Some(Ok(_)) => Ok(Fate::Answered),
        Some(Err(error)) => judge_loss(seen, error),
    }
}

/// A call without an answer: its error may be too careful, but never too sure.
fn judge_loss(seen: &Seen, error: &CallError) -> Result<Fate, String> {
    let is_untouched = seen.executed == 0 && seen.taken == 0;
    match (error, error.delivery()) {
        (_, Delivery::NotSent) if !is_untouched => {
            Err("the server has what was not sent".to_owned())
        }
        (CallError::OutcomeUnknown { .. }, Delivery::Unknown) if seen.executed > 0 => {
            Ok(Fate::UnknownAndDone)
        }
        (CallError::OutcomeUnknown { .. }, Delivery::Unknown) => Ok(Fate::UnknownAndUndone),
        (CallError::TimedOut { .. }, Delivery::Unknown | Delivery::NotSent) => Ok(Fate::Late),
        (CallError::NotSent { .. } | CallError::Unavailable { .. }, Delivery::NotSent) => {
            Ok(Fate::NotSent)
        }
        // The script refuses nothing, so this is a status that stood for an answer.
        (CallError::ErrorResponse { .. }, Delivery::Answered) if is_untouched => {
            Ok(Fate::TurnedDown)
        }
        _ => Err("an error that does not tell the call's fate".to_owned()),
    }
}
