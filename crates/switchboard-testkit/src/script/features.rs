//! The features of a scripted server other than tools: resources, templates, prompts, completions
//! and tasks, as data.
//!
//! Entries are sent verbatim, even if malformed. Some members are private to the server and never
//! listed: `text`, `blob`, `contents` and `changes` of a resource, `text` of a template, `messages`
//! of a prompt.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::{Era, Script};

/// The values that a server suggests for one prompt argument or one template variable.
///
/// If several completions match an argument and its context, their values are combined.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Completion {
    /// The name of the prompt, or the URI template.
    pub of: String,
    /// The prompt argument or template variable.
    pub argument: String,
    /// The candidates; only those that start with the typed text are sent.
    pub values: Vec<String>,
    /// Applies only if `context.arguments` of the request has these values.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub context: BTreeMap<String, String>,
}

/// How a modern server handles `subscriptions/listen`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase", deny_unknown_fields)]
pub struct ListenOptions {
    /// A filter in the format of the request: only its members are acknowledged. Absent: everything
    /// that the capabilities declare is acknowledged.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub accepted_filter: Option<Value>,
    /// Ends each listen request after this many notifications, not counting the acknowledgement.
    /// Absent: never.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ends_after: Option<u64>,
    /// How the listen request then ends. Default `dropped`.
    pub ending: ListenEnding,
}

/// How the tasks of a server advance and expire.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase", deny_unknown_fields)]
pub struct TaskOptions {
    /// The poll interval for the client in milliseconds; null omits it. Default 1000.
    pub poll_ms: Option<u64>,
    /// The lifetime of a task in milliseconds; null: unlimited. A legacy client may override it.
    /// Default null.
    pub ttl_ms: Option<u64>,
    /// If true, a step takes `pollMs` and the server sends a status notification after each step.
    /// If false, a task advances one step per poll. Default false.
    pub advance_by_time: bool,
}

impl Default for TaskOptions {
    fn default() -> Self {
        Self {
            poll_ms: Some(1000),
            ttl_ms: None,
            advance_by_time: false,
        }
    }
}

/// How a server ends a `subscriptions/listen` request.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum ListenEnding {
    /// Over HTTP the stream ends without a response; over stdio the server sends nothing more.
    #[default]
    Dropped,
    /// The server sends the response to the request.
    Result,
    /// The server sends `notifications/cancelled`.
    Cancelled,
}

/// A burst of notifications.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Flood {
    /// The resource in `notifications/resources/updated`. Absent: sends
    /// `notifications/resources/list_changed`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub uri: Option<String>,
    /// Sends this method instead.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub method: Option<String>,
    /// The number of notifications.
    pub count: u64,
    /// The rate per second. Absent: as fast as the client reads.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub per_second: Option<u64>,
}

impl Flood {
    /// Sends `notifications/resources/updated` for this URI `count` times, as fast as the client
    /// reads.
    pub fn of_updates(uri: &str, count: u64) -> Self {
        Self {
            uri: Some(uri.to_owned()),
            method: None,
            count,
            per_second: None,
        }
    }

    /// Sends a notification without parameters `count` times, as fast as the client reads.
    pub fn of(method: &str, count: u64) -> Self {
        Self {
            uri: None,
            method: Some(method.to_owned()),
            count,
            per_second: None,
        }
    }

    /// Limits the rate.
    pub fn per_second(self, rate: u64) -> Self {
        Self {
            per_second: Some(rate),
            ..self
        }
    }
}

/// Builder methods for features. Each adds the matching capability if it is missing.
impl Script {
    /// Adds a well-formed text resource, see [`resource`].
    pub fn resource(self, uri: &str, text: &str) -> Self {
        self.raw_resource(resource(uri, text))
    }

    /// Adds a binary resource; the data is Base64.
    pub fn blob(self, uri: &str, mime_type: &str, base64: &str) -> Self {
        let name = last_segment(uri);
        self.raw_resource(json!({"uri": uri, "name": name, "mimeType": mime_type, "blob": base64}))
    }

    /// Adds a text resource that ends with a counter, incremented on each read.
    pub fn counter(self, uri: &str) -> Self {
        let mut counter = resource(uri, "count");
        insert(&mut counter, "changes", json!("onRead"));
        self.raw_resource(counter)
    }

    /// Adds a text resource that ends with a counter, incremented every `every_ms` milliseconds.
    /// Subscribers are notified.
    pub fn clock(self, uri: &str, every_ms: u64) -> Self {
        let mut clock = resource(uri, "tick");
        insert(&mut clock, "changes", json!({"everyMs": every_ms}));
        self.raw_resource(clock)
    }

    /// Adds a resource that is listed verbatim. `text` or `blob` is its content; `contents` is the
    /// verbatim result of `resources/read`; `changes` is `"onRead"` or `{"everyMs": n}`.
    pub fn raw_resource(mut self, resource: Value) -> Self {
        self.resources.push(resource);
        self.declare_capabilities()
    }

    /// Adds a template whose content lists the values of its variables.
    pub fn resource_template(self, template: &str) -> Self {
        let name = last_segment(template);
        self.raw_template(json!({"uriTemplate": template, "name": name, "mimeType": "text/plain"}))
    }

    /// Adds a template that is listed verbatim. `text`, with its variables filled in, is its
    /// content.
    pub fn raw_template(mut self, template: Value) -> Self {
        self.resource_templates.push(template);
        self.declare_capabilities()
    }

    /// Adds a well-formed prompt, see [`prompt`].
    pub fn prompt(self, name: &str) -> Self {
        self.raw_prompt(prompt(name))
    }

