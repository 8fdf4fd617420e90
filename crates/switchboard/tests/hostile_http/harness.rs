//! Runs one case with a hostile server and two healthy servers, and makes the checks that every
//! case must pass.

use std::cell::{Cell, RefCell};
use std::time::Duration;

use serde_json::json;
use switchboard::call::Delivery;
use switchboard::status::{ConnectionStatus, ServerDetails};
use switchboard::{CallError, Host, Readiness};
use switchboard_config::{RemoteKind, ServerConfig};
use switchboard_testkit::http::{HttpServer, Mode, RawServer, RawStep, ReceivedRequest};
use switchboard_testkit::{PeakMemory, Script};
use tokio::sync::{Mutex, MutexGuard};
use tokio::time::{Instant, sleep, timeout};

use crate::common::{launch, name, permissive};
use crate::table::{
    CANARY, Case, CredentialSource, ErrorKind, Expected, RetryingProvider, SessionAfter, Start,
};

/// Maximum duration of a case, even on a busy machine. A case that hangs fails.
const CASE_TIMEOUT: Duration = Duration::from_secs(30);

/// How much later than its deadline a call may end on a busy machine.
const SLACK: Duration = Duration::from_secs(8);

/// Interval at which a loop checks a condition again.
const POLL: Duration = Duration::from_millis(20);

/// Names of the healthy servers.
const HEALTHY: [&str; 2] = ["old", "new"];

/// Maximum number of connections that an idle session keeps open to listen for notifications.
const MAX_IDLE_CONNECTIONS: usize = 2;

/// Lets only one test of this process run at a time, because memory is measured per process. Under
/// nextest each test has its own process and never waits.
pub(crate) async fn lock_process() -> MutexGuard<'static, ()> {
    static LOCK: Mutex<()> = Mutex::const_new(());
    LOCK.lock().await
}

/// The servers of one case: the hostile server and all servers that it could affect.
pub(crate) struct TestServers {
    /// The hostile server.
    pub(crate) hostile: HttpServer,
    /// A healthy server that is not in the config. It must not receive the credential.
    pub(crate) other: HttpServer,
    /// A server that accepts connections and sends nothing.
    pub(crate) silent: RawServer,
    healthy: [HttpServer; 2],
    final_details: RefCell<Option<ServerDetails>>,
    /// When the servers were started.
    pub(crate) start_time: Instant,
}

/// Runs a case. Panics if the host behaves differently than the case expects.
pub(crate) async fn run_case(name: &str, description: &str, case: Case) {
    println!("{name}: {description}");
    let _guard = lock_process().await;
    let memory = PeakMemory::begin();
    let bound = case.memory;
    let result = timeout(CASE_TIMEOUT, Box::pin(run_servers(case))).await;
    assert!(result.is_ok(), "{name} is not over after {CASE_TIMEOUT:?}");
    let growth = memory.growth();
    println!("memory grew by {} KiB", growth / 1024);
    assert!(
        growth <= bound,
        "memory grew by {growth} bytes, over {bound}"
    );
}

async fn run_servers(mut case: Case) {
    let servers = TestServers::open(&case).await;
    for action in case.before_start.drain(..) {
        action(&servers);
    }
    let host = servers.host_of(&case);
    host.wait_for(Readiness::Servers(HEALTHY.map(name).to_vec()))
        .await;
    let is_over = Cell::new(false);
    let hostile = async {
        drive_hostile_server(&servers, &host, &mut case).await;
        is_over.set(true);
    };
    let healthy_calls = async {
        loop {
            call_healthy(&host).await;
            if is_over.get() {
                break;
            }
            sleep(POLL).await;
        }
    };
    tokio::join!(hostile, healthy_calls);
    for server in HEALTHY {
        let generation = host.server_details(server).unwrap().generation.0;
        assert_eq!(generation, 1, "{server} was reconnected");
    }
    let details = host.server_details("s").unwrap();
    check_details(&details);
    *servers.final_details.borrow_mut() = Some(details);
    let start_time = Instant::now();
    host.shutdown().await;
    let duration = start_time.elapsed();
    assert!(
        duration < SLACK,
        "the host needed {duration:?} to shut down"
    );
    servers.check(&case).await;
}

