//! Somebody who notes what is asked and answers as told, and servers that ask.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::{Value, json};
use switchboard::elicit::{ElicitAnswer, ElicitMode, Elicitation, Field};
use switchboard::id::ServerName;
use switchboard::interaction::{BoxFuture, Offers, Root};
use switchboard::mcp::{Era, ErrorObject};
use switchboard::permission::{PermissionRequest, PermissionResponse};
use switchboard::sampling::{ContextWish, Sampling};
use switchboard::{Host, HostBuilder, Interaction, Readiness};
use switchboard_testkit::{MemoryServer, Script, Step};

use crate::common::{InMemory, permissive};

pub(crate) const ERAS: [Era; 2] = [Era::Legacy, Era::Modern];

/// Notes what is asked, thinks, and gives its answer.
#[derive(Clone)]
pub(crate) struct Front {
    pub(crate) offers: Offers,
    pub(crate) answer: ElicitAnswer,
    pub(crate) thinks: Duration,
    pub(crate) roots: Vec<Root>,
    pub(crate) noted: Arc<Mutex<Noted>>,
}

#[derive(Default)]
pub(crate) struct Noted {
    questions: Vec<(String, ElicitMode)>,
    samplings: Vec<Wanted>,
    open: usize,
    most_open: usize,
}

/// What was asked of the model.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Wanted {
    pub(crate) server: String,
    pub(crate) max_tokens: u64,
    pub(crate) tokens_asked: Option<u64>,
    pub(crate) context_wish: ContextWish,
    pub(crate) has_tools: bool,
    pub(crate) system_prompt: Option<String>,
}

impl Front {
    pub(crate) fn new(offers: Offers) -> Self {
        Self {
            offers,
            answer: accept(&json!({})),
            thinks: Duration::ZERO,
            roots: Vec::new(),
            noted: Arc::default(),
        }
    }

    pub(crate) fn answering(self, answer: ElicitAnswer) -> Self {
        Self { answer, ..self }
    }

    /// The questions that it saw.
    pub(crate) fn questions(&self) -> Vec<(String, ElicitMode)> {
        self.noted.lock().unwrap().questions.clone()
    }

    /// The fields of the only form that it saw.
    pub(crate) fn fields(&self) -> Vec<Field> {
        match &self.questions()[..] {
            [(_, ElicitMode::Form(form))] => form.fields.clone(),
            other => panic!("not one form: {other:?}"),
        }
    }

    pub(crate) fn samplings(&self) -> Vec<Wanted> {
        self.noted.lock().unwrap().samplings.clone()
    }

    pub(crate) fn most_open(&self) -> usize {
        self.noted.lock().unwrap().most_open
    }
}

pub(crate) fn accept(content: &Value) -> ElicitAnswer {
    ElicitAnswer::Accept(content.as_object().cloned().unwrap_or_default())
}

impl Interaction for Front {
    fn offers(&self) -> Offers {
        self.offers
    }

    fn offers_to(&self, server: &ServerName) -> Offers {
        if server.as_str() == "shunned" {
            return Offers::default();
        }
        self.offers
    }

    fn can_use_tool(&self, _: PermissionRequest) -> BoxFuture<'_, PermissionResponse> {
        Box::pin(std::future::ready(PermissionResponse::Allow))
    }

    fn elicit<'a>(&'a self, question: Elicitation<'a>) -> BoxFuture<'a, ElicitAnswer> {
        {
            let mut noted = self.noted.lock().unwrap();
            noted.questions.push((question.message, question.mode));
            noted.open += 1;
            noted.most_open = noted.most_open.max(noted.open);
        }
        Box::pin(async move {
            tokio::time::sleep(self.thinks).await;
            self.noted.lock().unwrap().open -= 1;
            self.answer.clone()
        })
    }

    fn sample<'a>(&'a self, request: Sampling<'a>) -> BoxFuture<'a, Result<Value, ErrorObject>> {
        self.noted.lock().unwrap().samplings.push(Wanted {
            server: request.server.to_string(),
            max_tokens: request.max_tokens,
            tokens_asked: request.tokens_asked,
            context_wish: request.context_wish,
            has_tools: request.tools.is_some(),
            system_prompt: request.system_prompt,
        });
        Box::pin(std::future::ready(Ok(json!({"model": "m"}))))
    }

    fn roots<'a>(&'a self, _: &'a ServerName) -> BoxFuture<'a, Vec<Root>> {
        Box::pin(std::future::ready(self.roots.clone()))
    }
}

/// A server of this era.
pub(crate) fn script(era: Era) -> Script {
    match era {
        Era::Legacy => Script::legacy(),
        Era::Modern => Script::modern(),
    }
}

/// A server whose tool `ask` asks this first, in the way of its era.
pub(crate) fn asking(era: Era, method: &str, params: &Value) -> MemoryServer {
    let steps = match era {
        Era::Legacy => vec![
            Step::request(method, params.clone()),
            Step::ReplyWithResponse,
        ],
        Era::Modern => {
            let requests = json!({"a": {"method": method, "params": params}});
            let asked = json!({"resultType": "input_required", "inputRequests": requests});
            vec![
                Step::until(1, [Step::Reply(asked)]),
                Step::after(2, [Step::text("done")]),
            ]
        }
    };
    let script = script(era).tool("ask");
    MemoryServer::new(script.on("tools/call ask", steps))
}

/// Adds the server under the name `s` and starts it.
pub(crate) async fn started(builder: HostBuilder, server: &MemoryServer) -> Host {
    let host = builder
        .connector("s", InMemory(server.clone()))
        .start()
        .unwrap();
    host.wait_for(Readiness::All).await;
    host
}

/// What a server is told that asks this: `result` or `error`.
pub(crate) async fn told(era: Era, method: &str, params: &Value, front: &Front) -> Value {
    let server = asking(era, method, params);
    let host = started(permissive().interaction(front.clone()), &server).await;
    answer_in(era, &host, &server).await
}

/// Has the tool ask, and returns what it was told.
pub(crate) async fn answer_in(era: Era, host: &Host, server: &MemoryServer) -> Value {
    let output = host.call("mcp__s__ask", json!({})).await;
    match era {
        Era::Legacy => {
            let told: Value = serde_json::from_str(&output.unwrap().to_text()).unwrap();
            let members = ["result", "error"].into_iter();
            let told = members.filter_map(|key| Some((key.to_owned(), told.get(key)?.clone())));
            Value::Object(told.collect())
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

pub(crate) fn forms() -> Offers {
    Offers::default().elicitation()
}
