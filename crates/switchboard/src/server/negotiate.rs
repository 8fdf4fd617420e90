//! Which protocol to speak with a server, decided from what was seen of it.
//!
//! Pure: it is told what happened and answers with what to do next. Invariant: no fallback hangs
//! on one particular error code, and no version that we do not know is ever accepted.

use crate::mcp::{Era, ErrorObject, ProtocolVersion, ServerHello, UnknownVersion};
use crate::wire::Problem;
use crate::wire::decode::{Discovered, Initialized, SelfDescription};

/// What became of the probe, `server/discover`.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Probed {
    Discovered(Discovered),
    /// A JSON-RPC error, or an answer that is none.
    Refused(ErrorObject),
    Unusable(Problem),
    /// Nothing within the time that a probe may cost.
    Silent,
    /// The server went away.
    Gone,
}

/// What to do after the probe.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum AfterProbe {
    /// It is a modern server.
    Modern(Box<ServerHello>),
    /// Ask again with a version that it says it speaks.
    ProbeAgain(ProtocolVersion),
    /// It is a legacy server: `initialize` on the same connection.
    Initialize(ProtocolVersion),
    /// The same, but its answer to the probe may still come and then counts.
    InitializeAndListen,
    /// It went away because of the probe: start it anew and `initialize` first.
    StartAnew,
    Refuse(Refusal),
}

/// Why no session came about although the server answers.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub(crate) enum Refusal {
    #[error("{0}")]
    Version(#[from] UnknownVersion),
    #[error("the server speaks only {}, none of which is known here", .0.join(", "))]
    Versions(Vec<String>),
    #[error("the server insists on what this client does not offer: {0}")]
    Capability(ErrorObject),
    #[error("the server refused the handshake: {0}")]
    Refused(ErrorObject),
    #[error("the server's answer to the handshake cannot be used: {0}")]
    Unusable(Problem),
}

/// A probe that was made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Asked {
    pub(crate) version: ProtocolVersion,
    /// Whether the server was asked before, and named a version to ask with.
    pub(crate) is_repeated: bool,
}

impl Asked {
    pub(crate) fn first() -> Self {
        Self {
            version: ProtocolVersion::LATEST_MODERN,
            is_repeated: false,
        }
    }
}

/// The decision table for the probe.
pub(crate) fn after_probe(probed: Probed, asked: Asked) -> AfterProbe {
    match probed {
        Probed::Discovered(discovered) => match choose(&discovered.supported) {
            Some(version) if version.era() == Era::Modern => {
                AfterProbe::Modern(Box::new(handshake(version, discovered.server)))
            }
            Some(version) => AfterProbe::Initialize(version),
            None => AfterProbe::Refuse(Refusal::Versions(discovered.supported)),
        },
        Probed::Refused(error) => after_refusal(error, asked),
        Probed::Unusable(_) => AfterProbe::Initialize(ProtocolVersion::LATEST_LEGACY),
        Probed::Silent => AfterProbe::InitializeAndListen,
        Probed::Gone => AfterProbe::StartAnew,
    }
}

fn after_refusal(error: ErrorObject, asked: Asked) -> AfterProbe {
    match error.code {
        // Only a modern server knows these; falling back would hide what is wrong.
        ErrorObject::UNSUPPORTED_VERSION => {
            let supported = supported_versions(&error);
            match choose(&supported) {
                Some(version) if version.era() == Era::Legacy => AfterProbe::Initialize(version),
                // Also with the very version that it refused: it may not have been ready for it.
                Some(version) if !asked.is_repeated => AfterProbe::ProbeAgain(version),
                _ => AfterProbe::Refuse(Refusal::Versions(supported)),
            }
        }
        ErrorObject::HEADER_MISMATCH | ErrorObject::MISSING_CAPABILITY => {
            AfterProbe::Refuse(Refusal::Capability(error))
        }
        _ => AfterProbe::Initialize(ProtocolVersion::LATEST_LEGACY),
    }
}

