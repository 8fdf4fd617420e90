//! A client for a program that reads and writes JSON lines.

use std::process::{Command, Stdio};
use std::time::Duration;

use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader, Lines};
use tokio::process::{Child, ChildStdin, ChildStdout};

/// Time limit of every wait for the program. The CLI starts slowly on a busy machine.
const TIMEOUT: Duration = Duration::from_secs(90);

pub(crate) struct JsonLines {
    child: Child,
    stdin: Option<ChildStdin>,
    stdout: Lines<BufReader<ChildStdout>>,
}

impl JsonLines {
    pub(crate) fn start(command: Command) -> Self {
        let mut command = tokio::process::Command::from(command);
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.kill_on_drop(true).spawn().unwrap();
        let stdout = BufReader::new(child.stdout.take().unwrap()).lines();
        Self {
            stdin: child.stdin.take(),
            stdout,
            child,
        }
    }

    pub(crate) async fn send(&mut self, message: &Value) {
        let line = format!("{message}\n");
        let stdin = self.stdin.as_mut().unwrap();
        stdin.write_all(line.as_bytes()).await.unwrap();
    }

    pub(crate) async fn send_request(&mut self, id: &str, request: Value) {
        self.send(&json!({"type": "control_request", "request_id": id, "request": request}))
            .await;
    }

    pub(crate) async fn send_user(&mut self, text: &str) {
        let message = json!({"role": "user", "content": text});
        let line = json!({"type": "user", "session_id": "", "message": message, "parent_tool_use_id": null});
        self.send(&line).await;
    }

    /// The next line of stdout; `None` at EOF.
    pub(crate) async fn next_line(&mut self) -> Option<String> {
        let line = tokio::time::timeout(TIMEOUT, self.stdout.next_line()).await;
        line.expect("a line within the time limit").unwrap()
    }

    /// Reads messages until `is_wanted` accepts one, and returns that message. Responds to control
    /// requests with the payload that `respond` returns.
    pub(crate) async fn until(
        &mut self,
        mut respond: impl FnMut(&Value) -> Value,
        is_wanted: impl Fn(&Value) -> bool,
    ) -> Value {
        loop {
            let line = self.next_line().await.expect("another message");
            let message: Value = serde_json::from_str(&line).unwrap();
            if message["type"] == "control_request" {
                let payload = respond(&message["request"]);
                let response = json!({"subtype": "success", "request_id": message["request_id"], "response": payload});
                self.send(&json!({"type": "control_response", "response": response}))
                    .await;
            }
            if is_wanted(&message) {
                return message;
            }
        }
    }

    /// Closes stdin, waits until the program exits and returns its exit code.
    pub(crate) async fn finish(mut self) -> Option<i32> {
        self.stdin = None;
        while self.next_line().await.is_some() {}
        let status = tokio::time::timeout(TIMEOUT, self.child.wait()).await;
        status
            .expect("an exit within the time limit")
            .unwrap()
            .code()
    }
}
