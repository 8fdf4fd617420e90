//! Questions of servers, put to the person at the terminal: forms to fill in, addresses to visit.
//!
//! Whatever a server says stands behind a mark, so that nobody takes it for words of this program.
//! Ctrl-C and Ctrl-D close the question, which is neither a yes nor a no, and the program goes on.
//! Invariant: nothing is sent that the person did not see and say yes to.

mod field;
mod form;
mod open_url;

use std::io::{self, Write as _};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use rustix::process::{Signal, getpid, kill_process};
use switchboard::content::for_terminal;
use switchboard::{ElicitAnswer, ElicitMode, Elicitation};

use crate::browser::Browser;
use crate::render::style::{Paint, Style};
use crate::render::text::{quote, wrap};
use crate::render::{Console, Verbosity};
use crate::terminal::{Echo, Terminal, TerminalGuard, TerminalModes, Typed};

/// Of a terminal that does not say how wide it is.
const USUAL_COLUMNS: usize = 80;
/// Lines of prose are not made longer than this, however wide the terminal.
const PROSE_COLUMNS: usize = 100;
/// So many questions closed within so much time: whoever does that wants to get out of here.
const ENOUGH: usize = 3;
const IN_A_ROW: Duration = Duration::from_secs(5);

/// Asks the person what servers want to know.
#[derive(Debug)]
pub(crate) struct ElicitPrompt {
    terminal: Terminal,
    style: Style,
    columns: usize,
    /// What opens addresses, where there is something.
    browser: Option<Browser>,
    /// When the person closed questions, of late.
    closed: Mutex<Vec<Instant>>,
}

impl ElicitPrompt {
    /// `None`: nobody can be asked, or wants to be.
    pub(crate) fn new(console: &Console, browser: Option<Browser>) -> Option<Self> {
        let is_willing = console.can_ask && console.verbosity != Verbosity::Quiet;
        is_willing.then(|| Self {
            terminal: console.terminal.clone(),
            style: console.stderr_style,
            columns: console
                .stderr_columns
                .unwrap_or(USUAL_COLUMNS)
                .min(PROSE_COLUMNS),
            browser,
            closed: Mutex::default(),
        })
    }

    /// Puts a server's question to the person, as soon as no other is open.
    pub(crate) async fn ask(&self, question: &Elicitation<'_>) -> ElicitAnswer {
        let turn = self.terminal.acquire().await;
        let server = for_terminal(question.server.as_str()).into_owned();
        // A terminal that cannot be spoken to is one at which nobody said anything.
        let Ok(mut talk) = Conversation::begin(turn, server, self) else {
            return ElicitAnswer::Cancel;
        };
        let answer = match &question.mode {
            ElicitMode::Form(form) => form::fill_in(&mut talk, &question.message, form).await,
            ElicitMode::Url(address) => {
                open_url::ask(&mut talk, &question.message, address, self.browser.as_ref()).await
            }
            // Whatever else there will be, nobody knows how to ask it here.
            _ => Err(Closed),
        };
        if answer.is_err() {
            self.note_closing(&talk);
        }
        talk.end(answer.unwrap_or(ElicitAnswer::Cancel))
    }

