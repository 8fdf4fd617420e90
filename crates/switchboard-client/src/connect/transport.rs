//! Opens the transport of a server: starts a child, opens a byte stream, or prepares an HTTP
//! client.
//!
//! This module sends no MCP request. Only for HTTP+SSE of 2024-11-05, it sends one HTTP request,
//! which opens the event stream. Invariant: an error leaves no child and no task behind.

use std::io;
use std::sync::Arc;
use std::time::Duration;

#[cfg(feature = "stdio")]
use switchboard_process::Launch;
use switchboard_wire::{ByteStreams, Connector};
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use super::error::ConnectError;
#[cfg(feature = "http")]
use super::error::http_connect_error;
use super::live_session::LiveSession;
use super::{ClientContext, Endpoint};
#[cfg(feature = "http")]
use crate::http::{HttpClient, HttpEndpoint, HttpTransport, Target};
use crate::message_transport::MessageTransport;
#[cfg(feature = "http")]
use crate::session::TransportFailure;
#[cfg(feature = "http")]
use crate::session::http::{AuthorizedClient, Sse2024Session, StreamableHttpSession};
use crate::session::{LineSession, LocalSession, Session};
#[cfg(feature = "stdio")]
use crate::stderr::StderrTail;

/// Opens the transport of an endpoint. Returns a session before its handshake.
pub(super) async fn open(
    endpoint: &Endpoint,
    context: &ClientContext,
) -> Result<LiveSession, ConnectError> {
    // A separate token, which only the `LiveSession` cancels: the task that reads stderr must run
    // until the process has exited.
    let stop = CancellationToken::new();
    let session = match endpoint {
        #[cfg(feature = "stdio")]
        Endpoint::Process(launch) => return open_child(launch, context, stop).await,
        Endpoint::Stream(connector) => {
            let streams = open_stream(connector.as_ref(), context.deadlines.startup).await?;
            spawn_line_session(streams, context, &stop)
        }
        Endpoint::Messages(transport) => {
            let streams = open_messages(transport, context, &stop).await?;
            spawn_line_session(streams, context, &stop)
        }
        Endpoint::Local(server) => {
            let (limits, tasks) = (&context.session.limits, &context.tasks);
            let opened = LocalSession::open(Arc::clone(server), limits, tasks, stop.child_token());
            Session::Local(opened.map_err(ConnectError::Defective)?)
        }
        #[cfg(feature = "http")]
        Endpoint::Http(endpoint) => {
            // Boxed because this future is larger than those of the other transports.
            Box::pin(open_http(endpoint, context, stop.child_token())).await?
        }
    };
    Ok(LiveSession::new(session, context.deadlines.clone(), stop))
}

/// Starts a child process, a session over its stdin and stdout, and a task that keeps the end of
/// its stderr.
#[cfg(feature = "stdio")]
async fn open_child(
    launch: &Launch,
    context: &ClientContext,
    stop: CancellationToken,
) -> Result<LiveSession, ConnectError> {
    let (process, pipes) = context.supervisor.start(launch.clone()).await?;
    let stderr = StderrTail::spawn(
        pipes.stderr,
        context.session.limits.stderr_tail_bytes,
        context.session.redactor.clone(),
        &context.tasks,
        stop.clone(),
    );
    let streams = ByteStreams {
        reader: Box::new(pipes.stdout),
        writer: Box::new(pipes.stdin),
    };
    let session = spawn_line_session(streams, context, &stop);
    let live = LiveSession::new(session, context.deadlines.clone(), stop);
    Ok(live.with_child(process, stderr))
}

fn spawn_line_session(
    streams: ByteStreams,
    context: &ClientContext,
    stop: &CancellationToken,
) -> Session {
    let session = context.session.clone();
    let session = LineSession::spawn(streams, session, &context.tasks, stop.child_token());
    Session::Line(session)
}

async fn open_stream(
    connector: &dyn Connector,
    limit: Duration,
) -> Result<ByteStreams, ConnectError> {
    connected_within(limit, connector.connect()).await
}

async fn open_messages(
    transport: &MessageTransport,
    context: &ClientContext,
    stop: &CancellationToken,
) -> Result<ByteStreams, ConnectError> {
    let limit = context.deadlines.startup;
    let close_limit = context.deadlines.exit_after_eof;
    let open = transport.open(close_limit, &context.tasks, stop.clone());
    connected_within(limit, open).await
}

/// Waits for a connection of the program, at most `limit`.
async fn connected_within(
    limit: Duration,
    connect: impl Future<Output = io::Result<ByteStreams>>,
) -> Result<ByteStreams, ConnectError> {
    match timeout(limit, connect).await {
        Ok(Ok(streams)) => Ok(streams),
        Ok(Err(error)) => Err(ConnectError::Connector(error.to_string())),
        Err(_) => Err(ConnectError::Connector(format!(
            "no connection within {limit:?}"
        ))),
    }
}

#[cfg(feature = "http")]
async fn open_http(
    endpoint: &HttpEndpoint,
    context: &ClientContext,
    stop: CancellationToken,
) -> Result<Session, ConnectError> {
    let target = Target {
        url: endpoint.url.clone(),
        tls: endpoint.tls.clone(),
    };
    let network = Arc::clone(&context.network);
    let tasks = &context.tasks;
    let client = HttpClient::new(target, network, context.deadlines.connect, tasks.clone())
        .map_err(|error| ConnectError::Unreachable(TransportFailure::from(&error)))?;
    let (server, url) = (context.session.server.clone(), endpoint.url.clone());
    let client = AuthorizedClient::new(server, url, client, Arc::clone(&endpoint.auth));
    let session = context.session.clone();
    if endpoint.transport == HttpTransport::Sse2024 {
        let opened = Sse2024Session::open(client, session, tasks, stop, &context.health).await;
        return opened.map(Session::Sse2024).map_err(http_connect_error);
    }
    let session = StreamableHttpSession::new(client, session, tasks, stop, &context.health);
    Ok(Session::StreamableHttp(session))
}
