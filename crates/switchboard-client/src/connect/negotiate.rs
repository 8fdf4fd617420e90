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
    /// The server answered `initialize` with a version that has no `initialize`.
    #[error(
        "the server answered `initialize` with protocol version {0}, which has no `initialize`"
    )]
    NoInitialize(ProtocolVersion),
    /// The server supports none of the versions that this client knows. Holds the versions that
    /// the server supports, at least one.
    #[error("{}", no_common_version(.0))]
    NoCommonVersion(Vec<String>),
    /// The server rejected this version and named no version that it supports.
    #[error("the server rejected protocol version {0} and named no version that it supports")]
    NoVersionNamed(ProtocolVersion),
    /// The server rejected this version, although it named it as supported.
    #[error("the server rejected protocol version {0}, although it says that it supports it")]
    RejectsOwnVersion(ProtocolVersion),
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

/// Maximum number of versions of a server that an error lists, and the maximum length of each in
/// characters.
const MAX_SHOWN_VERSIONS: usize = 8;
const MAX_VERSION_CHARS: usize = 64;

impl HandshakeRejection {
    /// The error for a server that supports none of the versions that this client knows. `rejected`
    /// is the version of the probe.
    fn no_common_version(supported: &[String], rejected: ProtocolVersion) -> Self {
        if supported.is_empty() {
            return Self::NoVersionNamed(rejected);
        }
        let mut shown: Vec<String> = supported
            .iter()
            .take(MAX_SHOWN_VERSIONS)
            .map(|version| version.chars().take(MAX_VERSION_CHARS).collect())
            .collect();
        if supported.len() > MAX_SHOWN_VERSIONS {
            shown.push(format!("{} more", supported.len() - MAX_SHOWN_VERSIONS));
        }
        Self::NoCommonVersion(shown)
    }
}

fn no_common_version(supported: &[String]) -> String {
    let (versions, are) = match supported {
        [_] => ("version", "is"),
        _ => ("versions", "are"),
    };
    format!(
        "the server supports only the protocol {versions} {}, which {are} not one of {}",
        supported.join(", "),
        ProtocolVersion::known()
    )
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
            None => AfterProbe::Reject(HandshakeRejection::no_common_version(
                &discovered.supported,
                request.version,
            )),
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
                Some(version) => AfterProbe::Reject(HandshakeRejection::RejectsOwnVersion(version)),
                None => AfterProbe::Reject(HandshakeRejection::no_common_version(
                    &supported,
                    request.version,
                )),
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
        // A server that answers `initialize` with a modern version does not implement that version.
        Era::Modern => Err(HandshakeRejection::NoInitialize(version)),
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

    fn rejection(outcome: ProbeOutcome, request: ProbeRequest) -> String {
        match after_probe(outcome, request) {
            AfterProbe::Reject(rejection) => rejection.to_string(),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn error_without_common_version_names_the_versions_of_both_sides() {
        let known = ProtocolVersion::known();
        let none = "the server rejected protocol version 2026-07-28 and named no version that it \
                    supports";
        assert_eq!(rejection(discovered(&[]), REQUEST), none);
        let one = format!(
            "the server supports only the protocol version 1999-01-01, which is not one of {known}"
        );
        assert_eq!(rejection(discovered(&["1999-01-01"]), REQUEST), one);
        let two = format!(
            "the server supports only the protocol versions 1999-01-01, 2099-01-01, which are not \
             one of {known}"
        );
        let versions = ["1999-01-01", "2099-01-01"];
        assert_eq!(rejection(discovered(&versions), REQUEST), two);
        let code = ErrorObject::UNSUPPORTED_VERSION;
        assert_eq!(rejection(error_response(code, None), REQUEST), none);
    }

    #[test]
    fn error_without_common_version_is_short() {
        let long = "9".repeat(100_000);
        let error = rejection(discovered(&vec![long.as_str(); 1_000]), REQUEST);
        assert!(error.len() < 1_000, "{}", error.len());
        assert!(error.contains("992 more"), "{error}");
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
        assert_eq!(
            rejection(same, again),
            "the server rejected protocol version 2026-07-28, although it says that it supports it"
        );
        for data in [None, Some(r#"{"supported":["2099-01-01"]}"#), Some("7")] {
            assert!(
                matches!(
                    after_probe(error_response(code, data), REQUEST),
                    AfterProbe::Reject(
                        HandshakeRejection::NoCommonVersion(_)
                            | HandshakeRejection::NoVersionNamed(_)
                    )
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
        assert_eq!(
            response("2026-07-28"),
            Err(HandshakeRejection::NoInitialize(
                ProtocolVersion::V2026_07_28
            ))
        );
        for version in ["1999-01-01", "", "2025-11-26"] {
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
