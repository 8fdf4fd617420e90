//! Runs one case with a hostile server and two healthy servers, and makes the checks that every
//! case must pass.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::path::Path;
use std::time::Duration;

use serde_json::json;
use switchboard::status::ServerDetails;
use switchboard::{CallError, Host, Readiness};
use switchboard_config::ServerConfig;
use switchboard_testkit::{
    PeakMemory, Script, assert_no_process_left, unique_tag, zombie_children,
};
use tempfile::TempDir;
use tokio::sync::{Mutex, MutexGuard};
use tokio::time::{Instant, sleep, timeout};

use crate::common::{child, launch, name, permissive};
use crate::table::{Case, ErrorKind, Expected, FinalState, Launch, Start};

/// Maximum duration of a case, even on a busy machine. A case that hangs fails.
const CASE_TIMEOUT: Duration = Duration::from_secs(30);

/// How much later than its deadline a call may end on a busy machine.
const SLACK: Duration = Duration::from_secs(8);

/// Interval at which a loop checks a condition again.
const POLL: Duration = Duration::from_millis(20);

/// Names of the healthy servers, one per era.
const HEALTHY: [&str; 2] = ["old", "new"];

/// Lets only one test of this process run at a time, because memory and CPU time are measured per
/// process. Under nextest each test has its own process and never waits.
pub(crate) async fn lock_process() -> MutexGuard<'static, ()> {
    static LOCK: Mutex<()> = Mutex::const_new(());
    LOCK.lock().await
}

/// A host with one hostile and two healthy servers.
pub(crate) struct TestHost {
    host: Host,
    /// The working directory of the hostile server. Contains the directory `home`.
    folder: TempDir,
    tag: String,
    /// The last output of each tool of the hostile server.
    outputs: RefCell<HashMap<String, String>>,
    /// When the host was started.
    pub(crate) start_time: Instant,
}

/// Runs a case. Panics if the host behaves differently than the case expects.
pub(crate) async fn run_case(name: &str, description: &str, case: Case) {
    println!("{name}: {description}");
    let _guard = lock_process().await;
    let memory = PeakMemory::begin();
    let bound = case.memory;
    let result = timeout(CASE_TIMEOUT, Box::pin(run_host(case))).await;
    assert!(result.is_ok(), "{name} is not over after {CASE_TIMEOUT:?}");
    let growth = memory.growth();
    println!("memory grew by {} KiB", growth / 1024);
    assert!(
        growth <= bound,
        "memory grew by {growth} bytes, over {bound}"
    );
}

async fn run_host(case: Case) {
    let test_host = TestHost::open(&case);
    let healthy = HEALTHY.map(name).to_vec();
    test_host.host.wait_for(Readiness::Servers(healthy)).await;
    let before = test_host.healthy_pids().await;
    let is_over = Cell::new(false);
    let hostile = async {
        test_host.drive_hostile_server(&case).await;
        is_over.set(true);
    };
    let healthy_calls = async {
        loop {
            test_host.call_healthy().await;
            if is_over.get() {
                break;
            }
            sleep(POLL).await;
        }
    };
    tokio::join!(hostile, healthy_calls);
    assert_eq!(
        test_host.healthy_pids().await,
        before,
        "a healthy server was restarted"
    );
    test_host.check_secret(&case);
    if let Some(check) = &case.check {
        check(&test_host);
    }
    test_host.close().await;
}

