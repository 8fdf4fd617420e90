//! Tests of the control protocol over in-memory streams. Each test plays the part of the CLI.

use serde_json::json;
use switchboard::mcp::Json;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, DuplexStream, ReadHalf, WriteHalf};

use super::*;
use crate::elicitation::ElicitationQueues;
use crate::error::LossReason;
use crate::hooks::Hooks;
use crate::options::Options;
use crate::servers::McpServerConfig;
use switchboard::in_process::InProcessServer;

mod requests;
mod shutdown;

/// Plays the CLI in a test. Holds the CLI's ends of stdin and stdout.
struct Cli {
    lines: tokio::io::Lines<BufReader<ReadHalf<DuplexStream>>>,
    output: WriteHalf<DuplexStream>,
}

impl Cli {
    async fn write(&mut self, text: &str) {
        self.output.write_all(text.as_bytes()).await.unwrap();
    }

    async fn send(&mut self, message: Value) {
        self.write(&format!("{message}\n")).await;
    }

    async fn request(&mut self, id: &str, request: Value) {
        self.send(json!({"type": "control_request", "request_id": id, "request": request}))
            .await;
    }

    async fn server_message(&mut self, id: &str, message: Value) {
        let request = json!({"subtype": "mcp_message", "server_name": "s", "message": message});
        self.request(id, request).await;
    }

    /// Reads the next line that this program sends to the CLI. Returns `None` when the input of the
    /// CLI was closed.
    async fn read(&mut self) -> Option<Value> {
        let line = self.lines.next_line().await.unwrap()?;
        Some(serde_json::from_str(&line).unwrap())
    }

    /// Reads the next line, asserts that it is a request with this subtype, and returns its id.
    async fn expect_request(&mut self, subtype: &str) -> String {
        let request = self.read().await.unwrap();
        assert_eq!(request["request"]["subtype"], subtype, "{request}");
        request["request_id"].as_str().unwrap().to_owned()
    }

    async fn respond(&mut self, id: &str, payload: Value) {
        let response = json!({"subtype": "success", "request_id": id, "response": payload});
        self.send(json!({"type": "control_response", "response": response}))
            .await;
    }
}

fn settings() -> ControlSettings {
    ControlSettings {
        request_timeout: Duration::from_secs(60),
        write_timeout: Duration::from_secs(60),
        max_line_bytes: 64 * 1024,
        max_queued_bytes: 128 * 1024,
        close_after_turn: false,
    }
}

fn connect(settings: ControlSettings) -> (Control, Cli) {
    let server = InProcessServer::new("s", "1");
    let options = Options::new().mcp_server("s", McpServerConfig::sdk(server));
    connect_with(&options, settings)
}

fn connect_with(options: &Options, settings: ControlSettings) -> (Control, Cli) {
    let (host, cli) = tokio::io::duplex(4096);
    let (reader, writer) = tokio::io::split(host);
    let (input, output) = tokio::io::split(cli);
    let (servers, notifications) =
        InProcessServers::new(options.in_process_servers(), options.call_timeout);
    let router = RequestRouter {
        servers,
        permissions: options.permissions(),
        hooks: Hooks::new(),
        elicitations: ElicitationQueues::new(None),
    };
    let streams = CliStreams {
        reader: Box::new(reader),
        writer: Box::new(writer),
        stderr: None,
        secrets: SecretMask::default(),
        child: None,
        files: None,
    };
    let control = Control::spawn(streams, router, notifications, settings);
    let lines = BufReader::new(input).lines();
    (control, Cli { lines, output })
}

fn ping(id: u64) -> Value {
    json!({"jsonrpc": "2.0", "id": id, "method": "ping"})
}

fn payload(response: &Value) -> &Value {
    assert_eq!(response["type"], "control_response", "{response}");
    assert_eq!(response["response"]["subtype"], "success", "{response}");
    &response["response"]["response"]
}

fn result(is_error: bool) -> Value {
    json!({"type": "result", "subtype": "success", "is_error": is_error})
}

fn state(state: &str) -> Value {
    json!({
        "type": "system", "subtype": "session_state_changed", "state": state,
        "sdk_host_only": true,
    })
}
