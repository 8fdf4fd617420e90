//! A calculator server with four typed tools.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use switchboard::{InProcessServer, ToolResult};

#[derive(Deserialize, JsonSchema)]
struct Pair {
    /// First number
    a: f64,
    /// Second number
    b: f64,
}

#[derive(Deserialize, JsonSchema)]
struct Division {
    /// Dividend
    a: f64,
    /// Divisor (must not be zero)
    b: f64,
}

#[derive(Serialize, JsonSchema)]
struct CalculatorResult {
    result: f64,
}

pub(crate) fn calculator() -> InProcessServer {
    InProcessServer::new("calculator", "1.0")
        .tool("add", "Add two numbers", add)
        .tool("subtract", "Subtract two numbers", subtract)
        .tool("multiply", "Multiply two numbers", multiply)
        .tool("divide", "Divide two numbers", divide)
}

async fn add(Pair { a, b }: Pair) -> ToolResult<CalculatorResult> {
    Ok(CalculatorResult { result: a + b })
}

async fn subtract(Pair { a, b }: Pair) -> ToolResult<CalculatorResult> {
    Ok(CalculatorResult { result: a - b })
}

async fn multiply(Pair { a, b }: Pair) -> ToolResult<CalculatorResult> {
    Ok(CalculatorResult { result: a * b })
}

async fn divide(Division { a, b }: Division) -> ToolResult<CalculatorResult> {
    if b == 0.0 {
        return Err("Error: Division by zero".into());
    }
    Ok(CalculatorResult { result: a / b })
}
