//! Reads secret values from stdin, or from a terminal without echo, so that they stay out of the
//! shell's history.
//!
//! Invariant: terminal echo is restored even after an error or a signal.

use std::io::{self, BufRead as _, IsTerminal as _, Read as _, Write as _};

use rustix::termios::{LocalModes, OptionalActions, Termios, tcgetattr, tcsetattr};

use crate::failure::Failure;
use crate::signals::Signals;
use crate::terminal::{disable_stop_keys, with_modes_kept};

/// Maximum number of bytes read from stdin. Secrets are much shorter; the limit stops a large file
/// that was redirected by mistake.
const MAX_BYTES: u64 = 1024 * 1024;

/// Reads one value for each name, in the order of `names`.
pub(crate) async fn read_values(
    names: &[&str],
    signals: &mut Signals,
) -> Result<Vec<String>, Failure> {
    let names: Vec<_> = names.iter().map(|name| (*name).to_owned()).collect();
    if names.is_empty() {
        return Ok(Vec::new());
    }
    let echo_off = io::stdin().is_terminal().then(EchoOff::begin).transpose()?;
    let is_terminal = echo_off.is_some();
    let read = async {
        // Reading blocks, so it runs on a blocking thread. A signal abandons that thread.
        let read = tokio::task::spawn_blocking(move || {
            if is_terminal {
                ask_for_values(&names)
            } else {
                read_lines(&names)
            }
        });
        read.await
            .map_err(|error| Failure::internal(error.to_string()))?
    };
    let turn_echo_off = || {
        if let Some(echo_off) = &echo_off {
            echo_off.apply();
        }
    };
    let values = with_modes_kept(turn_echo_off, signals.until_signal(read)).await;
    drop(echo_off);
    values
}

/// Reads stdin to the end, but at most [`MAX_BYTES`].
pub(crate) async fn read_all(signals: &mut Signals) -> Result<String, Failure> {
    let read = tokio::task::spawn_blocking(|| {
        let mut text = String::new();
        io::stdin()
            .lock()
            .take(MAX_BYTES)
            .read_to_string(&mut text)?;
        Ok(text)
    });
    let read = async {
        read.await
            .map_err(|error| Failure::internal(error.to_string()))?
    };
    signals.until_signal(read).await
}

/// Keeps terminal echo off until this value is dropped.
struct EchoOff {
    before: Termios,
    silent: Termios,
}

impl EchoOff {
    fn begin() -> Result<Self, Failure> {
        let failed = |error| Failure::internal(format!("cannot turn off terminal echo: {error}"));
        let before = tcgetattr(io::stdin()).map_err(failed)?;
        let mut silent = before.clone();
        silent.local_modes.remove(LocalModes::ECHO);
        silent.local_modes.insert(LocalModes::ECHONL);
        disable_stop_keys(&mut silent);
        tcsetattr(io::stdin(), OptionalActions::Flush, &silent).map_err(failed)?;
        Ok(Self { before, silent })
    }

    /// Turns echo off again.
    fn apply(&self) {
        // Ignore: the terminal is gone, so there is no echo.
        let _ = tcsetattr(io::stdin(), OptionalActions::Now, &self.silent);
    }
}

impl Drop for EchoOff {
    fn drop(&mut self) {
        // Nothing can be done if restoring the terminal fails.
        let _ = tcsetattr(io::stdin(), OptionalActions::Now, &self.before);
    }
}

fn ask_for_values(names: &[String]) -> Result<Vec<String>, Failure> {
    let ask = |name: &String| {
        write!(io::stderr(), "{name} (not shown): ")?;
        let mut line = String::new();
        io::stdin().lock().take(MAX_BYTES).read_line(&mut line)?;
        require_value(name, Some(&line))
    };
    names.iter().map(ask).collect()
}

fn read_lines(names: &[String]) -> Result<Vec<String>, Failure> {
    let mut text = String::new();
    io::stdin()
        .lock()
        .take(MAX_BYTES)
        .read_to_string(&mut text)?;
    let mut lines = text.lines();
    let values = names.iter().map(|name| require_value(name, lines.next()));
    let values = values.collect::<Result<Vec<_>, _>>()?;
    if lines.any(|line| !line.trim().is_empty()) {
        let message = format!(
            "too many lines on stdin (expected one each for {})",
            names.join(", ")
        );
        return Err(Failure::usage(message).hint("pass one line per name, in the same order"));
    }
    Ok(values)
}

fn require_value(name: &str, line: Option<&str>) -> Result<String, Failure> {
    let value = line.map(|line| line.trim_end_matches(['\n', '\r']));
    match value.filter(|value| !value.is_empty()) {
        Some(value) => Ok(value.to_owned()),
        None => Err(Failure::usage(format!("no value for {name} on stdin"))
            .hint("pass one line per name, in the same order")),
    }
}
