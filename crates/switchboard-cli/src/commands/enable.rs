//! `enable NAME` and `disable NAME`: edit `disabledServers` in the user's local settings for this
//! project.

use std::path::{Path, PathBuf};

use serde::Serialize;
use serde_json::{Value, json};
use switchboard_config::{DisabledServer, JsonEditor, Scope};

use super::find::server_named;
use crate::args::GetArgs;
use crate::context::{Context, LoadedServers};
use crate::failure::{Exit, Failure, Kind};
use crate::render::json;
use crate::render::text::{self, quote_for_shell};

const DISABLED_SERVERS: &[&str] = &["disabledServers"];

/// Output of `enable --json` and `disable --json`.
#[derive(Serialize)]
struct ToggledJson<'a> {
    server: &'a str,
    enabled: bool,
    /// `false` if the server was already in the requested state.
    changed: bool,
    /// The local settings file, which the command edits.
    file: PathBuf,
}

pub(crate) fn disable(args: &GetArgs, context: &Context) -> Result<Exit, Failure> {
    let servers = context.load_servers()?;
    let name = args.name.as_str();
    if !is_disabled_locally(&servers, name, &local_settings(context)?) {
        server_named(&servers, name)?;
    }
    let mut file = JsonEditor::open(&local_settings(context)?)?;
    let is_new = !disabled_names(&file).contains(&json!(name));
    if is_new {
        file.append(DISABLED_SERVERS, &json!(name))?;
    }
    let path = file.path().to_owned();
    file.save()?;
    let toggled = ToggledJson {
        server: name,
        enabled: false,
        changed: is_new,
        file: path,
    };
    report(&toggled, context)
}

pub(crate) fn enable(args: &GetArgs, context: &Context) -> Result<Exit, Failure> {
    let servers = context.load_servers()?;
    let name = args.name.as_str();
    let is_disabled = is_disabled_locally(&servers, name, &local_settings(context)?);
    if !is_disabled {
        server_named(&servers, name)?;
    }
    let mut file = JsonEditor::open(&local_settings(context)?)?;
    if is_disabled {
        let mut names = disabled_names(&file);
        names.retain(|other| *other != json!(name));
        if names.is_empty() {
            file.remove(DISABLED_SERVERS)?;
        } else {
            file.set(DISABLED_SERVERS, &Value::Array(names))?;
        }
    }
    let path = file.path().to_owned();
    file.save()?;
    if let Some(failure) = still_disabled_error(&servers, name, &local_settings(context)?) {
        return Err(failure);
    }
    let toggled = ToggledJson {
        server: name,
        enabled: true,
        changed: is_disabled,
        file: path,
    };
    report(&toggled, context)
}

fn disabled_names(file: &JsonEditor) -> Vec<Value> {
    match file.value(DISABLED_SERVERS) {
        Some(Value::Array(names)) => names,
        _ => Vec::new(),
    }
}

fn local_settings(context: &Context) -> Result<PathBuf, Failure> {
    let file = context.scope_paths().settings_file(Scope::Local);
    file.ok_or_else(|| Failure::internal("the local scope has no settings file"))
}

fn is_disabled_locally(servers: &LoadedServers, name: &str, local_settings: &Path) -> bool {
    let mut disabled = servers.settings.disabled.iter();
    disabled.any(|server| is_in_file(server, local_settings) && server.name == name)
}

/// Whether the server is disabled in this local settings file. Comparing the scope is not enough:
/// the local settings of an enclosing project have the same scope.
fn is_in_file(server: &DisabledServer, file: &Path) -> bool {
    server.scope == Scope::Local && server.origin.file.as_deref() == Some(file)
}

/// Returns an error if the server is also disabled by its entry or by settings that `enable` does
/// not edit.
fn still_disabled_error(
    servers: &LoadedServers,
    name: &str,
    local_settings: &Path,
) -> Option<Failure> {
    let mut disabled = servers.settings.disabled.iter();
    let other_setting =
        disabled.find(|server| !is_in_file(server, local_settings) && server.name == name);
    let entry = servers.loaded.config.server(name);
    let (by, origin) = if let Some(server) = other_setting {
        let by = format!("the {} settings", server.scope);
        (by, server.origin.clone())
    } else {
        let entry = entry.filter(|entry| entry.is_disabled_in_entry())?;
        ("its config entry".to_owned(), entry.origin().clone())
    };
    let message = format!("server {name} is still disabled by {by} ({origin})");
    Some(Failure::new(Kind::Unavailable, message).hint(format!("edit {origin}")))
}

fn report(toggled: &ToggledJson<'_>, context: &Context) -> Result<Exit, Failure> {
    let console = &context.console;
    if console.is_json() {
        console.print(&json::pretty(toggled))?;
        return Ok(Exit::Ok);
    }
    let ToggledJson {
        server,
        enabled,
        changed,
        file,
    } = toggled;
    if !changed {
        let state = if *enabled { "enabled" } else { "disabled" };
        console.print(&format!("{server} is already {state}"))?;
        return Ok(Exit::Ok);
    }
    let verb = if *enabled { "Enabled" } else { "Disabled" };
    console.print(&format!(
        "{verb} {server} in this project ({})",
        text::path_on_one_line(file)
    ))?;
    let opposite = if *enabled { "disable" } else { "enable" };
    console.note(&format!(
        "to undo: switchboard {opposite} {}",
        quote_for_shell(server)
    ));
    Ok(Exit::Ok)
}
