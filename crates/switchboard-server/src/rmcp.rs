//! Runs servers made with the official SDK (crate `rmcp`) in this process.
//!
//! The SDK's own service loop serves each connection over an in-memory stream. All connections
//! share one handler.
//!
//! Invariants: the service loop of a connection ends when the connection ends, even during a
//! request. The work for a request ends at most [`CANCEL_GRACE`] after the request was cancelled.
//! The handler outlives connections and requests.

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
use switchboard_wire::{BoxFuture, ByteStreams, Connector, ServerInstance};
use tokio::io::{AsyncRead, DuplexStream, ReadBuf, duplex};
use tokio::task::unconstrained;
use tokio::time::sleep;
use tokio_util::sync::{CancellationToken, DropGuard};
use tokio_util::task::TaskTracker;

/// Capacity of the in-memory stream, in bytes. Each direction has its own stream.
const BUFFER_BYTES: usize = 64 * 1024;
/// How long a handler may continue after its request was cancelled, so that it can clean up.
const CANCEL_GRACE: Duration = Duration::from_secs(1);

/// A server made with the official SDK. It can be connected to any number of hosts, which share the
/// handler. Each connection has its own SDK `Peer`.
///
/// If the handler panics, only the request that it was handling fails. When a connection ends, the
/// work for its requests is dropped. When a request is cancelled or times out, the token `ct` of
/// its context is cancelled, so that the handler can clean up. The work for the request is dropped
/// one second later.
pub fn rmcp_server(handler: impl ServerHandler) -> ServerInstance {
    ServerInstance::stream(RmcpConnector {
        handler: Arc::new(handler),
        tasks: TaskTracker::new(),
    })
}

struct RmcpConnector<H> {
    handler: Arc<H>,
    tasks: TaskTracker,
}

impl<H: ServerHandler> Connector for RmcpConnector<H> {
    fn connect(&self) -> BoxFuture<'_, io::Result<ByteStreams>> {
        let disconnected = CancellationToken::new();
        // Two duplex streams, one per direction, so that either side can close one direction
        // and the other side notices it.
        let (reader, server_writer) = duplex(BUFFER_BYTES);
        let (server_reader, writer) = duplex(BUFFER_BYTES);
        let service = CancellableService {
            handler: Arc::clone(&self.handler),
            disconnected: disconnected.clone(),
        };
        let streams = (server_reader, server_writer);
        self.tasks
            .spawn(serve(service, streams, disconnected.clone()));
        let reader = GuardedReader {
            reader,
            _disconnect_on_drop: disconnected.drop_guard(),
        };
        Box::pin(ready(Ok(ByteStreams::new(reader, writer))))
    }
}

/// Runs the SDK's service loop for one connection until it ends.
async fn serve<H: ServerHandler>(
    service: CancellableService<H>,
    streams: (DuplexStream, DuplexStream),
    disconnected: CancellationToken,
) {
    match serve_server_with_ct(service, streams, disconnected).await {
        Ok(running) => drop(running.waiting().await),
        Err(error) => tracing::debug!(%error, "the rmcp server started no session"),
    }
}

/// The reading end of the client. Dropping it ends the connection.
struct GuardedReader {
    reader: DuplexStream,
    _disconnect_on_drop: DropGuard,
}

impl AsyncRead for GuardedReader {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.reader).poll_read(context, buffer)
    }
}

/// The service of one connection, which calls the shared handler. Drops the work of the handler
/// when the connection ends.
struct CancellableService<H> {
    handler: Arc<H>,
    /// Cancelled when the connection ends. The SDK does not stop running handlers at that time.
    disconnected: CancellationToken,
}

impl<H> CancellableService<H> {
    /// Runs `work` until the connection ends, and turns a panic into an error response.
    async fn until_disconnected<T>(
        &self,
        work: impl Future<Output = Result<T, ErrorData>>,
    ) -> Result<T, ErrorData> {
        tokio::select! {
            biased;
            () = self.disconnected.cancelled() => {
                Err(ErrorData::internal_error("the connection has ended", None))
            }
            // If the panic were not caught, the request would get no response.
            result = AssertUnwindSafe(work).catch_unwind() => result.unwrap_or_else(|_| {
                Err(ErrorData::internal_error("the handler panicked", None))
            }),
        }
    }
}

impl<H: ServerHandler> Service<RoleServer> for CancellableService<H> {
    async fn handle_request(
        &self,
        request: ClientRequest,
        context: RequestContext<RoleServer>,
    ) -> Result<ServerResult, ErrorData> {
        // When a request is cancelled, the SDK only cancels `ct`. A handler that ignores `ct` would
        // continue.
        let cancelled = context.ct.clone();
        let grace_expired = async {
            cancelled.cancelled().await;
            sleep(CANCEL_GRACE).await;
        };
        let work = async {
            tokio::select! {
                biased;
                result = self.handler.handle_request(request, context) => result,
                () = unconstrained(grace_expired) => {
                    Err(ErrorData::internal_error("the request was cancelled", None))
                }
            }
        };
        self.until_disconnected(work).await
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
        self.until_disconnected(work).await
    }

    fn get_info(&self) -> ServerConfig {
        ServerHandler::get_info(&*self.handler)
    }

    fn supported_protocol_versions(&self) -> Cow<'static, [ProtocolVersion]> {
        ServerHandler::supported_protocol_versions(&*self.handler)
    }
}
