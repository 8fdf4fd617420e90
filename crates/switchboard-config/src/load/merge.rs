//! Merges the entries of all scopes by server name. Entries are never merged field by field.
//!
//! Invariant: there is one entry per name, from the highest scope that has one, even if that entry
//! is invalid.

use std::collections::HashSet;

use super::ScopeEntries;
use crate::diagnostic::Diagnostic;
use crate::server_name::ServerName;
use crate::trust::ServerEntry;

/// All configured servers, each name once.
#[derive(Clone, Debug, Default)]
pub struct HostConfig {
    /// The entries, ordered by scope and then by position in the file.
    pub servers: Vec<ServerEntry>,
}

impl HostConfig {
    /// The entry with this name.
    pub fn server(&self, name: &str) -> Option<&ServerEntry> {
        self.servers
            .iter()
            .find(|entry| entry.name().as_str() == name)
    }
}

/// The result of a load: the config and its problems.
#[derive(Clone, Debug, Default)]
pub struct LoadedConfig {
    /// The entry in effect for each name, valid or not.
    pub config: HostConfig,
    /// Entries replaced by an entry of the same name in a higher scope.
    pub overridden: Vec<ServerEntry>,
    /// The problems, ordered by scope, without the problems of overridden entries.
    pub diagnostics: Vec<Diagnostic>,
}

/// Merges `scopes`, which must be in the order of precedence, the highest first.
pub(super) fn merge(scopes: impl IntoIterator<Item = ScopeEntries>) -> LoadedConfig {
    let mut loaded = LoadedConfig::default();
    let mut seen_names: HashSet<ServerName> = HashSet::new();
    for scope in scopes {
        let is_new = |name: &ServerName| !seen_names.contains(name);
        let diagnostics = scope
            .diagnostics
            .into_iter()
            .filter(|diagnostic| diagnostic.server.as_ref().is_none_or(is_new));
        loaded.diagnostics.extend(diagnostics);
        for entry in scope.entries {
            if seen_names.insert(entry.name().clone()) {
                loaded.config.servers.push(entry);
            } else {
                loaded.overridden.push(entry);
            }
        }
    }
    loaded
}
