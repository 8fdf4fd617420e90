//! What a server says over a stream of bytes, from the stream to whom it concerns.
//!
//! Answers that came together are handed over together: one look at the table is enough for them, and
//! whoever is answered finds nobody in it.
//!
//! Invariant: the reading task never waits for anything but the server, and what the server said first
//! takes effect first.

use std::pin::pin;
use std::sync::Arc;

use bytes::{Buf, BufMut, Bytes};
use tokio::io::AsyncReadExt;

use super::connection::{Connection, Reader};
use super::pace::Pace;
use super::table::{Pending, Reply};
use super::{SessionContext, SessionEnd, aside, peer};
use crate::budget::Held;
use crate::mcp::ProtocolVersion;
use crate::sync::lock;
use crate::telemetry::Direction;
use crate::wire::line::{Line, Lines, READ_AHEAD};
use crate::wire::scan::place_in;
use crate::wire::{self, Answer, AnswerId, Message, Outcome, Received};

/// How fast a long line is read while other servers are being asked something, in bytes: so much at once,
/// and so much a second from there on.
const LONG_AT_ONCE: u32 = 1024 * 1024;
const LONG_PER_SECOND: u32 = 4 * 1024 * 1024;
/// After so many bytes that nobody asked for, others get their turn.
const UNASKED_IN_A_ROW: usize = 4 * 1024;
/// So many answers are handed over together at most: nobody waits long for the answers to others.
const ANSWERS_AT_ONCE: usize = 8;

/// An answer that was not handed over yet.
struct Arrival {
    id: AnswerId,
    reply: Reply,
    /// How long its line was.
    size: usize,
    /// The request that it answers, once that was looked for and found.
    answers: Option<Pending>,
}

impl Connection {
    pub(super) async fn read_all(self: Arc<Self>, mut reader: Reader) {
        let mut lines = Lines::new(
            self.peer.context.limits.message_bytes,
            &self.peer.context.budget,
        );
        let mut arrivals = Vec::new();
        let mut unasked_pace = Pace::unasked();
        let mut long_pace = Pace::new(LONG_PER_SECOND, LONG_AT_ONCE);
        let mut stopped = pin!(self.peer.stop.cancelled());
        let end = loop {
            let most = unasked_pace.piece(READ_AHEAD);
            let mut room = lines.room().limit(most);
            // Reading comes first because it is cheaper to ask for. A server that always has
            // something to say is no exception: the runtime makes it wait now and then.
            let read = tokio::select! {
                biased;
                read = reader.read_buf(&mut room) => read,
                () = &mut stopped => break SessionEnd::Closed,
            };
            let count = match read {
                Ok(0) => {
                    let rest = lines.remainder();
                    let half_line = rest.and_then(|rest| self.receive_last(rest));
                    break SessionEnd::Eof { half_line };
                }
                Ok(count) => count,
                Err(error) => break SessionEnd::Io(error.to_string()),
            };
            let unasked = match self.take_lines(&mut lines, &mut arrivals).await {
                Ok(unasked) => unasked,
                Err(end) => break end,
            };
            let SessionContext {
                floods, neighbour, ..
            } = &self.peer.context;
            let mut pause = floods.take(&mut unasked_pace, unasked);
            if lines.is_long() && neighbour.others_are_asked() {
                pause = pause.max(long_pace.take(count));
            }
            if let Some(pause) = pause {
                self.peer
                    .stop
                    .run_until_cancelled(tokio::time::sleep(pause))
                    .await;
            } else if lines.is_behind() {
                // Others have something to read too.
                tokio::task::yield_now().await;
            }
        };
        self.close(end);
        // A server that is still writing when it is told to leave shall not die of a broken pipe.
        let mut rest = lines.leftover();
        self.gone
            .run_until_cancelled(async {
                while matches!(reader.read_buf(&mut rest).await, Ok(1..)) {
                    rest.clear();
                }
            })
            .await;
    }

    /// Takes what a server said last without ending the line, if it is a whole message all the same.
    /// What it is otherwise is returned, to be shown.
    fn receive_last(self: &Arc<Self>, line: Bytes) -> Option<String> {
        if let Received::Message(_) = wire::read(&line, self.peer.context.limits.json_budget()) {
            self.receive_alone(line, None);
            return None;
        }
        Some(self.peer.shown(&line))
    }

    /// Takes the lines that are there, and says how many bytes of them answered nothing.
    async fn take_lines(
        self: &Arc<Self>,
        lines: &mut Lines,
        arrivals: &mut Vec<Arrival>,
    ) -> Result<usize, SessionEnd> {
        let (mut unasked, mut in_a_row) = (0, 0);
        loop {
            let next = if lines.has_much_to_let_go() {
                unasked += self.hand_over(arrivals);
                let mut taken = lines.take();
                let look = move || (taken.next(), taken);
                let (next, taken) = Box::pin(aside(look))
                    .await
                    .map_err(|_| SessionEnd::Closed)?;
                *lines = taken;
                next
            } else {
                lines.next()
            };
            let more = match next {
                Ok(Some(Line::Long(line, held))) => {
                    let earlier = self.hand_over(arrivals);
                    let this = Arc::clone(self);
                    let receive = move || {
                        let line = line.join();
                        this.peer.tap(Direction::Received, &line);
                        this.receive_alone(line, held)
                    };
                    let received = Box::pin(aside(receive)).await;
                    earlier + received.map_err(|_| SessionEnd::Closed)?
                }
                Ok(Some(Line::Complete(line, held))) => {
                    self.peer.tap(Direction::Received, &line);
                    self.receive(line, &mut { held }, arrivals)
                }
                Ok(Some(Line::LetGo { id: Some(id), why })) => {
                    let reply = Reply::Unusable(self.peer.problem(why));
                    self.arrived(AnswerId::Ours(id), reply, 0, arrivals)
                }
                Ok(Some(Line::LetGo { id: None, why })) => {
                    let problem = self.peer.problem(why);
                    tracing::debug!(server = %self.peer.context.server, %problem, "message ignored");
                    0
                }
                Ok(None) => return Ok(unasked + self.hand_over(arrivals)),
                Err(wire::line::Endless) => {
                    self.hand_over(arrivals);
                    return Err(SessionEnd::Endless);
                }
            };
            unasked += more;
            in_a_row += more;
            if in_a_row > UNASKED_IN_A_ROW {
                in_a_row = 0;
                unasked += self.hand_over(arrivals);
                tokio::task::yield_now().await;
            }
        }
    }