/// The newest version that both sides speak.
fn choose(supported: &[String]) -> Option<ProtocolVersion> {
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

/// Judges the answer to `initialize`.
pub(crate) fn after_initialize(initialized: Initialized) -> Result<ServerHello, Refusal> {
    let version: ProtocolVersion = initialized.version.parse()?;
    match version.era() {
        Era::Legacy => Ok(handshake(version, initialized.server)),
        // That version has no `initialize`: whoever names it here does not speak it.
        Era::Modern => Err(UnknownVersion(initialized.version).into()),
    }
}

fn handshake(version: ProtocolVersion, server: SelfDescription) -> ServerHello {
    ServerHello {
        version,
        server_info: server.info,
        capabilities: server.capabilities,
        instructions: server.instructions,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mcp::Json;

    const ASKED: Asked = Asked {
        version: ProtocolVersion::LATEST_MODERN,
        is_repeated: false,
    };
    const LEGACY: ProtocolVersion = ProtocolVersion::LATEST_LEGACY;

    fn discovered(versions: &[&str]) -> Probed {
        let supported = versions.iter().map(|&version| version.to_owned()).collect();
        Probed::Discovered(Discovered {
            supported,
            server: SelfDescription::default(),
        })
    }

    fn refused(code: i64, data: Option<&str>) -> Probed {
        let mut error = ErrorObject::new(code, "no");
        error.data = data.map(|data| Json::parse(data).unwrap());
        Probed::Refused(error)
    }

    #[test]
    fn a_discovered_modern_version_is_spoken() {
        for versions in [
            &["2026-07-28"][..],
            &["2025-11-25", "2026-07-28", "2099-01-01"],
        ] {
            match after_probe(discovered(versions), ASKED) {
                AfterProbe::Modern(handshake) => assert_eq!(handshake.version, ASKED.version),
                other => panic!("{other:?}"),
            }
        }
    }

    #[test]
    fn a_server_that_discovers_only_older_versions_is_initialized_with_one_of_them() {
        assert_eq!(
            after_probe(discovered(&["2025-06-18", "2025-03-26"]), ASKED),
            AfterProbe::Initialize(ProtocolVersion::V2025_06_18)
        );
    }

    #[test]
    fn a_server_without_a_common_version_is_refused() {
        for versions in [&[][..], &["1999-01-01"], &["2099-01-01"]] {
            match after_probe(discovered(versions), ASKED) {
                AfterProbe::Refuse(Refusal::Versions(supported)) => {
                    assert_eq!(supported, versions);
                }
                other => panic!("{other:?}"),
            }
        }
    }

    #[test]
    fn any_error_but_the_modern_ones_means_a_legacy_server() {
        for code in [-32601, -32602, -32600, -32603, -32000, -32002, 0, 1, -32700] {
            assert_eq!(
                after_probe(refused(code, None), ASKED),
                AfterProbe::Initialize(LEGACY)
            );
        }
        let unusable = Probed::Unusable(Problem::Malformed("no".into()));
        assert_eq!(after_probe(unusable, ASKED), AfterProbe::Initialize(LEGACY));
    }

    #[test]
    fn an_unsupported_version_is_answered_with_one_that_is_supported() {
        let code = ErrorObject::UNSUPPORTED_VERSION;
        let older = r#"{"supported":["2025-11-25"],"requested":"2026-07-28"}"#;
        assert_eq!(
            after_probe(refused(code, Some(older)), ASKED),
            AfterProbe::Initialize(LEGACY)
        );
        // Says that it does not speak the very version it lists: it is asked once more, not for ever.
        let same = refused(code, Some(r#"{"supported":["2026-07-28"]}"#));
        let again = Asked {
            is_repeated: true,
            ..ASKED
        };
        assert_eq!(
            after_probe(same.clone(), ASKED),
            AfterProbe::ProbeAgain(ASKED.version)
        );
        assert!(matches!(
            after_probe(same, again),
            AfterProbe::Refuse(Refusal::Versions(_))
        ));
        for data in [None, Some(r#"{"supported":["2099-01-01"]}"#), Some("7")] {
            assert!(
                matches!(
                    after_probe(refused(code, data), ASKED),
                    AfterProbe::Refuse(Refusal::Versions(_))
                ),
                "{data:?}"
            );
        }
    }

    #[test]
    fn other_modern_errors_are_not_taken_for_an_old_server() {
        for code in [
            ErrorObject::HEADER_MISMATCH,
            ErrorObject::MISSING_CAPABILITY,
        ] {
            assert!(matches!(
                after_probe(refused(code, None), ASKED),
                AfterProbe::Refuse(Refusal::Capability(_))
            ));
        }
    }

    #[test]
    fn a_silent_server_is_initialized_while_the_probe_may_still_be_answered() {
        assert_eq!(
            after_probe(Probed::Silent, ASKED),
            AfterProbe::InitializeAndListen
        );
    }

    #[test]
    fn a_server_that_dies_on_the_probe_is_started_anew() {
        assert_eq!(after_probe(Probed::Gone, ASKED), AfterProbe::StartAnew);
    }

    #[test]
    fn initialize_accepts_the_versions_that_have_it_and_no_others() {
        let answer = |version: &str| {
            after_initialize(Initialized {
                version: version.to_owned(),
                server: SelfDescription::default(),
            })
        };
        for version in ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"] {
            assert_eq!(answer(version).unwrap().version.as_str(), version);
        }
        for version in ["1999-01-01", "2026-07-28", "", "2025-11-26"] {
            assert!(
                matches!(answer(version), Err(Refusal::Version(_))),
                "{version}"
            );
        }
    }
}
