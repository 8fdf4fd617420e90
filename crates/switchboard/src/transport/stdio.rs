//! A server as a child process that speaks over its stdin and stdout.

use std::path::Path;

use switchboard_config::{PinnedProgram, StdioConfig};
use switchboard_process::{
    ChildProcess, ExecutableChanged, ExecutableResolver, Launch, MARKER_VARIABLE,
    ProcessSupervisor, SpawnError,
};
use tokio::process::ChildStderr;

use super::environment::{self, Variables};
use crate::session::Streams;

/// A child and its streams.
pub(crate) struct Started {
    pub(crate) process: ChildProcess,
    pub(crate) streams: Streams,
    /// To be read all the time, so that the child never blocks on it.
    pub(crate) stderr: ChildStderr,
}

/// Starts the child of an entry. `home` is where a child without a `cwd` of its own works.
pub(crate) async fn start(
    config: &StdioConfig,
    variables: &Variables,
    home: Option<&Path>,
    seal: Option<PinnedProgram>,
    supervisor: &ProcessSupervisor,
) -> Result<Started, SpawnError> {
    let launch = Launch {
        command: config.command.clone(),
        args: config.args.clone(),
        cwd: config.cwd.as_deref().or(home).map(Path::to_owned),
        env: environment::for_child(variables, config),
        parent_marker: variables.get(MARKER_VARIABLE).cloned(),
        keep_daemons: config.keep_daemons,
        resolver: seal.map(|seal| {
            ExecutableResolver::new(move || seal.verify().map_err(|_| ExecutableChanged))
        }),
    };
    let (process, pipes) = supervisor.start(launch).await?;
    let streams = Streams {
        reader: Box::new(pipes.stdout),
        writer: Box::new(pipes.stdin),
    };
    Ok(Started {
        process,
        streams,
        stderr: pipes.stderr,
    })
}
