//! Dispatches JSON-RPC methods to a server that is called directly.
//!
//! Invariant: if the server panics or does not return during a request, only this request fails.

use std::collections::{BTreeMap, HashMap};
use std::panic::AssertUnwindSafe;
use std::str::FromStr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures_util::FutureExt;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::value::{RawValue, to_raw_value};
use serde_json::{Map, Value, json};
use switchboard_wire::mcp::{
    CallToolResult, Era, ErrorObject, Json, Progress, ProtocolVersion, ServerCapabilities,
    ToolDefinition,
};
use switchboard_wire::schema::{CompiledSchema, Validation};
use switchboard_wire::sync::lock;
use switchboard_wire::{BoxFuture, LocalCall, LocalServer, ProgressSink};
use tokio::sync::mpsc;
use tokio::task::{consume_budget, unconstrained};

use super::in_flight::InFlightGuard;
use super::jsonrpc::{self, Request};
use super::notifications::ResourceSubscriptions;
use super::timeout_error;

/// Capacity of the channel with the progress of one call. If it is full, progress is dropped.
const PROGRESS_BACKLOG: usize = 32;

type MethodResult = Result<Box<RawValue>, ErrorObject>;

pub(super) struct Dispatcher {
    server: Arc<dyn LocalServer>,
    /// The compiled input schemas by tool name, each with the JSON from which it was compiled.
    /// Entries of removed tools are dropped when another schema is compiled.
    schemas: Mutex<HashMap<String, (Json, Arc<CompiledSchema>)>>,
    subscriptions: Arc<ResourceSubscriptions>,
    server_messages: mpsc::Sender<Json>,
    call_timeout: Duration,
}

impl Dispatcher {
    pub(super) fn new(
        server: &Arc<dyn LocalServer>,
        server_messages: mpsc::Sender<Json>,
        call_timeout: Duration,
    ) -> Self {
        Self {
            server: Arc::clone(server),
            schemas: Mutex::default(),
            subscriptions: Arc::default(),
            server_messages,
            call_timeout,
        }
    }

    pub(super) fn subscriptions(&self) -> &Arc<ResourceSubscriptions> {
        &self.subscriptions
    }

    /// Handles a request and returns its response. Returns `None` if the client cancels the
    /// request.
    pub(super) async fn respond(
        self: Arc<Self>,
        request: Request,
        mut in_flight: InFlightGuard,
    ) -> Option<Json> {
        let label = request_label(&request);
        let work = AssertUnwindSafe(self.dispatch(&request)).catch_unwind();
        // The timeout is polled outside tokio's coop budget. Otherwise a handler that uses up the
        // budget in every poll would starve the timeout.
        let timeout = unconstrained(tokio::time::sleep(self.call_timeout));
        let result = tokio::select! {
            biased;
            // This outcome can only be a cancellation: a server that is called directly has no
            // connection that could deliver a response or fail.
            Ok(_) = &mut in_flight.outcome => return None,
            result = work => result.unwrap_or_else(|_| {
                let why = format!("{label} panicked; this is a bug in the server");
                Err(ErrorObject::new(ErrorObject::INTERNAL, why))
            }),
            () = timeout => Err(timeout_error(&label, self.call_timeout)),
        };
        Some(match result {
            Ok(result) => jsonrpc::success(&request.id, &result),
            Err(error) => jsonrpc::failure(Some(&request.id), &error),
        })
    }

    async fn dispatch(&self, request: &Request) -> MethodResult {
        let capabilities = self.server.capabilities();
        let params = request.params.as_deref();
        match request.method.as_str() {
            "initialize" => self.initialize(&capabilities, params),
            "ping" => to_result(&json!({})),
            "tools/list" if capabilities.tools => {
                reject_cursor(params)?;
                listing("tools", &self.server.tools())
            }
            "tools/call" if capabilities.tools => self.call_tool(parse_params(params)?).await,
            "resources/list" if capabilities.resources => {
                reject_cursor(params)?;
                listing("resources", &self.server.resources())
            }
            "resources/templates/list" if capabilities.resources => {
                reject_cursor(params)?;
                listing("resourceTemplates", &self.server.resource_templates())
            }
            "resources/read" if capabilities.resources => {
                let ResourceParams { uri } = parse_params(params)?;
                to_result(&self.server.read_resource(&uri).await?)
            }
            "resources/subscribe" if capabilities.resources_subscribe => {
                let ResourceParams { uri } = parse_params(params)?;
                self.subscriptions.add(&uri)?;
                to_result(&json!({}))
            }
            "resources/unsubscribe" if capabilities.resources_subscribe => {
                let ResourceParams { uri } = parse_params(params)?;
                self.subscriptions.remove(&uri);
                to_result(&json!({}))
            }
            "prompts/list" if capabilities.prompts => {
                reject_cursor(params)?;
                listing("prompts", &self.server.prompts())
            }
            "prompts/get" if capabilities.prompts => {
                let GetPromptParams { name, arguments } = parse_params(params)?;
                let arguments = arguments.unwrap_or_default();
                to_result(&self.server.get_prompt(&name, &arguments).await?)
            }
            "logging/setLevel" if capabilities.logging => to_result(&json!({})),
            unknown => Err(ErrorObject::new(
                ErrorObject::METHOD_NOT_FOUND,
                format!("this server does not support {unknown}; see its capabilities"),
            )),
        }
    }

