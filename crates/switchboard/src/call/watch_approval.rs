//! Remembers whether the user allowed a watch to call the tool that it polls.
//!
//! Invariant: the answer "allow" is valid only for the tool definition that the user was asked
//! about.

use std::sync::{Arc, Mutex};

use switchboard_wire::mcp::ToolDefinition;
use switchboard_wire::sync::lock;

use crate::permission::Denial;

/// The user's answer to the permission request of a watch, `None` before the first answer. All
/// polls of the watch share the answer, so that the user is not asked for each poll.
#[derive(Debug, Default)]
pub(crate) struct WatchApproval(Mutex<Option<RecordedAnswer>>);

#[derive(Debug)]
struct RecordedAnswer {
    tool: Arc<ToolDefinition>,
    outcome: Result<(), Denial>,
    prompts_shown: u32,
}

impl WatchApproval {
    /// Maximum number of permission requests for one watch. If the tool definition changes after
    /// the last of these requests, the polls are denied.
    const MAX_PROMPTS: u32 = 3;

    /// Returns the recorded answer. Returns `None` if the user has to be asked: there is no answer
    /// yet, or the tool definition changed after the user allowed the tool. After
    /// [`Self::MAX_PROMPTS`] requests, returns a denial for a changed definition instead of `None`.
    /// A denial is final.
    pub(super) fn lookup(&self, tool: &Arc<ToolDefinition>) -> Option<Result<(), Denial>> {
        let recorded = lock(&self.0);
        let recorded = recorded.as_ref()?;
        match &recorded.outcome {
            Ok(()) if recorded.tool == *tool => Some(Ok(())),
            Ok(()) if recorded.prompts_shown < Self::MAX_PROMPTS => None,
            Ok(()) => Some(Err(Denial::ToolChanged)),
            denied => Some(denied.clone()),
        }
    }

    pub(super) fn record(&self, tool: &Arc<ToolDefinition>, outcome: &Result<(), Denial>) {
        let mut recorded = lock(&self.0);
        let prompts_shown = recorded.as_ref().map_or(0, |answer| answer.prompts_shown);
        *recorded = Some(RecordedAnswer {
            tool: Arc::clone(tool),
            outcome: outcome.clone(),
            prompts_shown: prompts_shown + 1,
        });
    }
}
