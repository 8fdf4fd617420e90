//! Builds the [`Launch`] of a stdio server, which says what process to start, from its config
//! entry.
//!
//! Invariant: [`environment`] alone decides which variables the child inherits.

use std::path::Path;

use switchboard_config::{PinnedProgram, StdioConfig};
use switchboard_process::{ExecutableChanged, ExecutableResolver, Launch, MARKER_VARIABLE};

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
        resolver: approved.map(|program| {
            ExecutableResolver::new(move || program.verify().map_err(|_| ExecutableChanged))
        }),
    }
}
