//! `prompt NAME`: one prompt, filled in.
//!
//! Only the server that has it is started. Invariant: what a prompt cannot do without is asked for
//! before the server is.

use std::collections::BTreeMap;

use serde::Serialize;
use switchboard::content::{PresentedMessage, PresentedPrompt, for_terminal, sanitize};
use switchboard::mcp::{Prompt, Role};
use switchboard::{Completing, Host, Offered, Output, naming};
use switchboard_config::{ServerEntry, nearest};

use super::call::require_usable_settings;
use super::find::{find_server, server_named};
use super::listing::{beginning, complete, with_server};
use super::prompts;
use crate::args::PromptArgs;
use crate::context::{Context, LoadedServers};
use crate::failure::{Exit, Failure, Kind};
use crate::render::progress::ProgressLine;
use crate::render::style::Paint;
use crate::render::text::shell_word;
use crate::render::{Console, json, text};
use crate::signals::Signals;
use crate::tool_arguments::parse_text_pairs;

pub(crate) async fn run(
    args: &PromptArgs,
    context: &Context,
    signals: &mut Signals,
) -> Result<Exit, Failure> {
    let servers = context.load_servers()?;
    let console = &context.console;
    let named = Named::read(args);
    let entry = find_server(&servers, console, |servers| named.server(servers))?;
    let arguments = by_name(parse_text_pairs(named.arguments)?)?;
    let completed = args.complete.as_deref().map(beginning).transpose()?;
    require_usable_settings(&servers)?;
    with_server(entry, &servers, context, signals, async |host| {
        let server = entry.name().as_str();
        let prompt = find(host, entry, &named).await?;
        let name = prompt.item.name.as_str();
        if let Some((key, start)) = &completed {
            check_known(&prompt, [key])?;
            let of = Completing::Prompt(name);
            return complete(host, server, of, (key, start), &arguments, console).await;
        }
        check_known(&prompt, arguments.keys())?;
        check_complete(&prompt, &arguments)?;
        let line = ProgressLine::start(console, name);
        let filled_in = host.fill_in(server, name, &arguments).await?;
        drop(line);
        show(&filled_in, context)?;
        Ok(Exit::Ok)
    })
    .await
}

/// What was typed as the name of a prompt, and what is left for its arguments.
struct Named<'a> {
    kind: NamedAs<'a>,
    arguments: &'a [String],
}

enum NamedAs<'a> {
    /// `mcp__server__prompt`
    Wire(&'a str),
    Pair {
        server: &'a str,
        prompt: &'a str,
    },
    /// A word that is neither.
    Nothing(&'a str),
}

impl<'a> Named<'a> {
    fn read(args: &'a PromptArgs) -> Self {
        let word = args.name.strip_prefix('/').unwrap_or(&args.name);
        if naming::split_wire_name(word).is_some() {
            return Self {
                kind: NamedAs::Wire(word),
                arguments: &args.words,
            };
        }
        match args.words.split_first() {
            Some((prompt, arguments)) => Self {
                kind: NamedAs::Pair {
                    server: &args.name,
                    prompt,
                },
                arguments,
            },
            None => Self {
                kind: NamedAs::Nothing(word),
                arguments: &[],
            },
        }
    }

    fn server<'s>(&self, servers: &'s LoadedServers) -> Result<&'s ServerEntry, Failure> {
        match self.kind {
            NamedAs::Pair { server, .. } => server_named(servers, server),
            NamedAs::Wire(name) => {
                let part = naming::split_wire_name(name).map_or("", |(part, _)| part);
                let entries = &servers.loaded.config.servers;
                let mut entries = entries.iter();
                let found = entries.find(|entry| naming::server_part(entry.name()) == part);
                found.ok_or_else(|| {
                    let message =
                        format!("there is no prompt {name}: no server is called {part:?}");
                    Failure::new(Kind::UnknownServer, message)
                        .hint("switchboard prompts shows which there are")
                })
            }
            NamedAs::Nothing(word) => {
                let message = format!(
                    "{word:?} is not the name of a prompt: they look like mcp__server__prompt"
                );
                Err(Failure::new(Kind::UnknownPrompt, message)
                    .hint("switchboard prompts shows which there are"))
            }
        }
    }

    fn fits(&self, prompt: &Offered<Prompt>) -> bool {
        match self.kind {
            NamedAs::Wire(name) => prompt.wire_name().as_str() == name,
            NamedAs::Pair { prompt: name, .. } => prompt.item.name == name,
            NamedAs::Nothing(_) => false,
        }
    }

    fn prompt(&self) -> &str {
        match self.kind {
            NamedAs::Wire(name) | NamedAs::Nothing(name) => name,
            NamedAs::Pair { prompt, .. } => prompt,
        }
    }
}

