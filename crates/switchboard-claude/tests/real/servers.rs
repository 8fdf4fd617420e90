//! External servers beside ours, and the switches for all of them.

use serde_json::{Map, Value, json};
use switchboard::elicit::{ElicitAnswer, Elicitation};
use switchboard::interaction::{BoxFuture, Offers};
use switchboard::permission::{PermissionRequest, PermissionResponse};
use switchboard::{InProcessServer, Interaction};
use switchboard_claude::{Client, Error, McpConnectionStatus, McpServerConfig};
use switchboard_testkit::fake_model::{Block, ToolOutcome, Turn};
use switchboard_testkit::http::{HttpServer, Mode};
use switchboard_testkit::{Script, Step, scripted_server};

use crate::scene::{Scene, ask, calculator, connect, result_of, turn};

/// A server whose one tool says this.
fn saying(text: &str) -> Script {
    Script::legacy()
        .tool("echo")
        .on("tools/call echo", [Step::text(text)])
}

/// A script as a child of the CLI's.
fn stdio(script: &Script) -> McpServerConfig {
    let program = scripted_server();
    McpServerConfig::stdio(program.to_str().unwrap(), [script.to_json()]).always_load()
}

/// What the CLI says of each server.
async fn statuses(client: &Client) -> Vec<(String, McpConnectionStatus)> {
    let servers = client.mcp_status().await.unwrap();
    let mut statuses: Vec<_> = servers
        .into_iter()
        .map(|server| (server.name, server.status))
        .collect();
    statuses.sort_by(|one, other| one.0.cmp(&other.0));
    statuses
}

/// Asks until the CLI says this of its servers: it connects them when it comes to it.
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
async fn external_servers_stand_beside_ours() {
    let turns = [
        Turn::blocks([
            Block::tool("mcp__child__echo", json!({})),
            Block::tool("mcp__remote__echo", json!({})),
            Block::tool("mcp__older__echo", json!({})),
            Block::tool("mcp__calculator__add", json!({"a": 15, "b": 27})),
        ]),
        Turn::text("All four."),
    ];
    let Some(scene) = Scene::saying(turns).await else {
        return;
    };
    let http = HttpServer::start(saying("from afar"), Mode::JSON).await;
    let remote = McpServerConfig::http(http.url())
        .header("X-Test", "hidden")
        .always_load();
    let sse = HttpServer::start(saying("from a stream"), Mode::LegacySse).await;
    let older = McpServerConfig::sse(sse.url()).always_load();
    let options = scene
        .with_calculator()
        .mcp_server("child", stdio(&saying("from a child")))
        .mcp_server("remote", remote)
        .mcp_server("older", older)
        .allowed_tools(["mcp__*"]);
    let messages = ask("Ask them all", options).await;
    assert!(result_of(&messages).is_success());
    let heard = scene.model.last_request().tool_results();
    let heard: Vec<_> = heard.iter().map(ToolOutcome::text).collect();
    assert_eq!(heard, ["from a child", "from afar", "from a stream", "42"]);
    let seen = http.requests_with("tools/call");
    assert_eq!(seen[0].header("x-test"), Some("hidden"));
    scene.close().await;
}

#[tokio::test]
async fn servers_are_looked_at_switched_and_exchanged() {
    use McpConnectionStatus::{Connected, Disabled, Failed};
    let turns = [
        Turn::tool("mcp__second__add", json!({"a": 15, "b": 27})),
        Turn::text("42"),
    ];
    let Some(scene) = Scene::saying(turns).await else {
        return;
    };
    let options = scene
        .with_calculator()
        .allowed_tools(["mcp__second"])
        .mcp_server("child", stdio(&saying("from a child")))
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
    let unknown = client.mcp_reconnect("nobody").await.unwrap_err();
    assert!(matches!(unknown, Error::Refused { .. }), "{unknown}");
    assert!(unknown.to_string().contains("nobody"), "{unknown}");

    let said = client
        .mcp_call("mcp__child__echo", Map::new())
        .await
        .unwrap();
    assert!(said.to_string().contains("from a child"), "{said:?}");

    let second = ("second".to_owned(), McpServerConfig::sdk(calculator()));
    let changed = client.mcp_set_servers([second]).await.unwrap();
    assert_eq!(changed.added, ["second"]);
    let messages = turn(&client, "What is 15 + 27?").await;
    assert!(result_of(&messages).is_success());
    let heard = scene.model.last_request().last_tool_result();
    assert_eq!((heard.text().as_str(), heard.is_error), ("42", false));
    client.close().await;
    scene.close().await;
}

/// Fills in a form.
struct Ada;

impl Interaction for Ada {
    fn offers(&self) -> Offers {
        Offers::default().elicitation()
    }

    fn can_use_tool<'a>(&'a self, _: PermissionRequest) -> BoxFuture<'a, PermissionResponse> {
        Box::pin(std::future::ready(PermissionResponse::Allow))
    }

    fn elicit<'a>(&'a self, question: Elicitation<'a>) -> BoxFuture<'a, ElicitAnswer> {
        assert_eq!(question.server.as_str(), "asks");
        let Value::Object(filled_in) = json!({"name": "Ada"}) else {
            return Box::pin(std::future::ready(ElicitAnswer::Cancel));
        };
        Box::pin(std::future::ready(ElicitAnswer::Accept(filled_in)))
    }
}

