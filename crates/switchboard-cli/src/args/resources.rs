//! Arguments of `resources`, `read`, `prompts` and `prompt`.

use std::path::PathBuf;

use clap::{Args, ValueHint};

use crate::completion_candidates;

#[derive(Debug, Args)]
pub(crate) struct ResourcesArgs {
    /// Server name (default: all)
    #[arg(value_name = "SERVER", add = completion_candidates::server_names())]
    pub(crate) server: Option<String>,
    /// List URI templates instead of resources
    #[arg(long)]
    pub(crate) templates: bool,
}

#[derive(Debug, Args)]
pub(crate) struct ReadArgs {
    /// Server name, or server and URI as `@server:uri`
    #[arg(value_name = "SERVER", add = completion_candidates::server_names())]
    pub(crate) server: String,
    /// URI, or a URI template followed by key=value for its variables
    #[arg(value_name = "URI")]
    pub(crate) words: Vec<String>,
    /// Write to FILE; fails if it exists
    #[arg(long, short, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) output: Option<PathBuf>,
    /// Overwrite FILE
    #[arg(long, requires = "output")]
    pub(crate) force: bool,
    /// List completions for a template variable; does not read the resource
    #[arg(long, value_name = "KEY=PREFIX", conflicts_with = "output")]
    pub(crate) complete: Option<String>,
}

#[derive(Debug, Args)]
pub(crate) struct PromptsArgs {
    /// Server name (default: all)
    #[arg(value_name = "SERVER", add = completion_candidates::server_names())]
    pub(crate) server: Option<String>,
}

#[derive(Debug, Args)]
pub(crate) struct PromptArgs {
    /// Prompt name: `mcp__server__prompt`, or the server name followed by the prompt name
    #[arg(value_name = "NAME")]
    pub(crate) name: String,
    /// Prompt arguments as key=value
    #[arg(value_name = "ARGS", allow_negative_numbers = true)]
    pub(crate) words: Vec<String>,
    /// List completions for an argument; does not get the prompt
    #[arg(long, value_name = "KEY=PREFIX")]
    pub(crate) complete: Option<String>,
}
