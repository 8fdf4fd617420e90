//! Principals with different credentials have different sessions and tool lists.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a failed expectation fails the test"
)]

mod common;

use std::collections::BTreeSet;
use std::time::Duration;

use common::{launch, permissive};
use serde_json::json;
use switchboard::auth::{
    AuthError, AuthProvider, AuthRefusal, AuthRequest, AuthVerdict, Credential, DEFAULT_PRINCIPAL,
};
use switchboard::interaction::BoxFuture;
use switchboard::registry::{Registry, ToolExecutor};
use switchboard::{CallContext, Host, Readiness};
use switchboard_config::{RemoteKind, ServerConfig};
use switchboard_testkit::Script;
use switchboard_testkit::http::{HttpServer, Mode};

/// The number of further principals that can use one server.
const MAX_PRINCIPALS: usize = 256;

/// Gives every principal its own token.
struct TokenPerPrincipal {
    depends_on_principal: bool,
}

fn token_of(principal: &str) -> String {
    format!("token-of-{principal}-0123456789")
}

impl AuthProvider for TokenPerPrincipal {
    fn credential<'a>(
        &'a self,
        request: AuthRequest<'a>,
    ) -> BoxFuture<'a, Result<Credential, AuthError>> {
        Box::pin(async move { Credential::bearer(&token_of(request.principal).into()) })
    }

    fn refused<'a>(&'a self, refusal: AuthRefusal<'a>) -> BoxFuture<'a, AuthVerdict> {
        Box::pin(async move { refusal.final_verdict() })
    }

    fn depends_on_principal(&self) -> bool {
        self.depends_on_principal
    }
}

async fn start(depends_on_principal: bool) -> (Host, HttpServer) {
    let script = Script::legacy()
        .tool("echo")
        .resource("note://x", "text")
        .resource("note://y", "text");
    let server = HttpServer::start(script, Mode::JSON).await;
    let config = ServerConfig::remote(server.url(), RemoteKind::Http);
    let provider = TokenPerPrincipal {
        depends_on_principal,
    };
    let host = permissive()
        .auth("s", provider)
        .launch(launch("s", config))
        .start()
        .unwrap();
    host.wait_for(Readiness::All).await;
    (host, server)
}

async fn echo(host: &Host, principal: &str) {
    let call = host.call("mcp__s__echo", json!({"message": principal}));
    let output = call.context(CallContext::for_principal(principal)).await;
    assert_eq!(output.unwrap().to_text(), principal);
}

/// Returns the principals whose tokens the requests of this method carried, in order.
fn principals_of(server: &HttpServer, method: &str) -> Vec<String> {
    let requests = server.requests_with(method);
    let principals = requests.iter().map(|request| {
        let token = request.header("authorization").unwrap();
        let token = token.strip_prefix("Bearer token-of-").unwrap();
        token.strip_suffix("-0123456789").unwrap().to_owned()
    });
    principals.collect()
}

#[tokio::test]
async fn every_principal_has_its_own_session() {
    let (host, server) = start(true).await;
    for principal in [DEFAULT_PRINCIPAL, "ann", "bob", "ann"] {
        echo(&host, principal).await;
    }
    assert_eq!(
        principals_of(&server, "initialize"),
        [DEFAULT_PRINCIPAL, "ann", "bob"]
    );
    assert_eq!(
        principals_of(&server, "tools/call"),
        [DEFAULT_PRINCIPAL, "ann", "bob", "ann"]
    );
    let calls = server.requests_with("tools/call");
    let sessions: Vec<_> = calls
        .iter()
        .map(|call| call.header("mcp-session-id").unwrap())
        .collect();
    assert_eq!(sessions[1], sessions[3]);
    assert_eq!(sessions.iter().collect::<BTreeSet<_>>().len(), 3);
    host.shutdown().await;
}

#[tokio::test]
async fn principals_share_a_session_if_credentials_are_the_same() {
    let (host, server) = start(false).await;
    for principal in [DEFAULT_PRINCIPAL, "ann"] {
        echo(&host, principal).await;
    }
    for method in ["initialize", "tools/call"] {
        let principals = principals_of(&server, method);
        assert!(
            principals.iter().all(|it| it == DEFAULT_PRINCIPAL),
            "{principals:?}"
        );
    }
    assert_eq!(server.requests_with("initialize").len(), 1);
    host.shutdown().await;
}

#[tokio::test]
async fn listings_and_queries_use_the_session_of_the_principal() {
    let (host, server) = start(true).await;
    let mut registry = Registry::new(host.clone());
    registry.register_management_tools().unwrap();
    let context = CallContext::for_principal("ann");
    let tools = registry.definitions_for(&context).await;
    assert!(tools.iter().any(|tool| tool.name == "mcp__s__echo"));
    assert_eq!(
        principals_of(&server, "tools/list"),
        [DEFAULT_PRINCIPAL, "ann"]
    );
    for (tool, input) in [
        ("ListMcpResources", json!({"server": "s"})),
        ("ReadMcpResource", json!({"server": "s", "uri": "note://x"})),
        (
            "SubscribeMcpResource",
            json!({"server": "s", "uri": "note://y"}),
        ),
        ("RefreshMcpTools", json!({"server": "s"})),
        ("WaitForMcpServers", json!({})),
    ] {
        let output = registry.execute(tool, input, context.clone()).await;
        assert!(!output.is_error, "{tool}: {}", output.to_text());
    }
    for method in ["resources/list", "resources/read"] {
        let principals = principals_of(&server, method);
        assert!(
            !principals.is_empty() && principals.iter().all(|it| it == "ann"),
            "{method}"
        );
    }
    assert_eq!(principals_of(&server, "tools/list")[1..], ["ann", "ann"]);
    host.shutdown().await;
}

#[tokio::test]
async fn idle_session_of_a_principal_is_closed() {
    let (host, server) = start(true).await;
    echo(&host, "ann").await;
    tokio::time::pause();
    tokio::time::advance(Duration::from_secs(11 * 60)).await;
    // Lets the task run that closes the session.
    for _ in 0..100 {
        tokio::task::yield_now().await;
    }
    tokio::time::resume();
    echo(&host, "ann").await;
    let opened = principals_of(&server, "initialize");
    let of_ann = opened.iter().filter(|principal| *principal == "ann");
    assert_eq!(of_ann.count(), 2);
    host.shutdown().await;
}

#[tokio::test]
async fn least_recently_used_session_makes_room() {
    let (host, server) = start(true).await;
    for number in 0..=MAX_PRINCIPALS {
        echo(&host, &format!("p{number}")).await;
    }
    let opened = || principals_of(&server, "initialize").len();
    assert_eq!(opened(), MAX_PRINCIPALS + 2);
    // The last one still has its session, and the first one had to make room.
    echo(&host, &format!("p{MAX_PRINCIPALS}")).await;
    assert_eq!(opened(), MAX_PRINCIPALS + 2);
    echo(&host, "p0").await;
    assert_eq!(opened(), MAX_PRINCIPALS + 3);
    host.shutdown().await;
}
