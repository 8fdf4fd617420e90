//! In-process servers that change their tools while the CLI runs.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use serde_json::json;
use switchboard::InProcessServer;
use switchboard::in_process::{InProcessTool, LocalCall, LocalServer};
use switchboard::interaction::BoxFuture;
use switchboard::mcp::{CallToolResult, ErrorObject, Implementation, ToolDefinition};
use switchboard_claude::Client;
use switchboard_testkit::fake_model::Turn;

use crate::harness::{Harness, TEST_TIMEOUT, calculator, connect, result_of, run_query, turn};

/// Maximum number of times that the model looks for the added tool.
const MAX_CHECKS: usize = 50;

#[tokio::test]
async fn added_tool_is_usable_in_the_session() {
    let checks = AtomicUsize::new(0);
    let harness = Harness::with_model(move |request| {
        let tool_results = request.tool_results();
        if tool_results.is_empty() {
            return Turn::tool("mcp__it__grow", json!({}));
        }
        if tool_results.iter().any(|outcome| outcome.text() == "late") {
            return Turn::text("It is there.");
        }
        let is_there = request.tool("mcp__it__late").is_some()
            || request.body.to_string().contains("mcp__it__late");
        assert!(checks.fetch_add(1, Ordering::Relaxed) < MAX_CHECKS);
        let next = if is_there { "late" } else { "look" };
        Turn::tool(&format!("mcp__it__{next}"), json!({}))
    })
    .await;
    let Some(harness) = harness else {
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
    let options = harness.options().sdk_server("it", server);
    let messages = run_query("Grow", options.allowed_tools(["mcp__it"])).await;
    assert_eq!(result_of(&messages).result.as_deref(), Some("It is there."));
    harness.close().await;
}

/// Polls until the CLI has updated the server's tool list and this tool is gone.
async fn wait_until_removed(client: &Client, tool: &str) {
    let polling = async {
        loop {
            let servers = client.mcp_status().await.unwrap();
            let tools = servers.into_iter().filter_map(|server| server.tools);
            if tools.flatten().all(|known| known.name != tool) {
                return;
            }
        }
    };
    let outcome = tokio::time::timeout(TEST_TIMEOUT, polling).await;
    outcome.expect("timed out");
}

#[tokio::test]
async fn removed_tool_is_not_callable() {
    let divide = || Turn::tool("mcp__calculator__divide", json!({"a": 1, "b": 2}));
    let turns = [divide(), Turn::text("One."), divide(), Turn::text("Two.")];
    let Some(harness) = Harness::with_turns(turns).await else {
        return;
    };
    let server = calculator();
    let options = harness.options().sdk_server("calculator", server.clone());
    let client = connect(options.allowed_tools(["mcp__calculator"])).await;
    turn(&client, "What is 1 / 2?").await;
    assert!(server.remove_tool("divide"));
    wait_until_removed(&client, "divide").await;
    turn(&client, "And now?").await;
    client.close().await;
    // The CLI does not change the tool list that it sends to the model during a conversation. The
    // removal therefore shows only in the result of the call.
    let tool_results = harness.model.last_request().tool_results();
    assert_eq!(
        (tool_results[0].text().as_str(), tool_results[0].is_error),
        ("0.5", false)
    );
    assert!(tool_results[1].is_error, "{tool_results:#?}");
    assert!(
        tool_results[1].text().contains("No such tool available"),
        "{tool_results:#?}"
    );
    harness.close().await;
}

/// A calculator server that counts the handshakes and tool listings.
struct CountingServer {
    calculator: InProcessServer,
    counts: Arc<Counts>,
}

#[derive(Default)]
struct Counts {
    handshakes: AtomicUsize,
    /// Number of times that the tool list was read. Each tool call reads it, too.
    lists: AtomicUsize,
}

impl LocalServer for CountingServer {
    fn implementation(&self) -> Implementation {
        self.counts.handshakes.fetch_add(1, Ordering::Relaxed);
        LocalServer::implementation(&self.calculator)
    }

    fn tools(&self) -> Vec<ToolDefinition> {
        self.counts.lists.fetch_add(1, Ordering::Relaxed);
        self.calculator.tools()
    }

    fn call_tool<'a>(
        &'a self,
        call: LocalCall<'a>,
    ) -> BoxFuture<'a, Result<CallToolResult, ErrorObject>> {
        LocalServer::call_tool(&self.calculator, call)
    }
}

#[tokio::test]
async fn manifests_replace_the_first_requests() {
    let turns = || {
        [
            Turn::tool("mcp__calculator__add", json!({"a": 15, "b": 27})),
            Turn::text("42"),
        ]
    };
    for manifests in [true, false] {
        let Some(harness) = Harness::with_turns(turns()).await else {
            return;
        };
        let counts = Arc::new(Counts::default());
        let counted = CountingServer {
            calculator: calculator(),
            counts: Arc::clone(&counts),
        };
        let options = harness
            .options()
            .sdk_server("calculator", counted)
            .allowed_tools(["mcp__calculator"])
            .manifests(manifests);
        let client = connect(options).await;
        let request_counts = || {
            let Counts { handshakes, lists } = &*counts;
            (
                handshakes.load(Ordering::Relaxed),
                lists.load(Ordering::Relaxed),
            )
        };
        let before = request_counts();
        let parked = client.server_info()["sdk_mcp_manifests_parked"].clone();
        let expected = if manifests {
            json!({"calculator": "parked"})
        } else {
            json!(null)
        };
        assert_eq!(parked, expected);
        turn(&client, "What is 15 + 27?").await;
        client.close().await;
        let tool_result = harness.model.last_request().last_tool_result();
        assert_eq!(tool_result.text(), "42", "manifests: {manifests}");
        // One handshake in total. The tool list is read twice: for one listing and for one call.
        // With manifests, handshake and listing happen before the CLI starts.
        assert_eq!(request_counts(), (1, 2), "manifests: {manifests}");
        if manifests {
            assert_eq!(before, (1, 1));
        }
        harness.close().await;
    }
}
