//! Servers made with the official SDK (the crate `rmcp`), in this process.
//!
//! Every connection is served by the SDK's own loop, over streams in memory; all of them share the one
//! handler. Invariant: whatever serves a connection ends with it, also in the middle of a request, and
//! whatever answers a request ends soon after nobody waits for that; the handler lives on.

use std::borrow::Cow;
use std::future::ready;
use std::io;
use std::panic::AssertUnwindSafe;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use ::rmcp::model::{
    ClientNotification, ClientRequest, ProtocolVersion, ServerConfig, ServerResult,
};
use ::rmcp::service::{NotificationContext, RequestContext, Service, serve_server_with_ct};
use ::rmcp::{ErrorData, RoleServer, ServerHandler};
use futures_util::FutureExt;
use tokio::io::{AsyncRead, DuplexStream, ReadBuf, duplex};
use tokio::task::unconstrained;
use tokio::time::sleep;
use tokio_util::sync::{CancellationToken, DropGuard};
use tokio_util::task::TaskTracker;

use crate::interact::BoxFuture;
use crate::transport::memory::ServerInstance;
use crate::transport::{ByteStreams, Connector};

/// How much may be on its way in one direction, in bytes.
const BUFFER_BYTES: usize = 64 * 1024;
/// How long a handler may take to tidy up after its request was cancelled.
const TIDYING: Duration = Duration::from_secs(1);

/// A server made with the official SDK, as it is, to be connected to any number of hosts. They share
/// the handler; each connection has a peer of its own.
///
/// A handler that panics fails its one request. What a handler does for a connection that is over is
/// dropped; so is, a second later, what it does for a request that was cancelled or whose time was up.
/// It may tidy up within that second: the `ct` of its request tells it.
pub fn rmcp_server(handler: impl ServerHandler) -> ServerInstance {
    ServerInstance::stream(Served {
        handler: Arc::new(handler),
        tasks: TaskTracker::new(),
    })
}

struct Served<H> {
    handler: Arc<H>,
    tasks: TaskTracker,
}

impl<H: ServerHandler> Connector for Served<H> {
    fn connect(&self) -> BoxFuture<'_, io::Result<ByteStreams>> {
        let stop = CancellationToken::new();
        // One for each direction, so that the end of either is seen.
        let (reader, their_writer) = duplex(BUFFER_BYTES);
        let (their_reader, writer) = duplex(BUFFER_BYTES);
        let service = Tethered {
            handler: Arc::clone(&self.handler),
            stop: stop.clone(),
        };
        let streams = (their_reader, their_writer);
        self.tasks.spawn(serve(service, streams, stop.clone()));
        let reader = Tied {
            reader,
            _end: stop.drop_guard(),
        };
        Box::pin(ready(Ok(ByteStreams::new(reader, writer))))
    }
}

/// Runs the SDK's loop until the connection is over.
async fn serve<H: ServerHandler>(
    service: Tethered<H>,
    streams: (DuplexStream, DuplexStream),
    stop: CancellationToken,
) {
    match serve_server_with_ct(service, streams, stop).await {
        Ok(running) => drop(running.waiting().await),
        Err(error) => tracing::debug!(%error, "no session came about"),
    }
}

/// What we read from the server; when it is let go of, the connection is over.
struct Tied {
    reader: DuplexStream,
    _end: DropGuard,
}

impl AsyncRead for Tied {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.reader).poll_read(context, buffer)
    }
}

/// The handler for one connection.
struct Tethered<H> {
    handler: Arc<H>,
    /// Cancelled when the connection is over. The SDK leaves it to its handlers whether they stop then.
    stop: CancellationToken,
}

impl<H> Tethered<H> {
    async fn tethered<T>(
        &self,
        work: impl Future<Output = Result<T, ErrorData>>,
    ) -> Result<T, ErrorData> {
        tokio::select! {
            biased;
            () = self.stop.cancelled() => {
                Err(ErrorData::internal_error("the connection is over", None))
            }
            // Nobody would ever answer otherwise.
            outcome = AssertUnwindSafe(work).catch_unwind() => outcome.unwrap_or_else(|_| {
                Err(ErrorData::internal_error("the handler panicked", None))
            }),
        }
    }
}

impl<H: ServerHandler> Service<RoleServer> for Tethered<H> {
    async fn handle_request(
        &self,
        request: ClientRequest,
        context: RequestContext<RoleServer>,
    ) -> Result<ServerResult, ErrorData> {
        // The SDK only tells the handler, which may be one that does not listen.
        let cancelled = context.ct.clone();
        let too_late = async {
            cancelled.cancelled().await;
            sleep(TIDYING).await;
        };
        let work = async {
            tokio::select! {
                biased;
                outcome = self.handler.handle_request(request, context) => outcome,
                () = unconstrained(too_late) => {
                    Err(ErrorData::internal_error("the request was cancelled", None))
                }
            }
        };
        self.tethered(work).await
    }

    async fn handle_notification(
        &self,
        notification: ClientNotification,
        context: NotificationContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        let work = async {
            self.handler
                .handle_notification(notification, context)
                .await
        };
        self.tethered(work).await
    }

    fn get_info(&self) -> ServerConfig {
        ServerHandler::get_info(&*self.handler)
    }

    fn supported_protocol_versions(&self) -> Cow<'static, [ProtocolVersion]> {
        ServerHandler::supported_protocol_versions(&*self.handler)
    }
}
