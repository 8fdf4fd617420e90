//! Servers that live in this process: typed Rust functions as tools, without a child and without text
//! in between.
//!
//! ```
//! use schemars::JsonSchema;
//! use serde::{Deserialize, Serialize};
//! use serde_json::json;
//! use switchboard::permission::{Action, Rule};
//! use switchboard::{Host, InProcessServer, ToolContext, ToolResult};
//!
//! /// What the model fills in: names, words and bounds become the tool's schema.
//! #[derive(Deserialize, JsonSchema)]
//! struct Pair {
//!     /// What is divided
//!     a: f64,
//!     /// By what
//!     b: f64,
//! }
//!
//! #[derive(Serialize, JsonSchema)]
//! struct Quotient {
//!     quotient: f64,
//! }
//!
//! async fn divide(pair: Pair, context: ToolContext) -> ToolResult<Quotient> {
//!     if pair.b == 0.0 {
//!         return Err("nothing can be divided by zero".into());
//!     }
//!     context.report(1.0, 1.0, "divided");
//!     Ok(Quotient { quotient: pair.a / pair.b })
//! }
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let calculator = InProcessServer::new("calculator", "1.0")
//!     .tool("divide", "Divides two numbers", divide)
//!     .tool("add", "Adds two numbers", |pair: Pair| async move { Ok(pair.a + pair.b) });
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

mod adapter;
mod arguments;
mod context;
mod error;
mod handler;
mod output;
mod prompt;
mod resource;
#[cfg(feature = "rmcp")]
mod rmcp;
mod schema;
mod server;
mod shelf;
mod tool;

pub use crate::transport::memory::{
    LocalCall, LocalServer, ProgressReporter, ServerInstance, ServerNotification,
};
pub use crate::transport::{ByteStreams, Connector};
pub use adapter::Adapter;
pub use context::ToolContext;
pub use error::{ToolError, ToolResult};
pub(crate) use handler::panicked;
pub use handler::{BlockingHandler, Parameter, ToolHandler};
pub use output::ToolOutput;
pub use prompt::{InProcessPrompt, PromptHandler, PromptOutput};
pub use resource::{InProcessResource, InProcessTemplate, ResourceOutput};
#[cfg(feature = "rmcp")]
pub use rmcp::rmcp_server;
pub use server::InProcessServer;
pub use tool::InProcessTool;

/// Something was registered that can never work: a mistake in the program, found when it starts.
#[track_caller]
#[expect(
    clippy::panic,
    reason = "the types of the program are at fault, and no caller could do anything about it"
)]
fn misuse(why: &str) -> ! {
    panic!("{why}")
}
