//! External and in-process servers, and the requests that manage them.

use serde_json::{Map, Value, json};
use switchboard::elicitation::{ElicitResponse, Elicitation};
use switchboard::interaction::{BoxFuture, ClientCapabilities};
use switchboard::permission::{PermissionRequest, PermissionResponse};
use switchboard::{InProcessServer, Interaction};
use switchboard_claude::{Client, Error, McpConnectionStatus, McpServerConfig};
use switchboard_testkit::fake_model::{Block, ToolOutcome, Turn};
use switchboard_testkit::http::{HttpServer, Mode};
use switchboard_testkit::{Script, Step, scripted_server};

use crate::harness::{Harness, calculator, connect, result_of, run_query, turn};

/// The script of a server with one tool `echo`, which returns this text.
fn echo_server(text: &str) -> Script {
    Script::legacy()
        .tool("echo")
        .on("tools/call echo", [Step::text(text)])
}

/// Configures a scripted server that the CLI starts as a process.
fn stdio(script: &Script) -> McpServerConfig {
    let program = scripted_server();
    McpServerConfig::stdio(program.to_str().unwrap(), [script.to_json()]).always_load()
}

/// The name and status of each server, sorted by name.
async fn statuses(client: &Client) -> Vec<(String, McpConnectionStatus)> {
    let servers = client.mcp_status().await.unwrap();
    let mut statuses: Vec<_> = servers
        .into_iter()
        .map(|server| (server.name, server.status))
        .collect();
    statuses.sort_by(|one, other| one.0.cmp(&other.0));
    statuses
}

/// Polls until the CLI reports these statuses. The CLI connects to servers in the background.
async fn wait_for(client: &Client, expected: &[(&str, McpConnectionStatus)]) {
    let expected: Vec<_> = expected
        .iter()
        .map(|(name, status)| ((*name).to_owned(), status.clone()))
        .collect();
    let mut found = Vec::new();
    for _ in 0..200 {
        found = statuses(client).await;
        if found == expected {
            return;
        }
        tokio::time::sleep(std::time::Duration::from_millis(50)).await;
    }
    assert_eq!(found, expected);
}

#[tokio::test]
async fn external_and_in_process_servers_work_together() {
    let turns = [
        Turn::blocks([
            Block::tool("mcp__child__echo", json!({})),
            Block::tool("mcp__remote__echo", json!({})),
            Block::tool("mcp__older__echo", json!({})),
            Block::tool("mcp__calculator__add", json!({"a": 15, "b": 27})),
        ]),
        Turn::text("All four."),
    ];
    let Some(harness) = Harness::with_turns(turns).await else {
        return;
    };
    let http = HttpServer::start(echo_server("from afar"), Mode::JSON).await;
    let remote = McpServerConfig::http(http.url())
        .header("X-Test", "hidden")
        .always_load();
    let sse = HttpServer::start(echo_server("from a stream"), Mode::LegacySse).await;
    let older = McpServerConfig::sse(sse.url()).always_load();
    let options = harness
        .with_calculator()
        .mcp_server("child", stdio(&echo_server("from a child")))
        .mcp_server("remote", remote)
        .mcp_server("older", older)
        .allowed_tools(["mcp__*"]);
    let messages = run_query("Ask them all", options).await;
    assert!(result_of(&messages).is_success());
    let tool_results = harness.model.last_request().tool_results();
    let tool_results: Vec<_> = tool_results.iter().map(ToolOutcome::text).collect();
    assert_eq!(
        tool_results,
        ["from a child", "from afar", "from a stream", "42"]
    );
    let seen = http.requests_with("tools/call");
    assert_eq!(seen[0].header("x-test"), Some("hidden"));
    harness.close().await;
}

