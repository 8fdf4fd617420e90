//! MCP servers inside a Rust program.
//!
//! [`InProcessServer`] turns typed functions of the program into tools, resources and prompts.
//! Input and output schemas come from the Rust types. A tool call is a function call: no child
//! process is started and no JSON-RPC message is exchanged. The crate does not connect to servers;
//! the crate `switchboard` does.
//!
//! ```
//! use schemars::JsonSchema;
//! use serde::{Deserialize, Serialize};
//! use serde_json::json;
//! use switchboard_server::{InProcessServer, LocalCall, LocalServer, ToolContext, ToolResult};
//! use switchboard_wire::mcp::ContentBlock;
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
//! # async fn main() -> Result<(), switchboard_wire::mcp::ErrorObject> {
//! let calculator = InProcessServer::new("calculator", "1.0")
//!     .tool("divide", "Divides two numbers", divide)
//!     .tool("add", "Adds two numbers", |operands: Operands| async move {
//!         Ok(operands.a + operands.b)
//!     });
//!
//! let arguments = json!({"a": 15, "b": 27});
//! let arguments = arguments.as_object().unwrap();
//! let call = LocalCall::new("add", arguments, Default::default(), None);
//! let sum = calculator.call_tool(call).await?;
//! assert_eq!(sum.content, [ContentBlock::text("42.0")]);
//! # Ok(())
//! # }
//! ```
//!
//! A program usually adds such a server to a `switchboard::Host`, which validates arguments and
//! checks permissions before it calls the server.
//!
//! | module | responsible for |
//! |---|---|
//! | `typed` | [`InProcessServer`]: tools, resources and prompts from typed functions |
//! | `adapter` | [`JsonRpcAdapter`]: any [`ServerInstance`] as JSON-RPC, message by message |
//! | `rmcp` | `rmcp_server`: server handlers written with the official SDK (feature `rmcp`) |

#![forbid(unsafe_code)]

mod adapter;
#[cfg(feature = "rmcp")]
mod rmcp;
mod typed;

pub use adapter::JsonRpcAdapter;
#[cfg(feature = "rmcp")]
pub use rmcp::rmcp_server;
pub use switchboard_wire::{
    LocalCall, LocalServer, ProgressReporter, ServerInstance, ServerNotification,
};
pub use typed::{
    BlockingHandler, InProcessPrompt, InProcessResource, InProcessServer, InProcessTemplate,
    InProcessTool, PromptHandler, PromptOutput, ResourceOutput, ToolArguments, ToolContext,
    ToolError, ToolHandler, ToolOutput, ToolResult,
};
