//! Every bound of the engine in one place, each with a default.
//!
//! Invariant: nothing a server sends, and nothing a caller queues, grows past a number written here.

use std::time::Duration;

use crate::scan::JsonBudget;

/// A duration as people read it: nobody waits for nanoseconds.
pub fn legible(duration: Duration) -> Duration {
    let millis = u64::try_from(duration.as_millis()).unwrap_or(u64::MAX);
    Duration::from_millis(millis)
}

/// Bounds on size and count. Start from [`Limits::default`] and change what you must.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Limits {
    /// The longest message a server may send, in bytes. A longer answer fails its call at once.
    pub message_bytes: usize,
    /// How many bytes the large messages of all servers may take at a time, whichever way they go. A
    /// message that does not fit any more fails its call, and no other.
    pub memory_bytes: usize,
    /// How many JSON values one message may hold.
    pub json_nodes: usize,
    /// How deep a message's JSON may nest; at most 128.
    pub json_depth: usize,
    /// How many JSON values may be built into a tree at once (checks against a schema).
    pub tree_nodes: usize,
    /// How many bytes may wait for a server that does not read its input. A call that does not fit
    /// waits, within its time; one that never can is refused.
    pub write_queue_bytes: usize,
    /// How many pages one listing may have.
    pub list_pages: usize,
    /// How many tools one server may list.
    pub tools_per_server: usize,
    /// How many resources one server may list, and as many templates.
    pub resources_per_server: usize,
    /// How many prompts one server may list.
    pub prompts_per_server: usize,
    /// How many bytes one server's listing may have, all pages together.
    pub listing_bytes: usize,
    /// The longest cursor that is sent back to a server, in bytes.
    pub cursor_bytes: usize,
    /// How much of a child's stderr is kept, in bytes.
    pub stderr_tail_bytes: usize,
    /// How many requests of one server may be worked on at a time.
    pub inbound_requests: usize,
    /// How many times one call may be answered by a question instead of a result (modern era).
    pub input_rounds: usize,
    /// How many questions to the user one server may ask in a minute; what is beyond counts as closed,
    /// and nobody is asked.
    pub questions_per_minute: usize,
    /// How many completions by a model one server may ask for in a minute; what is beyond is refused.
    pub samplings_per_minute: usize,
    /// How many tokens a completion for a server may have; a server that asks for more gets fewer.
    pub sampling_tokens: usize,
    /// How many log messages of one server are passed on in a second; the rest is counted.
    pub log_messages_per_second: usize,
    /// How many progress notes may wait for a caller that is slow to take them.
    pub progress_backlog: usize,
    /// How many events may wait for a slow listener before it is told that it missed some.
    pub event_backlog: usize,
    /// How many blocks of one result are taken; the rest is left out, with a note.
    pub content_blocks: usize,
    /// How much text of one result is handed over, in bytes; the rest is kept aside.
    pub result_text_bytes: usize,
    /// How much of pictures and sounds one result may carry, in bytes of base64; the rest is
    /// described.
    pub result_media_bytes: usize,
    /// How many watches there may be; those that ended and have not told their last are counted.
    pub watches: usize,
    /// How much is kept of the content of each watch, to show what changed, in bytes. Of what is longer
    /// only the sizes are told.
    pub watch_text_bytes: usize,
    /// How many calls may be under way with one server.
    pub calls_per_server: usize,
    /// How many calls may be under way in the whole host, besides the few that every server may
    /// have in any case, so that servers that hang do not use up the calls of the others.
    pub calls_in_flight: usize,
}

const KIB: usize = 1024;
const MIB: usize = 1024 * KIB;

/// More than anybody counts to, and as much as a semaphore or a channel can.
pub const MOST: usize = usize::MAX >> 6;

/// More than anybody is asked in a minute: each is remembered for that long.
const MOST_PER_MINUTE: usize = 10_000;

/// Deeper nesting than this is refused whatever [`Limits::json_depth`] says.
pub const DEEPEST_JSON: usize = 128;

/// What is longer than this, in bytes, is worked on aside: it would keep the tasks of other servers
/// waiting.
pub const LARGE: usize = MIB;

impl Default for Limits {
    fn default() -> Self {
        Self {
            message_bytes: 16 * MIB,
            memory_bytes: 128 * MIB,
            json_nodes: 1_000_000,
            json_depth: DEEPEST_JSON,
            tree_nodes: 100_000,
            write_queue_bytes: 32 * MIB,
            list_pages: 1_000,
            tools_per_server: 20_000,
            resources_per_server: 100_000,
            prompts_per_server: 10_000,
            listing_bytes: 64 * MIB,
            cursor_bytes: 64 * KIB,
            stderr_tail_bytes: 16 * KIB,
            inbound_requests: 16,
            input_rounds: 8,
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
    /// What would overflow elsewhere is merely very large.
    pub fn within_reason(mut self) -> Self {
        self.json_depth = self.json_depth.min(DEEPEST_JSON);
        for rate in [
            &mut self.questions_per_minute,
            &mut self.samplings_per_minute,
        ] {
            *rate = (*rate).min(MOST_PER_MINUTE);
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
}

impl Limits {
    /// The bound on the JSON of one message.
    pub fn json_budget(&self) -> JsonBudget {
        JsonBudget::new(self.json_nodes, self.json_depth)
    }
}
