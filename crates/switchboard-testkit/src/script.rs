//! The script of a server as data: its identity, its tools and its steps.
//!
//! These are plain serde types; [`crate::scripted`] plays them. Invariants: the empty script `{}`
//! is a well-behaved legacy server without tools, and unknown fields are rejected.

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

/// A complete server as data.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase", deny_unknown_fields)]
pub struct Script {
    /// The protocol revisions that the server supports. Default `legacy`.
    pub era: Era,
    /// The version in the response to `initialize`; null repeats the version of the client. Default
    /// `2025-11-25`.
    pub protocol_version: Option<String>,
    /// The versions that a modern server supports. Default `["2026-07-28"]`.
    pub supported_versions: Vec<String>,
    /// The server's identity, sent verbatim.
    pub server_info: Value,
    /// Instructions for the model.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub instructions: Option<String>,
    /// Capabilities, sent verbatim. Default: tools with `listChanged`; a script read from JSON
    /// ([`Script::from_json`]) also gets the capabilities of its resources, prompts, completions
    /// and tasks. Methods of a missing capability are unknown, except for tools.
    pub capabilities: Value,
    /// `ttlMs` of a modern server, sent verbatim; null omits it. Default 60000.
    pub ttl_ms: Value,
    /// `cacheScope` of a modern server, sent verbatim; null omits it. Default `private`.
    pub cache_scope: Value,
    /// The tools, sent verbatim even if malformed.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub tools: Vec<Value>,
    /// The resources; [`Script::raw_resource`] lists the members that are not sent.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub resources: Vec<Value>,
    /// The resource templates; [`Script::raw_template`] lists the members that are not sent.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub resource_templates: Vec<Value>,
    /// The prompts; [`Script::raw_prompt`] lists the members that are not sent.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub prompts: Vec<Value>,
    /// Completions for prompt arguments and template variables.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub completions: Vec<Completion>,
    /// How a modern server handles `subscriptions/listen`.
    pub listen_options: ListenOptions,
    /// How tasks advance and expire.
    pub task_options: TaskOptions,
    /// Entries per page of every list. Absent: one page.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub page_size: Option<usize>,
    /// The cursors between pages. Default `plain`.
    pub cursors: Cursors,
    /// Pads every non-empty cursor to this many bytes. Default 0: no padding.
    pub cursor_bytes: usize,
    /// Handles requests one after the other instead of concurrently. Default false.
    pub serial: bool,
    /// Appends each received line verbatim to this file.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub record: Option<PathBuf>,
    /// Steps that run before the server reads its input.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub start: Vec<Step>,
    /// Steps that replace the default response. A key is `"<method> <name or uri>"`, `"<method>"`
    /// or `"*"` (any request, but no notification); the most specific key wins.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub on: BTreeMap<String, Vec<Step>>,
    /// Steps that run after the client closed its end; then the server exits with 0.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub on_eof: Vec<Step>,
}

/// The protocol revisions that a server supports.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Era {
    /// Requires `initialize`; `server/discover` is an unknown method.
    #[default]
    Legacy,
    /// Every request carries its protocol version in `_meta`; `initialize` and `ping` are unknown
    /// methods.
    Modern,
    /// Modern for requests with a protocol version in `_meta`, legacy for the others.
    Both,
    /// Legacy, and exits with 1 when it receives `server/discover`.
    LegacyExitsOnProbe,
    /// Legacy, and sends no response to `server/discover`.
    LegacySilentOnProbe,
}

/// The cursors between the pages of a list.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Cursors {
    /// A different cursor for each page, none after the last page.
    #[default]
    Plain,
    /// The first cursor is the empty string, which is a valid cursor.
    EmptyFirst,
    /// The second page points to itself, so the list never ends.
    Loop,
    /// Every page has a new cursor, so the list never ends; pages after the last entry are empty.
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
            listen_options: ListenOptions::default(),
            task_options: TaskOptions::default(),
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

/// Constructors and builder methods.
impl Script {
    /// A well-behaved legacy server without tools.
    pub fn legacy() -> Self {
        Self::default()
    }

    /// A well-behaved modern server without tools.
    pub fn modern() -> Self {
        Self::of_era(Era::Modern)
    }

    /// A well-behaved server of this era without tools.
    pub fn of_era(era: Era) -> Self {
        Self {
            era,
            ..Self::default()
        }
    }

    /// Adds a well-formed tool, see [`tool`].
    pub fn tool(self, name: &str) -> Self {
        self.raw_tool(tool(name))
    }

    /// Adds a tool that is sent verbatim.
    pub fn raw_tool(mut self, tool: Value) -> Self {
        self.tools.push(tool);
        self
    }

    /// Replaces the default response for a key, see [`Script::on`](field@Self::on).
    pub fn on(mut self, key: &str, steps: impl IntoIterator<Item = Step>) -> Self {
        self.on.insert(key.to_owned(), steps.into_iter().collect());
        self
    }

    /// Sets the steps that run before the server reads its input.
    pub fn on_start(mut self, steps: impl IntoIterator<Item = Step>) -> Self {
        self.start = steps.into_iter().collect();
        self
    }

    /// Sets the steps that run after the client closed its end.
    pub fn on_eof(mut self, steps: impl IntoIterator<Item = Step>) -> Self {
        self.on_eof = steps.into_iter().collect();
        self
    }

    /// Splits every list into pages.
    pub fn paged(mut self, page_size: usize, cursors: Cursors) -> Self {
        self.page_size = Some(page_size);
        self.cursors = cursors;
        self
    }

    /// Handles requests one after the other.
    pub fn serial(mut self) -> Self {
        self.serial = true;
        self
    }

    /// Appends each received line to this file.
    pub fn record(mut self, path: impl Into<PathBuf>) -> Self {
        self.record = Some(path.into());
        self
    }

    /// Sets the instructions for the model.
    pub fn instructions(mut self, text: &str) -> Self {
        self.instructions = Some(text.to_owned());
        self
    }
}

/// Parsing and serialization.
impl Script {
    /// Parses a script. Without `capabilities` it gets the capabilities of its resources, prompts,
    /// completions and tasks.
    pub fn from_json(text: &str) -> Result<Self, serde_json::Error> {
        let script: Self = serde_json::from_str(text)?;
        let written: Value = serde_json::from_str(text)?;
        Ok(match written.get("capabilities") {
            Some(_) => script,
            None => script.declare_capabilities(),
        })
    }

    /// The script as JSON on one line, to pass as an argument of the child process.
    pub fn to_json(&self) -> String {
        serde_json::to_string(self).expect("a script is always valid JSON")
    }

    /// The steps for a message about `subject` (its `name` or `uri`), and their key.
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

    /// The first step, at any depth, that needs a real process.
    pub(crate) fn first_process_step(&self) -> Option<&Step> {
        std::iter::once(&self.start)
            .chain(self.on.values())
            .chain(std::iter::once(&self.on_eof))
            .find_map(|steps| steps.iter().find_map(Step::first_process_step))
    }
}
