//! The script of a server as data: its identity, its tools and the steps that it runs.
//!
//! These are plain serde types; [`crate::scripted`] plays them. The empty script `{}` is a
//! well-behaved server of the legacy era without tools. Unknown fields are rejected.

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

/// A scripted server: its identity, its features and the steps that it runs.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase", deny_unknown_fields)]
pub struct Script {
    /// The protocol era of the server, and how a server of the legacy era responds to the client's
    /// `server/discover` probe. Default `legacy`.
    pub era: Era,
    /// `protocolVersion` in the response to `initialize`; null repeats the version that the client
    /// requested. Default `2025-11-25`.
    pub protocol_version: Option<String>,
    /// `supportedVersions` of a server of the modern era. Default `["2026-07-28"]`.
    pub supported_versions: Vec<String>,
    /// `serverInfo`, sent verbatim.
    pub server_info: Value,
    /// `instructions` for the model. Absent: not sent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub instructions: Option<String>,
    /// Capabilities, sent verbatim. The default is `tools` with `listChanged`. A script read from
    /// JSON ([`Script::from_json`]) without this field also gets the capabilities of its resources,
    /// prompts, completions and tasks. Requests that need a missing capability fail with "method
    /// not found"; only the tool methods always work.
    pub capabilities: Value,
    /// `ttlMs` in responses of the modern era, sent verbatim; null omits it. Default 60000.
    pub ttl_ms: Value,
    /// `cacheScope` in responses of the modern era, sent verbatim; null omits it. Default
    /// `private`.
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
    /// How the server handles `subscriptions/listen`, which only the modern era has.
    pub listen_options: ListenOptions,
    /// How tasks advance and expire.
    pub task_options: TaskOptions,
    /// Maximum number of entries per page of every list. Absent: each list is one page.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub page_size: Option<usize>,
    /// The format of the cursors between pages. Default `plain`.
    pub cursors: Cursors,
    /// Pads every non-empty cursor to this many bytes. Default 0: no padding.
    pub cursor_bytes: usize,
    /// Handles requests one after the other, in the order of arrival, instead of concurrently.
    /// Default false.
    pub serial: bool,
    /// The file to which the server appends each line that it receives. Has no effect over HTTP.
    /// Absent: no file.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub record: Option<PathBuf>,
    /// Steps that run before the server reads its input.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub start: Vec<Step>,
    /// Steps that replace the default response. A key is `"<method> <name, uri or task id>"`,
    /// `"<method>"` or `"*"` (any request, but no notification); the most specific key wins.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub on: BTreeMap<String, Vec<Step>>,
    /// Steps that run when the client has closed its end of the connection. The server exits with
    /// code 0 after these steps.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub on_eof: Vec<Step>,
}

/// The protocol era that a server supports: legacy up to revision 2025-11-25, modern from
/// 2026-07-28.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Era {
    /// `initialize` is supported; `server/discover` is an unknown method.
    #[default]
    Legacy,
    /// Every request must carry its protocol version in `_meta`; `initialize` and `ping` are
    /// unknown methods.
    Modern,
    /// A request with a protocol version in `_meta`, or `server/discover`, is handled by the rules
    /// of the modern era, any other request by those of the legacy era.
    Both,
    /// Like `Legacy`, but exits with code 1 when it receives `server/discover`.
    LegacyExitsOnProbe,
    /// Like `Legacy`, but sends no response to `server/discover`.
    LegacySilentOnProbe,
}

/// How a server forms the cursors between the pages of a list.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Cursors {
    /// A different cursor for each page. The last page has no cursor.
    #[default]
    Plain,
    /// The first cursor is the empty string, which is a valid cursor.
    EmptyFirst,
    /// Every page, also the second one, returns the cursor of the second page, so the list never
    /// ends.
    Loop,
    /// Every page has a new cursor, so the list never ends. The pages after the last entry are
    /// empty.
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
    /// A well-behaved server of the legacy era without tools.
    pub fn legacy() -> Self {
        Self::default()
    }

    /// A well-behaved server of the modern era without tools.
    pub fn modern() -> Self {
        Self::of_era(Era::Modern)
    }

    /// A well-behaved server of the given era without tools.
    pub fn of_era(era: Era) -> Self {
        Self {
            era,
            ..Self::default()
        }
    }

    /// Adds a well-formed tool; [`tool`] lists the names with built-in behaviour.
    pub fn tool(self, name: &str) -> Self {
        self.raw_tool(tool(name))
    }

    /// Adds a tool definition that is sent verbatim, even if malformed.
    pub fn raw_tool(mut self, tool: Value) -> Self {
        self.tools.push(tool);
        self
    }

    /// Replaces the default response to the messages that match `key`;
    /// [`Script::on`](field@Self::on) lists the forms of a key.
    pub fn on(mut self, key: &str, steps: impl IntoIterator<Item = Step>) -> Self {
        self.on.insert(key.to_owned(), steps.into_iter().collect());
        self
    }

    /// Sets the steps that run before the server reads its input.
    pub fn on_start(mut self, steps: impl IntoIterator<Item = Step>) -> Self {
        self.start = steps.into_iter().collect();
        self
    }

    /// Sets the steps that run after the client closed its end of the connection.
    pub fn on_eof(mut self, steps: impl IntoIterator<Item = Step>) -> Self {
        self.on_eof = steps.into_iter().collect();
        self
    }

    /// Splits every list into pages of at most `page_size` entries.
    pub fn paged(mut self, page_size: usize, cursors: Cursors) -> Self {
        self.page_size = Some(page_size);
        self.cursors = cursors;
        self
    }

    /// Makes the server handle requests one after the other.
    pub fn serial(mut self) -> Self {
        self.serial = true;
        self
    }

    /// Makes the server append each line that it receives to this file.
    pub fn record(mut self, path: impl Into<PathBuf>) -> Self {
        self.record = Some(path.into());
        self
    }

    /// Sets the instructions that the server sends for the model.
    pub fn instructions(mut self, text: &str) -> Self {
        self.instructions = Some(text.to_owned());
        self
    }
}

/// Parsing and serialization.
impl Script {
    /// Parses a script. If the JSON has no `capabilities`, the script gets the capabilities of its
    /// resources, prompts, completions and tasks.
    pub fn from_json(text: &str) -> Result<Self, serde_json::Error> {
        let script: Self = serde_json::from_str(text)?;
        let written: Value = serde_json::from_str(text)?;
        Ok(match written.get("capabilities") {
            Some(_) => script,
            None => script.declare_capabilities(),
        })
    }

    /// The script as JSON on one line, the argument of the `scripted-server` binary.
    pub fn to_json(&self) -> String {
        serde_json::to_string(self).expect("a script is always valid JSON")
    }

    /// The key and the steps of the most specific entry of `on` that matches a message. `subject`
    /// is the name, URI or task id in the message; `fallback` is the key to try last.
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

    /// The first step, at any depth, that works only in a child process; `None` if the script can
    /// also run in memory.
    pub(crate) fn first_process_step(&self) -> Option<&Step> {
        std::iter::once(&self.start)
            .chain(self.on.values())
            .chain(std::iter::once(&self.on_eof))
            .find_map(|steps| steps.iter().find_map(Step::first_process_step))
    }
}
