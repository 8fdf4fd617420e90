//! `prompts [SERVER]`: lists prompts and their arguments.

use serde::Serialize;
use switchboard::Host;
use switchboard::id::WireName;
use switchboard::mcp::{Prompt, PromptArgument};
use switchboard::query::{Listing, ServerItem};

use super::listing::{list, notes_of};
use crate::args::PromptsArgs;
use crate::context::Context;
use crate::failure::{Exit, Failure};
use crate::render::style::Paint;
use crate::render::table::{Cell, Overflow, Table};
use crate::render::{Console, json, text};
use crate::signals::Signals;
use switchboard::content::quote_for_shell;

pub(crate) async fn run(
    args: &PromptsArgs,
    context: &Context,
    signals: &mut Signals,
) -> Result<Exit, Failure> {
    let server = args.server.as_deref();
    let request = async |host: &Host, server: Option<&str>| host.prompts(server).await;
    list(server, "prompts", context, signals, request, render).await
}

/// One prompt in the output of `prompts --json`.
#[derive(Serialize)]
struct PromptJson<'a> {
    /// The name of the slash command, without the slash.
    command: WireName,
    #[serde(flatten)]
    prompt: &'a ServerItem<Prompt>,
}

fn render(listing: &Listing<Prompt>, console: &Console) -> String {
    let prompts = listing.items.iter();
    if console.is_json() {
        let json = prompts.map(|prompt| PromptJson {
            command: prompt.wire_name(),
            prompt,
        });
        return json::listing(&json.collect::<Vec<_>>(), notes_of(listing));
    }
    if listing.items.is_empty() {
        return String::new();
    }
    let mut table = Table::new(2, Overflow::Truncate);
    let heading = ["PROMPT", "ARGUMENTS", "DESCRIPTION"];
    table.row(
        (heading.into_iter())
            .map(|name| Cell::new(name).paint(Paint::Dim))
            .collect(),
    );
    for prompt in prompts {
        let description = prompt.item.description.as_ref();
        let description = description.or(prompt.item.title.as_ref());
        table.row(vec![
            Cell::new(format!("/{}", prompt.wire_name())).paint(Paint::Bold),
            Cell::new(usage(&prompt.item.arguments)),
            Cell::new(text::first_line(
                description.map(String::as_str).unwrap_or_default(),
            )),
        ]);
    }
    table.render(console.columns, console.style)
}

/// Renders the arguments as the user has to type them; optional arguments are in brackets.
pub(super) fn usage(arguments: &[PromptArgument]) -> String {
    let argument = |argument: &PromptArgument| {
        let name = quote_for_shell(&argument.name);
        if argument.required {
            format!("{name}=…")
        } else {
            format!("[{name}=…]")
        }
    };
    let arguments: Vec<_> = arguments.iter().map(argument).collect();
    arguments.join(" ")
}
