//! Every kind of redirect on every transport: credentials go only to the configured server.
//!
//! The test combines six status codes, nine spellings of the target and seven kinds of requests.
//! Besides the configured servers there is one other server, which counts its connections. The
//! count must stay zero, so no byte of a credential can have reached the other server.

use std::time::Duration;

use serde_json::json;
use switchboard::limits::Deadlines;
use switchboard::{CallError, Host, HostBuilder, Readiness};
use switchboard_config::{RemoteKind, ServerConfig};
use switchboard_testkit::Script;
use switchboard_testkit::http::{Fault, HttpServer, Mode, ReceivedRequest};
use tokio::time::timeout;

use crate::common::{launch, permissive};
use crate::harness::{contains_canary, lock_process};
use crate::table::{CANARY, legacy, modern};

const CODES: [u16; 6] = [300, 301, 302, 303, 307, 308];

/// Returns the target of a redirect. Gets the redirecting server and the other server, which must
/// receive nothing.
type TargetUrl = fn(&HttpServer, &HttpServer) -> String;

/// Spellings of a redirect target, each with a description.
const TARGETS: [(&str, TargetUrl); 9] = [
    ("the same server, another path", |_, _| {
        "/another".to_owned()
    }),
    ("another port", |_, other| other.url()),
    ("another host name of this machine", |_, other| {
        format!("http://localhost:{}/mcp", other.address().port())
    }),
    ("the same port under another host name", |own, _| {
        format!("http://localhost:{}/mcp", own.address().port())
    }),
    ("another scheme", |_, other| {
        other.url().replace("http:", "https:")
    }),
    ("a user name before the host", |own, other| {
        format!("http://{}@{}/mcp", own.address(), other.address())
    }),
    ("a host without a scheme", |_, other| {
        format!("//{}/mcp", other.address())
    }),
    ("a host behind backslashes", |_, other| {
        format!("\\\\{}\\mcp", other.address())
    }),
    ("a scheme without its slashes", |_, other| {
        format!("http:\\/{}/mcp", other.address())
    }),
];

/// The kind of request that the server answers with a redirect.
#[derive(Clone, Copy, Debug)]
enum Request {
    First,
    Call,
    Subscription,
    Stream,
    DeleteSession,
    SseStream,
    SsePost,
}

const REQUESTS: [Request; 7] = [
    Request::First,
    Request::Call,
    Request::Subscription,
    Request::Stream,
    Request::DeleteSession,
    Request::SseStream,
    Request::SsePost,
];

impl Request {
    fn server(self) -> (Script, Mode, RemoteKind) {
        match self {
            Self::First | Self::Call | Self::Subscription => {
                (modern(), Mode::JSON, RemoteKind::Http)
            }
            Self::Stream | Self::DeleteSession => (legacy(), Mode::SSE, RemoteKind::Http),
            Self::SseStream | Self::SsePost => (legacy(), Mode::LegacySse, RemoteKind::Sse),
        }
    }

    /// Returns the key that selects the requests to redirect.
    fn key(self) -> &'static str {
        match self {
            Self::First => "*",
            Self::Call | Self::SsePost => "tools/call",
            Self::Subscription => "subscriptions/listen",
            Self::DeleteSession => "DELETE",
            Self::Stream | Self::SseStream => "GET",
        }
    }
}

/// The servers for one kind of request: one redirecting server per status code and target, and the
/// other server, which must receive nothing.
struct RedirectServers {
    servers: Vec<(String, HttpServer)>,
    other: HttpServer,
}

impl RedirectServers {
    async fn start(request: Request) -> Self {
        let other = HttpServer::start(modern(), Mode::JSON).await;
        let mut servers = Vec::new();
        for code in CODES {
            for (description, target_url) in TARGETS {
                let (script, mode, _) = request.server();
                let server = HttpServer::start(script, mode).await;
                let target = target_url(&server, &other);
                let fault = Fault::redirect(code, &target);
                server.arm(fault.on(request.key()).always());
                servers.push((format!("{request:?}, {code}, {description}"), server));
            }
        }
        Self { servers, other }
    }

    fn host(&self, kind: RemoteKind) -> Host {
        let mut deadlines = Deadlines::default();
        deadlines.startup = Duration::from_secs(20);
        deadlines.exit_after_eof = Duration::from_millis(200);
        let builder = permissive().deadlines(deadlines);
        let add = |builder: HostBuilder, (number, (_, server)): (usize, &(String, HttpServer))| {
            let config = ServerConfig::remote(server.url(), kind)
                .header("Authorization", format!("Bearer {CANARY}"))
                .header("X-Api-Key", CANARY)
                .call_timeout(Duration::from_secs(2));
            builder.launch(launch(&format!("s{number}"), config))
        };
        let servers = self.servers.iter().enumerate();
        servers.fold(builder, add).start().unwrap()
    }

    fn check(&self) {
        assert_eq!(
            self.other.connections(),
            0,
            "the client followed a redirect"
        );
        assert_eq!(self.other.received_bytes(), b"");
        for (name, server) in &self.servers {
            let own = server.address().to_string();
            let requests = server.requests();
            let is_redirect = |received: &ReceivedRequest| {
                received.status.is_some_and(|status| status / 100 == 3)
            };
            assert!(requests.iter().any(is_redirect), "{name}");
            for received in requests {
                assert_eq!(received.header("host"), Some(own.as_str()), "{name}");
                assert!(!contains_canary(received.path.as_bytes()), "{name}");
            }
        }
    }
}

/// Checks that a message about a redirect contains no credential.
fn check_message(message: &str) {
    assert!(!contains_canary(message.as_bytes()), "{message}");
}

async fn check_request(request: Request) {
    let _guard = lock_process().await;
    let fixture = RedirectServers::start(request).await;
    let (_, _, kind) = request.server();
    let host = fixture.host(kind);
    host.wait_for(Readiness::All).await;
    let calls = (0..fixture.servers.len()).map(|number| {
        let call = host.call(format!("mcp__s{number}__work"), json!({}));
        async move { (number, call.await) }
    });
    for (number, outcome) in futures_util::future::join_all(calls).await {
        let name = &fixture.servers[number].0;
        match (request, outcome) {
            // Only the subscription, the listen stream or the end of the session was redirected, so
            // the call succeeds.
            (Request::Subscription | Request::Stream | Request::DeleteSession, Ok(output)) => {
                assert_eq!(output.to_text(), "right", "{name}");
            }
            (Request::Call | Request::SsePost, Err(CallError::ErrorResponse { error, .. })) => {
                check_message(&error.to_string());
            }
            (Request::First | Request::SseStream, Err(error)) => check_message(&error.to_string()),
            (_, outcome) => panic!("{name}: {outcome:?}"),
        }
    }
    for status in host.status() {
        check_message(&format!("{status:?}"));
    }
    host.shutdown().await;
    fixture.check();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn redirects_never_leak_credentials() {
    for request in REQUESTS {
        let result = timeout(Duration::from_secs(60), check_request(request)).await;
        assert!(result.is_ok(), "{request:?} timed out");
    }
}
