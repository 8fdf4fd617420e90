//! `watch SERVER URI`: prints changes of a resource or of a tool's result.
//!
//! Starts only the watched server, and keeps watching across reconnects. Invariant: stdout contains
//! only changes, failures and recoveries of the watch.

use futures_util::FutureExt as _;
use serde_json::Value;
use switchboard::event::CallOutcome;
use switchboard::mention;
use switchboard::status::ConnectionStatus;
use switchboard::watch::{WatchChange, WatchEvent, WatchKind, WatchRequest, WatchTarget};
use switchboard::{Event, Host};
use switchboard_config::ServerEntry;

use super::call::{coerce_arguments, read_stdin, require_usable_settings};
use super::find::{find_server, find_tool, require_launchable, server_named, unavailable_error};
use super::run_host::{LazyServers, run_with_host, start_servers};
use super::tool_name::NamedTool;
use crate::always_allow::own_settings_files;
use crate::args::WatchArgs;
use crate::context::Context;
use crate::failure::{Exit, Failure, Kind};
use crate::permission_prompt::PermissionPrompt;
use crate::render::style::Paint;
use crate::render::utc_timestamp;
use crate::render::{Console, json, text};
use crate::signals::Signals;
use crate::tool_arguments::{ArgumentInput, parse};
use crate::tool_schema::ToolSchema;
use switchboard::content::quote_for_shell;

