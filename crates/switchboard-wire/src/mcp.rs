//! The vocabulary of the protocol: tools, resources, prompts, content, what servers say of themselves.
//!
//! Lean on purpose: open to what a newer server may send (unknown blocks are carried, schemas are
//! kept as text), closed to nothing. It knows no session and no transport.

mod client_capabilities;
mod content;
mod error;
mod handshake;
mod json;
mod log_level;
mod prompt;
mod resource;
mod tool;

pub use client_capabilities::ClientCapabilities;
pub use content::{
    ContentBlock, EmbeddedResource, MediaContent, ResourceBody, ResourceLink, TextContent,
};
pub use error::ErrorObject;
pub use handshake::{
    Era, Implementation, ProtocolVersion, ServerCapabilities, ServerHello, UnknownVersion,
};
pub use json::Json;
pub use log_level::{LogLevel, UnknownLogLevel};
pub use prompt::{
    Completion, GetPromptResult, Prompt, PromptArgument, PromptMessage, Role, UnknownRole,
};
pub use resource::{ReadResourceResult, Resource, ResourceTemplate};
pub use tool::{CallToolResult, Hint, Progress, TaskSupport, Tool, ToolAnnotations};