async fn find(
    host: &Host,
    entry: &ServerEntry,
    named: &Named<'_>,
) -> Result<Offered<Prompt>, Failure> {
    let server = entry.name();
    let offer = host.prompts(Some(server.as_str())).await?;
    if let Some(prompt) = offer.items.iter().find(|prompt| named.fits(prompt)) {
        return Ok(prompt.clone());
    }
    let wanted = named.prompt();
    let message = format!("server {server} has no prompt {wanted:?}");
    let failure = Failure::new(Kind::UnknownPrompt, message);
    let names = offer.items.iter().map(|prompt| match named.kind {
        NamedAs::Pair { .. } => for_terminal(&prompt.item.name).into_owned(),
        _ => prompt.wire_name().to_string(),
    });
    let names: Vec<_> = names.collect();
    let names: Vec<_> = names.iter().map(String::as_str).collect();
    Err(match nearest(wanted, &names) {
        Some(nearest) => failure.hint(format!("did you mean {nearest}?")),
        None => failure.hint(format!(
            "switchboard prompts {} shows which there are",
            shell_word(server.as_str())
        )),
    })
}

/// The arguments by name, each given once.
fn by_name(pairs: Vec<(String, String)>) -> Result<BTreeMap<String, String>, Failure> {
    let mut named = BTreeMap::new();
    for (key, value) in pairs {
        if named.contains_key(&key) {
            return Err(Failure::usage(format!("`{key}` is given more than once")));
        }
        named.insert(key, value);
    }
    Ok(named)
}

fn check_known<'a>(
    prompt: &Offered<Prompt>,
    given: impl IntoIterator<Item = &'a String>,
) -> Result<(), Failure> {
    let known: Vec<_> = (prompt.item.arguments.iter())
        .map(|argument| argument.name.as_str())
        .collect();
    for name in given {
        if !known.contains(&name.as_str()) {
            let message = format!("{} has no argument {name:?}", prompt.wire_name());
            let failure = Failure::new(Kind::InvalidArguments, message);
            return Err(match nearest(name, &known) {
                Some(nearest) => failure.hint(format!("did you mean {nearest}?")),
                None => failure.hint(explain(prompt)),
            });
        }
    }
    Ok(())
}

/// Says what is missing before anybody is asked.
fn check_complete(
    prompt: &Offered<Prompt>,
    given: &BTreeMap<String, String>,
) -> Result<(), Failure> {
    let missing = (prompt.item.arguments.iter())
        .filter(|argument| argument.required && !given.contains_key(&argument.name));
    let missing: Vec<_> = missing
        .map(|argument| for_terminal(&argument.name))
        .collect();
    if missing.is_empty() {
        return Ok(());
    }
    let message = format!("{} needs {}", prompt.wire_name(), missing.join(", "));
    Err(Failure::new(Kind::InvalidArguments, message).hint(explain(prompt)))
}

/// How the prompt is typed, and what its arguments mean.
fn explain(prompt: &Offered<Prompt>) -> String {
    let arguments = &prompt.item.arguments;
    if arguments.is_empty() {
        return format!("switchboard prompt {}", prompt.wire_name());
    }
    let usage = prompts::usage(arguments);
    let mut lines = vec![format!("switchboard prompt {} {usage}", prompt.wire_name())];
    for argument in arguments {
        let description = argument.description.as_deref().unwrap_or_default();
        if !description.is_empty() {
            let name = for_terminal(&argument.name);
            lines.push(format!("{name}: {}", text::first_line(description)));
        }
    }
    lines.join("\n")
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Written<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    description: Option<&'a str>,
    messages: &'a [PresentedMessage],
    notes: &'a [String],
    #[serde(skip_serializing_if = "Option::is_none")]
    whole: Option<std::path::PathBuf>,
}

fn show(prompt: &PresentedPrompt, context: &Context) -> Result<(), Failure> {
    let console = &context.console;
    let whole = (prompt.whole.as_ref()).map(|handle| context.stored_result_path(handle));
    if console.is_json() {
        return console.print(&json::pretty(&Written {
            description: prompt.description.as_deref(),
            messages: &prompt.messages,
            notes: &prompt.notes,
            whole,
        }));
    }
    console.print(&render(prompt, console))?;
    if prompt.messages.is_empty() {
        console.note("note: the prompt has no messages");
    }
    for note in &prompt.notes {
        console.note(&format!("note: {}", sanitize(note)));
    }
    if let Some(whole) = whole {
        console.note(&format!("note: the whole is in {}", text::path(&whole)));
    }
    Ok(())
}

fn render(prompt: &PresentedPrompt, console: &Console) -> String {
    let messages = prompt.messages.iter().map(|message| {
        let role = match message.role {
            Role::Assistant => "assistant",
            _ => "user",
        };
        let said = Output::blocks(vec![message.content.clone()]).to_text();
        format!(
            "{}\n{said}",
            console.style.paint(Paint::Dim, &format!("{role}:"))
        )
    });
    messages.collect::<Vec<_>>().join("\n\n")
}
