//! Prints the plan of `import`: each file, its servers, and the action for each.

mod full_entry;

use serde::Serialize;
use serde_json::{Value, json};
use switchboard::content::for_terminal;
use switchboard_config::import::{FileOwner, ForeignFile, ImportAction, Imported, Planned};
use switchboard_config::{MaskedEntry, Scope};

use super::ImportedServer;
use crate::commands::get::env_or_header_lines;
use crate::commands::scope_files::file_and_line;
use crate::render::style::Paint;
use crate::render::table::{Cell, Overflow, Table};
use crate::render::text::{self, wrap_and_indent};
use crate::render::{Console, format_count};

/// Indent of the lines below a server's row.
const INDENT: usize = 6;

const NOTHING: &str = "\
No servers found in other MCP clients.
Searched your home directory and this project for configs of Claude Code, Claude Desktop, Cursor,
VS Code, Windsurf, Codex, Gemini CLI, Zed and opencode.
To read another file: switchboard import CLIENT --file FILE";

/// `skipped` is the number of planned servers that are not imported in this run.
pub(super) fn render(
    imported: &Imported,
    planned: &[Planned<'_>],
    skipped: usize,
    console: &Console,
) -> String {
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
            table.text(wrap_and_indent(note, 2, console.prose_columns()));
        }
    }
    if is_empty {
        return NOTHING.to_owned();
    }
    let new = planned
        .iter()
        .filter(|planned| matches!(planned.action, ImportAction::Add { .. }));
    let rows = table.render(console.columns, console.style);
    match (new.count() - skipped, skipped) {
        (0, 0) => format!("{rows}\nNothing to import."),
        (number, 0) => format!("{rows}\n{} to import.", format_count(number, "server")),
        (number, skipped) => format!(
            "{rows}\n{} to import, {skipped} from project files skipped.",
            format_count(number, "server")
        ),
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
    let mark = match file.owner {
        FileOwner::Project => console.style.paint(Paint::Yellow, "  (project file)"),
        FileOwner::User => String::new(),
    };
    format!("{title}  {path}{mark}")
}

fn row(server: &Planned<'_>) -> Vec<Cell> {
    let (word, paint) = match &server.action {
        ImportAction::Add { .. } => ("+ add", Paint::Green),
        ImportAction::Same { .. } | ImportAction::NameTaken { is_same: true, .. } => {
            ("= same", Paint::Dim)
        }
        ImportAction::Unusable(_) => ("✗ unusable", Paint::Red),
        _ => ("! differs", Paint::Yellow),
    };
    vec![
        Cell::new(format!("  {word}")).paint(paint),
        Cell::new(server.server.name.as_str()).paint(Paint::Bold),
        Cell::new(row_text(server)),
    ]
}

fn row_text(server: &Planned<'_>) -> String {
    match &server.action {
        ImportAction::Same { origin, .. } => {
            format!("already configured: {}", file_and_line(origin))
        }
        ImportAction::NameTaken { by, is_same: true } => format!("already imported from {by}"),
        ImportAction::NameTaken { by, .. } => {
            format!("name already taken by the server imported from {by}")
        }
        ImportAction::Conflict { origin } => {
            let place = file_and_line(origin);
            format!("a different server with this name exists: {place}")
        }
        ImportAction::Unusable(problem) => problem.message.clone(),
        // The column stays empty: `details` prints the whole entry of a project file, untruncated.
        _ if server.owner == FileOwner::Project => String::new(),
        _ => {
            let shown = server.server.masked_entry();
            for_terminal(&command_or_url(&shown)).into_owned()
        }
    }
}

fn command_or_url(shown: &MaskedEntry) -> String {
    let url = shown.as_object().get("url").and_then(Value::as_str);
    url.map_or_else(|| text::format_command_line(shown), str::to_owned)
}

/// Renders the lines below a server's row: entry, scope, hints and notes.
fn details(server: &Planned<'_>, console: &Console) -> String {
    let mut full_entry = Vec::new();
    let mut lines = Vec::new();
    match &server.action {
        ImportAction::Add { same_name_in } => {
            if server.owner == FileOwner::Project {
                full_entry = full_entry::render(server.server.entry());
            } else {
                lines = masked_lines(&server.server.masked_entry());
            }
            let is_disabled = server.server.entry().get("disabled") == Some(&Value::Bool(true));
            let disabled = if is_disabled { ", disabled" } else { "" };
            lines.push(format!("→ {} scope{disabled}", server.server.scope));
            if let Some((scope, origin)) = same_name_in {
                let place = file_and_line(origin);
                lines.push(precedence_note(server.server.scope, *scope, &place));
            }
        }
        ImportAction::Unusable(problem) => lines.extend(problem.hint.clone()),
        ImportAction::Conflict { .. } => {
            let name = text::quote_for_shell(server.server.name.as_str());
            let scope = server.server.scope;
            lines.push(format!(
                "to replace it: switchboard remove {name} -s {scope}, then import again"
            ));
        }
        _ => {}
    }
    if matches!(
        server.action,
        ImportAction::Add { .. } | ImportAction::Unusable(_)
    ) {
        lines.extend(
            server
                .server
                .notes
                .iter()
                .map(|note| format!("note: {note}")),
        );
    }
    let full_entry = full_entry.iter();
    let full_entry = full_entry.map(|line| format!("{:INDENT$}{line}", ""));
    let lines = lines
        .iter()
        .map(|line| wrap_and_indent(line, INDENT, console.prose_columns()));
    let lines = lines.map(|line| console.style.paint(Paint::Dim, &line));
    full_entry.chain(lines).collect::<Vec<_>>().join("\n")
}

