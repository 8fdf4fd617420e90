//! Performs the handshake: `server/discover` of the modern era or `initialize` of the legacy era.
//!
//! This module sends the requests and waits for the responses. [`super::negotiate`] decides what a
//! response means.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::timeout;

use super::ClientContext;
use super::negotiate::{
    AfterProbe, HandshakeRejection, ProbeOutcome, ProbeRequest, after_initialize, after_probe,
};
#[cfg(feature = "http")]
use crate::session::http::{Sse2024Session, StreamableHttpSession};
use crate::session::{Deadline, LineSession, RequestError, Session, TransportFailure};
use switchboard_wire::decode;
use switchboard_wire::jsonrpc::{InvalidMessage, RawResult};
use switchboard_wire::limits::FieldLimits;
use switchboard_wire::mcp::{ProtocolVersion, ServerHello};

/// The first request of a handshake.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum FirstRequest {
    /// `server/discover`, the probe that finds out the era of the server.
    Discover,
    /// `initialize`, which only legacy servers support.
    Initialize,
}

/// Why the handshake failed.
pub(super) enum HandshakeError {
    SessionEnded,
    Rejected(HandshakeRejection),
    /// The transport failed, or the server responded with an HTTP error.
    Failed(RequestError),
    TimedOut,
}

/// The operations of a session that a handshake uses.
pub(super) trait HandshakeTransport {
    /// Sends `server/discover`.
    fn discover(
        &self,
        version: ProtocolVersion,
        deadline: Deadline,
    ) -> impl Future<Output = Result<RawResult, RequestError>> + Send;

    /// Sends `initialize` with the capabilities of this client.
    fn initialize(
        &self,
        version: ProtocolVersion,
        deadline: Deadline,
    ) -> impl Future<Output = Result<RawResult, RequestError>> + Send;

    /// Sends `notifications/initialized`.
    fn send_initialized(&self, version: ProtocolVersion) -> impl Future<Output = ()> + Send;

    /// Waits until a message of the server is lost because other output precedes it on the same
    /// line. Never returns on HTTP.
    fn message_lost(&self) -> impl Future<Output = ()> + Send;
}

impl HandshakeTransport for Arc<LineSession> {
    async fn discover(
        &self,
        version: ProtocolVersion,
        deadline: Deadline,
    ) -> Result<RawResult, RequestError> {
        LineSession::discover(self, version, deadline).await
    }

    async fn initialize(
        &self,
        version: ProtocolVersion,
        deadline: Deadline,
    ) -> Result<RawResult, RequestError> {
        LineSession::initialize(self, version, deadline).await
    }

    async fn send_initialized(&self, _: ProtocolVersion) {
        LineSession::send_initialized(self);
    }

    async fn message_lost(&self) {
        LineSession::message_lost(self).await;
    }
}

#[cfg(feature = "http")]
impl HandshakeTransport for Arc<StreamableHttpSession> {
    async fn discover(
        &self,
        version: ProtocolVersion,
        deadline: Deadline,
    ) -> Result<RawResult, RequestError> {
        StreamableHttpSession::discover(self, version, deadline).await
    }

    async fn initialize(
        &self,
        version: ProtocolVersion,
        deadline: Deadline,
    ) -> Result<RawResult, RequestError> {
        StreamableHttpSession::initialize(self, version, deadline).await
    }

    async fn send_initialized(&self, version: ProtocolVersion) {
        StreamableHttpSession::send_initialized(self, version).await;
    }

    async fn message_lost(&self) {
        std::future::pending::<()>().await;
    }
}

