//! Builds the [`Launch`] of a stdio server, which says what process to start, from its config
//! entry.
//!
//! Invariant: [`environment`] alone decides which variables the child inherits.

use std::fs::File;
use std::path::Path;
use std::sync::Arc;

use switchboard_config::{PinnedProgram, StdioConfig};
use switchboard_process::{
    ExecutableChanged, ExecutableResolver, Launch, MARKER_VARIABLE, ResolvedExecutable,
};

use super::environment::{self, Variables};

/// Returns what process to start for a config entry. `working_directory` is used if the entry has
/// no `cwd`. If `approved` is set, the start fails unless the program file is still the approved
/// one.
pub(super) fn launch(
    config: &StdioConfig,
    host_env: &Variables,
    working_directory: Option<&Path>,
    approved: Option<PinnedProgram>,
) -> Launch {
    let cwd = config.cwd.as_deref().or(working_directory);
    Launch {
        command: config.command.clone(),
        args: config.args.clone(),
        cwd: cwd.map(Path::to_owned),
        env: environment::child_env(host_env, config),
        parent_marker: host_env.get(MARKER_VARIABLE).cloned(),
        keep_daemons: config.keep_daemons,
        resolver: approved
            .map(|program| ExecutableResolver::new(move || resolve_approved(&program))),
    }
}

/// Verifies an approved program and returns the file to execute.
fn resolve_approved(
    program: &PinnedProgram,
) -> Result<Option<ResolvedExecutable>, ExecutableChanged> {
    let Some(verified) = program.verify().map_err(|_| ExecutableChanged)? else {
        return Ok(None);
    };
    let file = verified.binary().map(File::try_clone).transpose();
    Ok(Some(ResolvedExecutable {
        path: verified.path().to_owned(),
        file: file.map_err(|_| ExecutableChanged)?,
        recheck: Some(Arc::new(move || {
            verified.recheck().map_err(|_| ExecutableChanged)
        })),
    }))
}
