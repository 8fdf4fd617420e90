//! `prompt NAME`: gets one prompt with arguments and prints its messages.
//!
//! Starts only the server that has the prompt. Invariant: `prompts/get` is sent only with known
//! argument names and all required arguments.

use std::collections::BTreeMap;

use serde::Serialize;
use switchboard::content::{RenderedMessage, RenderedPrompt, for_terminal};
use switchboard::mcp::{Prompt, Role};
use switchboard::query::{CompletionTarget, ServerItem};
use switchboard::{Host, Output, naming};
use switchboard_config::{ServerEntry, nearest};

use super::call::require_usable_settings;
use super::find::{find_server, server_named};
use super::listing::{complete, parse_partial, run_with_server};
use super::prompts;
use crate::args::PromptArgs;
use crate::context::{Context, LoadedServers};
use crate::failure::{Exit, Failure, Kind};
use crate::render::progress::ProgressLine;
use crate::render::server_text::quote_message;
use crate::render::style::Paint;
use crate::render::{Console, json, text};
use crate::signals::Signals;
use crate::tool_arguments::parse_text_pairs;
use switchboard::content::quote_for_shell;

pub(crate) async fn run(
    args: &PromptArgs,
    context: &Context,
    signals: &mut Signals,
) -> Result<Exit, Failure> {
    let servers = context.load_servers()?;
    let console = &context.console;
    let prompt_ref = PromptRef::read(args);
    let entry = find_server(&servers, console, |servers| prompt_ref.server(servers))?;
    let arguments = collect_arguments(parse_text_pairs(prompt_ref.arguments)?)?;
    let completed = args.complete.as_deref().map(parse_partial).transpose()?;
    require_usable_settings(&servers)?;
    run_with_server(entry, &servers, context, signals, async |host| {
        let server = entry.name().as_str();
        let prompt = find(host, entry, &prompt_ref).await?;
        let name = prompt.item.name.as_str();
        if let Some((key, start)) = &completed {
            require_known_arguments(&prompt, [key])?;
            let of = CompletionTarget::Prompt(name);
            return complete(host, server, of, (key, start), &arguments, console).await;
        }
        require_known_arguments(&prompt, arguments.keys())?;
        require_all_arguments(&prompt, &arguments)?;
        let line = ProgressLine::start(console, name);
        let result = host.get_prompt(server, name, &arguments).await?;
        drop(line);
        print_prompt(&result, context)?;
        Ok(Exit::Ok)
    })
    .await
}

/// A prompt, and the command-line words that follow its name.
struct PromptRef<'a> {
    kind: PromptRefKind<'a>,
    arguments: &'a [String],
}

enum PromptRefKind<'a> {
    /// `mcp__server__prompt`, with or without a leading slash.
    Wire(&'a str),
    Pair {
        server: &'a str,
        prompt: &'a str,
    },
    /// A single word that is not a wire name.
    Invalid(&'a str),
}

impl<'a> PromptRef<'a> {
    fn read(args: &'a PromptArgs) -> Self {
        let word = args.name.strip_prefix('/').unwrap_or(&args.name);
        if naming::split_wire_name(word).is_some() {
            return Self {
                kind: PromptRefKind::Wire(word),
                arguments: &args.words,
            };
        }
        match args.words.split_first() {
            Some((prompt, arguments)) => Self {
                kind: PromptRefKind::Pair {
                    server: &args.name,
                    prompt,
                },
                arguments,
            },
            None => Self {
                kind: PromptRefKind::Invalid(word),
                arguments: &[],
            },
        }
    }

    fn server<'s>(&self, servers: &'s LoadedServers) -> Result<&'s ServerEntry, Failure> {
        match self.kind {
            PromptRefKind::Pair { server, .. } => server_named(servers, server),
            PromptRefKind::Wire(name) => {
                let part = naming::split_wire_name(name).map_or("", |(part, _)| part);
                let entries = &servers.loaded.config.servers;
                let by_part = |entry: &&ServerEntry| naming::server_part(entry.name()) == part;
                let by_name = |entry: &&ServerEntry| {
                    let rest = name.strip_prefix(naming::PREFIX);
                    let rest = rest.and_then(|rest| rest.strip_prefix(entry.name().as_str()));
                    rest.is_some_and(|rest| rest.starts_with(naming::SEPARATOR))
                };
                let found = entries.iter().find(by_part);
                found
                    .or_else(|| entries.iter().find(by_name))
                    .ok_or_else(|| {
                        let message = format!("unknown prompt {name}: no server named {part:?}");
                        Failure::new(Kind::UnknownServer, message)
                            .hint("run `switchboard prompts` to list prompts")
                    })
            }
            PromptRefKind::Invalid(word) => {
                let message =
                    format!("{word:?} is not a prompt name (expected mcp__server__prompt)");
                Err(Failure::new(Kind::UnknownPrompt, message)
                    .hint("run `switchboard prompts` to list prompts"))
            }
        }
    }

    fn matches(&self, prompt: &ServerItem<Prompt>) -> bool {
        match self.kind {
            PromptRefKind::Wire(name) => {
                let full_name = || format!("mcp__{}__{}", prompt.server, prompt.item.name);
                prompt.wire_name().as_str() == name || full_name() == name
            }
            PromptRefKind::Pair { prompt: name, .. } => prompt.item.name == name,
            PromptRefKind::Invalid(_) => false,
        }
    }

    /// Returns the prompt's name as typed.
    fn prompt(&self) -> &str {
        match self.kind {
            PromptRefKind::Wire(name) | PromptRefKind::Invalid(name) => name,
            PromptRefKind::Pair { prompt, .. } => prompt,
        }
    }
}