/// What to watch: a resource URI, or a tool name with its arguments.
enum TargetArgs<'a> {
    Resource(&'a str),
    Tool(&'a str, ArgumentInput),
}

pub(crate) async fn run(
    args: &WatchArgs,
    context: &Context,
    signals: &mut Signals,
) -> Result<Exit, Failure> {
    let (server, mut target) = TargetArgs::read(args)?;
    let servers = context.load_servers()?;
    let console = &context.console;
    let entry = find_server(&servers, console, |servers| server_named(servers, server))?;
    require_launchable(entry, &servers, context)?;
    require_usable_settings(&servers)?;
    if let TargetArgs::Tool(_, given @ ArgumentInput::Stdin) = &mut target {
        *given = ArgumentInput::Object(signals.until_signal(read_stdin()).await?);
    }
    let ask = PermissionPrompt::new(
        console,
        args.yes,
        own_settings_files(&context.scope_paths()),
    );
    let entries = vec![entry.clone()];
    let interaction = context.interaction(&entries, Some(ask));
    let host = context.long_running_host(&servers, entries);
    let outcome = run_with_host(
        host.interaction(interaction),
        signals,
        context,
        async |host| {
            start_servers(host, console, LazyServers::Unlisted).await;
            let request = build_request(host, entry, target, args).await?;
            let watch = host.watch(request).await?;
            console.note(&start_message(&watch));
            print_events(host, args, console).await
        },
    )
    .await;
    match outcome {
        // Without `--count`, a signal is the normal way to end the command.
        Err(failure) if failure.parts().kind == Kind::Interrupted && args.count.is_none() => {
            Ok(Exit::Ok)
        }
        outcome => outcome.map_err(Failure::with_json_line),
    }
}

impl<'a> TargetArgs<'a> {
    /// Parses the command line into the server's name and the target.
    fn read(args: &'a WatchArgs) -> Result<(&'a str, Self), Failure> {
        let server = args.server.as_str();
        let example = format!("switchboard resources {}", quote_for_shell(server));
        if let (true, [], None) = (server.starts_with('@'), args.words.as_slice(), &args.tool)
            && let Some((server, uri)) = mention::split(server)
        {
            return Ok((server, Self::Resource(uri)));
        }
        match (&args.tool, args.words.as_slice()) {
            (Some(tool), words) => Ok((server, Self::Tool(tool, parse(words)?))),
            (None, [uri]) => Ok((server, Self::Resource(uri))),
            (None, []) => {
                let message = "missing target: pass a resource URI or --tool NAME";
                Err(Failure::usage(message).hint(example))
            }
            (None, [_, second, ..]) => {
                let message = format!("unexpected argument `{second}`: a resource has one URI");
                Err(Failure::usage(message).hint("arguments are for --tool NAME"))
            }
        }
    }
}

async fn build_request(
    host: &Host,
    entry: &ServerEntry,
    target: TargetArgs<'_>,
    args: &WatchArgs,
) -> Result<WatchRequest, Failure> {
    let server = entry.name().as_str();
    let request = match target {
        TargetArgs::Resource(uri) if args.every.is_some() => {
            WatchRequest::poll_resource(server, uri)
        }
        TargetArgs::Resource(uri) => WatchRequest::subscription(server, uri),
        TargetArgs::Tool(name, given) => {
            let tool = find_tool(host, &NamedTool::of_server(entry, name)).await?;
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

fn start_message(watch: &switchboard::watch::Watch) -> String {
    let polling = format!("polling every {:?}", watch.interval);
    let method = match (watch.kind, watch.effective_kind, &watch.note) {
        (_, WatchKind::Subscription, _) => "subscribed".to_owned(),
        (WatchKind::Subscription, _, Some(note)) => format!("{polling}: {note}"),
        _ => polling,
    };
    let target = switchboard::content::for_terminal(&watch.target.to_string()).into_owned();
    format!(
        "watching {target} of server {} ({method}); press Ctrl-C to stop\n\
         changes of config and rules are not followed",
        watch.server
    )
}

/// Whether it is known if the server executed the last call of the watched tool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum LastCall {
    Known,
    Unknown,
}

impl LastCall {
    fn observe(&mut self, event: &Event) {
        if let Event::CallFinished { outcome, .. } = event {
            *self = match outcome {
                CallOutcome::Unknown(_) => Self::Unknown,
                _ => Self::Known,
            };
        }
    }
}

/// Prints events until `--count` changes were printed or the watch cannot recover from an error.
async fn print_events(host: &Host, args: &WatchArgs, console: &Console) -> Result<Exit, Failure> {
    let mut left = args.count;
    let mut events = host.events();
    let mut last_call = LastCall::Known;
    let mut method = host.watches().first().map(|watch| watch.effective_kind);
    loop {
        let event = tokio::select! {
            biased;
            event = host.next_watch_event() => event,
            Some(event) = events.next() => {
                report_server_status(&event, console);
                last_call.observe(&event);
                report_polling(host, &mut method, console);
                continue;
            }
        };
        let Some(event) = event else { break };
        while let Some(Some(event)) = events.next().now_or_never() {
            report_server_status(&event, console);
            last_call.observe(&event);
        }
        if let Some(failure) = find_fatal_error(host, &event, last_call) {
            return Err(failure);
        }
        console.print(&render(&event, console))?;
        if let (WatchChange::Changed { .. }, Some(left)) = (event.change, &mut left) {
            *left -= 1;
            if *left == 0 {
                return Ok(Exit::Ok);
            }
        }
    }
    Err(Failure::interrupted())
}

/// Says when a watch that was subscribed begins to poll, because the server turned out not to
/// support subscriptions.
fn report_polling(host: &Host, method: &mut Option<WatchKind>, console: &Console) {
    let watches = host.watches();
    let Some(watch) = watches.first() else { return };
    let now = Some(watch.effective_kind);
    if *method != now {
        *method = now;
        if watch.effective_kind != WatchKind::Subscription {
            let note = watch.note.as_deref().unwrap_or("the subscription ended");
            let note = text::one_line(note);
            console.note(&format!("polling every {:?}: {note}", watch.interval));
        }
    }
}

/// Prints status changes of the server. While the server is disconnected, changes of the watched
/// target cannot be observed.
fn report_server_status(event: &Event, console: &Console) {
    if let Event::ServerChanged {
        server,
        status,
        detail,
    } = event
    {
        let reason = detail.as_deref().map(|reason| format!(": {reason}"));
        let reason = reason.unwrap_or_default();
        console.note(&text::one_line(&format!(
            "server {server} is {status}{reason}"
        )));
    }
}

/// Returns an error if the watch cannot recover: a rule denies the calls, the first request failed,
/// the host gave up on the server, or the watch ended.
fn find_fatal_error(host: &Host, event: &WatchEvent, last_call: LastCall) -> Option<Failure> {
    match event.change {
        WatchChange::NotPermitted => {
            let failure = Failure::new(Kind::Denied, event.summary.clone());
            let WatchTarget::Tool { name, .. } = &event.target else {
                return Some(failure);
            };
            let name = switchboard::naming::wire_name(&event.server, name);
            Some(failure.hint(format!("pass --yes, or --allow {name}")))
        }
        WatchChange::Failed if !host.watches().iter().any(|watch| watch.has_baseline) => {
            let kind = match last_call {
                LastCall::Known => Kind::Refused,
                LastCall::Unknown => Kind::OutcomeUnknown,
            };
            Some(Failure::new(kind, event.summary.clone()))
        }
        // A later failure is fatal only if the host no longer retries the connection.
        WatchChange::Failed => {
            let status = host.server_status(event.server.as_str()).ok()?;
            let gave_up = !matches!(
                status.status,
                ConnectionStatus::Connected | ConnectionStatus::Pending
            );
            gave_up.then(|| unavailable_error(&status))
        }
        WatchChange::Ended => Some(Failure::new(Kind::Unavailable, event.summary.clone())),
        _ => None,
    }
}

fn render(event: &WatchEvent, console: &Console) -> String {
    if console.is_json() {
        return json::line(event);
    }
    let style = console.style;
    let time: String = utc_timestamp(event.at).chars().take(19).collect();
    let paint = match event.change {
        WatchChange::Failed => Paint::Red,
        WatchChange::Recovered => Paint::Green,
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
