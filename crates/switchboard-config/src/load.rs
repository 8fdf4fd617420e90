//! Loads the config: reads all sources, validates the entries and merges them by name.

mod merge;

use std::path::{Path, PathBuf};

use serde_json::Value as Json;

use crate::diagnostic::{Diagnostic, Severity, SourcePos};
use crate::expand::Environment;
use crate::masked_entry::MaskedEntry;
use crate::raw::{FileRead, ParsedSource, Problem, RawMember, RawValue};
use crate::scope::{ConfigSource, ConfigSources, Scope};
use crate::server_name::ServerName;
use crate::trust::{ApprovedContent, DigestCache, ServerEntry};
use crate::validate::{EntryContext, validate};

pub use merge::{HostConfig, LoadedConfig};

/// The entries and problems of one source.
#[derive(Debug)]
struct ScopeEntries {
    /// The entries in the order of the source, each name once.
    entries: Vec<ServerEntry>,
    /// Problems of the entries and of the source.
    diagnostics: Vec<Diagnostic>,
}

/// Reads all `sources` and merges them. Precedence: managed, command line, local, project, user.
///
/// Never fails as a whole: unusable sources and entries are reported as diagnostics, and everything
/// else is loaded. For a source from the command line, most of these diagnostics are errors. For
/// all other sources, they are warnings. Reads only the given files and the programs that belong to
/// the project, and starts no process.
pub fn load(sources: &ConfigSources, environment: &dyn Environment) -> LoadedConfig {
    load_with_reader(sources, environment, FileRead::read)
}

/// Like [`load`], but reads no programs, which makes it fast. Entries of the project have no
/// content hash and therefore count as unapproved.
pub fn load_names_only(sources: &ConfigSources, environment: &dyn Environment) -> LoadedConfig {
    load_all(sources, environment, FileRead::read, None)
}

/// Like [`load`], with an injected file reader.
pub(crate) fn load_with_reader(
    sources: &ConfigSources,
    environment: &dyn Environment,
    read: impl Fn(&Path) -> FileRead,
) -> LoadedConfig {
    load_all(sources, environment, read, Some(&DigestCache::default()))
}

fn load_all(
    sources: &ConfigSources,
    environment: &dyn Environment,
    read: impl Fn(&Path) -> FileRead,
    digests: Option<&DigestCache>,
) -> LoadedConfig {
    let file = |path: &Option<PathBuf>, scope| Some((ConfigSource::File(path.clone()?), scope));
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
                let parsed = match &source {
                    ConfigSource::Inline(text) => ParsedSource::inline(text, scope),
                    ConfigSource::File(path) => ParsedSource::from_file(path, &read(path), scope)?,
                };
                Some(read_entries(parsed, scope, environment, digests))
            }),
    )
}

fn read_entries(
    mut source: ParsedSource,
    scope: Scope,
    environment: &dyn Environment,
    digests: Option<&DigestCache>,
) -> ScopeEntries {
    let servers = std::mem::take(&mut source.servers);
    let entries = servers
        .iter()
        .filter_map(|member| read_entry(&mut source, member, scope, environment, digests))
        .collect();
    ScopeEntries {
        entries,
        diagnostics: source.diagnostics(),
    }
}

/// Returns `None` if the name of the entry is invalid.
fn read_entry(
    source: &mut ParsedSource,
    member: &RawMember,
    scope: Scope,
    environment: &dyn Environment,
    digests: Option<&DigestCache>,
) -> Option<ServerEntry> {
    let name = match ServerName::new(&member.key) {
        Ok(name) => name,
        Err(error) => {
            source.problems.push(Problem {
                // A warning in every scope: the other entries of the source are still loaded.
                severity: Severity::Warning,
                message: error.to_string(),
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
            base: relative_base(source, scope),
            environment,
        },
    );
    source.problems.extend(validated.problems);
    let origin = source.text.origin(member.key_span);
    let masked_entry = MaskedEntry::from_raw(&member.value);
    let content = match (&validated.config, relative_base(source, scope), digests) {
        (Ok(config), Some(root), Some(digests)) => {
            let raw = &member.value;
            Some(ApprovedContent::new(
                raw,
                config,
                root,
                environment,
                digests,
            ))
        }
        _ => None,
    };
    let entry = ServerEntry::new(name, scope, origin, masked_entry, validated.config);
    Some(entry.with_content(content))
}

/// Returns the entry that [`load`] would return if the project's file at `file` contained `json`.
/// Does not read that file.
///
/// Use it to approve an entry before it is written. The entry that is loaded later has the same
/// [`content_hash`](ServerEntry::content_hash) only if it runs the same program in the same way.
pub fn entry_for_project_file(
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
        (Ok(config), Some(root)) => Some(ApprovedContent::new(
            &raw,
            config,
            root,
            environment,
            &DigestCache::default(),
        )),
        _ => None,
    };
    let origin = SourcePos::whole_file(Some(file));
    let masked_entry = MaskedEntry::from_raw(&raw);
    ServerEntry::new(name.clone(), Scope::Project, origin, masked_entry, config)
        .with_content(content)
}

/// Returns the directory that the relative paths in an entry refer to: the project root for entries
/// of a project, `None` in all other scopes.
fn relative_base(source: &ParsedSource, scope: Scope) -> Option<&Path> {
    match scope {
        Scope::Project => source.text.file()?.parent(),
        _ => None,
    }
}
