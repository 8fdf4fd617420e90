//! What a scripted server is: its identity, its tools and its answers, as data.
//!
//! Plain serde types; playing them is the business of [`crate::engine`]. Invariant: the empty script
//! `{}` is a polite legacy server without tools, and a field that is not known is refused.

mod features;
mod step;
mod step_builders;
mod tool;

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

pub use features::{Completion, Flood, ListenEnding, ListenOptions, TaskOptions, prompt, resource};
pub use step::{Grandchild, HexBytes, ServerRequest, Step};
pub use tool::tool;

/// A whole server, written as data.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase", deny_unknown_fields)]
pub struct Script {
    /// Which revisions of the protocol the server speaks. Default `legacy`.
    pub era: Era,
    /// The version that `initialize` answers; null echoes the client's. Default `2025-11-25`.
    pub protocol_version: Option<String>,
    /// The versions of a modern server. Default `["2026-07-28"]`.
    pub supported_versions: Vec<String>,
    /// The server's identity, sent as it stands.
    pub server_info: Value,
    /// Instructions to the model; absent unless given.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub instructions: Option<String>,
    /// Capabilities, sent as they stand. Default: tools with `listChanged`, and where the script is read
    /// from JSON ([`Script::from_json`]) those that go with what it offers. A method that belongs to a
    /// capability which is not here is unknown, tools excepted.
    pub capabilities: Value,
    /// Cache hint of a modern server, sent as it stands; null leaves it out. Default 60000.
    pub ttl_ms: Value,
    /// Cache scope of a modern server, sent as it stands; null leaves it out. Default `private`.
    pub cache_scope: Value,
    /// The tools, sent as they stand, malformed ones too.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub tools: Vec<Value>,
    /// The resources; see [`Script::raw_resource`] for what is not listed of them.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub resources: Vec<Value>,
    /// The templates; see [`Script::raw_template`] for what is not listed of them.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub resource_templates: Vec<Value>,
    /// The prompts; see [`Script::raw_prompt`] for what is not listed of them.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub prompts: Vec<Value>,
    /// What is suggested for arguments of prompts and variables of templates.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub completions: Vec<Completion>,
    /// How a modern server treats a `subscriptions/listen`.
    pub listening: ListenOptions,
    /// How tasks go on.
    pub tasking: TaskOptions,
    /// Entries per page of every list; absent: all on one page.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub page_size: Option<usize>,
    /// What the cursors between the pages look like. Default `plain`.
    pub cursors: Cursors,
    /// Pads every non-empty cursor to this many bytes. Default 0: no padding.
    pub cursor_bytes: usize,
    /// Answers one request after the other instead of all at once. Default false.
    pub serial: bool,
    /// Appends each received line, as it came, to this file.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub record: Option<PathBuf>,
    /// Steps that run before anything is read.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub start: Vec<Step>,
    /// Steps that replace the polite answer. A key is `"<method> <name or uri>"`, `"<method>"` or `"*"`
    /// (any request, but no notification); the most specific one wins.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub on: BTreeMap<String, Vec<Step>>,
    /// Steps that run when the client has closed its end; after them the server exits with 0.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub on_eof: Vec<Step>,
}

/// Which revisions of the protocol a server speaks.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Era {
    /// `initialize` first; `server/discover` is an unknown method.
    #[default]
    Legacy,
    /// Every request describes itself; `initialize` and `ping` are unknown methods.
    Modern,
    /// Modern for requests that describe themselves, legacy for the others.
    Both,
    /// Legacy, and exits with 1 when it meets `server/discover`.
    LegacyExitsOnProbe,
    /// Legacy, and never answers `server/discover`.
    LegacySilentOnProbe,
}

/// What the cursors between the pages of a list look like.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Cursors {
    /// A different one for each page, none after the last.
    #[default]
    Plain,
    /// The first cursor is the empty string, which is a cursor like any other.
    EmptyFirst,
    /// The second page leads to itself, for ever.
    Loop,
    /// Each page names a new cursor, for ever; pages after the last entry are empty.
    Endless,
}

