//! Runs a line session over a [`Transport`]: splits the written lines into messages and turns the
//! received messages into lines.
//!
//! Invariant: a line counts as written as soon as its send has begun. So the session reports a
//! request as *not sent* only if the transport was not connected or refused the message at once.

use std::io;
use std::panic::AssertUnwindSafe;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use futures_util::FutureExt;
use switchboard_wire::mcp::Json;
use switchboard_wire::{BoxFuture, ByteStreams, Transport, panic_message};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::sync::{Mutex, OwnedMutexGuard};
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

/// A transport of the embedding program, and the lock that keeps its sessions apart.
#[derive(Clone)]
pub struct MessageTransport {
    transport: Arc<dyn Transport>,
    /// Held from `connect` until `close` has returned, so that a reconnect does not overlap the end
    /// of the previous session.
    in_use: Arc<Mutex<()>>,
}

impl std::fmt::Debug for MessageTransport {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("MessageTransport")
    }
}

impl MessageTransport {
    pub fn new(transport: impl Transport) -> Self {
        Self {
            transport: Arc::new(transport),
            in_use: Arc::default(),
        }
    }

    /// Connects, and returns the streams of a line session. Closes the transport when `stop` is
    /// cancelled, and waits for the close at most `close_limit`.
    pub(crate) async fn open(
        &self,
        close_limit: Duration,
        tasks: &TaskTracker,
        stop: CancellationToken,
    ) -> io::Result<ByteStreams> {
        let in_use = Arc::clone(&self.in_use).lock_owned().await;
        let transport = Arc::clone(&self.transport);
        guarded(async move { transport.connect().await }).await?;
        tasks.spawn(close(
            Arc::clone(&self.transport),
            in_use,
            stop,
            close_limit,
        ));
        let reader = MessageReader {
            transport: Arc::clone(&self.transport),
            receiving: None,
            line: Vec::new(),
            read: 0,
        };
        let writer = MessageWriter {
            transport: Arc::clone(&self.transport),
            sending: None,
            partial_line: Vec::new(),
        };
        Ok(ByteStreams::new(reader, writer))
    }
}

/// Closes the transport when the session has ended.
async fn close(
    transport: Arc<dyn Transport>,
    in_use: OwnedMutexGuard<()>,
    stop: CancellationToken,
    limit: Duration,
) {
    stop.cancelled().await;
    let closed = guarded(async move {
        transport.close().await;
        Ok(())
    });
    let _ = timeout(limit, closed).await;
    drop(in_use);
}

/// Turns a panic of the transport into an error.
async fn guarded<T>(call: impl Future<Output = io::Result<T>>) -> io::Result<T> {
    match AssertUnwindSafe(call).catch_unwind().await {
        Ok(outcome) => outcome,
        Err(panic) => {
            let what = panic_message(&*panic).unwrap_or("unknown reason");
            Err(io::Error::other(format!("the transport panicked: {what}")))
        }
    }
}

type Call<T> = BoxFuture<'static, io::Result<T>>;

/// Reads the received messages as lines.
struct MessageReader {
    transport: Arc<dyn Transport>,
    receiving: Option<Call<Option<Json>>>,
    /// The last received message, with a line end.
    line: Vec<u8>,
    /// How many bytes of `line` were read.
    read: usize,
}

impl MessageReader {
    fn poll_message(&mut self, context: &mut Context<'_>) -> Poll<io::Result<Option<Json>>> {
        let transport = &self.transport;
        let receiving = self.receiving.get_or_insert_with(|| {
            let transport = Arc::clone(transport);
            Box::pin(guarded(async move { transport.receive().await }))
        });
        let received = ready!(receiving.as_mut().poll(context));
        self.receiving = None;
        Poll::Ready(received)
    }
}

impl AsyncRead for MessageReader {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        if this.read == this.line.len() {
            let Some(message) = ready!(this.poll_message(context))? else {
                return Poll::Ready(Ok(()));
            };
            this.line = line_of(&message);
            this.read = 0;
        }
        let rest = this.line.get(this.read..).unwrap_or_default();
        let taken = rest.get(..buffer.remaining()).unwrap_or(rest);
        buffer.put_slice(taken);
        this.read += taken.len();
        Poll::Ready(Ok(()))
    }
}

/// The message as one line. A line break between two JSON tokens becomes a space; inside a JSON
/// string there is none.
fn line_of(message: &Json) -> Vec<u8> {
    let mut line = message.as_str().as_bytes().to_vec();
    for byte in &mut line {
        if matches!(byte, b'\n' | b'\r') {
            *byte = b' ';
        }
    }
    line.push(b'\n');
    line
}

/// Sends each written line as a message.
struct MessageWriter {
    transport: Arc<dyn Transport>,
    /// The send in progress.
    sending: Option<Call<()>>,
    /// The beginning of a line whose end was not written yet.
    partial_line: Vec<u8>,
}

impl MessageWriter {
    fn poll_sent(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let Some(sending) = &mut self.sending else {
            return Poll::Ready(Ok(()));
        };
        let sent = ready!(sending.as_mut().poll(context));
        self.sending = None;
        Poll::Ready(sent)
    }

    /// Begins to send a line. An error means that the line was not sent.
    fn begin_send(&mut self, line: &[u8], context: &mut Context<'_>) -> io::Result<()> {
        if !self.transport.is_connected() {
            let error = "the transport is not connected";
            return Err(io::Error::new(io::ErrorKind::NotConnected, error));
        }
        let text = std::str::from_utf8(line).map_err(io::Error::other)?;
        let message = Json::parse(text.trim_end()).map_err(io::Error::other)?;
        let transport = Arc::clone(&self.transport);
        self.sending = Some(Box::pin(guarded(
            async move { transport.send(message).await },
        )));
        match self.poll_sent(context) {
            Poll::Ready(outcome) => outcome,
            Poll::Pending => Ok(()),
        }
    }
}

impl AsyncWrite for MessageWriter {
    /// Takes one line. Waits until the previous line was sent, but not until this one was.
    fn poll_write(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        ready!(this.poll_sent(context))?;
        let Some(end) = memchr::memchr(b'\n', bytes) else {
            this.partial_line.extend_from_slice(bytes);
            return Poll::Ready(Ok(bytes.len()));
        };
        let written = end + 1;
        let line = bytes.get(..written).unwrap_or(bytes);
        if this.partial_line.is_empty() {
            this.begin_send(line, context)?;
        } else {
            let mut whole = std::mem::take(&mut this.partial_line);
            whole.extend_from_slice(line);
            this.begin_send(&whole, context)?;
        }
        Poll::Ready(Ok(written))
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.get_mut().poll_sent(context)
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.poll_flush(context)
    }
}
