//! Where a handler's words go when the server has no stdout.

use std::fmt;
use std::pin::Pin;

use super::state::StepsStopped;

/// What a handler says at once.
#[derive(Debug, Clone)]
pub(crate) enum Chunk {
    /// A message, or what the script passes off as one.
    Line(String),
    /// Bytes that belong to no message.
    Bytes(Vec<u8>),
}

/// What comes of saying it.
pub(crate) type WriteFuture<'a> =
    Pin<Box<dyn Future<Output = Result<(), StepsStopped>> + Send + 'a>>;

/// Where the words of one handler go.
pub(crate) trait HandlerOutput: fmt::Debug + Send + Sync {
    /// Says what belongs to the request; waits while nobody reads.
    fn put(&self, piece: Chunk) -> WriteFuture<'_>;
    /// Says what belongs to no request.
    fn put_unasked(&self, piece: Chunk) -> WriteFuture<'_>;
    /// The handler is done.
    fn finish(&self);
    /// Says nothing more from now on.
    fn close(&self);
    /// Whether anybody can still hear it.
    fn is_open(&self) -> bool;
    /// Whether anybody can still hear what belongs to no request.
    fn hears_unasked(&self) -> bool;
}
