//! A server made with the official Rust SDK (`rmcp`) that runs in the process of the host.

#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "a failed expectation fails the test"
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
use switchboard::in_process::{ServerInstance, rmcp_server};
use switchboard::status::TransportKind;
use switchboard::{CallContext, CallError, Event, Host, Readiness};
use switchboard_config::ServerConfig as Entry;
use tokio::time::{Instant, sleep, timeout};

const TIMEOUT: Duration = Duration::from_secs(60);

#[derive(Deserialize, JsonSchema)]
struct Pair {
    a: i64,
    b: i64,
}

/// Counters and flags of the server that the test reads.
#[derive(Default)]
struct Observed {
    calls: AtomicUsize,
    waiting: AtomicUsize,
    has_grown: AtomicBool,
}

struct Sums {
    observed: Arc<Observed>,
    tool_router: ToolRouter<Self>,
}

/// Decrements the number of waiting handlers when the handler that holds this guard is dropped.
struct WaitingGuard(Arc<Observed>);

impl Drop for WaitingGuard {
    fn drop(&mut self) {
        self.0.waiting.fetch_sub(1, Ordering::Relaxed);
    }
}

#[tool_router]
impl Sums {
    #[tool(description = "Adds two numbers")]
    async fn add(&self, Parameters(Pair { a, b }): Parameters<Pair>) -> String {
        self.observed.calls.fetch_add(1, Ordering::Relaxed);
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
        panic!("on purpose")
    }

    #[tool]
    async fn wait(&self) -> String {
        self.observed.waiting.fetch_add(1, Ordering::Relaxed);
        let _waiting = WaitingGuard(Arc::clone(&self.observed));
        std::future::pending().await
    }

    #[tool]
    async fn grow(&self, peer: Peer<RoleServer>) -> String {
        self.observed.has_grown.store(true, Ordering::Relaxed);
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
        let has_grown = self.observed.has_grown.load(Ordering::Relaxed);
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

fn sums() -> (ServerInstance, Arc<Observed>) {
    let observed = Arc::new(Observed::default());
    let server = Sums {
        observed: Arc::clone(&observed),
        tool_router: Sums::tool_router(),
    };
    (rmcp_server(server), observed)
}

async fn start_host(instance: &ServerInstance) -> Host {
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

/// Waits until the condition holds. With a paused clock the sleeps take no real time.
async fn wait_until(condition: impl Fn() -> bool) {
    let waiting = async {
        while !condition() {
            sleep(Duration::from_millis(1)).await;
        }
    };
    timeout(TIMEOUT, waiting).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn rmcp_server_works_like_any_server() {
    let (instance, _) = sums();
    let host = start_host(&instance).await;
    let status = host.server_status("sums").unwrap();
    assert_eq!(status.status.as_str(), "connected");
    assert_eq!(
        host.server_details("sums").unwrap().transport,
        TransportKind::Sdk
    );
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
async fn tool_added_at_run_time_is_listed() {
    let (instance, _) = sums();
    let host = start_host(&instance).await;
    let mut events = host.events();
    host.call("mcp__sums__grow", json!({})).await.unwrap();
    let changed =
        async { while !matches!(events.next().await, Some(Event::ToolsChanged { .. })) {} };
    timeout(TIMEOUT, changed).await.unwrap();
    assert!(tool_names(&host).contains(&"mcp__sums__late".to_owned()));
    host.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn panic_fails_call_and_disconnect_drops_handler() {
    let (instance, observed) = sums();
    let host = start_host(&instance).await;
    let error = host.call("mcp__sums__panic", json!({})).await.unwrap_err();
    assert!(
        error.to_string().contains("the handler panicked"),
        "{error}"
    );
    let call = host.call("mcp__sums__wait", json!({})).into_future();
    let (outcome, ()) = tokio::join!(call, async {
        wait_until(|| observed.waiting.load(Ordering::Relaxed) == 1).await;
        host.disconnect("sums").await.unwrap();
    });
    assert!(
        matches!(outcome, Err(CallError::OutcomeUnknown { .. })),
        "{outcome:?}"
    );
    wait_until(|| observed.waiting.load(Ordering::Relaxed) == 0).await;
    host.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn cancelled_request_drops_its_handler() {
    let (instance, observed) = sums();
    let host = start_host(&instance).await;
    let soon = Instant::now() + Duration::from_secs(5);
    let context = CallContext::default().deadline(soon);
    let call = host.call("mcp__sums__wait", json!({})).context(context);
    let outcome = call.await;
    assert!(
        matches!(outcome, Err(CallError::TimedOut { .. })),
        "{outcome:?}"
    );
    wait_until(|| observed.waiting.load(Ordering::Relaxed) == 0).await;
    let mut call = Box::pin(host.call("mcp__sums__wait", json!({})).into_future());
    let started = wait_until(|| observed.waiting.load(Ordering::Relaxed) == 1);
    tokio::select! {
        outcome = &mut call => panic!("{outcome:?}"),
        () = started => {}
    }
    drop(call);
    wait_until(|| observed.waiting.load(Ordering::Relaxed) == 0).await;
    assert_eq!(add(&host).await, "42");
    host.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn handler_is_shared_by_hosts() {
    let (instance, observed) = sums();
    let (one, two) = (start_host(&instance).await, start_host(&instance).await);
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
    assert_eq!(observed.calls.load(Ordering::Relaxed), 5);
    two.shutdown().await;
    drop((one, two, instance));
    // After the last connection has ended, the handler of the server is dropped.
    wait_until(|| Arc::strong_count(&observed) == 1).await;
}

#[tokio::test(start_paused = true)]
async fn sdk_entry_resolves_by_name() {
    let (instance, _) = sums();
    let host = permissive()
        .sdk_server("adder", instance)
        .launch(launch("sums", Entry::sdk("adder")))
        .start()
        .unwrap();
    host.wait_for(Readiness::All).await;
    assert_eq!(add(&host).await, "42");
    assert_eq!(
        host.server_details("sums").unwrap().transport,
        TransportKind::Sdk
    );
    host.shutdown().await;
}
