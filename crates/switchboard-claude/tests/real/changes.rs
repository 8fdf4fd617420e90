//! What a server of this program offers changes while the CLI runs.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use serde_json::json;
use switchboard::InProcessServer;
use switchboard::inprocess::{InProcessTool, LocalCall, LocalServer};
use switchboard::interaction::BoxFuture;
use switchboard::mcp::{CallToolResult, ErrorObject, Implementation, Tool};
use switchboard_claude::Client;
use switchboard_testkit::fake_model::Turn;

use crate::scene::{PATIENCE, Scene, ask, calculator, connect, result_of, turn};

/// How often the model looks whether the tool is there yet.
const LOOKS: usize = 50;

#[tokio::test]
async fn a_tool_that_comes_later_is_used_in_the_same_session() {
    let looks = AtomicUsize::new(0);
    let scene = Scene::answering(move |request| {
        let heard = request.tool_results();
        if heard.is_empty() {
            return Turn::tool("mcp__it__grow", json!({}));
        }
        if heard.iter().any(|outcome| outcome.text() == "late") {
            return Turn::text("It is there.");
        }
        let is_there = request.tool("mcp__it__late").is_some()
            || request.body.to_string().contains("mcp__it__late");
        assert!(looks.fetch_add(1, Ordering::Relaxed) < LOOKS);
        let next = if is_there { "late" } else { "look" };
        Turn::tool(&format!("mcp__it__{next}"), json!({}))
    })
    .await;
    let Some(scene) = scene else {
        return;
    };
    let server =
        InProcessServer::new("it", "1.0").tool("look", "Does nothing", || async { Ok("nothing") });
    let growing = server.clone();
    let grow = move || {
        let late = InProcessTool::new("late", "Comes late", || async { Ok("late") });
        growing.add_tool(late);
        async { Ok("grown") }
    };
    server.add_tool(InProcessTool::new("grow", "Adds a tool", grow));
    let options = scene.options().sdk_server("it", server);
    let messages = ask("Grow", options.allowed_tools(["mcp__it"])).await;
    assert_eq!(result_of(&messages).result.as_deref(), Some("It is there."));
    scene.close().await;
}

/// Waits until the CLI knows of this tool no more: it lists anew when it comes to it.
async fn wait_until_gone(client: &Client, tool: &str) {
    let looks = async {
        loop {
            let servers = client.mcp_status().await.unwrap();
            let tools = servers.into_iter().filter_map(|server| server.tools);
            if tools.flatten().all(|known| known.name != tool) {
                return;
            }
        }
    };
    let outcome = tokio::time::timeout(PATIENCE, looks).await;
    outcome.expect("it is gone in time");
}

#[tokio::test]
async fn a_tool_that_is_removed_cannot_be_used_any_more() {
    let divide = || Turn::tool("mcp__calculator__divide", json!({"a": 1, "b": 2}));
    let turns = [divide(), Turn::text("One."), divide(), Turn::text("Two.")];
    let Some(scene) = Scene::saying(turns).await else {
        return;
    };
    let server = calculator();
    let options = scene.options().sdk_server("calculator", server.clone());
    let client = connect(options.allowed_tools(["mcp__calculator"])).await;
    turn(&client, "What is 1 / 2?").await;
    assert!(server.remove_tool("divide"));
    wait_until_gone(&client, "divide").await;
    turn(&client, "And now?").await;
    client.close().await;
    // The list in the request stays as it was: only what is called counts.
    let heard = scene.model.last_request().tool_results();
    assert_eq!(
        (heard[0].text().as_str(), heard[0].is_error),
        ("0.5", false)
    );
    assert!(heard[1].is_error, "{heard:#?}");
    assert!(
        heard[1].text().contains("No such tool available"),
        "{heard:#?}"
    );
    scene.close().await;
}

/// A calculator that counts what it is asked.
struct Counted {
    calculator: InProcessServer,
    counts: Arc<Counts>,
}

#[derive(Default)]
struct Counts {
    hellos: AtomicUsize,
    /// Lists of tools; each call of one looks it up there as well.
    lists: AtomicUsize,
}

impl LocalServer for Counted {
    fn implementation(&self) -> Implementation {
        self.counts.hellos.fetch_add(1, Ordering::Relaxed);
        LocalServer::implementation(&self.calculator)
    }

    fn tools(&self) -> Vec<Tool> {
        self.counts.lists.fetch_add(1, Ordering::Relaxed);
        self.calculator.tools()
    }

    fn call<'a>(
        &'a self,
        call: LocalCall<'a>,
    ) -> BoxFuture<'a, Result<CallToolResult, ErrorObject>> {
        LocalServer::call(&self.calculator, call)
    }
}

#[tokio::test]
async fn manifests_are_taken_and_save_the_questions() {
    let turns = || {
        [
            Turn::tool("mcp__calculator__add", json!({"a": 15, "b": 27})),
            Turn::text("42"),
        ]
    };
    for manifests in [true, false] {
        let Some(scene) = Scene::saying(turns()).await else {
            return;
        };
        let counts = Arc::new(Counts::default());
        let counted = Counted {
            calculator: calculator(),
            counts: Arc::clone(&counts),
        };
        let options = scene
            .options()
            .sdk_server("calculator", counted)
            .allowed_tools(["mcp__calculator"])
            .manifests(manifests);
        let client = connect(options).await;
        let asked = || {
            let Counts { hellos, lists } = &*counts;
            (
                hellos.load(Ordering::Relaxed),
                lists.load(Ordering::Relaxed),
            )
        };
        let before = asked();
        let parked = client.server_info()["sdk_mcp_manifests_parked"].clone();
        let expected = if manifests {
            json!({"calculator": "parked"})
        } else {
            json!(null)
        };
        assert_eq!(parked, expected);
        turn(&client, "What is 15 + 27?").await;
        client.close().await;
        let heard = scene.model.last_request().last_tool_result();
        assert_eq!(heard.text(), "42", "manifests: {manifests}");
        // One call, and with a manifest all that was asked was asked for it, before the CLI came.
        assert_eq!(asked(), (1, 2), "manifests: {manifests}");
        if manifests {
            assert_eq!(before, (1, 1));
        }
        scene.close().await;
    }
}
