//! `remove`: a server out of the file of a scope.

use serde::Serialize;
use switchboard_config::{Origin, Scope, nearest};

use super::scopes::{self, Held};
use crate::args::RemoveArgs;
use crate::context::Context;
use crate::failure::{Exit, Failure, Kind};
use crate::render::json;
use crate::render::style::Paint;
use crate::render::text::shell_word;

pub(crate) fn run(args: &RemoveArgs, context: &Context) -> Result<Exit, Failure> {
    let held = scopes::with_server(&args.name, context);
    let scope = match args.scope {
        Some(scope) => Scope::from(scope),
        None => the_only_scope(&args.name, &held, context)?,
    };
    let path = ["mcpServers", args.name.as_str()];
    let mut file = scopes::open(scope, &scopes::file_of(scope, context)?)?;
    let origin = file.origin(&path);
    if !file.remove(&path)? {
        return Err(absent(&args.name, scope, &held, context));
    }
    file.save()?;
    let removed = Removed {
        name: &args.name,
        scope,
        origin: origin.as_ref(),
        used_now: held.iter().find(|held| held.scope != scope),
    };
    context.console.print(&if context.console.is_json() {
        json::pretty(&removed)
    } else {
        wording(&removed, context)
    })?;
    Ok(Exit::Ok)
}

/// The scope that is meant when none was named.
fn the_only_scope(name: &str, held: &[Held], context: &Context) -> Result<Scope, Failure> {
    let own: Vec<_> = held.iter().filter(|held| held.is_own()).collect();
    match own.as_slice() {
        [only] => Ok(only.scope),
        [] => match held.first() {
            Some(held) => Err(Failure::new(
                Kind::Denied,
                format!(
                    "server {name} is the administrator's ({})",
                    held.entry.origin()
                ),
            )
            .hint("ask whoever looks after this machine")),
            None => Err(unknown(name, context)),
        },
        several => {
            let places = several
                .iter()
                .map(|held| format!("{} ({})", held.scope, held.entry.origin()));
            let places: Vec<_> = places.collect();
            let message = format!(
                "server {name} is in {} scopes: {}",
                several.len(),
                places.join(", ")
            );
            let scopes = several.iter().map(|held| held.scope.as_str());
            let hints = scopes.map(|scope| command(name, scope)).collect::<Vec<_>>();
            Err(Failure::usage(message).hint(hints.join(", or ")))
        }
    }
}

fn command(name: &str, scope: &str) -> String {
    format!("switchboard remove {} -s {scope}", shell_word(name))
}

/// It is not where it was said to be.
fn absent(name: &str, scope: Scope, held: &[Held], context: &Context) -> Failure {
    let elsewhere = held.iter().find(|held| held.is_own());
    let Some(elsewhere) = elsewhere else {
        return unknown(name, context);
    };
    let message = format!(
        "there is no server {name} in the {scope} scope; there is one in the {} scope",
        elsewhere.scope
    );
    Failure::new(Kind::UnknownServer, message).hint(command(name, elsewhere.scope.as_str()))
}

fn unknown(name: &str, context: &Context) -> Failure {
    let (names, broken) = scopes::all_names(context);
    // It may stand in a file that cannot be read.
    context.console.diagnose(&broken);
    let names: Vec<_> = names.iter().map(String::as_str).collect();
    let failure = Failure::new(Kind::UnknownServer, format!("there is no server {name:?}"));
    let failure = match nearest(name, &names) {
        Some(nearest) => failure.hint(format!("did you mean {nearest}?")),
        None => failure.hint("switchboard list shows which there are"),
    };
    failure.diagnostics(broken)
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Removed<'a> {
    name: &'a str,
    scope: Scope,
    /// Where it stood.
    origin: Option<&'a Origin>,
    /// The entry of another scope that is used from now on.
    #[serde(rename = "nowUsed", skip_serializing_if = "Option::is_none")]
    used_now: Option<&'a Held>,
}

fn wording(removed: &Removed<'_>, context: &Context) -> String {
    let style = context.console.style;
    let name = style.paint(Paint::Bold, removed.name);
    let place = removed
        .origin
        .map(scopes::file_and_line)
        .unwrap_or_default();
    let text = format!("Removed {name} from the {} scope: {place}", removed.scope);
    match removed.used_now {
        Some(held) => {
            let place = scopes::file_and_line(held.entry.origin());
            let scope = held.scope;
            format!("{text}\nThe one in the {scope} scope is used now: {place}")
        }
        None => text,
    }
}
