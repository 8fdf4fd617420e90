//! The client under test of the official MCP conformance suite: a host with one server, which accepts
//! every request.
//!
//! The suite (`cargo xtask conformance`) starts it with the URL of a mock server as the last argument
//! and the scenario in the environment. The client connects, makes the calls of the scenario, and fails
//! on any error. The suite checks the messages; this program knows nothing of the protocol.

use std::error::Error;
use std::process::ExitCode;
use std::sync::{Arc, OnceLock};

use serde_json::{Map, Value, json};
use switchboard::catalog::CatalogTool;
use switchboard::elicitation::{ElicitMode, ElicitResponse, Elicitation, Field, FieldKind};
use switchboard::interaction::{BoxFuture, ClientCapabilities};
use switchboard::permission::{Action, PermissionRequest, PermissionResponse, Rule};
use switchboard::status::ConnectionStatus;
use switchboard::{CallError, Host, Interaction, Readiness};
use switchboard_config::{LaunchSpec, RemoteKind, ServerConfig, ServerName};

/// The name of the server. Its tools are `mcp__mock__…`.
const SERVER: &str = "mock";

type Outcome = Result<(), Box<dyn Error>>;

/// What the suite requests.
struct Scenario {
    url: String,
    name: String,
    /// The protocol version of the mock server. The host has to negotiate exactly this one.
    version: Option<String>,
    /// Additional data of some scenarios, such as the calls to make.
    context: Value,
}