impl TestServers {
    async fn open(case: &Case) -> Self {
        let healthy = |script: Script, mode| HttpServer::start(script.tool("echo"), mode);
        Self {
            hostile: HttpServer::start(case.script.clone(), case.mode).await,
            other: healthy(Script::modern(), Mode::JSON).await,
            silent: RawServer::start([RawStep::Hang]).await,
            healthy: [
                healthy(Script::legacy(), Mode::LegacySse).await,
                healthy(Script::modern(), Mode::JSON).await,
            ],
            final_details: RefCell::default(),
            start_time: Instant::now(),
        }
    }

    fn host_of(&self, case: &Case) -> Host {
        let url = case.url.map_or_else(|| self.hostile.url(), |url| url(self));
        let mut config = ServerConfig::remote(url, case.kind)
            .call_timeout(case.call_timeout)
            .startup_timeout(case.startup_timeout);
        if case.credential == CredentialSource::Entry {
            config = config.header("Authorization", format!("Bearer {CANARY}"));
        }
        let mut builder = permissive()
            .limits(case.limits.clone())
            .deadlines(case.deadlines.clone())
            .launch(launch("s", config));
        if case.credential == CredentialSource::RetryingProvider {
            builder = builder.auth("s", RetryingProvider);
        }
        let kinds = [RemoteKind::Sse, RemoteKind::Http];
        for ((name, server), kind) in HEALTHY.into_iter().zip(&self.healthy).zip(kinds) {
            let config = ServerConfig::remote(server.url(), kind);
            builder = builder.launch(launch(name, config));
        }
        builder.start().unwrap()
    }

    /// Returns the details of the hostile server at the end of the case.
    pub(crate) fn details(&self) -> ServerDetails {
        self.final_details.borrow().clone().unwrap()
    }

    /// Returns all requests with a call of `work`, also those that a fault answered.
    pub(crate) fn work_requests(&self) -> Vec<ReceivedRequest> {
        let mut requests = self.hostile.requests_with("tools/call");
        requests.retain(|request| request.json()["params"]["name"] == "work");
        requests
    }

    /// Returns all bytes that the healthy servers received.
    pub(crate) fn healthy_bytes(&self) -> Vec<u8> {
        self.healthy
            .each_ref()
            .map(HttpServer::received_bytes)
            .concat()
    }

    /// Checks after shutdown: no connection is left, and the credential reached no other server.
    async fn check(&self, case: &Case) {
        for server in [&self.hostile, &self.other]
            .into_iter()
            .chain(&self.healthy)
        {
            server
                .wait_until("all connections are closed", |server| {
                    server.open_connections() == 0
                })
                .await;
        }
        self.silent
            .wait_until("all connections are closed", |server| {
                server.open_connections() == 0
            })
            .await;
        for server in std::iter::once(&self.other).chain(&self.healthy) {
            assert!(
                !contains_canary(&server.received_bytes()),
                "the credential leaked"
            );
        }
        for check in &case.checks {
            check(self);
        }
    }
}

/// Waits until only notification streams are open, if the case asks for it.
async fn wait_for_closed_connections(servers: &TestServers, case: &Case) {
    if case.waits_for_closed_connections {
        let only_streams = |server: &HttpServer| server.open_connections() == server.open_streams();
        let wait = servers
            .hostile
            .wait_until("idle connections close", only_streams);
        wait.await;
    }
}

async fn drive_hostile_server(servers: &TestServers, host: &Host, case: &mut Case) {
    host.wait_for(Readiness::All).await;
    check_start(host, case.start);
    let before = host.server_details("s").unwrap().generation;
    for action in case.after_connect.drain(..) {
        action(servers);
    }
    for expected in &case.calls {
        wait_for_closed_connections(servers, case).await;
        call(host, *expected, case).await;
    }
    match case.session_after {
        SessionAfter::Same => {
            wait_for_closed_connections(servers, case).await;
            assert_eq!(echo(host).await.unwrap(), "still here");
            assert_eq!(host.server_details("s").unwrap().generation, before);
            // When the server closes its end of the idle connections, the client must close its
            // pooled connections. A connection that the client leaked would stay open.
            servers.hostile.close_idle_connections();
            let settled = |server: &HttpServer| server.open_connections() <= MAX_IDLE_CONNECTIONS;
            servers
                .hostile
                .wait_until("connections close", settled)
                .await;
        }
        SessionAfter::New => {
            while !matches!(echo(host).await.as_deref(), Ok("still here")) {
                sleep(POLL).await;
            }
            assert!(host.server_details("s").unwrap().generation > before);
        }
        SessionAfter::Ended => {}
    }
}

