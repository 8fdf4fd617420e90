//! Bodies: ours, which is there at once, and the server's, which comes in pieces of bounded size.
//!
//! Invariant: the connection goes back to the pool when the body was read to its end, and is closed
//! when the body is dropped before.

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
use super::gzip::Gunzip;
use super::pool::{Connection, IDLE_TIME, Pool};
use switchboard_wire::limits::LARGE_MESSAGE_BYTES;
use switchboard_wire::memory_budget::{MemoryBudget, MemoryPermit};

/// How long before the server closes a connection we stop using it.
const MARGIN: Duration = Duration::from_secs(1);

/// What is longer is no name of an encoding, in bytes.
const LONGEST_ENCODING: usize = 40;

/// The body of a request.
pub(super) struct Payload(Bytes);

impl Payload {
    pub(super) fn new(bytes: Bytes) -> Self {
        Self(bytes)
    }
}

impl hyper::body::Body for Payload {
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

/// The body of an answer.
pub(crate) struct Body {
    incoming: hyper::body::Incoming,
    /// Until the end was read.
    connection: Option<Connection>,
    pool: Weak<Pool>,
    /// How long the server keeps the connection open for the next request.
    kept_for: Duration,
    encoding: Encoding,
    at: Arc<str>,
}

enum Encoding {
    Plain,
    Gzip(Box<Gunzip>),
    /// One that we did not ask for.
    Unknown(String),
}

/// Why a body could not be had as a whole.
#[derive(Debug, thiserror::Error)]
pub(crate) enum BodyError {
    #[error("the answer is longer than {limit} bytes (limit `message_bytes`)")]
    TooLong { limit: usize },
    #[error(
        "no room for the answer: the messages under way take {limit} bytes already (limit \
         `memory_bytes`)"
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
        at: &Arc<str>,
    ) -> Self {
        let mut body = Self {
            incoming,
            connection,
            pool: Arc::downgrade(pool),
            kept_for: kept_for(headers),
            encoding: Encoding::of(headers),
            at: Arc::clone(at),
        };
        body.give_back_at_the_end();
        body
    }

    /// The next piece, decoded; none at the end.
    pub(crate) async fn chunk(&mut self) -> Result<Option<Bytes>, HttpError> {
        loop {
            match &mut self.encoding {
                Encoding::Plain => return self.raw_chunk().await,
                Encoding::Gzip(gunzip) => {
                    let piece = gunzip.next_piece();
                    if let Some(piece) = piece.map_err(|error| self.damaged(&error))? {
                        return Ok(Some(piece));
                    }
                }
                Encoding::Unknown(encoding) => {
                    let at = self.at.to_string();
                    let encoding = encoding.clone();
                    self.connection = None;
                    let kind = HttpErrorKind::Encoding { at, encoding };
                    return Err(HttpError::unknown(kind));
                }
            }
            let raw = self.raw_chunk().await?;
            let Encoding::Gzip(gunzip) = &mut self.encoding else {
                return Ok(raw);
            };
            match raw {
                Some(raw) => gunzip.put(raw),
                None => {
                    let end = gunzip.finish();
                    return end.map_err(|error| self.damaged(&error));
                }
            }
        }
    }

    /// The rest of the body in one piece, and its share of the budget.
    pub(crate) async fn collect(
        &mut self,
        limit: usize,
        budget: &MemoryBudget,
    ) -> Result<(Bytes, Option<MemoryPermit>), BodyError> {
        let announced = self.announced();
        if announced.is_some_and(|length| length > limit) {
            self.connection = None;
            return Err(BodyError::TooLong { limit });
        }
        let mut held = None;
        let Some(first) = self.chunk().await? else {
            return Ok((Bytes::new(), None));
        };
        self.admit(first.len(), limit, budget, &mut held)?;
        let Some(second) = self.chunk().await? else {
            return Ok((first, held));
        };
        // What is announced need not come: no more than this is set aside before it does.
        let capacity = announced.unwrap_or(0).min(LARGE_MESSAGE_BYTES);
        let mut whole = BytesMut::with_capacity(capacity.max(first.len() + second.len()));
        whole.extend_from_slice(&first);
        drop(first);
        let mut next = Some(second);
        while let Some(chunk) = next {
            self.admit(whole.len() + chunk.len(), limit, budget, &mut held)?;
            whole.extend_from_slice(&chunk);
            drop(chunk);
            next = self.chunk().await?;
        }
        Ok((whole.freeze(), held))
    }

