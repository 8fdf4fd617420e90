//! Decides which protocol version to use, from the outcome of the probe (`server/discover`) or of
//! `initialize`.
//!
//! Pure functions: [`super::handshake`] sends the requests. Invariants: an error response to the
//! probe means that the server is legacy, unless its code is one that only modern servers send. A
//! version that this client does not know is never accepted.

use switchboard_wire::decode::{DiscoverResult, InitializeResult, ServerDescription};
use switchboard_wire::jsonrpc::InvalidMessage;
use switchboard_wire::mcp::{Era, ErrorObject, ProtocolVersion, ServerHello, UnknownVersion};

/// The outcome of the probe, `server/discover`.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum ProbeOutcome {
    Discovered(DiscoverResult),
    ErrorResponse(ErrorObject),
    InvalidResponse(InvalidMessage),
    /// No response arrived in time, or the response was lost.
    Silent,
    SessionEnded,
}

/// What to do after the probe.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum AfterProbe {
    /// The server is modern and the handshake is complete.
    Modern(Box<ServerHello>),
    /// Repeat the probe with this version, which the server says it supports.
    ProbeAgain(ProtocolVersion),
    /// The server is legacy: send `initialize` with this version on the same connection.
    Initialize(ProtocolVersion),
    /// The server may be legacy or slow: send `initialize`, and still accept a response to the
    /// probe.
    InitializeAndWait,
    /// The session ended during the probe. A legacy server may exit because of the probe: open a
    /// new connection and send `initialize` first.
    Restart,
    Reject(HandshakeRejection),
}

/// Why no session was established although the server responded.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum HandshakeRejection {
    /// The server chose a version that this client does not know, or responded to `initialize` with
    /// a modern version.
    #[error("{0}")]
    UnknownVersion(#[from] UnknownVersion),
    /// The server supports none of the versions that this client knows, or rejected the version of
    /// the second probe, too. Holds the versions that the server says it supports.
    #[error("the server supports only {}, none of which is known to this client", .0.join(", "))]
    NoCommonVersion(Vec<String>),
    /// The server requires a client capability that this client does not have, or rejects the
    /// headers of the request.
    #[error("the server requires a capability that this client does not offer: {0}")]
    MissingCapability(ErrorObject),
    /// The server responded to the handshake with a JSON-RPC error.
    #[error("the server rejected the handshake: {0}")]
    ErrorResponse(ErrorObject),
    /// The response to the handshake is invalid or was lost.
    #[error("invalid handshake response: {0}")]
    InvalidResponse(InvalidMessage),
}

/// The version of a probe, and whether the probe is the second one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ProbeRequest {
    pub(super) version: ProtocolVersion,
    /// Whether this is the second probe, with a version from the list in the server's error.
    pub(super) is_repeated: bool,
}

impl ProbeRequest {
    pub(super) fn first() -> Self {
        Self {
            version: ProtocolVersion::LATEST_MODERN,
            is_repeated: false,
        }
    }
}

/// Decides what to do after the probe `request` had this outcome.
pub(super) fn after_probe(outcome: ProbeOutcome, request: ProbeRequest) -> AfterProbe {
    match outcome {
        ProbeOutcome::Discovered(discovered) => match newest_common(&discovered.supported) {
            Some(version) if version.era() == Era::Modern => {
                AfterProbe::Modern(Box::new(handshake(version, discovered.server)))
            }
            Some(version) => AfterProbe::Initialize(version),
            None => AfterProbe::Reject(HandshakeRejection::NoCommonVersion(discovered.supported)),
        },
        ProbeOutcome::ErrorResponse(error) => after_error(error, request),
        ProbeOutcome::InvalidResponse(_) => AfterProbe::Initialize(ProtocolVersion::LATEST_LEGACY),
        ProbeOutcome::Silent => AfterProbe::InitializeAndWait,
        ProbeOutcome::SessionEnded => AfterProbe::Restart,
    }
}

fn after_error(error: ErrorObject, request: ProbeRequest) -> AfterProbe {
    match error.code {
        // Only modern servers send this code and the codes of the next match arm. Sending
        // `initialize` to these servers would hide the real error, unless they list a legacy
        // version.
        ErrorObject::UNSUPPORTED_VERSION => {
            let supported = supported_versions(&error);
            match newest_common(&supported) {
                Some(version) if version.era() == Era::Legacy => AfterProbe::Initialize(version),
                // Repeat the probe even with the version that the server just rejected: the server
                // may have been starting.
                Some(version) if !request.is_repeated => AfterProbe::ProbeAgain(version),
                _ => AfterProbe::Reject(HandshakeRejection::NoCommonVersion(supported)),
            }
        }
        ErrorObject::HEADER_MISMATCH | ErrorObject::MISSING_CAPABILITY => {
            AfterProbe::Reject(HandshakeRejection::MissingCapability(error))
        }
        _ => AfterProbe::Initialize(ProtocolVersion::LATEST_LEGACY),
    }
}

/// The newest version in the list that this client knows.
fn newest_common(supported: &[String]) -> Option<ProtocolVersion> {
    supported
        .iter()
        .filter_map(|version| version.parse().ok())
        .max()
}

fn supported_versions(error: &ErrorObject) -> Vec<String> {
    #[derive(serde::Deserialize)]
    struct Data {
        supported: Vec<String>,
    }
    error
        .data
        .as_ref()
        .and_then(|data| serde_json::from_str::<Data>(data.as_str()).ok())
        .map(|data| data.supported)
        .unwrap_or_default()
}

