//! From options to a CLI that runs and has answered `initialize`.

use serde_json::{Map, Value};
use switchboard::mcp::Json;

use crate::control::{Control, Desk, Link, Settings};
use crate::elicitation::Elicitations;
use crate::error::Error;
use crate::options::Options;
use crate::program::{Launch, Stderr};
use crate::servers::{SdkServers, check_names};

/// How many bytes of messages wait for a user who does not read them.
const MOST_WAITING: usize = 256 * 1024 * 1024;

/// When the input of the CLI ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ends {
    /// With the first turn.
    AfterTurn,
    /// When it is closed.
    WhenClosed,
}

/// A CLI that is ready, and what it said of itself.
pub(crate) struct Connected {
    pub(crate) control: Control,
    pub(crate) answer: Option<Json>,
}

/// Starts the CLI.
pub(crate) async fn connect(options: &Options, ends: Ends) -> Result<Connected, Error> {
    let names = options.servers().iter().map(|(name, _)| name.as_str());
    check_names(names).map_err(Error::Unusable)?;
    let (servers, notices) = SdkServers::new(options.sdk_servers(), options.time_for_calls());
    let servers = servers.loading(options.eager_servers());
    let manifests = if options.wants_manifests() {
        servers.manifests().await
    } else {
        Map::new()
    };
    let desk = Desk {
        servers,
        permissions: options.permissions(),
        hooks: options.hooked(),
        elicitations: Elicitations::new(options.asked()),
    };
    let link = start(options).await?;
    let settings = Settings {
        time_for_requests: options.time_for_requests(),
        patience: options.time_for_requests(),
        longest_line: options.longest_line(),
        most_waiting: MOST_WAITING.max(options.longest_line()),
        ends_with_turn: ends == Ends::AfterTurn,
    };
    let control = Control::spawn(link, desk, notices, settings);
    let request = match options.initialize(manifests) {
        Value::Object(request) => request,
        _ => Map::new(),
    };
    let answer = control.request("initialize", request).await?;
    control.is_ready();
    Ok(Connected { control, answer })
}

async fn start(options: &Options) -> Result<Link, Error> {
    let command_line = options.command_line().map_err(|error| {
        let advice = "check the folder for temporary files";
        Error::Unusable(format!(
            "files for the Claude CLI could not be written ({error}): {advice}"
        ))
    })?;
    let launch = Launch {
        named: options.program().map(ToOwned::to_owned),
        arguments: command_line.arguments.clone(),
        variables: options.environment(),
        folder: options.folder().map(ToOwned::to_owned),
    };
    let started = launch.start().await?;
    let streams = started.streams;
    Ok(Link {
        reader: streams.stdout,
        writer: streams.stdin,
        stderr: Some(Stderr::spawn(
            streams.stderr,
            started.secrets.clone(),
            options.stderr_callback(),
        )),
        secrets: started.secrets,
        child: Some(started.child),
        files: Some(command_line),
    })
}
