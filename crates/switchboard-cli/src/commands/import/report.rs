//! What `import` shows: each file, each server in it, and what is to be done with it.

mod full_entry;

use serde::Serialize;
use serde_json::{Value, json};
use switchboard::content::for_terminal;
use switchboard_config::import::{Authorship, ForeignFile, Imported, Planned, Verdict};
use switchboard_config::{Scope, WrittenEntry};

use super::Added;
use crate::commands::get::members;
use crate::commands::scope_files::file_and_line;
use crate::render::style::Paint;
use crate::render::table::{Cell, Overflow, Table};
use crate::render::text::{self, block};
use crate::render::{Console, count};

/// How far what is said of a server stands in.
const INDENT: usize = 6;

const NOTHING: &str = "\
No servers of other programs were found.
Looked for Claude Code, Claude Desktop, Cursor, VS Code, Windsurf, Codex, Gemini CLI, Zed and opencode,
in your home folder and in this project. To read another file: switchboard import CLIENT --file FILE";

pub(super) fn render(imported: &Imported, planned: &[Planned<'_>], console: &Console) -> String {
    let mut table = Table::new(2, Overflow::Wrap);
    let mut is_empty = true;
    for file in &imported.files {
        let servers: Vec<_> = of_file(file, planned).collect();
        if servers.is_empty() && file.notes.is_empty() {
            continue;
        }
        let gap = if is_empty { "" } else { "\n" };
        is_empty = false;
        table.text(format!("{gap}{}", heading(file, console)));
        for server in servers {
            table.row(row(server));
            table.text(details(server, console));
        }
        for note in &file.notes {
            table.text(block(note, 2, console.prose_columns()));
        }
    }
    if is_empty {
        return NOTHING.to_owned();
    }
    let new = planned
        .iter()
        .filter(|planned| matches!(planned.verdict, Verdict::Add { .. }));
    let rows = table.render(console.columns, console.style);
    match new.count() {
        0 => format!("{rows}\nThere is nothing to add."),
        number => format!("{rows}\n{} to add.", count(number, "server")),
    }
}

fn of_file<'a, 'p>(
    file: &'a ForeignFile,
    planned: &'a [Planned<'p>],
) -> impl Iterator<Item = &'a Planned<'p>> {
    planned
        .iter()
        .filter(|planned| planned.client == file.client && planned.file == file.path)
}

fn heading(file: &ForeignFile, console: &Console) -> String {
    let title = console.style.paint(Paint::Bold, file.client.title());
    let path = file.path.to_string_lossy();
    let path = console.style.paint(Paint::Dim, &for_terminal(&path));
    let whose = match file.authorship {
        Authorship::Project => console
            .style
            .paint(Paint::Yellow, "  (comes with this project)"),
        Authorship::User => String::new(),
    };
    format!("{title}  {path}{whose}")
}

fn row(server: &Planned<'_>) -> Vec<Cell> {
    let (word, paint) = match &server.verdict {
        Verdict::Add { .. } => ("+ add", Paint::Green),
        Verdict::Same { .. } | Verdict::Taken { is_same: true, .. } => ("= same", Paint::Dim),
        Verdict::Unusable(_) => ("✘ unusable", Paint::Red),
        _ => ("! differs", Paint::Yellow),
    };
    vec![
        Cell::new(format!("  {word}")).paint(paint),
        Cell::new(server.found.name.as_str()).paint(Paint::Bold),
        Cell::new(what_it_is(server)),
    ]
}

fn what_it_is(server: &Planned<'_>) -> String {
    match &server.verdict {
        Verdict::Same { origin, .. } => format!("is there: {}", file_and_line(origin)),
        Verdict::Taken { by, is_same: true } => format!("comes from {by} already"),
        Verdict::Taken { by, .. } => {
            format!("{by} has another one of that name, which comes first")
        }
        Verdict::Conflict { origin } => {
            format!(
                "another one of that name is there: {}",
                file_and_line(origin)
            )
        }
        Verdict::Unusable(problem) => problem.message.clone(),
        // It stands below, where nothing of it is cut or wrapped.
        _ if server.authorship == Authorship::Project => String::new(),
        _ => {
            let shown = server.found.shown();
            for_terminal(&what_it_runs(&shown)).into_owned()
        }
    }
}

fn what_it_runs(shown: &WrittenEntry) -> String {
    let url = shown.as_object().get("url").and_then(Value::as_str);
    url.map_or_else(|| text::command_line(shown), str::to_owned)
}

/// What stands below a row.
fn details(server: &Planned<'_>, console: &Console) -> String {
    let mut whole = Vec::new();
    let mut lines = Vec::new();
    match &server.verdict {
        Verdict::Add { beside } => {
            if server.authorship == Authorship::Project {
                whole = full_entry::everything(server.found.entry());
            } else {
                lines = masked(&server.found.shown());
            }
            let is_off = server.found.entry().get("disabled") == Some(&Value::Bool(true));
            let off = if is_off { ", switched off" } else { "" };
            lines.push(format!("into the {} scope{off}", server.found.scope));
            if let Some((scope, origin)) = beside {
                lines.push(shadow(server.found.scope, *scope, &file_and_line(origin)));
            }
        }
        Verdict::Unusable(problem) => lines.extend(problem.hint.clone()),
        Verdict::Conflict { .. } => {
            let name = text::shell_word(server.found.name.as_str());
            let scope = server.found.scope;
            lines.push(format!(
                "to replace it, first: switchboard remove {name} -s {scope}"
            ));
        }
        _ => {}
    }
    if matches!(server.verdict, Verdict::Add { .. } | Verdict::Unusable(_)) {
        lines.extend(
            server
                .found
                .notes
                .iter()
                .map(|note| format!("note: {note}")),
        );
    }
    let whole = whole.iter().map(|line| format!("{:INDENT$}{line}", ""));
    let lines = lines
        .iter()
        .map(|line| block(line, INDENT, console.prose_columns()));
    let lines = lines.map(|line| console.style.paint(Paint::Dim, &line));
    whole.chain(lines).collect::<Vec<_>>().join("\n")
}

