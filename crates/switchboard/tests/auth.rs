//! Authorization of HTTP servers: headers, `headersHelper`, auth providers, account bearers, and
//! login.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a failed expectation fails the test"
)]

mod common;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use common::{launch, permissive, tool_names};
use serde_json::json;
use switchboard::auth::{
    AuthError, AuthProvider, AuthRefusal, AuthRequest, AuthVerdict, Bearer, Credential,
};
use switchboard::cache::{InMemoryServerCache, ServerCache};
use switchboard::interaction::BoxFuture;
use switchboard::mcp::{Era, ToolDefinition};
use switchboard::status::{ConnectionStatus, TransportKind, Unavailable};
use switchboard::{CallError, Host, HostBuilder, Readiness};
use switchboard_config::{Profile, RemoteKind, ServerConfig, TransportConfig};
use switchboard_testkit::Script;
use switchboard_testkit::http::{Fault, HttpServer, Mode};

const TOKEN: &str = "sesame-open-0123456789";

async fn server() -> HttpServer {
    HttpServer::start(Script::modern().tool("echo"), Mode::STATELESS).await
}

fn remote(server: &HttpServer) -> ServerConfig {
    ServerConfig::remote(server.url(), RemoteKind::Http)
}

async fn start(builder: HostBuilder) -> Host {
    let host = builder.start().unwrap();
    host.wait_for(Readiness::All).await;
    host
}

fn status(host: &Host) -> ConnectionStatus {
    host.server_status("s").unwrap().status
}

async fn echo(host: &Host) -> Result<String, CallError> {
    let output = host
        .call("mcp__s__echo", json!({"message": "hello"}))
        .await?;
    Ok(output.to_text())
}

#[tokio::test]
async fn configured_headers_are_sent_with_every_request() {
    let server = server().await;
    server.require_bearer(TOKEN);
    let config = remote(&server)
        .header("Authorization", format!("Bearer {TOKEN}"))
        .header("X-Team", "blue")
        .header("Content-Type", "text/plain");
    let host = start(permissive().launch(launch("s", config))).await;
    assert_eq!(echo(&host).await.unwrap(), "hello");
    for request in server.requests() {
        assert_eq!(request.header("x-team"), Some("blue"));
        if request.method == "POST" {
            assert_eq!(request.header("content-type"), Some("application/json"));
        }
    }
    host.shutdown().await;
}

#[tokio::test]
async fn server_needing_login_is_retried_only_on_demand() {
    let server = server().await;
    server.require_bearer(TOKEN);
    let host = start(permissive().launch(launch("s", remote(&server)))).await;
    let details = host.server_details("s").unwrap();
    assert_eq!(details.status.status, ConnectionStatus::NeedsAuth);
    assert_eq!(details.phase, switchboard::status::ServerPhase::NeedsAuth);
    let challenge = details.challenge.unwrap();
    let bearer = challenge.bearer().unwrap();
    assert!(
        bearer
            .param("resource_metadata")
            .unwrap()
            .contains("oauth-protected-resource")
    );
    let error = details.status.error.unwrap();
    assert!(
        error.starts_with("the server requires a login (HTTP 401)"),
        "{error}"
    );
    let hint = details.status.detail.unwrap();
    assert!(hint.contains("-H \"Authorization: Bearer …\""), "{hint}");

    let request_count = server.requests().len();
    let error = echo(&host).await.unwrap_err();
    let CallError::Unavailable(Unavailable {
        status: actual,
        hint,
        ..
    }) = error
    else {
        panic!("{error}");
    };
    assert_eq!(actual, ConnectionStatus::NeedsAuth);
    assert!(hint.is_some());
    assert_eq!(server.requests().len(), request_count);

    server.require_no_token();
    host.reconnect("s").await.unwrap();
    assert_eq!(echo(&host).await.unwrap(), "hello");
    host.shutdown().await;
}

#[tokio::test]
async fn revoked_token_needs_login_and_call_is_not_executed() {
    let server = server().await;
    server.require_bearer(TOKEN);
    let config = remote(&server).header("Authorization", format!("Bearer {TOKEN}"));
    let host = start(permissive().launch(launch("s", config))).await;
    assert_eq!(echo(&host).await.unwrap(), "hello");
    server.require_bearer("another-one-0123456789");
    let error = echo(&host).await.unwrap_err();
    assert!(matches!(error, CallError::Unavailable { .. }), "{error}");
    assert_eq!(status(&host), ConnectionStatus::NeedsAuth);
    assert_eq!(server.count("tools/call"), 1);
    let output = format!("{:?}{error}", host.server_details("s").unwrap());
    assert!(!output.contains(TOKEN), "{output}");
    host.shutdown().await;
}