#[tokio::test]
async fn servers_are_listed_toggled_and_replaced() {
    use McpConnectionStatus::{Connected, Disabled, Failed};
    let turns = [
        Turn::tool("mcp__second__add", json!({"a": 15, "b": 27})),
        Turn::text("42"),
    ];
    let Some(harness) = Harness::with_turns(turns).await else {
        return;
    };
    let options = harness
        .with_calculator()
        .allowed_tools(["mcp__second"])
        .mcp_server("child", stdio(&echo_server("from a child")))
        .mcp_server("bad", McpServerConfig::stdio("/nowhere/server", [""; 0]));
    let client = connect(options).await;
    let bad = ("bad", Failed);
    let all = |child, calculator| [bad.clone(), ("calculator", calculator), ("child", child)];
    wait_for(&client, &all(Connected, Connected)).await;

    for name in ["child", "calculator"] {
        client.mcp_toggle(name, false).await.unwrap();
    }
    wait_for(&client, &all(Disabled, Disabled)).await;
    for name in ["child", "calculator"] {
        client.mcp_toggle(name, true).await.unwrap();
    }
    wait_for(&client, &all(Connected, Connected)).await;

    client.mcp_reconnect("child").await.unwrap();
    let unknown = client.mcp_reconnect("no-such-server").await.unwrap_err();
    assert!(matches!(unknown, Error::Refused { .. }), "{unknown}");
    assert!(unknown.to_string().contains("no-such-server"), "{unknown}");

    let result = client
        .mcp_call("mcp__child__echo", Map::new())
        .await
        .unwrap();
    assert!(result.to_string().contains("from a child"), "{result:?}");

    let second = ("second".to_owned(), McpServerConfig::sdk(calculator()));
    let changed = client.mcp_set_servers([second]).await.unwrap();
    assert_eq!(changed.added, ["second"]);
    let messages = turn(&client, "What is 15 + 27?").await;
    assert!(result_of(&messages).is_success());
    let tool_result = harness.model.last_request().last_tool_result();
    assert_eq!(
        (tool_result.text().as_str(), tool_result.is_error),
        ("42", false)
    );
    client.close().await;
    harness.close().await;
}

/// Accepts each form and fills in the name Ada.
struct Ada;

impl Interaction for Ada {
    fn capabilities(&self) -> ClientCapabilities {
        ClientCapabilities::default().elicitation()
    }

    fn can_use_tool(&self, _: PermissionRequest) -> BoxFuture<'_, PermissionResponse> {
        Box::pin(std::future::ready(PermissionResponse::Allow))
    }

    fn elicit<'a>(&'a self, question: Elicitation<'a>) -> BoxFuture<'a, ElicitResponse> {
        assert_eq!(question.server.as_str(), "asks");
        let Value::Object(content) = json!({"name": "Ada"}) else {
            return Box::pin(std::future::ready(ElicitResponse::Cancel));
        };
        Box::pin(std::future::ready(ElicitResponse::Accept(content)))
    }
}

#[tokio::test]
async fn elicitation_goes_to_interaction() {
    let turns = || [Turn::tool("mcp__asks__who", json!({})), Turn::text("So.")];
    let schema = json!({"type": "object", "properties": {"name": {"type": "string"}}});
    let question = json!({"message": "Who are you?", "requestedSchema": schema});
    let script = Script::legacy().tool("who").on(
        "tools/call who",
        [
            Step::request("elicitation/create", question),
            Step::ReplyWithResponse,
        ],
    );
    for has_handler in [true, false] {
        let Some(harness) = Harness::with_turns(turns()).await else {
            return;
        };
        let options = harness
            .options()
            .mcp_server("asks", stdio(&script))
            .allowed_tools(["mcp__asks"]);
        let options = if has_handler {
            options.interaction(Ada)
        } else {
            options
        };
        let messages = run_query("Who am I?", options).await;
        assert!(result_of(&messages).is_success());
        let tool_result = harness.model.last_request().last_tool_result().text();
        let expected = if has_handler { "Ada" } else { "\"action\"" };
        assert!(tool_result.contains(expected), "{tool_result}");
        assert_eq!(tool_result.contains("accept"), has_handler, "{tool_result}");
        harness.close().await;
    }
}

