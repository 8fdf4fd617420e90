//! Serves one connection: reads requests, lets faults happen, answers.

use std::io;
use std::sync::Arc;

use serde_json::Value;
use tokio::net::TcpStream;

use super::answer::{Cut, Pace, Sender};
use super::fault::{Canned, Deed, Fault, Moment};
use super::raw::{Pieces, RawStep};
use super::request::{Receiver, Seen};
use super::server::{Inner, Life};

/// What becomes of a connection after an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Next {
    Keep,
    Close,
    Reset,
}

pub(super) struct Connection {
    pub(super) inner: Arc<Inner>,
    pub(super) life: Arc<Life>,
    pub(super) receiver: Receiver,
    pub(super) sender: Sender,
    /// What becomes of it when an answer cannot go on.
    ending: Next,
}

impl Connection {
    pub(super) fn new(
        inner: Arc<Inner>,
        life: Arc<Life>,
        socket: TcpStream,
        number: usize,
    ) -> Self {
        let _ = socket.set_nodelay(true);
        let (reader, writer) = socket.into_split();
        Self {
            inner,
            life,
            receiver: Receiver::new(reader, number),
            sender: Sender::new(writer),
            ending: Next::Close,
        }
    }

    pub(super) async fn serve(mut self) {
        let next = self.serve_all().await.unwrap_or(Next::Close);
        if next == Next::Reset {
            self.sender.reset();
        }
    }

    async fn serve_all(&mut self) -> io::Result<Next> {
        if let Some(fault) = self.inner.take_fault(Moment::Accepted, None) {
            return Ok(fault.ending());
        }
        let mut is_new = true;
        loop {
            if !std::mem::take(&mut is_new) && self.waits_in_vain().await {
                return Ok(Next::Close);
            }
            let Some(mut seen) = self.read_head().await? else {
                return Ok(Next::Close);
            };
            let read = self.read_body(&mut seen).await;
            let place = self.inner.record(seen.clone());
            if let Some(fault) = read? {
                return Ok(fault.ending());
            }
            if !seen.is_complete {
                return Ok(Next::Close);
            }
            let next = match self.handle(&seen).await {
                Ok(next) => next,
                Err(Cut) => self.ending,
            };
            let status = self.sender.status.take();
            self.inner.record_status(place, status);
            self.sender.pace = Pace::AtOnce;
            self.ending = Next::Close;
            let wants_close = seen
                .header("connection")
                .is_some_and(|value| value.eq_ignore_ascii_case("close"));
            match next {
                Next::Keep if wants_close => return Ok(Next::Close),
                Next::Keep => {}
                end => return Ok(end),
            }
        }
    }

    /// Waits for the next request, unless connections that wait are not kept: then until the client
    /// has closed its end too.
    async fn waits_in_vain(&mut self) -> bool {
        tokio::select! {
            biased;
            () = self.receiver.stirs() => return false,
            () = self.inner.lets_go() => {}
        }
        self.sender.take_leave().await;
        self.receiver.stirs().await;
        true
    }

    async fn read_more(&mut self) -> io::Result<bool> {
        let bytes = self.receiver.read_more().await?;
        if let Some(bytes) = bytes {
            self.inner.record_bytes(bytes);
        }
        Ok(bytes.is_some())
    }

    async fn read_head(&mut self) -> io::Result<Option<Seen>> {
        loop {
            if let Some(seen) = self.receiver.take_head()? {
                return Ok(Some(seen));
            }
            if !self.read_more().await? {
                return Ok(None);
            }
        }
    }

    /// Reads the body, as far as it comes; or the fault that happens on the way.
    async fn read_body(&mut self, seen: &mut Seen) -> io::Result<Option<Fault>> {
        if seen.is_chunked() {
            return self.read_chunks(seen).await;
        }
        let length = seen.length().unwrap_or(0);
        self.read_up_to(seen, length / 2).await?;
        if seen.body.len() < length / 2 {
            return Ok(None);
        }
        if length > 0
            && let Some(fault) = self.inner.take_fault(Moment::InBody, Some(seen))
        {
            return Ok(Some(fault));
        }
        self.read_up_to(seen, length).await?;
        seen.is_complete = seen.body.len() == length;
        Ok(None)
    }

    async fn read_up_to(&mut self, seen: &mut Seen, length: usize) -> io::Result<()> {
        loop {
            self.receiver.take_body(seen, length);
            if seen.body.len() >= length || !self.read_more().await? {
                return Ok(());
            }
        }
    }

