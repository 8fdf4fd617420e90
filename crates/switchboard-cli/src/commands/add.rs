//! `add` and `add-json`: write a server entry to the file of a scope.
//!
//! Invariant: an invalid entry is never written, and literal values of variables and headers are
//! never printed.

mod entry;

use std::collections::BTreeMap;
use std::time::SystemTime;

use serde::Serialize;
use serde_json::Value;
use switchboard_config::{
    EntryError, MaskedEntry, Scope, ServerEntry, ServerName, SourcePos, Verdict, check_server,
    entry_for_project_file,
};

use super::scope_files::{self, ScopedEntry};
use crate::args::{AddArgs, AddJsonArgs, EntryTarget};
use crate::context::Context;
use crate::failure::{Exit, Failure, Kind};
use crate::hidden_input;
use crate::render::style::Paint;
use crate::render::{json, text};
use crate::signals::Signals;

/// The value of unset variables during the validation of an entry. It is valid in every member of
/// an entry, even at the start of a URL.
pub(super) const UNSET_PLACEHOLDER: &str = "https://unset";

pub(crate) async fn run(
    args: &AddArgs,
    context: &Context,
    signals: &mut Signals,
) -> Result<Exit, Failure> {
    let name = parse_server_name(&args.name)?;
    let draft = entry::build_entry(args)?;
    let values = hidden_input::read_values(&draft.hidden_names(), signals).await?;
    let hidden: Vec<_> = draft
        .hidden_names()
        .into_iter()
        .map(str::to_owned)
        .collect();
    let draft_warnings = draft.warnings.clone();
    let entry = draft.into_json(values);
    let scope = Scope::from(args.target.scope);
    let mut warnings = check(&name, &entry, scope, context)?;
    if scope == Scope::Project {
        let has_warning = |name: &String| {
            let quoted = format!("`{name}`");
            (warnings.iter()).any(|warning| warning.message.contains(&quoted))
        };
        let silent: Vec<_> = hidden.iter().filter(|name| !has_warning(name)).collect();
        warnings.extend(
            silent
                .into_iter()
                .map(|name| secret_in_project_warning(name)),
        );
    }
    warnings.extend(draft_warnings);
    warnings.extend(entry::plain_http_headers_warning(&entry));
    write(&name, &entry, args.target, &warnings, context)
}

pub(crate) async fn run_json(
    args: &AddJsonArgs,
    context: &Context,
    signals: &mut Signals,
) -> Result<Exit, Failure> {
    let name = parse_server_name(&args.name)?;
    let text = match args.entry.as_str() {
        "-" => hidden_input::read_all(signals).await?,
        text => text.to_owned(),
    };
    let entry = entry::parse(&name, &text)?;
    let warnings = check(&name, &entry, args.target.scope.into(), context)?;
    write(&name, &entry, args.target, &warnings, context)
}

fn parse_server_name(name: &str) -> Result<ServerName, Failure> {
    let name = ServerName::new(name)
        .map_err(|error| Failure::usage(error.to_string()).hint("pick a different name"))?;
    if name.as_str().starts_with('-') {
        let message = "a server name must not start with a dash";
        return Err(Failure::usage(message).hint("pick a different name"));
    }
    Ok(name)
}

/// Warns that a value read from stdin, which is probably secret, is stored in the project's file.
fn secret_in_project_warning(name: &str) -> EntryError {
    EntryError::new(format!(
        "the value of {name} is now stored in the project's .mcp.json, readable by everyone with the project"
    ))
    .hint(format!(
        "use a variable reference instead (-e '{name}=${{{name}}}'), or keep the entry private with -s local"
    ))
}

