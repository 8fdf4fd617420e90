//! Lines that a person types in answer to a question.
//!
//! Reading blocks, so a thread does it. Whoever stops waiting for a line leaves that thread behind,
//! and the next one who asks waits for it. Invariant: a line answers the question that was open when
//! it read_at and no other, and the terminal is afterwards as it was before.

use std::io::{self, BufRead as _, Write as _};
use std::time::Instant;

use rustix::termios::{
    LocalModes, OptionalActions, QueueSelector, SpecialCodeIndex, Termios, tcflush, tcgetattr,
    tcsetattr,
};
use tokio::task::JoinHandle;

/// What a terminal sends for Ctrl-C.
const CTRL_C: u8 = 3;

/// Stands for *no key does this*.
const NO_KEY: u8 = if cfg!(target_os = "linux") { 0 } else { 0xff };

/// The keyboard of the person at the terminal.
#[derive(Debug, Default)]
pub(crate) struct LineInput {
    /// A thread that waits for a line.
    reading: Option<JoinHandle<io::Result<Read>>>,
}

/// What the terminal had.
#[derive(Debug)]
struct Read {
    bytes: Vec<u8>,
    read_at: Instant,
}

/// What was typed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Typed {
    /// A line, without its end.
    Line(String),
    /// Ctrl-C, Ctrl-D, or there is no terminal any more.
    Cancelled,
}

/// Whether the terminal shows what is typed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Echo {
    Shown,
    Hidden,
}

impl LineInput {
    /// Forgets what the terminal has: it was not typed for a question that nobody had seen.
    #[expect(clippy::unused_self, reason = "only whoever has the keyboard may")]
    pub(crate) fn discard_input(&mut self) {
        // What is no terminal keeps nothing that could be meant for another question.
        let _ = tcflush(io::stdin(), QueueSelector::IFlush);
    }

    /// Writes to where the person looks, and waits for a line.
    pub(crate) async fn ask(&mut self, question: &str) -> io::Result<Typed> {
        let asked = Instant::now();
        // Not locked while a person thinks: whoever is interrupted then has something to say there.
        io::stderr().write_all(question.as_bytes())?;
        loop {
            let reading = self
                .reading
                .get_or_insert_with(|| tokio::task::spawn_blocking(read));
            let read = reading.await;
            self.reading = None;
            let Read { bytes, read_at } = read.map_err(io::Error::other)??;
            // A thread that was left behind may have a line from before the question.
            if read_at >= asked {
                return Ok(Typed::from(bytes));
            }
        }
    }
}

/// What the terminal has. It gives one line at a time; anything that does not end as a line is over.
fn read() -> io::Result<Read> {
    let mut stdin = io::stdin().lock();
    let bytes = loop {
        match stdin.fill_buf() {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            bytes => break bytes?.to_vec(),
        }
    };
    let read_at = Instant::now();
    stdin.consume(bytes.len());
    Ok(Read { bytes, read_at })
}

impl From<Vec<u8>> for Typed {
    fn from(bytes: Vec<u8>) -> Self {
        match bytes.strip_suffix(b"\n") {
            Some(line) => Self::Line(String::from_utf8_lossy(line).into_owned()),
            None => Self::Cancelled,
        }
    }
}

/// Ctrl-C is a key like any other, for as long as this lives: it ends the line. Ctrl-Z and Ctrl-\ do
/// nothing: whoever is stopped or ended by them leaves the terminal as it is in the middle of a question.
#[derive(Debug)]
pub(crate) struct TerminalModes {
    before: Termios,
    asking: Termios,
}

impl TerminalModes {
    /// Whatever was typed before is forgotten: it was not meant for a question that nobody had seen.
    pub(crate) fn begin() -> io::Result<Self> {
        let before = tcgetattr(io::stdin())?;
        let mut asking = before.clone();
        asking.special_codes[SpecialCodeIndex::VINTR] = NO_KEY;
        asking.special_codes[SpecialCodeIndex::VEOL] = CTRL_C;
        disable_stop_keys(&mut asking);
        tcsetattr(io::stdin(), OptionalActions::Flush, &asking)?;
        Ok(Self { before, asking })
    }

    /// Whether what is typed from now on is shown.
    pub(crate) fn echo(&self, echo: Echo) -> io::Result<()> {
        let mut modes = self.asking.clone();
        if echo == Echo::Hidden {
            modes.local_modes.remove(LocalModes::ECHO);
            modes.local_modes.insert(LocalModes::ECHONL);
        }
        Ok(tcsetattr(io::stdin(), OptionalActions::Drain, &modes)?)
    }
}

/// No key stops the program or ends it on the spot: neither would leave it time to put back what it
/// changed, such as that nothing typed is shown.
pub(crate) fn disable_stop_keys(modes: &mut Termios) {
    modes.special_codes[SpecialCodeIndex::VSUSP] = NO_KEY;
    modes.special_codes[SpecialCodeIndex::VQUIT] = NO_KEY;
}

impl Drop for TerminalModes {
    fn drop(&mut self) {
        // There is nobody to tell who could do more about it.
        let _ = tcsetattr(io::stdin(), OptionalActions::Now, &self.before);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_ends_as_a_line_is_one() {
        let typed = |text: &str| Typed::from(text.as_bytes().to_vec());
        assert_eq!(typed("a b\n"), Typed::Line("a b".to_owned()));
        assert_eq!(typed("\n"), Typed::Line(String::new()));
        for stopped in ["", "\u{3}", "a\u{3}", "half"] {
            assert_eq!(typed(stopped), Typed::Cancelled, "{stopped:?}");
        }
    }
}
