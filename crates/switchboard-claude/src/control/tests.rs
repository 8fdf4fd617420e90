//! The protocol over a stream in memory, with a CLI that is played by the test.

use serde_json::json;
use switchboard::mcp::Json;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, DuplexStream, ReadHalf, WriteHalf};

use super::*;
use crate::elicitation::Elicitations;
use crate::error::Loss;
use crate::hooks::Hooks;
use crate::options::Options;
use crate::servers::McpServerConfig;
use switchboard::inprocess::InProcessServer;

mod endings;
mod requests;

/// The other end, as the test plays it.
struct Cli {
    lines: tokio::io::Lines<BufReader<ReadHalf<DuplexStream>>>,
    output: WriteHalf<DuplexStream>,
}

impl Cli {
    async fn write(&mut self, text: &str) {
        self.output.write_all(text.as_bytes()).await.unwrap();
    }

    async fn say(&mut self, message: Value) {
        self.write(&format!("{message}\n")).await;
    }

    async fn ask(&mut self, id: &str, request: Value) {
        self.say(json!({"type": "control_request", "request_id": id, "request": request}))
            .await;
    }

    async fn mcp(&mut self, id: &str, message: Value) {
        let request = json!({"subtype": "mcp_message", "server_name": "s", "message": message});
        self.ask(id, request).await;
    }

    /// The next line of the host's; `None` at the end of the input.
    async fn read(&mut self) -> Option<Value> {
        let line = self.lines.next_line().await.unwrap()?;
        Some(serde_json::from_str(&line).unwrap())
    }

    /// The next line is a request of this subtype; its id.
    async fn awaits(&mut self, subtype: &str) -> String {
        let request = self.read().await.unwrap();
        assert_eq!(request["request"]["subtype"], subtype, "{request}");
        request["request_id"].as_str().unwrap().to_owned()
    }

    async fn answer(&mut self, id: &str, payload: Value) {
        let response = json!({"subtype": "success", "request_id": id, "response": payload});
        self.say(json!({"type": "control_response", "response": response}))
            .await;
    }
}

fn settings() -> Settings {
    Settings {
        time_for_requests: Duration::from_secs(60),
        patience: Duration::from_secs(60),
        longest_line: 64 * 1024,
        most_waiting: 128 * 1024,
        ends_with_turn: false,
    }
}

fn connect(settings: Settings) -> (Control, Cli) {
    let server = InProcessServer::new("s", "1");
    let options = Options::new().mcp_server("s", McpServerConfig::sdk(server));
    connect_with(&options, settings)
}

fn connect_with(options: &Options, settings: Settings) -> (Control, Cli) {
    let (here, there) = tokio::io::duplex(4096);
    let (reader, writer) = tokio::io::split(here);
    let (input, output) = tokio::io::split(there);
    let (servers, notices) = SdkServers::new(options.sdk_servers(), options.time_for_calls());
    let desk = Desk {
        servers,
        permissions: options.permissions(),
        hooks: Hooks::new(),
        elicitations: Elicitations::new(None),
    };
    let link = Link {
        reader: Box::new(reader),
        writer: Box::new(writer),
        stderr: None,
        secrets: Secrets::default(),
        child: None,
        files: None,
    };
    let control = Control::spawn(link, desk, notices, settings);
    let lines = BufReader::new(input).lines();
    (control, Cli { lines, output })
}

fn ping(id: u64) -> Value {
    json!({"jsonrpc": "2.0", "id": id, "method": "ping"})
}

fn payload(answer: &Value) -> &Value {
    assert_eq!(answer["type"], "control_response", "{answer}");
    assert_eq!(answer["response"]["subtype"], "success", "{answer}");
    &answer["response"]["response"]
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
