//! A minimal client that writes and reads lines, with timeouts.

use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use serde_json::{Value, json};
use switchboard_testkit::{MemoryServer, Script, unique_tag};
use tokio::io::{
    AsyncBufReadExt as _, AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _, BufReader,
};
use tokio::process::{Child, Command};

/// Time limit of every wait for the server.
const TIMEOUT: Duration = Duration::from_secs(20);

pub(crate) async fn within<T>(what: &str, wait: impl Future<Output = T>) -> T {
    tokio::time::timeout(TIMEOUT, wait)
        .await
        .unwrap_or_else(|_| panic!("timed out waiting for {what}"))
}

/// A connection to a server that reads and writes lines.
pub(crate) struct LineClient {
    pub(crate) reader: BufReader<Box<dyn AsyncRead + Send + Unpin>>,
    pub(crate) writer: Option<Box<dyn AsyncWrite + Send + Unpin>>,
    last_id: u64,
}

impl LineClient {
    pub(crate) fn new(
        (reader, writer): (
            impl AsyncRead + Send + Unpin + 'static,
            impl AsyncWrite + Send + Unpin + 'static,
        ),
    ) -> Self {
        Self {
            reader: BufReader::new(Box::new(reader)),
            writer: Some(Box::new(writer)),
            last_id: 0,
        }
    }

    pub(crate) async fn send_line(&mut self, line: &str) -> std::io::Result<()> {
        let writer = self.writer.as_mut().expect("not closed yet");
        writer.write_all(format!("{line}\n").as_bytes()).await?;
        writer.flush().await
    }

    pub(crate) async fn send(&mut self, message: &Value) {
        self.send_line(&message.to_string()).await.unwrap();
    }

    /// Sends a request, returns its id and does not read the response.
    pub(crate) async fn request(&mut self, method: &str, params: Value) -> u64 {
        self.last_id += 1;
        let id = self.last_id;
        self.send(&json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}))
            .await;
        id
    }

    pub(crate) async fn notify(&mut self, method: &str, params: Value) {
        self.send(&json!({"jsonrpc": "2.0", "method": method, "params": params}))
            .await;
    }

    pub(crate) async fn call(&mut self, tool: &str) -> u64 {
        let params = json!({"name": tool, "arguments": {}});
        self.request("tools/call", params).await
    }

    /// The next line from the server without its line feed; `None` at EOF.
    pub(crate) async fn next_line(&mut self) -> Option<Vec<u8>> {
        let mut line = Vec::new();
        within("a line", self.reader.read_until(b'\n', &mut line))
            .await
            .unwrap();
        (!line.is_empty()).then(|| {
            line.strip_suffix(b"\n")
                .map_or(line.clone(), <[u8]>::to_vec)
        })
    }

    pub(crate) async fn next(&mut self) -> Value {
        let line = self.next_line().await.expect("another line");
        serde_json::from_slice(&line)
            .unwrap_or_else(|_| panic!("not JSON: {}", String::from_utf8_lossy(&line)))
    }

    /// All bytes from the server until EOF.
    pub(crate) async fn rest(&mut self) -> Vec<u8> {
        let mut rest = Vec::new();
        within("EOF", self.reader.read_to_end(&mut rest))
            .await
            .unwrap();
        rest
    }

    /// Sends a request and returns the result of its response. If the response is an error, returns
    /// the whole response.
    pub(crate) async fn request_result(&mut self, method: &str, params: Value) -> Value {
        let id = self.request(method, params).await;
        let mut response = self.next().await;
        assert_eq!(response["id"], id);
        let result = response.get_mut("result").map(Value::take);
        result.unwrap_or(response)
    }

    /// Calls a tool and returns the text of its result.
    pub(crate) async fn call_text(&mut self, tool: &str, arguments: Value) -> String {
        let params = json!({"name": tool, "arguments": arguments});
        let result = self.request_result("tools/call", params).await;
        result["content"][0]["text"].as_str().unwrap().to_owned()
    }

    /// Sends a ping and asserts that the next message is its response. This shows that the server
    /// sent no other message before the response.
    pub(crate) async fn assert_next_is_pong(&mut self) {
        assert_eq!(self.request_result("ping", json!({})).await, json!({}));
    }
}

/// Opens a connection to a server in memory.
pub(crate) fn open(server: &MemoryServer) -> LineClient {
    LineClient::new(server.open())
}

/// A scripted server as a child process. On drop, the server is killed, but not its children.
pub(crate) struct ChildServer {
    pub(crate) tag: String,
    pub(crate) client: LineClient,
    pub(crate) child: Child,
}

pub(crate) fn start(script: &Script) -> ChildServer {
    let tag = unique_tag();
    let mut child = Command::from(script.command(&tag))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .process_group(0)
        .kill_on_drop(true)
        .spawn()
        .unwrap();
    let client = LineClient::new((child.stdout.take().unwrap(), child.stdin.take().unwrap()));
    ChildServer { tag, client, child }
}

impl ChildServer {
    pub(crate) fn pid(&self) -> i32 {
        i32::try_from(self.child.id().expect("not waited for yet")).unwrap()
    }

    pub(crate) async fn wait(&mut self) -> ExitStatus {
        within("the exit", self.child.wait()).await.unwrap()
    }

    pub(crate) async fn close_and_wait(&mut self) -> ExitStatus {
        self.client.writer = None;
        self.wait().await
    }
}

/// The `_meta` that every request of the modern era needs.
pub(crate) fn modern_meta() -> Value {
    json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": {},
    })
}

/// Returns parameters with the `_meta` of a modern-era request added.
pub(crate) fn modern(params: &Value) -> Value {
    let mut params = params.clone();
    params["_meta"] = modern_meta();
    params
}
