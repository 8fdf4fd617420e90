//! A server that lives in this process.

use schemars::JsonSchema;
use serde::Deserialize;
use switchboard::InProcessServer;
use switchboard::inprocess::InProcessTool;

#[derive(Deserialize, JsonSchema)]
struct Pair {
    a: f64,
    b: f64,
}

pub(super) fn calculator() -> InProcessServer {
    let add = |Pair { a, b }: Pair| async move { Ok((a + b).to_string()) };
    let multiply = |Pair { a, b }: Pair| async move { Ok((a * b).to_string()) };
    InProcessServer::new("calculator", env!("CARGO_PKG_VERSION"))
        .with(InProcessTool::new("add", "Adds two numbers", add).read_only())
        .with(InProcessTool::new("multiply", "Multiplies two numbers", multiply).read_only())
}
