//! In-process servers: Rust functions as MCP tools, without a child process.
//!
//! [`InProcessServer`] builds a server from typed functions. Implement [`LocalServer`] to handle
//! the requests yourself, or [`Connector`] to exchange raw bytes with a server.
//!
//! ```
//! use schemars::JsonSchema;
//! use serde::{Deserialize, Serialize};
//! use serde_json::json;
//! use switchboard::permission::{Action, Rule};
//! use switchboard::{Host, InProcessServer, ToolContext, ToolResult};
//!
//! /// The arguments of a tool. Field names, doc comments and bounds become its input schema.
//! #[derive(Deserialize, JsonSchema)]
//! struct Operands {
//!     /// Dividend
//!     a: f64,
//!     /// Divisor
//!     b: f64,
//! }
//!
//! #[derive(Serialize, JsonSchema)]
//! struct Quotient {
//!     quotient: f64,
//! }
//!
//! async fn divide(operands: Operands, context: ToolContext) -> ToolResult<Quotient> {
//!     if operands.b == 0.0 {
//!         return Err("division by zero".into());
//!     }
//!     context.report_progress(1.0, 1.0, "divided");
//!     Ok(Quotient { quotient: operands.a / operands.b })
//! }
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let calculator = InProcessServer::new("calculator", "1.0")
//!     .tool("divide", "Divides two numbers", divide)
//!     .tool("add", "Adds two numbers", |operands: Operands| async move {
//!         Ok(operands.a + operands.b)
//!     });
//!
//! let host = Host::builder()
//!     .in_process_server("calculator", calculator)
//!     .rule(Rule::new(Action::Allow, "mcp__calculator")?)
//!     .start()?;
//! let sum = host.call("mcp__calculator__add", json!({"a": 15, "b": 27})).await?;
//! assert_eq!(sum.to_text(), "42.0");
//! let failed = host.call("mcp__calculator__divide", json!({"a": 1, "b": 0})).await?;
//! assert!(failed.is_error);
//! host.shutdown().await;
//! # Ok(())
//! # }
//! ```

#[cfg(feature = "rmcp")]
pub use switchboard_server::rmcp_server;
pub use switchboard_server::{
    BlockingHandler, InProcessPrompt, InProcessResource, InProcessServer, InProcessTemplate,
    InProcessTool, JsonRpcAdapter, LocalCall, LocalServer, ProgressReporter, PromptHandler,
    PromptOutput, ResourceOutput, ServerInstance, ServerNotification, ToolArguments, ToolContext,
    ToolError, ToolHandler, ToolOutput, ToolResult,
};
pub use switchboard_wire::{ByteStreams, Connector};
