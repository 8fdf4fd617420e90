//! The protocol, answered for a server that is called directly.
//!
//! Invariant: what the server itself does wrong (a panic, an answer that never comes) costs the one
//! request.

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
use tokio::sync::mpsc;
use tokio::task::{consume_budget, unconstrained};

use super::flights::Ticket;
use super::message::{self, Request};
use super::notices::Subscriptions;
use super::too_late;
use crate::call::arguments::{Checked, CompiledSchema};
use crate::call::list;
use crate::interact::BoxFuture;
use crate::mcp::{
    CallToolResult, Era, ErrorObject, Json, Progress, ProtocolVersion, ServerCapabilities, Tool,
};
use crate::sync::lock;
use crate::transport::memory::{LocalCall, LocalServer};

/// How many notes on how far a call has come may wait until they are passed on.
const NOTES: usize = 32;

type Outcome = Result<Box<RawValue>, ErrorObject>;

pub(super) struct Local {
    server: Arc<dyn LocalServer>,
    /// Schemas that were used, by tool; as many as there are tools.
    schemas: Mutex<HashMap<String, (Json, Arc<CompiledSchema>)>>,
    subscriptions: Arc<Subscriptions>,
    unasked: mpsc::Sender<Json>,
    call_timeout: Duration,
}

impl Local {
    pub(super) fn new(
        server: &Arc<dyn LocalServer>,
        unasked: mpsc::Sender<Json>,
        call_timeout: Duration,
    ) -> Self {
        Self {
            server: Arc::clone(server),
            schemas: Mutex::default(),
            subscriptions: Arc::default(),
            unasked,
            call_timeout,
        }
    }

    pub(super) fn subscriptions(&self) -> &Arc<Subscriptions> {
        &self.subscriptions
    }

    /// Answers a request, unless it is cancelled before.
    pub(super) async fn answer(
        self: Arc<Self>,
        request: Request,
        mut ticket: Ticket,
    ) -> Option<Json> {
        let what = describe(&request);
        let work = AssertUnwindSafe(self.respond(&request)).catch_unwind();
        // Work that always uses up its share of the thread would leave the clock none to look with.
        let time_is_up = unconstrained(tokio::time::sleep(self.call_timeout));
        let outcome = tokio::select! {
            biased;
            // Whatever a server that is called directly is told from outside, it is that nobody waits.
            Ok(_) = &mut ticket.signal => return None,
            outcome = work => outcome.unwrap_or_else(|_| {
                let why = format!("{what} panicked: this is a defect of the server");
                Err(ErrorObject::new(ErrorObject::INTERNAL, why))
            }),
            () = time_is_up => Err(too_late(&what, self.call_timeout)),
        };
        Some(match outcome {
            Ok(result) => message::success(&request.id, &result),
            Err(error) => message::failure(Some(&request.id), &error),
        })
    }

    async fn respond(&self, request: &Request) -> Outcome {
        let offers = self.server.capabilities();
        let params = request.params.as_deref();
        match request.method.as_str() {
            "initialize" => self.hello(&offers, params),
            "ping" => raw(&json!({})),
            "tools/list" if offers.tools => {
                one_page(params)?;
                listing("tools", &self.server.tools())
            }
            "tools/call" if offers.tools => self.call(read(params)?).await,
            "resources/list" if offers.resources => {
                one_page(params)?;
                listing("resources", &self.server.resources())
            }
            "resources/templates/list" if offers.resources => {
                one_page(params)?;
                listing("resourceTemplates", &self.server.resource_templates())
            }
            "resources/read" if offers.resources => {
                let Uri { uri } = read(params)?;
                raw(&self.server.read_resource(&uri).await?)
            }
            "resources/subscribe" if offers.resources_subscribe => {
                let Uri { uri } = read(params)?;
                self.subscriptions.add(&uri)?;
                raw(&json!({}))
            }
            "resources/unsubscribe" if offers.resources_subscribe => {
                let Uri { uri } = read(params)?;
                self.subscriptions.remove(&uri);
                raw(&json!({}))
            }
            "prompts/list" if offers.prompts => {
                one_page(params)?;
                listing("prompts", &self.server.prompts())
            }
            "prompts/get" if offers.prompts => {
                let Chosen { name, arguments } = read(params)?;
                let arguments = arguments.unwrap_or_default();
                raw(&self.server.get_prompt(&name, &arguments).await?)
            }
            "logging/setLevel" if offers.logging => raw(&json!({})),
            unknown => Err(ErrorObject::new(
                ErrorObject::METHOD_NOT_FOUND,
                format!("this server has no {unknown}: ask for what its capabilities name"),
            )),
        }
    }

    fn hello(&self, offers: &ServerCapabilities, params: Option<&RawValue>) -> Outcome {
        let Hello { protocol_version } = read(params)?;
        let asked = ProtocolVersion::from_str(&protocol_version).ok();
        let version = asked
            .filter(|version| version.era() == Era::Legacy)
            .unwrap_or(ProtocolVersion::LATEST_LEGACY);
        let mut hello = json!({
            "protocolVersion": version,
            "capabilities": capabilities(offers),
            "serverInfo": self.server.implementation(),
        });
        if let (Some(text), Some(members)) = (self.server.instructions(), hello.as_object_mut()) {
            members.insert("instructions".to_owned(), text.into());
        }
        raw(&hello)
    }

