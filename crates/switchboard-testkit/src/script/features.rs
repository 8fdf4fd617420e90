//! What a scripted server offers besides tools: resources, templates, prompts and completions, as data.
//!
//! Like tools they are sent as they stand, malformed ones too. A few members are for the server alone and
//! are never listed: `text`, `blob`, `contents` and `changes` of a resource, `text` of a template,
//! `messages` of a prompt.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::{Era, Script};

/// What a server suggests for one argument of a prompt, or for one variable of a template.
///
/// Of several for the same argument all count whose context fits.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Completion {
    /// The name of the prompt, or the template as it is listed.
    pub of: String,
    /// The argument or variable.
    pub argument: String,
    /// What is suggested, as far as it begins with what was typed.
    pub values: Vec<String>,
    /// Counts only if the client says in `context.arguments` that these have these values.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub context: BTreeMap<String, String>,
}

/// How a modern server treats a `subscriptions/listen`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase", deny_unknown_fields)]
pub struct ListenOptions {
    /// A filter like that of the request: what is not in it is not acknowledged. Absent: all is that the
    /// capabilities promise.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub honours: Option<Value>,
    /// Ends each one after so many notifications, the acknowledgement not counted. Absent: never.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ends_after: Option<u64>,
    /// How it ends then. Default `dropped`.
    pub ending: ListenEnding,
}

/// How the tasks of a server go on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase", deny_unknown_fields)]
pub struct TaskOptions {
    /// How often a client shall ask, in milliseconds; null says nothing. Default 1000.
    pub poll_ms: Option<u64>,
    /// After how many milliseconds a task is forgotten; null: never. A legacy client may say otherwise.
    /// Default null.
    pub ttl_ms: Option<u64>,
    /// A step takes as long as `pollMs`, and whoever wants to know is told of each. Default false: a step
    /// is made each time the client asks.
    pub by_time: bool,
}

impl Default for TaskOptions {
    fn default() -> Self {
        Self {
            poll_ms: Some(1000),
            ttl_ms: None,
            by_time: false,
        }
    }
}

/// How a server ends a `subscriptions/listen`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum ListenEnding {
    /// Over HTTP the stream ends without an answer; over lines nothing more is said.
    #[default]
    Dropped,
    /// With the answer to the request.
    Result,
    /// With `notifications/cancelled`.
    Cancelled,
}

/// Many notifications at once.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Flood {
    /// The resource that is said to be updated. Absent: the resources are said to have changed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub uri: Option<String>,
    /// What is said instead.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub method: Option<String>,
    /// How often.
    pub count: u64,
    /// How often a second; absent: as fast as it is read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub per_second: Option<u64>,
}

impl Flood {
    /// So many times, as fast as it is read, that this resource is updated.
    pub fn of_updates(uri: &str, count: u64) -> Self {
        Self {
            uri: Some(uri.to_owned()),
            method: None,
            count,
            per_second: None,
        }
    }

    /// So many times, as fast as it is read, a notification without parameters.
    pub fn of(method: &str, count: u64) -> Self {
        Self {
            uri: None,
            method: Some(method.to_owned()),
            count,
            per_second: None,
        }
    }

    /// So many a second.
    pub fn per_second(self, rate: u64) -> Self {
        Self {
            per_second: Some(rate),
            ..self
        }
    }
}

/// Making offers in Rust. Each adds the capability that goes with it, unless there is one already.
impl Script {
    /// Adds the well-formed text resource of that address, see [`resource`].
    pub fn resource(self, uri: &str, text: &str) -> Self {
        self.raw_resource(resource(uri, text))
    }

    /// Adds a resource of bytes, given in Base64.
    pub fn blob(self, uri: &str, mime_type: &str, base64: &str) -> Self {
        let name = name_of(uri);
        self.raw_resource(json!({"uri": uri, "name": name, "mimeType": mime_type, "blob": base64}))
    }

    /// Adds a text resource that ends with a number, one more each time it is read.
    pub fn counter(self, uri: &str) -> Self {
        let mut counter = resource(uri, "count");
        insert(&mut counter, "changes", json!("onRead"));
        self.raw_resource(counter)
    }

    /// Adds a text resource that ends with a number, one more each time so many milliseconds are over;
    /// whoever is subscribed is told.
    pub fn clock(self, uri: &str, every_ms: u64) -> Self {
        let mut clock = resource(uri, "tick");
        insert(&mut clock, "changes", json!({"everyMs": every_ms}));
        self.raw_resource(clock)
    }

    /// Adds a resource that is listed as it stands. `text` or `blob` is what it holds; `contents` is what
    /// `resources/read` answers, as it stands; `changes` is `"onRead"` or `{"everyMs": n}`.
    pub fn raw_resource(mut self, resource: Value) -> Self {
        self.resources.push(resource);
        self.declare_offers()
    }

