//! One file per command, and what they have in common: finding servers, starting them, ending them.
//!
//! Invariant: whatever comes of a command, its host is shut down before the program ends.

pub(crate) mod add;
pub(crate) mod call;
pub(crate) mod demo;
pub(crate) mod demo_server;
pub(crate) mod describe;
pub(crate) mod doctor;
pub(crate) mod get;
pub(crate) mod import;
pub(crate) mod list;
mod offers;
pub(crate) mod page;
pub(crate) mod policy;
pub(crate) mod prompt;
pub(crate) mod prompts;
pub(crate) mod read;
pub(crate) mod remove;
pub(crate) mod resources;
mod scopes;
pub(crate) mod switch;
pub(crate) mod tools;
pub(crate) mod trust;
pub(crate) mod watch;
pub(crate) mod why;

use std::convert::Infallible;
use std::sync::Arc;

use futures_util::future::join_all;
use switchboard::{
    CatalogTool, ConnectionStatus, Event, Events, Host, HostBuilder, Readiness, ServerStatus,
    naming,
};
use switchboard_config::{Admission, ServerEntry, Waiting, nearest};

use crate::args::Invocation;
use crate::context::{Context, LoadedServers};
use crate::failure::{Exit, Failure, Kind};
use crate::render::progress::ProgressLine;
use crate::render::text::shell_word;
use crate::render::{Console, count};
use crate::signals::Signals;

pub(crate) async fn run(
    task: Invocation,
    context: &Context,
    signals: &mut Signals,
) -> Result<Exit, Failure> {
    match task {
        Invocation::List(args) => list::run(&args, context, signals).await,
        Invocation::Get(args) => get::run(&args, context, signals).await,
        Invocation::Trust(args) => trust::run(&args, context, signals).await,
        Invocation::Tools(args) => tools::run(&args, context, signals).await,
        Invocation::Describe(args) => describe::run(&args, context, signals).await,
        Invocation::Call(args) => call::run(args, context, signals).await,
        Invocation::Resources(args) => resources::run(&args, context, signals).await,
        Invocation::Read(args) => read::run(&args, context, signals).await,
        Invocation::Prompts(args) => prompts::run(&args, context, signals).await,
        Invocation::Prompt(args) => prompt::run(&args, context, signals).await,
        Invocation::Watch(args) => watch::run(&args, context, signals).await,
        Invocation::Doctor(args) => doctor::run(&args, context, signals).await,
        Invocation::Why(args) => why::run(&args, context, signals).await,
        Invocation::Add(args) => add::run(&args, context, signals).await,
        Invocation::AddJson(args) => add::run_json(&args, context, signals).await,
        Invocation::Remove(args) => remove::run(&args, context),
        Invocation::Enable(args) => switch::enable(&args, context),
        Invocation::Disable(args) => switch::disable(&args, context),
        Invocation::PolicyTest(args) => policy::test(args, context, signals).await,
        Invocation::Import(args) => import::run(&args, context, signals).await,
        Invocation::Demo => demo::run(context, signals).await,
        Invocation::DemoServer => Ok(Exit::Ok),
        Invocation::StaticOutput(page) => page::run(&page, &context.console),
    }
}

/// Works with a host and ends it, whatever comes of the work. A signal ends the work; a further one
/// ends the host at once.
async fn on_host<T>(
    builder: HostBuilder,
    signals: &mut Signals,
    context: &Context,
    work: impl AsyncFnOnce(&Host) -> Result<T, Failure>,
) -> Result<T, Failure> {
    let host = builder.start()?;
    let work = async {
        tokio::select! {
            biased;
            outcome = work(&host) => outcome,
            never = tell_of_limits(host.events(), &context.console) => match never {},
        }
    };
    let outcome = signals.until_signal(work).await;
    let was_interrupted =
        matches!(&outcome, Err(failure) if failure.parts().kind == Kind::Interrupted);
    let _line = was_interrupted.then(|| {
        let text = "ending the servers; Ctrl-C ends them at once";
        ProgressLine::start(&context.console, text)
    });
    tokio::select! {
        biased;
        () = signals.next() => {}
        () = host.shutdown() => context.on_hosts_shut_down(),
    }
    outcome
}

/// Says which servers ask more often than anybody is asked.
async fn tell_of_limits(mut events: Events, console: &Console) -> Infallible {
    while let Some(event) = events.next().await {
        if let Event::RequestsLimited {
            server, per_minute, ..
        } = event
        {
            console.note(&format!(
                "server {server} asks more than {per_minute} times a minute: what it asks beyond that is \
                 closed without asking you (limit `questionsPerMinute`)"
            ));
        }
    }
    std::future::pending().await
}