fn write(
    name: &ServerName,
    entry: &Value,
    target: EntryTarget,
    warnings: &[EntryError],
    context: &Context,
) -> Result<Exit, Failure> {
    let scope = Scope::from(target.scope);
    let path = ["mcpServers", name.as_str()];
    let target_file = scope_files::entry_file(scope, context)?;
    let mut file = scope_files::open(scope, &target_file)?;
    let before = file.origin(&path);
    if let Some(origin) = before.as_ref().filter(|_| !target.force) {
        return Err(already_exists(name, scope, origin));
    }
    file.set(&path, entry)?;
    let origin = file.origin(&path);
    file.save()?;
    let stored = scope_files::entries_named(name.as_str(), context);
    let environment = |variable: &str| context.variable(variable);
    let typed = (scope == Scope::Project)
        .then(|| entry_for_project_file(name, entry, &target_file, &environment));
    let added = AddedJson {
        name,
        scope,
        origin: origin.as_ref(),
        config: MaskedEntry::from_json(entry),
        replaced: before.is_some(),
        approved: record_approval(&stored, typed.as_ref(), context)?,
        overridden_by: stored.iter().find(|entry| entry.scope < scope),
        overrides: (stored.iter())
            .filter(|entry| scope < entry.scope)
            .collect(),
        warnings,
    };
    report(&added, context)?;
    Ok(Exit::Ok)
}

fn already_exists(name: &ServerName, scope: Scope, origin: &SourcePos) -> Failure {
    let message = format!("server {name} already exists in the {scope} scope ({origin})");
    Failure::usage(message).hint("pick a different name, or pass --force to overwrite it")
}

/// Validates the entry. An unset variable leads to a warning and not to an error: the variable may
/// be set in the environment in which the server is used.
fn check(
    name: &ServerName,
    entry: &Value,
    scope: Scope,
    context: &Context,
) -> Result<Vec<EntryError>, Failure> {
    let environment = |variable: &str| context.variable(variable);
    let lenient =
        |variable: &str| environment(variable).or_else(|| Some(UNSET_PLACEHOLDER.to_owned()));
    let checked = check_server(name, entry, scope, &lenient);
    if let Err(problem) = checked.config {
        let message = format!("server {name} was not added: {}", problem.message);
        return Err(Failure::new(Kind::Config, message).maybe_hint(problem.hint));
    }
    if let Some(problem) = entry::unusable_url(entry) {
        let message = format!("server {name} was not added: {}", problem.message);
        return Err(Failure::new(Kind::Config, message).maybe_hint(problem.hint));
    }
    // The entry is valid with `UNSET_PLACEHOLDER`. If it is invalid without the placeholder, an
    // unset variable has no default.
    let strict = check_server(name, entry, scope, &environment).config.err();
    Ok(checked.warnings.into_iter().chain(strict).collect())
}

/// Approves an entry that was added to the project scope, and returns whether the entry may run.
/// Entries of other scopes need no approval. Approves nothing if the file no longer contains the
/// entry as typed: another program may have changed the file since `add` wrote it.
fn record_approval(
    stored: &[ScopedEntry],
    typed_for_project: Option<&ServerEntry>,
    context: &Context,
) -> Result<bool, Failure> {
    let Some(typed) = typed_for_project else {
        return Ok(true);
    };
    let added = stored.iter().find(|added| added.scope == typed.scope());
    if !added.is_some_and(|added| has_same_content(&added.entry, typed)) {
        return Ok(false);
    }
    let file = context.approvals_file();
    file.record(&[typed], Verdict::Approved, SystemTime::now())
        .map_err(|error| Failure::new(Kind::Config, error.to_string()))?;
    Ok(true)
}

/// Whether both entries have the same content hash. The masked forms cannot be compared, because
/// they are equal for different secrets. An entry with an unset variable or an unreadable program
/// has no hash and cannot be approved.
fn has_same_content(found: &ServerEntry, typed: &ServerEntry) -> bool {
    typed.content_hash().is_some() && found.content_hash() == typed.content_hash()
}

/// Output of `add --json`.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct AddedJson<'a> {
    name: &'a ServerName,
    scope: Scope,
    origin: Option<&'a SourcePos>,
    config: MaskedEntry,
    /// Whether `--force` overwrote an entry with this name.
    replaced: bool,
    /// Whether the server may run without `switchboard trust`.
    approved: bool,
    /// The entry of a higher scope with the same name, which is used instead of the added one.
    #[serde(skip_serializing_if = "Option::is_none")]
    overridden_by: Option<&'a ScopedEntry>,
    /// Entries of lower scopes with the same name, which the added entry overrides.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    overrides: Vec<&'a ScopedEntry>,
    #[serde(
        skip_serializing_if = "<[_]>::is_empty",
        serialize_with = "serialize_problems"
    )]
    warnings: &'a [EntryError],
}

