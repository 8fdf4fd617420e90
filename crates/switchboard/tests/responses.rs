//! Responses to tool calls: errors, invalid and oversized responses, structured content.

#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "a failed expectation fails the test"
)]

mod common;

use std::future::IntoFuture as _;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use common::{InMemory, host_with, permissive};
use serde_json::{Value, json};
use switchboard::call::{Delivery, InvalidMessage};
use switchboard::in_process::{ByteStreams, Connector};
use switchboard::interaction::BoxFuture;
use switchboard::limits::Limits;
use switchboard::{CallContext, CallError, Host, Readiness};
use switchboard_testkit::{MemoryServer, Script, Step};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::sync::{Mutex, mpsc};
use tokio::time::Instant;
use tokio_util::task::TaskTracker;

fn echo_and_add() -> Script {
    Script::legacy().tool("echo").tool("add")
}

#[tokio::test(start_paused = true)]
async fn invalid_input_schema_only_disables_validation() {
    let broken = json!({"name": "odd", "inputSchema": {"type": "no such type"}});
    let script = Script::legacy()
        .raw_tool(broken)
        .on("tools/call odd", [Step::text("fine")]);
    let (host, _) = host_with(script).await;
    let output = host
        .call("mcp__s__odd", json!({"anything": 1}))
        .await
        .unwrap();
    assert_eq!(output.to_text(), "fine");
    let notes = host.server_details("s").unwrap().notes;
    assert_eq!(notes.len(), 1, "{notes:?}");
    assert!(
        notes[0].starts_with("tool odd: arguments are not validated"),
        "{notes:?}"
    );
}

#[tokio::test(start_paused = true)]
async fn json_rpc_error_message_is_reported() {
    let script = Script::legacy()
        .tool("work")
        .on("tools/call", [Step::error(-32000, "not today")]);
    let (host, _) = host_with(script).await;
    let error = host.call("mcp__s__work", json!({})).await.unwrap_err();
    assert_eq!(
        error.to_string(),
        "server s returned an error for work: not today (code -32000)"
    );
    assert_eq!(error.delivery(), Delivery::Answered);
}

#[tokio::test(start_paused = true)]
async fn tool_failure_is_output_not_error() {
    let failing = json!({"content": [{"type": "text", "text": "no such file"}], "isError": true});
    let script = Script::legacy()
        .tool("work")
        .on("tools/call", [Step::Reply(failing)]);
    let (host, _) = host_with(script).await;
    let output = host.call("mcp__s__work", json!({})).await.unwrap();
    assert!(output.is_error);
    assert_eq!(output.to_text(), "no such file");
}

#[tokio::test(start_paused = true)]
async fn responses_with_wrong_ids_are_ignored() {
    let ok = r#"{"jsonrpc":"2.0","id":$ID,"result":{"content":[{"type":"text","text":"right"}]}}"#;
    let wrong = |id: &str| {
        format!(
            r#"{{"jsonrpc":"2.0","id":{id},"result":{{"content":[{{"type":"text","text":"wrong"}}]}}}}"#
        )
    };
    let mut steps: Vec<_> = ["999", "\"$ID\"", "$ID.0", "null", "-1"]
        .map(|id| Step::raw(&wrong(id)))
        .into();
    steps.extend([
        Step::raw(ok),
        Step::raw(&wrong("$ID")),
        Step::raw(&wrong("$ID")),
    ]);
    let (host, _) = host_with(Script::legacy().tool("work").on("tools/call", steps)).await;
    for _ in 0..3 {
        let output = host.call("mcp__s__work", json!({})).await.unwrap();
        assert_eq!(output.to_text(), "right");
    }
}

