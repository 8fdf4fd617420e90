//! Servers that are written down for other programs, translated into entries of ours.
//!
//! For each client there is a table of its files, of its keys and of how it spells variables. Files are
//! read and nothing is run, and nothing is written either: [`plan`] says what there is to add, and
//! somebody else adds it. Invariant: what an entry says there is said in the entry that comes out, in
//! one of its notes, or in the reason why none comes out.

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

use crate::diagnostic::{Diagnostic, Origin};
use crate::expand::Environment;
use crate::masked_entry::WrittenEntry;
use crate::raw::{RawKind, RawValue, Whole};
use crate::scope::Scope;
use crate::server_name::ServerName;
use crate::validate::EntryProblem;

use client_format::{Base, File, Section};

pub use clients::{Client, UnknownClient};

pub use plan::{Existing, Planned, Verdict, plan};

/// The kinds of systems that programs keep their files in different places on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Platform {
    /// Linux, and whatever else has XDG folders.
    Linux,
    /// macOS.
    MacOs,
    /// Windows.
    Windows,
}

impl Platform {
    /// The one that this was built for.
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

/// Where files of other programs are looked for.
#[derive(Clone, Copy)]
pub struct Whereabouts<'a> {
    /// What kind of system this is.
    pub platform: Platform,
    /// The home folder.
    pub home: &'a Path,
    /// The root of the project, or the folder that somebody works in where there is none.
    pub here: &'a Path,
    /// The variables that move files elsewhere, and those that entries refer to.
    pub environment: &'a dyn Environment,
    /// The scope that everything is wanted in; otherwise what belongs to a project becomes
    /// [`Scope::Local`] and everything else [`Scope::User`].
    pub scope: Option<Scope>,
}

impl fmt::Debug for Whereabouts<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Whereabouts")
            .field("platform", &self.platform)
            .field("home", &self.home)
            .field("here", &self.here)
            .field("scope", &self.scope)
            .finish_non_exhaustive()
    }
}

impl Whereabouts<'_> {
    fn folder(&self, base: Base) -> PathBuf {
        let named = |variable: &str, otherwise: &str| {
            let value = self.environment.variable(variable);
            let value = value.filter(|path| !path.is_empty());
            value.map_or_else(|| self.home.join(otherwise), PathBuf::from)
        };
        match base {
            Base::Home => self.home.to_owned(),
            Base::Project => self.here.to_owned(),
            Base::Named {
                variable,
                otherwise,
            } => named(variable, otherwise),
            Base::Xdg => named("XDG_CONFIG_HOME", ".config"),
            Base::Applications => match self.platform {
                Platform::Linux => named("XDG_CONFIG_HOME", ".config"),
                Platform::MacOs => self.home.join("Library/Application Support"),
                Platform::Windows => named("APPDATA", "AppData/Roaming"),
            },
        }
    }
}

/// Who decided what stands in a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Authorship {
    /// The user: it lies outside of the project.
    User,
    /// Whoever wrote the project.
    Project,
}

/// One server of another program.
#[derive(Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Found {
    /// What it is called here.
    pub name: ServerName,
    /// The scope it belongs in.
    pub scope: Scope,
    /// Where it is written down.
    pub origin: Origin,
    /// What differs here from there, and what is to be done about it.
    pub notes: Vec<String>,
    /// Why it is of no use here.
    pub problem: Option<EntryProblem>,
    entry: Map<String, Json>,
}

impl Found {
    /// The entry as it is to be written. It may hold secrets.
    pub fn entry(&self) -> &Map<String, Json> {
        &self.entry
    }

    /// The entry as it may be shown: what is, or looks like, a secret is masked.
    pub fn shown(&self) -> WrittenEntry {
        WrittenEntry::from_raw(&RawValue::from_json(&Json::Object(self.entry.clone())))
    }
}

impl fmt::Debug for Found {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Found")
            .field("name", &self.name)
            .field("scope", &self.scope)
            .field("origin", &self.origin)
            .field("notes", &self.notes)
            .field("problem", &self.problem)
            .field("entry", &self.shown())
            .finish()
    }
}

