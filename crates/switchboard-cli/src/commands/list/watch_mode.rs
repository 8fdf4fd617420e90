//! `list --watch`: prints the table again whenever a server or the config changes.
//!
//! A config change restarts only the servers whose entries changed.

use std::time::Duration;

use futures_util::FutureExt as _;
use switchboard::Host;
use switchboard::event::Events;
use switchboard::status::{ServerDetails, ServerPhase};
use switchboard_config::{ConfigSnapshot, Diagnostic, ServerEntry};
use tokio::sync::watch;
use tokio::time::Instant;

use super::{render, server_details, to_json};
use crate::commands::run_host::run_with_host;
use crate::context::{Context, LoadedServers, stdout_size};
use crate::failure::{Exit, Failure, Kind};
use crate::render::redraw::Redraw;
use crate::render::{Console, StdoutState, json, print};
use crate::signals::Signals;

/// Minimum time between two redraws after events. All events in this time cause one redraw.
const MIN_REDRAW_INTERVAL: Duration = Duration::from_millis(50);
/// The time between two redraws is at least this many times the duration of a redraw, so that a long
/// table takes a limited share of the CPU.
const REDRAW_SHARE: u32 = 8;

/// How often the table is redrawn while it shows the time until a server is retried.
const COUNTDOWN_INTERVAL: Duration = Duration::from_secs(1);

pub(super) async fn run(context: &Context, signals: &mut Signals) -> Result<Exit, Failure> {
    let servers = context.load_servers()?;
    let entries = servers.loaded.config.servers.clone();
    // Elicitation is off: the next redraw of the table would overwrite the form.
    let interaction = context.interaction(&entries, None).without_elicitation();
    let host = context.long_running_host(&servers, entries);
    let host = host.interaction(interaction);
    let watching = async |host: &Host| run_loop(host, servers, context).await;
    match run_with_host(host, signals, context, watching).await {
        // A signal is the normal way to end `--watch`.
        Err(failure) if failure.parts().kind == Kind::Interrupted => Ok(Exit::Ok),
        outcome => outcome.map(|()| Exit::Ok),
    }
}

/// Redraws the table on every change until stdout is closed.
async fn run_loop(
    host: &Host,
    mut servers: LoadedServers,
    context: &Context,
) -> Result<(), Failure> {
    let (sender, mut latest) = watch::channel(ConfigSnapshot::default());
    let _watcher = context.watch_config(move |reading| drop(sender.send(reading)))?;
    let mut events = host.events();
    let mut table = LiveTable::new(&context.console);
    loop {
        let started = Instant::now();
        let details = server_details(host, &servers);
        if table.show(&details, &servers)? == StdoutState::Closed {
            return Ok(());
        }
        let drawing = started.elapsed();
        let has_countdown = details
            .iter()
            .any(|(_, server)| server.phase == ServerPhase::Retrying);
        tokio::select! {
            biased;
            Ok(()) = latest.changed() => {
                let loaded = latest.borrow_and_update().loaded.clone();
                servers = context.with_trust(loaded);
                host.set_rules(context.rules(&servers));
                host.apply_config(servers.loaded.config.clone(), &servers.trust).await;
            }
            _ = events.next() => collect_events(&mut events, drawing).await,
            () = tokio::time::sleep(COUNTDOWN_INTERVAL), if has_countdown && table.redraw.is_some() => {}
        }
    }
}

/// Waits and drops the events that arrive meanwhile. The next redraw shows all of them.
async fn collect_events(events: &mut Events, drawing: Duration) {
    tokio::time::sleep(MIN_REDRAW_INTERVAL.max(drawing * REDRAW_SHARE)).await;
    while events
        .next()
        .now_or_never()
        .is_some_and(|event| event.is_some())
    {}
}

/// Prints the server table, and keeps what it printed last to detect changes.
struct LiveTable {
    console: Console,
    /// Overwrites the previous table. `None` if the output is JSON, or if the terminal cannot be
    /// redrawn. Each table is then printed below the previous one.
    redraw: Option<Redraw>,
    /// The last table that was printed without `redraw`.
    printed: Option<String>,
    /// The config problems that existed at the previous call of `report_new`.
    reported: Vec<Diagnostic>,
}

impl LiveTable {
    fn new(console: &Console) -> Self {
        let can_redraw = !console.is_json() && console.columns.is_some() && console.shows_progress;
        Self {
            console: console.clone(),
            redraw: can_redraw.then(Redraw::default),
            printed: None,
            reported: Vec::new(),
        }
    }

    /// Redraws the table on a terminal. Elsewhere prints the table only if it changed.
    fn show(
        &mut self,
        details: &[(&ServerEntry, ServerDetails)],
        servers: &LoadedServers,
    ) -> Result<StdoutState, Failure> {
        let size = stdout_size();
        self.console.columns = size.map(|(columns, _)| columns);
        let mut frame = if self.console.is_json() {
            json::line(&to_json(details, servers))
        } else {
            render(details, servers, &self.console)
        };
        let diagnostics = &servers.loaded.diagnostics;
        match (&mut self.redraw, size) {
            (Some(redraw), Some(size)) => {
                for diagnostic in diagnostics {
                    frame = format!("{}\n\n{diagnostic}", frame.trim_end());
                }
                redraw.draw(&frame, size)
            }
            _ => {
                self.report_new(diagnostics);
                if self.printed.as_ref() == Some(&frame) {
                    return Ok(StdoutState::Open);
                }
                let gap = if self.printed.is_none() || self.console.is_json() {
                    ""
                } else {
                    "\n"
                };
                let stdout = print(&format!("{gap}{frame}"));
                self.printed = Some(frame);
                stdout
            }
        }
    }

    /// Prints the config problems that did not exist at the previous call.
    fn report_new(&mut self, diagnostics: &[Diagnostic]) {
        let is_new = |diagnostic: &&Diagnostic| !self.reported.contains(diagnostic);
        let new: Vec<_> = diagnostics.iter().filter(is_new).cloned().collect();
        self.console.diagnose(&new);
        self.reported = diagnostics.to_vec();
    }
}
