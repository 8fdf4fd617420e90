//! `list`: starts all servers that may start and are not lazy, and prints a table with the status
//! of every server.

mod watch_mode;

use std::borrow::Cow;

use switchboard::status::{ConnectionStatus, ServerDetails, ServerStatus, TransportKind};
use switchboard_config::{LaunchDecision, PendingReason, ServerEntry};

use super::run_host::{run_with_host, wait_until_started};
use crate::args::ListArgs;
use crate::context::{Context, LoadedServers};
use crate::failure::{Exit, Failure};
use crate::render::server_text::quote_message;
use crate::render::style::Paint;
use crate::render::table::{Cell, Overflow, Table};
use crate::render::{Console, format_duration, json, text};
use crate::signals::Signals;

/// Indent of the lines below a server's row.
const INDENT: usize = 4;

/// Maximum number of notes printed per server; `get` prints all of a server's notes.
const MAX_NOTES: usize = 3;

const NO_SERVERS: &str = r#"No servers configured.

Add one:

  switchboard add everything -- npx -y @modelcontextprotocol/server-everything

Or create .mcp.json in your project, or ~/.mcp.json for all projects:

  {
    "mcpServers": {
      "everything": {
        "command": "npx",
        "args": ["-y", "@modelcontextprotocol/server-everything"]
      }
    }
  }

Then run:               switchboard trust && switchboard list
Use another file:       switchboard --mcp-config FILE list
Try it without config:  switchboard demo"#;

pub(crate) async fn run(
    args: &ListArgs,
    context: &Context,
    signals: &mut Signals,
) -> Result<Exit, Failure> {
    if args.watch {
        return watch_mode::run(context, signals).await;
    }
    let servers = context.load_servers()?;
    servers.diagnose(&context.console);
    let entries = servers.loaded.config.servers.clone();
    let host = context.one_shot_host(&servers, entries);
    run_with_host(host, signals, context, async |host| {
        wait_until_started(host, &context.console).await;
        let details = server_details(host, &servers);
        let result = render(&details, &servers, &context.console);
        context.console.print(&result)?;
        if !args.exit_status {
            return Ok(Exit::Ok);
        }
        let all = || details.iter().map(|(_, server)| &server.status);
        let wants_login = |server: &ServerStatus| server.status == ConnectionStatus::NeedsAuth;
        Ok(if all().any(has_failed) {
            Exit::Unavailable
        } else if all().any(wants_login) {
            Exit::LoginNeeded
        } else {
            Exit::Ok
        })
    })
    .await
}

/// Whether a server failed to connect, or is connected and could not list its tools.
pub(super) fn has_failed(server: &ServerStatus) -> bool {
    match server.status {
        ConnectionStatus::Failed => true,
        ConnectionStatus::Connected => server.error.is_some(),
        _ => false,
    }
}

fn server_details<'a>(
    host: &switchboard::Host,
    servers: &'a LoadedServers,
) -> Vec<(&'a ServerEntry, ServerDetails)> {
    let entries = servers.loaded.config.servers.iter();
    let details = entries.filter_map(|entry| {
        let server = host.server_details(entry.name().as_str()).ok()?;
        Some((entry, server))
    });
    details.collect()
}

fn render(
    details: &[(&ServerEntry, ServerDetails)],
    servers: &LoadedServers,
    console: &Console,
) -> String {
    if console.is_json() {
        return json::pretty(&to_json(details, servers));
    }
    if details.is_empty() {
        return NO_SERVERS.to_owned();
    }
    // On a narrow terminal, columns are dropped in this order. Status and name are never dropped,
    // and `get` prints the other values.
    let mut table = Table::new(1, Overflow::Truncate).droppable(&[3, 2, 5, 4]);
    let heading = ["  STATUS", "SERVER", "SCOPE", "TRANSPORT", "TOOLS", "TIME"];
    table.row(
        heading
            .into_iter()
            .enumerate()
            .map(|(column, name)| {
                let cell = Cell::new(name).paint(Paint::Dim);
                if column < 4 { cell } else { cell.number() }
            })
            .collect(),
    );
    for (entry, server) in details {
        table.row(render_row(server));
        table.text(render_details(entry, server, servers, console));
    }
    let rows = table.render(console.columns, console.style);
    match approval_hint(details, servers) {
        Some(hint) => format!("{rows}\n{hint}"),
        None => rows,
    }
}

fn to_json<'a>(
    details: &'a [(&ServerEntry, ServerDetails)],
    servers: &'a LoadedServers,
) -> json::ServersJson<'a> {
    let server = |(entry, details): &'a (&ServerEntry, ServerDetails)| json::ServerJson {
        details,
        origin: entry.origin(),
    };
    json::ServersJson {
        servers: details.iter().map(server).collect(),
        diagnostics: servers.diagnostics(),
    }
}