#[tokio::test]
async fn headers_helper_runs_again_after_refusal() {
    let folder = tempfile::tempdir().unwrap();
    let server = server().await;
    server.require_bearer("token-2");
    let mut config = remote(&server).header("Authorization", "Bearer never-sent");
    let TransportConfig::Remote(entry) = &mut config.transport else {
        panic!();
    };
    let command = "echo >> runs; echo \"Authorization: Bearer token-$(wc -l < runs | tr -d ' ')\"";
    entry.headers_helper = Some(command.to_owned());
    let path = "/usr/local/bin:/usr/bin:/bin".to_owned();
    let builder = permissive()
        .environment([("PATH".to_owned(), path)])
        .working_directory(folder.path())
        .launch(launch("s", config));
    let host = start(builder).await;
    assert_eq!(echo(&host).await.unwrap(), "hello");
    // The server refuses the old token of all eight calls. The host runs the helper once for all of
    // them.
    server.require_bearer("token-3");
    let calls = (0..8).map(|_| echo(&host));
    let outcomes = futures_util::future::join_all(calls).await;
    assert!(outcomes.iter().all(Result::is_ok), "{outcomes:?}");
    let runs = std::fs::read_to_string(folder.path().join("runs")).unwrap();
    assert_eq!(runs.lines().count(), 3);
    assert_eq!(server.count("tools/call"), 9);
    let sent = server.received_bytes();
    assert!(!String::from_utf8_lossy(&sent).contains("never-sent"));
    host.shutdown().await;
}

#[tokio::test]
async fn failing_headers_helper_sends_no_request() {
    let server = server().await;
    let mut config = remote(&server);
    let TransportConfig::Remote(entry) = &mut config.transport else {
        panic!();
    };
    entry.headers_helper = Some("echo 'the vault is locked' >&2; exit 2".to_owned());
    let host = start(permissive().no_reconnect().launch(launch("s", config))).await;
    let status = host.server_status("s").unwrap();
    assert_eq!(
        status.error.as_deref(),
        Some("`headersHelper` exited with code 2: the vault is locked")
    );
    assert!(status.detail.unwrap().contains("run the command by hand"));
    assert_eq!(server.requests(), []);
    host.shutdown().await;
}

/// An auth provider that returns a wrong token until the server refuses it, and then the right
/// token.
struct RotatingProvider {
    refusals: Arc<AtomicUsize>,
}

impl AuthProvider for RotatingProvider {
    fn credential<'a>(
        &'a self,
        request: AuthRequest<'a>,
    ) -> BoxFuture<'a, Result<Credential, AuthError>> {
        Box::pin(async move {
            assert_eq!(request.server.as_str(), "s");
            let token = match self.refusals.load(Ordering::SeqCst) {
                0 => "first-token-0123456789",
                _ => TOKEN,
            };
            Credential::bearer(&token.into())
        })
    }

    fn refused<'a>(&'a self, refusal: AuthRefusal<'a>) -> BoxFuture<'a, AuthVerdict> {
        Box::pin(async move {
            assert_eq!(refusal.status, 401);
            assert!(refusal.challenge.bearer().is_some());
            self.refusals.fetch_add(1, Ordering::SeqCst);
            AuthVerdict::TryAgain
        })
    }
}

#[tokio::test]
async fn custom_auth_provider_authorizes_requests() {
    let server = server().await;
    server.require_bearer(TOKEN);
    let refusals = Arc::<AtomicUsize>::default();
    let provider = RotatingProvider {
        refusals: Arc::clone(&refusals),
    };
    let config = remote(&server).header("Authorization", "Bearer of-the-entry");
    let builder = permissive().auth("s", provider).launch(launch("s", config));
    let host = start(builder).await;
    assert_eq!(echo(&host).await.unwrap(), "hello");
    assert_eq!(refusals.load(Ordering::SeqCst), 1);
    // The server repeats the token in an error, and the host masks it.
    let body = format!("you sent {TOKEN}");
    server.arm(Fault::status(400).body(body).on("tools/call").always());
    let error = echo(&host).await.unwrap_err().to_string();
    assert!(error.contains("you sent ***"), "{error}");
    host.shutdown().await;
}

#[tokio::test]
async fn auth_provider_retries_are_limited() {
    let server = server().await;
    server.require_bearer("never-accepted-0123456789");
    let refusals = Arc::<AtomicUsize>::default();
    let provider = RotatingProvider {
        refusals: Arc::clone(&refusals),
    };
    let builder = permissive().no_reconnect().auth("s", provider);
    let host = start(builder.launch(launch("s", remote(&server)))).await;
    assert_ne!(status(&host), ConnectionStatus::Connected);
    assert!(refusals.load(Ordering::SeqCst) < 20);
    assert!(server.requests().len() < 20);
    host.shutdown().await;
}