/// Renders `env`, `headers`, `headersHelper` and `cwd` of a masked entry.
fn masked_lines(shown: &MaskedEntry) -> Vec<String> {
    let mut lines = Vec::new();
    for key in ["env", "headers"] {
        let members = env_or_header_lines(shown, key).replace('\n', ", ");
        if !members.is_empty() {
            lines.push(format!("{key}: {members}"));
        }
    }
    let text = |key: &str| shown.as_object().get(key).and_then(Value::as_str);
    for key in ["headersHelper", "cwd"] {
        lines.extend(text(key).map(|value| format!("{key}: {value}")));
    }
    lines
}

/// Explains whether the imported entry or the one in the other scope takes effect, if both have the
/// same name.
fn precedence_note(imported: Scope, other: Scope, place: &str) -> String {
    if other < imported {
        format!("overridden by the {other} scope: {place}")
    } else {
        format!("overrides the {other} scope: {place}")
    }
}

pub(super) fn outcome(added: &[ImportedServer], console: &Console) -> String {
    let mut lines = Vec::new();
    for scope in [Scope::User, Scope::Local, Scope::Project] {
        let of_scope: Vec<_> = added.iter().filter(|added| added.scope == scope).collect();
        let Some(first) = of_scope.first() else {
            continue;
        };
        let names: Vec<_> = of_scope.iter().map(|added| added.name.as_str()).collect();
        let names = console.style.paint(Paint::Bold, &names.join(", "));
        lines.push(format!(
            "Imported {names} to the {scope} scope: {}",
            text::path_on_one_line(&first.file)
        ));
    }
    // Entries in the project's file need approval even if they were imported.
    let next = if added.iter().any(|added| added.scope == Scope::Project) {
        "switchboard trust"
    } else {
        "switchboard list"
    };
    let next = console.style.paint(Paint::Cyan, next);
    lines.push(format!("Next: {next}"));
    lines.join("\n")
}

/// One server in the output of `import --json`.
#[derive(Serialize)]
struct PlannedServerJson<'a> {
    name: &'a str,
    action: &'static str,
    scope: Scope,
    origin: &'a switchboard_config::SourcePos,
    config: Value,
    notes: &'a [String],
    #[serde(skip_serializing_if = "Value::is_null")]
    existing: Value,
    #[serde(skip_serializing_if = "Option::is_none")]
    problem: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    hint: Option<&'a str>,
}

pub(super) fn render_json(
    imported: &Imported,
    planned: &[Planned<'_>],
    added: &[ImportedServer],
) -> String {
    let files = imported.files.iter().map(|file| {
        json!({
            "client": file.client,
            "path": file.path.to_string_lossy(),
            "authorship": file.owner,
            "servers": of_file(file, planned).map(server_json).collect::<Vec<_>>(),
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

fn server_json<'a>(planned: &'a Planned<'_>) -> PlannedServerJson<'a> {
    let (action, existing) = match &planned.action {
        ImportAction::Add { same_name_in } => (
            "add",
            same_name_in
                .as_ref()
                .map(|(scope, origin)| json!({"scope": scope, "origin": origin})),
        ),
        ImportAction::Same { scope, origin } => {
            ("same", Some(json!({"scope": scope, "origin": origin})))
        }
        ImportAction::Conflict { origin } => (
            "differs",
            Some(json!({"scope": planned.server.scope, "origin": origin})),
        ),
        ImportAction::NameTaken { by, is_same } => (
            if *is_same { "same" } else { "differs" },
            Some(json!({"client": by})),
        ),
        _ => ("unusable", None),
    };
    let problem = planned.server.problem.as_ref();
    PlannedServerJson {
        name: planned.server.name.as_str(),
        action,
        scope: planned.server.scope,
        origin: &planned.server.origin,
        config: config(planned),
        notes: &planned.server.notes,
        existing: existing.unwrap_or_default(),
        problem: problem.map(|problem| problem.message.as_str()),
        hint: problem.and_then(|problem| problem.hint.as_deref()),
    }
}

/// Returns the entry with masked secrets. An entry from a project file is not masked: the user has
/// to see exactly what would run.
fn config(planned: &Planned<'_>) -> Value {
    let mut shown = planned.server.masked_entry().as_object().clone();
    if planned.owner == FileOwner::Project {
        shown.extend(planned.server.entry().clone());
    }
    Value::Object(shown)
}
