//! `-v` and `--log-file`: what the engine notes on its way, for those who want to know.

use std::io::IsTerminal as _;
use std::path::Path;
use std::sync::Mutex;

use switchboard::mcp::LogLevel;
use tracing_subscriber::filter::LevelFilter;
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::util::SubscriberInitExt as _;
use tracing_subscriber::{Layer, fmt};

use crate::failure::Failure;
use crate::private_file::create_private;
use crate::render::Console;
use crate::render::style::Style;

/// A file has at least this.
const FILE_LEVEL: LevelFilter = LevelFilter::DEBUG;

/// What servers are asked to log: as much of it as anybody is going to see.
pub(crate) fn server_log_level(verbosity: u8, file: Option<&Path>) -> Option<LogLevel> {
    let seen = match file {
        Some(_) => on_stderr(verbosity).max(FILE_LEVEL),
        None => on_stderr(verbosity),
    };
    match seen {
        LevelFilter::OFF => None,
        LevelFilter::INFO => Some(LogLevel::Info),
        _ => Some(LogLevel::Debug),
    }
}

fn on_stderr(verbosity: u8) -> LevelFilter {
    match verbosity {
        0 => LevelFilter::OFF,
        1 => LevelFilter::INFO,
        2 => LevelFilter::DEBUG,
        _ => LevelFilter::TRACE,
    }
}

/// Begins to log. `verbosity` is how often `-v` was given.
pub(crate) fn start(verbosity: u8, file: Option<&Path>, console: &Console) -> Result<(), Failure> {
    let on_stderr = on_stderr(verbosity);
    // Nobody wants to know: then nothing is set up, which is a part of every start.
    if on_stderr == LevelFilter::OFF && file.is_none() {
        return Ok(());
    }
    let terminal = console.terminal.clone();
    let stderr = fmt::layer()
        .with_writer(move || terminal.stderr())
        .with_ansi(console.stderr_style == Style::Coloured && std::io::stderr().is_terminal())
        .with_target(false)
        .without_time()
        .with_filter(on_stderr);
    let file = file.map(create_private).transpose()?.map(|file| {
        let level = on_stderr.max(FILE_LEVEL);
        fmt::layer()
            .with_writer(Mutex::new(file))
            .with_ansi(false)
            .with_filter(level)
    });
    let started = tracing_subscriber::registry()
        .with(stderr)
        .with(file)
        .try_init();
    started.map_err(|error| Failure::internal(format!("cannot log: {error}")))
}
