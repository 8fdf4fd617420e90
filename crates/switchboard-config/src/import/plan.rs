//! What of the servers of other programs is to be added, given what there is already.

use std::path::Path;

use serde_json::{Map, Value as Json};

use super::{Authorship, Client, Found, Imported};
use crate::diagnostic::Origin;
use crate::masked_entry::to_json;
use crate::raw::{FileContent, RawDocument};
use crate::scope::{Scope, Sources};
use crate::validate::EntryProblem;

/// What is to be done with a server of another program.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Verdict {
    /// It is new. `beside`: another scope has a different server of that name.
    Add {
        /// The scope of that other one, and where it stands.
        beside: Option<(Scope, Origin)>,
    },
    /// The same entry is there already.
    Same {
        /// The scope that has it.
        scope: Scope,
        /// Where.
        origin: Origin,
    },
    /// A different entry has the name, in the scope in which it would be written.
    Conflict {
        /// Where.
        origin: Origin,
    },
    /// Another client has a server of that name, which comes first.
    Taken {
        /// Which client.
        by: Client,
        /// Whether the two are the same.
        is_same: bool,
    },
    /// It cannot be used here.
    Unusable(EntryProblem),
}

/// One server, and what is to be done with it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Planned<'a> {
    /// Whose it is.
    pub client: Client,
    /// The file it is in.
    pub file: &'a Path,
    /// Who decided what it says.
    pub authorship: Authorship,
    /// The server.
    pub found: &'a Found,
    /// What is to be done.
    pub verdict: Verdict,
}

/// The entries that are there already, as they are written.
#[derive(Debug, Default)]
pub struct Existing {
    entries: Vec<Entry>,
}

struct Entry {
    scope: Scope,
    name: String,
    origin: Origin,
    json: Json,
}

impl std::fmt::Debug for Entry {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Entry")
            .field("scope", &self.scope)
            .field("name", &self.name)
            .field("origin", &self.origin)
            .finish_non_exhaustive()
    }
}

impl Existing {
    /// Reads the files of all scopes. What is wrong with them is for [`load`](crate::load) to tell.
    pub fn read(sources: &Sources) -> Self {
        let files = [
            (&sources.managed, Scope::Managed),
            (&sources.local, Scope::Local),
            (&sources.project, Scope::Project),
            (&sources.user, Scope::User),
        ];
        let mut existing = Self::default();
        for (path, scope) in files {
            let document = path
                .as_deref()
                .and_then(|path| RawDocument::of_file(path, &FileContent::read(path), scope));
            let Some(document) = document else { continue };
            let entries = document.servers.iter().map(|member| Entry {
                scope,
                name: member.key.clone(),
                origin: document.text.origin(member.key_span),
                json: to_json(&member.value),
            });
            existing.entries.extend(entries);
        }
        existing
    }

    fn verdict_on(&self, found: &Found) -> Verdict {
        let named = || {
            let name = found.name.as_str();
            self.entries.iter().filter(move |entry| entry.name == name)
        };
        if let Some(entry) = named().find(|entry| are_same(&entry.json, &found.entry)) {
            return Verdict::Same {
                scope: entry.scope,
                origin: entry.origin.clone(),
            };
        }
        if let Some(entry) = named().find(|entry| entry.scope == found.scope) {
            return Verdict::Conflict {
                origin: entry.origin.clone(),
            };
        }
        let beside = named().next();
        Verdict::Add {
            beside: beside.map(|entry| (entry.scope, entry.origin.clone())),
        }
    }
}

/// Says of each server what is to be done with it, in their order.
pub fn plan<'a>(imported: &'a Imported, existing: &Existing) -> Vec<Planned<'a>> {
    let mut planned: Vec<Planned<'a>> = Vec::new();
    for file in &imported.files {
        for found in &file.found {
            let earlier = planned.iter().find(|earlier| {
                earlier.found.name == found.name
                    && earlier.found.scope == found.scope
                    && matches!(earlier.verdict, Verdict::Add { .. })
            });
            let verdict = match (&found.problem, earlier) {
                (Some(problem), _) => Verdict::Unusable(problem.clone()),
                (None, Some(earlier)) => Verdict::Taken {
                    by: earlier.client,
                    is_same: are_same(&Json::Object(earlier.found.entry.clone()), &found.entry),
                },
                (None, None) => existing.verdict_on(found),
            };
            planned.push(Planned {
                client: file.client,
                file: &file.path,
                authorship: file.authorship,
                found,
                verdict,
            });
        }
    }
    planned
}

/// Whether two entries say the same, however they are written.
fn are_same(one: &Json, other: &Map<String, Json>) -> bool {
    let Json::Object(one) = one else {
        return false;
    };
    essence(one) == essence(other)
}

/// An entry without what goes without saying.
fn essence(entry: &Map<String, Json>) -> Map<String, Json> {
    let goes_without_saying = |key: &str, value: &Json| match (key, value) {
        ("type", Json::String(kind)) => kind == "stdio",
        (_, Json::Null | Json::Bool(false)) => true,
        (_, Json::Array(items)) => items.is_empty(),
        (_, Json::Object(members)) => members.is_empty(),
        _ => false,
    };
    let said = entry
        .iter()
        .filter(|(key, value)| !goes_without_saying(key, value));
    said.map(|(key, value)| (key.clone(), value.clone()))
        .collect()
}
