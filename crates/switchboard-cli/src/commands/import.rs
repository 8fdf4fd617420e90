//! `import`: servers of other programs into our own files.
//!
//! Everything that was found is shown before anything is written. Invariant: nothing that is there is
//! ever replaced, and what came with a project is taken only if somebody said so who could see it.

mod report;

use std::path::{Path, PathBuf};

use serde_json::Value;
use switchboard_config::import::{
    Authorship, Client, Existing, Imported, Planned, Verdict, import, import_file, plan,
};
use switchboard_config::{EntryProblem, Scope, check_server};

use super::scope_files;
use crate::args::ImportArgs;
use crate::context::Context;
use crate::failure::{Exit, Failure, Kind};
use crate::permission_prompt::prompt_line;
use crate::render::count;
use crate::render::style::Paint;
use crate::render::text::shell_word;
use crate::signals::Signals;

/// One server that was written down here.
struct Added {
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
    let imported = read(args, context)?;
    console.diagnose(&imported.diagnostics);
    let existing = Existing::read(&context.places().sources());
    let planned = plan(&imported, &existing);
    if !console.is_json() {
        console.print(&report::render(&imported, &planned, console))?;
    }
    for planned in &planned {
        for problem in warnings(planned) {
            let message = format!("{}: {}", planned.found.name, problem.message);
            console.warn(&message, problem.hint.as_deref());
        }
    }
    let wanted = decide(&planned, args, context, signals).await?;
    let added = write(&wanted, context)?;
    if console.is_json() {
        console.print(&report::as_data(&imported, &planned, &added))?;
    } else if !added.is_empty() {
        console.print(&report::outcome(&added, console))?;
    }
    Ok(Exit::Ok)
}

fn read(args: &ImportArgs, context: &Context) -> Result<Imported, Failure> {
    let scope = args.scope.map(Scope::from);
    let Some(file) = &args.file else {
        let clients = args.client.map_or(Client::ALL.to_vec(), |one| vec![one]);
        return Ok(context.with_import_context(scope, |whereabouts| import(&clients, whereabouts)));
    };
    let file = context.absolute(file);
    let client = args.client.or_else(|| Client::of_file(&file));
    let client = client.ok_or_else(|| {
        let message = format!("{} may be a file of any program", file.display());
        let names = Client::ALL.map(Client::as_str).join(", ");
        Failure::usage(message).hint(format!("say whose it is, one of {names}"))
    })?;
    let read =
        context.with_import_context(scope, |whereabouts| import_file(client, &file, whereabouts));
    let imported = read.ok_or_else(|| {
        let message = format!("there is no file {}", file.display());
        Failure::new(Kind::Config, message).hint("give the path of a file")
    })?;
    if imported.diagnostics.is_empty() {
        return Ok(imported);
    }
    context.console.diagnose(&imported.diagnostics);
    let message = format!("{} cannot be used", file.display());
    Err(Failure::new(Kind::Config, message).diagnostics(imported.diagnostics))
}

