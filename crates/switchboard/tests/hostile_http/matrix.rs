//! Every redirect there is, on every transport: what the entry keeps secret goes to its own server
//! and to nobody else.
//!
//! Six codes, nine ways to name another place, and all the requests that transports make. For each
//! combination the other server counts connections: there is none, so not a byte of a credential can
//! have gone there.

use std::time::Duration;

use serde_json::json;
use switchboard::limits::Deadlines;
use switchboard::{CallError, Host, HostBuilder, Readiness};
use switchboard_config::{RemoteKind, ServerConfig};
use switchboard_testkit::Script;
use switchboard_testkit::http::{Fault, HttpServer, Mode, ReceivedRequest};
use tokio::time::timeout;

use crate::common::{launch, permissive};
use crate::harness::{alone, shows_canary};
use crate::table::{CANARY, legacy, modern};

const CODES: [u16; 6] = [300, 301, 302, 303, 307, 308];

/// Spells another place, given the server itself and the other one.
type Spell = fn(&HttpServer, &HttpServer) -> String;

/// Ways to name another place.
const PLACES: [(&str, Spell); 9] = [
    ("the same server, another path", |_, _| {
        "/another".to_owned()
    }),
    ("another port", |_, other| other.url()),
    ("another name of this machine", |_, other| {
        format!("http://localhost:{}/mcp", other.address().port())
    }),
    ("the same port by another name", |own, _| {
        format!("http://localhost:{}/mcp", own.address().port())
    }),
    ("another scheme", |_, other| {
        other.url().replace("http:", "https:")
    }),
    ("a name before the host", |own, other| {
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

/// A request of a transport that is answered with a redirect.
#[derive(Clone, Copy, Debug)]
enum Request {
    First,
    Call,
    Subscription,
    Stream,
    Goodbye,
    SseStream,
    SsePost,
}

const REQUESTS: [Request; 7] = [
    Request::First,
    Request::Call,
    Request::Subscription,
    Request::Stream,
    Request::Goodbye,
    Request::SseStream,
    Request::SsePost,
];

impl Request {
    fn server(self) -> (Script, Mode, RemoteKind) {
        match self {
            Self::First | Self::Call | Self::Subscription => {
                (modern(), Mode::JSON, RemoteKind::Http)
            }
            Self::Stream | Self::Goodbye => (legacy(), Mode::SSE, RemoteKind::Http),
            Self::SseStream | Self::SsePost => (legacy(), Mode::LegacySse, RemoteKind::Sse),
        }
    }

    /// Which requests are sent elsewhere.
    fn key(self) -> &'static str {
        match self {
            Self::First => "*",
            Self::Call | Self::SsePost => "tools/call",
            Self::Subscription => "subscriptions/listen",
            Self::Goodbye => "DELETE",
            Self::Stream | Self::SseStream => "GET",
        }
    }
}

/// All that one request of a transport meets: a server for each code and place, and the other one.
struct Scene {
    servers: Vec<(String, HttpServer)>,
    other: HttpServer,
}

impl Scene {
    async fn of(request: Request) -> Self {
        let other = HttpServer::start(modern(), Mode::JSON).await;
        let mut servers = Vec::new();
        for code in CODES {
            for (place, spell) in PLACES {
                let (script, mode, _) = request.server();
                let server = HttpServer::start(script, mode).await;
                let target = spell(&server, &other);
                let fault = Fault::redirect(code, &target);
                server.arm(fault.on(request.key()).always());
                servers.push((format!("{request:?}, {code}, {place}"), server));
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
        assert_eq!(self.other.connections(), 0, "somebody went there");
        assert_eq!(self.other.received_bytes(), b"");
        for (name, server) in &self.servers {
            let own = server.address().to_string();
            let seen = server.requests();
            let is_sent_away =
                |seen: &ReceivedRequest| seen.status.is_some_and(|status| status / 100 == 3);
            assert!(seen.iter().any(is_sent_away), "{name}");
            for seen in seen {
                assert_eq!(seen.header("host"), Some(own.as_str()), "{name}");
                assert!(!shows_canary(seen.path.as_bytes()), "{name}");
            }
        }
    }
}

/// What is said of a server that sent us elsewhere shows no secret.
fn check_words(words: &str) {
    assert!(!shows_canary(words.as_bytes()), "{words}");
}

async fn play(request: Request) {
    let _alone = alone().await;
    let scene = Scene::of(request).await;
    let (_, _, kind) = request.server();
    let host = scene.host(kind);
    host.wait_for(Readiness::All).await;
    let calls = (0..scene.servers.len()).map(|number| {
        let call = host.call(format!("mcp__s{number}__work"), json!({}));
        async move { (number, call.await) }
    });
    for (number, outcome) in futures_util::future::join_all(calls).await {
        let name = &scene.servers[number].0;
        match (request, outcome) {
            // What is said unasked is not needed for a call.
            (Request::Subscription | Request::Stream | Request::Goodbye, Ok(output)) => {
                assert_eq!(output.to_text(), "right", "{name}");
            }
            (Request::Call | Request::SsePost, Err(CallError::ErrorResponse { error, .. })) => {
                check_words(&error.to_string());
            }
            (Request::First | Request::SseStream, Err(error)) => check_words(&error.to_string()),
            (_, outcome) => panic!("{name}: {outcome:?}"),
        }
    }
    for status in host.status() {
        check_words(&format!("{status:?}"));
    }
    host.shutdown().await;
    scene.check();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_redirect_on_any_transport_takes_a_credential_elsewhere() {
    for request in REQUESTS {
        let played = timeout(Duration::from_secs(60), play(request)).await;
        assert!(played.is_ok(), "{request:?} is not over");
    }
}
