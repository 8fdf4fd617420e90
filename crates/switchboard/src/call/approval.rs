//! Remembers whether the user permitted the tool that a watch polls.
//!
//! Invariant: an approval covers exactly the tool definition that the user saw.

use std::sync::{Arc, Mutex};

use switchboard_wire::mcp::ToolDefinition;
use switchboard_wire::sync::lock;

use crate::permission::Denial;

/// The user's answer to the permission request of a watch. Later polls use it, so that the user is
/// not asked again for each poll.
#[derive(Debug, Default)]
pub(crate) struct RememberedApproval(Mutex<Option<RecordedAnswer>>);

#[derive(Debug)]
struct RecordedAnswer {
    tool: Arc<ToolDefinition>,
    outcome: Result<(), Denial>,
    prompts_shown: u32,
}

impl RememberedApproval {
    /// How often the user is asked about a tool whose definition keeps changing.
    const MAX_PROMPTS: u32 = 3;

    /// The recorded answer, or `None` if the user has to be asked: for the first time, or again
    /// because the tool changed since it was allowed. A denial is final.
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
