//! Every bound on size and count, each with a default.
//!
//! [`Limits`] is plain data that all layers read; enforcing a limit is the task of the module that
//! owns the queue, buffer or listing. Time limits are in the client crate.
//!
//! Invariant: nothing that a server sends or a caller queues grows beyond a limit listed here.

use std::time::Duration;

use crate::scan::JsonBudget;

/// Bounds on size and count. Start from [`Limits::default`] and change single fields.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Limits {
    /// Maximum size of a message from a server, in bytes. A larger response fails its request as
    /// soon as the request is known.
    pub message_bytes: usize,
    /// Maximum memory of all large messages in both directions and of all servers together, in
    /// bytes. A message that does not fit fails its own request only.
    pub memory_bytes: usize,
    /// Maximum number of JSON values in one message.
    pub json_nodes: usize,
    /// Maximum nesting depth of a message's JSON; values above 128 count as 128.
    pub json_depth: usize,
    /// Maximum number of JSON values of which a tree is built, for schema validation.
    pub json_tree_nodes: usize,
    /// Maximum size of the write queue of one server, in bytes. A request that does not fit waits
    /// until its deadline; one that is larger than the queue is rejected.
    pub write_queue_bytes: usize,
    /// Maximum number of pages of one listing.
    pub list_pages: usize,
    /// Maximum number of tools of one server.
    pub tools_per_server: usize,
    /// Maximum number of resources of one server, and of its resource templates.
    pub resources_per_server: usize,
    /// Maximum number of prompts of one server.
    pub prompts_per_server: usize,
    /// Maximum size of one listing with all its pages, in bytes.
    pub listing_bytes: usize,
    /// Maximum length of a cursor that is sent back to a server, in bytes.
    pub cursor_bytes: usize,
    /// How much of the end of a child's stderr is kept, in bytes.
    pub stderr_tail_bytes: usize,
    /// Maximum number of requests from one server that are in progress at the same time.
    pub inbound_requests: usize,
    /// How many times a request may be answered with `input_required` instead of a result.
    pub input_requests: usize,
    /// How many questions to the user one server may ask per minute. Further ones are declined
    /// without showing them.
    pub questions_per_minute: usize,
    /// How many sampling requests one server may send per minute. Further ones are rejected.
    pub samplings_per_minute: usize,
    /// Maximum number of tokens of one sampling request; a larger `maxTokens` is lowered to this.
    pub sampling_tokens: usize,
    /// How many log messages of one server are forwarded per second; the rest is only counted.
    pub log_messages_per_second: usize,
    /// How many progress notes are queued for a slow caller.
    pub progress_backlog: usize,
    /// How many events are queued for a slow listener before it misses some and is told how many.
    pub event_backlog: usize,
    /// Maximum number of content blocks of one result. Further blocks are dropped, with a note.
    pub content_blocks: usize,
    /// Maximum text of one result that is shown to a model, in bytes. The full text is stored.
    pub result_text_bytes: usize,
    /// Maximum size of the images and audio of one result, in bytes of base64. Further ones are
    /// replaced by a description.
    pub result_media_bytes: usize,
    /// Maximum number of watches. An ended watch counts until its last event is read.
    pub watches: usize,
    /// How much content is kept per watch to show differences, in bytes. Of larger content only the
    /// size is reported.
    pub watch_text_bytes: usize,
    /// Maximum number of calls in flight to one server.
    pub calls_per_server: usize,
    /// Maximum number of calls in flight of the whole host. A few calls per server are always
    /// allowed in addition, so that hanging servers cannot use up the calls of the others.
    pub calls_in_flight: usize,
}

const KIB: usize = 1024;
const MIB: usize = 1024 * KIB;

/// Upper bound of every count: small enough for tokio's semaphores and channels.
pub const MOST: usize = usize::MAX >> 6;

/// Upper bound of the limits per minute: a timestamp is stored for each question of the last minute.
const MAX_PER_MINUTE: usize = 10_000;

/// Upper bound of [`Limits::json_depth`].
pub const DEEPEST_JSON: usize = 128;

/// Messages larger than this, in bytes, are decoded on a blocking thread, because decoding them would
/// delay the tasks of other servers.
pub const LARGE: usize = MIB;

impl Default for Limits {
    fn default() -> Self {
        Self {
            message_bytes: 16 * MIB,
            memory_bytes: 128 * MIB,
            json_nodes: 1_000_000,
            json_depth: DEEPEST_JSON,
            json_tree_nodes: 100_000,
            write_queue_bytes: 32 * MIB,
            list_pages: 1_000,
            tools_per_server: 20_000,
            resources_per_server: 100_000,
            prompts_per_server: 10_000,
            listing_bytes: 64 * MIB,
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
    /// Lowers values that would overflow elsewhere, and raises counts of zero that would block
    /// forever.
    #[doc(hidden)]
    pub fn within_reason(mut self) -> Self {
        self.json_depth = self.json_depth.min(DEEPEST_JSON);
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
            *count = (*count).clamp(1, MOST);
        }
        self
    }

    /// Returns the bounds on the JSON of one message.
    #[doc(hidden)]
    pub fn json_budget(&self) -> JsonBudget {
        JsonBudget::new(self.json_nodes, self.json_depth)
    }
}

/// Drops the part of a duration below one millisecond, for messages.
pub fn legible(duration: Duration) -> Duration {
    let millis = u64::try_from(duration.as_millis()).unwrap_or(u64::MAX);
    Duration::from_millis(millis)
}