fn serialize_problems<S: serde::Serializer>(
    problems: &&[EntryError],
    serializer: S,
) -> Result<S::Ok, S::Error> {
    let problems = problems.iter().map(|problem| {
        let hint = problem.hint.as_deref().map(|hint| ("hint", hint));
        let members = [("message", problem.message.as_str())]
            .into_iter()
            .chain(hint);
        members.collect::<BTreeMap<_, _>>()
    });
    serializer.collect_seq(problems)
}

fn report(added: &AddedJson<'_>, context: &Context) -> Result<(), Failure> {
    let console = &context.console;
    for EntryError { message, hint, .. } in added.warnings {
        console.warn(message, hint.as_deref());
    }
    if let Some(winner) = added.overridden_by {
        let message = format!(
            "{} is overridden by the entry in the {} scope: {}",
            added.name,
            winner.scope,
            winner.entry.origin()
        );
        let hint = format!(
            "switchboard remove {} -s {}",
            text::quote_for_shell(added.name.as_str()),
            winner.scope
        );
        console.warn(&message, winner.is_writable().then_some(&*hint));
    }
    if console.is_json() {
        return console.print(&json::pretty(added));
    }
    console.print(&render(added, context))
}

fn render(added: &AddedJson<'_>, context: &Context) -> String {
    let style = context.console.style;
    let (verb, at) = if added.replaced {
        ("Replaced", "in")
    } else {
        ("Added", "to")
    };
    let name = style.paint(Paint::Bold, added.name.as_str());
    let mut lines = vec![format!("{verb} {name} {at} the {} scope", added.scope)];
    let mut field = |label: &str, value: &str| {
        if !value.is_empty() {
            let label = style.paint(Paint::Dim, &format!("{label:9}"));
            lines.push(format!("  {label}  {value}"));
        }
    };
    field(
        "file",
        &added
            .origin
            .map(scope_files::file_and_line)
            .unwrap_or_default(),
    );
    field("command", &text::format_command_line(&added.config));
    let url = added.config.as_object().get("url").and_then(Value::as_str);
    field("url", url.unwrap_or_default());
    for key in ["env", "headers"] {
        field(
            key,
            &super::get::env_or_header_lines(&added.config, key).replace('\n', ", "),
        );
    }
    for other in &added.overrides {
        let place = scope_files::file_and_line(other.entry.origin());
        field(
            "overrides",
            &format!("the entry in the {} scope: {place}", other.scope),
        );
    }
    let next = if added.approved {
        "switchboard list"
    } else {
        "switchboard trust"
    };
    lines.push(format!("Next: {}", style.paint(Paint::Cyan, next)));
    lines.join("\n")
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use serde_json::json;
    use switchboard_config::{ConfigSources, load};

    use super::*;

    #[test]
    fn entry_changed_by_another_program_differs() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join(".mcp.json");
        let name = ServerName::new("a").unwrap();
        let typed = json!({"command": "srv", "args": ["--token", "mine"], "env": {"LIB": "/mine"}});
        let environment = HashMap::new();
        let typed_entry = entry_for_project_file(&name, &typed, &file, &environment);
        let read = |entry: &Value| {
            std::fs::write(&file, json!({"mcpServers": {"a": entry}}).to_string()).unwrap();
            let sources = ConfigSources {
                project: Some(file.clone()),
                ..ConfigSources::default()
            };
            load(&sources, &environment).config.servers.remove(0)
        };
        assert!(has_same_content(&read(&typed), &typed_entry));
        for other in [
            json!({"command": "srv", "args": ["--token", "other"], "env": {"LIB": "/mine"}}),
            json!({"command": "srv", "args": ["--token", "mine"], "env": {"LIB": "/other"}}),
        ] {
            let found = read(&other);
            // The masked forms are equal although the secrets differ, so only hashes may be
            // compared.
            assert_eq!(found.masked_entry(), typed_entry.masked_entry());
            assert!(!has_same_content(&found, &typed_entry));
        }
    }
}