/// An in-process server with a single tool, which is called `name` and returns `name`.
fn one_tool_server(name: &'static str) -> McpServerConfig {
    let server =
        InProcessServer::new("it", "1.0").tool(name, name, move || async move { Ok(name) });
    McpServerConfig::sdk(server).always_load()
}

#[tokio::test]
async fn server_replaces_same_name() {
    let turns = [
        Turn::tool("mcp__it__old", json!({})),
        Turn::text("Old."),
        Turn::tool("mcp__it__new", json!({})),
        Turn::text("New."),
        Turn::tool("mcp__it__new", json!({})),
        Turn::text("Still new."),
    ];
    let Some(harness) = Harness::with_turns(turns).await else {
        return;
    };
    let options = harness
        .options()
        .mcp_server("it", one_tool_server("old"))
        .allowed_tools(["mcp__it"]);
    let client = connect(options).await;
    turn(&client, "Call it").await;
    let new = ("it".to_owned(), one_tool_server("new"));
    client.mcp_set_servers([new]).await.unwrap();
    turn(&client, "Call it").await;
    client.mcp_reconnect("it").await.unwrap();
    turn(&client, "Call it").await;
    client.close().await;
    let tool_results = harness.model.last_request().tool_results();
    let tool_results: Vec<_> = tool_results.iter().map(ToolOutcome::text).collect();
    assert_eq!(tool_results, ["old", "new", "new"]);
    harness.close().await;
}

#[tokio::test]
async fn concurrent_replacements_are_serialized() {
    let Some(harness) = Harness::with_turns([]).await else {
        return;
    };
    let client = connect(harness.options()).await;
    let set = |name: &str| client.mcp_set_servers([(name.to_owned(), one_tool_server("a"))]);
    let (one, two) = tokio::join!(set("one"), set("two"));
    assert_eq!(
        (one.unwrap().added, two.as_ref().unwrap().added.clone()),
        (vec!["one".to_owned()], vec!["two".to_owned()])
    );
    assert_eq!(two.unwrap().removed, ["one"]);
    client.close().await;
    harness.close().await;
}

#[tokio::test]
async fn always_loaded_tools_are_not_deferred() {
    for manifests in [false, true] {
        let Some(harness) = Harness::with_turns([Turn::text("So.")]).await else {
            return;
        };
        let deferred = InProcessServer::new("it", "1.0").tool("a", "a", || async { Ok("a") });
        let options = harness
            .options()
            .env("ENABLE_TOOL_SEARCH", "true")
            .manifests(manifests)
            .mcp_server("loaded", one_tool_server("a"))
            .sdk_server("deferred", deferred);
        run_query("What is there?", options).await;
        let request = harness.model.last_request();
        let is_loaded = |tool: &str| {
            let tool = request.tool(tool);
            tool.is_some_and(|tool| tool["defer_loading"] != json!(true))
        };
        assert!(is_loaded("mcp__loaded__a"), "manifests: {manifests}");
        assert!(!is_loaded("mcp__deferred__a"), "manifests: {manifests}");
        harness.close().await;
    }
}

#[tokio::test]
async fn infinite_timeouts_are_clamped() {
    let turns = [
        Turn::tool("mcp__calculator__add", json!({"a": 15, "b": 27})),
        Turn::text("42"),
    ];
    let Some(harness) = Harness::with_turns(turns).await else {
        return;
    };
    let endless = std::time::Duration::MAX;
    let options = harness.with_calculator();
    let options = options.call_timeout(endless).request_timeout(endless);
    let options = options.mcp_server(
        "child",
        stdio(&echo_server("from a child")).timeout(endless),
    );
    let client = connect(options).await;
    turn(&client, "What is 15 + 27?").await;
    let tool_result = harness.model.last_request().last_tool_result();
    assert_eq!(
        (tool_result.text().as_str(), tool_result.is_error),
        ("42", false)
    );
    let result = client.mcp_call("mcp__child__echo", Map::new()).await;
    assert!(result.unwrap().to_string().contains("from a child"));
    client.close().await;
    harness.close().await;
}
