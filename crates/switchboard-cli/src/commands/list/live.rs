//! `list --watch`: the table again whenever a server or the config changes.
//!
//! The config is followed as an agent's host would follow it: a changed server is started anew, the
//! others go on.

use std::time::Duration;

use switchboard::Host;
use switchboard::status::{ServerDetails, ServerPhase};
use switchboard_config::{Diagnostic, Reading, ServerEntry};
use tokio::sync::watch;

use super::{data, inspect_all, render};
use crate::commands::run_host::run_with_host;
use crate::context::{Context, LoadedServers, stdout_size};
use crate::failure::{Exit, Failure, Kind};
use crate::render::redraw::Redraw;
use crate::render::{Console, StdoutState, json, print};
use crate::signals::Signals;

/// How often a countdown on the console is brought up to date.
const TICK: Duration = Duration::from_secs(1);

pub(super) async fn run(context: &Context, signals: &mut Signals) -> Result<Exit, Failure> {
    let servers = context.load_servers()?;
    let entries = servers.loaded.config.servers.clone();
    // Whoever looks at a table that is drawn over is not there to answer.
    let interaction = context.interaction(&entries, None).without_elicitation();
    let host = context.long_running_host(&servers, entries);
    let host = host.interaction(interaction);
    let watching = async |host: &Host| follow(host, servers, context).await;
    match run_with_host(host, signals, context, watching).await {
        // There is no other way to end it.
        Err(failure) if failure.parts().kind == Kind::Interrupted => Ok(Exit::Ok),
        outcome => outcome.map(|()| Exit::Ok),
    }
}

/// Shows what there is, until nobody looks any more.
async fn follow(host: &Host, mut servers: LoadedServers, context: &Context) -> Result<(), Failure> {
    let (tell, mut latest) = watch::channel(Reading::default());
    let _watcher = context.watch_config(move |reading| drop(tell.send(reading)))?;
    let mut events = host.events();
    let mut view = View::new(&context.console);
    loop {
        let inspected = inspect_all(host, &servers);
        if view.show(&inspected, &servers)? == StdoutState::Closed {
            return Ok(());
        }
        let counts_down = inspected
            .iter()
            .any(|(_, server)| server.phase == ServerPhase::Retrying);
        tokio::select! {
            biased;
            Ok(()) = latest.changed() => {
                let loaded = latest.borrow_and_update().loaded.clone();
                servers = context.with_trust(loaded);
                host.set_rules(context.rules(&servers));
                host.apply(servers.loaded.config.clone(), &servers.trust).await;
            }
            _ = events.next() => {}
            () = tokio::time::sleep(TICK), if counts_down && view.live.is_some() => {}
        }
    }
}

/// What was shown last.
struct View {
    console: Console,
    /// Where it can be drawn over.
    live: Option<Redraw>,
    shown: Option<String>,
    told: Vec<Diagnostic>,
}

impl View {
    fn new(console: &Console) -> Self {
        let is_live = !console.is_json() && console.columns.is_some() && console.shows_progress;
        Self {
            console: console.clone(),
            live: is_live.then(Redraw::default),
            shown: None,
            told: Vec::new(),
        }
    }

    /// Shows the servers, unless they look as they did.
    fn show(
        &mut self,
        inspected: &[(&ServerEntry, ServerDetails)],
        servers: &LoadedServers,
    ) -> Result<StdoutState, Failure> {
        let size = stdout_size();
        self.console.columns = size.map(|(columns, _)| columns);
        let mut frame = if self.console.is_json() {
            json::line(&data(inspected, servers))
        } else {
            render(inspected, servers, &self.console)
        };
        let diagnostics = &servers.loaded.diagnostics;
        match (&mut self.live, size) {
            (Some(live), Some(size)) => {
                for diagnostic in diagnostics {
                    frame = format!("{}\n\n{diagnostic}", frame.trim_end());
                }
                live.draw(&frame, size)
            }
            _ => {
                self.tell(diagnostics);
                if self.shown.as_ref() == Some(&frame) {
                    return Ok(StdoutState::Open);
                }
                let apart = if self.shown.is_none() || self.console.is_json() {
                    ""
                } else {
                    "\n"
                };
                let reader = print(&format!("{apart}{frame}"));
                self.shown = Some(frame);
                reader
            }
        }
    }

    /// Tells what is wrong with the config, once.
    fn tell(&mut self, diagnostics: &[Diagnostic]) {
        let is_new = |diagnostic: &&Diagnostic| !self.told.contains(diagnostic);
        let new: Vec<_> = diagnostics.iter().filter(is_new).cloned().collect();
        self.console.diagnose(&new);
        self.told = diagnostics.to_vec();
    }
}
