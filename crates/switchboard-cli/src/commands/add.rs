//! `add` and `add-json`: a server into the file of a scope.
//!
//! Invariant: what is not a valid entry is never written. Values of variables and headers are not shown.

mod entry;

use std::time::SystemTime;

use serde::Serialize;
use serde_json::Value;
use switchboard_config::{
    EntryProblem, Origin, Scope, ServerEntry, ServerName, Verdict, WrittenEntry, check_server,
    project_entry,
};

use super::scopes::{self, Held};
use crate::args::{AddArgs, AddJsonArgs, EntryTarget};
use crate::context::Context;
use crate::failure::{Exit, Failure, Kind};
use crate::hidden_input;
use crate::render::style::Paint;
use crate::render::{json, text};
use crate::signals::Signals;

/// Stands for the value of a variable that is not set yet: good enough in any place of an entry, even as
/// the beginning of a URL.
const UNSET: &str = "https://unset";

pub(crate) async fn run(
    args: &AddArgs,
    context: &Context,
    signals: &mut Signals,
) -> Result<Exit, Failure> {
    let name = server_name(&args.name)?;
    let drawn = entry::draw(args)?;
    let values = hidden_input::read_values(&drawn.hidden_names(), signals).await?;
    let hidden: Vec<_> = drawn
        .hidden_names()
        .into_iter()
        .map(str::to_owned)
        .collect();
    let remarks = drawn.remarks.clone();
    let entry = drawn.into_json(values);
    let scope = Scope::from(args.target.scope);
    let mut warnings = check(&name, &entry, scope, context)?;
    if scope == Scope::Project {
        let is_told = |name: &String| {
            let quoted = format!("`{name}`");
            warnings.iter().any(|told| told.message.contains(&quoted))
        };
        let untold: Vec<_> = hidden.iter().filter(|name| !is_told(name)).collect();
        warnings.extend(untold.into_iter().map(|name| written_down(name)));
    }
    warnings.extend(remarks);
    warnings.extend(entry::in_plain_sight(&entry));
    write(&name, &entry, args.target, &warnings, context)
}

pub(crate) async fn run_json(
    args: &AddJsonArgs,
    context: &Context,
    signals: &mut Signals,
) -> Result<Exit, Failure> {
    let name = server_name(&args.name)?;
    let text = match args.entry.as_str() {
        "-" => hidden_input::read_all(signals).await?,
        text => text.to_owned(),
    };
    let entry = entry::parse(&name, &text)?;
    let warnings = check(&name, &entry, args.target.scope.into(), context)?;
    write(&name, &entry, args.target, &warnings, context)
}

fn server_name(name: &str) -> Result<ServerName, Failure> {
    let name = ServerName::new(name)
        .map_err(|error| Failure::usage(error.to_string()).hint("choose another name"))?;
    if name.as_str().starts_with('-') {
        let message = "a server's name must not begin with a dash";
        return Err(Failure::usage(message).hint("choose another name"));
    }
    Ok(name)
}

/// A value that was kept out of the history and then written where others read it.
fn written_down(name: &str) -> EntryProblem {
    EntryProblem::new(format!(
        "the value of {name} now stands in the project's file, and everybody who has the project can read it"
    ))
    .hint(format!(
        "give it by reference, -e '{name}=${{{name}}}', or keep the server to yourself with -s local"
    ))
}

fn write(
    name: &ServerName,
    entry: &Value,
    target: EntryTarget,
    warnings: &[EntryProblem],
    context: &Context,
) -> Result<Exit, Failure> {
    let scope = Scope::from(target.scope);
    let path = ["mcpServers", name.as_str()];
    let place = scopes::file_of(scope, context)?;
    let mut file = scopes::open(scope, &place)?;
    let before = file.origin(&path);
    if let Some(origin) = before.as_ref().filter(|_| !target.force) {
        return Err(exists(name, scope, origin));
    }
    file.set(&path, entry)?;
    let origin = file.origin(&path);
    file.save()?;
    let held = scopes::with_server(name.as_str(), context);
    let environment = |variable: &str| context.variable(variable);
    let typed = (scope == Scope::Project).then(|| project_entry(name, entry, &place, &environment));
    let added = Added {
        name,
        scope,
        origin: origin.as_ref(),
        config: WrittenEntry::from_json(entry),
        replaced: before.is_some(),
        approved: is_approved(&held, typed.as_ref(), context)?,
        wins: held.iter().find(|held| held.beats(scope)),
        covers: held
            .iter()
            .filter(|held| held.is_beaten_by(scope))
            .collect(),
        warnings,
    };
    tell(&added, context)?;
    Ok(Exit::Ok)
}

fn exists(name: &ServerName, scope: Scope, origin: &Origin) -> Failure {
    let message = format!("there is a server {name} in the {scope} scope already ({origin})");
    Failure::usage(message).hint("choose another name, or replace it with --force")
}

/// Checks the entry with the eyes of whoever will read the file. A variable that is not set here may be
/// set where the server is used.
fn check(
    name: &ServerName,
    entry: &Value,
    scope: Scope,
    context: &Context,
) -> Result<Vec<EntryProblem>, Failure> {
    let environment = |variable: &str| context.variable(variable);
    let lenient = |variable: &str| environment(variable).or_else(|| Some(UNSET.to_owned()));
    let checked = check_server(name, entry, scope, &lenient);
    if let Err(problem) = checked.config {
        let message = format!("server {name} was not added: {}", problem.message);
        return Err(Failure::new(Kind::Config, message).maybe_hint(problem.hint));
    }
    // Whatever is wrong only now is a variable that is not set and has no default.
    let strict = check_server(name, entry, scope, &environment).config.err();
    Ok(checked.warnings.into_iter().chain(strict).collect())
}