    /// Ends the command for a person who closes one question right after the other.
    fn note_closing(&self, talk: &Conversation) {
        let now = Instant::now();
        let mut closed = lock(&self.closed);
        if talk.was_answered {
            return closed.clear();
        }
        closed.retain(|earlier| now - *earlier < IN_A_ROW);
        closed.push(now);
        if closed.len() >= ENOUGH {
            let _ = talk.note("closed again and again: the command ends");
            // As if Ctrl-C had been typed where no question is open.
            let _ = kill_process(getpid(), Signal::INT);
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The person closed the question, or the terminal is gone.
#[derive(Debug)]
struct Closed;

impl From<io::Error> for Closed {
    fn from(_: io::Error) -> Self {
        Self
    }
}

/// One question of a server, as long as it is open.
#[derive(Debug)]
struct Conversation {
    server: String,
    style: Style,
    columns: usize,
    /// The person typed something.
    was_answered: bool,
    has_ended: bool,
    // In this order: the terminal is as before when the next question comes.
    modes: TerminalModes,
    turn: TerminalGuard,
}

impl Conversation {
    fn begin(turn: TerminalGuard, server: String, interviewer: &ElicitPrompt) -> io::Result<Self> {
        Ok(Self {
            modes: TerminalModes::begin()?,
            turn,
            server,
            style: interviewer.style,
            columns: interviewer.columns,
            was_answered: false,
            has_ended: false,
        })
    }

    /// Says something of ours.
    fn say(&self, text: &str) -> Result<(), Closed> {
        let lines = wrap(text, Some(self.columns)).join("\n");
        Ok(io::stderr().write_all(format!("{lines}\n").as_bytes())?)
    }

    /// Says something as it stands.
    #[expect(
        clippy::unused_self,
        reason = "nobody talks who is not in a conversation"
    )]
    fn show(&self, text: &str) -> Result<(), Closed> {
        Ok(io::stderr().write_all(format!("{text}\n").as_bytes())?)
    }

    /// Says something that is read once and then no more.
    fn note(&self, text: &str) -> Result<(), Closed> {
        let lines = wrap(text, Some(self.columns)).join("\n");
        self.show(&self.dim(&lines))
    }

    /// Warns.
    fn warn(&self, text: &str) -> Result<(), Closed> {
        let lines = wrap(text, Some(self.columns.saturating_sub(2))).join("\n  ");
        self.show(&self.style.paint(Paint::Yellow, &format!("! {lines}")))
    }

    /// Shows what the server says.
    fn quote(&self, text: &str) -> Result<(), Closed> {
        self.show(&quote(text, self.columns))
    }

    fn dim(&self, text: &str) -> String {
        self.style.paint(Paint::Dim, text)
    }

    /// Says who asks, for what, and with which words.
    fn introduce(&self, what: &str, message: &str) -> Result<(), Closed> {
        let server = self.style.paint(Paint::Bold, &self.server);
        self.show(&format!("\nServer {server} {what}"))?;
        self.quote(message)
    }

    /// Asks, and waits for a line.
    async fn ask(&mut self, question: &str) -> Result<String, Closed> {
        match self.turn.ask(question).await? {
            Typed::Line(line) => {
                self.was_answered = true;
                Ok(line.trim().to_owned())
            }
            Typed::Cancelled => {
                // What stopped it ended no line.
                self.show("")?;
                Err(Closed)
            }
        }
    }

    /// As [`Self::ask`], and what is typed is not shown.
    async fn ask_unseen(&mut self, question: &str) -> Result<String, Closed> {
        self.modes.echo(Echo::Hidden)?;
        let answer = self.ask(question).await;
        self.modes.echo(Echo::Shown)?;
        answer
    }

    /// Asks for a yes or a no until it is one of the two; Enter is a no.
    async fn is_agreed(&mut self, question: &str) -> Result<bool, Closed> {
        let choices = self.dim("[y/N]");
        loop {
            self.turn.discard_input();
            let answer = self.ask(&format!("{question} {choices} ")).await?;
            match answer.to_ascii_lowercase().as_str() {
                "y" | "yes" => return Ok(true),
                "" | "n" | "no" => return Ok(false),
                _ => self.note("type y or n")?,
            }
        }
    }

    /// Says what came of it.
    fn end(mut self, answer: ElicitAnswer) -> ElicitAnswer {
        self.has_ended = true;
        let server = &self.server;
        let told = match &answer {
            ElicitAnswer::Accept(_) => format!("{server} was told yes"),
            ElicitAnswer::Decline => format!("{server} was told no"),
            _ => format!("{server} was told that you closed its question"),
        };
        // If it cannot be said, there is nobody any more who would want to know.
        let _ = self.show(&format!("{}\n", self.dim(&told)));
        answer
    }
}

impl Drop for Conversation {
    fn drop(&mut self) {
        if !self.has_ended {
            let told = format!("\n{} no longer waits for an answer\n", self.server);
            let _ = self.show(&self.dim(&told));
        }
    }
}
