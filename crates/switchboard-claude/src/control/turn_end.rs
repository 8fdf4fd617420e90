//! Decides when a turn is over, so that the input of the CLI may be closed.
//!
//! This module does no I/O. A result message alone does not end a turn: background tasks may still
//! run and send requests. If the CLI reports its session state, the turn is over when the state is
//! idle. An older CLI reports no state; then the turn is over when no background task is left.

use std::collections::HashSet;

/// Maximum number of background tasks that are tracked. Any further task is ignored, so the turn
/// may end while that task still runs.
const MAX_TRACKED_TASKS: usize = 1024;

/// What a message of the CLI says about the state of the turn.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum CliReport {
    Result { is_error: bool },
    State(SessionState),
    TaskStarted(String),
    TaskEnded(String),
    Other,
}

/// The session state that the CLI reports in `session_state_changed`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SessionState {
    Idle,
    Running,
    /// The CLI waits for a response of this program, which may have to ask the user first.
    RequiresAction,
}

#[derive(Debug, Default)]
pub(super) struct TurnEndTracker {
    /// Whether the last result message reported an error. `None` before the first result message.
    result: Option<bool>,
    session: Option<SessionState>,
    tasks: HashSet<String>,
}

impl TurnEndTracker {
    pub(super) fn record(&mut self, report: CliReport) {
        match report {
            CliReport::Result { is_error } => self.result = Some(is_error),
            CliReport::State(state) => self.session = Some(state),
            CliReport::TaskStarted(task) if self.tasks.len() < MAX_TRACKED_TASKS => {
                self.tasks.insert(task);
            }
            CliReport::TaskEnded(task) => {
                self.tasks.remove(&task);
            }
            CliReport::TaskStarted(_) | CliReport::Other => {}
        }
    }

    /// Whether a result message has arrived and nothing runs in the background.
    pub(super) fn is_over(&self) -> bool {
        let is_idle = match self.session {
            Some(state) => state == SessionState::Idle,
            None => self.tasks.is_empty(),
        };
        self.result.is_some() && is_idle
    }

    /// Whether a result message has arrived and background tasks continue. If so, the reader limits
    /// how long it waits for these tasks. False while the CLI waits for a response of this program,
    /// because the user may take any time to answer.
    pub(super) fn has_background_tasks(&self) -> bool {
        let requires_action = self.session == Some(SessionState::RequiresAction);
        self.result.is_some() && !self.is_over() && !requires_action
    }

    pub(super) fn has_result(&self) -> bool {
        self.result.is_some()
    }

    /// Whether the last result message reported an error. The CLI then exits with an error code.
    pub(super) fn has_failed(&self) -> bool {
        self.result == Some(true)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RESULT: CliReport = CliReport::Result { is_error: false };

    fn is_over(reports: impl IntoIterator<Item = CliReport>) -> bool {
        let mut turn = TurnEndTracker::default();
        reports.into_iter().for_each(|report| turn.record(report));
        turn.is_over()
    }

    #[test]
    fn turn_ends_with_result_and_idle_session() {
        let idle = CliReport::State(SessionState::Idle);
        let running = CliReport::State(SessionState::Running);
        assert!(!is_over([]));
        assert!(!is_over([running.clone(), CliReport::Other]));
        assert!(!is_over([running.clone(), RESULT]));
        assert!(is_over([running.clone(), RESULT, idle.clone()]));
        assert!(is_over([running.clone(), idle.clone(), RESULT]));
        assert!(!is_over([idle.clone()]));
        assert!(!is_over([running.clone(), RESULT, idle, running]));
    }

    #[test]
    fn background_tasks_keep_turn_open() {
        let started = |task: &str| CliReport::TaskStarted(task.to_owned());
        let ended = |task: &str| CliReport::TaskEnded(task.to_owned());
        assert!(is_over([RESULT]));
        assert!(!is_over([started("a"), started("b"), RESULT, ended("a")]));
        assert!(is_over([started("a"), RESULT, ended("a")]));
        assert!(is_over([ended("unknown"), RESULT]));
    }

    #[test]
    fn required_action_has_no_deadline() {
        let mut turn = TurnEndTracker::default();
        turn.record(RESULT);
        turn.record(CliReport::State(SessionState::RequiresAction));
        assert!(!turn.has_background_tasks());
        turn.record(CliReport::State(SessionState::Running));
        assert!(turn.has_background_tasks());
    }
}