fn claude_ai_connector(url: &str) -> ServerConfig {
    ServerConfig::new(TransportConfig::ClaudeAiProxy {
        url: url.to_owned(),
        id: "srv_1".to_owned(),
    })
}

#[tokio::test]
async fn account_bearer_goes_only_to_its_origin() {
    let server = server().await;
    server.require_bearer(TOKEN);
    let origin = format!("http://{}", server.address());
    let config = || claude_ai_connector(&format!("{origin}/mcp?server={{id}}"));

    // Without a claude.ai account the host sends no request.
    let builder = permissive().claude_ai_origins([&origin]);
    let host = start(builder.launch(launch("s", config()))).await;
    assert_eq!(status(&host), ConnectionStatus::NeedsAuth);
    assert_eq!(server.requests(), []);
    host.shutdown().await;

    // With an account, but without permission for this origin, the host sends no request either.
    let account = || Bearer::new(TOKEN).unwrap();
    let builder = permissive().claude_ai_account(account());
    let host = start(builder.launch(launch("s", config()))).await;
    let status = host.server_status("s").unwrap();
    assert_eq!(status.status, ConnectionStatus::Failed);
    let error = status.error.unwrap();
    assert_eq!(
        error,
        format!("{origin} may not receive the token of the claude.ai account")
    );
    assert!(host.reconnect("s").await.is_err());
    assert_eq!(server.requests(), []);
    host.shutdown().await;

    let other = HttpServer::start(Script::modern().tool("echo"), Mode::STATELESS).await;
    let builder = permissive()
        .claude_ai_account(account())
        .claude_ai_origins([&origin]);
    let builder = builder.launch(launch("other", remote(&other)));
    let host = start(builder.launch(launch("s", config()))).await;
    assert_eq!(echo(&host).await.unwrap(), "hello");
    assert_eq!(
        host.server_details("s").unwrap().transport,
        TransportKind::ClaudeAiProxy
    );
    assert!(
        server
            .requests()
            .iter()
            .all(|request| request.path == "/mcp?server=srv_1")
    );
    assert!(!String::from_utf8_lossy(&other.received_bytes()).contains(TOKEN));
    host.shutdown().await;
}

#[tokio::test]
async fn url_with_password_is_refused_and_masked() {
    let server = server().await;
    let url = format!("http://me:{TOKEN}@{}/mcp", server.address());
    let config = ServerConfig::remote(url, RemoteKind::Http);
    let host = start(permissive().launch(launch("s", config))).await;
    let status = host.server_status("s").unwrap();
    assert_eq!(
        status.error.as_deref(),
        Some("`url` contains a user name or a password")
    );
    assert!(!format!("{status:?}").contains(TOKEN));
    assert_eq!(server.requests(), []);
    host.shutdown().await;
}

/// A cache that several hosts share.
struct SharedCache(Arc<InMemoryServerCache>);

impl ServerCache for SharedCache {
    fn era(&self, key: &str) -> Option<Era> {
        self.0.era(key)
    }
    fn remember_era(&self, key: &str, era: Era) {
        self.0.remember_era(key, era);
    }
    fn tools(&self, key: &str) -> Option<Vec<ToolDefinition>> {
        self.0.tools(key)
    }
    fn remember_tools(&self, key: &str, tools: &[ToolDefinition]) {
        self.0.remember_tools(key, tools);
    }
}

#[tokio::test]
async fn server_profile_connects_on_first_call() {
    let server = server().await;
    let cache = Arc::<InMemoryServerCache>::default();
    let build = || {
        permissive()
            .profile(Profile::Server)
            .server_cache(SharedCache(Arc::clone(&cache)))
            .launch(launch("s", remote(&server)))
    };
    let host = build().start().unwrap();
    host.wait_for(Readiness::Settled).await;
    assert_eq!(status(&host), ConnectionStatus::Pending);
    assert_eq!(tool_names(&host), [""; 0]);
    assert_eq!(server.requests(), []);
    // The catalog is still empty. The host finds the server by the server part of the wire name,
    // and connects it.
    assert_eq!(echo(&host).await.unwrap(), "hello");
    assert_eq!(tool_names(&host), ["mcp__s__echo"]);
    host.shutdown().await;

    let request_count = server.requests().len();
    let host = start(build()).await;
    assert_eq!(tool_names(&host), ["mcp__s__echo"]);
    assert_eq!(server.requests().len(), request_count);
    assert_eq!(echo(&host).await.unwrap(), "hello");
    // With the profile `Server`, `connect` still connects a server at once and does not wait for
    // the first call.
    host.connect("later", remote(&server)).await.unwrap();
    host.shutdown().await;
}