/// Checks the version in the response to `initialize`.
pub(super) fn after_initialize(
    initialized: InitializeResult,
) -> Result<ServerHello, HandshakeRejection> {
    let version: ProtocolVersion = initialized.version.parse()?;
    match version.era() {
        Era::Legacy => Ok(handshake(version, initialized.server)),
        // Modern versions have no `initialize`. A server that answers `initialize` with a modern
        // version does not implement that version.
        Era::Modern => Err(UnknownVersion(initialized.version).into()),
    }
}

fn handshake(version: ProtocolVersion, server: ServerDescription) -> ServerHello {
    ServerHello::new(
        version,
        server.info,
        server.capabilities,
        server.instructions,
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use switchboard_wire::mcp::Json;

    const REQUEST: ProbeRequest = ProbeRequest {
        version: ProtocolVersion::LATEST_MODERN,
        is_repeated: false,
    };
    const LEGACY: ProtocolVersion = ProtocolVersion::LATEST_LEGACY;

    fn discovered(versions: &[&str]) -> ProbeOutcome {
        let supported = versions.iter().map(|&version| version.to_owned()).collect();
        ProbeOutcome::Discovered(DiscoverResult {
            supported,
            server: ServerDescription::default(),
        })
    }

    fn error_response(code: i64, data: Option<&str>) -> ProbeOutcome {
        let mut error = ErrorObject::new(code, "no");
        error.data = data.map(|data| Json::parse(data).unwrap());
        ProbeOutcome::ErrorResponse(error)
    }

    #[test]
    fn discovered_modern_version_is_used() {
        for versions in [
            &["2026-07-28"][..],
            &["2025-11-25", "2026-07-28", "2099-01-01"],
        ] {
            match after_probe(discovered(versions), REQUEST) {
                AfterProbe::Modern(handshake) => assert_eq!(handshake.version, REQUEST.version),
                other => panic!("{other:?}"),
            }
        }
    }

    #[test]
    fn discovered_legacy_version_leads_to_initialize() {
        assert_eq!(
            after_probe(discovered(&["2025-06-18", "2025-03-26"]), REQUEST),
            AfterProbe::Initialize(ProtocolVersion::V2025_06_18)
        );
    }

    #[test]
    fn no_common_version_is_rejected() {
        for versions in [&[][..], &["1999-01-01"], &["2099-01-01"]] {
            match after_probe(discovered(versions), REQUEST) {
                AfterProbe::Reject(HandshakeRejection::NoCommonVersion(supported)) => {
                    assert_eq!(supported, versions);
                }
                other => panic!("{other:?}"),
            }
        }
    }

    #[test]
    fn other_errors_mean_legacy_server() {
        for code in [-32601, -32602, -32600, -32603, -32000, -32002, 0, 1, -32700] {
            assert_eq!(
                after_probe(error_response(code, None), REQUEST),
                AfterProbe::Initialize(LEGACY)
            );
        }
        let invalid = ProbeOutcome::InvalidResponse(InvalidMessage::Malformed("no".into()));
        assert_eq!(
            after_probe(invalid, REQUEST),
            AfterProbe::Initialize(LEGACY)
        );
    }

    #[test]
    fn unsupported_version_retries_with_supported_one() {
        let code = ErrorObject::UNSUPPORTED_VERSION;
        let older = r#"{"supported":["2025-11-25"],"requested":"2026-07-28"}"#;
        assert_eq!(
            after_probe(error_response(code, Some(older)), REQUEST),
            AfterProbe::Initialize(LEGACY)
        );
        // The server lists the version that it rejects. The probe is repeated once.
        let same = error_response(code, Some(r#"{"supported":["2026-07-28"]}"#));
        let again = ProbeRequest {
            is_repeated: true,
            ..REQUEST
        };
        assert_eq!(
            after_probe(same.clone(), REQUEST),
            AfterProbe::ProbeAgain(REQUEST.version)
        );
        assert!(matches!(
            after_probe(same, again),
            AfterProbe::Reject(HandshakeRejection::NoCommonVersion(_))
        ));
        for data in [None, Some(r#"{"supported":["2099-01-01"]}"#), Some("7")] {
            assert!(
                matches!(
                    after_probe(error_response(code, data), REQUEST),
                    AfterProbe::Reject(HandshakeRejection::NoCommonVersion(_))
                ),
                "{data:?}"
            );
        }
    }

    #[test]
    fn modern_errors_do_not_fall_back() {
        for code in [
            ErrorObject::HEADER_MISMATCH,
            ErrorObject::MISSING_CAPABILITY,
        ] {
            assert!(matches!(
                after_probe(error_response(code, None), REQUEST),
                AfterProbe::Reject(HandshakeRejection::MissingCapability(_))
            ));
        }
    }

    #[test]
    fn silent_probe_initializes_and_keeps_waiting() {
        assert_eq!(
            after_probe(ProbeOutcome::Silent, REQUEST),
            AfterProbe::InitializeAndWait
        );
    }

    #[test]
    fn exit_after_probe_restarts_server() {
        assert_eq!(
            after_probe(ProbeOutcome::SessionEnded, REQUEST),
            AfterProbe::Restart
        );
    }

    #[test]
    fn initialize_accepts_legacy_versions_only() {
        let response = |version: &str| {
            after_initialize(InitializeResult {
                version: version.to_owned(),
                server: ServerDescription::default(),
            })
        };
        for version in ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"] {
            assert_eq!(response(version).unwrap().version.as_str(), version);
        }
        for version in ["1999-01-01", "2026-07-28", "", "2025-11-26"] {
            assert!(
                matches!(
                    response(version),
                    Err(HandshakeRejection::UnknownVersion(_))
                ),
                "{version}"
            );
        }
    }
}
