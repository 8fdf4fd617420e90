//! The output of a handler whose server does not write to stdout, for example a handler of an HTTP
//! server.

use std::fmt;
use std::pin::Pin;

use super::state::StepsStopped;

/// A piece of handler output.
#[derive(Debug, Clone)]
pub(crate) enum Chunk {
    /// A message, or any other line that the script sends, without the line feed.
    Line(String),
    /// Bytes that are written as they are, without a line feed.
    Bytes(Vec<u8>),
}

/// Completes when the chunk is queued.
pub(crate) type WriteFuture<'a> =
    Pin<Box<dyn Future<Output = Result<(), StepsStopped>> + Send + 'a>>;

/// The output of one handler.
pub(crate) trait HandlerOutput: fmt::Debug + Send + Sync {
    /// Queues output that belongs to the handler's request; waits while the queue is full.
    fn put(&self, chunk: Chunk) -> WriteFuture<'_>;
    /// Queues output that belongs to no request.
    fn put_notification(&self, chunk: Chunk) -> WriteFuture<'_>;
    /// Marks the output as complete. Called when the handler has ended.
    fn finish(&self);
    /// Ends the output. Output that follows goes to the stream for notifications, or is dropped if
    /// there is none.
    fn close(&self);
    /// Returns whether output that belongs to the request can still reach the client.
    fn is_open(&self) -> bool;
    /// Returns whether output that belongs to no request can still reach the client.
    fn accepts_notifications(&self) -> bool;
}
