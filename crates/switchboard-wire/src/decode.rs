//! Decodes results and the params of notifications, by method.
//!
//! Decoding is tolerant: a malformed tool is skipped and reported, a content block of an unknown
//! type is kept as JSON, and unknown members are ignored. If a result cannot be used at all,
//! decoding returns [`InvalidMessage`]; it does not guess.
//!
//! Everything kept from a message is bounded. The limits that users can set are parameters; the
//! others are constants next to the code that applies them.

mod cache_hint;
mod content;
mod handshake;
mod input_required;
mod listing;
mod notification;
mod results;
mod subscription;
mod task;

use serde::de::DeserializeOwned;

pub use cache_hint::{CacheHint, CacheScope};
pub use content::resource_link;
pub use handshake::{
    DiscoverResult, InitializeResult, ServerDescription, discover_result, initialize_result,
};
pub use input_required::{InputRequest, InputRequired, find_input_required};
pub use listing::{
    DecodeItem, InvalidItem, Page, SkippedItem, page, prompt, resource, resource_template, tool,
};
pub use notification::{
    LogMessage, MAX_LOG_DATA_BYTES, cancelled_id, cancelled_id_number, log_message, progress,
    truncate_json,
};
pub use results::{IncompleteResult, call_tool_result, completion, prompt_result, resource_result};
pub use subscription::{SubscriptionNotification, subscription_notification};
pub use task::{Task, TaskStatus, created_task, task};

use crate::jsonrpc::InvalidMessage;

/// Longer status texts, such as progress messages and log levels, are truncated.
const MAX_STATUS_BYTES: usize = 4 * 1024;

fn parse<T: DeserializeOwned>(bytes: &[u8]) -> Option<T> {
    serde_json::from_slice(bytes).ok()
}

#[cfg(test)]
mod tests;
