//! Limits on size and count that users can set, with their defaults.
//!
//! [`Limits`] is plain data. The module that owns the queue, buffer or listing enforces its limit.
//! Time limits are in the client crate.
//!
//! Invariant: everything that a server sends and everything that a caller queues is bounded by a
//! limit listed here, or by a constant in the module that reads it.

use std::time::Duration;

use crate::scan::{JsonBudget, MAX_JSON_DEPTH};

/// Limits on size and count. Start from [`Limits::default`] and change single fields.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Limits {
    /// Maximum size of a message from a server, in bytes. If a response is larger, its request
    /// fails as soon as the id of the response was read.
    pub message_bytes: usize,
    /// Maximum memory of all large messages together, in bytes: of all servers and in both
    /// directions. If a message does not fit, only its own request fails.
    pub memory_bytes: usize,
    /// Maximum number of JSON values and object keys in one message.
    pub json_nodes: usize,
    /// Maximum nesting depth of a message's JSON; values above 128 count as 128.
    pub json_depth: usize,
    /// Maximum number of JSON values and object keys in structured content that is validated
    /// against its schema. Larger content is not validated.
    pub json_tree_nodes: usize,
    /// Maximum size of the write queue of one server, in bytes. A request that does not fit waits
    /// until its deadline; one that is larger than the queue is rejected.
    pub write_queue_bytes: usize,
    /// Maximum number of pages of one listing.
    pub list_pages: usize,
    /// Maximum number of tools of one server.
    pub tools_per_server: usize,
    /// Maximum number of resources of one server. The same limit applies to its resource templates.
    pub resources_per_server: usize,
    /// Maximum number of prompts of one server.
    pub prompts_per_server: usize,
    /// Maximum size of one listing with all its pages, in bytes.
    pub listing_bytes: usize,
    /// Maximum length of a name, a version or a title that a server declares, in bytes. Tools and
    /// prompts with a longer name are left out of their listing, with a note. Other names, versions
    /// and titles are truncated.
    pub name_bytes: usize,
    /// Maximum length of the instructions of a server, and of the description of a tool, resource,
    /// prompt or prompt argument, in bytes. Longer texts are truncated.
    pub description_bytes: usize,
    /// Maximum size of one JSON value of a listed item, in bytes: a schema, annotations or `_meta`.
    /// A tool with a larger input schema is left out of the listing, with a note. Other larger
    /// values are dropped, with a note.
    pub schema_bytes: usize,
    /// Maximum length of a cursor that is sent back to a server, in bytes.
    pub cursor_bytes: usize,
    /// How many bytes of the end of a child's stderr are kept.
    pub stderr_tail_bytes: usize,
    /// Maximum number of requests from one server that the client handles at a time.
    pub inbound_requests: usize,
    /// How many times a server may respond to one request with `input_required`, or ask for new
    /// input during one task.
    pub input_requests: usize,
    /// How many questions to the user one server may ask per minute. Further questions are answered
    /// with *cancel* without being shown.
    pub questions_per_minute: usize,
    /// How many sampling requests one server may send per minute. Further requests are rejected.
    pub samplings_per_minute: usize,
    /// Maximum `maxTokens` of one sampling request. A larger value is lowered to this.
    pub sampling_tokens: usize,
    /// How many log messages of one server are forwarded per second. Further ones are only counted.
    pub log_messages_per_second: usize,
    /// How many progress notifications are queued for a slow caller.
    pub progress_backlog: usize,
    /// How many events are queued for a slow listener. If the queue is full, events are dropped,
    /// and the listener receives their number.
    pub event_backlog: usize,
    /// Maximum number of content blocks of one result. Further blocks are dropped, with a note.
    pub content_blocks: usize,
    /// Maximum length of the text of one result that is shown to a model, in bytes. The full text
    /// is stored.
    pub result_text_bytes: usize,
    /// Maximum size of the images and audio of one result, in bytes of base64. Further blocks are
    /// replaced by a description.
    pub result_media_bytes: usize,
    /// Maximum number of watches. An ended watch counts until its last event is read.
    pub watches: usize,
    /// Maximum size of the content that a watch keeps to show differences, in bytes. For larger
    /// content, only the size is reported.
    pub watch_text_bytes: usize,
    /// Maximum number of calls in flight to one server.
    pub calls_per_server: usize,
    /// Maximum number of calls in flight of the whole host. In addition, a few calls per server are
    /// always allowed, so that a server that does not respond cannot block the calls to other
    /// servers.
    pub calls_in_flight: usize,
}

