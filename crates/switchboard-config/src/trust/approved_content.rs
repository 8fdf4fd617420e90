//! What of a project's entry consent is about: its hash, what a person is shown of it, and its program.
//!
//! All are made from the same values at the same moment. Invariant: every known key has a weight here.

use std::path::Path;

use super::content_hash::{ContentHash, hash};
use super::pinned_program::{Program, Seal};
use super::program_digest::Digests;
use super::review::{Masks, Shown, show};
use crate::expand::Environment;
use crate::raw::RawValue;
use crate::server::{RemoteKind, ServerConfig, TransportConfig};

/// What a key of an entry has to do with what runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Weight {
    /// It says what runs: counts with its variables filled in.
    Expanded,
    /// It says how it runs, or holds secrets: counts as written, so that a rotated token does not ask
    /// again.
    AsWritten,
    /// It says when it runs, or for how long: never asks again.
    None,
}

/// Every known key. One that is not known is not read, and has no weight.
pub(super) const WEIGHTS: [(&str, Weight); 24] = [
    ("type", Weight::Expanded),
    ("command", Weight::Expanded),
    ("args", Weight::Expanded),
    ("cwd", Weight::Expanded),
    ("url", Weight::Expanded),
    ("env", Weight::AsWritten),
    ("inheritEnv", Weight::AsWritten),
    ("keepDaemons", Weight::AsWritten),
    ("headers", Weight::AsWritten),
    ("headersHelper", Weight::AsWritten),
    ("tls", Weight::AsWritten),
    ("auth", Weight::AsWritten),
    ("oauth", Weight::AsWritten),
    ("id", Weight::AsWritten),
    ("name", Weight::AsWritten),
    // Both widen what may be called without a question.
    ("trustAnnotations", Weight::AsWritten),
    ("tools", Weight::AsWritten),
    ("timeout", Weight::None),
    ("startupTimeout", Weight::None),
    ("maxConcurrentCalls", Weight::None),
    ("reconnect", Weight::None),
    ("lazy", Weight::None),
    ("disabled", Weight::None),
    ("alwaysLoad", Weight::None),
];

/// The part of an entry that consent is about.
#[derive(Clone, Debug)]
pub(crate) struct Content {
    /// `None`: part of it cannot be read, so nothing can be said about whether it stays the same.
    pub(crate) hash: Option<ContentHash>,
    pub(crate) shown: Shown,
    /// The same without masks over what the project wrote.
    pub(crate) in_full: Shown,
    /// Of programs.
    pub(crate) seal: Option<Seal>,
}

impl Content {
    /// Takes the content of a valid entry of the project at `root`.
    pub(crate) fn of(
        raw: &RawValue,
        config: &ServerConfig,
        root: &Path,
        environment: &dyn Environment,
        digests: &Digests,
    ) -> Self {
        let (program, seal) = match &config.transport {
            TransportConfig::Stdio(stdio) => {
                let program = Program::find(stdio, root, environment, digests);
                let seal = Seal::of(&program, stdio, root, environment);
                (Some(program), Some(seal))
            }
            _ => (None, None),
        };
        let program = program.as_ref();
        let show = |masks| show(raw, config, program, root, environment, masks);
        Self {
            seal,
            hash: hash(raw, config, program),
            shown: show(Masks::On),
            in_full: show(Masks::Off),
        }
    }
}

/// As on the wire, but telling apart what was left open.
pub(super) fn kind_name(transport: &TransportConfig) -> &'static str {
    match transport {
        TransportConfig::Remote(remote) if remote.kind == RemoteKind::Negotiated => "http or sse",
        other => other.kind_name(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::key_table::{Approval, ENTRY_KEYS};

    #[test]
    fn every_known_key_has_the_weight_that_its_reference_says() {
        let weighs = |name: &str| {
            let mut weights = WEIGHTS.iter().filter(|(key, _)| *key == name);
            let (_, weight) = weights.next().unwrap();
            !matches!(weight, Weight::None)
        };
        for key in ENTRY_KEYS {
            let asks_again = key.approval == Approval::AsksAgain;
            assert_eq!(weighs(key.name), asks_again, "{}", key.name);
        }
        assert_eq!(WEIGHTS.len(), ENTRY_KEYS.len());
    }
}