    fn initialize(
        &self,
        capabilities: &ServerCapabilities,
        params: Option<&RawValue>,
    ) -> MethodResult {
        let InitializeParams { protocol_version } = parse_params(params)?;
        let requested = ProtocolVersion::from_str(&protocol_version).ok();
        let version = requested
            .filter(|version| version.era() == Era::Legacy)
            .unwrap_or(ProtocolVersion::LATEST_LEGACY);
        let mut result = json!({
            "protocolVersion": version,
            "capabilities": capabilities_json(capabilities),
            "serverInfo": self.server.implementation(),
        });
        if let (Some(text), Some(members)) = (self.server.instructions(), result.as_object_mut()) {
            members.insert("instructions".to_owned(), text.into());
        }
        to_result(&result)
    }

    async fn call_tool(&self, params: CallToolParams) -> MethodResult {
        let CallToolParams {
            name,
            arguments,
            meta,
        } = params;
        let tools = self.server.tools();
        let Some(tool) = tools.iter().find(|tool| tool.name == name) else {
            return Err(ErrorObject::new(
                ErrorObject::INVALID_PARAMS,
                format!("tool {name} does not exist; list the tools again"),
            ));
        };
        let schema = self.schema_of(tool, &tools);
        let arguments = Value::Object(arguments.unwrap_or_default());
        if let Validation::Invalid(violations) = schema.validate(&arguments) {
            let violations: Vec<_> = violations.iter().map(ToString::to_string).collect();
            return to_result(&CallToolResult::error(format!(
                "{name} was not called, because its arguments do not match its input schema: {}. \
                 Correct them and call it again.",
                violations.join("; ")
            )));
        }
        let Value::Object(arguments) = arguments else {
            return Err(ErrorObject::new(
                ErrorObject::INVALID_PARAMS,
                "the arguments are not an object",
            ));
        };
        let (sender, progress) = mpsc::channel(PROGRESS_BACKLOG);
        let meta = meta.unwrap_or_default();
        let token = meta.get("progressToken").cloned();
        let sink: Option<&dyn ProgressSink> = token.as_ref().map(|_| &sender as _);
        let call = LocalCall::new(&name, &arguments, meta, sink);
        let work = self.server.call_tool(call);
        let result = match token {
            Some(token) => self.run_with_progress(work, progress, &token).await?,
            None => work.await?,
        };
        to_result(&result)
    }

    /// Runs a call and forwards its progress under the progress token of the client.
    async fn run_with_progress(
        &self,
        mut work: BoxFuture<'_, Result<CallToolResult, ErrorObject>>,
        mut progress: mpsc::Receiver<Progress>,
        token: &Value,
    ) -> Result<CallToolResult, ErrorObject> {
        loop {
            tokio::select! {
                biased;
                result = &mut work => {
                    for _ in 0..PROGRESS_BACKLOG {
                        let Ok(progress) = progress.try_recv() else { break };
                        self.send_progress(token, &progress);
                    }
                    return result;
                }
                // The progress channel is polled outside tokio's coop budget. Otherwise work that
                // uses up the budget in every poll would starve its own progress. The
                // `consume_budget` below keeps a tool that reports progress without pause from
                // starving other tasks.
                Some(progress) = unconstrained(progress.recv()) => {
                    self.send_progress(token, &progress);
                }
            }
            consume_budget().await;
        }
    }

