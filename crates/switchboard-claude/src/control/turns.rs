//! When a turn is over, and the CLI no longer needs to be answered.
//!
//! Pure. A result alone does not end a turn: tasks in the background may go on, and need answers. A
//! CLI that tells its state is believed; of an older one its tasks are counted.

use std::collections::HashSet;

/// How many tasks are kept apart. Whoever has more of them is waited for no longer.
const MOST_TASKS: usize = 1024;

/// What a message says about the turn.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Sign {
    Result { is_error: bool },
    State(State),
    TaskBegan(String),
    TaskEnded(String),
    Other,
}

/// What the CLI says that it does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    Idle,
    Running,
    /// It waits for an answer, of a person perhaps.
    RequiresAction,
}

#[derive(Debug, Default)]
pub(super) struct Turns {
    /// Whether the last result was an error, once there was one.
    result: Option<bool>,
    state: Option<State>,
    tasks: HashSet<String>,
}

impl Turns {
    pub(super) fn see(&mut self, sign: Sign) {
        match sign {
            Sign::Result { is_error } => self.result = Some(is_error),
            Sign::State(state) => self.state = Some(state),
            Sign::TaskBegan(task) if self.tasks.len() < MOST_TASKS => {
                self.tasks.insert(task);
            }
            Sign::TaskEnded(task) => {
                self.tasks.remove(&task);
            }
            Sign::TaskBegan(_) | Sign::Other => {}
        }
    }

    /// Whether nothing more is to come.
    pub(super) fn is_over(&self) -> bool {
        let is_idle = match self.state {
            Some(state) => state == State::Idle,
            None => self.tasks.is_empty(),
        };
        self.result.is_some() && is_idle
    }

    /// Whether there is a result, and what goes on beside it may be waited for only so long.
    pub(super) fn is_lingering(&self) -> bool {
        let is_asking = self.state == Some(State::RequiresAction);
        self.result.is_some() && !self.is_over() && !is_asking
    }

    pub(super) fn has_result(&self) -> bool {
        self.result.is_some()
    }

    /// Whether the last turn failed, after which the CLI exits with an error.
    pub(super) fn has_failed(&self) -> bool {
        self.result == Some(true)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RESULT: Sign = Sign::Result { is_error: false };

    fn over(signs: impl IntoIterator<Item = Sign>) -> bool {
        let mut turns = Turns::default();
        signs.into_iter().for_each(|sign| turns.see(sign));
        turns.is_over()
    }

    #[test]
    fn a_turn_is_over_with_its_result_and_an_idle_cli() {
        let (idle, running) = (Sign::State(State::Idle), Sign::State(State::Running));
        assert!(!over([]));
        assert!(!over([running.clone(), Sign::Other]));
        assert!(!over([running.clone(), RESULT]));
        assert!(over([running.clone(), RESULT, idle.clone()]));
        assert!(over([running.clone(), idle.clone(), RESULT]));
        assert!(!over([idle.clone()]));
        assert!(!over([running.clone(), RESULT, idle, running]));
    }

    #[test]
    fn without_a_state_tasks_in_the_background_are_waited_for() {
        let began = |task: &str| Sign::TaskBegan(task.to_owned());
        let ended = |task: &str| Sign::TaskEnded(task.to_owned());
        assert!(over([RESULT]));
        assert!(!over([began("a"), began("b"), RESULT, ended("a")]));
        assert!(over([began("a"), RESULT, ended("a")]));
        assert!(over([ended("unknown"), RESULT]));
    }

    #[test]
    fn a_person_who_is_asked_is_waited_for_without_end() {
        let mut turns = Turns::default();
        turns.see(RESULT);
        turns.see(Sign::State(State::RequiresAction));
        assert!(!turns.is_lingering());
        turns.see(Sign::State(State::Running));
        assert!(turns.is_lingering());
    }
}