    /// Adds a template; what it stands for is read as a text that names the variables.
    pub fn resource_template(self, template: &str) -> Self {
        let name = name_of(template);
        self.raw_template(json!({"uriTemplate": template, "name": name, "mimeType": "text/plain"}))
    }

    /// Adds a template that is listed as it stands. `text`, with its variables filled in, is what it holds.
    pub fn raw_template(mut self, template: Value) -> Self {
        self.resource_templates.push(template);
        self.declare_offers()
    }

    /// Adds the well-formed prompt of that name, see [`prompt`].
    pub fn prompt(self, name: &str) -> Self {
        self.raw_prompt(prompt(name))
    }

    /// Adds a prompt that is listed as it stands. `messages`, with the arguments filled in, is what
    /// `prompts/get` answers.
    pub fn raw_prompt(mut self, prompt: Value) -> Self {
        self.prompts.push(prompt);
        self.declare_offers()
    }

    /// Suggests values for an argument of a prompt, or a variable of a template.
    pub fn completion<'a>(
        self,
        of: &str,
        argument: &str,
        values: impl IntoIterator<Item = &'a str>,
    ) -> Self {
        self.completion_when(of, argument, [], values)
    }

    /// Suggests values where other arguments have these values.
    pub fn completion_when<'a>(
        mut self,
        of: &str,
        argument: &str,
        context: impl IntoIterator<Item = (&'a str, &'a str)>,
        values: impl IntoIterator<Item = &'a str>,
    ) -> Self {
        let own = |text: &str| text.to_owned();
        self.completions.push(Completion {
            of: own(of),
            argument: own(argument),
            values: values.into_iter().map(own).collect(),
            context: context
                .into_iter()
                .map(|(name, value)| (own(name), own(value)))
                .collect(),
        });
        self.declare_offers()
    }

    /// Adds the tool `research`, which runs as a task where the client knows tasks: `topic`, `steps`, `ask`
    /// for input half way, and `fail` in the end. How often it ran is counted as `ran research`.
    pub fn research(self) -> Self {
        self.raw_tool(super::tool("research")).declare_offers()
    }

    /// Sets how tasks go on.
    pub fn tasking(mut self, tasking: TaskOptions) -> Self {
        self.tasking = tasking;
        self
    }

    /// Resources cannot be subscribed to.
    pub fn without_subscribe(mut self) -> Self {
        if let Some(Value::Object(resources)) = self.capabilities.get_mut("resources") {
            resources.remove("subscribe");
        }
        self
    }

    /// Acknowledges of a `subscriptions/listen` only what is in this filter.
    pub fn accepting_only(mut self, filter: Value) -> Self {
        self.listening.honours = Some(filter);
        self
    }

    /// Ends each `subscriptions/listen` after so many notifications.
    pub fn end_listen_after(mut self, notifications: u64, ending: ListenEnding) -> Self {
        self.listening.ends_after = Some(notifications);
        self.listening.ending = ending;
        self
    }

    /// Adds the capabilities that go with what is offered, where there are none of that name.
    pub(super) fn declare_offers(mut self) -> Self {
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

/// A well-formed resource of text.
pub fn resource(uri: &str, text: &str) -> Value {
    json!({
        "uri": uri,
        "name": name_of(uri),
        "description": format!("The scripted resource {uri}."),
        "mimeType": "text/plain",
        "text": text,
    })
}

/// A well-formed prompt. `greet` takes a `name` and, if wanted, a `style`; `picture` answers with an image
/// and an embedded resource; any other takes nothing and answers with one text.
pub fn prompt(name: &str) -> Value {
    /// A picture of one pixel.
    const PIXEL: &str = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAQAAAC1HAwCAAAAC0lEQVR42mNk+A8AAQUBAScY42YAAAAASUVORK5CYII=";
    let say = |role: &str, content: Value| json!({"role": role, "content": content});
    let text = |text: &str| json!({"type": "text", "text": text});
    let (arguments, messages) = match name {
        "greet" => (
            json!([
                {"name": "name", "description": "Who is greeted.", "required": true},
                {"name": "style", "description": "How.", "required": false},
            ]),
            json!([
                say("user", text("Greet {name} in this style: {style}")),
                say("assistant", text("Hello, {name}!")),
            ]),
        ),
        "picture" => (
            json!([]),
            json!([
                say(
                    "user",
                    json!({"type": "image", "data": PIXEL, "mimeType": "image/png"})
                ),
                say(
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
            json!([say("user", text(&format!("The scripted prompt {name}.")))]),
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

fn name_of(uri: &str) -> &str {
    uri.rsplit('/').next().unwrap_or(uri)
}

fn insert(object: &mut Value, key: &str, value: Value) {
    if let Value::Object(object) = object {
        object.insert(key.to_owned(), value);
    }
}