/// Performs the handshake on any transport. Returns `None` for a server in this process, which
/// needs no handshake.
pub(super) async fn negotiate_session(
    session: &Session,
    first: FirstRequest,
    remaining: Duration,
    context: &ClientContext,
) -> Result<Option<ServerHello>, HandshakeError> {
    let terms = HandshakeTerms {
        remaining,
        probe: context.deadlines.probe,
        limits: context.session.limits.field_limits(),
    };
    let handshake = match session {
        Session::Line(line) => shake_hands(line, first, &terms).await?,
        #[cfg(feature = "http")]
        Session::StreamableHttp(http) => {
            // Boxed because this future is larger than those of the other transports.
            Box::pin(shake_hands(http, first, &terms)).await?
        }
        #[cfg(feature = "http")]
        Session::Sse2024(sse) => initialize_sse_2024(sse, &terms).await?,
        Session::Local(_) => return Ok(None),
    };
    Ok(Some(handshake))
}

/// Performs the handshake of HTTP+SSE of 2024-11-05, which is always `initialize`.
#[cfg(feature = "http")]
async fn initialize_sse_2024(
    session: &Arc<Sse2024Session>,
    terms: &HandshakeTerms,
) -> Result<ServerHello, HandshakeError> {
    let version = ProtocolVersion::LATEST_LEGACY;
    let response = session
        .initialize(version, Deadline::after(terms.remaining))
        .await;
    let handshake = parse_initialized(response, &terms.limits)?;
    session.send_initialized().await;
    Ok(handshake)
}

/// The limits of a handshake.
struct HandshakeTerms {
    /// The time that is left of the startup deadline.
    remaining: Duration,
    /// Maximum wait for the response to the probe, before `initialize` is sent as well.
    probe: Duration,
    /// The limits on what the server reports about itself.
    limits: FieldLimits,
}

/// Performs the handshake on a transport that serves both eras.
async fn shake_hands(
    transport: &impl HandshakeTransport,
    first: FirstRequest,
    terms: &HandshakeTerms,
) -> Result<ServerHello, HandshakeError> {
    let remaining = terms.remaining;
    if first == FirstRequest::Initialize {
        let initialize = initialize(transport, ProtocolVersion::LATEST_LEGACY, terms);
        return tokio::select! {
            biased;
            outcome = initialize => outcome,
            () = transport.message_lost() => Err(HandshakeError::Rejected(lost_response())),
        };
    }
    let mut probe_request = ProbeRequest::first();
    loop {
        let probe = transport.discover(probe_request.version, Deadline::after(remaining));
        tokio::pin!(probe);
        // Wait at most half of `remaining` for the probe, so that time is left for `initialize`.
        let response = timeout(terms.probe.min(remaining / 2), &mut probe);
        let outcome = tokio::select! {
            biased;
            response = response => match response {
                Ok(outcome) => probe_outcome(outcome, &terms.limits)?,
                Err(_) => ProbeOutcome::Silent,
            },
            // The lost message was probably the response to the probe, so send `initialize` without
            // further delay.
            () = transport.message_lost() => ProbeOutcome::Silent,
        };
        match after_probe(outcome, probe_request) {
            AfterProbe::Modern(handshake) => return Ok(*handshake),
            AfterProbe::ProbeAgain(version) => {
                probe_request = ProbeRequest {
                    version,
                    is_repeated: true,
                };
            }
            AfterProbe::Initialize(version) => {
                return initialize(transport, version, terms).await;
            }
            AfterProbe::InitializeAndWait => {
                return initialize_and_wait(transport, probe, probe_request, terms).await;
            }
            AfterProbe::Restart => return Err(HandshakeError::SessionEnded),
            AfterProbe::Reject(rejection) => return Err(HandshakeError::Rejected(rejection)),
        }
    }
}