#[tokio::test]
async fn a_question_of_an_external_server_is_answered_by_a_person() {
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
    for is_there in [true, false] {
        let Some(scene) = Scene::saying(turns()).await else {
            return;
        };
        let options = scene
            .options()
            .mcp_server("asks", stdio(&script))
            .allowed_tools(["mcp__asks"]);
        let options = if is_there {
            options.interaction(Ada)
        } else {
            options
        };
        let messages = ask("Who am I?", options).await;
        assert!(result_of(&messages).is_success());
        let heard = scene.model.last_request().last_tool_result().text();
        let expected = if is_there { "Ada" } else { "\"action\"" };
        assert!(heard.contains(expected), "{heard}");
        assert_eq!(heard.contains("accept"), is_there, "{heard}");
        scene.close().await;
    }
}

/// A server of this program whose one tool bears this name and says it.
fn naming(name: &'static str) -> McpServerConfig {
    let server =
        InProcessServer::new("it", "1.0").tool(name, name, move || async move { Ok(name) });
    McpServerConfig::sdk(server).always_load()
}

#[tokio::test]
async fn a_server_takes_the_place_of_its_namesake() {
    let turns = [
        Turn::tool("mcp__it__old", json!({})),
        Turn::text("Old."),
        Turn::tool("mcp__it__new", json!({})),
        Turn::text("New."),
        Turn::tool("mcp__it__new", json!({})),
        Turn::text("Still new."),
    ];
    let Some(scene) = Scene::saying(turns).await else {
        return;
    };
    let options = scene
        .options()
        .mcp_server("it", naming("old"))
        .allowed_tools(["mcp__it"]);
    let client = connect(options).await;
    turn(&client, "Call it").await;
    let new = ("it".to_owned(), naming("new"));
    client.mcp_set_servers([new]).await.unwrap();
    turn(&client, "Call it").await;
    client.mcp_reconnect("it").await.unwrap();
    turn(&client, "Call it").await;
    client.close().await;
    let heard = scene.model.last_request().tool_results();
    let heard: Vec<_> = heard.iter().map(ToolOutcome::text).collect();
    assert_eq!(heard, ["old", "new", "new"]);
    scene.close().await;
}

#[tokio::test]
async fn servers_that_come_at_the_same_time_do_not_drive_each_other_out() {
    let Some(scene) = Scene::saying([]).await else {
        return;
    };
    let client = connect(scene.options()).await;
    let set = |name: &str| client.mcp_set_servers([(name.to_owned(), naming("a"))]);
    let (one, two) = tokio::join!(set("one"), set("two"));
    assert_eq!(
        (one.unwrap().added, two.as_ref().unwrap().added.clone()),
        (vec!["one".to_owned()], vec!["two".to_owned()])
    );
    assert_eq!(two.unwrap().removed, ["one"]);
    client.close().await;
    scene.close().await;
}

#[tokio::test]
async fn tools_are_seen_from_the_beginning_where_that_is_wanted() {
    for manifests in [false, true] {
        let Some(scene) = Scene::saying([Turn::text("So.")]).await else {
            return;
        };
        let lazy = InProcessServer::new("it", "1.0").tool("a", "a", || async { Ok("a") });
        let options = scene
            .options()
            .env("ENABLE_TOOL_SEARCH", "true")
            .manifests(manifests)
            .mcp_server("eager", naming("a"))
            .sdk_server("lazy", lazy);
        ask("What is there?", options).await;
        let request = scene.model.last_request();
        let is_seen = |tool: &str| {
            let tool = request.tool(tool);
            tool.is_some_and(|tool| tool["defer_loading"] != json!(true))
        };
        assert!(is_seen("mcp__eager__a"), "manifests: {manifests}");
        assert!(!is_seen("mcp__lazy__a"), "manifests: {manifests}");
        scene.close().await;
    }
}

#[tokio::test]
async fn times_without_end_are_taken_for_long_ones() {
    let turns = [
        Turn::tool("mcp__calculator__add", json!({"a": 15, "b": 27})),
        Turn::text("42"),
    ];
    let Some(scene) = Scene::saying(turns).await else {
        return;
    };
    let endless = std::time::Duration::MAX;
    let options = scene.with_calculator();
    let options = options.call_timeout(endless).request_timeout(endless);
    let options = options.mcp_server("child", stdio(&saying("from a child")).timeout(endless));
    let client = connect(options).await;
    turn(&client, "What is 15 + 27?").await;
    let heard = scene.model.last_request().last_tool_result();
    assert_eq!((heard.text().as_str(), heard.is_error), ("42", false));
    let said = client.mcp_call("mcp__child__echo", Map::new()).await;
    assert!(said.unwrap().to_string().contains("from a child"));
    client.close().await;
    scene.close().await;
}
