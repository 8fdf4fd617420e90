//! What can be typed about resources and prompts.

use std::path::PathBuf;

use clap::{Args, ValueHint};

use crate::completion_candidates;

pub(super) const READ_EXAMPLES: &str = "\
A text is printed as it is, made safe if it goes to a terminal. Bytes never go to a terminal: they are
saved to a file, and it is said where; a pipe gets them if they are all there is.

Examples:
  switchboard read files file:///notes.txt
  switchboard read @files:file:///notes.txt
  switchboard read shop 'shop://item/{id}' id=7
  switchboard read shop 'shop://item/{id}' --complete id=7
  switchboard read shop shop://logo -o logo.png";

pub(super) const PROMPT_EXAMPLES: &str = "\
Examples:
  switchboard prompt mcp__team__review language=rust
  switchboard prompt team review language=rust
  switchboard prompt mcp__team__review --complete language=r";

#[derive(Debug, Args)]
pub(crate) struct ResourcesArgs {
    /// The server's name; all of them if none is given
    #[arg(value_name = "SERVER", add = completion_candidates::server_names())]
    pub(crate) server: Option<String>,
    /// List templates of addresses, which have something to fill in
    #[arg(long)]
    pub(crate) templates: bool,
}

#[derive(Debug, Args)]
pub(crate) struct ReadArgs {
    /// The server's name, or both in one: `@server:uri`
    #[arg(value_name = "SERVER", add = completion_candidates::server_names())]
    pub(crate) server: String,
    /// The address, or a template and key=value for each of its variables
    #[arg(value_name = "URI")]
    pub(crate) words: Vec<String>,
    /// Write to this file, which must not exist yet
    #[arg(long, short, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) output: Option<PathBuf>,
    /// Write to it even if it exists
    #[arg(long, requires = "output")]
    pub(crate) force: bool,
    /// Show what a variable may be that begins like this; nothing is read
    #[arg(long, value_name = "KEY=BEGINNING", conflicts_with = "output")]
    pub(crate) complete: Option<String>,
}

#[derive(Debug, Args)]
pub(crate) struct PromptsArgs {
    /// The server's name; all of them if none is given
    #[arg(value_name = "SERVER", add = completion_candidates::server_names())]
    pub(crate) server: Option<String>,
}

#[derive(Debug, Args)]
pub(crate) struct PromptArgs {
    /// The prompt's name: `mcp__server__prompt`, or the server's name and then the prompt's
    #[arg(value_name = "NAME")]
    pub(crate) name: String,
    /// key=value for each argument
    #[arg(value_name = "ARGS", allow_negative_numbers = true)]
    pub(crate) words: Vec<String>,
    /// Show what an argument may be that begins like this; the prompt is not filled in
    #[arg(long, value_name = "KEY=BEGINNING")]
    pub(crate) complete: Option<String>,
}
