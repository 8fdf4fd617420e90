//! The way from sources to one config: read, validate, merge.

mod merge;

use std::path::{Path, PathBuf};

use serde_json::Value as Json;

use crate::diagnostic::{Diagnostic, Origin, Severity};
use crate::expand::Environment;
use crate::masked_entry::WrittenEntry;
use crate::raw::{FileContent, Finding, RawDocument, RawMember, RawValue};
use crate::scope::{Scope, Source, Sources};
use crate::server_name::ServerName;
use crate::trust::{Content, Digests, ServerEntry};
use crate::validate::{EntryContext, validate};

pub use merge::{HostConfig, Loaded};

/// The entries and problems of one source.
#[derive(Debug)]
pub(crate) struct ScopeEntries {
    /// The entries in the order of the source, each name once.
    entries: Vec<ServerEntry>,
    /// Problems of the entries and of the source.
    diagnostics: Vec<Diagnostic>,
}

/// Reads all `sources` and merges them. The administrator's file wins over the command line, and then come
/// local, project and user.
///
/// Never fails as a whole. What cannot be used is told by a diagnostic, and everything else is there: an
/// error for a source that the command line names, a warning for the files that merely lie around. Only
/// the named files are read, and such programs as a project brings with it; no process is started.
pub fn load(sources: &Sources, environment: &dyn Environment) -> Loaded {
    load_from(sources, environment, FileContent::read)
}

/// As [`load`], for those who want to know the names in no time: no program is looked at, so of the
/// project's entries none is approved.
pub fn load_names(sources: &Sources, environment: &dyn Environment) -> Loaded {
    load_with(sources, environment, FileContent::read, None)
}

/// As [`load`], with whoever knows what the files hold.
pub(crate) fn load_from(
    sources: &Sources,
    environment: &dyn Environment,
    read: impl Fn(&Path) -> FileContent,
) -> Loaded {
    load_with(sources, environment, read, Some(&Digests::default()))
}

fn load_with(
    sources: &Sources,
    environment: &dyn Environment,
    read: impl Fn(&Path) -> FileContent,
    digests: Option<&Digests>,
) -> Loaded {
    let file = |path: &Option<PathBuf>, scope| Some((Source::File(path.clone()?), scope));
    let command_line = sources.command_line.iter().rev();
    let command_line = command_line.map(|source| (source.clone(), Scope::CommandLine));
    let files = [
        (&sources.local, Scope::Local),
        (&sources.project, Scope::Project),
        (&sources.user, Scope::User),
    ];
    let files = files.into_iter().filter(|_| !sources.strict);
    merge::merge(
        file(&sources.managed, Scope::Managed)
            .into_iter()
            .chain(command_line)
            .chain(files.filter_map(|(path, scope)| file(path, scope)))
            .filter_map(|(source, scope)| {
                let document = match &source {
                    Source::Inline(text) => RawDocument::inline(text, scope),
                    Source::File(path) => RawDocument::of_file(path, &read(path), scope)?,
                };
                Some(read_layer(document, scope, environment, digests))
            }),
    )
}

fn read_layer(
    mut document: RawDocument,
    scope: Scope,
    environment: &dyn Environment,
    digests: Option<&Digests>,
) -> ScopeEntries {
    let servers = std::mem::take(&mut document.servers);
    let entries = servers
        .iter()
        .filter_map(|member| read_entry(&mut document, member, scope, environment, digests))
        .collect();
    ScopeEntries {
        entries,
        diagnostics: document.diagnostics(),
    }
}

/// `None`: the entry has no name by which it could be shown.
fn read_entry(
    document: &mut RawDocument,
    member: &RawMember,
    scope: Scope,
    environment: &dyn Environment,
    digests: Option<&Digests>,
) -> Option<ServerEntry> {
    let name = match ServerName::new(&member.key) {
        Ok(name) => name,
        Err(problem) => {
            document.findings.push(Finding {
                // The source as a whole is fine: one bad entry never hides the others.
                severity: Severity::Warning,
                message: problem.to_string(),
                hint: None,
                span: Some(member.key_span),
                server: None,
            });
            return None;
        }
    };
    let validated = validate(
        &member.value,
        &EntryContext {
            name: &name,
            scope,
            base: base_of(document, scope),
            environment,
        },
    );
    document.findings.extend(validated.findings);
    let origin = document.text.origin(member.key_span);
    let written = WrittenEntry::from_raw(&member.value);
    let content = match (&validated.config, base_of(document, scope), digests) {
        (Ok(config), Some(root), Some(digests)) => {
            let raw = &member.value;
            Some(Content::of(raw, config, root, environment, digests))
        }
        _ => None,
    };
    let entry = ServerEntry::new(name, scope, origin, written, validated.config);
    Some(entry.with_content(content))
}

/// The entry that `json` would be in the project's file at `file`, whatever that file holds. Consent to
/// it is consent to `json`: its [`content_hash`](ServerEntry::content_hash) is that of an entry which
/// was read from the file only if the same would run.
pub fn project_entry(
    name: &ServerName,
    json: &Json,
    file: &Path,
    environment: &dyn Environment,
) -> ServerEntry {
    let raw = RawValue::from_json(json);
    let base = file.parent();
    let context = EntryContext {
        name,
        scope: Scope::Project,
        base,
        environment,
    };
    let config = validate(&raw, &context).config;
    let content = match (&config, base) {
        (Ok(config), Some(root)) => Some(Content::of(
            &raw,
            config,
            root,
            environment,
            &Digests::default(),
        )),
        _ => None,
    };
    let origin = Origin::of_whole(Some(file));
    let written = WrittenEntry::from_raw(&raw);
    ServerEntry::new(name.clone(), Scope::Project, origin, written, config).with_content(content)
}

/// What a relative `cwd` is relative to: a project means its own root.
fn base_of(document: &RawDocument, scope: Scope) -> Option<&Path> {
    match scope {
        Scope::Project => document.text.file()?.parent(),
        _ => None,
    }
}