    /// Whether the connection may be used again: the end was read.
    #[cfg(test)]
    pub(super) fn is_done(&self) -> bool {
        self.connection.is_none()
    }

    fn announced(&self) -> Option<usize> {
        let plain = matches!(self.encoding, Encoding::Plain);
        let length = self.incoming.size_hint().exact().filter(|_| plain)?;
        Some(usize::try_from(length).unwrap_or(usize::MAX))
    }

    fn admit(
        &mut self,
        size: usize,
        limit: usize,
        budget: &MemoryBudget,
        held: &mut Option<MemoryPermit>,
    ) -> Result<(), BodyError> {
        let refusal = if size > limit {
            BodyError::TooLong { limit }
        } else if !budget.grow(held, size) {
            let limit = budget.limit();
            BodyError::NoRoom { limit }
        } else {
            return Ok(());
        };
        self.connection = None;
        Err(refusal)
    }

    /// The next piece as it came over the wire. What comes after the data (trailers) is ignored.
    async fn raw_chunk(&mut self) -> Result<Option<Bytes>, HttpError> {
        loop {
            let frame = poll_fn(|cx| Pin::new(&mut self.incoming).poll_frame(cx)).await;
            match frame {
                Some(Ok(frame)) => {
                    self.give_back_at_the_end();
                    if let Ok(data) = frame.into_data() {
                        return Ok(Some(data));
                    }
                }
                Some(Err(error)) => {
                    self.connection = None;
                    let kind = error::of_exchange(&self.at, &error, true);
                    return Err(HttpError::unknown(kind));
                }
                None => {
                    self.give_back();
                    return Ok(None);
                }
            }
        }
    }

    fn give_back_at_the_end(&mut self) {
        if self.incoming.is_end_stream() {
            self.give_back();
        }
    }

    fn give_back(&mut self) {
        if let (Some(connection), Some(pool)) = (self.connection.take(), self.pool.upgrade()) {
            pool.put(connection, self.kept_for);
        }
    }

    fn damaged(&mut self, error: &std::io::Error) -> HttpError {
        self.connection = None;
        HttpError::unknown(HttpErrorKind::Gzip {
            at: self.at.to_string(),
            error: error.to_string(),
        })
    }
}

impl Encoding {
    fn of(headers: &HeaderMap) -> Self {
        let Some(value) = headers.get(header::CONTENT_ENCODING) else {
            return Self::Plain;
        };
        let text = String::from_utf8_lossy(value.as_bytes());
        let name = text.trim();
        let is = |other: &str| name.eq_ignore_ascii_case(other);
        if name.is_empty() || is("identity") {
            Self::Plain
        } else if is("gzip") || is("x-gzip") {
            Self::Gzip(Box::default())
        } else {
            // What is too long for one may be anything: half a secret, even.
            let is_short = name.len() <= LONGEST_ENCODING;
            let name = if is_short { name } else { "…" };
            Self::Unknown(name.escape_debug().collect())
        }
    }
}

/// What `Keep-Alive: timeout=…` says, less a margin. Zero: it is not kept.
fn kept_for(headers: &HeaderMap) -> Duration {
    let Some(value) = headers.get("keep-alive") else {
        return IDLE_TIME;
    };
    let text = value.to_str().unwrap_or_default();
    let timeout = text.split(',').find_map(|part| {
        let (name, value) = part.split_once('=')?;
        let value = value.trim().parse().ok()?;
        name.trim().eq_ignore_ascii_case("timeout").then_some(value)
    });
    match timeout {
        Some(seconds) => Duration::from_secs(seconds).saturating_sub(MARGIN),
        None => IDLE_TIME,
    }
}
