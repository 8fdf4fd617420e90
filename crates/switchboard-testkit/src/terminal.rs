//! Runs a program on a pseudo-terminal and types into it.
//!
//! The pseudo-terminal is the program's controlling terminal, so typing Ctrl-C sends SIGINT.
//! Invariant: no wait for output or for its end is longer than [`WAIT_TIMEOUT`].

use std::fs::{File, OpenOptions};
use std::io::{Read as _, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

use rustix::fs::OFlags;
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};

/// The time limit of every wait for output or for the end of the output.
const WAIT_TIMEOUT: Duration = Duration::from_secs(30);

/// A program that runs on a pseudo-terminal.
#[derive(Debug)]
pub struct Terminal {
    child: Child,
    keyboard: File,
    transcript: Arc<Transcript>,
    /// Offset in the transcript at which the last match of [`Terminal::wait_for_next`] ended.
    match_end: usize,
}

#[derive(Debug, Default)]
struct Transcript {
    text: Mutex<TranscriptText>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct TranscriptText {
    text: String,
    /// True when all programs have closed the terminal, so no more output follows.
    is_closed: bool,
}

impl Terminal {
    /// Starts a program on a new terminal. The command must create a session whose controlling
    /// terminal is its stdin: `setsid --ctty PROGRAM`.
    pub fn start(command: &mut Command) -> Self {
        let controller = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
        grantpt(&controller).unwrap();
        unlockpt(&controller).unwrap();
        let name = ptsname(&controller, Vec::new()).unwrap();
        let no_tty = i32::try_from(OFlags::NOCTTY.bits()).unwrap();
        let terminal = OpenOptions::new()
            .read(true)
            .write(true)
            .custom_flags(no_tty)
            .open(name.to_str().unwrap())
            .unwrap();
        let child = command
            .stdin(Stdio::from(terminal.try_clone().unwrap()))
            .stdout(Stdio::from(terminal.try_clone().unwrap()))
            .stderr(Stdio::from(terminal))
            .spawn()
            .unwrap();
        // The command holds copies of the terminal's descriptors. While they are open, the terminal
        // does not report EOF.
        command
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        let keyboard = File::from(controller);
        let transcript = Arc::new(Transcript::default());
        let (reader, output) = (keyboard.try_clone().unwrap(), Arc::clone(&transcript));
        std::thread::spawn(move || output.read_output(reader));
        Self {
            child,
            keyboard,
            transcript,
            match_end: 0,
        }
    }

    /// Waits until `text` was printed or all programs have closed the terminal.
    /// Returns everything printed so far.
    pub fn wait_for(&self, text: &str) -> String {
        self.transcript
            .wait(text, |shown| shown.text.contains(text) || shown.is_closed)
    }

    /// Waits until `text` appears after the end of the previous match.
    pub fn wait_for_next(&mut self, text: &str) {
        let rest = |shown: &TranscriptText| {
            shown
                .text
                .get(self.match_end..)
                .and_then(|rest| rest.find(text))
        };
        let shown = self
            .transcript
            .wait(text, |shown| rest(shown).is_some() || shown.is_closed);
        let found = shown.get(self.match_end..).and_then(|rest| rest.find(text));
        let Some(at) = found else {
            panic!("the program ended before {text:?}; transcript:\n{shown}");
        };
        self.match_end += at + text.len();
    }

    /// Types text verbatim, without a line feed at the end.
    pub fn type_text(&mut self, text: &str) {
        self.keyboard.write_all(text.as_bytes()).unwrap();
    }

    /// Waits for the program to exit. Returns its exit code and everything printed.
    pub fn finish(mut self) -> (Option<i32>, String) {
        let shown = self.transcript.wait("the end", |shown| shown.is_closed);
        let status = self.child.wait().unwrap();
        (status.code(), shown)
    }
}

impl Drop for Terminal {
    /// Kills the program, so that a failed test leaves no process behind.
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Transcript {
    fn read_output(&self, mut terminal: File) {
        let mut bytes = [0; 4096];
        // Reading fails after the last program has closed the terminal.
        while let Ok(count @ 1..) = terminal.read(&mut bytes) {
            let output = bytes.get(..count).unwrap_or_default();
            let output = String::from_utf8_lossy(output).replace('\r', "");
            self.change(|shown| shown.text.push_str(&output));
        }
        self.change(|shown| shown.is_closed = true);
    }

    fn change(&self, change: impl FnOnce(&mut TranscriptText)) {
        change(&mut self.text.lock().unwrap_or_else(PoisonError::into_inner));
        self.changed.notify_all();
    }

    fn wait(&self, what: &str, condition: impl Fn(&TranscriptText) -> bool) -> String {
        let began = Instant::now();
        let mut shown = self.text.lock().unwrap();
        while !condition(&shown) {
            let left = WAIT_TIMEOUT.checked_sub(began.elapsed());
            let Some(left) = left else {
                panic!(
                    "timed out waiting for {what:?}; transcript:\n{}",
                    shown.text
                );
            };
            (shown, _) = self.changed.wait_timeout(shown, left).unwrap();
        }
        shown.text.clone()
    }
}