/// Sends `initialize` while the response to the probe is outstanding. The first usable response
/// completes the handshake.
async fn initialize_and_wait(
    transport: &impl HandshakeTransport,
    mut probe: impl Future<Output = Result<RawResult, RequestError>> + Unpin,
    probe_request: ProbeRequest,
    terms: &HandshakeTerms,
) -> Result<ServerHello, HandshakeError> {
    let limits = &terms.limits;
    let initialize = initialize(transport, ProtocolVersion::LATEST_LEGACY, terms);
    tokio::pin!(initialize);
    tokio::select! {
        biased;
        late = &mut probe => match after_probe(probe_outcome(late, limits)?, probe_request) {
            AfterProbe::Modern(handshake) => Ok(*handshake),
            AfterProbe::Reject(rejection) => Err(HandshakeError::Rejected(rejection)),
            _ => initialize.await,
        },
        outcome = &mut initialize => match outcome {
            // A modern server rejects `initialize`. Its response to the probe may still arrive.
            Err(HandshakeError::Rejected(rejection)) => {
                match after_probe(probe_outcome(probe.await, limits)?, probe_request) {
                    AfterProbe::Modern(handshake) => Ok(*handshake),
                    _ => Err(HandshakeError::Rejected(rejection)),
                }
            }
            outcome => outcome,
        },
    }
}

fn lost_response() -> HandshakeRejection {
    let reason = "other output precedes it on its line";
    HandshakeRejection::InvalidResponse(InvalidMessage::Malformed(reason.to_owned()))
}

fn probe_outcome(
    outcome: Result<RawResult, RequestError>,
    limits: &FieldLimits,
) -> Result<ProbeOutcome, HandshakeError> {
    Ok(match outcome {
        Ok(response) => match decode::discover_result(&response, limits) {
            Ok(discovered) => ProbeOutcome::Discovered(discovered),
            Err(error) => ProbeOutcome::InvalidResponse(error),
        },
        Err(RequestError::ErrorResponse(error)) => ProbeOutcome::ErrorResponse(error),
        Err(RequestError::InvalidResponse(error)) => ProbeOutcome::InvalidResponse(error),
        Err(RequestError::Lost { .. } | RequestError::UnknownSession) => ProbeOutcome::SessionEnded,
        Err(RequestError::Transport(failure)) if means_unknown_method(&failure) => {
            ProbeOutcome::InvalidResponse(InvalidMessage::Malformed(failure.message))
        }
        Err(error @ (RequestError::Transport(_) | RequestError::NeedsLogin(_))) => {
            return Err(HandshakeError::Failed(error));
        }
        Err(_) => return Err(HandshakeError::TimedOut),
    })
}

/// Whether an HTTP error suggests that the server does not know the method of the request. `false`
/// for errors that can occur with any method: a required login, a timeout, an overload, a redirect
/// or a 5xx status.
fn means_unknown_method(failure: &TransportFailure) -> bool {
    match failure.status {
        Some(401 | 403 | 407 | 408 | 425 | 429) | None => false,
        Some(status) => (200..500).contains(&status) && !(300..400).contains(&status),
    }
}

async fn initialize(
    transport: &impl HandshakeTransport,
    version: ProtocolVersion,
    terms: &HandshakeTerms,
) -> Result<ServerHello, HandshakeError> {
    let response = transport
        .initialize(version, Deadline::after(terms.remaining))
        .await;
    let handshake = parse_initialized(response, &terms.limits)?;
    transport.send_initialized(handshake.version).await;
    Ok(handshake)
}

fn parse_initialized(
    response: Result<RawResult, RequestError>,
    limits: &FieldLimits,
) -> Result<ServerHello, HandshakeError> {
    match response {
        Ok(response) => decode::initialize_result(&response, limits)
            .map_err(HandshakeRejection::InvalidResponse)
            .and_then(after_initialize)
            .map_err(HandshakeError::Rejected),
        Err(RequestError::ErrorResponse(error)) => Err(HandshakeError::Rejected(
            HandshakeRejection::ErrorResponse(error),
        )),
        Err(RequestError::InvalidResponse(error)) => Err(HandshakeError::Rejected(
            HandshakeRejection::InvalidResponse(error),
        )),
        Err(RequestError::Lost { .. } | RequestError::UnknownSession) => {
            Err(HandshakeError::SessionEnded)
        }
        Err(error @ (RequestError::Transport(_) | RequestError::NeedsLogin(_))) => {
            Err(HandshakeError::Failed(error))
        }
        Err(_) => Err(HandshakeError::TimedOut),
    }
}