/// A file of another program, and the servers in it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ForeignFile {
    /// Whose it is.
    pub client: Client,
    /// Where it lies.
    pub path: PathBuf,
    /// Who decided what it says.
    pub authorship: Authorship,
    /// Its servers, in their order.
    pub found: Vec<Found>,
    /// What is to be said of the file as a whole.
    pub notes: Vec<String>,
}

/// What other programs have.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Imported {
    /// The files that there are.
    pub files: Vec<ForeignFile>,
    /// What is wrong with some of them.
    pub diagnostics: Vec<Diagnostic>,
}

/// Reads the files of `clients`. Those that are missing are passed over in silence.
pub fn import(clients: &[Client], whereabouts: &Whereabouts<'_>) -> Imported {
    let mut imported = Imported::default();
    // The home folder is no project: what lies there is the user's.
    let is_home = is_same_place(whereabouts.here, whereabouts.home);
    for client in clients {
        let files = client.format().files_on(whereabouts.platform);
        for file in files.filter(|file| !(is_home && file.authorship() == Authorship::Project)) {
            let path = whereabouts.folder(file.base).join(file.path);
            imported.read(*client, &path, file.authorship(), whereabouts);
        }
    }
    imported
}

/// Reads one file of `client` that somebody named. `None`: there is no such file.
pub fn import_file(client: Client, path: &Path, whereabouts: &Whereabouts<'_>) -> Option<Imported> {
    let mut imported = Imported::default();
    let files = client.format().files.iter();
    let authorship = files
        .filter(|file| file.fits(path))
        .map(File::authorship)
        // Several clients have files of the same name in both places: what lies in the project is its.
        .find(|authorship| {
            (*authorship == Authorship::Project) == path.starts_with(whereabouts.here)
        });
    let authorship = authorship.unwrap_or(Authorship::User);
    imported
        .read(client, path, authorship, whereabouts)
        .then_some(imported)
}

fn is_same_place(one: &Path, other: &Path) -> bool {
    one == other || fs::canonicalize(one).is_ok_and(|one| Some(one) == fs::canonicalize(other).ok())
}

impl Imported {
    /// False: there is no such file.
    fn read(
        &mut self,
        client: Client,
        path: &Path,
        authorship: Authorship,
        whereabouts: &Whereabouts<'_>,
    ) -> bool {
        let format = client.format();
        let Some(mut whole) = Whole::read(path, format.syntax) else {
            return false;
        };
        let mut file = ForeignFile {
            client,
            path: path.to_owned(),
            authorship,
            found: Vec::new(),
            notes: Vec::new(),
        };
        if let Some(root) = whole.root.take() {
            let mut sections = Vec::new();
            (format.sections)(&root, whereabouts, &mut sections, &mut file.notes);
            for section in &sections {
                file.take_section(section, &root, &mut whole, whereabouts);
            }
        }
        self.diagnostics.extend(whole.diagnostics());
        self.files.push(file);
        true
    }
}

impl ForeignFile {
    fn take_section(
        &mut self,
        section: &Section<'_>,
        root: &RawValue,
        whole: &mut Whole,
        whereabouts: &Whereabouts<'_>,
    ) {
        let servers = section.servers;
        if !matches!(servers.value.kind, RawKind::Object(_)) {
            let message = format!("`{}` must be an object", servers.key);
            let hint = "no servers are taken from it";
            return whole.warn(message, hint, servers.value.span);
        }
        let belongs_to_project = section.is_of_project || self.authorship == Authorship::Project;
        let scope = whereabouts.scope.unwrap_or(if belongs_to_project {
            Scope::Local
        } else {
            Scope::User
        });
        let before = self.found.len();
        for member in servers.value.members() {
            let beside = self.found.get(before..).unwrap_or_default();
            let Some((name, renamed)) = name::choose(&member.key, self.client, beside) else {
                continue;
            };
            let job = translate::Job {
                client: self.client,
                name: &name,
                root,
                whereabouts,
                scope,
                belongs_to_project,
                is_disabled: section.disabled.contains(&member.key),
                is_disabled_here: section.disabled_here.contains(&member.key),
            };
            let mut translated = translate::translate(&member.value, &job);
            translated.notes.splice(0..0, renamed);
            self.found.push(Found {
                scope,
                origin: whole.origin(member.key_span),
                notes: translated.notes,
                problem: translated.problem,
                entry: translated.entry,
                name,
            });
        }
    }
}