    /// Adds a prompt that is listed verbatim. `messages`, with the arguments filled in, is the
    /// result of `prompts/get`.
    pub fn raw_prompt(mut self, prompt: Value) -> Self {
        self.prompts.push(prompt);
        self.declare_capabilities()
    }

    /// Suggests values for a prompt argument or a template variable.
    pub fn completion<'a>(
        self,
        of: &str,
        argument: &str,
        values: impl IntoIterator<Item = &'a str>,
    ) -> Self {
        self.completion_when(of, argument, [], values)
    }

    /// Suggests values if other arguments have the values of `context`.
    pub fn completion_when<'a>(
        mut self,
        of: &str,
        argument: &str,
        context: impl IntoIterator<Item = (&'a str, &'a str)>,
        values: impl IntoIterator<Item = &'a str>,
    ) -> Self {
        let owned = |text: &str| text.to_owned();
        self.completions.push(Completion {
            of: owned(of),
            argument: owned(argument),
            values: values.into_iter().map(owned).collect(),
            context: context
                .into_iter()
                .map(|(name, value)| (owned(name), owned(value)))
                .collect(),
        });
        self.declare_capabilities()
    }

    /// Adds the tool `research`, which runs as a task if the client supports tasks. Its arguments
    /// are `topic`, `steps`, `ask` (requests input half way) and `fail` (ends with an error). Each
    /// run counts as `ran research`.
    pub fn research(self) -> Self {
        self.raw_tool(super::tool("research"))
            .declare_capabilities()
    }

    /// Sets how tasks advance and expire.
    pub fn task_options(mut self, task_options: TaskOptions) -> Self {
        self.task_options = task_options;
        self
    }

    /// Removes the capability to subscribe to resources.
    pub fn without_subscribe(mut self) -> Self {
        if let Some(Value::Object(resources)) = self.capabilities.get_mut("resources") {
            resources.remove("subscribe");
        }
        self
    }

    /// Acknowledges only this filter of a `subscriptions/listen` request.
    pub fn accepting_only(mut self, filter: Value) -> Self {
        self.listen_options.accepted_filter = Some(filter);
        self
    }

    /// Ends each `subscriptions/listen` request after this many notifications.
    pub fn end_listen_after(mut self, notifications: u64, ending: ListenEnding) -> Self {
        self.listen_options.ends_after = Some(notifications);
        self.listen_options.ending = ending;
        self
    }

    /// Adds the missing capabilities for the resources, prompts, completions and tasks of the
    /// script.
    pub(super) fn declare_capabilities(mut self) -> Self {
        let has_resources = !self.resources.is_empty() || !self.resource_templates.is_empty();
        let mut tools = self.tools.iter();
        let has_tasks = tools.any(|tool| tool.get("name").is_some_and(|name| name == "research"));
        let is_legacy = self.era != Era::Modern;
        let is_modern = matches!(self.era, Era::Modern | Era::Both);
        for (is_offered, name, value) in [
            (
                has_resources,
                "resources",
                json!({"subscribe": true, "listChanged": true}),
            ),
            (
                !self.prompts.is_empty(),
                "prompts",
                json!({"listChanged": true}),
            ),
            (!self.completions.is_empty(), "completions", json!({})),
            (
                has_tasks && is_legacy,
                "tasks",
                json!({"list": {}, "cancel": {}, "requests": {"tools": {"call": {}}}}),
            ),
            (
                has_tasks && is_modern,
                "extensions",
                json!({"io.modelcontextprotocol/tasks": {}}),
            ),
        ] {
            if let (true, Value::Object(capabilities)) = (is_offered, &mut self.capabilities) {
                capabilities.entry(name.to_owned()).or_insert(value);
            }
        }
        self
    }
}

/// A well-formed text resource.
pub fn resource(uri: &str, text: &str) -> Value {
    json!({
        "uri": uri,
        "name": last_segment(uri),
        "description": format!("The scripted resource {uri}."),
        "mimeType": "text/plain",
        "text": text,
    })
}

/// A well-formed prompt. `greet` takes a `name` and an optional `style`; `picture` returns an image
/// and an embedded resource; any other name takes no arguments and returns one text.
pub fn prompt(name: &str) -> Value {
    /// A PNG of one pixel.
    const PIXEL: &str = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAQAAAC1HAwCAAAAC0lEQVR42mNk+A8AAQUBAScY42YAAAAASUVORK5CYII=";
    let message = |role: &str, content: Value| json!({"role": role, "content": content});
    let text = |text: &str| json!({"type": "text", "text": text});
    let (arguments, messages) = match name {
        "greet" => (
            json!([
                {"name": "name", "description": "The name of the person to greet.", "required": true},
                {"name": "style", "description": "The style of the greeting.", "required": false},
            ]),
            json!([
                message("user", text("Greet {name} in this style: {style}")),
                message("assistant", text("Hello, {name}!")),
            ]),
        ),
        "picture" => (
            json!([]),
            json!([
                message(
                    "user",
                    json!({"type": "image", "data": PIXEL, "mimeType": "image/png"})
                ),
                message(
                    "user",
                    json!({
                        "type": "resource",
                        "resource": {"uri": "demo://embedded", "mimeType": "text/plain", "text": "embedded"},
                    })
                ),
            ]),
        ),
        _ => (
            json!([]),
            json!([message(
                "user",
                text(&format!("The scripted prompt {name}."))
            )]),
        ),
    };
    json!({
        "name": name,
        "title": format!("Prompt {name}"),
        "description": format!("The scripted prompt {name}."),
        "arguments": arguments,
        "messages": messages,
    })
}

fn last_segment(uri: &str) -> &str {
    uri.rsplit('/').next().unwrap_or(uri)
}

fn insert(object: &mut Value, key: &str, value: Value) {
    if let Value::Object(object) = object {
        object.insert(key.to_owned(), value);
    }
}
