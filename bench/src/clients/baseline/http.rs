//! The baseline over HTTP: hyper connections without a pool, one per call in flight, on one thread.
//!
//! Each connection carries one call at a time and is reused for the next. Calls use the latest
//! protocol version with its required headers and `_meta`. Parts that are equal in each call are
//! built once.

use std::time::{Duration, Instant};

use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::client::conn::http1::{self, SendRequest};
use hyper::header::{ACCEPT, CONTENT_TYPE, HOST, HeaderMap, HeaderName, HeaderValue};
use hyper::{Method, Request, Uri};
use hyper_util::rt::TokioIo;
use serde::Serialize;
use serde_json::Value;
use serde_json::value::RawValue;
use tokio::net::TcpStream;

use super::{CallResult, Response};
use crate::clients::remote::RemoteServer;
use crate::job::{Figures, Stopwatch, Work};

const META: &str = r#"{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientInfo":{"name":"baseline","version":"1"},"io.modelcontextprotocol/clientCapabilities":{}}"#;

pub fn calls(work: &Work) -> Figures {
    tokio::runtime::Builder::new_current_thread()
        .enable_io()
        .build()
        .expect("the runtime starts")
        .block_on(measure_calls(work))
}

async fn measure_calls(work: &Work) -> Figures {
    let server = RemoteServer::start();
    let mut connections = Vec::new();
    for _ in 0..work.in_flight {
        connections.push(Connection::open(&server, work).await);
    }
    let (connections, _) = make_calls(connections, work.warm_up).await;
    let stopwatch = Stopwatch::start();
    let (_, latencies) = make_calls(connections, work.calls).await;
    stopwatch.stop(latencies)
}

/// Makes calls on all connections concurrently, one after the other on each.
async fn make_calls(
    connections: Vec<Connection>,
    calls: usize,
) -> (Vec<Connection>, Vec<Duration>) {
    let each = calls / connections.len();
    let tasks = connections.into_iter().map(|mut connection| {
        tokio::spawn(async move {
            let mut latencies = Vec::with_capacity(each);
            for _ in 0..each {
                let began = Instant::now();
                connection.call().await;
                latencies.push(began.elapsed());
            }
            (connection, latencies)
        })
    });
    let tasks: Vec<_> = tasks.collect();
    let (mut connections, mut latencies) = (Vec::new(), Vec::with_capacity(calls));
    for task in tasks {
        let (connection, own) = task.await.expect("the task does not panic");
        connections.push(connection);
        latencies.extend(own);
    }
    (connections, latencies)
}

#[derive(Serialize)]
struct CallParams<'a> {
    name: &'a str,
    arguments: &'a Value,
    #[serde(rename = "_meta")]
    meta: &'a RawValue,
}

struct Connection {
    sender: SendRequest<Full<Bytes>>,
    uri: Uri,
    headers: HeaderMap,
    tool: String,
    arguments: Value,
    meta: Box<RawValue>,
    /// The body of the response; the buffer is reused.
    response_body: Vec<u8>,
    next_id: u64,
}

impl Connection {
    async fn open(server: &RemoteServer, work: &Work) -> Self {
        let url: Uri = server.url().parse().expect("a URL");
        let authority = url.authority().expect("the URL has a host").as_str();
        let stream = TcpStream::connect(authority)
            .await
            .expect("the server listens");
        stream.set_nodelay(true).expect("TCP_NODELAY can be set");
        let (sender, connection) = http1::handshake(TokioIo::new(stream))
            .await
            .expect("a connection");
        tokio::spawn(async move { drop(connection.await) });

        let fixed = HeaderValue::from_static;
        let named = HeaderName::from_static;
        let text = |text: &str| HeaderValue::from_str(text).expect("plain text");
        let headers = HeaderMap::from_iter([
            (HOST, text(authority)),
            (ACCEPT, fixed("application/json, text/event-stream")),
            (CONTENT_TYPE, fixed("application/json")),
            (named("mcp-protocol-version"), fixed("2026-07-28")),
            (named("mcp-method"), fixed("tools/call")),
            (named("mcp-name"), text(&work.tool)),
        ]);
        Self {
            sender,
            uri: url.path().parse().expect("a path"),
            headers,
            tool: work.tool.clone(),
            arguments: work.arguments(),
            meta: RawValue::from_string(META.to_owned()).expect("JSON"),
            response_body: Vec::new(),
            next_id: 0,
        }
    }

    async fn call(&mut self) {
        let id = self.next_id;
        self.next_id += 1;
        let message = super::Request {
            jsonrpc: "2.0",
            id,
            method: "tools/call",
            params: CallParams {
                name: &self.tool,
                arguments: &self.arguments,
                meta: &self.meta,
            },
        };
        let message = serde_json::to_vec(&message).expect("the value is JSON");
        let mut request = Request::new(Full::from(message));
        *request.method_mut() = Method::POST;
        *request.uri_mut() = self.uri.clone();
        *request.headers_mut() = self.headers.clone();

        self.sender.ready().await.expect("the connection is open");
        let response = self.sender.send_request(request).await;
        let response = response.expect("the server responds");
        assert!(response.status().is_success());
        let mut body = response.into_body();
        self.response_body.clear();
        while let Some(frame) = body.frame().await {
            if let Ok(data) = frame.expect("the body is complete").into_data() {
                self.response_body.extend_from_slice(&data);
            }
        }
        let response: Response<CallResult> =
            serde_json::from_slice(&self.response_body).expect("the call succeeds");
        assert_eq!(response.id, id);
        let text: usize = response.result.content.iter().map(|it| it.text.len()).sum();
        assert!(text > 0 || response.result.structured_content.is_some());
    }
}
