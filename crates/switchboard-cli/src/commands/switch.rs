//! `enable NAME` and `disable NAME`: servers switched on and off for this project, in the user's own
//! settings.

use std::path::{Path, PathBuf};

use serde::Serialize;
use serde_json::{Value, json};
use switchboard_config::{DisabledServer, EditedFile, Scope};

use super::server_named;
use crate::args::GetArgs;
use crate::context::{Context, LoadedServers};
use crate::failure::{Exit, Failure, Kind};
use crate::render::json;
use crate::render::text::{self, shell_word};

const KEY: &[&str] = &["disabledServers"];

/// What was done.
#[derive(Serialize)]
struct Switched<'a> {
    server: &'a str,
    enabled: bool,
    /// Whether anything had to be done.
    changed: bool,
    /// The settings in which it stands.
    file: PathBuf,
}

pub(crate) fn disable(args: &GetArgs, context: &Context) -> Result<Exit, Failure> {
    let servers = context.load_servers()?;
    let name = args.name.as_str();
    if !is_switched_off_here(&servers, name, &local_settings(context)?) {
        server_named(&servers, name)?;
    }
    let mut file = EditedFile::open(&local_settings(context)?)?;
    let is_new = !names(&file).contains(&json!(name));
    if is_new {
        file.append(KEY, &json!(name))?;
    }
    let path = file.path().to_owned();
    file.save()?;
    let switched = Switched {
        server: name,
        enabled: false,
        changed: is_new,
        file: path,
    };
    tell(&switched, context)
}

pub(crate) fn enable(args: &GetArgs, context: &Context) -> Result<Exit, Failure> {
    let servers = context.load_servers()?;
    let name = args.name.as_str();
    let is_off_here = is_switched_off_here(&servers, name, &local_settings(context)?);
    if !is_off_here {
        server_named(&servers, name)?;
    }
    let mut file = EditedFile::open(&local_settings(context)?)?;
    if is_off_here {
        let mut left = names(&file);
        left.retain(|other| *other != json!(name));
        if left.is_empty() {
            file.remove(KEY)?;
        } else {
            file.set(KEY, &Value::Array(left))?;
        }
    }
    let path = file.path().to_owned();
    file.save()?;
    if let Some(failure) = still_off(&servers, name, &local_settings(context)?) {
        return Err(failure);
    }
    let switched = Switched {
        server: name,
        enabled: true,
        changed: is_off_here,
        file: path,
    };
    tell(&switched, context)
}

fn names(file: &EditedFile) -> Vec<Value> {
    match file.value(KEY) {
        Some(Value::Array(names)) => names,
        _ => Vec::new(),
    }
}

fn local_settings(context: &Context) -> Result<PathBuf, Failure> {
    let file = context.places().settings_file(Scope::Local);
    file.ok_or_else(|| Failure::internal("the local scope has no settings"))
}

fn is_switched_off_here(servers: &LoadedServers, name: &str, here: &Path) -> bool {
    let mut disabled = servers.settings.disabled.iter();
    disabled.any(|off| is_of(off, here) && off.name == name)
}

/// Whether it stands in this file: the local settings of an enclosing project are another.
fn is_of(off: &DisabledServer, file: &Path) -> bool {
    off.scope == Scope::Local && off.origin.file.as_deref() == Some(file)
}

/// Somebody else's word that the server is off, which is not ours to take back.
fn still_off(servers: &LoadedServers, name: &str, here: &Path) -> Option<Failure> {
    let mut disabled = servers.settings.disabled.iter();
    let elsewhere = disabled.find(|off| !is_of(off, here) && off.name == name);
    let entry = servers.loaded.config.server(name);
    let (who, origin) = if let Some(off) = elsewhere {
        (format!("the {} settings", off.scope), off.origin.clone())
    } else {
        let entry = entry.filter(|entry| entry.is_off_by_entry())?;
        ("its entry".to_owned(), entry.origin().clone())
    };
    let message = format!("server {name} stays switched off: {who} say so ({origin})");
    let message = message.replace("its entry say so", "its entry says so");
    Some(Failure::new(Kind::Unavailable, message).hint(format!("take it out there: {origin}")))
}

fn tell(switched: &Switched<'_>, context: &Context) -> Result<Exit, Failure> {
    let console = &context.console;
    if console.is_json() {
        console.print(&json::pretty(switched))?;
        return Ok(Exit::Ok);
    }
    let Switched {
        server,
        enabled,
        changed,
        file,
    } = switched;
    let state = if *enabled { "on" } else { "off" };
    if !changed {
        console.print(&format!("{server} is switched {state} already"))?;
        return Ok(Exit::Ok);
    }
    console.print(&format!(
        "{server} is switched {state} in this project ({})",
        text::path(file)
    ))?;
    let opposite = if *enabled { "disable" } else { "enable" };
    console.note(&format!(
        "to undo: switchboard {opposite} {}",
        shell_word(server)
    ));
    Ok(Exit::Ok)
}