fn check_start(host: &Host, start: Start) {
    let status = host.server_status("s").unwrap();
    let error = status.error.unwrap_or_default();
    let (expected, message) = match start {
        Start::Connected => (ConnectionStatus::Connected, ""),
        Start::ListingFailed(message) => (ConnectionStatus::Connected, message),
        Start::Failed(message) => (ConnectionStatus::Failed, message),
        Start::Retried(message) => (ConnectionStatus::Pending, message),
        Start::NeedsLogin => (ConnectionStatus::NeedsAuth, "log"),
        Start::NotConnected => {
            assert_ne!(status.status, ConnectionStatus::Connected);
            (status.status, "")
        }
    };
    assert_eq!(status.status, expected, "{error}");
    assert_eq!(error.is_empty(), start == Start::Connected, "{error}");
    assert!(error.contains(message), "no {message:?} in: {error}");
}

async fn echo(host: &Host) -> Result<String, CallError> {
    let call = host.call("mcp__s__echo", json!({"message": "still here"}));
    Ok(call.await?.to_text())
}

/// Calls the tool `work` of the hostile server. Checks that the outcome is the expected one and
/// that the call ends in time.
async fn call(host: &Host, expected: Expected, case: &Case) {
    let start_time = Instant::now();
    let call = host.call("mcp__s__work", case.arguments.clone());
    let outcome = call.on_progress(|_| {}).await;
    let duration = start_time.elapsed();
    let limit = case.call_timeout + SLACK;
    assert!(duration < limit, "the call took {duration:?}: {outcome:?}");
    match (expected, outcome) {
        (Expected::Text(message), Ok(output)) => {
            let text = output.to_text();
            assert!(
                text.contains(message),
                "no {message:?} in: {}",
                truncated(&text)
            );
        }
        (Expected::Error(kind, message), Err(error)) => {
            assert_eq!(error_kind(&error), kind, "{error}");
            let error = error.to_string();
            println!("error: {error}");
            assert!(error.contains(message), "no {message:?} in: {error}");
            assert!(!contains_canary(error.as_bytes()), "{error}");
        }
        (Expected::NotExecuted, Err(error)) => {
            println!("error: {error}");
            assert_ne!(error.delivery(), Delivery::Unknown, "{error}");
        }
        (expected, Ok(output)) => panic!(
            "expected {expected:?}, got: {}",
            truncated(&output.to_text())
        ),
        (expected, Err(error)) => panic!("expected {expected:?}, got: {error}"),
    }
}

async fn call_healthy(host: &Host) {
    for server in HEALTHY {
        let call = host.call(format!("mcp__{server}__echo"), json!({"message": "hi"}));
        assert_eq!(call.await.unwrap().to_text(), "hi");
    }
}

fn check_details(details: &ServerDetails) {
    let output = format!("{details:?}");
    assert!(!contains_canary(output.as_bytes()), "{output}");
}

/// Returns whether the credential of the hostile server occurs in `bytes`.
pub(crate) fn contains_canary(bytes: &[u8]) -> bool {
    let canary = CANARY.as_bytes();
    bytes.windows(canary.len()).any(|window| window == canary)
}

fn error_kind(error: &CallError) -> ErrorKind {
    match error {
        CallError::InvalidResponse { .. } => ErrorKind::InvalidResponse,
        CallError::TimedOut { .. } => ErrorKind::TimedOut,
        CallError::OutcomeUnknown { .. } => ErrorKind::OutcomeUnknown,
        CallError::NotSent { .. } => ErrorKind::NotSent,
        CallError::ErrorResponse { .. } => ErrorKind::ErrorResponse,
        CallError::Unavailable { .. } => ErrorKind::Unavailable,
        _ => ErrorKind::Other,
    }
}

/// Returns the first 300 characters of a text.
fn truncated(text: &str) -> String {
    text.chars().take(300).collect()
}
