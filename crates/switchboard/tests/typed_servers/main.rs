//! Servers made of typed functions, called through a host: types, arguments, results and failures.

#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "a test fails by panicking"
)]
#![allow(clippy::unused_async, reason = "handlers must be async")]

#[path = "../common/mod.rs"]
mod common;
mod context;
mod late_resources;

use common::permissive;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize, Serializer};
use serde_json::{Value, json};
use switchboard::in_process::{InProcessTool, LocalServer, ServerNotification};
use switchboard::mcp::{CallToolResult, ContentBlock, Json, ToolAnnotations};
use switchboard::{CallError, Host, InProcessServer, Output, Readiness, ToolError, ToolResult};

#[derive(Deserialize, JsonSchema)]
struct Pair {
    /// The first
    a: i64,
    /// The second
    b: i64,
}

#[derive(Serialize, JsonSchema)]
struct Sum {
    sum: i64,
}

async fn add(pair: Pair) -> ToolResult<Sum> {
    Ok(Sum {
        sum: pair.a + pair.b,
    })
}

/// Starts a host in which `server` has the name `s`, and waits until the server is connected.
async fn host_of(server: InProcessServer) -> Host {
    let host = permissive().in_process_server("s", server).start().unwrap();
    host.wait_for(Readiness::All).await;
    host
}

fn empty_server() -> InProcessServer {
    InProcessServer::new("test", "1.0")
}

async fn call(server: InProcessServer, tool: &str, arguments: Value) -> Output {
    let host = host_of(server).await;
    let name = format!("mcp__s__{tool}");
    let output = host.call(name.as_str(), arguments).await.unwrap();
    host.shutdown().await;
    output
}

