//! Shows elicitations of servers on the terminal: forms to fill in, URLs to open.
//!
//! Text from the server is printed behind a `│`, so that it cannot pass for output of this program.
//! Ctrl-C and Ctrl-D cancel the elicitation. Only repeated cancelling interrupts the command (see
//! [`MAX_CANCELLED`]). Invariant: a server receives only content that the user has confirmed.

mod field;
mod form;
mod open_url;

use std::io::{self, Write as _};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use rustix::process::{Signal, getpid, kill_process};
use switchboard::content::for_terminal;
use switchboard::elicitation::{ElicitMode, ElicitResponse, Elicitation};

use crate::browser::Browser;
use crate::charset::Charset;
use crate::render::server_text::quote;
use crate::render::style::{Paint, Style};
use crate::render::text::wrap;
use crate::render::{Console, Verbosity};
use crate::terminal::{Echo, Terminal, TerminalGuard, TerminalModes, Typed, with_modes_kept};

/// Width of a terminal that does not report one.
const DEFAULT_COLUMNS: usize = 80;
/// Maximum width of prose, even on wider terminals.
const PROSE_COLUMNS: usize = 100;
/// If the user cancels this many elicitations within [`CANCEL_WINDOW`], the command is interrupted.
/// Otherwise Ctrl-C could not stop a command whose server keeps asking.
const MAX_CANCELLED: usize = 3;
const CANCEL_WINDOW: Duration = Duration::from_secs(5);

/// Shows elicitations on the terminal, one at a time, and returns the responses of the user.
#[derive(Debug)]
pub(crate) struct ElicitPrompt {
    terminal: Terminal,
    style: Style,
    columns: usize,
    /// Opens URLs; `None` if the platform's program is not installed.
    browser: Option<Browser>,
    /// When the user cancelled elicitations within the last [`CANCEL_WINDOW`].
    cancelled: Mutex<Vec<Instant>>,
}

impl ElicitPrompt {
    /// `None` if no person can be asked, or `--quiet` was given.
    pub(crate) fn new(console: &Console, browser: Option<Browser>) -> Option<Self> {
        let can_ask = console.can_ask && console.verbosity != Verbosity::Quiet;
        can_ask.then(|| Self {
            terminal: console.terminal.clone(),
            style: console.stderr_style,
            columns: console
                .stderr_columns
                .unwrap_or(DEFAULT_COLUMNS)
                .min(PROSE_COLUMNS),
            browser,
            cancelled: Mutex::default(),
        })
    }

    /// Waits until no other question is open, then asks the user.
    pub(crate) async fn ask(&self, elicitation: &Elicitation<'_>) -> ElicitResponse {
        let guard = self.terminal.acquire().await;
        let server = for_terminal(elicitation.server.as_str()).into_owned();
        // If the terminal modes cannot be set, the question cannot be shown.
        let Ok(mut question) = OpenQuestion::begin(guard, server, self) else {
            return ElicitResponse::Cancel;
        };
        let answer = match &elicitation.mode {
            ElicitMode::Form(form) => form::ask(&mut question, &elicitation.message, form).await,
            ElicitMode::Url(address) => {
                let browser = self.browser.as_ref();
                open_url::ask(&mut question, &elicitation.message, address, browser).await
            }
            // `ElicitMode` is non-exhaustive. A mode that this version cannot show is cancelled.
            _ => Err(QuestionCancelled),
        };
        self.count_cancelled(&question, answer.is_err());
        question.end(answer.unwrap_or(ElicitResponse::Cancel))
    }

