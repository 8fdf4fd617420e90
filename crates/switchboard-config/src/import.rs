//! Imports servers from the config files of other MCP clients.
//!
//! One table per client describes its files, its keys and its variable syntax. This module reads
//! files. It runs nothing and writes nothing: [`plan`] tells which servers to add, and the caller
//! writes them. Invariant: every key of a foreign entry ends up in the new entry, in a note, or in
//! the reason why the entry cannot be imported. Only keys without an effect are dropped silently,
//! such as null values and defaults.

mod client_format;
mod clients;
mod name;
mod plan;
mod translate;
mod variables;

use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};

use serde::Serialize;
use serde_json::{Map, Value as Json};

use crate::diagnostic::{Diagnostic, SourcePos};
use crate::expand::Environment;
use crate::masked_entry::MaskedEntry;
use crate::raw::{ForeignDocument, RawKind, RawValue};
use crate::scope::Scope;
use crate::server_name::ServerName;
use crate::validate::EntryError;

use client_format::{BaseDir, File, Section};

pub use clients::{Client, UnknownClient};
pub use plan::{Existing, ImportAction, Planned, plan};

/// Operating systems on which clients store their files in different directories.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Platform {
    /// Linux and other systems with XDG directories.
    Linux,
    /// macOS.
    MacOs,
    /// Windows.
    Windows,
}

impl Platform {
    /// The platform of this build.
    pub fn current() -> Self {
        if cfg!(target_os = "macos") {
            Self::MacOs
        } else if cfg!(windows) {
            Self::Windows
        } else {
            Self::Linux
        }
    }
}

/// Where to look for the files of other clients, and which scope to import to.
#[derive(Clone, Copy)]
pub struct ImportContext<'a> {
    /// The operating system.
    pub platform: Platform,
    /// The home directory.
    pub home: &'a Path,
    /// The project root, or the working directory if there is no project.
    pub project_dir: &'a Path,
    /// Variables that change file locations, and variables used in entries.
    pub environment: &'a dyn Environment,
    /// The scope for all imported servers. With `None`, the servers of a project are imported to
    /// [`Scope::Local`], and the user's servers for all projects to [`Scope::User`].
    pub scope: Option<Scope>,
}

impl fmt::Debug for ImportContext<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ImportContext")
            .field("platform", &self.platform)
            .field("home", &self.home)
            .field("project_dir", &self.project_dir)
            .field("scope", &self.scope)
            .finish_non_exhaustive()
    }
}

impl ImportContext<'_> {
    fn resolve(&self, base: BaseDir) -> PathBuf {
        let from_variable = |variable: &str, default: &str| {
            let value = self.environment.variable(variable);
            let value = value.filter(|path| !path.is_empty());
            value.map_or_else(|| self.home.join(default), PathBuf::from)
        };
        match base {
            BaseDir::Home => self.home.to_owned(),
            BaseDir::Project => self.project_dir.to_owned(),
            BaseDir::FromVariable { variable, default } => from_variable(variable, default),
            BaseDir::Xdg => from_variable("XDG_CONFIG_HOME", ".config"),
            BaseDir::Applications => match self.platform {
                Platform::Linux => from_variable("XDG_CONFIG_HOME", ".config"),
                Platform::MacOs => self.home.join("Library/Application Support"),
                Platform::Windows => from_variable("APPDATA", "AppData/Roaming"),
            },
        }
    }
}

/// Who controls the content of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum FileOwner {
    /// The user: the file is outside of the project, or the client does not read it in projects.
    User,
    /// The authors of the project: the file is part of the project and therefore not trusted.
    Project,
}

/// One server of another client, translated.
#[derive(Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct ImportedServer {
    /// The name to use in Switchboard.
    pub name: ServerName,
    /// The scope to write the server to.
    pub scope: Scope,
    /// The position in the foreign file.
    pub origin: SourcePos,
    /// Differences in behaviour, and what the user should do about them.
    pub notes: Vec<String>,
    /// Why the server cannot be imported.
    pub problem: Option<EntryError>,
    entry: Map<String, Json>,
}

impl ImportedServer {
    /// The entry to write. It may contain secrets.
    pub fn entry(&self) -> &Map<String, Json> {
        &self.entry
    }

    /// The entry with secrets masked.
    pub fn masked_entry(&self) -> MaskedEntry {
        MaskedEntry::from_raw(&RawValue::from_json(&Json::Object(self.entry.clone())))
    }
}

