//! Finds and opens the config files of the scopes, and looks up a server's entry in each of them.

use std::path::{Path, PathBuf};

use serde::{Serialize, Serializer};
use switchboard_config::{
    ConfigSources, Diagnostic, JsonEditor, Scope, ServerEntry, SourcePos, load,
};

use crate::context::Context;
use crate::failure::{Failure, Kind};
use crate::render::text;

/// The scopes in order of precedence, highest first: an entry overrides entries with the same name
/// in later scopes.
const SCOPES: [Scope; 4] = [Scope::Managed, Scope::Local, Scope::Project, Scope::User];

/// A server entry, and the scope whose file contains the entry.
#[derive(Debug)]
pub(super) struct ScopedEntry {
    pub(super) scope: Scope,
    pub(super) entry: ServerEntry,
}

impl ScopedEntry {
    /// Whether the user may edit the entry.
    pub(super) fn is_writable(&self) -> bool {
        self.scope != Scope::Managed
    }
}

impl Serialize for ScopedEntry {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let place = serde_json::json!({"scope": self.scope, "origin": self.entry.origin()});
        place.serialize(serializer)
    }
}

/// Returns the entries with this name from all scopes, in order of precedence.
pub(super) fn entries_named(name: &str, context: &Context) -> Vec<ScopedEntry> {
    let of_scope = |scope| {
        let (loaded, _) = load_scope(scope, context);
        let entry = loaded
            .into_iter()
            .find(|entry| entry.name().as_str() == name)?;
        Some(ScopedEntry { scope, entry })
    };
    SCOPES.into_iter().filter_map(of_scope).collect()
}

/// Returns the names of the servers in all scopes, and the problems that belong to no single
/// server, such as an unreadable file.
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
    let file = context.scope_paths().servers_file(scope);
    let mut sources = ConfigSources::default();
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

/// Returns the file that entries of a scope are written to. The file may not exist yet.
pub(super) fn entry_file(scope: Scope, context: &Context) -> Result<PathBuf, Failure> {
    let paths = context.scope_paths();
    let file = paths.servers_file(scope);
    file.or_else(|| paths.new_servers_file(scope))
        .ok_or_else(|| {
            let message = "the home directory cannot be a project";
            Failure::new(Kind::Usage, message).hint("run this in your project, or pass -s user")
        })
}

/// Opens the file of a scope for editing. The project's file is created with a mode that lets
/// others read it, and must not be a symbolic link that leads out of the project.
pub(super) fn open(scope: Scope, file: &Path) -> Result<JsonEditor, Failure> {
    Ok(match (scope, file.parent()) {
        (Scope::Project, Some(root)) => {
            JsonEditor::open_in_project(file, root)?.readable_by_others()
        }
        _ => JsonEditor::open(file)?,
    })
}

/// Formats as `file:line`, which editors can open.
pub(super) fn file_and_line(origin: &SourcePos) -> String {
    match &origin.file {
        Some(file) => format!("{}:{}", text::path_on_one_line(file), origin.line),
        None => origin.to_string(),
    }
}