    async fn call(&self, wanted: Wanted) -> Outcome {
        let Wanted {
            name,
            arguments,
            meta,
        } = wanted;
        let tools = self.server.tools();
        let Some(tool) = tools.iter().find(|tool| tool.name == name) else {
            return Err(ErrorObject::new(
                ErrorObject::INVALID_PARAMS,
                format!("there is no tool {name}: list the tools to see what there is"),
            ));
        };
        let schema = self.schema_of(tool, &tools);
        let arguments = Value::Object(arguments.unwrap_or_default());
        if let Checked::Violates(violations) = schema.check(&arguments) {
            return raw(&CallToolResult::error(format!(
                "{name} was not called: its arguments do not fit its input schema: {}. Correct them and \
                 call it again.",
                list(&violations)
            )));
        }
        let Value::Object(arguments) = arguments else {
            return Err(ErrorObject::new(ErrorObject::INVALID_PARAMS, "no object"));
        };
        let (notes, heard) = mpsc::channel(NOTES);
        let meta = meta.unwrap_or_default();
        let token = meta.get("progressToken").cloned();
        let call = LocalCall::new(&name, &arguments, meta, token.is_some().then_some(&notes));
        let result = self
            .report(self.server.call_tool(call), heard, token)
            .await?;
        raw(&result)
    }

    /// Waits for a call, and says meanwhile how far it has come.
    async fn report(
        &self,
        mut work: BoxFuture<'_, Result<CallToolResult, ErrorObject>>,
        mut heard: mpsc::Receiver<Progress>,
        token: Option<Value>,
    ) -> Result<CallToolResult, ErrorObject> {
        let Some(token) = token else {
            return work.await;
        };
        loop {
            tokio::select! {
                biased;
                result = &mut work => {
                    for _ in 0..NOTES {
                        let Ok(note) = heard.try_recv() else { break };
                        self.pass_on(&token, &note);
                    }
                    return result;
                }
                // Heard however much the work does, and whoever reports without end is stopped all the
                // same.
                Some(note) = unconstrained(heard.recv()) => self.pass_on(&token, &note),
            }
            consume_budget().await;
        }
    }

    /// Whoever is slow to listen misses a note: no call waits for that.
    fn pass_on(&self, token: &Value, note: &Progress) {
        let Ok(Value::Object(mut params)) = serde_json::to_value(note) else {
            return;
        };
        params.insert("progressToken".to_owned(), token.clone());
        let message = message::notification("notifications/progress", Some(params.into()));
        let _ = self.unasked.try_send(message);
    }

    fn schema_of(&self, tool: &Tool, all: &[Tool]) -> Arc<CompiledSchema> {
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
struct Hello {
    #[serde(default)]
    protocol_version: String,
}

#[derive(Deserialize)]
struct Wanted {
    name: String,
    #[serde(default)]
    arguments: Option<Map<String, Value>>,
    #[serde(default, rename = "_meta")]
    meta: Option<Map<String, Value>>,
}

#[derive(Deserialize)]
struct Uri {
    uri: String,
}

#[derive(Deserialize)]
struct Chosen {
    name: String,
    #[serde(default)]
    arguments: Option<BTreeMap<String, String>>,
}

#[derive(Default, Deserialize)]
struct Listing {
    #[serde(default)]
    cursor: Option<String>,
}

fn raw(result: &impl serde::Serialize) -> Outcome {
    to_raw_value(result).map_err(|error| {
        let why = format!("the answer cannot be written as JSON: {error}");
        ErrorObject::new(ErrorObject::INTERNAL, why)
    })
}

/// Not by way of a tree, so that schemas stay as they are, order included.
fn listing(name: &str, all: &impl serde::Serialize) -> Outcome {
    raw(&BTreeMap::from([(name, all)]))
}

fn read<T: DeserializeOwned>(params: Option<&RawValue>) -> Result<T, ErrorObject> {
    let text = params.map_or("{}", RawValue::get);
    serde_json::from_str(text).map_err(|error| {
        let why = format!("the parameters do not fit: {error}");
        ErrorObject::new(ErrorObject::INVALID_PARAMS, why)
    })
}

/// All listings have one page: who asks for another made its cursor up.
fn one_page(params: Option<&RawValue>) -> Result<(), ErrorObject> {
    match read(params)? {
        Listing { cursor: None } => Ok(()),
        Listing { cursor: Some(_) } => Err(ErrorObject::new(
            ErrorObject::INVALID_PARAMS,
            "there is no such page: ask without a cursor",
        )),
    }
}

fn capabilities(offers: &ServerCapabilities) -> Value {
    let mut all = Map::new();
    let mut offer = |is_there: bool, name: &str, switches: &[(&str, bool)]| {
        if is_there {
            let on = switches.iter().filter(|(_, is_on)| *is_on);
            let on = on.map(|(switch, _)| ((*switch).to_owned(), true.into()));
            all.insert(name.to_owned(), Value::Object(on.collect()));
        }
    };
    let changes = "listChanged";
    offer(
        offers.tools,
        "tools",
        &[(changes, offers.tools_list_changed)],
    );
    offer(
        offers.resources,
        "resources",
        &[
            (changes, offers.resources_list_changed),
            ("subscribe", offers.resources_subscribe),
        ],
    );
    offer(
        offers.prompts,
        "prompts",
        &[(changes, offers.prompts_list_changed)],
    );
    offer(offers.logging, "logging", &[]);
    Value::Object(all)
}

/// What was asked for, to be named when it goes wrong.
fn describe(request: &Request) -> String {
    #[derive(Deserialize)]
    struct Named {
        name: String,
    }
    match request.method.as_str() {
        "tools/call" => match read(request.params.as_deref()) {
            Ok(Named { name }) => format!("the tool {name}"),
            Err(_) => request.method.clone(),
        },
        method => method.to_owned(),
    }
}