impl fmt::Debug for ImportedServer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ImportedServer")
            .field("name", &self.name)
            .field("scope", &self.scope)
            .field("origin", &self.origin)
            .field("notes", &self.notes)
            .field("problem", &self.problem)
            .field("entry", &self.masked_entry())
            .finish()
    }
}

/// A file of another client, and its servers.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ForeignFile {
    /// The client.
    pub client: Client,
    /// The path of the file.
    pub path: PathBuf,
    /// Who controls the content of the file.
    pub owner: FileOwner,
    /// The servers, in the order of the file.
    pub servers: Vec<ImportedServer>,
    /// Notes about the file as a whole.
    pub notes: Vec<String>,
}

/// The result of an import.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Imported {
    /// The files that exist.
    pub files: Vec<ForeignFile>,
    /// Problems of these files.
    pub diagnostics: Vec<Diagnostic>,
}

/// Reads the files of `clients`. Ignores files that do not exist.
pub fn import(clients: &[Client], context: &ImportContext<'_>) -> Imported {
    let mut imported = Imported::default();
    // The home directory is not a project: files in it belong to the user.
    let is_home = is_same_dir(context.project_dir, context.home);
    for client in clients {
        let files = client.format().files_on(context.platform);
        for file in files.filter(|file| !(is_home && file.owner() == FileOwner::Project)) {
            let path = context.resolve(file.base).join(file.path);
            imported.read(*client, &path, file.owner(), context);
        }
    }
    imported
}

/// Reads one file of `client`. Returns `None` if the file does not exist.
pub fn import_file(client: Client, path: &Path, context: &ImportContext<'_>) -> Option<Imported> {
    let mut imported = Imported::default();
    let files = client.format().files.iter();
    let owner = files
        .filter(|file| file.matches(path))
        .map(File::owner)
        // Some clients use the same file name in the home directory and in the project.
        .find(|owner| (*owner == FileOwner::Project) == path.starts_with(context.project_dir));
    let owner = owner.unwrap_or(FileOwner::User);
    imported
        .read(client, path, owner, context)
        .then_some(imported)
}

fn is_same_dir(one: &Path, other: &Path) -> bool {
    one == other || fs::canonicalize(one).is_ok_and(|one| Some(one) == fs::canonicalize(other).ok())
}

impl Imported {
    /// Returns false if the file does not exist.
    fn read(
        &mut self,
        client: Client,
        path: &Path,
        owner: FileOwner,
        context: &ImportContext<'_>,
    ) -> bool {
        let format = client.format();
        let Some(mut document) = ForeignDocument::read(path, format.syntax) else {
            return false;
        };
        let mut file = ForeignFile {
            client,
            path: path.to_owned(),
            owner,
            servers: Vec::new(),
            notes: Vec::new(),
        };
        if let Some(root) = document.root.take() {
            let mut sections = Vec::new();
            (format.sections)(&root, context, &mut sections, &mut file.notes);
            for section in &sections {
                file.read_section(section, &root, &mut document, context);
            }
        }
        self.diagnostics.extend(document.diagnostics());
        self.files.push(file);
        true
    }
}

impl ForeignFile {
    fn read_section(
        &mut self,
        section: &Section<'_>,
        root: &RawValue,
        document: &mut ForeignDocument,
        context: &ImportContext<'_>,
    ) {
        let servers = section.servers;
        if !matches!(servers.value.kind, RawKind::Object(_)) {
            let message = format!("`{}` must be an object", servers.key);
            let hint = "no servers imported from it";
            return document.warn(message, hint, servers.value.span);
        }
        let is_project_scoped = section.is_project_scoped || self.owner == FileOwner::Project;
        let scope = context.scope.unwrap_or(if is_project_scoped {
            Scope::Local
        } else {
            Scope::User
        });
        let before = self.servers.len();
        for member in servers.value.members() {
            let siblings = self.servers.get(before..).unwrap_or_default();
            let Some((name, note)) = name::choose(&member.key, self.client, siblings) else {
                continue;
            };
            let translate_context = translate::TranslateContext {
                client: self.client,
                name: &name,
                root,
                import: context,
                scope,
                is_project_scoped,
                is_disabled: section.disabled.contains(&member.key),
                is_disabled_in_project: section.disabled_in_project.contains(&member.key),
            };
            let mut translated = translate::translate(&member.value, &translate_context);
            translated.notes.splice(0..0, note);
            self.servers.push(ImportedServer {
                scope,
                origin: document.origin(member.key_span),
                notes: translated.notes,
                problem: translated.problem,
                entry: translated.entry,
                name,
            });
        }
    }
}
