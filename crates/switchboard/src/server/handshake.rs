//! The first exchange with a server that speaks JSON text.
//!
//! It asks and listens; what an answer means is decided in [`super::negotiate`].

use std::sync::Arc;
use std::time::Duration;

use tokio::time::timeout;

use super::negotiate::{AfterProbe, Asked, Probed, Refusal, after_initialize, after_probe};
use crate::limits::Deadlines;
use crate::mcp::{ProtocolVersion, ServerHello};
use crate::session::http::{Sse2024Session, StreamableHttpSession};
use crate::session::{Deadline, LineSession, RequestError, TransportFailure};
use crate::wire::{Answer, Problem, decode};

/// How the handshake begins.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Opening {
    Probe,
    Initialize,
}

/// Why no session came about.
pub(super) enum HandshakeError {
    Gone,
    Refused(Refusal),
    /// The way to the server failed, or HTTP said no.
    Failed(RequestError),
    TimedOut,
}

/// A session that nothing was said on yet.
pub(super) trait Unopened {
    /// `server/discover`, asked before anything is known of the server.
    fn discover(
        &self,
        version: ProtocolVersion,
        deadline: Deadline,
    ) -> impl Future<Output = Result<Answer, RequestError>> + Send;

    /// `initialize`, with what the host offers to servers.
    fn initialize(
        &self,
        version: ProtocolVersion,
        deadline: Deadline,
    ) -> impl Future<Output = Result<Answer, RequestError>> + Send;

    /// Tells the server that the handshake is over.
    fn send_initialized(&self, version: ProtocolVersion) -> impl Future<Output = ()> + Send;

    /// Comes back when a message of the server was lost, because it did not begin a line.
    fn garbled(&self) -> impl Future<Output = ()> + Send;
}

impl Unopened for Arc<LineSession> {
    async fn discover(
        &self,
        version: ProtocolVersion,
        deadline: Deadline,
    ) -> Result<Answer, RequestError> {
        LineSession::discover(self, version, deadline).await
    }

    async fn initialize(
        &self,
        version: ProtocolVersion,
        deadline: Deadline,
    ) -> Result<Answer, RequestError> {
        LineSession::initialize(self, version, deadline).await
    }

    async fn send_initialized(&self, _: ProtocolVersion) {
        LineSession::send_initialized(self);
    }

    async fn garbled(&self) {
        LineSession::message_lost(self).await;
    }
}

impl Unopened for Arc<StreamableHttpSession> {
    async fn discover(
        &self,
        version: ProtocolVersion,
        deadline: Deadline,
    ) -> Result<Answer, RequestError> {
        StreamableHttpSession::discover(self, version, deadline).await
    }

    async fn initialize(
        &self,
        version: ProtocolVersion,
        deadline: Deadline,
    ) -> Result<Answer, RequestError> {
        StreamableHttpSession::initialize(self, version, deadline).await
    }

    async fn send_initialized(&self, version: ProtocolVersion) {
        StreamableHttpSession::send_initialized(self, version).await;
    }

    async fn garbled(&self) {
        std::future::pending::<()>().await;
    }
}

/// The oldest transport has the older handshake only.
pub(super) async fn shake_hands_on_stream(
    stream: &Arc<Sse2024Session>,
    left: Duration,
) -> Result<ServerHello, HandshakeError> {
    let version = ProtocolVersion::LATEST_LEGACY;
    let answer = stream.initialize(version, Deadline::after(left)).await;
    let handshake = initialized(answer)?;
    stream.send_initialized().await;
    Ok(handshake)
}

/// Finds out what the server speaks, by the table in [`super::negotiate`], and agrees on it.
pub(super) async fn shake_hands(
    connection: &impl Unopened,
    opening: Opening,
    left: Duration,
    deadlines: &Deadlines,
) -> Result<ServerHello, HandshakeError> {
    if opening == Opening::Initialize {
        let initialize = initialize(connection, ProtocolVersion::LATEST_LEGACY, left);
        return tokio::select! {
            biased;
            outcome = initialize => outcome,
            () = connection.garbled() => Err(HandshakeError::Refused(lost_answer())),
        };
    }
    let mut asked = Asked::first();
    loop {
        let probe = connection.discover(asked.version, Deadline::after(left));
        tokio::pin!(probe);
        // Whatever the time for a start is, half of it is left for the older handshake.
        let answer = timeout(deadlines.probe.min(left / 2), &mut probe);
        let probed = tokio::select! {
            biased;
            answer = answer => match answer {
                Ok(outcome) => probed(outcome)?,
                Err(_) => Probed::Silent,
            },
            // It was the answer to the probe, which nobody needs to wait for then.
            () = connection.garbled() => Probed::Silent,
        };
        match after_probe(probed, asked) {
            AfterProbe::Modern(handshake) => return Ok(*handshake),
            AfterProbe::ProbeAgain(version) => {
                asked = Asked {
                    version,
                    is_repeated: true,
                };
            }
            AfterProbe::Initialize(version) => return initialize(connection, version, left).await,
            AfterProbe::InitializeAndListen => {
                return initialize_and_listen(connection, probe, asked, left).await;
            }
            AfterProbe::StartAnew => return Err(HandshakeError::Gone),
            AfterProbe::Refuse(status) => return Err(HandshakeError::Refused(status)),
        }
    }
}

