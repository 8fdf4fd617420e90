//! Request bodies, and response bodies that are read in chunks of bounded size.
//!
//! Invariant: when a response body was read to its end, its connection returns to the pool, unless
//! the pool does not accept it. If the body is dropped before its end, its connection is closed.

use std::convert::Infallible;
use std::future::poll_fn;
use std::pin::Pin;
use std::sync::{Arc, Weak};
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http::{HeaderMap, header};
use hyper::body::{Body as _, Frame, SizeHint};

use super::error::{self, HttpError, HttpErrorKind};
use super::gzip::GzipDecoder;
use super::pool::{Connection, MAX_IDLE_TIME, Pool};
use switchboard_wire::limits::LARGE_MESSAGE_BYTES;
use switchboard_wire::memory_budget::{MemoryBudget, MemoryPermit};

/// Subtracted from the idle time that the server announces, so that the pool closes a connection
/// before the server does. Otherwise a request could be written while the server closes the
/// connection.
const KEEP_ALIVE_MARGIN: Duration = Duration::from_secs(1);

/// Maximum length of a `Content-Encoding` that error messages quote. A longer value is shown as
/// `…`.
const MAX_ENCODING_BYTES: usize = 40;

/// The body of a request, which hyper receives as one frame.
pub(super) struct RequestBody(Bytes);

impl RequestBody {
    pub(super) fn new(bytes: Bytes) -> Self {
        Self(bytes)
    }
}

impl hyper::body::Body for RequestBody {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let bytes = std::mem::take(&mut self.0);
        Poll::Ready((!bytes.is_empty()).then(|| Ok(Frame::data(bytes))))
    }

    fn is_end_stream(&self) -> bool {
        self.0.is_empty()
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.0.len() as u64)
    }
}

/// The body of a response, decoded while it is read.
pub(crate) struct Body {
    incoming: hyper::body::Incoming,
    /// The connection on which the body arrives. `None` after the end of the body, after an error,
    /// and if the connection closed when the response arrived.
    connection: Option<Connection>,
    pool: Weak<Pool>,
    /// How long the connection may stay idle in the pool after the end of this body.
    keep_alive: Duration,
    encoding: ContentEncoding,
    /// `host:port` of the server, for errors.
    address: Arc<str>,
}

enum ContentEncoding {
    Identity,
    Gzip(Box<GzipDecoder>),
    /// Any other encoding. The client offers only gzip in `Accept-Encoding`.
    Unsupported(String),
}

/// Why a response body could not be collected in memory.
#[derive(Debug, thiserror::Error)]
pub(crate) enum BodyError {
    #[error("the response is longer than {limit} bytes (limit `messageBytes`)")]
    TooLong { limit: usize },
    #[error(
        "no memory left for the response: messages in flight may take {limit} bytes in total \
         (limit `memoryBytes`)"
    )]
    NoRoom { limit: usize },
    #[error(transparent)]
    Http(#[from] HttpError),
}

impl Body {
    pub(super) fn new(
        incoming: hyper::body::Incoming,
        headers: &HeaderMap,
        connection: Option<Connection>,
        pool: &Arc<Pool>,
        address: &Arc<str>,
    ) -> Self {
        let mut body = Self {
            incoming,
            connection,
            pool: Arc::downgrade(pool),
            keep_alive: parse_keep_alive(headers),
            encoding: ContentEncoding::from_headers(headers),
            address: Arc::clone(address),
        };
        body.release_connection_at_end();
        body
    }

    /// Reads and decodes the next chunk. Returns `None` at the end of the body.
    pub(crate) async fn chunk(&mut self) -> Result<Option<Bytes>, HttpError> {
        loop {
            match &mut self.encoding {
                ContentEncoding::Identity => return self.raw_chunk().await,
                ContentEncoding::Gzip(decoder) => {
                    let chunk = decoder.next_chunk();
                    if let Some(chunk) = chunk.map_err(|error| self.close_corrupt(&error))? {
                        return Ok(Some(chunk));
                    }
                }
                ContentEncoding::Unsupported(encoding) => {
                    let address = self.address.to_string();
                    let encoding = encoding.clone();
                    self.connection = None;
                    let kind = HttpErrorKind::UnsupportedEncoding { address, encoding };
                    return Err(HttpError::unknown(kind));
                }
            }
            let raw = self.raw_chunk().await?;
            let ContentEncoding::Gzip(decoder) = &mut self.encoding else {
                return Ok(raw);
            };
            match raw {
                Some(raw) => decoder.set_input(raw),
                None => {
                    let rest = decoder.finish();
                    return rest.map_err(|error| self.close_corrupt(&error));
                }
            }
        }
    }