    /// Counts elicitations that the user cancelled without typing a line; any other elicitation
    /// resets the count. When [`MAX_CANCELLED`] elicitations were cancelled like this within
    /// [`CANCEL_WINDOW`], the command is interrupted.
    fn count_cancelled(&self, question: &OpenQuestion, is_cancelled: bool) {
        let now = Instant::now();
        let mut cancelled = lock(&self.cancelled);
        if question.has_input || !is_cancelled {
            return cancelled.clear();
        }
        cancelled.retain(|earlier| now - *earlier < CANCEL_WINDOW);
        cancelled.push(now);
        if cancelled.len() >= MAX_CANCELLED {
            let _ = question.print_dimmed("cancelled repeatedly: stopping the command");
            // Ctrl-C while no question is open sends the same signal.
            let _ = kill_process(getpid(), Signal::INT);
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The user pressed Ctrl-C or Ctrl-D, or the terminal is gone.
#[derive(Debug)]
struct QuestionCancelled;

impl From<io::Error> for QuestionCancelled {
    fn from(_: io::Error) -> Self {
        Self
    }
}

/// An elicitation that is shown on the terminal and not answered yet.
#[derive(Debug)]
struct OpenQuestion {
    server: String,
    style: Style,
    columns: usize,
    /// Whether the user typed at least one line.
    has_input: bool,
    has_ended: bool,
    // Declared before `guard`, so that the terminal modes are restored before the next question
    // opens.
    modes: TerminalModes,
    guard: TerminalGuard,
}

impl OpenQuestion {
    fn begin(guard: TerminalGuard, server: String, prompt: &ElicitPrompt) -> io::Result<Self> {
        Ok(Self {
            modes: TerminalModes::begin()?,
            guard,
            server,
            style: prompt.style,
            columns: prompt.columns,
            has_input: false,
            has_ended: false,
        })
    }

    /// Prints wrapped text of this program.
    fn print_text(&self, text: &str) -> Result<(), QuestionCancelled> {
        let lines = wrap(text, Some(self.columns)).join("\n");
        self.print_line(&lines)
    }

    /// Prints a line unchanged.
    #[expect(
        clippy::unused_self,
        reason = "only code that holds the terminal may print"
    )]
    fn print_line(&self, text: &str) -> Result<(), QuestionCancelled> {
        let text = format!("{text}\n");
        Ok(io::stderr().write_all(Charset::current().encode(&text).as_bytes())?)
    }

    /// Prints wrapped text, dimmed.
    fn print_dimmed(&self, text: &str) -> Result<(), QuestionCancelled> {
        let lines = wrap(text, Some(self.columns)).join("\n");
        self.print_line(&self.dim(&lines))
    }

    fn print_warning(&self, text: &str) -> Result<(), QuestionCancelled> {
        let lines = wrap(text, Some(self.columns.saturating_sub(2))).join("\n  ");
        self.print_line(&self.style.paint(Paint::Yellow, &format!("! {lines}")))
    }

    /// Prints text of the server.
    fn print_quoted(&self, text: &str) -> Result<(), QuestionCancelled> {
        self.print_line(&quote(text, Some(self.columns)))
    }

    fn dim(&self, text: &str) -> String {
        self.style.paint(Paint::Dim, text)
    }

    /// Prints which server asks, for what, and the server's message.
    fn introduce(&self, what: &str, message: &str) -> Result<(), QuestionCancelled> {
        let server = self.style.paint(Paint::Bold, &self.server);
        self.print_line(&format!("\nServer {server} {what}"))?;
        self.print_quoted(message)
    }

    /// Prints a prompt and reads a line.
    async fn ask(&mut self, prompt: &str) -> Result<String, QuestionCancelled> {
        match self.guard.ask(prompt).await? {
            Typed::Line(line) => {
                self.has_input = true;
                Ok(line.trim().to_owned())
            }
            Typed::Cancelled => {
                // Ctrl-C and Ctrl-D leave the cursor at the end of the prompt.
                self.print_line("")?;
                Err(QuestionCancelled)
            }
        }
    }

    /// Reads a line without echo.
    async fn ask_hidden(&mut self, prompt: &str) -> Result<String, QuestionCancelled> {
        self.modes.echo(Echo::Hidden)?;
        let hide = self.modes.echo_setter(Echo::Hidden);
        let answer = with_modes_kept(hide, self.ask(prompt)).await;
        self.modes.echo(Echo::Shown)?;
        answer
    }

    /// Asks until the answer is yes or no; Enter means no.
    async fn confirm(&mut self, prompt: &str) -> Result<bool, QuestionCancelled> {
        let choices = self.dim("[y/N]");
        loop {
            self.guard.discard_input();
            let answer = self.ask(&format!("{prompt} {choices} ")).await?;
            match answer.to_ascii_lowercase().as_str() {
                "y" | "yes" => return Ok(true),
                "" | "n" | "no" => return Ok(false),
                _ => self.print_dimmed("type y or n")?,
            }
        }
    }

    /// Prints whether the elicitation was accepted, declined or cancelled, and returns `answer`.
    fn end(mut self, answer: ElicitResponse) -> ElicitResponse {
        self.has_ended = true;
        let sent = match &answer {
            ElicitResponse::Accept(_) => "accepted",
            ElicitResponse::Decline => "declined",
            _ => "cancelled",
        };
        // Ignore: if the terminal is gone, there is no place to print the error.
        let _ = self.print_line(&self.dim(&format!("Sent to {}: {sent}\n", self.server)));
        answer
    }
}

impl Drop for OpenQuestion {
    fn drop(&mut self) {
        if !self.has_ended {
            let message = format!("\n{} no longer needs an answer\n", self.server);
            let _ = self.print_line(&self.dim(&message));
        }
    }
}
