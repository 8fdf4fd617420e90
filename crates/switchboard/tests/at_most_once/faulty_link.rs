//! A connection to a scripted server in memory, on which a plan's faults happen.
//!
//! Invariant: a write that reports an error has taken nothing, as `AsyncWrite` promises.

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

use crate::fault_plan::{Fault, How, LinkPlan};

/// What a test turns on and off for all connections of a seed.
#[derive(Debug, Default)]
pub(crate) struct Weather {
    /// The calls begin.
    pub(crate) is_armed: AtomicBool,
    /// The faults are over.
    pub(crate) is_calm: AtomicBool,
}

/// Opens one connection after the other, each with its own faults.
pub(crate) struct FaultyDial {
    server: MemoryServer,
    links: Vec<LinkPlan>,
    opened: AtomicUsize,
    weather: Arc<Weather>,
}

impl FaultyDial {
    pub(crate) fn new(server: MemoryServer, links: Vec<LinkPlan>, weather: &Arc<Weather>) -> Self {
        Self {
            server,
            links,
            opened: AtomicUsize::new(0),
            weather: Arc::clone(weather),
        }
    }

    fn open(&self) -> io::Result<ByteStreams> {
        let ordinal = self.opened.fetch_add(1, Ordering::Relaxed);
        let is_calm = self.weather.is_calm.load(Ordering::Relaxed);
        let planned = self.links.get(ordinal).filter(|_| !is_calm);
        let link = planned.cloned().unwrap_or(LinkPlan::SOUND);
        if link.is_refused {
            return Err(io::ErrorKind::ConnectionRefused.into());
        }
        let (reader, writer) = self.server.open();
        let end = Arc::new(End::default());
        let gate = |fault| Gate {
            fault,
            passed: 0,
            stall: None,
            spares_handshake: link.spares_handshake,
            piece: link.piece,
            weather: Arc::clone(&self.weather),
        };
        let reader = FaultyReader {
            inner: Some(reader),
            gate: gate(link.to_host),
            cut: Box::pin(end.cut.clone().cancelled_owned()),
            end: Arc::clone(&end),
        };
        let writer = FaultyWriter {
            inner: Some(writer),
            gate: gate(link.to_server),
            end,
            is_swallowing: false,
            buffer: link.is_buffered.then(Vec::new),
        };
        Ok(ByteStreams::new(reader, writer))
    }
}

impl Connector for FaultyDial {
    fn connect(&self) -> BoxFuture<'_, io::Result<ByteStreams>> {
        Box::pin(std::future::ready(self.open()))
    }
}

/// The end of both directions of a connection.
#[derive(Default)]
struct End {
    cut: CancellationToken,
    is_reset: Mutex<bool>,
}

impl End {
    fn come(&self, how: How) {
        let mut is_reset = self.is_reset.lock().unwrap_or_else(PoisonError::into_inner);
        *is_reset = how == How::Reset;
        self.cut.cancel();
    }

    fn is_reset(&self) -> bool {
        *self.is_reset.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Counts the bytes of one direction, and says when its fault comes.
struct Gate {
    fault: Option<Fault>,
    passed: usize,
    stall: Option<Pin<Box<Sleep>>>,
    spares_handshake: bool,
    piece: usize,
    weather: Arc<Weather>,
}

enum Way {
    /// So many bytes may pass.
    Open(usize),
    /// This happens now.
    Fault(How),
}

impl Gate {
    fn is_counting(&self) -> bool {
        !self.spares_handshake || self.weather.is_armed.load(Ordering::Relaxed)
    }

    fn poll_way(&mut self, context: &mut Context<'_>) -> Poll<Way> {
        let Some(fault) = self.fault.filter(|_| self.is_counting()) else {
            return Poll::Ready(Way::Open(self.piece));
        };
        let left = fault.at.saturating_sub(self.passed);
        if left > 0 {
            return Poll::Ready(Way::Open(left.min(self.piece)));
        }
        match fault.how {
            How::Stall(time) => {
                let new = || Box::pin(tokio::time::sleep(time));
                let stall = self.stall.get_or_insert_with(new);
                ready!(stall.as_mut().poll(context));
                self.fault = None;
                Poll::Ready(Way::Open(self.piece))
            }
            How::Silence => Poll::Pending,
            how => Poll::Ready(Way::Fault(how)),
        }
    }

    fn pass(&mut self, bytes: usize) {
        if self.is_counting() {
            self.passed += bytes;
        }
    }
}

/// What the server says.
struct FaultyReader<R> {
    inner: Option<R>,
    gate: Gate,
    cut: Pin<Box<WaitForCancellationFutureOwned>>,
    end: Arc<End>,
}

impl<R> FaultyReader<R> {
    fn ended(&mut self) -> Poll<io::Result<()>> {
        self.inner = None;
        Poll::Ready(if self.end.is_reset() {
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
        if this.cut.as_mut().poll(context).is_ready() {
            return this.ended();
        }
        let most = match ready!(this.gate.poll_way(context)) {
            Way::Open(most) => most.min(buffer.remaining()),
            Way::Fault(How::HalfClose) => return this.ended(),
            Way::Fault(how) => {
                this.end.come(how);
                return this.ended();
            }
        };
        let Some(inner) = &mut this.inner else {
            return Poll::Ready(Ok(()));
        };
        let mut piece = vec![0; most];
        let mut taken = ReadBuf::new(&mut piece);
        ready!(Pin::new(inner).poll_read(context, &mut taken))?;
        this.gate.pass(taken.filled().len());
        buffer.put_slice(taken.filled());
        Poll::Ready(Ok(()))
    }
}

/// What the host says.
struct FaultyWriter<W> {
    inner: Option<W>,
    gate: Gate,
    end: Arc<End>,
    is_swallowing: bool,
    /// What was taken and waits for a flush.
    buffer: Option<Vec<u8>>,
}

impl<W: AsyncWrite + Unpin> FaultyWriter<W> {
    /// Hands bytes to the server, as far as the fault lets them through.
    fn poll_deliver(&mut self, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        if self.end.cut.is_cancelled() {
            self.inner = None;
        }
        if self.is_swallowing {
            return Poll::Ready(Ok(bytes.len()));
        }
        let most = match ready!(self.gate.poll_way(context)) {
            Way::Open(most) => most,
            Way::Fault(How::Swallow) => {
                self.is_swallowing = true;
                return Poll::Ready(Ok(bytes.len()));
            }
            Way::Fault(how) => {
                if how != How::HalfClose {
                    self.end.come(how);
                }
                self.inner = None;
                usize::MAX
            }
        };
        let Some(inner) = &mut self.inner else {
            return Poll::Ready(Err(io::ErrorKind::BrokenPipe.into()));
        };
        let piece = bytes.get(..most).unwrap_or(bytes);
        let written = ready!(Pin::new(inner).poll_write(context, piece))?;
        self.gate.pass(written);
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
        let Some(mut waiting) = self.buffer.take() else {
            return Poll::Ready(Ok(()));
        };
        let outcome = loop {
            if waiting.is_empty() {
                break Poll::Ready(Ok(()));
            }
            match self.poll_deliver(context, &waiting) {
                Poll::Ready(Ok(delivered)) => drop(waiting.drain(..delivered)),
                Poll::Ready(Err(error)) => break Poll::Ready(Err(error)),
                Poll::Pending => break Poll::Pending,
            }
        };
        self.buffer = Some(waiting);
        outcome
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.inner = None;
        Poll::Ready(Ok(()))
    }
}