/// What the user typed here is consent to it. In the user's own scopes the scope says so; for the project
/// it is recorded, if the file still says what was typed. Recorded is what was typed and never what was
/// read: another program may have written to the file meanwhile.
fn is_approved(
    held: &[Held],
    typed_for_project: Option<&ServerEntry>,
    context: &Context,
) -> Result<bool, Failure> {
    let Some(typed) = typed_for_project else {
        return Ok(true);
    };
    let added = held.iter().find(|held| held.scope == typed.scope());
    if !added.is_some_and(|held| runs_the_same(&held.entry, typed)) {
        return Ok(false);
    }
    let file = context.approvals_file();
    file.record(&[typed], Verdict::Approved, SystemTime::now())
        .map_err(|error| Failure::new(Kind::Config, error.to_string()))?;
    Ok(true)
}

/// Compared by content, because what is fit to be shown is alike with any secret. Without a hash there is
/// nothing that could be approved: a variable is not set yet.
fn runs_the_same(found: &ServerEntry, typed: &ServerEntry) -> bool {
    typed.content_hash().is_some() && found.content_hash() == typed.content_hash()
}

/// What was done.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Added<'a> {
    name: &'a ServerName,
    scope: Scope,
    origin: Option<&'a Origin>,
    config: WrittenEntry,
    /// An entry of this name was there before.
    replaced: bool,
    /// It may run without further questions.
    approved: bool,
    /// The entry of a higher scope that is used in its place.
    #[serde(rename = "shadowedBy", skip_serializing_if = "Option::is_none")]
    wins: Option<&'a Held>,
    /// Entries of lower scopes in whose place it is used.
    #[serde(rename = "shadows", skip_serializing_if = "Vec::is_empty")]
    covers: Vec<&'a Held>,
    #[serde(skip_serializing_if = "<[_]>::is_empty", serialize_with = "problems")]
    warnings: &'a [EntryProblem],
}

fn problems<S: serde::Serializer>(
    problems: &&[EntryProblem],
    serializer: S,
) -> Result<S::Ok, S::Error> {
    let problems = problems
        .iter()
        .map(|problem| serde_json::json!({"message": problem.message, "hint": problem.hint}));
    serializer.collect_seq(problems)
}

fn tell(added: &Added<'_>, context: &Context) -> Result<(), Failure> {
    let console = &context.console;
    for EntryProblem { message, hint, .. } in added.warnings {
        console.warn(message, hint.as_deref());
    }
    if let Some(held) = added.wins {
        let message = format!(
            "the {} scope has a server {} as well, and it is used instead: {}",
            held.scope,
            added.name,
            held.entry.origin()
        );
        let hint = format!(
            "switchboard remove {} -s {}",
            text::shell_word(added.name.as_str()),
            held.scope
        );
        console.warn(&message, held.is_own().then_some(&*hint));
    }
    if console.is_json() {
        return console.print(&json::pretty(added));
    }
    console.print(&wording(added, context))
}

fn wording(added: &Added<'_>, context: &Context) -> String {
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
            let label = style.paint(Paint::Dim, &format!("{label:8}"));
            lines.push(format!("  {label}  {value}"));
        }
    };
    field(
        "file",
        &added.origin.map(scopes::file_and_line).unwrap_or_default(),
    );
    field("command", &text::command_line(&added.config));
    let url = added.config.as_object().get("url").and_then(Value::as_str);
    field("url", url.unwrap_or_default());
    for key in ["env", "headers"] {
        field(
            key,
            &super::get::members(&added.config, key).replace('\n', ", "),
        );
    }
    for held in &added.covers {
        field(
            "instead",
            &format!(
                "of the one in the {} scope: {}",
                held.scope,
                scopes::file_and_line(held.entry.origin())
            ),
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
    use switchboard_config::{Sources, load};

    use super::*;

    #[test]
    fn an_entry_that_another_program_put_there_meanwhile_is_not_what_was_typed() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join(".mcp.json");
        let name = ServerName::new("a").unwrap();
        let typed = json!({"command": "srv", "args": ["--token", "mine"], "env": {"LIB": "/mine"}});
        let environment = HashMap::new();
        let typed_entry = project_entry(&name, &typed, &file, &environment);
        let read = |entry: &Value| {
            std::fs::write(&file, json!({"mcpServers": {"a": entry}}).to_string()).unwrap();
            let sources = Sources {
                project: Some(file.clone()),
                ..Sources::default()
            };
            load(&sources, &environment).config.servers.remove(0)
        };
        assert!(runs_the_same(&read(&typed), &typed_entry));
        for other in [
            json!({"command": "srv", "args": ["--token", "other"], "env": {"LIB": "/mine"}}),
            json!({"command": "srv", "args": ["--token", "mine"], "env": {"LIB": "/other"}}),
        ] {
            let found = read(&other);
            // Fit to be shown they are the same, and that is why it is not enough.
            assert_eq!(found.written(), typed_entry.written());
            assert!(!runs_the_same(&found, &typed_entry));
        }
    }
}