    /// Sends a progress notification to the client. Drops it if the channel is full, because calls
    /// must not wait for the client to read progress.
    fn send_progress(&self, token: &Value, progress: &Progress) {
        let Ok(Value::Object(mut params)) = serde_json::to_value(progress) else {
            return;
        };
        params.insert("progressToken".to_owned(), token.clone());
        let message = jsonrpc::notification("notifications/progress", Some(params.into()));
        let _ = self.server_messages.try_send(message);
    }

    fn schema_of(&self, tool: &ToolDefinition, all: &[ToolDefinition]) -> Arc<CompiledSchema> {
        let mut schemas = lock(&self.schemas);
        if let Some((text, schema)) = schemas.get(&tool.name)
            && *text == tool.input_schema
        {
            return Arc::clone(schema);
        }
        schemas.retain(|name, _| all.iter().any(|tool| tool.name == *name));
        let schema = Arc::new(CompiledSchema::new(tool.input_schema.clone()));
        let entry = (tool.input_schema.clone(), Arc::clone(&schema));
        schemas.insert(tool.name.clone(), entry);
        schema
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct InitializeParams {
    #[serde(default)]
    protocol_version: String,
}

#[derive(Deserialize)]
struct CallToolParams {
    name: String,
    #[serde(default)]
    arguments: Option<Map<String, Value>>,
    #[serde(default, rename = "_meta")]
    meta: Option<Map<String, Value>>,
}

#[derive(Deserialize)]
struct ResourceParams {
    uri: String,
}

#[derive(Deserialize)]
struct GetPromptParams {
    name: String,
    #[serde(default)]
    arguments: Option<BTreeMap<String, String>>,
}

#[derive(Default, Deserialize)]
struct ListParams {
    #[serde(default)]
    cursor: Option<String>,
}

fn to_result(result: &impl serde::Serialize) -> MethodResult {
    to_raw_value(result).map_err(|error| jsonrpc::serialization_error(&error))
}

/// The result of a list request. Serializes the items directly and not through a `Value`, so that
/// schemas keep their exact JSON text.
fn listing(key: &str, items: &impl serde::Serialize) -> MethodResult {
    to_result(&BTreeMap::from([(key, items)]))
}

fn parse_params<T: DeserializeOwned>(params: Option<&RawValue>) -> Result<T, ErrorObject> {
    let text = params.map_or("{}", RawValue::get);
    serde_json::from_str(text).map_err(|error| {
        let why = format!("invalid params: {error}");
        ErrorObject::new(ErrorObject::INVALID_PARAMS, why)
    })
}

/// Fails if a list request has a cursor. All listings have one page, so no cursor is valid.
fn reject_cursor(params: Option<&RawValue>) -> Result<(), ErrorObject> {
    match parse_params(params)? {
        ListParams { cursor: None } => Ok(()),
        ListParams { cursor: Some(_) } => Err(ErrorObject::new(
            ErrorObject::INVALID_PARAMS,
            "invalid cursor: listings have one page; list without a cursor",
        )),
    }
}

fn capabilities_json(capabilities: &ServerCapabilities) -> Value {
    let mut all = Map::new();
    let mut add = |is_supported: bool, name: &str, flags: &[(&str, bool)]| {
        if is_supported {
            let enabled = flags.iter().filter(|(_, is_enabled)| *is_enabled);
            let enabled = enabled.map(|(flag, _)| ((*flag).to_owned(), true.into()));
            all.insert(name.to_owned(), Value::Object(enabled.collect()));
        }
    };
    let list_changed = "listChanged";
    add(
        capabilities.tools,
        "tools",
        &[(list_changed, capabilities.tools_list_changed)],
    );
    add(
        capabilities.resources,
        "resources",
        &[
            (list_changed, capabilities.resources_list_changed),
            ("subscribe", capabilities.resources_subscribe),
        ],
    );
    add(
        capabilities.prompts,
        "prompts",
        &[(list_changed, capabilities.prompts_list_changed)],
    );
    add(capabilities.logging, "logging", &[]);
    Value::Object(all)
}

/// What error messages call a request: the tool for `tools/call`, otherwise the method.
fn request_label(request: &Request) -> String {
    #[derive(Deserialize)]
    struct NamedParams {
        name: String,
    }
    match request.method.as_str() {
        "tools/call" => match parse_params(request.params.as_deref()) {
            Ok(NamedParams { name }) => format!("tool {name}"),
            Err(_) => request.method.clone(),
        },
        method => method.to_owned(),
    }
}
