//! The content of a project's entry that an approval covers: its hash, its review fields and its
//! program.
//!
//! All three are computed from the same values at the same time. Invariant: every known key has a
//! [`HashMode`].

use std::path::Path;

use super::content_hash::{ContentHash, hash};
use super::pinned_program::{PinnedProgram, Program};
use super::program_digest::DigestCache;
use super::review::{MaskLiterals, ReviewFields, review_fields};
use crate::expand::Environment;
use crate::raw::RawValue;
use crate::server::{RemoteKind, ServerConfig, TransportConfig};

/// How the value of a key enters the content hash.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum HashMode {
    /// With variables expanded: the key decides what runs.
    Expanded,
    /// As written: the key decides how the server runs, or contains secrets. A rotated token in a
    /// variable does not require a new approval.
    AsWritten,
    /// Not at all: the key does not change what the server runs or may do without asking. It only
    /// sets a limit, for example, or when the server starts.
    None,
}

/// The hash mode of every known key. Unknown keys have no effect on the server and do not enter the
/// hash.
pub(super) const HASHED_KEYS: [(&str, HashMode); 24] = [
    ("type", HashMode::Expanded),
    ("command", HashMode::Expanded),
    ("args", HashMode::Expanded),
    ("cwd", HashMode::Expanded),
    ("url", HashMode::Expanded),
    ("env", HashMode::AsWritten),
    ("inheritEnv", HashMode::AsWritten),
    ("keepDaemons", HashMode::AsWritten),
    ("headers", HashMode::AsWritten),
    ("headersHelper", HashMode::AsWritten),
    ("tls", HashMode::AsWritten),
    ("auth", HashMode::AsWritten),
    ("oauth", HashMode::AsWritten),
    ("id", HashMode::AsWritten),
    ("name", HashMode::AsWritten),
    // `trustAnnotations` can allow more calls without asking. So could the reserved key `tools`.
    ("trustAnnotations", HashMode::AsWritten),
    ("tools", HashMode::AsWritten),
    ("timeout", HashMode::None),
    ("startupTimeout", HashMode::None),
    ("maxConcurrentCalls", HashMode::None),
    ("reconnect", HashMode::None),
    ("lazy", HashMode::None),
    ("disabled", HashMode::None),
    ("alwaysLoad", HashMode::None),
];

/// The part of an entry that an approval covers.
#[derive(Clone, Debug)]
pub(crate) struct ApprovedContent {
    /// `None` if the program cannot be read, so that later changes could not be detected.
    pub(crate) hash: Option<ContentHash>,
    pub(crate) review: ReviewFields,
    /// The review fields without masks over literals of the project's file.
    pub(crate) unmasked_review: ReviewFields,
    /// Set for stdio servers.
    pub(crate) pinned_program: Option<PinnedProgram>,
}

impl ApprovedContent {
    /// Computes the content of a valid entry of the project at `root`.
    pub(crate) fn new(
        raw: &RawValue,
        config: &ServerConfig,
        root: &Path,
        environment: &dyn Environment,
        digests: &DigestCache,
    ) -> Self {
        let (program, pinned_program) = match &config.transport {
            TransportConfig::Stdio(stdio) => {
                let program = Program::find(stdio, root, environment, |file| digests.of(file));
                let pinned = PinnedProgram::new(&program, stdio, root, environment);
                (Some(program), Some(pinned))
            }
            _ => (None, None),
        };
        let program = program.as_ref();
        let review = |mask| review_fields(raw, config, program, root, environment, mask);
        Self {
            pinned_program,
            hash: hash(raw, config, program),
            review: review(MaskLiterals::On),
            unmasked_review: review(MaskLiterals::Off),
        }
    }
}

/// Like [`TransportConfig::kind_name`], but distinguishes `http` from a `url` without a `type`.
pub(super) fn kind_name(transport: &TransportConfig) -> &'static str {
    match transport {
        TransportConfig::Remote(remote) if remote.kind == RemoteKind::Negotiated => "http or sse",
        other => other.kind_name(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::key_table::{ApprovalEffect, ENTRY_KEYS};

    #[test]
    fn hash_modes_match_key_table() {
        let is_hashed = |name: &str| {
            let mut modes = HASHED_KEYS.iter().filter(|(key, _)| *key == name);
            let (_, mode) = modes.next().unwrap();
            !matches!(mode, HashMode::None)
        };
        for key in ENTRY_KEYS {
            let needs_reapproval = key.approval == ApprovalEffect::Reapprove;
            assert_eq!(is_hashed(key.name), needs_reapproval, "{}", key.name);
        }
        assert_eq!(HASHED_KEYS.len(), ENTRY_KEYS.len());
    }
}
