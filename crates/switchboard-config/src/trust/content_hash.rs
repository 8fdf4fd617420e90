//! The hash over the content that an approval covers.
//!
//! Invariant: two entries have different hashes if they differ in a key that requires a new
//! approval ([`HASHED_KEYS`]) or in a program file of the project.

use std::path::Path;

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use super::approved_content::{HASHED_KEYS, HashMode, kind_name};
use super::pinned_program::{Program, ProgramLocation};
use super::program_digest::hex;
use crate::raw::{RawKind, RawValue};
use crate::server::{ServerConfig, TransportConfig};

/// Hashed first. Change it when the encoding changes: all entries then need a new approval.
const VERSION: &str = "switchboard server entry, version 1";

/// The hash of everything in an entry whose change requires a new approval. Includes the program if
/// it belongs to the project.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct ContentHash(String);

impl std::fmt::Display for ContentHash {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

/// Returns `None` if the content of the program cannot be read.
pub(super) fn hash(
    raw: &RawValue,
    config: &ServerConfig,
    program: Option<&Program>,
) -> Option<ContentHash> {
    let mut encoder = Encoder(Sha256::new());
    encoder.text(VERSION);
    for (key, mode) in HASHED_KEYS {
        match mode {
            HashMode::Expanded => encoder.expanded(key, config),
            HashMode::AsWritten => {
                if let Some(member) = raw.member(key) {
                    encoder.text(key);
                    encoder.value(&member.value);
                }
            }
            HashMode::None => {}
        }
    }
    match program.map(|program| &program.location) {
        Some(ProgramLocation::Unreadable) => return None,
        Some(ProgramLocation::Elsewhere) | None => {}
        Some(ProgramLocation::Linked) => encoder.program(program, ""),
        Some(ProgramLocation::Missing) => encoder.program(program, "missing"),
        Some(ProgramLocation::InProject(digest)) => encoder.program(program, digest),
    }
    Some(ContentHash(format!("sha256:{}", encoder.finish())))
}

/// Encodes values with their kind and length, so that different values never have the same
/// encoding.
struct Encoder(Sha256);

impl Encoder {
    fn text(&mut self, text: &str) {
        self.bytes(b't', text.as_bytes());
    }

    fn bytes(&mut self, kind: u8, bytes: &[u8]) {
        self.count(kind, bytes.len());
        self.0.update(bytes);
    }

    fn count(&mut self, kind: u8, count: usize) {
        self.0.update([kind]);
        self.0.update((count as u64).to_le_bytes());
    }

    /// Encodes a field after expansion.
    fn expanded(&mut self, key: &str, config: &ServerConfig) {
        let transport = &config.transport;
        match (key, transport) {
            ("type", transport) => {
                self.text(key);
                self.text(kind_name(transport));
            }
            ("command", TransportConfig::Stdio(stdio)) => {
                self.text(key);
                self.text(&stdio.command);
            }
            ("args", TransportConfig::Stdio(stdio)) => {
                self.text(key);
                self.count(b'l', stdio.args.len());
                stdio.args.iter().for_each(|arg| self.text(arg));
            }
            ("cwd", TransportConfig::Stdio(stdio)) => {
                if let Some(cwd) = &stdio.cwd {
                    self.text(key);
                    self.bytes(b'p', cwd.as_os_str().as_encoded_bytes());
                }
            }
            ("url", transport) => {
                if let Some(url) = transport.url() {
                    self.text(key);
                    self.text(url);
                }
            }
            _ => {}
        }
    }

    /// Encodes a value as written. The order of object members does not matter.
    fn value(&mut self, value: &RawValue) {
        match &value.kind {
            RawKind::Null => self.count(b'z', 0),
            RawKind::Bool(flag) => self.count(b'b', usize::from(*flag)),
            RawKind::Number(digits) => self.bytes(b'n', digits.as_bytes()),
            RawKind::Text(text) => self.text(text),
            RawKind::List(items) => {
                self.count(b'l', items.len());
                for item in items {
                    self.value(item);
                }
            }
            RawKind::Object(members) => {
                let mut members: Vec<_> = members.iter().collect();
                members.sort_by(|a, b| a.key.cmp(&b.key));
                self.count(b'o', members.len());
                for member in members {
                    self.text(&member.key);
                    self.value(&member.value);
                }
            }
        }
    }

    fn program(&mut self, program: Option<&Program>, digest: &str) {
        let path = program.and_then(|program| program.path.as_deref());
        let path = path.unwrap_or(Path::new(""));
        self.text("program");
        self.bytes(b'p', path.as_os_str().as_encoded_bytes());
        self.text(digest);
    }

    fn finish(self) -> String {
        hex(&self.0.finalize())
    }
}
