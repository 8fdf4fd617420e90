//! Serves one connection: reads requests, lets faults happen, answers.

use std::io;
use std::sync::Arc;

use serde_json::Value;
use tokio::net::TcpStream;

use super::fault::{CannedResponse, Fault, FaultAction, FaultTrigger};
use super::raw_server::{RawStep, RepeatedBytes};
use super::request::{ReceivedRequest, Receiver};
use super::response::{ConnectionCut, SendRate, Sender};
use super::state::{HttpServerState, ServerRun};

/// What becomes of a connection after an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum AfterResponse {
    Keep,
    Close,
    Reset,
}

pub(super) struct Connection {
    pub(super) inner: Arc<HttpServerState>,
    pub(super) life: Arc<ServerRun>,
    pub(super) receiver: Receiver,
    pub(super) sender: Sender,
    /// What becomes of it when an answer cannot go on.
    ending: AfterResponse,
}

impl Connection {
    pub(super) fn new(
        inner: Arc<HttpServerState>,
        life: Arc<ServerRun>,
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
            ending: AfterResponse::Close,
        }
    }

    pub(super) async fn serve(mut self) {
        let next = self.serve_all().await.unwrap_or(AfterResponse::Close);
        if next == AfterResponse::Reset {
            self.sender.reset();
        }
    }

    async fn serve_all(&mut self) -> io::Result<AfterResponse> {
        if let Some(fault) = self.inner.take_fault(FaultTrigger::Accepted, None) {
            return Ok(fault.ending());
        }
        let mut is_new = true;
        loop {
            if !std::mem::take(&mut is_new) && self.waits_in_vain().await {
                return Ok(AfterResponse::Close);
            }
            let Some(mut seen) = self.read_head().await? else {
                return Ok(AfterResponse::Close);
            };
            let read = self.read_body(&mut seen).await;
            let place = self.inner.record(seen.clone());
            if let Some(fault) = read? {
                return Ok(fault.ending());
            }
            if !seen.is_complete {
                return Ok(AfterResponse::Close);
            }
            let next = match self.handle(&seen).await {
                Ok(next) => next,
                Err(ConnectionCut) => self.ending,
            };
            let status = self.sender.status.take();
            self.inner.record_status(place, status);
            self.sender.pace = SendRate::AtOnce;
            self.ending = AfterResponse::Close;
            let wants_close = seen
                .header("connection")
                .is_some_and(|value| value.eq_ignore_ascii_case("close"));
            match next {
                AfterResponse::Keep if wants_close => return Ok(AfterResponse::Close),
                AfterResponse::Keep => {}
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

    async fn read_head(&mut self) -> io::Result<Option<ReceivedRequest>> {
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
    async fn read_body(&mut self, seen: &mut ReceivedRequest) -> io::Result<Option<Fault>> {
        if seen.is_chunked() {
            return self.read_chunks(seen).await;
        }
        let length = seen.length().unwrap_or(0);
        self.read_up_to(seen, length / 2).await?;
        if seen.body.len() < length / 2 {
            return Ok(None);
        }
        if length > 0
            && let Some(fault) = self.inner.take_fault(FaultTrigger::InBody, Some(seen))
        {
            return Ok(Some(fault));
        }
        self.read_up_to(seen, length).await?;
        seen.is_complete = seen.body.len() == length;
        Ok(None)
    }

    async fn read_up_to(&mut self, seen: &mut ReceivedRequest, length: usize) -> io::Result<()> {
        loop {
            self.receiver.take_body(seen, length);
            if seen.body.len() >= length || !self.read_more().await? {
                return Ok(());
            }
        }
    }

    async fn read_chunks(&mut self, seen: &mut ReceivedRequest) -> io::Result<Option<Fault>> {
        loop {
            match self.receiver.take_chunk()? {
                Some(chunk) if chunk.is_empty() => {
                    seen.is_complete = true;
                    return Ok(None);
                }
                Some(chunk) => {
                    seen.body.extend(chunk);
                    let fault = self.inner.take_fault(FaultTrigger::InBody, Some(seen));
                    if fault.is_some() {
                        return Ok(fault);
                    }
                }
                None if !self.read_more().await? => return Ok(None),
                None => {}
            }
        }
    }

    /// ResponseFormat a request, or does what a fault wants done instead.
    async fn handle(&mut self, seen: &ReceivedRequest) -> Result<AfterResponse, ConnectionCut> {
        let Some(fault) = self.inner.take_fault(FaultTrigger::Read, Some(seen)) else {
            return self.route(seen, None).await;
        };
        self.ending = fault.ending();
        match fault.deed {
            FaultAction::CloseInAnswer(bytes) => self.sender.pace = SendRate::Until(bytes),
            FaultAction::Slow { piece, pause } => {
                self.sender.pace = SendRate::Slow { piece, pause }
            }
            FaultAction::CloseAfterAnswer => {
                self.route(seen, None).await?;
                return Ok(fault.ending());
            }
            FaultAction::EndStream(_) => return self.route(seen, Some(&fault)).await,
            FaultAction::Play(steps) => return self.play(&steps, seen).await,
            _ if fault.is_executed => return self.route(seen, Some(&fault)).await,
            _ => return self.misbehave(&fault).await,
        }
        let next = self.route(seen, None).await?;
        // An answer that is shorter than where it was to be cut.
        Ok(match fault.deed {
            FaultAction::CloseInAnswer(_) => fault.ending(),
            _ => next,
        })
    }

    /// What a fault does in the place of an answer.
    pub(super) async fn misbehave(
        &mut self,
        fault: &Fault,
    ) -> Result<AfterResponse, ConnectionCut> {
        match &fault.deed {
            FaultAction::Answer(answer) => {
                self.sender.answer(answer).await?;
                Ok(AfterResponse::Keep)
            }
            FaultAction::Raw(bytes) => {
                self.sender.send(bytes).await?;
                Ok(fault.ending())
            }
            FaultAction::Hang => {
                self.receiver.closed().await;
                Ok(AfterResponse::Close)
            }
            _ => Ok(fault.ending()),
        }
    }

    /// Plays bytes in the place of an answer.
    async fn play(
        &mut self,
        steps: &[RawStep],
        seen: &ReceivedRequest,
    ) -> Result<AfterResponse, ConnectionCut> {
        let id = seen.json().get("id").map(Value::to_string);
        for step in steps {
            match step {
                RawStep::Send(bytes) => {
                    let bytes = with_id(bytes, id.as_deref().unwrap_or("null"));
                    self.sender.send(&bytes).await?;
                }
                RawStep::SendRepeated { bytes, times } => {
                    for piece in RepeatedBytes::of(bytes, *times).iter() {
                        self.sender.send(piece).await?;
                        // Whoever reads shares our thread.
                        tokio::task::yield_now().await;
                    }
                }
                RawStep::Pause(time) => tokio::time::sleep(*time).await,
                RawStep::Hang => self.receiver.closed().await,
                RawStep::Reset => return Ok(AfterResponse::Reset),
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
    ) -> Result<AfterResponse, ConnectionCut> {
        let refusal = CannedResponse::error(status, id, code, message);
        self.sender.answer(&refusal).await?;
        Ok(AfterResponse::Keep)
    }

    pub(super) async fn say(
        &mut self,
        answer: CannedResponse,
    ) -> Result<AfterResponse, ConnectionCut> {
        self.sender.answer(&answer).await?;
        Ok(AfterResponse::Keep)
    }
}

impl Fault {
    pub(super) fn ending(&self) -> AfterResponse {
        if self.is_reset {
            AfterResponse::Reset
        } else {
            AfterResponse::Close
        }
    }
}

fn with_id(bytes: &[u8], id: &str) -> Vec<u8> {
    match std::str::from_utf8(bytes) {
        Ok(text) => text.replace("$ID", id).into_bytes(),
        Err(_) => bytes.to_vec(),
    }
}
