//! An `Interaction` that gives fixed answers and records requests, and scripted servers that send
//! such requests.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::{Value, json};
use switchboard::elicitation::{ElicitMode, ElicitResponse, Elicitation, Field};
use switchboard::id::ServerName;
use switchboard::interaction::{BoxFuture, ClientCapabilities, Root};
use switchboard::mcp::{Era, ErrorObject};
use switchboard::permission::{PermissionRequest, PermissionResponse};
use switchboard::sampling::{IncludeContext, SamplingRequest};
use switchboard::{Host, HostBuilder, Interaction, Readiness};
use switchboard_testkit::{MemoryServer, Script, Step};

use crate::common::{InMemory, permissive};

pub(crate) const ERAS: [Era; 2] = [Era::Legacy, Era::Modern];

/// An `Interaction` that records every request and gives a fixed answer after a delay.
#[derive(Clone)]
pub(crate) struct ScriptedInteraction {
    pub(crate) capabilities: ClientCapabilities,
    pub(crate) answer: ElicitResponse,
    pub(crate) delay: Duration,
    pub(crate) roots: Vec<Root>,
    pub(crate) recorded: Arc<Mutex<RecordedRequests>>,
}

#[derive(Default)]
pub(crate) struct RecordedRequests {
    elicitations: Vec<(String, ElicitMode)>,
    samplings: Vec<SamplingRecord>,
    open: usize,
    max_open: usize,
}

/// A recorded sampling request.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct SamplingRecord {
    pub(crate) server: String,
    pub(crate) max_tokens: u64,
    pub(crate) requested_max_tokens: Option<u64>,
    pub(crate) include_context: IncludeContext,
    pub(crate) has_tools: bool,
    pub(crate) system_prompt: Option<String>,
}

impl ScriptedInteraction {
    pub(crate) fn new(capabilities: ClientCapabilities) -> Self {
        Self {
            capabilities,
            answer: accept(&json!({})),
            delay: Duration::ZERO,
            roots: Vec::new(),
            recorded: Arc::default(),
        }
    }

    pub(crate) fn with_answer(self, answer: ElicitResponse) -> Self {
        Self { answer, ..self }
    }

    /// Returns the recorded elicitations.
    pub(crate) fn elicitations(&self) -> Vec<(String, ElicitMode)> {
        self.recorded.lock().unwrap().elicitations.clone()
    }

    /// Returns the fields of the only recorded elicitation, which must be a form.
    pub(crate) fn fields(&self) -> Vec<Field> {
        match &self.elicitations()[..] {
            [(_, ElicitMode::Form(form))] => form.fields.clone(),
            other => panic!("not one form: {other:?}"),
        }
    }

    pub(crate) fn samplings(&self) -> Vec<SamplingRecord> {
        self.recorded.lock().unwrap().samplings.clone()
    }

    pub(crate) fn max_open(&self) -> usize {
        self.recorded.lock().unwrap().max_open
    }
}

pub(crate) fn accept(content: &Value) -> ElicitResponse {
    ElicitResponse::Accept(content.as_object().cloned().unwrap_or_default())
}

impl Interaction for ScriptedInteraction {
    fn capabilities(&self) -> ClientCapabilities {
        self.capabilities
    }

    fn capabilities_for(&self, server: &ServerName) -> ClientCapabilities {
        if server.as_str() == "excluded" {
            return ClientCapabilities::default();
        }
        self.capabilities
    }

    fn can_use_tool(&self, _: PermissionRequest) -> BoxFuture<'_, PermissionResponse> {
        Box::pin(std::future::ready(PermissionResponse::Allow))
    }

    fn elicit<'a>(&'a self, question: Elicitation<'a>) -> BoxFuture<'a, ElicitResponse> {
        {
            let mut recorded = self.recorded.lock().unwrap();
            recorded
                .elicitations
                .push((question.message, question.mode));
            recorded.open += 1;
            recorded.max_open = recorded.max_open.max(recorded.open);
        }
        Box::pin(async move {
            tokio::time::sleep(self.delay).await;
            self.recorded.lock().unwrap().open -= 1;
            self.answer.clone()
        })
    }

    fn sample<'a>(
        &'a self,
        request: SamplingRequest<'a>,
    ) -> BoxFuture<'a, Result<Value, ErrorObject>> {
        self.recorded
            .lock()
            .unwrap()
            .samplings
            .push(SamplingRecord {
                server: request.server.to_string(),
                max_tokens: request.max_tokens,
                requested_max_tokens: request.requested_max_tokens,
                include_context: request.include_context,
                has_tools: request.tools.is_some(),
                system_prompt: request.system_prompt,
            });
        Box::pin(std::future::ready(Ok(json!({"model": "m"}))))
    }

    fn roots<'a>(&'a self, _: &'a ServerName) -> BoxFuture<'a, Vec<Root>> {
        Box::pin(std::future::ready(self.roots.clone()))
    }
}

/// Returns a script of this era.
pub(crate) fn script(era: Era) -> Script {
    match era {
        Era::Legacy => Script::legacy(),
        Era::Modern => Script::modern(),
    }
}

/// A server whose tool `ask` sends this request before it returns a result. The form of the request
/// depends on the era.
pub(crate) fn server_asking(era: Era, method: &str, params: &Value) -> MemoryServer {
    let steps = match era {
        Era::Legacy => vec![
            Step::request(method, params.clone()),
            Step::ReplyWithResponse,
        ],
        Era::Modern => {
            let requests = json!({"a": {"method": method, "params": params}});
            let input_required = json!({"resultType": "input_required", "inputRequests": requests});
            vec![
                Step::until(1, [Step::Reply(input_required)]),
                Step::after(2, [Step::text("done")]),
            ]
        }
    };
    let script = script(era).tool("ask");
    MemoryServer::new(script.on("tools/call ask", steps))
}

/// Starts a host in which `server` has the name `s`.
pub(crate) async fn start_host(builder: HostBuilder, server: &MemoryServer) -> Host {
    let host = builder
        .connector("s", InMemory(server.clone()))
        .start()
        .unwrap();
    host.wait_for(Readiness::All).await;
    host
}

/// Makes a server send this request to a host. Returns the `result` or `error` that the server
/// received.
pub(crate) async fn response_to(
    era: Era,
    method: &str,
    params: &Value,
    interaction: &ScriptedInteraction,
) -> Value {
    let server = server_asking(era, method, params);
    let host = start_host(permissive().interaction(interaction.clone()), &server).await;
    call_ask(era, &host, &server).await
}

/// Calls `ask` and returns the `result` or `error` that the server received. A modern server
/// receives no `error`: the call fails instead, and this function returns the error of the call.
pub(crate) async fn call_ask(era: Era, host: &Host, server: &MemoryServer) -> Value {
    let output = host.call("mcp__s__ask", json!({})).await;
    match era {
        Era::Legacy => {
            let response: Value = serde_json::from_str(&output.unwrap().to_text()).unwrap();
            let members = ["result", "error"].into_iter();
            let response =
                members.filter_map(|key| Some((key.to_owned(), response.get(key)?.clone())));
            Value::Object(response.collect())
        }
        Era::Modern => match output {
            Ok(_) => {
                let calls = server.received_with("tools/call");
                let responses = &calls.last().unwrap()["params"]["inputResponses"];
                json!({"result": responses["a"]})
            }
            Err(error) => json!({"error": {"message": error.to_string()}}),
        },
    }
}

pub(crate) fn forms() -> ClientCapabilities {
    ClientCapabilities::default().elicitation()
}