/// The probe got no answer in time: the older handshake begins, and whichever answer comes first
/// and is of use counts.
async fn initialize_and_listen(
    connection: &impl Unopened,
    mut probe: impl Future<Output = Result<Answer, RequestError>> + Unpin,
    asked: Asked,
    left: Duration,
) -> Result<ServerHello, HandshakeError> {
    let initialize = initialize(connection, ProtocolVersion::LATEST_LEGACY, left);
    tokio::pin!(initialize);
    tokio::select! {
        biased;
        late = &mut probe => match after_probe(probed(late)?, asked) {
            AfterProbe::Modern(handshake) => Ok(*handshake),
            AfterProbe::Refuse(status) => Err(HandshakeError::Refused(status)),
            _ => initialize.await,
        },
        outcome = &mut initialize => match outcome {
            // A modern server has no `initialize`; its answer to the probe is still to come.
            Err(HandshakeError::Refused(status)) => {
                match after_probe(probed(probe.await)?, asked) {
                    AfterProbe::Modern(handshake) => Ok(*handshake),
                    _ => Err(HandshakeError::Refused(status)),
                }
            }
            outcome => outcome,
        },
    }
}

/// The server answered, and nobody can tell what.
fn lost_answer() -> Refusal {
    let why = "something else stands before it on its line";
    Refusal::Unusable(Problem::Malformed(why.to_owned()))
}

fn probed(outcome: Result<Answer, RequestError>) -> Result<Probed, HandshakeError> {
    Ok(match outcome {
        Ok(answer) => match decode::discovered(&answer) {
            Ok(discovered) => Probed::Discovered(discovered),
            Err(problem) => Probed::Unusable(problem),
        },
        Err(RequestError::ErrorResponse(error)) => Probed::Refused(error),
        Err(RequestError::InvalidResponse(problem)) => Probed::Unusable(problem),
        Err(RequestError::Lost { .. }) => Probed::Gone,
        Err(RequestError::Transport(failed)) if is_evidence(&failed) => {
            Probed::Unusable(Problem::Malformed(failed.message))
        }
        Err(error @ (RequestError::Transport(_) | RequestError::NeedsLogin(_))) => {
            return Err(HandshakeError::Failed(error));
        }
        Err(_) => return Err(HandshakeError::TimedOut),
    })
}

/// Whether an answer of HTTP says that the server does not know the question. One that wants a
/// login, is busy or broken says nothing of the kind.
fn is_evidence(failed: &TransportFailure) -> bool {
    match failed.status {
        Some(401 | 403 | 407 | 408 | 425 | 429) | None => false,
        Some(status) => (200..500).contains(&status) && !(300..400).contains(&status),
    }
}

async fn initialize(
    connection: &impl Unopened,
    version: ProtocolVersion,
    left: Duration,
) -> Result<ServerHello, HandshakeError> {
    let answer = connection.initialize(version, Deadline::after(left)).await;
    let handshake = initialized(answer)?;
    connection.send_initialized(handshake.version).await;
    Ok(handshake)
}

fn initialized(answer: Result<Answer, RequestError>) -> Result<ServerHello, HandshakeError> {
    match answer {
        Ok(answer) => decode::initialized(&answer)
            .map_err(Refusal::Unusable)
            .and_then(after_initialize)
            .map_err(HandshakeError::Refused),
        Err(RequestError::ErrorResponse(error)) => {
            Err(HandshakeError::Refused(Refusal::Refused(error)))
        }
        Err(RequestError::InvalidResponse(problem)) => {
            Err(HandshakeError::Refused(Refusal::Unusable(problem)))
        }
        Err(RequestError::Lost { .. }) => Err(HandshakeError::Gone),
        Err(error @ (RequestError::Transport(_) | RequestError::NeedsLogin(_))) => {
            Err(HandshakeError::Failed(error))
        }
        Err(_) => Err(HandshakeError::TimedOut),
    }
}
