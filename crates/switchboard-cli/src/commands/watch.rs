//! `watch SERVER URI`: what changes of a resource, or of what a tool answers, as it changes.
//!
//! Only the server concerned is started, and it may go away and come back. Invariant: nothing is printed
//! but changes, and what stands in their way.

use serde_json::Value;
use switchboard::reference;
use switchboard::status::ConnectionStatus;
use switchboard::{Event, Happened, Host, WatchEvent, WatchKind, WatchRequest, WatchTarget};
use switchboard_config::ServerEntry;

use super::call::{coerce_arguments, read_stdin, require_usable_settings};
use super::find::{find_server, find_tool, require_launchable, server_named, unavailable_error};
use super::run_host::{LazyServers, run_with_host, start_servers};
use crate::always_allow::rule_files;
use crate::args::WatchArgs;
use crate::context::Context;
use crate::failure::{Exit, Failure, Kind};
use crate::permission_prompt::PermissionPrompt;
use crate::render::style::Paint;
use crate::render::text::shell_word;
use crate::render::utc_timestamp;
use crate::render::{Console, json, text};
use crate::signals::Signals;
use crate::tool_arguments::{ArgumentInput, parse};
use crate::tool_schema::ToolSchema;

/// What was typed to be watched.
enum Wanted<'a> {
    Resource(&'a str),
    Tool(&'a str, ArgumentInput),
}

pub(crate) async fn run(
    args: &WatchArgs,
    context: &Context,
    signals: &mut Signals,
) -> Result<Exit, Failure> {
    let (server, mut wanted) = Wanted::read(args)?;
    let servers = context.load_servers()?;
    let console = &context.console;
    let entry = find_server(&servers, console, |servers| server_named(servers, server))?;
    require_launchable(entry, &servers, context)?;
    require_usable_settings(&servers)?;
    if let Wanted::Tool(_, given @ ArgumentInput::Stdin) = &mut wanted {
        *given = ArgumentInput::Object(signals.until_signal(read_stdin()).await?);
    }
    let ask = PermissionPrompt::new(console, args.yes, rule_files(&context.places()));
    let entries = vec![entry.clone()];
    let interaction = context.interaction(&entries, Some(ask));
    let host = context.long_running_host(&servers, entries);
    let outcome = run_with_host(
        host.interaction(interaction),
        signals,
        context,
        async |host| {
            start_servers(host, console, LazyServers::Unlisted).await;
            let request = request(host, entry, wanted, args).await?;
            let watch = host.watch(request).await?;
            console.note(&beginning(&watch));
            follow(host, args, console).await
        },
    )
    .await;
    match outcome {
        // There is no other way to end it.
        Err(failure) if failure.parts().kind == Kind::Interrupted && args.count.is_none() => {
            Ok(Exit::Ok)
        }
        outcome => outcome.map_err(Failure::as_json_line),
    }
}

impl<'a> Wanted<'a> {
    /// The server, and what of it.
    fn read(args: &'a WatchArgs) -> Result<(&'a str, Self), Failure> {
        let server = args.server.as_str();
        let example = format!("switchboard resources {}", shell_word(server));
        if let (true, [], None) = (server.starts_with('@'), args.words.as_slice(), &args.tool)
            && let Some((server, uri)) = reference::split(server)
        {
            return Ok((server, Self::Resource(uri)));
        }
        match (&args.tool, args.words.as_slice()) {
            (Some(tool), words) => Ok((server, Self::Tool(tool, parse(words)?))),
            (None, [uri]) => Ok((server, Self::Resource(uri))),
            (None, []) => {
                let message = "what is to be watched? Give the address of a resource, or a --tool";
                Err(Failure::usage(message).hint(example))
            }
            (None, [_, second, ..]) => {
                let message = format!("`{second}` is one too many: a resource has one address");
                Err(Failure::usage(message).hint("arguments need a --tool"))
            }
        }
    }
}

async fn request(
    host: &Host,
    entry: &ServerEntry,
    wanted: Wanted<'_>,
    args: &WatchArgs,
) -> Result<WatchRequest, Failure> {
    let server = entry.name().as_str();
    let request = match wanted {
        Wanted::Resource(uri) if args.every.is_some() => WatchRequest::poll_resource(server, uri),
        Wanted::Resource(uri) => WatchRequest::subscription(server, uri),
        Wanted::Tool(name, given) => {
            // By either of its names.
            let catalog = host.catalog();
            let mut tools = catalog.of_server(entry.name());
            let raw = tools.find(|tool| tool.id.tool.as_str() == name).cloned();
            let tool = match raw {
                Some(tool) => tool,
                None => find_tool(host, entry, &spelled(entry, name)).await?,
            };
            let arguments =
                coerce_arguments(given, &ToolSchema::parse(&tool.definition.input_schema))?;
            WatchRequest::poll_tool(server, tool.id.tool.clone(), Value::Object(arguments))
        }
    };
    Ok(match args.every {
        Some(interval) => request.every(interval),
        None => request,
    })
}

/// A tool's name as a model spells it.
fn spelled(entry: &ServerEntry, name: &str) -> String {
    if name.starts_with("mcp__") {
        return name.to_owned();
    }
    switchboard::naming::wire_name(entry.name(), &name.into()).to_string()
}

fn beginning(watch: &switchboard::Watch) -> String {
    let every = format!("asked every {:?}", watch.interval);
    let how = match (watch.kind, watch.means, &watch.note) {
        (_, WatchKind::Subscription, _) => "the server tells".to_owned(),
        (WatchKind::Subscription, _, Some(note)) => format!("{every}: {note}"),
        _ => every,
    };
    let what = switchboard::content::for_terminal(&watch.target.to_string()).into_owned();
    format!(
        "watching {what} of server {} ({how}); Ctrl-C ends it",
        watch.server
    )
}

/// Shows what is told, until it was often enough.
async fn follow(host: &Host, args: &WatchArgs, console: &Console) -> Result<Exit, Failure> {
    let mut left = args.count;
    let mut events = host.events();
    loop {
        let event = tokio::select! {
            biased;
            event = host.next_watch_event() => event,
            Some(event) = events.next() => {
                tell_of_server(&event, console);
                continue;
            }
        };
        let Some(event) = event else { break };
        if let Some(failure) = hopeless(host, &event) {
            return Err(failure);
        }
        console.print(&render(&event, console))?;
        if let (Happened::Changed { .. }, Some(left)) = (event.happened, &mut left) {
            *left -= 1;
            if *left == 0 {
                return Ok(Exit::Ok);
            }
        }
    }
    Err(Failure::interrupted())
}

/// Says that the server went away or is back: as long as it is away, nothing can be told.
fn tell_of_server(event: &Event, console: &Console) {
    if let Event::ServerChanged {
        server,
        status,
        detail,
    } = event
    {
        let why = detail.as_deref().map(|why| format!(": {why}"));
        let why = why.unwrap_or_default();
        console.note(&text::one_line(&format!(
            "server {server} is {status}{why}"
        )));
    }
}

/// What will not get better by waiting: rules do not change here, and what never worked will not.
fn hopeless(host: &Host, event: &WatchEvent) -> Option<Failure> {
    match event.happened {
        Happened::NotPermitted => {
            let failure = Failure::new(Kind::Denied, event.summary.clone());
            let WatchTarget::Tool { name, .. } = &event.target else {
                return Some(failure);
            };
            let name = switchboard::naming::wire_name(&event.server, name);
            Some(failure.hint(format!("pass --yes, or --allow {name}")))
        }
        Happened::Failed if !host.watches().iter().any(|watch| watch.seen) => {
            Some(Failure::new(Kind::Refused, event.summary.clone()))
        }
        // A server that is tried again is worth waiting for; one that was given up is not.
        Happened::Failed => {
            let status = host.server_status(event.server.as_str()).ok()?;
            let is_over = !matches!(
                status.status,
                ConnectionStatus::Connected | ConnectionStatus::Pending
            );
            is_over.then(|| unavailable_error(&status))
        }
        Happened::Ended => Some(Failure::new(Kind::Unavailable, event.summary.clone())),
        _ => None,
    }
}

fn render(event: &WatchEvent, console: &Console) -> String {
    if console.is_json() {
        return json::line(event);
    }
    let style = console.style;
    let time: String = utc_timestamp(event.at).chars().take(19).collect();
    let paint = match event.happened {
        Happened::Failed => Paint::Red,
        Happened::Recovered => Paint::Green,
        _ => Paint::Bold,
    };
    let mut text = format!(
        "{} {}",
        style.paint(Paint::Dim, &format!("{time}Z")),
        style.paint(paint, &event.summary)
    );
    for line in event.diff.iter().flat_map(|diff| diff.lines()) {
        let paint = match line.chars().next() {
            Some('-') => Paint::Red,
            Some('+') => Paint::Green,
            _ => Paint::Dim,
        };
        text.push_str("\n  ");
        text.push_str(&style.paint(paint, line));
    }
    text
}
