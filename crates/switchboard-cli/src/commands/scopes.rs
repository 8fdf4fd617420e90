//! Which scopes have a server of some name, and where their files are.

use std::path::{Path, PathBuf};

use serde::{Serialize, Serializer};
use switchboard_config::{Diagnostic, EditedFile, Origin, Scope, ServerEntry, Sources, load};

use crate::context::Context;
use crate::failure::{Failure, Kind};
use crate::render::text;

/// From the one that wins over all others to the one that wins over none.
const SCOPES: [Scope; 4] = [Scope::Managed, Scope::Local, Scope::Project, Scope::User];

/// A scope that has the server.
#[derive(Debug)]
pub(super) struct Held {
    pub(super) scope: Scope,
    pub(super) entry: ServerEntry,
}

impl Held {
    /// Whether it is used and not the one in `other`.
    pub(super) fn beats(&self, other: Scope) -> bool {
        self.scope < other
    }

    pub(super) fn is_beaten_by(&self, other: Scope) -> bool {
        other < self.scope
    }

    /// Whether a user may change it.
    pub(super) fn is_own(&self) -> bool {
        self.scope != Scope::Managed
    }
}

impl Serialize for Held {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let place = serde_json::json!({"scope": self.scope, "origin": self.entry.origin()});
        place.serialize(serializer)
    }
}

/// The scopes that have a server of this name, the one that is used first.
pub(super) fn with_server(name: &str, context: &Context) -> Vec<Held> {
    let of_scope = |scope| {
        let (loaded, _) = load_scope(scope, context);
        let entry = loaded
            .into_iter()
            .find(|entry| entry.name().as_str() == name)?;
        Some(Held { scope, entry })
    };
    SCOPES.into_iter().filter_map(of_scope).collect()
}

/// The names of all servers in all scopes, and what is wrong with whole files.
pub(super) fn all_names(context: &Context) -> (Vec<String>, Vec<Diagnostic>) {
    let mut names = Vec::new();
    let mut broken = Vec::new();
    for scope in SCOPES {
        let (entries, diagnostics) = load_scope(scope, context);
        names.extend(entries.iter().map(|entry| entry.name().to_string()));
        broken.extend(
            diagnostics
                .into_iter()
                .filter(|found| found.server.is_none()),
        );
    }
    (names, broken)
}

fn load_scope(scope: Scope, context: &Context) -> (Vec<ServerEntry>, Vec<Diagnostic>) {
    let file = context.places().servers_file(scope);
    let mut sources = Sources::default();
    match scope {
        Scope::Managed => sources.managed = file,
        Scope::Local => sources.local = file,
        Scope::Project => sources.project = file,
        _ => sources.user = file,
    }
    let environment = |name: &str| context.variable(name);
    let loaded = load(&sources, &environment);
    (loaded.config.servers, loaded.diagnostics)
}

/// The file that entries of a scope are written to.
pub(super) fn file_of(scope: Scope, context: &Context) -> Result<PathBuf, Failure> {
    let places = context.places();
    let file = places.servers_file(scope);
    file.or_else(|| places.new_servers_file(scope))
        .ok_or_else(|| {
            let message = "the home folder is not a project";
            Failure::new(Kind::Usage, message).hint("go to your project, or choose -s user")
        })
}

/// Opens the file of a scope for an edit. A project's file is for others to read, and lies in the project.
pub(super) fn open(scope: Scope, file: &Path) -> Result<EditedFile, Failure> {
    Ok(match (scope, file.parent()) {
        (Scope::Project, Some(root)) => EditedFile::open_within(file, root)?.readable_by_others(),
        _ => EditedFile::open(file)?,
    })
}

/// `file:line`, for an editor to jump to.
pub(super) fn file_and_line(origin: &Origin) -> String {
    match &origin.file {
        Some(file) => format!("{}:{}", text::path(file), origin.line),
        None => origin.to_string(),
    }
}
