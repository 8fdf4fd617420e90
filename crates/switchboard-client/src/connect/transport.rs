//! Opens the transport of a server: starts a child, opens a byte stream, or prepares an HTTP
//! client.
//!
//! Sends no MCP request. Only HTTP+SSE of 2024-11-05 sends an HTTP request, for its event stream.
//! Invariant: an error leaves no child and no task behind.

use std::sync::Arc;
use std::time::Duration;

use switchboard_process::Launch;
use switchboard_wire::{ByteStreams, Connector};
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use super::error::{ConnectError, http_connect_error};
use super::live_session::{Child, LiveSession};
use super::{ClientContext, Endpoint};
use crate::http::{HttpClient, HttpEndpoint, HttpTransport, Target};
use crate::session::http::{AuthorizedClient, Sse2024Session, StreamableHttpSession};
use crate::session::{LineSession, LocalSession, Session, TransportFailure};
use crate::stderr::StderrTail;

/// Opens the transport of an endpoint. `http_transport` is used for servers behind a URL.
pub(super) async fn open(
    endpoint: &Endpoint,
    http_transport: HttpTransport,
    context: &ClientContext,
) -> Result<LiveSession, ConnectError> {
    // Independent of the token with which the owner stops the server: stderr is read until the
    // process has exited.
    let stop = CancellationToken::new();
    let (session, child) = match endpoint {
        Endpoint::Process(launch) => {
            let (streams, child) = start_child(launch, context, &stop).await?;
            (spawn_line_session(streams, context, &stop), Some(child))
        }
        Endpoint::Stream(connector) => {
            let streams = open_stream(connector.as_ref(), context.deadlines.startup).await?;
            (spawn_line_session(streams, context, &stop), None)
        }
        Endpoint::Local(server) => {
            let (limits, tasks) = (&context.session.limits, &context.tasks);
            let opened = LocalSession::open(Arc::clone(server), limits, tasks, stop.child_token());
            let session = opened.map_err(ConnectError::Defective)?;
            (Session::Local(session), None)
        }
        Endpoint::Http(endpoint) => {
            let opening = open_http(endpoint, http_transport, context, stop.child_token());
            // Boxed because this future is larger than those of the other transports.
            (Box::pin(opening).await?, None)
        }
    };
    let deadlines = context.deadlines.clone();
    Ok(LiveSession::new(session, child, deadlines, stop))
}

/// Starts a child and a task that keeps the end of its stderr.
async fn start_child(
    launch: &Launch,
    context: &ClientContext,
    stop: &CancellationToken,
) -> Result<(ByteStreams, Child), ConnectError> {
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
    Ok((streams, Child { process, stderr }))
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
    match timeout(limit, connector.connect()).await {
        Ok(Ok(streams)) => Ok(streams),
        Ok(Err(error)) => Err(ConnectError::Connector(error.to_string())),
        Err(_) => Err(ConnectError::Connector(format!(
            "no connection within {limit:?}"
        ))),
    }
}

async fn open_http(
    endpoint: &HttpEndpoint,
    transport: HttpTransport,
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
    if transport == HttpTransport::Sse2024 {
        let opened = Sse2024Session::open(client, session, tasks, stop, &context.health).await;
        return opened.map(Session::Sse2024).map_err(http_connect_error);
    }
    let session = StreamableHttpSession::new(client, session, tasks, stop, &context.health);
    Ok(Session::StreamableHttp(session))
}