/// What an entry of the user's own says besides what it runs, without the secrets in it.
fn masked(shown: &WrittenEntry) -> Vec<String> {
    let mut lines = Vec::new();
    for key in ["env", "headers"] {
        let members = members(shown, key).replace('\n', ", ");
        if !members.is_empty() {
            lines.push(format!("{key}: {members}"));
        }
    }
    let text = |key: &str| shown.as_object().get(key).and_then(Value::as_str);
    lines.extend(text("headersHelper").map(|helper| format!("headers come from: {helper}")));
    lines.extend(text("cwd").map(|folder| format!("runs in {folder}")));
    lines
}

/// Two scopes will have a server of the name: which one is used?
fn shadow(ours: Scope, other: Scope, place: &str) -> String {
    if other < ours {
        format!("the {other} scope has another one of that name, which is used instead: {place}")
    } else {
        format!("it is used instead of the one in the {other} scope: {place}")
    }
}

pub(super) fn outcome(added: &[Added], console: &Console) -> String {
    let mut lines = Vec::new();
    for scope in [Scope::User, Scope::Local, Scope::Project] {
        let of_scope: Vec<_> = added.iter().filter(|added| added.scope == scope).collect();
        let Some(first) = of_scope.first() else {
            continue;
        };
        let names: Vec<_> = of_scope.iter().map(|added| added.name.as_str()).collect();
        let names = console.style.paint(Paint::Bold, &names.join(", "));
        lines.push(format!(
            "Added {names} to the {scope} scope: {}",
            text::path(&first.file)
        ));
    }
    // What stands in the project's file is approved like everything else there.
    let next = if added.iter().any(|added| added.scope == Scope::Project) {
        "switchboard trust"
    } else {
        "switchboard list"
    };
    let next = console.style.paint(Paint::Cyan, next);
    lines.push(format!("Next: {next}"));
    lines.join("\n")
}

#[derive(Serialize)]
struct Server<'a> {
    name: &'a str,
    action: &'static str,
    scope: Scope,
    origin: &'a switchboard_config::Origin,
    config: Value,
    notes: &'a [String],
    #[serde(skip_serializing_if = "Value::is_null")]
    existing: Value,
    #[serde(skip_serializing_if = "Option::is_none")]
    problem: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    hint: Option<&'a str>,
}

pub(super) fn as_data(imported: &Imported, planned: &[Planned<'_>], added: &[Added]) -> String {
    let files = imported.files.iter().map(|file| {
        json!({
            "client": file.client,
            "path": file.path.to_string_lossy(),
            "authorship": file.authorship,
            "servers": of_file(file, planned).map(server).collect::<Vec<_>>(),
            "notes": file.notes,
        })
    });
    let added = added.iter().map(|added| {
        json!({"name": added.name, "scope": added.scope, "file": added.file.to_string_lossy()})
    });
    crate::render::json::pretty(&json!({
        "files": files.collect::<Vec<_>>(),
        "added": added.collect::<Vec<_>>(),
        "diagnostics": imported.diagnostics,
    }))
}

fn server<'a>(planned: &'a Planned<'_>) -> Server<'a> {
    let (action, existing) = match &planned.verdict {
        Verdict::Add { beside } => (
            "add",
            beside
                .as_ref()
                .map(|(scope, origin)| json!({"scope": scope, "origin": origin})),
        ),
        Verdict::Same { scope, origin } => {
            ("same", Some(json!({"scope": scope, "origin": origin})))
        }
        Verdict::Conflict { origin } => (
            "differs",
            Some(json!({"scope": planned.found.scope, "origin": origin})),
        ),
        Verdict::Taken { by, is_same } => (
            if *is_same { "same" } else { "differs" },
            Some(json!({"client": by})),
        ),
        _ => ("unusable", None),
    };
    let problem = planned.found.problem.as_ref();
    Server {
        name: planned.found.name.as_str(),
        action,
        scope: planned.found.scope,
        origin: &planned.found.origin,
        config: config(planned),
        notes: &planned.found.notes,
        existing: existing.unwrap_or_default(),
        problem: problem.map(|problem| problem.message.as_str()),
        hint: problem.and_then(|problem| problem.hint.as_deref()),
    }
}

/// The entry as data. What the project's authors wrote is shown as it is: it is what would run.
fn config(planned: &Planned<'_>) -> Value {
    let mut shown = planned.found.shown().as_object().clone();
    if planned.authorship == Authorship::Project {
        shown.extend(planned.found.entry().clone());
    }
    Value::Object(shown)
}
