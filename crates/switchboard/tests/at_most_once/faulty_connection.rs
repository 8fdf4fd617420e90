//! A connection to an in-memory scripted server with planned faults.
//!
//! Invariant: if a write returns an error, none of its bytes were accepted, as `AsyncWrite`
//! requires.

use std::io;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, ready};

use switchboard::in_process::{ByteStreams, Connector};
use switchboard::interaction::BoxFuture;
use switchboard_testkit::MemoryServer;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::Sleep;
use tokio_util::sync::{CancellationToken, WaitForCancellationFutureOwned};

use crate::fault_plan::{ConnectionPlan, Fault, FaultKind};

/// Switches the faults of all connections of a seed on and off.
#[derive(Debug, Default)]
pub(crate) struct FaultSwitch {
    /// True from the first call on. Faults with `starts_after_handshake` count bytes only while
    /// this is true.
    pub(crate) is_armed: AtomicBool,
    /// True after all calls have ended. Connections that are opened after that have no faults.
    pub(crate) is_disabled: AtomicBool,
}

/// Connects to the in-memory server. The n-th connection has the faults of the n-th
/// [`ConnectionPlan`].
pub(crate) struct FaultyConnector {
    server: MemoryServer,
    connections: Vec<ConnectionPlan>,
    opened: AtomicUsize,
    faults: Arc<FaultSwitch>,
}

impl FaultyConnector {
    pub(crate) fn new(
        server: MemoryServer,
        connections: Vec<ConnectionPlan>,
        faults: &Arc<FaultSwitch>,
    ) -> Self {
        Self {
            server,
            connections,
            opened: AtomicUsize::new(0),
            faults: Arc::clone(faults),
        }
    }

    fn open(&self) -> io::Result<ByteStreams> {
        let ordinal = self.opened.fetch_add(1, Ordering::Relaxed);
        let is_disabled = self.faults.is_disabled.load(Ordering::Relaxed);
        let planned = self.connections.get(ordinal).filter(|_| !is_disabled);
        let connection = planned.cloned().unwrap_or(ConnectionPlan::FAULTLESS);
        if connection.is_refused {
            return Err(io::ErrorKind::ConnectionRefused.into());
        }
        let (reader, writer) = self.server.open();
        let disconnect = Arc::new(Disconnect::default());
        let gate = |fault| ByteGate {
            fault,
            passed: 0,
            stall: None,
            starts_after_handshake: connection.starts_after_handshake,
            chunk_limit: connection.chunk_limit,
            faults: Arc::clone(&self.faults),
        };
        let reader = FaultyReader {
            inner: Some(reader),
            gate: gate(connection.to_host),
            closed: Box::pin(disconnect.closed.clone().cancelled_owned()),
            disconnect: Arc::clone(&disconnect),
        };
        let writer = FaultyWriter {
            inner: Some(writer),
            gate: gate(connection.to_server),
            disconnect,
            is_discarding: false,
            buffer: connection.is_buffered.then(Vec::new),
        };
        Ok(ByteStreams::new(reader, writer))
    }
}

impl Connector for FaultyConnector {
    fn connect(&self) -> BoxFuture<'_, io::Result<ByteStreams>> {
        Box::pin(std::future::ready(self.open()))
    }
}

/// Ends both directions of a connection.
#[derive(Default)]
struct Disconnect {
    closed: CancellationToken,
    is_reset: Mutex<bool>,
}

impl Disconnect {
    fn trigger(&self, kind: FaultKind) {
        let mut is_reset = self.is_reset.lock().unwrap_or_else(PoisonError::into_inner);
        *is_reset = kind == FaultKind::Reset;
        self.closed.cancel();
    }