    /// Takes a line that came with no others, and says how many bytes of it answered nothing.
    fn receive_alone(self: &Arc<Self>, line: Bytes, held: Option<Held>) -> usize {
        let mut arrivals = Vec::new();
        let unasked = self.receive(line, &mut { held }, &mut arrivals);
        unasked + self.hand_over(&mut arrivals)
    }

    /// Takes a line, and says how many bytes are known now to have answered nothing. An answer joins
    /// those that came with it, and takes the line's share of the budget along; before anything else
    /// takes effect they are handed over.
    fn receive(
        self: &Arc<Self>,
        mut line: Bytes,
        held: &mut Option<Held>,
        arrivals: &mut Vec<Arrival>,
    ) -> usize {
        let size = line.len();
        let (id, result, shape) = match wire::read(&line, self.peer.context.limits.json_budget()) {
            Received::Message(Message::Answer {
                id,
                outcome: Outcome::Result(result, shape),
            }) => (id, place_in(&line, result), shape),
            Received::Message(Message::Answer {
                id,
                outcome: Outcome::Error(mut error),
            }) => {
                self.peer.context.redactor.redact_error(&mut error);
                return self.arrived(id, Reply::Error(error), size, arrivals);
            }
            Received::Message(Message::Notification { method, params }) => {
                let earlier = self.hand_over(arrivals);
                self.peer
                    .notified(&method, params.unwrap_or_default(), |id, note| {
                        lock(&self.requests).progress(id, note);
                    });
                return earlier + size;
            }
            Received::Message(Message::Request { id, method, params }) => {
                let earlier = self.hand_over(arrivals);
                peer::asked(self, id, &method, params.unwrap_or(b"{}"));
                return earlier + size;
            }
            Received::Batch(messages)
                if self.peer.version() == Some(ProtocolVersion::V2025_03_26) =>
            {
                let inside: usize = messages.iter().map(|message| message.len()).sum();
                let messages = messages.into_iter();
                let each =
                    messages.map(|message| self.receive(line.slice_ref(message), held, arrivals));
                return size - inside + each.sum::<usize>();
            }
            Received::Batch(_) | Received::Noise => {
                let earlier = self.hand_over(arrivals);
                self.note_noise(&line);
                return earlier + size;
            }
            Received::Broken {
                id: Some(id),
                problem,
            } => {
                let reply = Reply::Unusable(problem);
                return self.arrived(AnswerId::Ours(id), reply, size, arrivals);
            }
            Received::Broken { id: None, problem } => {
                tracing::debug!(server = %self.peer.context.server, %problem, "message ignored");
                return size;
            }
        };
        // What is left of the line is the answer: no second handle on it is made and given back.
        line.truncate(result.end);
        line.advance(result.start);
        let reply = Reply::Result(Answer::new(line, shape, held.take()));
        self.arrived(id, reply, size, arrivals)
    }

    /// Puts an answer with those that came before it, and hands all of them over when they are many.
    fn arrived(
        &self,
        id: AnswerId,
        reply: Reply,
        size: usize,
        arrivals: &mut Vec<Arrival>,
    ) -> usize {
        arrivals.push(Arrival {
            id,
            reply,
            size,
            answers: None,
        });
        if arrivals.len() < ANSWERS_AT_ONCE {
            return 0;
        }
        self.hand_over(arrivals)
    }

    /// Hands answers to those who wait for them, and says how many bytes were for nobody.
    fn hand_over(&self, arrivals: &mut Vec<Arrival>) -> usize {
        if arrivals.is_empty() {
            return 0;
        }
        let mut table = lock(&self.requests);
        for arrival in &mut *arrivals {
            arrival.answers = table.take_answered(arrival.id, &arrival.reply);
        }
        drop(table);
        let mut unasked = 0;
        for Arrival {
            id,
            reply,
            size,
            answers,
        } in arrivals.drain(..)
        {
            match answers {
                // A caller who has gone in this very moment takes no answer; that is fine.
                Some(pending) => drop(pending.reply.send(reply)),
                None => {
                    tracing::debug!(server = %self.peer.context.server, ?id, "answer to no request");
                    unasked += size;
                }
            }
        }
        unasked
    }

    fn note_noise(&self, message: &[u8]) {
        if memchr::memmem::find(message, b"\"jsonrpc\"").is_some() {
            self.garbled.cancel();
        }
        let text = self.peer.shown(message);
        if !text.is_empty() {
            tracing::debug!(server = %self.peer.context.server, text, "not a message");
            *lock(&self.noise) = Some(text);
        }
    }
}
