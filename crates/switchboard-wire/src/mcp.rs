//! Protocol types: tools, resources, prompts, content blocks, capabilities and errors.
//!
//! The types are tolerant: content blocks of unknown types and JSON schemas are kept as JSON text,
//! so that data of newer servers is not lost. Decoding with limits is in the internal module
//! `decode`.

mod client_capabilities;
mod content;
mod error;
mod handshake;
mod json;
mod log_level;
mod prompt;
mod resource;
mod tool;
mod unique_keys;
mod version;

pub use client_capabilities::ClientCapabilities;
pub use content::{
    ContentBlock, EmbeddedResource, MediaContent, ResourceBody, ResourceLink, TextContent,
};
pub use error::ErrorObject;
pub use handshake::{Implementation, ServerCapabilities, ServerHello};
pub use json::Json;
pub use log_level::{LogLevel, UnknownLogLevel};
pub use prompt::{
    Completion, GetPromptResult, Prompt, PromptArgument, PromptMessage, Role, UnknownRole,
};
pub use resource::{ReadResourceResult, Resource, ResourceTemplate};
pub use tool::{CallToolResult, Hint, Progress, TaskSupport, ToolAnnotations, ToolDefinition};
pub use version::{Era, ProtocolVersion, UnknownVersion};