const KIB: usize = 1024;
const MIB: usize = 1024 * KIB;

/// Upper bound of counts that become semaphore permits or channel capacities in tokio.
pub const MAX_COUNT: usize = usize::MAX >> 6;

/// Upper bound of the limits on server requests per minute, because the time of each accepted
/// request of the last minute is stored.
const MAX_PER_MINUTE: usize = 10_000;

/// Messages larger than this are decoded on a blocking thread, because decoding them would delay
/// the tasks of other servers. Readers also use this size as the bound of a single buffer.
pub const LARGE_MESSAGE_BYTES: usize = MIB;

impl Default for Limits {
    fn default() -> Self {
        Self {
            message_bytes: 16 * MIB,
            memory_bytes: 128 * MIB,
            json_nodes: 1_000_000,
            json_depth: MAX_JSON_DEPTH,
            json_tree_nodes: 100_000,
            write_queue_bytes: 32 * MIB,
            list_pages: 1_000,
            tools_per_server: 20_000,
            resources_per_server: 100_000,
            prompts_per_server: 10_000,
            listing_bytes: 64 * MIB,
            name_bytes: KIB,
            description_bytes: 64 * KIB,
            schema_bytes: MIB,
            cursor_bytes: 64 * KIB,
            stderr_tail_bytes: 16 * KIB,
            inbound_requests: 16,
            input_requests: 8,
            questions_per_minute: 10,
            samplings_per_minute: 10,
            sampling_tokens: 8_192,
            log_messages_per_second: 100,
            progress_backlog: 64,
            event_backlog: 1_024,
            content_blocks: 10_000,
            result_text_bytes: 100_000,
            result_media_bytes: 5 * MIB,
            watches: 1_000,
            watch_text_bytes: 32 * KIB,
            calls_per_server: 64,
            calls_in_flight: 512,
        }
    }
}

impl Limits {
    /// Lowers values that would overflow elsewhere, and raises zeros that would block forever.
    #[doc(hidden)]
    pub fn clamped(mut self) -> Self {
        self.json_depth = self.json_depth.min(MAX_JSON_DEPTH);
        for rate in [
            &mut self.questions_per_minute,
            &mut self.samplings_per_minute,
        ] {
            *rate = (*rate).min(MAX_PER_MINUTE);
        }
        for count in [
            &mut self.calls_per_server,
            &mut self.calls_in_flight,
            &mut self.event_backlog,
            &mut self.progress_backlog,
        ] {
            *count = (*count).clamp(1, MAX_COUNT);
        }
        self
    }

    /// The limits on the fields that a server declares.
    #[doc(hidden)]
    pub fn field_limits(&self) -> FieldLimits {
        FieldLimits {
            name_bytes: self.name_bytes,
            description_bytes: self.description_bytes,
            schema_bytes: self.schema_bytes,
        }
    }

    /// The limits on the JSON of one message.
    #[doc(hidden)]
    pub fn json_budget(&self) -> JsonBudget {
        JsonBudget::new(self.json_nodes, self.json_depth)
    }
}

/// The limits on the fields that a server declares, which decoding applies: the fields of [`Limits`]
/// with the same names.
#[doc(hidden)]
#[derive(Clone, Copy, Debug)]
pub struct FieldLimits {
    pub name_bytes: usize,
    pub description_bytes: usize,
    pub schema_bytes: usize,
}

impl Default for FieldLimits {
    fn default() -> Self {
        Limits::default().field_limits()
    }
}

/// Truncates a duration to whole milliseconds, for error messages.
pub fn truncate_to_millis(duration: Duration) -> Duration {
    let millis = u64::try_from(duration.as_millis()).unwrap_or(u64::MAX);
    Duration::from_millis(millis)
}
