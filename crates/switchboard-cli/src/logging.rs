//! `-v` and `--log-file`: what the engine notes on its way, for those who want to know.

use std::io::IsTerminal as _;
use std::path::Path;
use std::sync::Mutex;

use tracing_subscriber::filter::LevelFilter;
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::util::SubscriberInitExt as _;
use tracing_subscriber::{Layer, fmt};

use crate::failure::Failure;
use crate::render::Screen;
use crate::render::style::Style;
use crate::trace::create_private;

/// Begins to log. `verbosity` is how often `-v` was given.
pub(crate) fn start(verbosity: u8, file: Option<&Path>, screen: &Screen) -> Result<(), Failure> {
    let on_stderr = match verbosity {
        0 => LevelFilter::OFF,
        1 => LevelFilter::INFO,
        2 => LevelFilter::DEBUG,
        _ => LevelFilter::TRACE,
    };
    // Nobody wants to know: then nothing is set up, which is a part of every start.
    if on_stderr == LevelFilter::OFF && file.is_none() {
        return Ok(());
    }
    let floor = screen.floor.clone();
    let stderr = fmt::layer()
        .with_writer(move || floor.aside())
        .with_ansi(screen.side_style == Style::Coloured && std::io::stderr().is_terminal())
        .with_target(false)
        .without_time()
        .with_filter(on_stderr);
    let file = file.map(create_private).transpose()?.map(|file| {
        let level = on_stderr.max(LevelFilter::DEBUG);
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