impl TestHost {
    fn open(case: &Case) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let home = folder.path().join("home");
        std::fs::create_dir(&home).unwrap();
        let tag = unique_tag();
        let mut builder = permissive()
            .limits(case.limits.clone())
            .deadlines(case.deadlines.clone())
            .environment(environment(&home))
            .launch(launch("s", hostile(case, folder.path(), &tag)));
        for (name, script) in HEALTHY
            .into_iter()
            .zip([Script::legacy(), Script::modern()])
        {
            let script = script.tool("echo").tool("pid");
            builder = builder.launch(launch(name, child(&script, &tag)));
        }
        // If a server does not start, a host without this option would keep retrying forever.
        if case.final_state == FinalState::NotRunning {
            builder = builder.no_reconnect();
        }
        Self {
            host: builder.start().unwrap(),
            folder,
            tag,
            outputs: RefCell::default(),
            start_time: Instant::now(),
        }
    }

    async fn drive_hostile_server(&self, case: &Case) {
        self.host.wait_for(Readiness::All).await;
        self.check_start(case.start);
        let before = match case.final_state {
            FinalState::NotRunning => None,
            _ => Some(self.pid("s").await.unwrap()),
        };
        for (tool, expected) in &case.calls {
            self.call(tool, *expected, case).await;
        }
        match case.final_state {
            FinalState::SameProcess => assert_eq!(self.pid("s").await.ok(), before),
            FinalState::Restarted => self.wait_for_new_process(before).await,
            FinalState::Stuck | FinalState::NotRunning => {}
        }
    }

    fn check_start(&self, start: Start) {
        let status = self.host.server_status("s").unwrap();
        let error = status.error.unwrap_or_default();
        let (expected, message) = match start {
            Start::Connected => ("connected", ""),
            Start::ListingFailed(message) => ("connected", message),
            Start::Failed(message) => ("failed", message),
        };
        assert_eq!(status.status.as_str(), expected, "{error}");
        assert_eq!(error.is_empty(), start == Start::Connected, "{error}");
        assert!(error.contains(message), "no {message:?} in: {error}");
    }

    /// Calls a tool of the hostile server. Checks that the outcome is the expected one and that the
    /// call ends in time.
    async fn call(&self, tool: &str, expected: Expected, case: &Case) {
        let start_time = Instant::now();
        let call = self.host.call(format!("mcp__s__{tool}"), json!({}));
        let outcome = call.on_progress(|_| {}).await;
        let duration = start_time.elapsed();
        let limit = case.call_timeout + SLACK;
        assert!(duration < limit, "{tool} took {duration:?}: {outcome:?}");
        match (expected, outcome) {
            (Expected::Text(message), Ok(output)) => {
                let text = output.to_text();
                assert!(
                    text.contains(message),
                    "no {message:?} in: {}",
                    truncated(&text)
                );
                self.outputs.borrow_mut().insert(tool.to_owned(), text);
            }
            (Expected::Error(kind, message), Err(error)) => {
                assert_eq!(error_kind(&error), kind, "{error}");
                let error = error.to_string();
                assert!(error.contains(message), "no {message:?} in: {error}");
                assert!(
                    !case.secret.is_some_and(|secret| error.contains(secret)),
                    "{error}"
                );
            }
            (expected, Ok(output)) => panic!(
                "expected {expected:?}, got: {}",
                truncated(&output.to_text())
            ),
            (expected, Err(error)) => panic!("expected {expected:?}, got: {error}"),
        }
    }

    /// Waits until the hostile server responds with another pid than `before`.
    async fn wait_for_new_process(&self, before: Option<String>) {
        loop {
            match self.pid("s").await {
                Ok(now) if Some(&now) != before.as_ref() => return,
                _ => sleep(POLL).await,
            }
        }
    }

    /// Returns the pid of a server, as the server's tool `pid` reports it.
    async fn pid(&self, server: &str) -> Result<String, CallError> {
        loop {
            let call = self.host.call(format!("mcp__{server}__pid"), json!({}));
            match call.await {
                // Some cases have a short call timeout. On a busy machine the call of `pid` may
                // exceed that timeout, so try again.
                Err(CallError::TimedOut { .. }) => {}
                outcome => return outcome.map(|output| output.to_text()),
            }
        }
    }

    async fn healthy_pids(&self) -> [String; 2] {
        [
            self.pid(HEALTHY[0]).await.unwrap(),
            self.pid(HEALTHY[1]).await.unwrap(),
        ]
    }

    async fn call_healthy(&self) {
        for server in HEALTHY {
            let call = self
                .host
                .call(format!("mcp__{server}__echo"), json!({"message": "hi"}));
            assert_eq!(call.await.unwrap().to_text(), "hi");
        }
    }

    fn check_secret(&self, case: &Case) {
        let Some(secret) = case.secret else { return };
        let ServerDetails {
            status,
            notes,
            stderr,
            ..
        } = self.details();
        // The config entry is not checked, because the script in its arguments contains the secret.
        let texts = [status.error, status.detail, stderr, Some(notes.join("\n"))];
        let texts: Vec<_> = texts.into_iter().flatten().collect();
        assert!(!texts.join("\n").contains(secret), "{texts:?}");
    }

    /// Returns the details of the hostile server.
    pub(crate) fn details(&self) -> ServerDetails {
        self.host.server_details("s").unwrap()
    }

    /// Returns the last output of a tool of the hostile server.
    pub(crate) fn last_output(&self, tool: &str) -> String {
        self.outputs.borrow().get(tool).cloned().unwrap()
    }

    /// Returns the working directory of the hostile server.
    pub(crate) fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// Shuts the host down and checks that no process and no zombie is left.
    async fn close(&self) {
        self.host.shutdown().await;
        assert_no_process_left(&self.tag).await;
        assert_eq!(zombie_children(), [0; 0], "exited, but not reaped");
    }
}

/// Returns the config entry of the hostile server.
fn hostile(case: &Case, folder: &Path, tag: &str) -> ServerConfig {
    let config = match &case.launch {
        Launch::Script(script) => child(script, tag),
        Launch::Command(make) => make(folder).env(switchboard_testkit::TAG_VARIABLE, tag),
    };
    let config = config
        .cwd(folder)
        .call_timeout(case.call_timeout)
        .startup_timeout(case.startup_timeout);
    case.env
        .iter()
        .fold(config, |config, (name, value)| config.env(*name, *value))
}

/// Returns the environment of the host: `PATH`, `HOME`, and a secret that no child may inherit.
#[expect(
    clippy::disallowed_methods,
    reason = "the host inherits the test's `PATH`"
)]
fn environment(home: &Path) -> Vec<(String, String)> {
    let path = std::env::var("PATH").unwrap();
    [
        ("PATH", path.as_str()),
        ("HOME", home.to_str().unwrap()),
        ("HOST_SECRET", "canary-of-the-host"),
    ]
    .map(|(name, value)| (name.to_owned(), value.to_owned()))
    .into()
}

fn error_kind(error: &CallError) -> ErrorKind {
    match error {
        CallError::InvalidResponse { .. } => ErrorKind::InvalidResponse,
        CallError::TimedOut { .. } => ErrorKind::TimedOut,
        CallError::OutcomeUnknown { .. } => ErrorKind::OutcomeUnknown,
        CallError::NotSent { .. } => ErrorKind::NotSent,
        CallError::ErrorResponse { .. } => ErrorKind::ErrorResponse,
        _ => ErrorKind::Other,
    }
}

/// Returns the first 300 characters of a text.
fn truncated(text: &str) -> String {
    text.chars().take(300).collect()
}