    async fn read_chunks(&mut self, seen: &mut Seen) -> io::Result<Option<Fault>> {
        loop {
            match self.receiver.take_chunk()? {
                Some(chunk) if chunk.is_empty() => {
                    seen.is_complete = true;
                    return Ok(None);
                }
                Some(chunk) => {
                    seen.body.extend(chunk);
                    let fault = self.inner.take_fault(Moment::InBody, Some(seen));
                    if fault.is_some() {
                        return Ok(fault);
                    }
                }
                None if !self.read_more().await? => return Ok(None),
                None => {}
            }
        }
    }

    /// Answers a request, or does what a fault wants done instead.
    async fn handle(&mut self, seen: &Seen) -> Result<Next, Cut> {
        let Some(fault) = self.inner.take_fault(Moment::Read, Some(seen)) else {
            return self.route(seen, None).await;
        };
        self.ending = fault.ending();
        match fault.deed {
            Deed::CloseInAnswer(bytes) => self.sender.pace = Pace::Until(bytes),
            Deed::Drip { piece, pause } => self.sender.pace = Pace::Drip { piece, pause },
            Deed::CloseAfterAnswer => {
                self.route(seen, None).await?;
                return Ok(fault.ending());
            }
            Deed::EndStream(_) => return self.route(seen, Some(&fault)).await,
            Deed::Play(steps) => return self.play(&steps, seen).await,
            _ if fault.is_executed => return self.route(seen, Some(&fault)).await,
            _ => return self.misbehave(&fault).await,
        }
        let next = self.route(seen, None).await?;
        // An answer that is shorter than where it was to be cut.
        Ok(match fault.deed {
            Deed::CloseInAnswer(_) => fault.ending(),
            _ => next,
        })
    }

    /// What a fault does in the place of an answer.
    pub(super) async fn misbehave(&mut self, fault: &Fault) -> Result<Next, Cut> {
        match &fault.deed {
            Deed::Answer(answer) => {
                self.sender.answer(answer).await?;
                Ok(Next::Keep)
            }
            Deed::Raw(bytes) => {
                self.sender.send(bytes).await?;
                Ok(fault.ending())
            }
            Deed::Hang => {
                self.receiver.closed().await;
                Ok(Next::Close)
            }
            _ => Ok(fault.ending()),
        }
    }

    /// Plays bytes in the place of an answer.
    async fn play(&mut self, steps: &[RawStep], seen: &Seen) -> Result<Next, Cut> {
        let id = seen.json().get("id").map(Value::to_string);
        for step in steps {
            match step {
                RawStep::Send(bytes) => {
                    let bytes = with_id(bytes, id.as_deref().unwrap_or("null"));
                    self.sender.send(&bytes).await?;
                }
                RawStep::SendRepeated { bytes, times } => {
                    for piece in Pieces::of(bytes, *times).iter() {
                        self.sender.send(piece).await?;
                        // Whoever reads shares our thread.
                        tokio::task::yield_now().await;
                    }
                }
                RawStep::Pause(time) => tokio::time::sleep(*time).await,
                RawStep::Hang => self.receiver.closed().await,
                RawStep::Reset => return Ok(Next::Reset),
                RawStep::Close => break,
                RawStep::ReadRequest | RawStep::ReadBytes(_) => {
                    panic!("the request has been read already")
                }
            }
        }
        Ok(self.ending)
    }

    pub(super) async fn refuse(
        &mut self,
        status: u16,
        id: &Value,
        code: i64,
        message: &str,
    ) -> Result<Next, Cut> {
        let refusal = Canned::error(status, id, code, message);
        self.sender.answer(&refusal).await?;
        Ok(Next::Keep)
    }

    pub(super) async fn say(&mut self, answer: Canned) -> Result<Next, Cut> {
        self.sender.answer(&answer).await?;
        Ok(Next::Keep)
    }
}

impl Fault {
    pub(super) fn ending(&self) -> Next {
        if self.is_reset {
            Next::Reset
        } else {
            Next::Close
        }
    }
}

fn with_id(bytes: &[u8], id: &str) -> Vec<u8> {
    match std::str::from_utf8(bytes) {
        Ok(text) => text.replace("$ID", id).into_bytes(),
        Err(_) => bytes.to_vec(),
    }
}
