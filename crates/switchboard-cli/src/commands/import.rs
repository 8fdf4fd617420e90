//! `import`: copies servers from the configs of other MCP clients.
//!
//! Prints the plan before it writes, except with `--json`. Invariant: an existing entry is never
//! replaced, and a server from project files is imported only with the user's consent.

mod report;

use std::path::{Path, PathBuf};

use serde_json::Value;
use switchboard_config::import::{
    Client, Existing, FileOwner, ImportAction, Imported, Planned, import, import_file, plan,
};
use switchboard_config::{EntryError, Scope, check_server};

use super::add::UNSET_PLACEHOLDER;
use super::scope_files;
use crate::args::ImportArgs;
use crate::context::Context;
use crate::failure::{Exit, Failure, Kind};
use crate::permission_prompt::prompt_line;
use crate::render::style::Paint;
use crate::render::{Console, format_count};
use crate::signals::Signals;
use switchboard::content::quote_for_shell;

/// A server that was written to a scope's file.
struct ImportedServer {
    name: String,
    scope: Scope,
    file: PathBuf,
}

pub(crate) async fn run(
    args: &ImportArgs,
    context: &Context,
    signals: &mut Signals,
) -> Result<Exit, Failure> {
    let console = &context.console;
    let imported = read_foreign_configs(args, context)?;
    console.diagnose(&imported.diagnostics);
    let existing = Existing::read(&context.scope_paths().sources());
    let planned = plan(&imported, &existing);
    if !console.is_json() {
        let skipped = skipped_by_yes(&planned, args, context);
        console.print(&report::render(&imported, &planned, skipped, console))?;
    }
    for planned in &planned {
        for problem in project_scope_warnings(planned) {
            let message = format!("{}: {}", planned.server.name, problem.message);
            console.warn(&message, problem.hint.as_deref());
        }
    }
    let confirmed = confirm(&planned, args, context, signals).await?;
    let added = write_entries(&confirmed, context)?;
    if console.is_json() {
        console.print(&report::render_json(&imported, &planned, &added))?;
    } else if !added.is_empty() {
        console.print(&report::outcome(&added, console))?;
    }
    Ok(Exit::Ok)
}

fn read_foreign_configs(args: &ImportArgs, context: &Context) -> Result<Imported, Failure> {
    let scope = args.scope.map(Scope::from);
    let Some(file) = &args.file else {
        let clients = args.client.map_or(Client::ALL.to_vec(), |one| vec![one]);
        return Ok(
            context.with_import_context(scope, |import_context| import(&clients, import_context))
        );
    };
    let file = context.absolute(file);
    let client = args.client.or_else(|| Client::guess_from_path(&file));
    let client = client.ok_or_else(|| {
        let message = format!("cannot tell which client {} belongs to", file.display());
        let names = Client::ALL.map(Client::as_str).join(", ");
        Failure::usage(message).hint(format!("name the client: one of {names}"))
    })?;
    let read = context.with_import_context(scope, |import_context| {
        import_file(client, &file, import_context)
    });
    let imported = read.ok_or_else(|| {
        let message = format!("no such file: {}", file.display());
        Failure::new(Kind::Config, message).hint("pass the path of an existing file")
    })?;
    if imported.diagnostics.is_empty() {
        return Ok(imported);
    }
    context.console.diagnose(&imported.diagnostics);
    let message = format!("could not read {}", file.display());
    Err(Failure::new(Kind::Config, message).diagnostics(imported.diagnostics))
}

/// Returns the servers to add (`ImportAction::Add`) that the user confirmed, by `--yes` or on the
/// terminal.
async fn confirm<'a, 'p>(
    planned: &'a [Planned<'p>],
    args: &ImportArgs,
    context: &Context,
    signals: &mut Signals,
) -> Result<Vec<&'a Planned<'p>>, Failure> {
    let console = &context.console;
    let new: Vec<_> = planned
        .iter()
        .filter(|planned| matches!(planned.action, ImportAction::Add { .. }))
        .collect();
    if new.is_empty() {
        return Ok(Vec::new());
    }
    if args.yes {
        return Ok(skip_project_files(new, args, context));
    }
    if console.is_json() || !console.can_ask {
        print_rerun_commands(&new, args, console);
        return Ok(Vec::new());
    }
    let is_confirmed = ask(&new, console, signals).await?;
    Ok(if is_confirmed { new } else { Vec::new() })
}

