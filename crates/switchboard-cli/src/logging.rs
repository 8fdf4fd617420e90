//! Sets up `-v` and `--log-file`.
//!
//! Invariant: without either option no subscriber is installed, and log output never interrupts a
//! question on the terminal.

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

/// A log file contains at least the messages of this level.
const FILE_LEVEL: LevelFilter = LevelFilter::DEBUG;

/// The MCP log level to request from servers: the more verbose one of the levels of stderr and log
/// file. `None` if nothing is logged.
pub(crate) fn server_log_level(verbosity: u8, file: Option<&Path>) -> Option<LogLevel> {
    let level = match file {
        Some(_) => stderr_level(verbosity).max(FILE_LEVEL),
        None => stderr_level(verbosity),
    };
    match level {
        LevelFilter::OFF => None,
        LevelFilter::INFO => Some(LogLevel::Info),
        _ => Some(LogLevel::Debug),
    }
}

fn stderr_level(verbosity: u8) -> LevelFilter {
    match verbosity {
        0 => LevelFilter::OFF,
        1 => LevelFilter::INFO,
        2 => LevelFilter::DEBUG,
        _ => LevelFilter::TRACE,
    }
}

/// Starts logging. `verbosity` is the number of `-v` flags.
pub(crate) fn start(verbosity: u8, file: Option<&Path>, console: &Console) -> Result<(), Failure> {
    let stderr_level = stderr_level(verbosity);
    // Without `-v` and `--log-file`, skip the setup: it would slow down the start of every command.
    if stderr_level == LevelFilter::OFF && file.is_none() {
        return Ok(());
    }
    let terminal = console.terminal.clone();
    let stderr = fmt::layer()
        .with_writer(move || terminal.stderr())
        .with_ansi(console.stderr_style == Style::Coloured && std::io::stderr().is_terminal())
        .with_target(false)
        .without_time()
        .with_filter(stderr_level);
    let file = file.map(create_private).transpose()?.map(|file| {
        let level = stderr_level.max(FILE_LEVEL);
        fmt::layer()
            .with_writer(Mutex::new(file))
            .with_ansi(false)
            .with_filter(level)
    });
    let started = tracing_subscriber::registry()
        .with(stderr)
        .with(file)
        .try_init();
    started.map_err(|error| Failure::internal(format!("cannot start logging: {error}")))
}