async fn find(
    host: &Host,
    entry: &ServerEntry,
    prompt_ref: &PromptRef<'_>,
) -> Result<ServerItem<Prompt>, Failure> {
    let server = entry.name();
    let listing = host.prompts(Some(server.as_str())).await?;
    if let Some(prompt) = listing
        .items
        .iter()
        .find(|prompt| prompt_ref.matches(prompt))
    {
        return Ok(prompt.clone());
    }
    let typed = prompt_ref.prompt();
    let message = format!("server {server} has no prompt {typed:?}");
    let failure = Failure::new(Kind::UnknownPrompt, message);
    let names = listing.items.iter().map(|prompt| match prompt_ref.kind {
        PromptRefKind::Pair { .. } => for_terminal(&prompt.item.name).into_owned(),
        _ => prompt.wire_name().to_string(),
    });
    let names: Vec<_> = names.collect();
    let names: Vec<_> = names.iter().map(String::as_str).collect();
    Err(match nearest(typed, &names) {
        Some(nearest) => failure.hint(format!("did you mean {nearest}?")),
        None => failure.hint(format!(
            "run `switchboard prompts {}` to list its prompts",
            quote_for_shell(server.as_str())
        )),
    })
}

/// Collects the arguments and rejects a name that occurs twice.
fn collect_arguments(pairs: Vec<(String, String)>) -> Result<BTreeMap<String, String>, Failure> {
    let mut arguments = BTreeMap::new();
    for (key, value) in pairs {
        if arguments.contains_key(&key) {
            let message = format!("`{key}` was given more than once");
            return Err(Failure::usage(message));
        }
        arguments.insert(key, value);
    }
    Ok(arguments)
}

fn require_known_arguments<'a>(
    prompt: &ServerItem<Prompt>,
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
                None => failure.hint(usage_hint(prompt)),
            });
        }
    }
    Ok(())
}

fn require_all_arguments(
    prompt: &ServerItem<Prompt>,
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
    let message = format!(
        "missing arguments for {}: {}",
        prompt.wire_name(),
        missing.join(", ")
    );
    Err(Failure::new(Kind::InvalidArguments, message).hint(usage_hint(prompt)))
}

/// Renders the command line of the prompt, and the descriptions of its arguments.
fn usage_hint(prompt: &ServerItem<Prompt>) -> String {
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

/// Output of `prompt --json`.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct PromptResultJson<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    description: Option<&'a str>,
    messages: &'a [RenderedMessage],
    notes: &'a [String],
    #[serde(skip_serializing_if = "Option::is_none")]
    full_result_file: Option<std::path::PathBuf>,
}

fn print_prompt(prompt: &RenderedPrompt, context: &Context) -> Result<(), Failure> {
    let console = &context.console;
    let full_result_file =
        (prompt.stored.as_ref()).map(|handle| context.stored_result_path(handle));
    if console.is_json() {
        return console.print(&json::pretty(&PromptResultJson {
            description: prompt.description.as_deref(),
            messages: &prompt.messages,
            notes: &prompt.notes,
            full_result_file,
        }));
    }
    console.print_content(&render(prompt, console))?;
    if prompt.messages.is_empty() {
        console.note("note: the prompt has no messages");
    }
    for note in &prompt.notes {
        console.note(&quote_message(
            &format!("note: {note}"),
            0,
            console.stderr_columns,
        ));
    }
    if let Some(file) = full_result_file {
        console.note(&format!(
            "note: full output saved to {}",
            text::path_on_one_line(&file)
        ));
    }
    Ok(())
}

fn render(prompt: &RenderedPrompt, console: &Console) -> String {
    let messages = prompt.messages.iter().map(|message| {
        let role = match message.role {
            Role::Assistant => "assistant",
            _ => "user",
        };
        let text = Output::blocks(vec![message.content.clone()]).to_text();
        format!(
            "{}\n{text}",
            console.style.paint(Paint::Dim, &format!("{role}:"))
        )
    });
    messages.collect::<Vec<_>>().join("\n\n")
}