    fn is_reset(&self) -> bool {
        *self.is_reset.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Counts the bytes of one direction and decides when the fault of that direction occurs.
struct ByteGate {
    fault: Option<Fault>,
    passed: usize,
    stall: Option<Pin<Box<Sleep>>>,
    starts_after_handshake: bool,
    chunk_limit: usize,
    faults: Arc<FaultSwitch>,
}

enum GateState {
    /// Up to this many bytes may pass.
    Open(usize),
    /// This fault occurs now.
    Fault(FaultKind),
}

impl ByteGate {
    fn is_counting(&self) -> bool {
        !self.starts_after_handshake || self.faults.is_armed.load(Ordering::Relaxed)
    }

    fn poll_state(&mut self, context: &mut Context<'_>) -> Poll<GateState> {
        let Some(fault) = self.fault.filter(|_| self.is_counting()) else {
            return Poll::Ready(GateState::Open(self.chunk_limit));
        };
        let remaining = fault.at.saturating_sub(self.passed);
        if remaining > 0 {
            return Poll::Ready(GateState::Open(remaining.min(self.chunk_limit)));
        }
        match fault.kind {
            FaultKind::Stall(time) => {
                let new = || Box::pin(tokio::time::sleep(time));
                let stall = self.stall.get_or_insert_with(new);
                ready!(stall.as_mut().poll(context));
                self.fault = None;
                Poll::Ready(GateState::Open(self.chunk_limit))
            }
            FaultKind::StallForever => Poll::Pending,
            kind => Poll::Ready(GateState::Fault(kind)),
        }
    }

    fn count(&mut self, bytes: usize) {
        if self.is_counting() {
            self.passed += bytes;
        }
    }
}

/// Passes on the output of the server until the byte at which `gate` ends the connection.
struct FaultyReader<R> {
    inner: Option<R>,
    gate: ByteGate,
    closed: Pin<Box<WaitForCancellationFutureOwned>>,
    disconnect: Arc<Disconnect>,
}

impl<R> FaultyReader<R> {
    fn ended(&mut self) -> Poll<io::Result<()>> {
        self.inner = None;
        Poll::Ready(if self.disconnect.is_reset() {
            Err(io::ErrorKind::ConnectionReset.into())
        } else {
            Ok(())
        })
    }
}

impl<R: AsyncRead + Unpin> AsyncRead for FaultyReader<R> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = &mut *self;
        if this.closed.as_mut().poll(context).is_ready() {
            return this.ended();
        }
        let max = match ready!(this.gate.poll_state(context)) {
            GateState::Open(max) => max.min(buffer.remaining()),
            GateState::Fault(FaultKind::HalfClose) => return this.ended(),
            GateState::Fault(kind) => {
                this.disconnect.trigger(kind);
                return this.ended();
            }
        };
        let Some(inner) = &mut this.inner else {
            return Poll::Ready(Ok(()));
        };
        let mut storage = vec![0; max];
        let mut chunk = ReadBuf::new(&mut storage);
        ready!(Pin::new(inner).poll_read(context, &mut chunk))?;
        this.gate.count(chunk.filled().len());
        buffer.put_slice(chunk.filled());
        Poll::Ready(Ok(()))
    }
}

/// Writes to the server.
struct FaultyWriter<W> {
    inner: Option<W>,
    gate: ByteGate,
    disconnect: Arc<Disconnect>,
    is_discarding: bool,
    /// Bytes that were accepted and reach the server at the next flush. `None`: bytes are not
    /// buffered.
    buffer: Option<Vec<u8>>,
}

impl<W: AsyncWrite + Unpin> FaultyWriter<W> {
    /// Writes as many bytes to the server as may pass before the fault.
    fn poll_deliver(&mut self, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        if self.disconnect.closed.is_cancelled() {
            self.inner = None;
        }
        if self.is_discarding {
            return Poll::Ready(Ok(bytes.len()));
        }
        let max = match ready!(self.gate.poll_state(context)) {
            GateState::Open(max) => max,
            GateState::Fault(FaultKind::Discard) => {
                self.is_discarding = true;
                return Poll::Ready(Ok(bytes.len()));
            }
            GateState::Fault(kind) => {
                if kind != FaultKind::HalfClose {
                    self.disconnect.trigger(kind);
                }
                self.inner = None;
                usize::MAX
            }
        };
        let Some(inner) = &mut self.inner else {
            return Poll::Ready(Err(io::ErrorKind::BrokenPipe.into()));
        };
        let allowed = bytes.get(..max).unwrap_or(bytes);
        let written = ready!(Pin::new(inner).poll_write(context, allowed))?;
        self.gate.count(written);
        Poll::Ready(Ok(written))
    }
}

impl<W: AsyncWrite + Unpin> AsyncWrite for FaultyWriter<W> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        if let Some(buffer) = &mut self.buffer {
            buffer.extend_from_slice(bytes);
            return Poll::Ready(Ok(bytes.len()));
        }
        self.poll_deliver(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let Some(mut pending) = self.buffer.take() else {
            return Poll::Ready(Ok(()));
        };
        let outcome = loop {
            if pending.is_empty() {
                break Poll::Ready(Ok(()));
            }
            match self.poll_deliver(context, &pending) {
                Poll::Ready(Ok(delivered)) => drop(pending.drain(..delivered)),
                Poll::Ready(Err(error)) => break Poll::Ready(Err(error)),
                Poll::Pending => break Poll::Pending,
            }
        };
        self.buffer = Some(pending);
        outcome
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.inner = None;
        Poll::Ready(Ok(()))
    }
}