/// Counts the planned servers that `--yes` does not import; see [`skip_project_files`].
fn skipped_by_yes(planned: &[Planned<'_>], args: &ImportArgs, context: &Context) -> usize {
    if !args.yes || context.trusts_project() || args.file.is_some() {
        return 0;
    }
    let new = planned
        .iter()
        .filter(|planned| matches!(planned.action, ImportAction::Add { .. }));
    new.filter(|planned| is_from_project(planned)).count()
}

/// Drops the servers for which `is_from_project` returns true, and prints how to import them. Drops
/// nothing with `--trust-project` or with `--file`, which counts as trust in the named file.
fn skip_project_files<'a, 'p>(
    new: Vec<&'a Planned<'p>>,
    args: &ImportArgs,
    context: &Context,
) -> Vec<&'a Planned<'p>> {
    if context.trusts_project() || args.file.is_some() {
        return new;
    }
    let skipped = count_from_project(&new);
    if skipped > 0 {
        context.console.note(&format!(
            "skipped {} from project files\nto import them too: {}",
            format_count(skipped, "server"),
            rerun_command(args, "--trust-project --yes")
        ));
    }
    new.into_iter()
        .filter(|planned| !is_from_project(planned))
        .collect()
}

/// Prints the command lines that import the servers without a question.
fn print_rerun_commands(new: &[&Planned<'_>], args: &ImportArgs, console: &Console) {
    let from_project = count_from_project(new);
    let needs_trust = from_project > 0 && args.file.is_none();
    if !needs_trust || from_project < new.len() {
        console.note(&format!("to import: {}", rerun_command(args, "--yes")));
    }
    if needs_trust {
        let too = if from_project < new.len() { " too" } else { "" };
        console.note(&format!(
            "to import from project files{too}: {}",
            rerun_command(args, "--trust-project --yes")
        ));
    }
}

/// Asks on the terminal whether to import the servers.
async fn ask(
    new: &[&Planned<'_>],
    console: &Console,
    signals: &mut Signals,
) -> Result<bool, Failure> {
    let warning = match count_from_project(new) {
        0 => String::new(),
        number => format!(
            "{} from project files will run without further approval.\n",
            format_count(number, "server")
        ),
    };
    let question = format!(
        "{warning}Import {}? {} ",
        format_count(new.len(), "server"),
        console.stderr_style.paint(Paint::Dim, "[y/N]")
    );
    let answer = async {
        // Reads the answer on a blocking thread. The thread is abandoned when a signal arrives.
        let answer = tokio::task::spawn_blocking(move || prompt_line(&question)).await;
        Ok(answer.ok().and_then(Result::ok).unwrap_or_default())
    };
    let answer = signals.until_signal(answer).await?;
    let answer = answer.trim().to_ascii_lowercase();
    Ok(matches!(answer.as_str(), "y" | "yes"))
}

fn count_from_project(new: &[&Planned<'_>]) -> usize {
    new.iter()
        .filter(|planned| is_from_project(planned))
        .count()
}

/// Returns warnings about entries for the project scope, such as a secret that others could read.
fn project_scope_warnings(planned: &Planned<'_>) -> Vec<EntryError> {
    let server = planned.server;
    let is_shared = server.scope == Scope::Project;
    if !is_shared || !matches!(planned.action, ImportAction::Add { .. }) {
        return Vec::new();
    }
    // Unset variables cause no warning: the plan lists them, and they may be set when the server
    // starts.
    let unset = |_: &str| Some(UNSET_PLACEHOLDER.to_owned());
    let entry = Value::Object(server.entry().clone());
    check_server(&server.name, &entry, server.scope, &unset).warnings
}

/// Whether the server comes from a project file and would be written to a scope that needs no
/// approval.
fn is_from_project(planned: &Planned<'_>) -> bool {
    planned.owner == FileOwner::Project && planned.server.scope != Scope::Project
}

/// Builds a command line that repeats this import with `flags` added.
fn rerun_command(args: &ImportArgs, flags: &str) -> String {
    let mut words = vec!["switchboard import".to_owned()];
    words.extend(args.client.map(|client| client.as_str().to_owned()));
    if let Some(scope) = args.scope {
        words.push(format!("-s {}", Scope::from(scope)));
    }
    if let Some(file) = &args.file {
        words.push(format!(
            "--file {}",
            quote_for_shell(&file.to_string_lossy())
        ));
    }
    words.push(flags.to_owned());
    words.join(" ")
}

/// Writes the servers, with one edit per scope file.
fn write_entries(
    confirmed: &[&Planned<'_>],
    context: &Context,
) -> Result<Vec<ImportedServer>, Failure> {
    let mut added = Vec::new();
    for scope in [Scope::User, Scope::Local, Scope::Project] {
        let of_scope = (confirmed.iter()).filter(|planned| planned.server.scope == scope);
        let of_scope: Vec<_> = of_scope.collect();
        if of_scope.is_empty() {
            continue;
        }
        let mut file = scope_files::open(scope, &scope_files::entry_file(scope, context)?)?;
        let entries = of_scope.iter().map(|planned| {
            let entry = Value::Object(planned.server.entry().clone());
            (planned.server.name.to_string(), entry)
        });
        // Skips a name that exists by now: another process may have added it after the plan was
        // made.
        let written = file.insert_missing(&["mcpServers"], &entries.collect())?;
        let target: PathBuf = Path::to_owned(file.path());
        file.save()?;
        added.extend(written.into_iter().map(|name| ImportedServer {
            name,
            scope,
            file: target.clone(),
        }));
    }
    Ok(added)
}