    /// Reads the rest of the body, at most `limit` bytes. Also returns the permit for the memory
    /// that the body takes from `budget`; `None` for a body that is too short to be counted.
    pub(crate) async fn collect(
        &mut self,
        limit: usize,
        budget: &MemoryBudget,
    ) -> Result<(Bytes, Option<MemoryPermit>), BodyError> {
        let content_length = self.content_length();
        if content_length.is_some_and(|length| length > limit) {
            self.connection = None;
            return Err(BodyError::TooLong { limit });
        }
        let mut permit = None;
        let Some(first) = self.chunk().await? else {
            return Ok((Bytes::new(), None));
        };
        self.reserve(first.len(), limit, budget, &mut permit)?;
        // A body of a single chunk is returned without a copy.
        let Some(second) = self.chunk().await? else {
            return Ok((first, permit));
        };
        // Allocate at most `LARGE_MESSAGE_BYTES` in advance: the server may announce a wrong
        // `Content-Length`.
        let capacity = content_length.unwrap_or(0).min(LARGE_MESSAGE_BYTES);
        let mut whole = BytesMut::with_capacity(capacity.max(first.len() + second.len()));
        whole.extend_from_slice(&first);
        drop(first);
        let mut next = Some(second);
        while let Some(chunk) = next {
            self.reserve(whole.len() + chunk.len(), limit, budget, &mut permit)?;
            whole.extend_from_slice(&chunk);
            drop(chunk);
            next = self.chunk().await?;
        }
        Ok((whole.freeze(), permit))
    }

    /// Whether the body has returned its connection to the pool or closed it.
    #[cfg(test)]
    pub(super) fn has_released_connection(&self) -> bool {
        self.connection.is_none()
    }

    /// The length of the body from `Content-Length`; `None` without that header or for a compressed
    /// body.
    fn content_length(&self) -> Option<usize> {
        let is_identity = matches!(self.encoding, ContentEncoding::Identity);
        let length = self.incoming.size_hint().exact().filter(|_| is_identity)?;
        Some(usize::try_from(length).unwrap_or(usize::MAX))
    }

    /// Raises the memory that the body takes from the budget to `size` bytes. Closes the connection
    /// and fails if `size` exceeds `limit` or the budget is exhausted.
    fn reserve(
        &mut self,
        size: usize,
        limit: usize,
        budget: &MemoryBudget,
        permit: &mut Option<MemoryPermit>,
    ) -> Result<(), BodyError> {
        let error = if size > limit {
            BodyError::TooLong { limit }
        } else if !budget.grow(permit, size) {
            let limit = budget.limit();
            BodyError::NoRoom { limit }
        } else {
            return Ok(());
        };
        self.connection = None;
        Err(error)
    }

    /// Reads the next chunk without decoding it. Skips trailers. Returns `None` at the end of the
    /// body.
    async fn raw_chunk(&mut self) -> Result<Option<Bytes>, HttpError> {
        loop {
            let frame = poll_fn(|cx| Pin::new(&mut self.incoming).poll_frame(cx)).await;
            match frame {
                Some(Ok(frame)) => {
                    self.release_connection_at_end();
                    if let Ok(data) = frame.into_data() {
                        return Ok(Some(data));
                    }
                }
                Some(Err(error)) => {
                    self.connection = None;
                    let kind = error::from_hyper(&self.address, &error, true);
                    return Err(HttpError::unknown(kind));
                }
                None => {
                    self.release_connection();
                    return Ok(None);
                }
            }
        }
    }

    fn release_connection_at_end(&mut self) {
        if self.incoming.is_end_stream() {
            self.release_connection();
        }
    }

    /// Returns the connection to the pool, or closes it if the client was dropped.
    fn release_connection(&mut self) {
        if let (Some(connection), Some(pool)) = (self.connection.take(), self.pool.upgrade()) {
            pool.put(connection, self.keep_alive);
        }
    }

    /// Closes the connection because the gzip data of the body is invalid. Returns the error.
    fn close_corrupt(&mut self, error: &std::io::Error) -> HttpError {
        self.connection = None;
        HttpError::unknown(HttpErrorKind::CorruptGzip {
            address: self.address.to_string(),
            error: error.to_string(),
        })
    }
}

impl ContentEncoding {
    fn from_headers(headers: &HeaderMap) -> Self {
        let Some(value) = headers.get(header::CONTENT_ENCODING) else {
            return Self::Identity;
        };
        let text = String::from_utf8_lossy(value.as_bytes());
        let name = text.trim();
        let is = |other: &str| name.eq_ignore_ascii_case(other);
        if name.is_empty() || is("identity") {
            Self::Identity
        } else if is("gzip") || is("x-gzip") {
            Self::Gzip(Box::default())
        } else {
            // A value this long is not the name of an encoding, and may contain part of a secret.
            let is_short = name.len() <= MAX_ENCODING_BYTES;
            let name = if is_short { name } else { "…" };
            Self::Unsupported(name.escape_debug().collect())
        }
    }
}

/// Returns how long a connection may stay idle: the value of `Keep-Alive: timeout=…` less
/// `KEEP_ALIVE_MARGIN`, or `MAX_IDLE_TIME` without that value. Zero means that the connection is
/// not pooled.
fn parse_keep_alive(headers: &HeaderMap) -> Duration {
    let Some(value) = headers.get("keep-alive") else {
        return MAX_IDLE_TIME;
    };
    let text = value.to_str().unwrap_or_default();
    let timeout = text.split(',').find_map(|part| {
        let (name, value) = part.split_once('=')?;
        let value = value.trim().parse().ok()?;
        name.trim().eq_ignore_ascii_case("timeout").then_some(value)
    });
    match timeout {
        Some(seconds) => Duration::from_secs(seconds).saturating_sub(KEEP_ALIVE_MARGIN),
        None => MAX_IDLE_TIME,
    }
}
