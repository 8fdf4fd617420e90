//! The least client: it writes lines and reads lines, with a bound on how long it waits.

use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use serde_json::{Value, json};
use switchboard_testkit::{MemoryServer, Script, unique_tag};
use tokio::io::{
    AsyncBufReadExt as _, AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _, BufReader,
};
use tokio::process::{Child, Command};

/// How long a real process may take for anything; on a paused clock, as long as nothing can happen.
const PATIENCE: Duration = Duration::from_secs(20);

pub(crate) async fn within<T>(what: &str, wait: impl Future<Output = T>) -> T {
    tokio::time::timeout(PATIENCE, wait)
        .await
        .unwrap_or_else(|_| panic!("waited too long for {what}"))
}

/// Both directions of a connection.
pub(crate) struct Wire {
    pub(crate) reader: BufReader<Box<dyn AsyncRead + Send + Unpin>>,
    pub(crate) writer: Option<Box<dyn AsyncWrite + Send + Unpin>>,
    last_id: u64,
}

impl Wire {
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

    /// Sends a request and returns its id.
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

    /// The next line, without its line feed; none at the end.
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
        let line = self.next_line().await.expect("the server still speaks");
        serde_json::from_slice(&line)
            .unwrap_or_else(|_| panic!("not JSON: {}", String::from_utf8_lossy(&line)))
    }

    /// Everything until the end.
    pub(crate) async fn rest(&mut self) -> Vec<u8> {
        let mut rest = Vec::new();
        within("the end", self.reader.read_to_end(&mut rest))
            .await
            .unwrap();
        rest
    }

    /// Sends a request and returns its result, or else the whole response.
    pub(crate) async fn ask(&mut self, method: &str, params: Value) -> Value {
        let id = self.request(method, params).await;
        let mut response = self.next().await;
        assert_eq!(response["id"], id);
        let result = response.get_mut("result").map(Value::take);
        result.unwrap_or(response)
    }

    /// Calls a tool and returns the text it answers with.
    pub(crate) async fn call_text(&mut self, tool: &str, arguments: Value) -> String {
        let params = json!({"name": tool, "arguments": arguments});
        let result = self.ask("tools/call", params).await;
        result["content"][0]["text"].as_str().unwrap().to_owned()
    }

    /// Asserts that the server has said everything it was going to say before this.
    pub(crate) async fn assert_next_is_pong(&mut self) {
        assert_eq!(self.ask("ping", json!({})).await, json!({}));
    }
}

/// A connection to a server in memory.
pub(crate) fn open(server: &MemoryServer) -> Wire {
    Wire::new(server.open())
}

/// A real child. It is killed if the test fails; what it started is not.
pub(crate) struct Running {
    pub(crate) tag: String,
    pub(crate) wire: Wire,
    pub(crate) child: Child,
}

pub(crate) fn start(script: &Script) -> Running {
    start_with(script, |_| {})
}

pub(crate) fn start_with(
    script: &Script,
    change: impl FnOnce(&mut std::process::Command),
) -> Running {
    let tag = unique_tag();
    let mut command = script.command(&tag);
    change(&mut command);
    let mut child = Command::from(command)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .process_group(0)
        .kill_on_drop(true)
        .spawn()
        .unwrap();
    let wire = Wire::new((child.stdout.take().unwrap(), child.stdin.take().unwrap()));
    Running { tag, wire, child }
}

impl Running {
    pub(crate) fn pid(&self) -> i32 {
        i32::try_from(self.child.id().expect("not waited for yet")).unwrap()
    }

    pub(crate) async fn wait(&mut self) -> ExitStatus {
        within("the exit", self.child.wait()).await.unwrap()
    }

    pub(crate) async fn close_and_wait(&mut self) -> ExitStatus {
        self.wire.writer = None;
        self.wait().await
    }

    pub(crate) async fn stderr(&mut self) -> String {
        let mut text = String::new();
        let mut stderr = self.child.stderr.take().unwrap();
        within("the end of stderr", stderr.read_to_string(&mut text))
            .await
            .unwrap();
        text
    }
}

/// The `_meta` of a modern request.
pub(crate) fn modern_meta() -> Value {
    json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": {},
    })
}

/// The parameters of a modern request.
pub(crate) fn modern(params: &Value) -> Value {
    let mut params = params.clone();
    params["_meta"] = modern_meta();
    params
}
