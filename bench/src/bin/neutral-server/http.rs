//! The neutral server over streamable HTTP, with JSON responses and keep-alive connections.
//!
//! It prints its URL as the first line and serves until its stdin ends. It supports both eras: a
//! client may start with `initialize` or with `server/discover`. It has no sessions and no streams.

use std::convert::Infallible;
use std::io::{self, Read};
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::header::{CONTENT_TYPE, HeaderValue};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use tokio::net::TcpListener;
use tokio::sync::oneshot;

use super::Server;

const JSON: HeaderValue = HeaderValue::from_static("application/json");

const DISCOVERED: &str = r#"{"resultType":"complete","supportedVersions":["2026-07-28"],"capabilities":{"tools":{}},"_meta":{"io.modelcontextprotocol/serverInfo":{"name":"neutral","version":"1"}}}"#;

/// Uses one thread for all connections, because client and server may share one core.
pub fn serve(server: Server) -> io::Result<()> {
    tokio::runtime::Builder::new_current_thread()
        .enable_io()
        .build()?
        .block_on(accept(server))
}

async fn accept(server: Server) -> io::Result<()> {
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    println!("http://{}/mcp", listener.local_addr()?);
    let server = Arc::new(Mutex::new(server));
    let mut stdin_closed = stdin_end();
    loop {
        let (stream, _) = tokio::select! {
            accepted = listener.accept() => accepted?,
            _ = &mut stdin_closed => return Ok(()),
        };
        stream.set_nodelay(true)?;
        let server = Arc::clone(&server);
        let service = service_fn(move |request| respond(Arc::clone(&server), request));
        let connection = http1::Builder::new().serve_connection(TokioIo::new(stream), service);
        // Ignore errors: clients may disconnect at any time.
        tokio::spawn(async move { drop(connection.await) });
    }
}

/// Completes at the end of stdin. The parent process closes stdin to end this server.
fn stdin_end() -> oneshot::Receiver<()> {
    let (sender, receiver) = oneshot::channel();
    std::thread::spawn(move || {
        let _ = io::stdin().lock().read_to_end(&mut Vec::new());
        let _ = sender.send(());
    });
    receiver
}

async fn respond(
    server: Arc<Mutex<Server>>,
    request: Request<Incoming>,
) -> Result<Response<Full<Bytes>>, Infallible> {
    if request.method() != Method::POST {
        return Ok(empty(StatusCode::METHOD_NOT_ALLOWED));
    }
    let Ok(body) = request.into_body().collect().await else {
        return Ok(empty(StatusCode::BAD_REQUEST));
    };
    let mut server = server.lock().expect("no request panicked");
    Ok(server.respond(&body.to_bytes()))
}

impl Server {
    fn respond(&mut self, message: &[u8]) -> Response<Full<Bytes>> {
        let Ok(request) = serde_json::from_slice::<super::Request<'_>>(message) else {
            return empty(StatusCode::BAD_REQUEST);
        };
        let Some(id) = request.id else {
            return empty(StatusCode::ACCEPTED);
        };
        let body = match request.method {
            "server/discover" => {
                format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{DISCOVERED}}}"#).into_bytes()
            }
            _ => {
                let mut body = Vec::new();
                self.write_response(&mut body, id.get(), &request)
                    .expect("writing to a Vec succeeds");
                body
            }
        };
        let mut response = Response::new(Full::from(body));
        response.headers_mut().insert(CONTENT_TYPE, JSON);
        response
    }
}

fn empty(status: StatusCode) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::default());
    *response.status_mut() = status;
    response
}
