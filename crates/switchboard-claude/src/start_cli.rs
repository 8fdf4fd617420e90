//! Starts the CLI and waits for its response to `initialize`.

use serde_json::Map;
use switchboard::mcp::Json;

use crate::control::{CliStreams, Control, ControlSettings, RequestRouter};
use crate::elicitation::ElicitationQueues;
use crate::error::Error;
use crate::options::Options;
use crate::process::{CliLaunch, StderrTail};
use crate::servers::{InProcessServers, check_names};

/// Maximum total size of the messages that were received but not yet read, in bytes. A larger
/// `Options::max_buffer_size` raises this limit, so that at least one message of maximum size fits.
const MAX_UNREAD_BYTES: usize = 256 * 1024 * 1024;

/// When this crate closes the input of the CLI. The CLI then exits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum StdinClosing {
    /// When the first turn is over.
    AfterFirstTurn,
    /// When [`Control::close`] is called.
    OnClose,
}

/// A running CLI that has responded to `initialize`.
pub(crate) struct InitializedCli {
    pub(crate) control: Control,
    /// The payload of the CLI's response to `initialize`, if it has one.
    pub(crate) server_info: Option<Json>,
}

/// Starts the CLI and sends `initialize`. Returns when the CLI has responded.
pub(crate) async fn start_and_initialize(
    options: &Options,
    stdin_closing: StdinClosing,
) -> Result<InitializedCli, Error> {
    let names = options.servers.iter().map(|(name, _)| name.as_str());
    check_names(names).map_err(Error::InvalidInput)?;
    options.validate().map_err(Error::InvalidInput)?;
    let (servers, notifications) =
        InProcessServers::new(options.in_process_servers(), options.call_timeout);
    let servers = servers.with_always_load(options.always_loaded_servers());
    let manifests = if options.flags.manifests {
        servers.manifests().await
    } else {
        Map::new()
    };
    let router = RequestRouter {
        servers,
        permissions: options.permissions(),
        hooks: options.hooks_with_rules(),
        elicitations: ElicitationQueues::new(options.interaction.clone()),
    };
    let streams = start_process(options).await?;
    let settings = ControlSettings {
        request_timeout: options.request_timeout,
        write_timeout: options.request_timeout,
        max_line_bytes: options.max_buffer_size,
        max_queued_bytes: MAX_UNREAD_BYTES.max(options.max_buffer_size),
        close_after_turn: stdin_closing == StdinClosing::AfterFirstTurn,
    };
    let control = Control::spawn(streams, router, notifications, settings);
    let request = options.initialize_request(manifests);
    let server_info = control.request("initialize", request).await?;
    control.mark_ready();
    Ok(InitializedCli {
        control,
        server_info,
    })
}

async fn start_process(options: &Options) -> Result<CliStreams, Error> {
    let command_line = options.command_line().map_err(|error| {
        Error::InvalidInput(format!(
            "could not write temporary files for the Claude CLI ({error}); check the directory for \
             temporary files"
        ))
    })?;
    let launch = CliLaunch {
        program: options.cli_path.clone(),
        arguments: command_line.arguments.clone(),
        variables: options.environment(),
        cwd: options.cwd.clone(),
    };
    let started = launch.start().await?;
    let streams = started.streams;
    Ok(CliStreams {
        reader: streams.stdout,
        writer: streams.stdin,
        stderr: Some(StderrTail::spawn(
            streams.stderr,
            started.secrets.clone(),
            options.stderr.clone(),
        )),
        secrets: started.secrets,
        child: Some(started.child),
        files: Some(command_line),
    })
}
