//! Layers into one config: whole entries win by name, nothing is merged field by field.
//!
//! Invariant: of each name there is one entry, that of the highest layer which has it, even when that
//! entry is invalid.

use std::collections::HashSet;

use super::ScopeEntries;
use crate::diagnostic::Diagnostic;
use crate::server_name::ServerName;
use crate::trust::ServerEntry;

/// All configured servers, each name once.
#[derive(Clone, Debug, Default)]
pub struct HostConfig {
    /// The entries: those of a higher layer first, and within a layer in the order of its file.
    pub servers: Vec<ServerEntry>,
}

impl HostConfig {
    /// The entry of this name.
    pub fn server(&self, name: &str) -> Option<&ServerEntry> {
        self.servers
            .iter()
            .find(|entry| entry.name().as_str() == name)
    }
}

/// A config, and what was found wrong on the way to it.
#[derive(Clone, Debug, Default)]
pub struct Loaded {
    /// Everything that could be read.
    pub config: HostConfig,
    /// Entries that one of the same name in a higher layer replaces.
    pub shadowed: Vec<ServerEntry>,
    /// What is wrong, in the order of the layers. Nothing is said about entries that a higher layer
    /// replaces.
    pub diagnostics: Vec<Diagnostic>,
}

/// Merges layers, the highest first.
pub(crate) fn merge(layers: impl IntoIterator<Item = ScopeEntries>) -> Loaded {
    let mut loaded = Loaded::default();
    let mut taken: HashSet<ServerName> = HashSet::new();
    for layer in layers {
        let is_free = |name: &ServerName| !taken.contains(name);
        let told = layer
            .diagnostics
            .into_iter()
            .filter(|diagnostic| diagnostic.server.as_ref().is_none_or(is_free));
        loaded.diagnostics.extend(told);
        for entry in layer.entries {
            if taken.insert(entry.name().clone()) {
                loaded.config.servers.push(entry);
            } else {
                loaded.shadowed.push(entry);
            }
        }
    }
    loaded
}