#[tokio::test]
async fn function_becomes_tool_with_schemas() {
    let server = empty_server().tool("add", "Adds two numbers", add);
    assert_eq!(
        serde_json::to_value(server.tools()).unwrap(),
        json!([{
            "name": "add",
            "description": "Adds two numbers",
            "inputSchema": {
                "$schema": "https://json-schema.org/draft/2020-12/schema",
                "type": "object",
                "properties": {
                    "a": {"type": "integer", "format": "int64", "description": "The first"},
                    "b": {"type": "integer", "format": "int64", "description": "The second"},
                },
                "required": ["a", "b"],
            },
            "outputSchema": {
                "$schema": "https://json-schema.org/draft/2020-12/schema",
                "type": "object",
                "properties": {"sum": {"type": "integer", "format": "int64"}},
                "required": ["sum"],
            },
        }])
    );
    let output = call(server, "add", json!({"a": 15, "b": 27})).await;
    assert_eq!(output.to_text(), r#"{"sum":42}"#);
    assert_eq!(output.structured.unwrap().as_str(), r#"{"sum":42}"#);
    assert!(!output.is_error && output.notes.is_empty());
}

#[tokio::test]
async fn handlers_accept_several_signatures() {
    let server = empty_server()
        .tool("closure", "", |pair: Pair| async move {
            Ok(Sum {
                sum: pair.a * pair.b,
            })
        })
        .tool("nothing", "", || async { Ok("nothing") })
        .tool(
            "context",
            "",
            |context: switchboard::ToolContext| async move { Ok(context.tool().to_owned()) },
        )
        .tool(
            "both",
            "",
            |pair: Pair, context: switchboard::ToolContext| async move {
                Ok(format!("{} {}", context.tool(), pair.a))
            },
        )
        .blocking_tool("blocking", "", |pair: Pair| Ok(pair.a - pair.b))
        .blocking_tool("blocking_nothing", "", || Ok(1))
        .blocking_tool(
            "blocking_both",
            "",
            |pair: Pair, context: switchboard::ToolContext| {
                Ok(format!("{} {}", context.tool(), pair.b))
            },
        );
    let host = host_of(server).await;
    let pair = json!({"a": 6, "b": 7});
    for (tool, arguments, text) in [
        ("closure", &pair, r#"{"sum":42}"#),
        ("nothing", &json!({}), "nothing"),
        ("context", &json!({}), "context"),
        ("both", &pair, "both 6"),
        ("blocking", &pair, "-1"),
        ("blocking_nothing", &json!({}), "1"),
        ("blocking_both", &pair, "blocking_both 7"),
    ] {
        let name = format!("mcp__s__{tool}");
        let output = host.call(name.as_str(), arguments.clone()).await.unwrap();
        assert_eq!(output.to_text(), text);
    }
    host.shutdown().await;
}

#[tokio::test]
async fn result_depends_on_return_type() {
    let server = empty_server()
        .tool("text", "", || async { Ok("a \"text\"".to_owned()) })
        .tool("unit", "", || async { Ok(()) })
        .tool("none", "", || async { Ok(None::<String>) })
        .tool("list", "", || async { Ok(vec![1, 2]) })
        .tool("block", "", || async { Ok(ContentBlock::text("one")) })
        .tool("blocks", "", || async {
            Ok(vec![ContentBlock::text("one"), ContentBlock::text("two")])
        })
        .tool("whole", "", || async {
            Ok(CallToolResult::text("words").structured(&json!({"a": 1})))
        });
    for tool in server.tools() {
        assert_eq!(tool.output_schema, None, "{}", tool.name);
    }
    let host = host_of(server).await;
    for (tool, blocks, text, structured) in [
        ("text", 1, "a \"text\"", None),
        ("unit", 0, "", None),
        ("none", 1, "null", None),
        ("list", 1, "[1,2]", None),
        ("block", 1, "one", None),
        ("blocks", 2, "one\ntwo", None),
        ("whole", 1, "words", Some(r#"{"a":1}"#)),
    ] {
        let name = format!("mcp__s__{tool}");
        let output = host.call(name.as_str(), json!({})).await.unwrap();
        let content = (output.blocks.len(), output.to_text());
        assert_eq!(content, (blocks, text.to_owned()), "{tool}");
        let data = output.structured.as_ref().map(Json::as_str);
        assert_eq!(data, structured, "{tool}");
    }
    host.shutdown().await;
}

#[tokio::test]
async fn failure_is_an_error_result() {
    let server = empty_server()
        .tool("message", "", || async {
            Err::<(), _>(ToolError::new("not today"))
        })
        .tool("question_mark", "", || async {
            let number: i64 = "seven".parse()?;
            Ok(number)
        })
        .tool("blocks", "", || async {
            let blocks = [ContentBlock::text("one"), ContentBlock::text("two")];
            Err::<String, _>(ToolError::with_content(blocks))
        })
        .blocking_tool("blocking", "", || Err::<String, _>("busy".into()));
    let host = host_of(server).await;
    for (tool, text) in [
        ("message", "not today"),
        ("question_mark", "invalid digit found in string"),
        ("blocks", "one\ntwo"),
        ("blocking", "busy"),
    ] {
        let name = format!("mcp__s__{tool}");
        let output = host.call(name.as_str(), json!({})).await.unwrap();
        assert_eq!((output.to_text().as_str(), output.is_error), (text, true));
    }
    host.shutdown().await;
}

#[tokio::test]
async fn unserializable_result_fails_the_call() {
    #[derive(JsonSchema)]
    struct Unserializable;
    impl Serialize for Unserializable {
        fn serialize<S: Serializer>(&self, _: S) -> Result<S::Ok, S::Error> {
            Err(serde::ser::Error::custom("out of ink"))
        }
    }
    #[derive(Serialize, JsonSchema)]
    struct Letter {
        body: Unserializable,
    }
    let server = empty_server().tool("write", "", || async {
        Ok(Letter {
            body: Unserializable,
        })
    });
    let output = call(server, "write", json!({})).await;
    assert!(output.is_error);
    assert_eq!(
        output.to_text(),
        "cannot serialize the result as JSON: out of ink"
    );
}

#[tokio::test]
async fn arguments_are_validated_by_schema_then_type() {
    #[derive(Deserialize, JsonSchema)]
    struct Visit {
        #[serde(deserialize_with = "only_monday")]
        #[schemars(with = "String")]
        day: String,
    }
    fn only_monday<'de, D: serde::Deserializer<'de>>(from: D) -> Result<String, D::Error> {
        match String::deserialize(from)? {
            day if day == "monday" => Ok(day),
            _ => Err(serde::de::Error::custom("open on mondays only")),
        }
    }
    let server = empty_server().tool("visit", "", |visit: Visit| async move { Ok(visit.day) });
    let host = host_of(server).await;
    let rejected = host.call("mcp__s__visit", json!({"day": 1})).await;
    assert!(matches!(rejected, Err(CallError::InvalidArguments { .. })));
    let visit = json!({"day": "sunday"});
    let output = host.call("mcp__s__visit", visit).await.unwrap();
    assert!(output.is_error);
    assert_eq!(
        output.to_text(),
        "invalid argument `day`: open on mondays only"
    );
    let visit = json!({"day": "monday"});
    assert!(!host.call("mcp__s__visit", visit).await.unwrap().is_error);
    host.shutdown().await;
}

#[tokio::test]
async fn panic_fails_one_call_with_message() {
    async fn broken() -> ToolResult<()> {
        panic!("out of {}", "cheese")
    }
    fn broken_thread() -> ToolResult<()> {
        panic!("out of thread")
    }
    let server = empty_server()
        .tool("async", "", broken)
        .blocking_tool("thread", "", broken_thread)
        .tool("add", "", add);
    let host = host_of(server).await;
    for (tool, message) in [("async", "out of cheese"), ("thread", "out of thread")] {
        let name = format!("mcp__s__{tool}");
        let error = host.call(name.as_str(), json!({})).await.unwrap_err();
        assert_eq!(
            error.to_string(),
            format!(
                "server s returned an error for {tool}: tool {tool} panicked: {message} (code -32603)"
            )
        );
    }
    let sum = host.call("mcp__s__add", json!({"a": 1, "b": 1})).await;
    assert_eq!(sum.unwrap().to_text(), r#"{"sum":2}"#);
    host.shutdown().await;
}

#[test]
#[should_panic(
    expected = "cannot register tool sum: the arguments must be a struct with named fields, an enum with \
                `#[serde(tag)]` or a map, but alloc::vec::Vec<i64> is none of them; make it a field of a struct"
)]
fn unnamed_arguments_panic_at_registration() {
    let _ = empty_server().tool("sum", "", |all: Vec<i64>| async move {
        Ok(all.iter().sum::<i64>())
    });
}

#[test]
#[should_panic(expected = "cannot register a tool without a name")]
fn empty_tool_name_panics_at_registration() {
    let _ = empty_server().tool("", "Adds", add);
}

#[test]
fn tool_builder_sets_all_properties() {
    let tool = InProcessTool::new("add", "Adds", add)
        .title("Sum")
        .read_only()
        .destructive()
        .idempotent()
        .open_world()
        .always_load()
        .meta("mine", json!({"a": 1}));
    let definition = serde_json::to_value(tool.definition()).unwrap();
    assert_eq!(definition["title"], "Sum");
    assert_eq!(
        definition["annotations"],
        json!({
            "readOnlyHint": true, "destructiveHint": true, "idempotentHint": true, "openWorldHint": true,
        })
    );
    let meta = json!({"anthropic/alwaysLoad": true, "mine": {"a": 1}});
    assert_eq!(definition["_meta"], meta);
    let tool = tool.annotations(ToolAnnotations::read_only());
    assert_eq!(tool.definition().annotations, ToolAnnotations::read_only());
}

#[tokio::test]
async fn tools_can_change_at_run_time() {
    let server = empty_server()
        .tool("one", "", || async { Ok("old") })
        .tool("two", "", || async { Ok(2) })
        .tool("one", "", || async { Ok("new") });
    let names = |server: &InProcessServer| -> Vec<String> {
        server.tools().into_iter().map(|tool| tool.name).collect()
    };
    assert_eq!(names(&server), ["one", "two"]);

    let mut notifications = server.notifications().unwrap();
    let other = server.clone();
    other.add_tool(InProcessTool::new("three", "", add));
    assert_eq!(
        notifications.try_recv(),
        Ok(ServerNotification::ToolsChanged)
    );
    assert!(other.remove_tool("two"));
    assert_eq!(
        notifications.try_recv(),
        Ok(ServerNotification::ToolsChanged)
    );
    assert!(!other.remove_tool("two"));
    assert!(notifications.try_recv().is_err());
    assert_eq!(names(&server), ["one", "three"]);
    assert_eq!(call(server, "one", json!({})).await.to_text(), "new");
}

#[tokio::test]
async fn removed_tool_cannot_be_called() {
    let server = empty_server().tool("one", "", || async { Ok(1) });
    let host = host_of(server.clone()).await;
    let found = host.call("mcp__s__one", json!({}));
    server.remove_tool("one");
    let error = found.await.unwrap_err().to_string();
    assert!(error.contains("one"), "{error}");
    host.shutdown().await;
}

#[derive(Deserialize, JsonSchema)]
#[serde(tag = "shape", rename_all = "lowercase")]
enum Shape {
    Circle { radius: f64 },
    Square { side: f64 },
}

#[tokio::test]
async fn tagged_enum_is_an_argument_type() {
    let area = |shape: Shape| async move {
        Ok(match shape {
            Shape::Circle { radius } => 3.0 * radius * radius,
            Shape::Square { side } => side * side,
        })
    };
    let server = InProcessServer::new("shapes", "1").tool("area", "Computes the area", area);
    let host = Host::builder()
        .in_process_server("s", server)
        .allow("mcp__s")
        .start()
        .unwrap();
    host.wait_for(Readiness::All).await;
    let schema = host.tools()[0].definition.input_schema.to_value().unwrap();
    assert_eq!(schema["type"], "object");
    let mut outcomes = Vec::new();
    for arguments in [
        json!({"shape": "circle", "radius": 2}),
        json!({"shape": "square", "side": 3}),
        json!({"shape": "square"}),
    ] {
        let outcome = host.call("mcp__s__area", arguments).await;
        outcomes.push(outcome.map(|output| output.to_text()).ok());
    }
    assert_eq!(
        outcomes,
        [Some("12.0".to_owned()), Some("9.0".to_owned()), None]
    );
    host.shutdown().await;
}