/// The servers that are to be written down, once somebody said so.
async fn decide<'a, 'p>(
    planned: &'a [Planned<'p>],
    args: &ImportArgs,
    context: &Context,
    signals: &mut Signals,
) -> Result<Vec<&'a Planned<'p>>, Failure> {
    let console = &context.console;
    let new: Vec<_> = planned
        .iter()
        .filter(|planned| matches!(planned.verdict, Verdict::Add { .. }))
        .collect();
    let with_project = new.iter().filter(|planned| needs_trust(planned)).count();
    // Whoever names a file has seen it.
    let trusts = context.trusts_project() || args.file.is_some();
    if new.is_empty() {
        return Ok(Vec::new());
    }
    if args.yes {
        if with_project > 0 && !trusts {
            console.note(&format!(
                "{} with this project and {} not added\nto add what comes with it too: {}",
                comes(with_project),
                if with_project == 1 { "was" } else { "were" },
                again(args, "--trust-project --yes")
            ));
        }
        let is_wanted = |planned: &&Planned<'_>| trusts || !needs_trust(planned);
        return Ok(new.into_iter().filter(is_wanted).collect());
    }
    if console.is_json() || !console.can_ask {
        let needs_more = with_project > 0 && args.file.is_none();
        if !needs_more || with_project < new.len() {
            console.note(&format!("to add what is new: {}", again(args, "--yes")));
        }
        if needs_more {
            let too = if with_project < new.len() { " too" } else { "" };
            console.note(&format!(
                "to add what comes with this project{too}: {}",
                again(args, "--trust-project --yes")
            ));
        }
        return Ok(Vec::new());
    }
    let warning = match with_project {
        0 => String::new(),
        number => format!(
            "{} with this project and will run without further questions.\n",
            comes(number)
        ),
    };
    let question = format!(
        "{warning}Add {}? {} ",
        count(new.len(), "server"),
        console.stderr_style.paint(Paint::Dim, "[y/N]")
    );
    let answer = async {
        // Reading a line blocks; a thread may, and is left behind if somebody interrupts.
        let answer = tokio::task::spawn_blocking(move || prompt_line(&question)).await;
        Ok(answer.ok().and_then(Result::ok).unwrap_or_default())
    };
    let answer = signals.until_signal(answer).await?;
    let is_yes = matches!(answer.trim().to_ascii_lowercase().as_str(), "y" | "yes");
    Ok(if is_yes { new } else { Vec::new() })
}

fn comes(number: usize) -> String {
    let verb = if number == 1 { "comes" } else { "come" };
    format!("{} {verb}", count(number, "server"))
}

/// What looks wrong with an entry that others are going to read, such as a secret in it.
fn warnings(planned: &Planned<'_>) -> Vec<EntryProblem> {
    let found = planned.found;
    let is_shared = found.scope == Scope::Project;
    if !is_shared || !matches!(planned.verdict, Verdict::Add { .. }) {
        return Vec::new();
    }
    // A variable that is not set here may be set where the server is used; the notes name it.
    let unset = |_: &str| Some("https://unset".to_owned());
    let entry = Value::Object(found.entry().clone());
    check_server(&found.name, &entry, found.scope, &unset).warnings
}

/// Whether it would run although only the project's authors have said what it is.
fn needs_trust(planned: &Planned<'_>) -> bool {
    planned.authorship == Authorship::Project && planned.found.scope != Scope::Project
}

/// What to type to be taken at one's word.
fn again(args: &ImportArgs, flags: &str) -> String {
    let mut words = vec!["switchboard import".to_owned()];
    words.extend(args.client.map(|client| client.as_str().to_owned()));
    if let Some(scope) = args.scope {
        words.push(format!("-s {}", Scope::from(scope)));
    }
    if let Some(file) = &args.file {
        words.push(format!("--file {}", shell_word(&file.to_string_lossy())));
    }
    words.push(flags.to_owned());
    words.join(" ")
}

/// Writes all entries of a scope in one go.
fn write(wanted: &[&Planned<'_>], context: &Context) -> Result<Vec<Added>, Failure> {
    let mut added = Vec::new();
    for scope in [Scope::User, Scope::Local, Scope::Project] {
        let of_scope = wanted.iter().filter(|planned| planned.found.scope == scope);
        let of_scope: Vec<_> = of_scope.collect();
        if of_scope.is_empty() {
            continue;
        }
        let mut file = scope_files::open(scope, &scope_files::entry_file(scope, context)?)?;
        let mut written = Vec::new();
        for planned in of_scope {
            let path = ["mcpServers", planned.found.name.as_str()];
            // Somebody else may have added it since it was looked for.
            if file.value(&path).is_none() {
                file.set(&path, &Value::Object(planned.found.entry().clone()))?;
                written.push(planned.found.name.to_string());
            }
        }
        let target: PathBuf = Path::to_owned(file.path());
        file.save()?;
        added.extend(written.into_iter().map(|name| Added {
            name,
            scope,
            file: target.clone(),
        }));
    }
    Ok(added)
}
