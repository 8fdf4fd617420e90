//! Serves one connection: reads requests, triggers faults and sends responses. The module `route`
//! decides what the response is.

use std::io;
use std::sync::Arc;

use serde_json::Value;
use tokio::net::TcpStream;

use super::fault::{CannedResponse, Fault, FaultAction, FaultTrigger};
use super::raw_server::{RawStep, RepeatedBytes};
use super::request::{ReceivedRequest, RequestReader};
use super::response::{ConnectionCut, ResponseWriter, SendRate};
use super::state::{HttpServerState, ServerRun};

/// What happens to the connection after a response.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum AfterResponse {
    Keep,
    Close,
    Reset,
}

pub(in crate::http) struct Connection {
    pub(super) state: Arc<HttpServerState>,
    pub(super) run: Arc<ServerRun>,
    pub(super) receiver: RequestReader,
    pub(super) sender: ResponseWriter,
    /// How the connection ends if the current response is cut.
    ending: AfterResponse,
}

impl Connection {
    pub(super) fn new(
        state: Arc<HttpServerState>,
        run: Arc<ServerRun>,
        socket: TcpStream,
        number: usize,
    ) -> Self {
        let _ = socket.set_nodelay(true);
        let (reader, writer) = socket.into_split();
        Self {
            state,
            run,
            receiver: RequestReader::new(reader, number),
            sender: ResponseWriter::new(writer),
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
        if let Some(fault) = self.state.take_fault(FaultTrigger::Accepted, None) {
            return Ok(fault.ending());
        }
        let mut is_new = true;
        loop {
            if !std::mem::take(&mut is_new) && self.closed_while_idle().await {
                return Ok(AfterResponse::Close);
            }
            let Some(mut request) = self.read_head().await? else {
                return Ok(AfterResponse::Close);
            };
            let read = self.read_body(&mut request).await;
            let index = self.state.record(request.clone());
            if let Some(fault) = read? {
                return Ok(fault.ending());
            }
            if !request.is_complete {
                return Ok(AfterResponse::Close);
            }
            let next = match self.handle(&request).await {
                Ok(next) => next,
                Err(ConnectionCut) => self.ending,
            };
            let status = self.sender.status.take();
            self.state.record_status(index, status);
            self.sender.rate = SendRate::AtOnce;
            self.ending = AfterResponse::Close;
            let wants_close = request
                .header("connection")
                .is_some_and(|value| value.eq_ignore_ascii_case("close"));
            match next {
                AfterResponse::Keep if wants_close => return Ok(AfterResponse::Close),
                AfterResponse::Keep => {}
                end => return Ok(end),
            }
        }
    }

    /// Waits until the next request of the client arrives, then returns false. If the test closes
    /// idle connections first, shuts down the write half, waits until the client closes its end or
    /// sends more bytes, and returns true.
    async fn closed_while_idle(&mut self) -> bool {
        tokio::select! {
            biased;
            () = self.receiver.wait_readable() => return false,
            () = self.state.idle_connections_closed() => {}
        }
        self.close_write_half().await;
        true
    }

    /// Shuts down the write half and waits until the client closes its end or sends more bytes.
    async fn close_write_half(&mut self) {
        self.sender.shutdown_write().await;
        self.receiver.wait_readable().await;
    }

    async fn read_more(&mut self) -> io::Result<bool> {
        let bytes = self.receiver.read_more().await?;
        if let Some(bytes) = bytes {
            self.state.record_bytes(bytes);
        }
        Ok(bytes.is_some())
    }

    async fn read_head(&mut self) -> io::Result<Option<ReceivedRequest>> {
        loop {
            if let Some(request) = self.receiver.take_head()? {
                return Ok(Some(request));
            }
            if !self.read_more().await? {
                return Ok(None);
            }
        }
    }

    /// Reads the body of `request`. Returns the fault that stops the reading before the end of the
    /// body, if any.
    async fn read_body(&mut self, request: &mut ReceivedRequest) -> io::Result<Option<Fault>> {
        if request.is_chunked() {
            return self.read_chunks(request).await;
        }
        let length = request.length().unwrap_or(0);
        self.read_up_to(request, length / 2).await?;
        if request.body.len() < length / 2 {
            return Ok(None);
        }
        if length > 0
            && let Some(fault) = self.state.take_fault(FaultTrigger::InBody, Some(request))
        {
            return Ok(Some(fault));
        }
        self.read_up_to(request, length).await?;
        request.is_complete = request.body.len() == length;
        Ok(None)
    }

    async fn read_up_to(&mut self, request: &mut ReceivedRequest, length: usize) -> io::Result<()> {
        loop {
            self.receiver.take_body(request, length);
            if request.body.len() >= length || !self.read_more().await? {
                return Ok(());
            }
        }
    }

    async fn read_chunks(&mut self, request: &mut ReceivedRequest) -> io::Result<Option<Fault>> {
        loop {
            match self.receiver.take_chunk()? {
                Some(chunk) if chunk.is_empty() => {
                    request.is_complete = true;
                    return Ok(None);
                }
                Some(chunk) => {
                    request.body.extend(chunk);
                    let fault = self.state.take_fault(FaultTrigger::InBody, Some(request));
                    if fault.is_some() {
                        return Ok(fault);
                    }
                }
                None if !self.read_more().await? => return Ok(None),
                None => {}
            }
        }
    }

    /// Responds to a request, or runs the fault that replaces the response. An error means that the
    /// connection cannot be used again.
    async fn handle(&mut self, request: &ReceivedRequest) -> Result<AfterResponse, ConnectionCut> {
        let Some(fault) = self.state.take_fault(FaultTrigger::Read, Some(request)) else {
            return self.route(request, None).await;
        };
        self.ending = fault.ending();
        match fault.action {
            FaultAction::CloseInResponse(bytes) => self.sender.rate = SendRate::CutAfter(bytes),
            FaultAction::Slow { write_bytes, pause } => {
                self.sender.rate = SendRate::Slow { write_bytes, pause }
            }
            FaultAction::CloseAfterResponse => {
                self.route(request, None).await?;
                self.close_write_half().await;
                return Ok(fault.ending());
            }
            FaultAction::EndStream(_) => return self.route(request, Some(&fault)).await,
            FaultAction::Play(steps) => return self.run_raw_steps(&steps, request).await,
            _ if fault.is_executed => return self.route(request, Some(&fault)).await,
            _ => return self.run_fault(&fault).await,
        }
        let next = self.route(request, None).await?;
        // If the response is shorter than the number of bytes after which the fault cuts it, the
        // connection ends anyway.
        Ok(match fault.action {
            FaultAction::CloseInResponse(_) => fault.ending(),
            _ => next,
        })
    }

    /// Runs the fault that replaces a response.
    pub(super) async fn run_fault(
        &mut self,
        fault: &Fault,
    ) -> Result<AfterResponse, ConnectionCut> {
        match &fault.action {
            FaultAction::Respond(response) => {
                self.sender.send_response(response).await?;
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

    /// Runs the raw steps of a fault that replaces a response.
    async fn run_raw_steps(
        &mut self,
        steps: &[RawStep],
        request: &ReceivedRequest,
    ) -> Result<AfterResponse, ConnectionCut> {
        let id = request.json().get("id").map(Value::to_string);
        for step in steps {
            match step {
                RawStep::Send(bytes) => {
                    let bytes = fill_id(bytes, id.as_deref().unwrap_or("null"));
                    self.sender.send(&bytes).await?;
                }
                RawStep::SendRepeated { bytes, times } => {
                    for chunk in RepeatedBytes::of(bytes, *times).iter() {
                        self.sender.send(chunk).await?;
                        // Yield, because the client may run on the same thread.
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

    pub(super) async fn respond_error(
        &mut self,
        status: u16,
        id: &Value,
        code: i64,
        message: &str,
    ) -> Result<AfterResponse, ConnectionCut> {
        let rejection = CannedResponse::error(status, id, code, message);
        self.sender.send_response(&rejection).await?;
        Ok(AfterResponse::Keep)
    }

    pub(super) async fn respond(
        &mut self,
        response: CannedResponse,
    ) -> Result<AfterResponse, ConnectionCut> {
        self.sender.send_response(&response).await?;
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

fn fill_id(bytes: &[u8], id: &str) -> Vec<u8> {
    match std::str::from_utf8(bytes) {
        Ok(text) => text.replace("$ID", id).into_bytes(),
        Err(_) => bytes.to_vec(),
    }
}
