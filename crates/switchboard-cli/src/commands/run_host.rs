//! Runs the work of a command with a host: starts the servers, waits for them, shuts the host down.
//!
//! Invariant: the host is shut down before the command returns, even after an error or a signal.
//! Only a signal during the shutdown ends the shutdown early.

use std::convert::Infallible;
use std::time::Duration;

use futures_util::future::join_all;
use switchboard::event::Events;
use switchboard::id::ServerName;
use switchboard::status::ServerPhase;
use switchboard::{Event, Host, HostBuilder, Readiness};

use crate::context::Context;
use crate::failure::{Failure, Kind};
use crate::render::progress::ProgressLine;
use crate::render::{Console, format_count};
use crate::signals::Signals;

/// How often the progress line shows which servers are starting.
const PROGRESS_INTERVAL: Duration = Duration::from_millis(100);

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

/// Waits until every server that starts with the host has connected or failed, and
/// shows which servers are still starting.
pub(super) async fn wait_until_started(host: &Host, console: &Console) {
    let line = ProgressLine::start(console, "");
    let all_ready = host.wait_for(Readiness::Settled);
    if !line.is_shown() {
        return all_ready.await;
    }
    tokio::pin!(all_ready);
    loop {
        line.set_text(&starting_message(&host.phases()));
        tokio::select! {
            biased;
            () = &mut all_ready => return,
            () = tokio::time::sleep(PROGRESS_INTERVAL) => {}
        }
    }
}

fn starting_message(servers: &[(ServerName, ServerPhase)]) -> String {
    // Other pending servers wait for an approval or for their first call.
    let in_phase = |wanted: ServerPhase| {
        let servers = servers.iter().filter(move |(_, phase)| *phase == wanted);
        servers.map(|(name, _)| name.as_str()).collect::<Vec<_>>()
    };
    let (starting, queued) = (
        in_phase(ServerPhase::Starting),
        in_phase(ServerPhase::Queued),
    );
    if starting.is_empty() && queued.is_empty() {
        return String::new();
    }
    let names = starting.join(", ");
    if servers.len() == 1 {
        return format!("starting {names}");
    }
    let done = servers.len() - starting.len() - queued.len();
    let total = format_count(servers.len(), "server");
    let waiting = match queued.len() {
        0 => String::new(),
        count => format!(" · {count} waiting"),
    };
    format!("{done} of {total}{waiting} · starting {names}")
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
    let catalog = host.catalog();
    let is_selected = |(name, phase): &(ServerName, ServerPhase)| {
        let is_listed = || catalog.tools_of(name).next().is_some();
        *phase == ServerPhase::Dormant && (lazy == LazyServers::All || !is_listed())
    };
    let mut selected = host.phases();
    selected.retain(is_selected);
    let _line = (!selected.is_empty()).then(|| ProgressLine::start(console, "starting"));
    // The host records errors in the server's status, which the callers read.
    let starts = selected
        .iter()
        .map(|(name, _)| host.start_server(name.as_str()));
    join_all(starts).await;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn message_names_starting_servers_and_counts_waiting_ones() {
        let server = |name: &str, phase| (ServerName::new(name).unwrap(), phase);
        let mut servers = vec![
            server("a", ServerPhase::Ready),
            server("b", ServerPhase::Starting),
            server("c", ServerPhase::Starting),
        ];
        assert_eq!(starting_message(&servers), "1 of 3 servers · starting b, c");
        servers.push(server("d", ServerPhase::Queued));
        assert_eq!(
            starting_message(&servers),
            "1 of 4 servers · 1 waiting · starting b, c"
        );
        let one = [server("a", ServerPhase::Starting)];
        assert_eq!(starting_message(&one), "starting a");
        assert_eq!(starting_message(&servers[..1]), "");
    }
}
