//! Reads lines from the terminal on a blocking thread.
//!
//! If a question is cancelled while it waits for a line, the thread keeps reading. The next
//! question waits for that thread and ignores a line that was typed before. Invariant: a line
//! answers only the question that was open when it was typed, and the terminal modes are restored
//! when the question is closed.

use std::io::{self, BufRead as _, Write as _};
use std::time::Instant;

use rustix::termios::{
    LocalModes, OptionalActions, QueueSelector, SpecialCodeIndex, Termios, tcflush, tcgetattr,
    tcsetattr,
};
use tokio::task::JoinHandle;

use crate::charset::Charset;

/// The byte that a terminal sends for Ctrl-C.
const CTRL_C: u8 = 3;

/// The value that disables a special key of the terminal (`_POSIX_VDISABLE`).
const NO_KEY: u8 = if cfg!(target_os = "linux") { 0 } else { 0xff };

/// Reads answers to questions from stdin, one line at a time.
#[derive(Debug, Default)]
pub(crate) struct LineInput {
    /// The blocking thread that waits for a line. Still set if the last question was cancelled.
    reading: Option<JoinHandle<io::Result<RawInput>>>,
}

/// Bytes from the terminal, and when the bytes were read.
#[derive(Debug)]
struct RawInput {
    bytes: Vec<u8>,
    read_at: Instant,
}

/// The answer to a question.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Typed {
    /// A line without its line ending.
    Line(String),
    /// The user pressed Ctrl-C or Ctrl-D, or the terminal is gone.
    Cancelled,
}

/// Whether the terminal echoes input.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Echo {
    Shown,
    Hidden,
}

impl LineInput {
    /// Discards input typed before the next question is shown.
    #[expect(
        clippy::unused_self,
        reason = "only the holder of the terminal may discard its input"
    )]
    pub(crate) fn discard_input(&mut self) {
        // Ignore: fails only if stdin is no terminal, and then there is no typed-ahead input.
        let _ = tcflush(io::stdin(), QueueSelector::IFlush);
    }

    /// Prints the question to stderr and reads a line.
    pub(crate) async fn ask(&mut self, question: &str) -> io::Result<Typed> {
        let asked_at = Instant::now();
        // The stderr lock is not held while waiting: a signal handler may need to print.
        io::stderr().write_all(Charset::current().encode(question).as_bytes())?;
        loop {
            let reading = self
                .reading
                .get_or_insert_with(|| tokio::task::spawn_blocking(read));
            let read = reading.await;
            self.reading = None;
            let RawInput { bytes, read_at } = read.map_err(io::Error::other)??;
            // Ignore a line that was read before this question was shown. It was typed for a
            // question that was cancelled.
            if read_at >= asked_at {
                return Ok(Typed::from(bytes));
            }
        }
    }
}

/// Reads once from stdin. A terminal in canonical mode delivers one line; input without a line
/// ending means that the user cancelled.
fn read() -> io::Result<RawInput> {
    let mut stdin = io::stdin().lock();
    let bytes = loop {
        match stdin.fill_buf() {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            bytes => break bytes?.to_vec(),
        }
    };
    let read_at = Instant::now();
    stdin.consume(bytes.len());
    Ok(RawInput { bytes, read_at })
}

impl From<Vec<u8>> for Typed {
    fn from(bytes: Vec<u8>) -> Self {
        match bytes.strip_suffix(b"\n") {
            Some(line) => Self::Line(String::from_utf8_lossy(line).into_owned()),
            None => Self::Cancelled,
        }
    }
}

/// Terminal modes while a question is open: Ctrl-C ends the line instead of sending SIGINT, and
/// Ctrl-Z and Ctrl-\ are disabled. Restores the previous modes on drop.
#[derive(Debug)]
pub(crate) struct TerminalModes {
    before: Termios,
    asking: Termios,
}

impl TerminalModes {
    /// Sets the terminal modes, and discards input that was typed before.
    pub(crate) fn begin() -> io::Result<Self> {
        let before = tcgetattr(io::stdin())?;
        let mut asking = before.clone();
        asking.special_codes[SpecialCodeIndex::VINTR] = NO_KEY;
        asking.special_codes[SpecialCodeIndex::VEOL] = CTRL_C;
        disable_stop_keys(&mut asking);
        tcsetattr(io::stdin(), OptionalActions::Flush, &asking)?;
        Ok(Self { before, asking })
    }

    /// Turns echo on or off.
    pub(crate) fn echo(&self, echo: Echo) -> io::Result<()> {
        let modes = self.with_echo(echo);
        Ok(tcsetattr(io::stdin(), OptionalActions::Drain, &modes)?)
    }

    /// Returns a function that turns echo on or off.
    pub(crate) fn echo_setter(&self, echo: Echo) -> impl Fn() + use<> {
        let modes = self.with_echo(echo);
        move || {
            // Ignore: the terminal is gone, so there is no echo.
            let _ = tcsetattr(io::stdin(), OptionalActions::Now, &modes);
        }
    }

    fn with_echo(&self, echo: Echo) -> Termios {
        let mut modes = self.asking.clone();
        if echo == Echo::Hidden {
            modes.local_modes.remove(LocalModes::ECHO);
            modes.local_modes.insert(LocalModes::ECHONL);
        }
        modes
    }
}

/// Disables Ctrl-Z and Ctrl-\: both would stop or kill the program before it restores the terminal,
/// for example with echo off.
pub(crate) fn disable_stop_keys(modes: &mut Termios) {
    modes.special_codes[SpecialCodeIndex::VSUSP] = NO_KEY;
    modes.special_codes[SpecialCodeIndex::VQUIT] = NO_KEY;
}

impl Drop for TerminalModes {
    fn drop(&mut self) {
        // Nothing can be done if restoring the terminal fails.
        let _ = tcsetattr(io::stdin(), OptionalActions::Now, &self.before);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn input_without_line_ending_is_cancelled() {
        let typed = |text: &str| Typed::from(text.as_bytes().to_vec());
        assert_eq!(typed("a b\n"), Typed::Line("a b".to_owned()));
        assert_eq!(typed("\n"), Typed::Line(String::new()));
        for cancelled in ["", "\u{3}", "a\u{3}", "half"] {
            assert_eq!(typed(cancelled), Typed::Cancelled, "{cancelled:?}");
        }
    }
}
