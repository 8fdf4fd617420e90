//! Calls to a server in the host's process: a typed function, through the whole pipeline.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use switchboard::InProcessServer;

use crate::job::{Figures, Work};

#[derive(Deserialize, JsonSchema)]
struct Arguments {
    message: String,
}

#[derive(Serialize, JsonSchema)]
struct EchoResult {
    message: String,
}

pub fn server() -> InProcessServer {
    let echo = |Arguments { message }: Arguments| async move { Ok(EchoResult { message }) };
    InProcessServer::new("echo", "1").tool("echo", "Returns its message", echo)
}

pub async fn calls(calls: usize) -> Figures {
    let host = super::start(super::host_builder().in_process_server("neutral", server())).await;
    super::measure_calls(host, &Work::in_process(calls)).await
}