#[tokio::test(start_paused = true)]
async fn invalid_response_fails_only_its_call() {
    let id = r#""jsonrpc":"2.0","id":$ID"#;
    for (response, message) in [
        (
            format!(r#"{{{id},"result":{{}},"error":{{}}}}"#),
            "both `result` and `error`",
        ),
        (format!("{{{id}}}"), "neither `result` nor `error`"),
        (
            format!(r#"{{{id},"result":[]}}"#),
            "the result is not an object",
        ),
        (
            format!(r#"{{{id},"result":{{"content":[}}}}"#),
            "not valid JSON",
        ),
        (
            format!(r#"{{{id},"result":{{}},"id":7}}"#),
            "duplicate key `id`",
        ),
    ] {
        let has_two_ids = message.starts_with("duplicate key");
        let script = echo_and_add()
            .tool("work")
            .on("tools/call work", [Step::raw(&response)]);
        let (host, _) = host_with(script).await;
        let error = host.call("mcp__s__work", json!({})).await.unwrap_err();
        if has_two_ids {
            // The client cannot know to which of the two ids the response belongs, so the call
            // times out.
            assert!(matches!(error, CallError::TimedOut { .. }), "{error}");
        } else {
            assert!(error.to_string().ends_with(message), "{error}");
            assert!(matches!(error, CallError::InvalidResponse { .. }));
        }
        host.call("mcp__s__echo", json!({"message": "still here"}))
            .await
            .unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn oversized_response_fails_call_and_names_limit() {
    let limits = |change: fn(&mut Limits)| {
        let mut limits = Limits::default();
        change(&mut limits);
        limits
    };
    let id_last =
        r#"{"result":{"content":[{"type":"text","text":"BIG"}]},"jsonrpc":"2.0","id":$ID}"#;
    let big = id_last.replace("BIG", &"x".repeat(5_000));
    let deep = id_last.replace("\"BIG\"", &format!("{}{}", "[".repeat(40), "]".repeat(40)));
    let wide = id_last.replace("\"BIG\"", &format!("[{}0]", "0,".repeat(300)));
    for (response, limits, expected) in [
        (
            big,
            limits(|limits| limits.message_bytes = 4_096),
            InvalidMessage::TooLong { limit: 4_096 },
        ),
        (
            deep,
            limits(|limits| limits.json_depth = 30),
            InvalidMessage::TooDeep { limit: 30 },
        ),
        (
            wide,
            limits(|limits| limits.json_nodes = 200),
            InvalidMessage::TooManyValues { limit: 200 },
        ),
    ] {
        let script = echo_and_add()
            .tool("work")
            .on("tools/call work", [Step::raw(&response)]);
        let server = MemoryServer::new(script);
        let host = permissive()
            .limits(limits)
            .connector("s", InMemory(server))
            .start()
            .unwrap();
        host.wait_for(Readiness::All).await;
        let start_time = Instant::now();
        match host.call("mcp__s__work", json!({})).await.unwrap_err() {
            CallError::InvalidResponse { problem, .. } => assert_eq!(problem, expected),
            other => panic!("{other}"),
        }
        assert!(start_time.elapsed() < Duration::from_secs(1));
        host.call("mcp__s__echo", json!({"message": "still here"}))
            .await
            .unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn structured_content_mismatch_adds_note() {
    let tool = json!({
        "name": "work", "inputSchema": {"type": "object"},
        "outputSchema": {"type": "object", "required": ["sum"]},
    });
    for (result, note) in [
        (
            json!({"content": [], "structuredContent": {"sum": 1}}),
            None,
        ),
        (
            json!({"content": [], "structuredContent": {}}),
            Some(
                "the structured content does not match the output schema: \"sum\" is a required property",
            ),
        ),
        (
            json!({"content": []}),
            Some("structured content is missing although the tool declares an output schema"),
        ),
        (json!({"content": [], "isError": true}), None),
    ] {
        let script = Script::legacy()
            .raw_tool(tool.clone())
            .on("tools/call", [Step::Reply(result)]);
        let (host, _) = host_with(script).await;
        let output = host.call("mcp__s__work", json!({})).await.unwrap();
        assert_eq!(output.notes.first().map(String::as_str), note);
    }
}

#[tokio::test(start_paused = true)]
async fn error_without_id_fails_a_sole_call() {
    let error = r#"{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"what?"}}"#;
    let script = Script::legacy()
        .tool("odd")
        .tool("slow")
        .on("tools/call odd", [Step::raw(error)])
        .on(
            "tools/call slow",
            [Step::DelayMs(1_000), Step::text("done")],
        );
    let (host, _) = host_with(script).await;
    let error = host.call("mcp__s__odd", json!({})).await.unwrap_err();
    assert_eq!(
        error.to_string(),
        "server s returned an error for odd: what? (code -32700)"
    );
    let odd = host
        .call("mcp__s__odd", json!({}))
        .context(CallContext::default().deadline(Instant::now() + Duration::from_secs(5)));
    let slow = host.call("mcp__s__slow", json!({}));
    let (slow, odd) = tokio::join!(slow.into_future(), odd.into_future());
    assert_eq!(slow.unwrap().to_text(), "done");
    assert_eq!(
        odd.unwrap_err().to_string(),
        "odd of server s: no response within 5s (the server sent responses with unknown request \
         ids); it may or may not have run"
    );
}

/// How many messages wait for the server or for the test. No test has as many.
const MAX_MESSAGES: usize = 64;

/// A server of version 2025-03-26 that responds to `initialize` and `tools/list`. It passes the
/// other requests to the test, and writes the bytes that the test sends.
struct ManualServer {
    requests: mpsc::Sender<Value>,
    output: Arc<Mutex<mpsc::Receiver<String>>>,
}

impl Connector for ManualServer {
    fn connect(&self) -> BoxFuture<'_, io::Result<ByteStreams>> {
        let (client, server) = tokio::io::duplex(64 * 1024);
        let (reader, writer) = tokio::io::split(client);
        let (requests, output) = (self.requests.clone(), Arc::clone(&self.output));
        TaskTracker::new().spawn(async move {
            let (lines, mut writer) = tokio::io::split(server);
            let mut lines = BufReader::new(lines).lines();
            let mut output = output.lock().await;
            loop {
                let written = tokio::select! {
                    Ok(Some(line)) = lines.next_line() => {
                        let request: Value = serde_json::from_str(&line).unwrap();
                        manual_response(&request).or_else(|| {
                            let _ = requests.try_send(request);
                            None
                        })
                    }
                    Some(text) = output.recv() => Some(text),
                    else => return,
                };
                if let Some(text) = written {
                    let _ = writer.write_all(text.as_bytes()).await;
                }
            }
        });
        Box::pin(std::future::ready(Ok(ByteStreams::new(reader, writer))))
    }
}

fn manual_response(request: &Value) -> Option<String> {
    let tool = |name: &str| json!({"name": name, "inputSchema": {"type": "object"}});
    let result = match request["method"].as_str()? {
        "server/discover" => {
            let error = json!({"code": -32601, "message": "unknown method"});
            let response = json!({"jsonrpc": "2.0", "id": request["id"], "error": error});
            return Some(format!("{response}\n"));
        }
        "initialize" => json!({
            "protocolVersion": "2025-03-26", "capabilities": {"tools": {}},
            "serverInfo": {"name": "manual", "version": "1"},
        }),
        "tools/list" => json!({"tools": [tool("one"), tool("two")]}),
        _ => return None,
    };
    let response = json!({"jsonrpc": "2.0", "id": request["id"], "result": result});
    Some(format!("{response}\n"))
}

/// A host with a [`ManualServer`], the requests that the server received, and its output.
struct ManualHost {
    host: Host,
    requests: mpsc::Receiver<Value>,
    output: mpsc::Sender<String>,
}

impl ManualHost {
    async fn start() -> Self {
        let (requests, received) = mpsc::channel(MAX_MESSAGES);
        let (output, written) = mpsc::channel(MAX_MESSAGES);
        let server = ManualServer {
            requests,
            output: Arc::new(Mutex::new(written)),
        };
        let host = permissive().connector("s", server).start().unwrap();
        host.wait_for(Readiness::All).await;
        Self {
            host,
            requests: received,
            output,
        }
    }

    /// Waits for the next call and returns its request.
    async fn next_call(&mut self) -> Value {
        loop {
            let request = self.requests.recv().await.unwrap();
            if request["method"] == "tools/call" {
                return request;
            }
        }
    }
}

fn text_response(request: &Value) -> String {
    let result = json!({"content": [{"type": "text", "text": "done"}]});
    json!({"jsonrpc": "2.0", "id": request["id"], "result": result}).to_string()
}

#[tokio::test(start_paused = true)]
async fn notification_behind_a_response_does_not_overtake_it() {
    let mut manual = ManualHost::start().await;
    let order = Arc::new(std::sync::Mutex::new(Vec::new()));
    let (host, seen) = (manual.host.clone(), Arc::clone(&order));
    let tasks = TaskTracker::new();
    let one = tasks.spawn(async move {
        let one = host.call("mcp__s__one", json!({})).await;
        seen.lock().unwrap().push("response");
        one.unwrap()
    });
    let first = manual.next_call().await;
    let (host, seen) = (manual.host.clone(), Arc::clone(&order));
    let two = tasks.spawn(async move {
        let two = host.call("mcp__s__two", json!({}));
        two.on_progress(|_| seen.lock().unwrap().push("progress"))
            .await
            .unwrap()
    });
    let second = manual.next_call().await;
    let token = &second["params"]["_meta"]["progressToken"];
    let progress = json!({
        "jsonrpc": "2.0", "method": "notifications/progress",
        "params": {"progressToken": token, "progress": 1},
    });
    // In one write, so that the client reads both messages together.
    let both = format!("{}\n{progress}\n", text_response(&first));
    manual.output.try_send(both).unwrap();
    assert_eq!(one.await.unwrap().to_text(), "done");
    manual
        .output
        .try_send(text_response(&second) + "\n")
        .unwrap();
    assert_eq!(two.await.unwrap().to_text(), "done");
    assert_eq!(*order.lock().unwrap(), ["response", "progress"]);
}

#[tokio::test(start_paused = true)]
async fn empty_batches_are_charged_to_the_rate_limit() {
    let mut manual = ManualHost::start().await;
    let started = Instant::now();
    let (host, output) = (manual.host.clone(), manual.output.clone());
    let one = host.call("mcp__s__one", json!({})).into_future();
    let flood = async {
        let request = manual.next_call().await;
        // Four mebibytes of empty batches, one of which the token bucket holds.
        output.try_send("[]\n".repeat(4 * 1024 * 1024 / 3)).unwrap();
        output.try_send(text_response(&request) + "\n").unwrap();
    };
    let (one, ()) = tokio::join!(one, flood);
    assert_eq!(one.unwrap().to_text(), "done");
    let elapsed = started.elapsed();
    assert!(elapsed > Duration::from_millis(1_500), "{elapsed:?}");
}

#[tokio::test(start_paused = true)]
async fn timeout_says_what_the_server_sent_instead_of_a_response() {
    let result = r#""result":{"content":[]}"#;
    for (output, note) in [
        (String::new(), "no response within 1s; it may"),
        (
            format!("[{{\"jsonrpc\":\"2.0\",\"id\":3,{result}}}, 1\n"),
            "output that is not a JSON-RPC message",
        ),
        (
            format!("{{\"jsonrpc\":\"2.0\",{result}}}\n"),
            "output that is not a JSON-RPC message",
        ),
        (
            format!("{{\"jsonrpc\":\"2.0\",\"id\":999,{result}}}\n"),
            "responses with unknown request ids",
        ),
        (
            "{\"jsonrpc\":\"2.0\",\"id\":".to_owned(),
            "a message without a line end",
        ),
    ] {
        let mut manual = ManualHost::start().await;
        let host = manual.host.clone();
        let deadline = Instant::now() + Duration::from_secs(1);
        let call = host
            .call("mcp__s__one", json!({}))
            .context(CallContext::default().deadline(deadline))
            .into_future();
        let respond = async {
            manual.next_call().await;
            manual.output.try_send(output.clone()).unwrap();
        };
        let (outcome, ()) = tokio::join!(call, respond);
        let error = outcome.unwrap_err();
        assert!(matches!(error, CallError::TimedOut { .. }), "{error}");
        assert!(error.to_string().contains(note), "{output}: {error}");
    }
}