/// Returns a hint to run `switchboard trust` if servers of the project wait for approval.
fn approval_hint(
    details: &[(&ServerEntry, ServerDetails)],
    servers: &LoadedServers,
) -> Option<String> {
    let entries = details.iter().map(|(entry, _)| *entry);
    let summary = match entries
        .filter(|entry| is_unapproved(entry, servers))
        .count()
    {
        0 => return None,
        1 => "1 project server needs approval and was not started.".to_owned(),
        many => format!("{many} project servers need approval and were not started."),
    };
    Some(format!(
        "{summary}\nTo review and approve: switchboard trust"
    ))
}

fn render_row(server: &ServerDetails) -> Vec<Cell> {
    let status = server.status.status;
    let (symbol, paint) = symbol(status);
    let is_connected = status == ConnectionStatus::Connected;
    let tools = is_connected.then(|| server.status.tools.len().to_string());
    let took = server
        .connect_time
        .filter(|_| is_connected)
        .map(format_duration);
    let or_dash = |text: Option<String>| text.unwrap_or_else(|| "-".to_owned());
    vec![
        Cell::new(format!("{symbol} {status}")).paint(paint),
        Cell::new(server.status.name.as_str()).paint(Paint::Bold),
        Cell::new(
            server
                .status
                .scope
                .map(|scope| scope.to_string())
                .unwrap_or_default(),
        ),
        Cell::new(transport_of(server)),
        Cell::new(or_dash(tools)).number(),
        Cell::new(or_dash(took)).number(),
    ]
}

/// Returns the transport, or for an invalid entry the `type` it declares.
fn transport_of(server: &ServerDetails) -> &str {
    let entry = server.status.config.as_ref();
    let declared = entry.and_then(|entry| entry.as_object().get("type")?.as_str());
    match server.transport {
        TransportKind::Unknown => declared.unwrap_or("-"),
        known => known.as_str(),
    }
}

pub(super) fn symbol(status: ConnectionStatus) -> (&'static str, Paint) {
    match status {
        ConnectionStatus::Connected => ("✓", Paint::Green),
        ConnectionStatus::Failed => ("✗", Paint::Red),
        ConnectionStatus::Disabled => ("-", Paint::Dim),
        _ => ("○", Paint::Yellow),
    }
}

/// Renders the lines below a server's row: error, hint and notes.
fn render_details(
    entry: &ServerEntry,
    server: &ServerDetails,
    servers: &LoadedServers,
    console: &Console,
) -> String {
    let status = &server.status;
    let mut lines: Vec<(Paint, Cow<'_, str>)> = Vec::new();
    lines.extend(
        status
            .error
            .iter()
            .map(|error| (Paint::Plain, Cow::Borrowed(error.as_str()))),
    );
    lines.extend(find_hint(entry, server, servers).map(|(paint, hint)| (paint, hint.into())));
    let notes = server.notes.iter().take(MAX_NOTES);
    lines.extend(notes.map(|note| (Paint::Dim, format!("note: {note}").into())));
    if server.notes.len() > MAX_NOTES {
        let more = server.notes.len() - MAX_NOTES;
        let name = text::quote_for_shell(status.name.as_str());
        lines.push((
            Paint::Dim,
            format!("{more} more notes (switchboard get {name})").into(),
        ));
    }
    let painted = lines.into_iter().map(|(paint, line)| {
        let block = quote_message(&line, INDENT, console.prose_columns());
        console.style.paint(paint, &block)
    });
    painted.collect::<Vec<_>>().join("\n")
}

/// Returns a hint for a server that is not connected, or why it is not connected.
fn find_hint(
    entry: &ServerEntry,
    server: &ServerDetails,
    servers: &LoadedServers,
) -> Option<(Paint, String)> {
    if let LaunchDecision::AwaitingApproval { reason, .. } = entry.decide_launch(&servers.trust) {
        let why = match reason {
            PendingReason::New => "not approved",
            PendingReason::Changed => "changed since you approved or rejected it",
        };
        return Some((Paint::Dim, why.to_owned()));
    }
    let detail = server.status.detail.clone()?;
    Some(match server.status.status {
        ConnectionStatus::Failed | ConnectionStatus::NeedsAuth => {
            (Paint::Cyan, format!("hint: {detail}"))
        }
        _ => (Paint::Dim, detail),
    })
}

fn is_unapproved(entry: &ServerEntry, servers: &LoadedServers) -> bool {
    matches!(
        entry.decide_launch(&servers.trust),
        LaunchDecision::AwaitingApproval { .. }
    )
}
