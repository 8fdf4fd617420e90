//! `remove`: deletes a server entry from the file of a scope.

use serde::Serialize;
use switchboard_config::{Scope, SourcePos, nearest};

use super::find::NO_SERVERS_HINT;
use super::scope_files::{self, ScopedEntry};
use crate::args::RemoveArgs;
use crate::context::Context;
use crate::failure::{Exit, Failure, Kind};
use crate::render::json;
use crate::render::style::Paint;
use switchboard::content::quote_for_shell;

pub(crate) fn run(args: &RemoveArgs, context: &Context) -> Result<Exit, Failure> {
    let entries = scope_files::entries_named(&args.name, context);
    let scope = match args.scope {
        Some(scope) => Scope::from(scope),
        None => only_scope(&args.name, &entries, context)?,
    };
    let path = ["mcpServers", args.name.as_str()];
    let mut file = scope_files::open(scope, &scope_files::entry_file(scope, context)?)?;
    let origin = file.origin(&path);
    if !file.remove(&path)? {
        return Err(not_in_scope_error(&args.name, scope, &entries, context));
    }
    file.save()?;
    let approval_deleted = scope == Scope::Project && delete_approval(&args.name, context);
    let removed = RemovedJson {
        name: &args.name,
        scope,
        origin: origin.as_ref(),
        approval_deleted,
        now_active: entries.iter().find(|entry| entry.scope != scope),
    };
    context.console.print(&if context.console.is_json() {
        json::pretty(&removed)
    } else {
        render(&removed, context)
    })?;
    Ok(Exit::Ok)
}

/// Deletes what the user decided about the project's server. Returns whether there was a decision.
fn delete_approval(name: &str, context: &Context) -> bool {
    let paths = context.scope_paths();
    let root = paths.project().and_then(|root| root.canonicalize().ok());
    let file = context.approvals_file();
    let deleted = file
        .revoke(|record| root.as_ref() == Some(&record.project) && record.server.as_str() == name);
    deleted.map_or_else(
        |error| {
            let message = format!("the approval of {name} was not deleted: {error}");
            context.console.warn(&message, Some(&error.hint(&file)));
            false
        },
        |deleted| !deleted.is_empty(),
    )
}

/// Returns the scope to remove from if `-s` is missing: the only writable scope that defines this
/// server. An error if there is none or more than one.
fn only_scope(name: &str, entries: &[ScopedEntry], context: &Context) -> Result<Scope, Failure> {
    let writable: Vec<_> = entries.iter().filter(|entry| entry.is_writable()).collect();
    match writable.as_slice() {
        [only] => Ok(only.scope),
        [] => match entries.first() {
            Some(managed) => Err(Failure::new(
                Kind::Denied,
                format!(
                    "server {name} is managed by the administrator ({})",
                    managed.entry.origin()
                ),
            )
            .hint("ask your administrator to remove it")),
            None => Err(unknown_server_error(name, context)),
        },
        several => {
            let places = several
                .iter()
                .map(|entry| format!("{} ({})", entry.scope, entry.entry.origin()));
            let places: Vec<_> = places.collect();
            let message = format!(
                "server {name} is defined in {} scopes: {}",
                several.len(),
                places.join(", ")
            );
            let scopes = several.iter().map(|entry| entry.scope.as_str());
            let hints = scopes
                .map(|scope| remove_command(name, scope))
                .collect::<Vec<_>>();
            Err(Failure::usage(message).hint(hints.join(", or ")))
        }
    }
}

fn remove_command(name: &str, scope: &str) -> String {
    format!("switchboard remove {} -s {scope}", quote_for_shell(name))
}

fn not_in_scope_error(
    name: &str,
    scope: Scope,
    entries: &[ScopedEntry],
    context: &Context,
) -> Failure {
    let other = entries.iter().find(|entry| entry.is_writable());
    let Some(other) = other else {
        return unknown_server_error(name, context);
    };
    let message = format!(
        "no server named {name} in the {scope} scope, but in the {} scope",
        other.scope
    );
    Failure::new(Kind::UnknownServer, message).hint(remove_command(name, other.scope.as_str()))
}

fn unknown_server_error(name: &str, context: &Context) -> Failure {
    let (names, broken) = scope_files::all_names(context);
    // Print the unreadable files: the entry may be in one of them.
    context.console.diagnose(&broken);
    let names: Vec<_> = names.iter().map(String::as_str).collect();
    let failure = Failure::new(Kind::UnknownServer, format!("no server named {name:?}"));
    let failure = match nearest(name, &names) {
        Some(nearest) => failure.hint(format!("did you mean {nearest}?")),
        None if names.is_empty() && broken.is_empty() => failure.hint(NO_SERVERS_HINT),
        None => failure.hint("run `switchboard list` to see all servers"),
    };
    failure.diagnostics(broken)
}

/// Output of `remove --json`.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct RemovedJson<'a> {
    name: &'a str,
    scope: Scope,
    /// File and line of the removed entry.
    origin: Option<&'a SourcePos>,
    /// Whether a recorded approval or rejection of the server was deleted.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    approval_deleted: bool,
    /// The entry of another scope with the same name, which takes effect after the removal.
    #[serde(skip_serializing_if = "Option::is_none")]
    now_active: Option<&'a ScopedEntry>,
}

fn render(removed: &RemovedJson<'_>, context: &Context) -> String {
    let style = context.console.style;
    let name = style.paint(Paint::Bold, removed.name);
    let place = removed
        .origin
        .map(scope_files::file_and_line)
        .unwrap_or_default();
    let mut text = format!("Removed {name} from the {} scope: {place}", removed.scope);
    if removed.approval_deleted {
        text.push_str("\nDeleted its recorded approval or rejection");
    }
    match removed.now_active {
        Some(active) => {
            let place = scope_files::file_and_line(active.entry.origin());
            let scope = active.scope;
            format!("{text}\nNow using the entry in the {scope} scope: {place}")
        }
        None => text,
    }
}