/// Waits until no server is starting any more, and says meanwhile which ones are.
async fn settle(host: &Host, console: &Console) {
    let mut events = host.events();
    let line = ProgressLine::start(console, "");
    let settled = host.wait_for(Readiness::All);
    tokio::pin!(settled);
    loop {
        line.set_text(&waiting_for(host));
        tokio::select! {
            biased;
            () = &mut settled => return,
            _ = events.next() => {}
        }
    }
}

fn waiting_for(host: &Host) -> String {
    let servers = host.status();
    // Others are pending for want of an approval or a call, and nobody waits for them.
    let is_starting = |name: &&str| {
        host.inspect(name)
            .is_ok_and(|server| server.phase == "starting")
    };
    let names = servers.iter().map(|server| server.name.as_str());
    let pending: Vec<_> = names.filter(is_starting).collect();
    if pending.is_empty() {
        return String::new();
    }
    let names = pending.join(", ");
    match servers.len() {
        1 => format!("starting {names}"),
        all => format!(
            "{} of {} · starting {names}",
            all - pending.len(),
            count(all, "server")
        ),
    }
}

/// As [`settle`], and servers that wait for their first call are started too if nobody knows what
/// they offer.
async fn settle_tools(host: &Host, console: &Console) {
    settle(host, console).await;
    let servers = host.status();
    let is_unknown = |server: &&ServerStatus| {
        let inspected = host.inspect(server.name.as_str());
        server.tools.is_empty() && inspected.is_ok_and(|server| server.phase == "dormant")
    };
    let unknown: Vec<_> = servers.iter().filter(is_unknown).collect();
    let _line = (!unknown.is_empty()).then(|| ProgressLine::start(console, "starting"));
    // What comes of it is in the status.
    join_all(unknown.iter().map(|server| host.wake(server.name.as_str()))).await;
}

/// As [`settle`], and every server that waits for its first call is started too.
async fn settle_all(host: &Host, console: &Console) {
    settle(host, console).await;
    let servers = host.status();
    let is_dormant = |server: &&ServerStatus| {
        let inspected = host.inspect(server.name.as_str());
        inspected.is_ok_and(|server| server.phase == "dormant")
    };
    let dormant: Vec<_> = servers.iter().filter(is_dormant).collect();
    let _line = (!dormant.is_empty()).then(|| ProgressLine::start(console, "starting"));
    // What comes of it is in the status.
    join_all(dormant.iter().map(|server| host.wake(server.name.as_str()))).await;
}

/// The server with this name.
fn server_named<'a>(servers: &'a LoadedServers, name: &str) -> Result<&'a ServerEntry, Failure> {
    let config = &servers.loaded.config;
    config.server(name).ok_or_else(|| {
        let names: Vec<_> = config
            .servers
            .iter()
            .map(|entry| entry.name().as_str())
            .collect();
        let failure = Failure::new(Kind::UnknownServer, format!("there is no server {name:?}"));
        match (nearest(name, &names), names.is_empty()) {
            (Some(nearest), _) => failure.hint(format!("did you mean {nearest}?")),
            (None, false) => failure.hint("switchboard list shows which there are"),
            (None, true) => failure.hint("no servers are configured"),
        }
    })
}

/// The server that a tool's name can only belong to.
fn server_of_tool<'a>(servers: &'a LoadedServers, tool: &str) -> Result<&'a ServerEntry, Failure> {
    let entries = &servers.loaded.config.servers;
    let Some((part, rest)) = naming::split_wire_name(tool) else {
        let message =
            format!("{tool:?} is not the name of a tool: they look like mcp__server__tool");
        return Err(Failure::new(Kind::UnknownTool, message).hint(format!(
            "switchboard tools {}",
            crate::render::text::shell_word(tool)
        )));
    };
    let found = entries
        .iter()
        .find(|entry| naming::server_part(entry.name()) == part);
    found.ok_or_else(|| {
        let parts: Vec<_> = entries
            .iter()
            .map(|entry| naming::server_part(entry.name()))
            .collect();
        let parts: Vec<_> = parts.iter().map(String::as_str).collect();
        let failure = Failure::new(
            Kind::UnknownServer,
            format!("there is no tool {tool}: no server is called {part:?}"),
        );
        // The raw name of a server, or its spelling without what tells it from others.
        let is_meant = |(entry, spelled): &(&ServerEntry, &&str)| {
            entry.name().as_str() == part || spelled.rsplit_once('_').is_some_and(|it| it.0 == part)
        };
        let meant = entries.iter().zip(&parts).find(is_meant);
        let meant = meant.map(|(_, spelled)| *spelled);
        match meant.or_else(|| nearest(part, &parts)) {
            Some(nearest) => failure.hint(format!("did you mean mcp__{nearest}__{rest}?")),
            None => failure.hint("switchboard tools shows which there are"),
        }
    })
}

