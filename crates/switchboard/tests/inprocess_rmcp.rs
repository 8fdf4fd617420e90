//! A server made with the official SDK, in this process and unchanged.

#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "a test that meets the unexpected shall fail"
)]

mod common;

use std::collections::BTreeMap;
use std::future::IntoFuture as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use common::{launch, permissive, tool_names};
use rmcp::handler::server::router::tool::ToolRouter;
use rmcp::handler::server::wrapper::Parameters;
use rmcp::model::{
    CallToolResult, ContentBlock, GetPromptRequestParams, GetPromptResponse, GetPromptResult,
    ListPromptsResult, ListResourcesResult, ListToolsResult, PaginatedRequestParams, Prompt,
    PromptMessage, ReadResourceRequestParams, ReadResourceResponse, ReadResourceResult, Resource,
    ResourceContents, Role, ServerCapabilities, ServerConfig,
};
use rmcp::service::RequestContext;
use rmcp::{ErrorData, Peer, RoleServer, ServerHandler, tool, tool_handler, tool_router};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;
use switchboard::inprocess::{ServerInstance, rmcp_server};
use switchboard::{CallContext, CallError, Event, Host, Readiness};
use switchboard_config::ServerConfig as Entry;
use tokio::time::{Instant, sleep, timeout};

const A_WHILE: Duration = Duration::from_secs(60);

#[derive(Deserialize, JsonSchema)]
struct Pair {
    a: i64,
    b: i64,
}

/// What the test sees of the server from outside.
#[derive(Default)]
struct Seen {
    calls: AtomicUsize,
    waiting: AtomicUsize,
    has_grown: AtomicBool,
}

struct Sums {
    seen: Arc<Seen>,
    tool_router: ToolRouter<Self>,
}

/// Counts a handler for as long as it waits.
struct Waiting(Arc<Seen>);

impl Drop for Waiting {
    fn drop(&mut self) {
        self.0.waiting.fetch_sub(1, Ordering::Relaxed);
    }
}

#[tool_router]
impl Sums {
    #[tool(description = "Adds two numbers")]
    async fn add(&self, Parameters(Pair { a, b }): Parameters<Pair>) -> String {
        self.seen.calls.fetch_add(1, Ordering::Relaxed);
        (a + b).to_string()
    }

    #[tool]
    async fn fail(&self) -> Result<CallToolResult, ErrorData> {
        Ok(CallToolResult::error(vec![ContentBlock::text(
            "it is late",
        )]))
    }

    #[tool]
    async fn panic(&self) -> String {
        panic!("told to")
    }

    #[tool]
    async fn wait(&self) -> String {
        self.seen.waiting.fetch_add(1, Ordering::Relaxed);
        let _waiting = Waiting(Arc::clone(&self.seen));
        std::future::pending().await
    }

    #[tool]
    async fn grow(&self, peer: Peer<RoleServer>) -> String {
        self.seen.has_grown.store(true, Ordering::Relaxed);
        peer.notify_tool_list_changed().await.unwrap();
        "grown".to_owned()
    }

    #[tool]
    async fn late(&self) -> String {
        "at last".to_owned()
    }
}

#[tool_handler]
impl ServerHandler for Sums {
    fn get_info(&self) -> ServerConfig {
        let capabilities = ServerCapabilities::builder()
            .enable_tools()
            .enable_tool_list_changed()
            .enable_resources()
            .enable_prompts()
            .build();
        ServerConfig::new(capabilities)
    }

    async fn list_tools(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        let mut tools = self.tool_router.list_all();
        let has_grown = self.seen.has_grown.load(Ordering::Relaxed);
        tools.retain(|tool| has_grown || tool.name != "late");
        Ok(ListToolsResult::with_all_items(tools))
    }

