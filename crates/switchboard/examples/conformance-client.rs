//! The client that the official conformance suite tests: a host with one server and somebody who says
//! yes to everything.
//!
//! The suite (`cargo xtask conformance`) starts it with the address of a mock server as its last
//! argument and names the scenario in the environment. It connects as any program would, calls what
//! the scenario is about, and fails if anything was in the way. What the wire looked like is the
//! suite's to judge: nothing here knows the protocol.

use std::error::Error;
use std::process::ExitCode;
use std::sync::{Arc, OnceLock};

use serde_json::{Map, Value, json};
use switchboard::catalog::CatalogTool;
use switchboard::elicit::{ElicitAnswer, ElicitMode, Elicitation, Field, FieldKind};
use switchboard::interaction::{BoxFuture, Offers};
use switchboard::permission::{Action, PermissionRequest, PermissionResponse, Rule};
use switchboard::status::ConnectionStatus;
use switchboard::{CallError, Host, Interaction, Readiness};
use switchboard_config::{LaunchSpec, RemoteKind, ServerConfig, ServerName};

/// What the server is called; its tools are `mcp__mock__…`.
const SERVER: &str = "mock";

type Outcome = Result<(), Box<dyn Error>>;

/// What the suite asks for.
struct Task {
    url: String,
    scenario: String,
    /// The protocol version that the mock speaks. The host finds it out by itself; this is what it
    /// must have found.
    version: Option<String>,
    /// What some scenarios add, such as the calls to make.
    context: Value,
}

impl Task {
    #[expect(
        clippy::disallowed_methods,
        reason = "the suite passes the task in the environment of this program"
    )]
    fn given() -> Result<Self, Box<dyn Error>> {
        let variable = |name: &str| std::env::var(name).ok();
        let context = variable("MCP_CONFORMANCE_CONTEXT");
        Ok(Self {
            url: std::env::args()
                .next_back()
                .filter(|word| word.starts_with("http"))
                .ok_or("usage: conformance-client URL, with MCP_CONFORMANCE_SCENARIO set")?,
            scenario: variable("MCP_CONFORMANCE_SCENARIO").unwrap_or_default(),
            version: variable("MCP_CONFORMANCE_PROTOCOL_VERSION"),
            context: context.map_or(Ok(Value::Null), |text| serde_json::from_str(&text))?,
        })
    }
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    match run().await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

async fn run() -> Outcome {
    let task = Task::given()?;
    let person = Obliging::default();
    let server = ServerConfig::remote(&task.url, RemoteKind::Http);
    let host = Host::builder()
        .launch(LaunchSpec::trusted(ServerName::new(SERVER)?, server))
        .rule(Rule::new(Action::Allow, &format!("mcp__{SERVER}"))?)
        .interaction(person.clone())
        .no_reconnect()
        .start()?;
    if task.scenario == "sep-2322-client-request-state" {
        // Nobody else sets it, and no question comes before the first call.
        let _ = person.meanwhile.set((host.clone(), "test_mrtr_unrelated"));
    }
    host.wait_for(Readiness::All).await;

    let outcome = match connected(&host, &task) {
        Ok(()) => play(&host, &task).await,
        refused => refused,
    };
    host.shutdown().await;
    outcome
}

/// The server is ready, and the version agreed on is the one that the mock speaks.
fn connected(host: &Host, task: &Task) -> Outcome {
    let seen = host.server_details(SERVER)?;
    if seen.status.status != ConnectionStatus::Connected {
        let reason = seen.status.error.unwrap_or_default();
        return Err(format!("the server is {}: {reason}", seen.status.status).into());
    }
    let spoken = seen.hello.map(|hello| hello.version.as_str());
    match task.version.as_deref() {
        Some(wanted) if spoken != Some(wanted) => {
            Err(format!("the mock speaks {wanted}, and the session {spoken:?}").into())
        }
        _ => Ok(()),
    }
}

/// Makes the calls of the scenario: those it names, or else one of every tool.
async fn play(host: &Host, task: &Task) -> Outcome {
    for (tool, arguments) in calls(host, task)? {
        let name = format!("mcp__{SERVER}__{tool}");
        let output = match host.call(&name, arguments.clone()).await {
            Err(CallError::InvalidArguments { violations, .. }) if has_null(&arguments) => {
                eprintln!("{tool}: {violations:?}; once more without what is null");
                host.call(&name, without_nulls(arguments)).await?
            }
            outcome => outcome?,
        };
        println!("{tool}: {}", output.to_text());
        if output.is_error {
            return Err(format!("{tool} failed").into());
        }
    }
    Ok(())
}

