//! Runs the work of a command with a host: starts the servers, waits for them, shuts the host down.
//!
//! Invariant: the host is shut down before the command returns, even after an error or a signal.
//! Only a signal during the shutdown ends the shutdown early.

use std::convert::Infallible;

use futures_util::future::join_all;
use switchboard::event::Events;
use switchboard::status::{ServerPhase, ServerStatus};
use switchboard::{Event, Host, HostBuilder, Readiness};

use crate::context::Context;
use crate::failure::{Failure, Kind};
use crate::render::progress::ProgressLine;
use crate::render::{Console, format_count};
use crate::signals::Signals;

/// Starts a host, runs `work` with it and shuts the host down. A signal cancels `work`. A signal
/// during the graceful shutdown ends the shutdown early; servers that still run are killed when the
/// process exits.
pub(super) async fn run_with_host<T>(
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
            never = report_rate_limits(host.events(), &context.console) => match never {},
        }
    };
    let outcome = signals.until_signal(work).await;
    let was_interrupted =
        matches!(&outcome, Err(failure) if failure.parts().kind == Kind::Interrupted);
    let _line = was_interrupted.then(|| {
        let text = "shutting down servers (Ctrl-C again to kill them)";
        ProgressLine::start(&context.console, text)
    });
    tokio::select! {
        biased;
        () = signals.next() => {}
        () = host.shutdown() => context.on_hosts_shut_down(),
    }
    outcome
}

/// Prints a message for each server that sends more questions (elicitations and the like) per
/// minute than the limit `questionsPerMinute`. Never returns.
async fn report_rate_limits(mut events: Events, console: &Console) -> Infallible {
    while let Some(event) = events.next().await {
        if let Event::RequestsLimited {
            server, per_minute, ..
        } = event
        {
            console.note(&format!(
                "server {server} exceeds {per_minute} questions per minute; further questions are \
                 cancelled without asking you (limit `questionsPerMinute`)"
            ));
        }
    }
    std::future::pending().await
}

/// Waits until every server that starts with the host has connected or failed. Meanwhile shows
/// which servers are still starting.
pub(super) async fn wait_until_started(host: &Host, console: &Console) {
    let mut events = host.events();
    let line = ProgressLine::start(console, "");
    let all_ready = host.wait_for(Readiness::All);
    tokio::pin!(all_ready);
    loop {
        line.set_text(&starting_message(host));
        tokio::select! {
            biased;
            () = &mut all_ready => return,
            _ = events.next() => {}
        }
    }
}

fn starting_message(host: &Host) -> String {
    let servers = host.status();
    // Other pending servers wait for an approval or for their first call.
    let is_starting = |name: &&str| {
        host.server_details(name)
            .is_ok_and(|server| server.phase == ServerPhase::Starting)
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
            format_count(all, "server")
        ),
    }
}

/// Which lazy servers [`start_servers`] starts. A lazy server normally starts at its first call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LazyServers {
    /// Servers without a cached tool listing.
    Unlisted,
    All,
}

/// Waits as [`wait_until_started`] does, then starts lazy servers and waits for them too.
pub(super) async fn start_servers(host: &Host, console: &Console, lazy: LazyServers) {
    wait_until_started(host, console).await;
    let servers = host.status();
    let is_dormant = |server: &ServerStatus| {
        let details = host.server_details(server.name.as_str());
        details.is_ok_and(|server| server.phase == ServerPhase::Dormant)
    };
    let is_selected = |server: &&ServerStatus| {
        (lazy == LazyServers::All || server.tools.is_empty()) && is_dormant(server)
    };
    let selected: Vec<_> = servers.iter().filter(is_selected).collect();
    let _line = (!selected.is_empty()).then(|| ProgressLine::start(console, "starting"));
    // The host records errors in the server's status, which the callers read.
    join_all(
        selected
            .iter()
            .map(|server| host.start_server(server.name.as_str())),
    )
    .await;
}