    async fn list_resources(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListResourcesResult, ErrorData> {
        let resource = Resource::new("sums://last", "last");
        Ok(ListResourcesResult::with_all_items(vec![resource]))
    }

    async fn read_resource(
        &self,
        request: ReadResourceRequestParams,
        _: RequestContext<RoleServer>,
    ) -> Result<ReadResourceResponse, ErrorData> {
        let text = ResourceContents::text("forty-two", request.uri);
        Ok(ReadResourceResult::new(vec![text]).into())
    }

    async fn list_prompts(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListPromptsResult, ErrorData> {
        let prompt = Prompt::new("explain", None::<String>, None);
        Ok(ListPromptsResult::with_all_items(vec![prompt]))
    }

    async fn get_prompt(
        &self,
        _: GetPromptRequestParams,
        _: RequestContext<RoleServer>,
    ) -> Result<GetPromptResponse, ErrorData> {
        let message = PromptMessage::new_text(Role::User, "Explain the sum.");
        Ok(GetPromptResult::new(vec![message]).into())
    }
}

fn sums() -> (ServerInstance, Arc<Seen>) {
    let seen = Arc::new(Seen::default());
    let server = Sums {
        seen: Arc::clone(&seen),
        tool_router: Sums::tool_router(),
    };
    (rmcp_server(server), seen)
}

async fn hosting(instance: &ServerInstance) -> Host {
    let host = permissive()
        .in_process_server("sums", instance.clone())
        .start()
        .unwrap();
    host.wait_for(Readiness::All).await;
    host
}

async fn add(host: &Host) -> String {
    let output = host.call("mcp__sums__add", json!({"a": 15, "b": 27})).await;
    output.unwrap().to_text()
}

/// Waits, on a clock that stands still unless everybody does, until it is so.
async fn until(is_so: impl Fn() -> bool) {
    let waiting = async {
        while !is_so() {
            sleep(Duration::from_millis(1)).await;
        }
    };
    timeout(A_WHILE, waiting).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn its_tools_resources_and_prompts_are_those_of_any_server() {
    let (instance, _) = sums();
    let host = hosting(&instance).await;
    let status = host.server_status("sums").unwrap();
    assert_eq!(status.status.as_str(), "connected");
    assert_eq!(host.server_details("sums").unwrap().transport, "sdk");
    assert_eq!(host.tools().len(), 5);
    assert_eq!(add(&host).await, "42");
    let output = host.call("mcp__sums__fail", json!({})).await.unwrap();
    assert_eq!(
        (output.is_error, output.to_text().as_str()),
        (true, "it is late")
    );
    let wrong = host.call("mcp__sums__add", json!({"a": "x"})).await;
    assert!(
        matches!(wrong, Err(CallError::InvalidArguments { .. })),
        "{wrong:?}"
    );
    let resources = host.resources(None).await.unwrap().items;
    assert_eq!(resources[0].item.uri, "sums://last");
    let read = host.read_resource_raw("sums", "sums://last").await.unwrap();
    assert_eq!(read.contents[0].text.as_deref(), Some("forty-two"));
    let prompt = host
        .get_prompt_raw("sums", "explain", &BTreeMap::new())
        .await;
    assert_eq!(prompt.unwrap().messages.len(), 1);
    host.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn a_tool_that_comes_while_it_runs_is_found() {
    let (instance, _) = sums();
    let host = hosting(&instance).await;
    let mut events = host.events();
    host.call("mcp__sums__grow", json!({})).await.unwrap();
    let changed =
        async { while !matches!(events.next().await, Some(Event::ToolsChanged { .. })) {} };
    timeout(A_WHILE, changed).await.unwrap();
    assert!(tool_names(&host).contains(&"mcp__sums__late".to_owned()));
    host.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn a_panic_fails_its_call_and_a_handler_ends_with_its_connection() {
    let (instance, seen) = sums();
    let host = hosting(&instance).await;
    let error = host.call("mcp__sums__panic", json!({})).await.unwrap_err();
    assert!(
        error.to_string().contains("the handler panicked"),
        "{error}"
    );
    let call = host.call("mcp__sums__wait", json!({})).into_future();
    let (outcome, ()) = tokio::join!(call, async {
        until(|| seen.waiting.load(Ordering::Relaxed) == 1).await;
        host.disconnect("sums").await.unwrap();
    });
    assert!(
        matches!(outcome, Err(CallError::OutcomeUnknown { .. })),
        "{outcome:?}"
    );
    until(|| seen.waiting.load(Ordering::Relaxed) == 0).await;
    host.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn a_handler_ends_soon_after_nobody_waits_for_its_request() {
    let (instance, seen) = sums();
    let host = hosting(&instance).await;
    let soon = Instant::now() + Duration::from_secs(5);
    let context = CallContext::default().deadline(soon);
    let call = host.call("mcp__sums__wait", json!({})).context(context);
    let outcome = call.await;
    assert!(
        matches!(outcome, Err(CallError::TimedOut { .. })),
        "{outcome:?}"
    );
    until(|| seen.waiting.load(Ordering::Relaxed) == 0).await;
    let mut call = Box::pin(host.call("mcp__sums__wait", json!({})).into_future());
    let begun = until(|| seen.waiting.load(Ordering::Relaxed) == 1);
    tokio::select! {
        outcome = &mut call => panic!("{outcome:?}"),
        () = begun => {}
    }
    drop(call);
    until(|| seen.waiting.load(Ordering::Relaxed) == 0).await;
    assert_eq!(add(&host).await, "42");
    host.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn one_handler_serves_several_hosts_and_outlives_each() {
    let (instance, seen) = sums();
    let (one, two) = (hosting(&instance).await, hosting(&instance).await);
    assert_eq!([add(&one).await, add(&two).await], ["42", "42"]);
    one.shutdown().await;
    assert_eq!(add(&two).await, "42");
    two.reconnect("sums").await.unwrap();
    assert_eq!(add(&two).await, "42");
    two.disconnect("sums").await.unwrap();
    two.add_in_process_server("sums", instance.clone())
        .await
        .unwrap();
    assert_eq!(add(&two).await, "42");
    assert_eq!(seen.calls.load(Ordering::Relaxed), 5);
    two.shutdown().await;
    drop((one, two, instance));
    // Nothing that served a connection is left, and so nothing holds the handler.
    until(|| Arc::strong_count(&seen) == 1).await;
}

#[tokio::test(start_paused = true)]
async fn an_entry_finds_it_by_name() {
    let (instance, _) = sums();
    let host = permissive()
        .sdk_server("adder", instance)
        .launch(launch("sums", Entry::sdk("adder")))
        .start()
        .unwrap();
    host.wait_for(Readiness::All).await;
    assert_eq!(add(&host).await, "42");
    assert_eq!(host.server_details("sums").unwrap().transport, "sdk");
    host.shutdown().await;
}
