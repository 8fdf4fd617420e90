//! Servers made of typed functions.
//!
//! [`InProcessServer`] is the builder and the running server. Its tools, resources and prompts have
//! one module each. The modules `arguments`, `output` and `schema` convert between JSON and Rust
//! types.

mod arguments;
mod context;
mod error;
mod handler;
mod output;
mod prompt;
mod resource;
mod schema;
mod server;
mod tool;

use std::any::Any;

use switchboard_wire::mcp::ErrorObject;
use switchboard_wire::panic_message;

pub use context::ToolContext;
pub use error::{ToolError, ToolResult};
pub use handler::{BlockingHandler, ToolArguments, ToolHandler};
pub use output::ToolOutput;
pub use prompt::{InProcessPrompt, PromptHandler, PromptOutput};
pub use resource::{InProcessResource, InProcessTemplate, ResourceOutput};
pub use server::InProcessServer;
pub use tool::InProcessTool;

/// Panics because a tool, resource template or prompt cannot be registered.
#[track_caller]
#[expect(
    clippy::panic,
    reason = "a mistake in the program's types, which no caller could handle"
)]
fn registration_panic(why: &str) -> ! {
    panic!("{why}")
}

/// The error of a request whose handler panicked. The error contains the panic message, which is
/// trusted because the handler is part of this program.
fn panic_error(what: &str, payload: &(dyn Any + Send)) -> ErrorObject {
    let message = match panic_message(payload) {
        Some(message) => format!("{what} panicked: {message}"),
        None => format!("{what} panicked"),
    };
    ErrorObject::new(ErrorObject::INTERNAL, message)
}
