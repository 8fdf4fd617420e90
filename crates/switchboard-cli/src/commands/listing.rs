//! Functions that `resources`, `prompts`, `read` and `prompt` share: list resources or prompts of
//! one or all servers, run an operation with one server, and request completions of arguments.

use std::collections::BTreeMap;

use switchboard::Host;
use switchboard::content::sanitize;
use switchboard::id::ServerName;
use switchboard::mcp::Completion;
use switchboard::query::{CompletionTarget, Listing, QueryError};
use switchboard::status::ConnectionStatus;
use switchboard_config::ServerEntry;

use super::find::{
    NO_SERVERS_HINT, find_server, require_launchable, server_named, unavailable_error,
};
use super::run_host::{LazyServers, run_with_host, start_servers, wait_until_started};
use crate::always_allow::own_settings_files;
use crate::context::{Context, LoadedServers};
use crate::failure::{Exit, Failure};
use crate::permission_prompt::PermissionPrompt;
use crate::render::progress::ProgressLine;
use crate::render::{Console, json, text};
use crate::signals::Signals;
use crate::tool_arguments::parse_text_pairs;

/// Lists the items of one server, or of all servers, and prints them. `kind` names the items in
/// messages, for example `resources`.
pub(super) async fn list<T>(
    server: Option<&str>,
    kind: &str,
    context: &Context,
    signals: &mut Signals,
    request: impl AsyncFnOnce(&Host, Option<&str>) -> Result<Listing<T>, QueryError>,
    render: impl FnOnce(&Listing<T>, &Console) -> String,
) -> Result<Exit, Failure> {
    let servers = context.load_servers()?;
    let console = &context.console;
    let entries = match server {
        Some(name) => {
            let entry = find_server(&servers, console, |servers| server_named(servers, name))?;
            require_launchable(entry, &servers, context)?;
            vec![entry.clone()]
        }
        None => {
            servers.diagnose(console);
            servers.loaded.config.servers.clone()
        }
    };
    let host = context.one_shot_host(&servers, entries);
    run_with_host(host, signals, context, async |host| {
        start_servers(host, console, LazyServers::All).await;
        let listing = match server {
            Some(name) => {
                require_connected(host, name)?;
                request(host, Some(name)).await?
            }
            None => request(host, None).await?,
        };
        console.print(&render(&listing, console))?;
        for note in &listing.notes {
            console.note(&text::one_line(&note.to_string()));
        }
        for problem in &listing.errors {
            console.note(&text::one_line(&problem.to_string()));
        }
        if server.is_none() {
            report_unavailable(host, &servers, console);
        }
        if listing.items.is_empty() && !servers.loaded.config.servers.is_empty() {
            console.note(&match server {
                Some(name) => format!("server {name} has no {kind}"),
                None => format!("no server has {kind}"),
            });
        }
        Ok(exit_code(host, &listing))
    })
    .await
}

/// The notes of a listing, for its JSON.
pub(super) fn notes_of<T>(listing: &Listing<T>) -> impl Iterator<Item = (&ServerName, &str)> {
    let notes = listing.notes.iter();
    notes.map(|note| (&note.server, note.note.as_str()))
}

/// Returns [`Exit::Ok`] if both conditions hold: some server is connected or none is enabled, and
/// some items were listed or no listing failed.
fn exit_code<T>(host: &Host, listing: &Listing<T>) -> Exit {
    let servers = host.status();
    let mut enabled = (servers.iter())
        .filter(|server| server.status != ConnectionStatus::Disabled)
        .peekable();
    let is_any_connected = enabled.peek().is_none()
        || enabled.any(|server| server.status == ConnectionStatus::Connected);
    if is_any_connected && (listing.errors.is_empty() || !listing.items.is_empty()) {
        Exit::Ok
    } else {
        Exit::Unavailable
    }
}

fn report_unavailable(host: &Host, servers: &LoadedServers, console: &Console) {
    for entry in &servers.loaded.config.servers {
        let Ok(status) = host.server_status(entry.name().as_str()) else {
            continue;
        };
        match status.status {
            ConnectionStatus::Connected | ConnectionStatus::Disabled => {}
            _ => {
                let failure = unavailable_error(&status);
                console.note(&text::one_line(&failure.parts().message));
                if let Some(hint) = &failure.parts().hint {
                    console.note(&format!("hint: {}", text::one_line(hint)));
                }
            }
        }
    }
    if servers.loaded.config.servers.is_empty() {
        console.note(NO_SERVERS_HINT);
    }
}

/// Starts a host with only this server, waits until the server is connected, and runs `work`.
/// Elicitations are shown on the terminal.
pub(super) async fn run_with_server<T>(
    entry: &ServerEntry,
    servers: &LoadedServers,
    context: &Context,
    signals: &mut Signals,
    work: impl AsyncFnOnce(&Host) -> Result<T, Failure>,
) -> Result<T, Failure> {
    require_launchable(entry, servers, context)?;
    let console = &context.console;
    let ask = PermissionPrompt::new(console, false, own_settings_files(&context.scope_paths()));
    let host = context.one_shot_host_with_prompt(servers, vec![entry.clone()], ask);
    run_with_host(host, signals, context, async |host| {
        wait_until_started(host, console).await;
        let name = entry.name().as_str();
        // The host records the error in the server's status, which `require_connected` reads.
        let _ = host.start_server(name).await;
        require_connected(host, name)?;
        work(host).await
    })
    .await
}

fn require_connected(host: &Host, name: &str) -> Result<(), Failure> {
    let status = host
        .server_status(name)
        .map_err(|error| Failure::internal(error.to_string()))?;
    match status.status {
        ConnectionStatus::Connected => Ok(()),
        _ => Err(unavailable_error(&status)),
    }
}

/// Parses the value of `--complete`, `KEY` or `KEY=PREFIX`, into key and prefix.
pub(super) fn parse_partial(word: &str) -> Result<(String, String), Failure> {
    let word = if word.contains('=') {
        word.to_owned()
    } else {
        format!("{word}=")
    };
    let mut pairs = parse_text_pairs(&[word])?;
    pairs
        .pop()
        .ok_or_else(|| Failure::usage("--complete expects KEY=PREFIX"))
}

/// Requests completions for `KEY=PREFIX` from the server and prints them.
pub(super) async fn complete(
    host: &Host,
    server: &str,
    of: CompletionTarget<'_>,
    argument: (&str, &str),
    known: &BTreeMap<String, String>,
    console: &Console,
) -> Result<Exit, Failure> {
    let line = ProgressLine::start(console, server);
    let (argument, value) = argument;
    let completion = host.complete(server, of, argument, value, known).await?;
    drop(line);
    console.print(&render_completion(&completion, console))?;
    if completion.values.is_empty() {
        console.note("no completions");
    } else if completion.has_more {
        console.note("note: more completions available; type more characters");
    }
    Ok(Exit::Ok)
}

fn render_completion(completion: &Completion, console: &Console) -> String {
    if console.is_json() {
        return json::pretty(completion);
    }
    let values = completion.values.iter();
    let lines: Vec<_> = values
        .map(|value| sanitize(value).replace('\n', " "))
        .collect();
    lines.join("\n")
}