/// Finds the one server that a command is about, and tells what is wrong with it.
fn choose<'a>(
    servers: &'a LoadedServers,
    console: &Console,
    find: impl FnOnce(&'a LoadedServers) -> Result<&'a ServerEntry, Failure>,
) -> Result<&'a ServerEntry, Failure> {
    let found = find(servers);
    match &found {
        Ok(entry) => servers.diagnose_one(entry, console),
        // The reason may be any of them.
        Err(_) => servers.diagnose(console),
    }
    found
}

/// Checks that a server may be started at all.
fn check_usable(
    entry: &ServerEntry,
    servers: &LoadedServers,
    context: &Context,
) -> Result<(), Failure> {
    check_enabled(entry)?;
    let name = entry.name();
    match entry.admit(&servers.trust) {
        Admission::Invalid(problem) => Err(Failure::new(
            Kind::Config,
            format!(
                "server {name} cannot be used: {} ({})",
                problem.message,
                entry.origin()
            ),
        )
        .maybe_hint(problem.hint)),
        Admission::AwaitingApproval { waiting, hint } => {
            let what = match waiting {
                Waiting::New => "is not approved",
                Waiting::Changed => "has changed since you were asked about it",
            };
            Err(Failure::new(
                Kind::Untrusted,
                format!("server {name} comes with the project and {what}; it was not started"),
            )
            .hint(format!(
                "{hint}\nfor this run only: {}",
                context.rerun_with("--trust-project")
            )))
        }
        Admission::Refused(refusal) => Err(Failure::new(
            Kind::Untrusted,
            format!("server {name} was not started: {refusal}"),
        )
        .hint(refusal.hint())),
        Admission::Launch(_) => Ok(()),
    }
}

/// A server that somebody switched off is neither started nor asked about.
fn check_enabled(entry: &ServerEntry) -> Result<(), Failure> {
    let name = entry.name();
    let off = |message| Err(Failure::new(Kind::Unavailable, message));
    match entry.switched_off() {
        Some(origin) => {
            let enable = format!("switchboard enable {}", shell_word(name.as_str()));
            let failure = off(format!("server {name} is switched off ({origin})"));
            failure.map_err(|failure| failure.hint(enable))
        }
        None if entry.is_disabled() => off(format!(
            "server {name} is switched off in its entry ({})",
            entry.origin()
        )),
        None => Ok(()),
    }
}

/// The tool of this name, once its server has settled. A server that was not started is known by what
/// it listed the last time: what is not there is looked for with the server itself.
async fn find_tool(
    host: &Host,
    entry: &ServerEntry,
    name: &str,
) -> Result<Arc<CatalogTool>, Failure> {
    if host.catalog().find(name).is_none() {
        // What comes of it is in the status; any other server is left as it is.
        let _ = host.wake(entry.name().as_str()).await;
    }
    let catalog = host.catalog();
    if let Some(tool) = catalog.find(name) {
        return Ok(Arc::clone(tool));
    }
    let status = host
        .server_status(entry.name().as_str())
        .map_err(|error| Failure::internal(error.to_string()))?;
    if status.status != ConnectionStatus::Connected || status.error.is_some() {
        return Err(unavailable(&status));
    }
    let names: Vec<_> = catalog
        .tools()
        .iter()
        .map(|tool| tool.wire_name.as_str())
        .collect();
    let failure = Failure::new(Kind::UnknownTool, format!("there is no tool {name}"));
    Err(match nearest(name, &names) {
        Some(nearest) => failure.hint(format!("did you mean {nearest}?")),
        None => failure.hint(format!(
            "switchboard tools mcp__{}__ shows which there are",
            naming::server_part(entry.name())
        )),
    })
}

/// Why a server is of no use right now.
fn unavailable(status: &ServerStatus) -> Failure {
    let kind = match status.status {
        ConnectionStatus::NeedsAuth => Kind::LoginNeeded,
        _ => Kind::Unavailable,
    };
    let state = match status.status {
        ConnectionStatus::Failed => " failed".to_owned(),
        ConnectionStatus::Connected => String::new(),
        other => format!(" is {other}"),
    };
    let reason = status.error.as_ref().map(|error| format!(": {error}"));
    let message = format!(
        "server {}{state}{}",
        status.name,
        reason.unwrap_or_default()
    );
    Failure::new(kind, message).maybe_hint(status.detail.clone())
}
