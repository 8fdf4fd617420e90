//! The client that the official MCP conformance suite tests: a host with one server.
//!
//! The suite starts this program once per scenario. The last argument is the URL of a mock server
//! that the suite runs, and environment variables describe the scenario. The program connects to
//! the mock server, makes the calls of the scenario, fills in every form of the mock server, and
//! exits with an error if a call fails. The suite checks the messages on the wire.
//!
//! ```text
//! cargo xtask conformance
//! ```

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

/// The name of the mock server in the host. Its tools are `mcp__mock__…`.
const SERVER: &str = "mock";

type RunResult = Result<(), Box<dyn Error>>;

/// The scenario that this run executes.
struct Scenario {
    url: String,
    name: String,
    /// The protocol version of the mock server. The host must negotiate exactly this version.
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
                .filter(|argument| argument.starts_with("http"))
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

async fn run() -> RunResult {
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
        // `set` cannot fail, because no other code sets `concurrent_call`.
        let call = (host.clone(), "test_mrtr_unrelated");
        let _ = interaction.concurrent_call.set(call);
    }
    host.wait_for(Readiness::All).await;

    let result = match check_connection(&host, &scenario) {
        Ok(()) => run_scenario(&host, &scenario).await,
        failed => failed,
    };
    host.shutdown().await;
    result
}

/// Fails unless the server is connected and the session has the protocol version of the scenario,
/// if the scenario names one.
fn check_connection(host: &Host, scenario: &Scenario) -> RunResult {
    let details = host.server_details(SERVER)?;
    if details.status.status != ConnectionStatus::Connected {
        let reason = details.status.error.unwrap_or_default();
        return Err(format!("the server is {}: {reason}", details.status.status).into());
    }
    let negotiated = details
        .handshake
        .map(|handshake| handshake.version.as_str());
    match scenario.version.as_deref() {
        Some(expected) if negotiated != Some(expected) => {
            Err(format!("negotiated version {negotiated:?}, expected {expected}").into())
        }
        _ => Ok(()),
    }
}

/// Makes the calls of the scenario and prints their results.
async fn run_scenario(host: &Host, scenario: &Scenario) -> RunResult {
    for (tool, arguments) in list_calls(host, scenario)? {
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

/// Returns the names and arguments of the tools to call. If the scenario lists calls, returns the
/// listed calls. Otherwise returns one call of every tool. Two scenarios are handled separately.
fn list_calls(host: &Host, scenario: &Scenario) -> Result<Vec<(String, Value)>, Box<dyn Error>> {
    let tools = host.tools();
    if let Some(listed) = scenario.context.get("toolCalls").and_then(Value::as_array) {
        let call = |call: &Value| {
            let name = call.get("name")?.as_str()?;
            Some((name.to_owned(), call.get("arguments")?.clone()))
        };
        return Ok(listed.iter().filter_map(call).collect());
    }
    if scenario.name == "json-schema-2020-12-preservation" {
        let has_name =
            |tool: &&Arc<CatalogTool>| tool.definition.name == "json_schema_2020_12_tool";
        let tool = tools
            .iter()
            .find(has_name)
            .ok_or("the tool is not listed")?;
        let schema = tool.definition.input_schema.to_value()?;
        return Ok(vec![("json_schema_echo".into(), json!({"schema": schema}))]);
    }
    // This scenario makes no calls. A tool schema refers to a URL, and the suite checks that the
    // client does not fetch it.
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

/// Returns arguments with an example value for every property of a schema.
fn example_arguments(schema: &Value) -> Map<String, Value> {
    let properties = schema.get("properties").and_then(Value::as_object);
    let properties = properties.into_iter().flatten();
    properties
        .map(|(name, property)| (name.clone(), example_value(property)))
        .collect()
}

/// Returns a valid value of a property: its default, otherwise the first value of its `enum`,
/// otherwise any value of its type.
fn example_value(property: &Value) -> Value {
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

/// Removes null arguments. The host rejects them if the schema does not allow `null`.
fn without_nulls(mut arguments: Value) -> Value {
    if let Some(members) = arguments.as_object_mut() {
        members.retain(|_, value| !value.is_null());
    }
    arguments
}

/// Allows every call, and fills in every form of the mock server with default values or example
/// values. Cancels other elicitations.
#[derive(Clone, Default)]
struct AcceptEverything {
    /// A host and the name of a tool to call while an elicitation of another call is open. The
    /// suite checks that the host keeps the two calls apart.
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
            // Only fields without a default value need an answer, because the host fills in the
            // default values.
            match question.mode {
                ElicitMode::Form(form) => {
                    let fields = form.fields.iter();
                    let without_default = fields.filter(|field| field.default_value().is_none());
                    ElicitResponse::Accept(without_default.map(fill_in_field).collect())
                }
                _ => ElicitResponse::Cancel,
            }
        })
    }
}

fn fill_in_field(field: &Field) -> (String, Value) {
    let value = match &field.kind {
        FieldKind::Number { .. } => json!(5),
        FieldKind::Boolean { .. } => json!(true),
        FieldKind::Choice { options, .. } => json!(options.first().map(|option| &option.value)),
        FieldKind::MultiChoice { .. } => json!([]),
        _ => json!("something"),
    };
    (field.name.clone(), value)
}