impl Default for Script {
    fn default() -> Self {
        Self {
            era: Era::default(),
            protocol_version: Some("2025-11-25".to_owned()),
            supported_versions: vec!["2026-07-28".to_owned()],
            server_info: json!({"name": "scripted", "version": "1.0.0"}),
            instructions: None,
            capabilities: json!({"tools": {"listChanged": true}}),
            ttl_ms: json!(60_000),
            cache_scope: json!("private"),
            tools: Vec::new(),
            resources: Vec::new(),
            resource_templates: Vec::new(),
            prompts: Vec::new(),
            completions: Vec::new(),
            listening: ListenOptions::default(),
            tasking: TaskOptions::default(),
            page_size: None,
            cursors: Cursors::default(),
            cursor_bytes: 0,
            serial: false,
            record: None,
            start: Vec::new(),
            on: BTreeMap::new(),
            on_eof: Vec::new(),
        }
    }
}

/// Making scripts in Rust.
impl Script {
    /// A polite legacy server without tools.
    pub fn legacy() -> Self {
        Self::default()
    }

    /// A polite modern server without tools.
    pub fn modern() -> Self {
        Self::of_era(Era::Modern)
    }

    /// A polite server of that era without tools.
    pub fn of_era(era: Era) -> Self {
        Self {
            era,
            ..Self::default()
        }
    }

    /// Adds the well-formed tool of that name, see [`tool`].
    pub fn tool(self, name: &str) -> Self {
        self.raw_tool(tool(name))
    }

    /// Adds a tool that is sent as it stands.
    pub fn raw_tool(mut self, tool: Value) -> Self {
        self.tools.push(tool);
        self
    }

    /// Replaces the polite answer to what the key names, see [`Script::on`](field@Self::on).
    pub fn on(mut self, key: &str, steps: impl IntoIterator<Item = Step>) -> Self {
        self.on.insert(key.to_owned(), steps.into_iter().collect());
        self
    }

    /// Sets the steps that run before anything is read.
    pub fn on_start(mut self, steps: impl IntoIterator<Item = Step>) -> Self {
        self.start = steps.into_iter().collect();
        self
    }

    /// Sets the steps that run when the client has closed its end.
    pub fn on_eof(mut self, steps: impl IntoIterator<Item = Step>) -> Self {
        self.on_eof = steps.into_iter().collect();
        self
    }

    /// Divides every list into pages.
    pub fn paged(mut self, page_size: usize, cursors: Cursors) -> Self {
        self.page_size = Some(page_size);
        self.cursors = cursors;
        self
    }

    /// Answers one request after the other.
    pub fn serial(mut self) -> Self {
        self.serial = true;
        self
    }

    /// Appends each received line to this file.
    pub fn record(mut self, path: impl Into<PathBuf>) -> Self {
        self.record = Some(path.into());
        self
    }

    /// Sets the instructions to the model.
    pub fn instructions(mut self, text: &str) -> Self {
        self.instructions = Some(text.to_owned());
        self
    }
}

/// Reading and writing scripts.
impl Script {
    /// Reads a script. One that says nothing of capabilities gets those that go with what it offers.
    pub fn from_json(text: &str) -> Result<Self, serde_json::Error> {
        let script: Self = serde_json::from_str(text)?;
        let written: Value = serde_json::from_str(text)?;
        Ok(match written.get("capabilities") {
            Some(_) => script,
            None => script.declare_offers(),
        })
    }

    /// The script as JSON on one line, fit for an argument of the child process.
    pub fn to_json(&self) -> String {
        serde_json::to_string(self).expect("a script is always valid JSON")
    }

    /// The steps for a message about `subject` (its `name` or `uri`), and the key they stand under.
    pub(crate) fn steps_for(
        &self,
        method: &str,
        subject: Option<&str>,
        fallback: Option<&str>,
    ) -> Option<(&str, &[Step])> {
        let specific = subject.map(|subject| format!("{method} {subject}"));
        [specific.as_deref(), Some(method), fallback]
            .into_iter()
            .flatten()
            .find_map(|key| self.on.get_key_value(key))
            .map(|(key, steps)| (key.as_str(), steps.as_slice()))
    }

    /// The first step, at any depth, that only a real process can do.
    pub(crate) fn first_process_step(&self) -> Option<&Step> {
        std::iter::once(&self.start)
            .chain(self.on.values())
            .chain(std::iter::once(&self.on_eof))
            .find_map(|steps| steps.iter().find_map(Step::first_process_step))
    }
}
