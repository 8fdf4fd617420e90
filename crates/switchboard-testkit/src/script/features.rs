//! The features of a scripted server other than tools: resources, templates, prompts, completions
//! and tasks, as data.
//!
//! Entries are sent verbatim in lists, even if malformed. The exception are members that tell the
//! server what content to return: `text`, `blob`, `contents` and `changes` of a resource, `text` of
//! a template, `messages` of a prompt. These members are not sent.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::{Era, Script};

/// The values that a server suggests for one prompt argument or one template variable.
///
/// If several completions match an argument and its context, the response contains the values of
/// all of them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Completion {
    /// The name of the prompt, or the URI template.
    pub of: String,
    /// The prompt argument or template variable.
    pub argument: String,
    /// The candidates. The response contains those that start with the text that the user has
    /// typed.
    pub values: Vec<String>,
    /// Argument values that `context.arguments` of the request must contain for this completion to
    /// apply. Empty: always applies.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub context: BTreeMap<String, String>,
}

/// How a server of the modern era handles `subscriptions/listen`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase", deny_unknown_fields)]
pub struct ListenOptions {
    /// A filter in the format of `subscriptions/listen`. The server acknowledges only requested
    /// members that are also in this filter. Absent: it acknowledges every requested member that
    /// its capabilities declare.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub accepted_filter: Option<Value>,
    /// Ends each listen request after this many notifications, not counting the acknowledgement.
    /// Absent: never.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ends_after: Option<u64>,
    /// How a listen request ends after `endsAfter` notifications. Default `dropped`.
    pub ending: ListenEnding,
}

/// How the tasks of a server advance and expire.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase", deny_unknown_fields)]
pub struct TaskOptions {
    /// The poll interval that the server suggests to the client, in milliseconds; null omits it.
    /// Default 1000.
    pub poll_ms: Option<u64>,
    /// The lifetime of a task from its creation, in milliseconds; null: unlimited. A client of the
    /// legacy era may request another lifetime. Default null.
    pub ttl_ms: Option<u64>,
    /// If true, each step of a task takes `pollMs` milliseconds, and the server sends a status
    /// notification after each step. If false, a task advances one step per poll. Default false.
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
    /// Over HTTP, the server ends the event stream without a response. Over stdio, it sends nothing
    /// more for this request.
    #[default]
    Dropped,
    /// The server sends a result as the response to the `subscriptions/listen` request.
    Result,
    /// The server sends `notifications/cancelled` with the id of the `subscriptions/listen`
    /// request.
    Cancelled,
}

/// The same notification, sent many times to the clients that
/// [`CatalogHandle::announce`](crate::CatalogHandle::announce) selects.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Flood {
    /// The URI in the parameters of the notification. Absent: no parameters. If `method` is absent,
    /// a flood with a URI sends `notifications/resources/updated`, and a flood without one sends
    /// `notifications/resources/list_changed`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub uri: Option<String>,
    /// The method of the notification. Absent: the method that follows from `uri`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub method: Option<String>,
    /// The number of notifications.
    pub count: u64,
    /// Maximum number of notifications per second. Absent: as fast as the client reads.
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

    /// Sends a notification of this method without parameters `count` times, as fast as the client
    /// reads.
    pub fn of(method: &str, count: u64) -> Self {
        Self {
            uri: None,
            method: Some(method.to_owned()),
            count,
            per_second: None,
        }
    }

    /// Limits the flood to `rate` notifications per second.
    pub fn per_second(self, rate: u64) -> Self {
        Self {
            per_second: Some(rate),
            ..self
        }
    }
}

/// Builder methods for features. A method that adds a feature also adds the matching capability if
/// it is missing.
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

    /// Adds a text resource whose content ends with a counter. Each read increments the counter.
    pub fn counter(self, uri: &str) -> Self {
        let mut counter = resource(uri, "count");
        insert(&mut counter, "changes", json!("onRead"));
        self.raw_resource(counter)
    }

    /// Adds a text resource whose content ends with a counter. The counter is incremented and
    /// subscribers are notified every `every_ms` milliseconds.
    pub fn clock(self, uri: &str, every_ms: u64) -> Self {
        let mut clock = resource(uri, "tick");
        insert(&mut clock, "changes", json!({"everyMs": every_ms}));
        self.raw_resource(clock)
    }

    /// Adds a resource whose members are sent verbatim, except those that define its content.
    /// `text` or `blob` is the content; `contents` is sent verbatim in the result of
    /// `resources/read`; `changes` is `"onRead"` or `{"everyMs": n}` and appends a counter to the
    /// text.
    pub fn raw_resource(mut self, resource: Value) -> Self {
        self.resources.push(resource);
        self.declare_capabilities()
    }

    /// Adds a template. The content of a matching URI lists the values of the template's variables.
    pub fn resource_template(self, template: &str) -> Self {
        let name = last_segment(template);
        self.raw_template(json!({"uriTemplate": template, "name": name, "mimeType": "text/plain"}))
    }

    /// Adds a template whose members are sent verbatim, except `text`. `text`, with the template's
    /// variables filled in, is the content of a matching URI.
    pub fn raw_template(mut self, template: Value) -> Self {
        self.resource_templates.push(template);
        self.declare_capabilities()
    }

    /// Adds a well-formed prompt, see [`prompt`].
    pub fn prompt(self, name: &str) -> Self {
        self.raw_prompt(prompt(name))
    }

    /// Adds a prompt whose members are sent verbatim, except `messages`. `messages`, with the
    /// arguments filled in, is the result of `prompts/get`.
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

    /// Suggests values only if the other arguments in the request have the values of `context`.
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

    /// Adds the tool `research`, which runs as a task if the client supports tasks. The arguments
    /// of the tool are `topic`, `steps`, `ask` (requests input half way) and `fail` (ends with an
    /// error). Each run increments the counter `ran research`.
    pub fn research(self) -> Self {
        self.raw_tool(super::tool("research"))
            .declare_capabilities()
    }

    /// Sets how tasks advance and expire.
    pub fn task_options(mut self, task_options: TaskOptions) -> Self {
        self.task_options = task_options;
        self
    }

    /// Removes `subscribe` from the `resources` capability.
    pub fn without_subscribe(mut self) -> Self {
        if let Some(Value::Object(resources)) = self.capabilities.get_mut("resources") {
            resources.remove("subscribe");
        }
        self
    }

    /// Makes the server acknowledge only the members of this filter in a `subscriptions/listen`
    /// request.
    pub fn accepting_only(mut self, filter: Value) -> Self {
        self.listen_options.accepted_filter = Some(filter);
        self
    }

    /// Ends each `subscriptions/listen` request after this many notifications, in the way that
    /// `ending` says.
    pub fn end_listen_after(mut self, notifications: u64, ending: ListenEnding) -> Self {
        self.listen_options.ends_after = Some(notifications);
        self.listen_options.ending = ending;
        self
    }

    /// Adds the capabilities that the resources, prompts, completions and tasks of the script need
    /// and that are still missing.
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

/// A well-formed prompt. The name selects its content: `greet` takes a `name` and an optional
/// `style`; `picture` returns an image and an embedded resource; any other name takes no arguments
/// and returns one text.
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
