//! Who gets into remote servers, and what becomes of those that want a login.

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
use switchboard::mcp::{Era, Tool};
use switchboard::status::{ConnectionStatus, Unavailable};
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
async fn the_headers_of_an_entry_go_with_every_request() {
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
async fn a_server_that_wants_a_login_says_so_and_is_tried_again_when_asked_for() {
    let server = server().await;
    server.require_bearer(TOKEN);
    let host = start(permissive().launch(launch("s", remote(&server)))).await;
    let inspection = host.server_details("s").unwrap();
    assert_eq!(inspection.status.status, ConnectionStatus::NeedsAuth);
    assert_eq!(
        inspection.phase,
        switchboard::status::ServerPhase::NeedsAuth
    );
    let challenge = inspection.challenge.unwrap();
    let bearer = challenge.bearer().unwrap();
    assert!(
        bearer
            .param("resource_metadata")
            .unwrap()
            .contains("oauth-protected-resource")
    );
    let error = inspection.status.error.unwrap();
    assert!(
        error.starts_with("the server wants a login (HTTP 401)"),
        "{error}"
    );
    let hint = inspection.status.detail.unwrap();
    assert!(hint.contains("-H \"Authorization: Bearer …\""), "{hint}");

    let tried = server.requests().len();
    let refused = echo(&host).await.unwrap_err();
    let CallError::Unavailable(Unavailable {
        status: needs,
        hint,
        ..
    }) = refused
    else {
        panic!("{refused}");
    };
    assert_eq!(needs, ConnectionStatus::NeedsAuth);
    assert!(hint.is_some());
    assert_eq!(server.requests().len(), tried);

    server.require_no_token();
    host.reconnect("s").await.unwrap();
    assert_eq!(echo(&host).await.unwrap(), "hello");
    host.shutdown().await;
}

#[tokio::test]
async fn a_token_that_is_refused_in_mid_use_needs_a_login_and_the_call_was_not_made() {
    let server = server().await;
    server.require_bearer(TOKEN);
    let config = remote(&server).header("Authorization", format!("Bearer {TOKEN}"));
    let host = start(permissive().launch(launch("s", config))).await;
    assert_eq!(echo(&host).await.unwrap(), "hello");
    server.require_bearer("another-one-0123456789");
    let refused = echo(&host).await.unwrap_err();
    assert!(
        matches!(refused, CallError::Unavailable { .. }),
        "{refused}"
    );
    assert_eq!(status(&host), ConnectionStatus::NeedsAuth);
    assert_eq!(server.count("tools/call"), 1);
    let shown = format!("{:?}{refused}", host.server_details("s").unwrap());
    assert!(!shown.contains(TOKEN), "{shown}");
    host.shutdown().await;
}

#[tokio::test]
async fn a_helper_prints_headers_and_prints_them_again_when_they_are_refused() {
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
    // It runs once for all calls that are refused at the same time.
    server.require_bearer("token-3");
    let calls = (0..8).map(|_| echo(&host));
    let said = futures_util::future::join_all(calls).await;
    assert!(said.iter().all(Result::is_ok), "{said:?}");
    let runs = std::fs::read_to_string(folder.path().join("runs")).unwrap();
    assert_eq!(runs.lines().count(), 3);
    assert_eq!(server.count("tools/call"), 9);
    let sent = server.received_bytes();
    assert!(!String::from_utf8_lossy(&sent).contains("never-sent"));
    host.shutdown().await;
}

#[tokio::test]
async fn a_helper_that_fails_is_quoted_and_the_server_is_not_asked() {
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

/// Gives the first token until it is refused, then the second.
struct Rotating {
    refusals: Arc<AtomicUsize>,
}

impl AuthProvider for Rotating {
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
async fn the_program_may_authorize_requests_itself() {
    let server = server().await;
    server.require_bearer(TOKEN);
    let refusals = Arc::<AtomicUsize>::default();
    let provider = Rotating {
        refusals: Arc::clone(&refusals),
    };
    let config = remote(&server).header("Authorization", "Bearer of-the-entry");
    let builder = permissive().auth("s", provider).launch(launch("s", config));
    let host = start(builder).await;
    assert_eq!(echo(&host).await.unwrap(), "hello");
    assert_eq!(refusals.load(Ordering::SeqCst), 1);
    // Whatever the server repeats of it is masked.
    let words = format!("you sent {TOKEN}");
    server.arm(Fault::status(400).body(words).on("tools/call").always());
    let error = echo(&host).await.unwrap_err().to_string();
    assert!(error.contains("you sent ***"), "{error}");
    host.shutdown().await;
}

#[tokio::test]
async fn a_provider_that_never_has_enough_is_asked_only_so_often() {
    let server = server().await;
    server.require_bearer("nobody-knows-it-0123456789");
    let refusals = Arc::<AtomicUsize>::default();
    let provider = Rotating {
        refusals: Arc::clone(&refusals),
    };
    let builder = permissive().no_reconnect().auth("s", provider);
    let host = start(builder.launch(launch("s", remote(&server)))).await;
    assert_ne!(status(&host), ConnectionStatus::Connected);
    assert!(refusals.load(Ordering::SeqCst) < 20);
    assert!(server.requests().len() < 20);
    host.shutdown().await;
}

fn connector(url: &str) -> ServerConfig {
    ServerConfig::new(TransportConfig::ClaudeAiProxy {
        url: url.to_owned(),
        id: "srv_1".to_owned(),
    })
}

#[tokio::test]
async fn a_server_of_the_account_gets_its_bearer_and_nobody_else_does() {
    let server = server().await;
    server.require_bearer(TOKEN);
    let origin = format!("http://{}", server.address());
    let config = || connector(&format!("{origin}/mcp?server={{id}}"));

    // Nobody logged in: nothing is sent.
    let builder = permissive().claude_ai_origins([&origin]);
    let host = start(builder.launch(launch("s", config()))).await;
    assert_eq!(status(&host), ConnectionStatus::NeedsAuth);
    assert_eq!(server.requests(), []);
    host.shutdown().await;

    // An origin that is not on the list: nothing is sent either.
    let account = || Bearer::new(TOKEN).unwrap();
    let builder = permissive().claude_ai_account(account());
    let host = start(builder.launch(launch("s", config()))).await;
    let told = host.server_status("s").unwrap();
    assert_eq!(told.status, ConnectionStatus::Failed);
    let error = told.error.unwrap();
    assert_eq!(
        error,
        format!("the bearer of the account does not go to {origin}")
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
        "claudeai-proxy"
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
async fn an_address_with_a_password_is_refused_in_words_without_it() {
    let server = server().await;
    let url = format!("http://me:{TOKEN}@{}/mcp", server.address());
    let config = ServerConfig::remote(url, RemoteKind::Http);
    let host = start(permissive().launch(launch("s", config))).await;
    let told = host.server_status("s").unwrap();
    assert_eq!(
        told.error.as_deref(),
        Some("`url` holds a user name or a password")
    );
    assert!(!format!("{told:?}").contains(TOKEN));
    assert_eq!(server.requests(), []);
    host.shutdown().await;
}

/// Remembers across hosts.
struct Shared(Arc<InMemoryServerCache>);

impl ServerCache for Shared {
    fn era(&self, key: &str) -> Option<Era> {
        self.0.era(key)
    }
    fn remember_era(&self, key: &str, era: Era) {
        self.0.remember_era(key, era);
    }
    fn tools(&self, key: &str) -> Option<Vec<Tool>> {
        self.0.tools(key)
    }
    fn remember_tools(&self, key: &str, tools: &[Tool]) {
        self.0.remember_tools(key, tools);
    }
}

#[tokio::test]
async fn in_the_profile_server_a_server_is_found_out_about_by_the_first_call() {
    let server = server().await;
    let memory = Arc::<InMemoryServerCache>::default();
    let build = || {
        permissive()
            .profile(Profile::Server)
            .server_cache(Shared(Arc::clone(&memory)))
            .launch(launch("s", remote(&server)))
    };
    let host = start(build()).await;
    assert_eq!(status(&host), ConnectionStatus::Pending);
    assert_eq!(tool_names(&host), [""; 0]);
    assert_eq!(server.requests(), []);
    // Its tools are not known, and yet the name says whose it is.
    assert_eq!(echo(&host).await.unwrap(), "hello");
    assert_eq!(tool_names(&host), ["mcp__s__echo"]);
    host.shutdown().await;

    let asked = server.requests().len();
    let host = start(build()).await;
    assert_eq!(tool_names(&host), ["mcp__s__echo"]);
    assert_eq!(server.requests().len(), asked);
    assert_eq!(echo(&host).await.unwrap(), "hello");
    // One that is added later is wanted now.
    host.connect("later", remote(&server)).await.unwrap();
    host.shutdown().await;
}
