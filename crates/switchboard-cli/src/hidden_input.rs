//! Values that do not belong into a shell's history: lines of stdin, or typed without being seen.
//!
//! Invariant: whatever comes of it, the terminal shows again what is typed.

use std::io::{self, BufRead as _, IsTerminal as _, Read as _, Write as _};

use rustix::termios::{LocalModes, OptionalActions, Termios, tcgetattr, tcsetattr};

use crate::failure::Failure;
use crate::signals::Signals;
use crate::terminal::disable_stop_keys;

/// More than any value, and little enough to be read by mistake.
const MAX_BYTES: u64 = 1024 * 1024;

/// One value for each name, in their order.
pub(crate) async fn read_values(
    names: &[&str],
    signals: &mut Signals,
) -> Result<Vec<String>, Failure> {
    let names: Vec<_> = names.iter().map(|name| (*name).to_owned()).collect();
    if names.is_empty() {
        return Ok(Vec::new());
    }
    let hidden = io::stdin().is_terminal().then(EchoOff::begin).transpose()?;
    let asks = hidden.is_some();
    let read = async {
        // Reading blocks; a thread may, and is left behind if somebody interrupts.
        let read = tokio::task::spawn_blocking(move || {
            if asks {
                ask_for(&names)
            } else {
                read_lines(&names)
            }
        });
        read.await
            .map_err(|error| Failure::internal(error.to_string()))?
    };
    let values = signals.until_signal(read).await;
    drop(hidden);
    values
}

/// The whole of stdin.
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

/// Lines of stdin as long as the terminal hides them.
struct EchoOff {
    before: Termios,
}

impl EchoOff {
    fn begin() -> Result<Self, Failure> {
        let failed = |error| Failure::internal(format!("cannot hide what is typed: {error}"));
        let before = tcgetattr(io::stdin()).map_err(failed)?;
        let mut hiding = before.clone();
        hiding.local_modes.remove(LocalModes::ECHO);
        hiding.local_modes.insert(LocalModes::ECHONL);
        disable_stop_keys(&mut hiding);
        tcsetattr(io::stdin(), OptionalActions::Flush, &hiding).map_err(failed)?;
        Ok(Self { before })
    }
}

impl Drop for EchoOff {
    fn drop(&mut self) {
        // There is nobody to tell who could do more about it.
        let _ = tcsetattr(io::stdin(), OptionalActions::Now, &self.before);
    }
}

fn ask_for(names: &[String]) -> Result<Vec<String>, Failure> {
    let ask = |name: &String| {
        write!(io::stderr(), "{name} (not shown): ")?;
        let mut line = String::new();
        io::stdin().lock().take(MAX_BYTES).read_line(&mut line)?;
        value_of(name, Some(&line))
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
    let values = names.iter().map(|name| value_of(name, lines.next()));
    let values = values.collect::<Result<Vec<_>, _>>()?;
    if lines.any(|line| !line.trim().is_empty()) {
        let message = format!(
            "stdin has more lines than there are names: {}",
            names.join(", ")
        );
        return Err(Failure::usage(message).hint("give one line for each name, in their order"));
    }
    Ok(values)
}

fn value_of(name: &str, line: Option<&str>) -> Result<String, Failure> {
    let value = line.map(|line| line.trim_end_matches(['\n', '\r']));
    match value.filter(|value| !value.is_empty()) {
        Some(value) => Ok(value.to_owned()),
        None => Err(Failure::usage(format!("stdin has no value for {name}"))
            .hint("give one line for each name, in their order")),
    }
}