fn calls(host: &Host, task: &Task) -> Result<Vec<(String, Value)>, Box<dyn Error>> {
    let tools = host.tools();
    if let Some(named) = task.context.get("toolCalls").and_then(Value::as_array) {
        let call = |call: &Value| {
            let name = call.get("name")?.as_str()?;
            Some((name.to_owned(), call.get("arguments")?.clone()))
        };
        return Ok(named.iter().filter_map(call).collect());
    }
    if task.scenario == "json-schema-2020-12-preservation" {
        let rich = |tool: &&Arc<CatalogTool>| tool.definition.name == "json_schema_2020_12_tool";
        let tool = tools.iter().find(rich).ok_or("the tool is not listed")?;
        let schema = tool.definition.input_schema.to_value()?;
        return Ok(vec![("json_schema_echo".into(), json!({"schema": schema}))]);
    }
    // Looked at and not called: what one of its arguments is stands at an address not to be opened.
    if task.scenario == "json-schema-ref-no-deref" {
        return Ok(Vec::new());
    }
    let call = |tool: &Arc<CatalogTool>| {
        let schema = tool.definition.input_schema.to_value()?;
        Ok((tool.definition.name.clone(), example_of(&schema).into()))
    };
    tools.iter().map(call).collect()
}

/// A value for every property of a schema.
fn example_of(schema: &Value) -> Map<String, Value> {
    let properties = schema.get("properties").and_then(Value::as_object);
    let properties = properties.into_iter().flatten();
    properties
        .map(|(name, property)| (name.clone(), value_for(property)))
        .collect()
}

/// The default, the first of what is allowed, or something of the right type.
fn value_for(property: &Value) -> Value {
    let proposed = property.get("default");
    if let Some(proposed) = proposed.or_else(|| property.pointer("/enum/0")) {
        return proposed.clone();
    }
    match property.get("type").and_then(Value::as_str) {
        Some("integer" | "number") => json!(5),
        Some("boolean") => json!(true),
        Some("object") => json!({}),
        Some("array") => json!([]),
        Some("null") => Value::Null,
        _ => json!("something"),
    }
}

fn has_null(arguments: &Value) -> bool {
    let arguments = arguments.as_object();
    arguments.is_some_and(|members| members.values().any(Value::is_null))
}

/// A host refuses `null` where the schema has no room for it. A caller that reads why leaves it out.
fn without_nulls(mut arguments: Value) -> Value {
    if let Some(members) = arguments.as_object_mut() {
        members.retain(|_, value| !value.is_null());
    }
    arguments
}

/// Somebody who agrees to everything, and fills in forms with what they propose.
#[derive(Clone, Default)]
struct Obliging {
    /// A tool to call while a question is open, to see that the two calls are kept apart.
    meanwhile: Arc<OnceLock<(Host, &'static str)>>,
}

impl Interaction for Obliging {
    fn offers(&self) -> Offers {
        Offers::default().elicitation()
    }

    fn can_use_tool(&self, _: PermissionRequest) -> BoxFuture<'_, PermissionResponse> {
        Box::pin(std::future::ready(PermissionResponse::Allow))
    }

    fn elicit<'a>(&'a self, question: Elicitation<'a>) -> BoxFuture<'a, ElicitAnswer> {
        Box::pin(async move {
            if let Some((host, tool)) = self.meanwhile.get() {
                let name = format!("mcp__{SERVER}__{tool}");
                if let Err(error) = host.call(&name, json!({})).await {
                    eprintln!("{tool}: {error}");
                    return ElicitAnswer::Cancel;
                }
            }
            // What is proposed is filled in by the host.
            match question.mode {
                ElicitMode::Form(form) => {
                    let fields = form.fields.iter();
                    let open = fields.filter(|field| field.default_value().is_none());
                    ElicitAnswer::Accept(open.map(filled_in).collect())
                }
                _ => ElicitAnswer::Cancel,
            }
        })
    }
}

fn filled_in(field: &Field) -> (String, Value) {
    let value = match &field.kind {
        FieldKind::Number { .. } => json!(5),
        FieldKind::Boolean { .. } => json!(true),
        FieldKind::Choice { options, .. } => json!(options.first().map(|option| &option.value)),
        FieldKind::Choices { .. } => json!([]),
        _ => json!("something"),
    };
    (field.name.clone(), value)
}