impl Scenario {
    #[expect(
        clippy::disallowed_methods,
        reason = "the suite passes the scenario in the environment"
    )]
    fn from_env() -> Result<Self, Box<dyn Error>> {
        let variable = |name: &str| std::env::var(name).ok();
        let context = variable("MCP_CONFORMANCE_CONTEXT");
        Ok(Self {
            url: std::env::args()
                .next_back()
                .filter(|word| word.starts_with("http"))
                .ok_or("usage: conformance-client URL, with MCP_CONFORMANCE_SCENARIO set")?,
            name: variable("MCP_CONFORMANCE_SCENARIO").unwrap_or_default(),
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
    let scenario = Scenario::from_env()?;
    let interaction = AcceptEverything::default();
    let server = ServerConfig::remote(&scenario.url, RemoteKind::Http);
    let host = Host::builder()
        .launch(LaunchSpec::trusted(ServerName::new(SERVER)?, server))
        .rule(Rule::new(Action::Allow, &format!("mcp__{SERVER}"))?)
        .interaction(interaction.clone())
        .no_reconnect()
        .start()?;
    if scenario.name == "sep-2322-client-request-state" {
        // Set only here, and before the first call.
        let call = (host.clone(), "test_mrtr_unrelated");
        let _ = interaction.concurrent_call.set(call);
    }
    host.wait_for(Readiness::All).await;

    let outcome = match check_connection(&host, &scenario) {
        Ok(()) => run_scenario(&host, &scenario).await,
        failed => failed,
    };
    host.shutdown().await;
    outcome
}

/// Fails unless the server is connected with the version of the mock server.
fn check_connection(host: &Host, scenario: &Scenario) -> Outcome {
    let details = host.server_details(SERVER)?;
    if details.status.status != ConnectionStatus::Connected {
        let reason = details.status.error.unwrap_or_default();
        return Err(format!("the server is {}: {reason}", details.status.status).into());
    }
    let negotiated = details
        .handshake
        .map(|handshake| handshake.version.as_str());
    match scenario.version.as_deref() {
        Some(wanted) if negotiated != Some(wanted) => {
            Err(format!("the mock server speaks {wanted}, the session {negotiated:?}").into())
        }
        _ => Ok(()),
    }
}

/// Makes the calls of the scenario: the listed ones, or one call of every tool.
async fn run_scenario(host: &Host, scenario: &Scenario) -> Outcome {
    for (tool, arguments) in calls(host, scenario)? {
        let name = format!("mcp__{SERVER}__{tool}");
        let output = match host.call(&name, arguments.clone()).await {
            Err(CallError::InvalidArguments { violations, .. }) if has_null(&arguments) => {
                eprintln!("{tool}: {violations:?}; retrying without null arguments");
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

fn calls(host: &Host, scenario: &Scenario) -> Result<Vec<(String, Value)>, Box<dyn Error>> {
    let tools = host.tools();
    if let Some(listed) = scenario.context.get("toolCalls").and_then(Value::as_array) {
        let call = |call: &Value| {
            let name = call.get("name")?.as_str()?;
            Some((name.to_owned(), call.get("arguments")?.clone()))
        };
        return Ok(listed.iter().filter_map(call).collect());
    }
    if scenario.name == "json-schema-2020-12-preservation" {
        let is_wanted =
            |tool: &&Arc<CatalogTool>| tool.definition.name == "json_schema_2020_12_tool";
        let tool = tools
            .iter()
            .find(is_wanted)
            .ok_or("the tool is not listed")?;
        let schema = tool.definition.input_schema.to_value()?;
        return Ok(vec![("json_schema_echo".into(), json!({"schema": schema}))]);
    }
    // Listed but not called: its schema refers to a URL that must not be fetched.
    if scenario.name == "json-schema-ref-no-deref" {
        return Ok(Vec::new());
    }
    let call = |tool: &Arc<CatalogTool>| {
        let schema = tool.definition.input_schema.to_value()?;
        Ok((
            tool.definition.name.clone(),
            example_arguments(&schema).into(),
        ))
    };
    tools.iter().map(call).collect()
}

/// A value for every property of a schema.
fn example_arguments(schema: &Value) -> Map<String, Value> {
    let properties = schema.get("properties").and_then(Value::as_object);
    let properties = properties.into_iter().flatten();
    properties
        .map(|(name, property)| (name.clone(), value_for(property)))
        .collect()
}

/// The default, the first allowed value, or any value of the right type.
fn value_for(property: &Value) -> Value {
    let default = property.get("default");
    if let Some(value) = default.or_else(|| property.pointer("/enum/0")) {
        return value.clone();
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

/// Removes null arguments. The host rejects `null` where the schema does not allow it.
fn without_nulls(mut arguments: Value) -> Value {
    if let Some(members) = arguments.as_object_mut() {
        members.retain(|_, value| !value.is_null());
    }
    arguments
}

/// Accepts every request, and fills in forms with their defaults.
#[derive(Clone, Default)]
struct AcceptEverything {
    /// A tool to call while an elicitation is open. The host must not mix up the two calls.
    concurrent_call: Arc<OnceLock<(Host, &'static str)>>,
}

impl Interaction for AcceptEverything {
    fn capabilities(&self) -> ClientCapabilities {
        ClientCapabilities::default().elicitation()
    }

    fn can_use_tool(&self, _: PermissionRequest) -> BoxFuture<'_, PermissionResponse> {
        Box::pin(std::future::ready(PermissionResponse::Allow))
    }

    fn elicit<'a>(&'a self, question: Elicitation<'a>) -> BoxFuture<'a, ElicitResponse> {
        Box::pin(async move {
            if let Some((host, tool)) = self.concurrent_call.get() {
                let name = format!("mcp__{SERVER}__{tool}");
                if let Err(error) = host.call(&name, json!({})).await {
                    eprintln!("{tool}: {error}");
                    return ElicitResponse::Cancel;
                }
            }
            // The host fills in the defaults.
            match question.mode {
                ElicitMode::Form(form) => {
                    let fields = form.fields.iter();
                    let without_default = fields.filter(|field| field.default_value().is_none());
                    ElicitResponse::Accept(without_default.map(example_value).collect())
                }
                _ => ElicitResponse::Cancel,
            }
        })
    }
}

fn example_value(field: &Field) -> (String, Value) {
    let value = match &field.kind {
        FieldKind::Number { .. } => json!(5),
        FieldKind::Boolean { .. } => json!(true),
        FieldKind::Choice { options, .. } => json!(options.first().map(|option| &option.value)),
        FieldKind::MultiChoice { .. } => json!([]),
        _ => json!("something"),
    };
    (field.name.clone(), value)
}
