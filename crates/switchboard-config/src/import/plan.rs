//! Compares imported servers with the existing entries and decides what to do with each.

use std::path::Path;

use serde_json::{Map, Value as Json};

use super::{Client, FileOwner, Imported, ImportedServer};
use crate::diagnostic::SourcePos;
use crate::masked_entry::to_json;
use crate::raw::{FileRead, ParsedSource};
use crate::scope::{ConfigSources, Scope};
use crate::validate::EntryError;

/// What to do with an imported server.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ImportAction {
    /// Add the server.
    Add {
        /// If another scope has a different entry of the same name: the scope, and the position of
        /// that entry.
        same_name_in: Option<(Scope, SourcePos)>,
    },
    /// Skip: an equivalent entry exists.
    Same {
        /// The scope of the existing entry.
        scope: Scope,
        /// The position of the entry.
        origin: SourcePos,
    },
    /// Skip: the target scope has a different entry of this name.
    Conflict {
        /// The position of the entry.
        origin: SourcePos,
    },
    /// Skip: this import already adds a server of the same name to the same scope.
    NameTaken {
        /// The client of the server that is added.
        by: Client,
        /// True if the entries of the two servers are equivalent.
        is_same: bool,
    },
    /// Skip: the server cannot be imported.
    Unusable(EntryError),
}

/// An imported server, and what to do with it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Planned<'a> {
    /// The client from which the server is imported.
    pub client: Client,
    /// The file of the client.
    pub file: &'a Path,
    /// Who controls the content of the file.
    pub owner: FileOwner,
    /// The server.
    pub server: &'a ImportedServer,
    /// What to do with the server.
    pub action: ImportAction,
}

/// The existing entries of all scopes, as written.
#[derive(Debug, Default)]
pub struct Existing {
    entries: Vec<ExistingEntry>,
}

struct ExistingEntry {
    scope: Scope,
    name: String,
    origin: SourcePos,
    json: Json,
}

/// Leaves out `json`, which may contain secrets.
impl std::fmt::Debug for ExistingEntry {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ExistingEntry")
            .field("scope", &self.scope)
            .field("name", &self.name)
            .field("origin", &self.origin)
            .finish_non_exhaustive()
    }
}

impl Existing {
    /// Reads the files of all scopes. Ignores problems: [`load`](crate::load) reports them.
    pub fn read(sources: &ConfigSources) -> Self {
        let files = [
            (&sources.managed, Scope::Managed),
            (&sources.local, Scope::Local),
            (&sources.project, Scope::Project),
            (&sources.user, Scope::User),
        ];
        let mut existing = Self::default();
        for (path, scope) in files {
            let source = path
                .as_deref()
                .and_then(|path| ParsedSource::from_file(path, &FileRead::read(path), scope));
            let Some(source) = source else { continue };
            let entries = source.servers.iter().map(|member| ExistingEntry {
                scope,
                name: member.key.clone(),
                origin: source.text.origin(member.key_span),
                json: to_json(&member.value),
            });
            existing.entries.extend(entries);
        }
        existing
    }

    fn action_for(&self, server: &ImportedServer) -> ImportAction {
        let same_name = || {
            let name = server.name.as_str();
            self.entries.iter().filter(move |entry| entry.name == name)
        };
        if let Some(entry) = same_name().find(|entry| is_equivalent(&entry.json, &server.entry)) {
            return ImportAction::Same {
                scope: entry.scope,
                origin: entry.origin.clone(),
            };
        }
        if let Some(entry) = same_name().find(|entry| entry.scope == server.scope) {
            return ImportAction::Conflict {
                origin: entry.origin.clone(),
            };
        }
        let other = same_name().next();
        ImportAction::Add {
            same_name_in: other.map(|entry| (entry.scope, entry.origin.clone())),
        }
    }
}

/// Decides what to do with each server. The result has the same order as `imported`.
pub fn plan<'a>(imported: &'a Imported, existing: &Existing) -> Vec<Planned<'a>> {
    let mut planned: Vec<Planned<'a>> = Vec::new();
    for file in &imported.files {
        for server in &file.servers {
            let earlier = planned.iter().find(|earlier| {
                earlier.server.name == server.name
                    && earlier.server.scope == server.scope
                    && matches!(earlier.action, ImportAction::Add { .. })
            });
            let action = match (&server.problem, earlier) {
                (Some(problem), _) => ImportAction::Unusable(problem.clone()),
                (None, Some(earlier)) => {
                    let entry = Json::Object(earlier.server.entry.clone());
                    ImportAction::NameTaken {
                        by: earlier.client,
                        is_same: is_equivalent(&entry, &server.entry),
                    }
                }
                (None, None) => existing.action_for(server),
            };
            planned.push(Planned {
                client: file.client,
                file: &file.path,
                owner: file.owner,
                server,
                action,
            });
        }
    }
    planned
}

/// Returns true if two entries differ at most in keys with default values.
fn is_equivalent(one: &Json, other: &Map<String, Json>) -> bool {
    let Json::Object(one) = one else {
        return false;
    };
    without_defaults(one) == without_defaults(other)
}

fn without_defaults(entry: &Map<String, Json>) -> Map<String, Json> {
    let is_default = |key: &str, value: &Json| match (key, value) {
        ("type", Json::String(kind)) => kind == "stdio",
        (_, Json::Null | Json::Bool(false)) => true,
        (_, Json::Array(items)) => items.is_empty(),
        (_, Json::Object(members)) => members.is_empty(),
        _ => false,
    };
    let kept = entry.iter().filter(|(key, value)| !is_default(key, value));
    kept.map(|(key, value)| (key.clone(), value.clone()))
        .collect()
}
