//! `logs NAME`: starts a server and prints its stderr and its log messages.
//!
//! Nothing is kept between runs: a server of this program runs only while a command runs. Invariant:
//! every line of the output starts with `│`, because all of it is text of the server.

use std::time::Duration;

use serde::Serialize;
use switchboard::event::Events;
use switchboard::mcp::{Json, LogLevel};
use switchboard::status::ConnectionStatus;
use switchboard::{Event, Host};

use super::find::{find_server, require_launchable, server_named, unavailable_error};
use super::run_host::{run_with_host, wait_until_started};
use crate::args::LogsArgs;
use crate::context::Context;
use crate::failure::{Exit, Failure, Kind};
use crate::render::server_text::{quote, short_field};
use crate::render::{Console, json};
use crate::signals::Signals;

/// The interval at which new stderr output is printed.
const STDERR_INTERVAL: Duration = Duration::from_millis(100);

/// How long to wait for output after the server is ready.
const FIRST_MESSAGES: Duration = Duration::from_millis(500);

/// Maximum columns of a log message.
const MAX_MESSAGE_COLUMNS: usize = 4_000;

/// A line of `logs --json`.
#[derive(Serialize)]
#[serde(tag = "stream", rename_all = "camelCase")]
enum LogLine<'a> {
    Stderr {
        text: &'a str,
    },
    Log {
        level: &'a str,
        #[serde(skip_serializing_if = "Option::is_none")]
        logger: Option<&'a str>,
        #[serde(skip_serializing_if = "Option::is_none")]
        data: Option<&'a Json>,
    },
}

pub(crate) async fn run(
    args: &LogsArgs,
    context: &Context,
    signals: &mut Signals,
) -> Result<Exit, Failure> {
    let servers = context.load_servers()?;
    let console = &context.console;
    let entry = find_server(&servers, console, |servers| {
        server_named(servers, &args.name)
    })?;
    require_launchable(entry, &servers, context)?;
    let entries = vec![entry.clone()];
    let host = if args.follow {
        context.long_running_host(&servers, entries)
    } else {
        context.one_shot_host(&servers, entries)
    };
    let host = host.server_log_level(LogLevel::Debug);
    let outcome = run_with_host(host, signals, context, async |host| {
        let name = entry.name().as_str();
        let mut log = ServerLog {
            host,
            server: name,
            events: host.events(),
            stderr_position: 0,
            generation: 0,
            console,
        };
        let started = async {
            wait_until_started(host, console).await;
            // The host records the error in the server's status, which is read below.
            let _ = host.start_server(name).await;
        };
        log.print_until(started).await?;
        // Servers send their first log messages when they learn the log level, which is after the
        // handshake.
        log.print_until(tokio::time::sleep(FIRST_MESSAGES)).await?;
        let status = host
            .server_status(name)
            .map_err(|error| Failure::internal(error.to_string()))?;
        if status.status != ConnectionStatus::Connected {
            return Err(unavailable_error(&status));
        }
        if args.follow {
            console.note(&format!("following server {name}; press Ctrl-C to stop"));
            log.print_until(std::future::pending()).await?;
        }
        Ok(Exit::Ok)
    })
    .await;
    match outcome {
        Err(failure) if failure.parts().kind == Kind::Interrupted && args.follow => Ok(Exit::Ok),
        outcome => outcome.map_err(Failure::with_json_line),
    }
}

/// The output of one server, and how much of it was printed.
struct ServerLog<'a> {
    host: &'a Host,
    server: &'a str,
    events: Events,
    stderr_position: u64,
    /// The session whose stderr was printed last.
    generation: u64,
    console: &'a Console,
}

impl ServerLog<'_> {
    /// Prints the output of the server until `end` is ready.
    async fn print_until(&mut self, end: impl Future<Output = ()>) -> Result<(), Failure> {
        tokio::pin!(end);
        let mut interval = tokio::time::interval(STDERR_INTERVAL);
        loop {
            tokio::select! {
                biased;
                event = self.events.next() => match event {
                    Some(event) => self.print_event(&event)?,
                    None => return Ok(()),
                },
                () = &mut end => return self.print_stderr(),
                _ = interval.tick() => self.print_stderr()?,
            }
        }
    }

    fn print_stderr(&mut self) -> Result<(), Failure> {
        let details = self.host.server_details(self.server);
        let generation = details
            .map(|server| server.generation.0)
            .unwrap_or_default();
        if generation != self.generation {
            // Each session has its own process, whose output starts at 0.
            self.generation = generation;
            self.stderr_position = 0;
        }
        let output = self.host.server_stderr(self.server, self.stderr_position);
        let Ok(Some(output)) = output else {
            return Ok(());
        };
        self.stderr_position = output.end;
        if output.skipped > 0 {
            let skipped = output.skipped;
            self.console
                .note(&format!("{skipped} bytes of stderr were not kept"));
        }
        for line in output.text.lines() {
            let shown = LogLine::Stderr { text: line };
            self.print_line(&shown, line)?;
        }
        Ok(())
    }

    fn print_event(&self, event: &Event) -> Result<(), Failure> {
        match event {
            Event::ServerLogged {
                level,
                logger,
                data,
                ..
            } => {
                let logger = logger.as_deref();
                let shown = LogLine::Log {
                    level,
                    logger,
                    data: data.as_ref(),
                };
                let name = logger.map(|logger| format!(" {logger}"));
                let data = data.as_ref().map_or("", Json::as_str);
                let text = format!("[{level}{}] {data}", name.unwrap_or_default());
                self.print_line(&shown, &short_field(&text, MAX_MESSAGE_COLUMNS))
            }
            Event::LogSkipped { count, .. } => {
                self.console.note(&format!("{count} log messages skipped"));
                Ok(())
            }
            _ => Ok(()),
        }
    }

    fn print_line(&self, line: &LogLine<'_>, text: &str) -> Result<(), Failure> {
        if self.console.is_json() {
            self.console.print(&json::line(line))
        } else {
            self.console.print(&quote(text, self.console.columns))
        }
    }
}
