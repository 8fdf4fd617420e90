//! Plays a row: the hostile server between two healthy ones, and everything that must hold.

use std::cell::{Cell, RefCell};
use std::time::Duration;

use serde_json::json;
use switchboard::call::Delivery;
use switchboard::status::{ConnectionStatus, ServerDetails};
use switchboard::{CallError, Host, Readiness};
use switchboard_config::{RemoteKind, ServerConfig};
use switchboard_testkit::http::{HttpServer, Mode, RawServer, RawStep};
use switchboard_testkit::{PeakMemory, Script};
use tokio::sync::{Mutex, MutexGuard};
use tokio::time::{Instant, sleep, timeout};

use crate::common::{launch, name, permissive};
use crate::table::{Afterwards, CANARY, From, Kind, Row, Sees, Start, Stubborn};

/// What no row takes, however busy the machine is: to hang is to fail.
const PATIENCE: Duration = Duration::from_secs(30);

/// How late an answer to a deadline may come on a machine that is busy with other things.
const SLACK: Duration = Duration::from_secs(8);

/// How long to wait between two looks.
const POLL: Duration = Duration::from_millis(20);

/// The healthy servers of every scene.
const HEALTHY: [&str; 2] = ["old", "new"];

/// A session in good order has no more connections than this that listen.
const LISTENING: usize = 2;

/// Waits until no other test runs in this process: memory is that of the whole of it. Where every
/// test has a process of its own, nobody waits.
pub(crate) async fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::const_new(());
    ALONE.lock().await
}

/// The servers of a scene.
pub(crate) struct Stage {
    /// The hostile one.
    pub(crate) server: HttpServer,
    /// Another one, which no request is meant for.
    pub(crate) elsewhere: HttpServer,
    /// A third, which takes connections and says nothing.
    pub(crate) mute: RawServer,
    healthy: [HttpServer; 2],
    host: RefCell<Option<ServerDetails>>,
    /// When it was opened.
    pub(crate) start_time: Instant,
}

/// Plays a row, and fails if anything is not as it says.
pub(crate) async fn play(name: &str, does: &str, row: Row) {
    println!("{name}: {does}");
    let _alone = alone().await;
    let memory = PeakMemory::begin();
    let bound = row.memory;
    let played = timeout(PATIENCE, Box::pin(play_out(row))).await;
    assert!(played.is_ok(), "{name} is not over after {PATIENCE:?}");
    let growth = memory.growth();
    println!("memory grew by {} KiB", growth / 1024);
    assert!(
        growth <= bound,
        "memory grew by {growth} bytes, over {bound}"
    );
}

async fn play_out(mut row: Row) {
    let stage = Stage::open(&row).await;
    for arrange in row.before.drain(..) {
        arrange(&stage);
    }
    let host = stage.host_of(&row);
    host.wait_for(Readiness::Servers(HEALTHY.map(name).to_vec()))
        .await;
    let is_over = Cell::new(false);
    let hostile = async {
        play_hostile(&stage, &host, &mut row).await;
        is_over.set(true);
    };
    let neighbours = async {
        loop {
            call_healthy(&host).await;
            if is_over.get() {
                break;
            }
            sleep(POLL).await;
        }
    };
    tokio::join!(hostile, neighbours);
    for server in HEALTHY {
        let generation = host.server_details(server).unwrap().generation.0;
        assert_eq!(generation, 1, "{server} was connected anew");
    }
    let inspection = host.server_details("s").unwrap();
    check_inspection(&inspection);
    *stage.host.borrow_mut() = Some(inspection);
    let start_time = Instant::now();
    host.shutdown().await;
    let took = start_time.elapsed();
    assert!(took < SLACK, "the host needed {took:?} to shut down");
    stage.check(&row).await;
}

impl Stage {
    async fn open(row: &Row) -> Self {
        let healthy = |script: Script, mode| HttpServer::start(script.tool("echo"), mode);
        Self {
            server: HttpServer::start(row.script.clone(), row.mode).await,
            elsewhere: healthy(Script::modern(), Mode::JSON).await,
            mute: RawServer::start([RawStep::Hang]).await,
            healthy: [
                healthy(Script::legacy(), Mode::LegacySse).await,
                healthy(Script::modern(), Mode::JSON).await,
            ],
            host: RefCell::default(),
            start_time: Instant::now(),
        }
    }

    fn host_of(&self, row: &Row) -> Host {
        let url = row.url.map_or_else(|| self.server.url(), |url| url(self));
        let mut config = ServerConfig::remote(url, row.kind)
            .call_timeout(row.call_timeout)
            .startup_timeout(row.startup_timeout);
        if row.credential == From::Entry {
            config = config.header("Authorization", format!("Bearer {CANARY}"));
        }
        let mut builder = permissive()
            .limits(row.limits.clone())
            .deadlines(row.deadlines.clone())
            .launch(launch("s", config));
        if row.credential == From::Stubborn {
            builder = builder.auth("s", Stubborn);
        }
        let kinds = [RemoteKind::Sse, RemoteKind::Http];
        for ((name, server), kind) in HEALTHY.into_iter().zip(&self.healthy).zip(kinds) {
            let config = ServerConfig::remote(server.url(), kind);
            builder = builder.launch(launch(name, config));
        }
        builder.start().unwrap()
    }

    /// What a person saw who looked into the hostile server when all was over.
    pub(crate) fn inspection(&self) -> ServerDetails {
        self.host.borrow().clone().unwrap()
    }

    /// Every byte that came to a healthy server.
    pub(crate) fn healthy_bytes(&self) -> Vec<u8> {
        self.healthy
            .each_ref()
            .map(HttpServer::received_bytes)
            .concat()
    }

    /// The host is gone: nothing is left of it, and nobody has got what is not his.
    async fn check(&self, row: &Row) {
        for server in [&self.server, &self.elsewhere]
            .into_iter()
            .chain(&self.healthy)
        {
            server
                .wait_until("all connections are closed", |server| {
                    server.open_connections() == 0
                })
                .await;
        }
        self.mute
            .wait_until("all connections are closed", |server| {
                server.open_connections() == 0
            })
            .await;
        for server in std::iter::once(&self.elsewhere).chain(&self.healthy) {
            assert!(!shows_canary(&server.received_bytes()), "it leaked");
        }
        for check in &row.checks {
            check(self);
        }
    }
}

async fn play_hostile(stage: &Stage, host: &Host, row: &mut Row) {
    host.wait_for(Readiness::All).await;
    check_start(host, row.start);
    let before = host.server_details("s").unwrap().generation;
    for arrange in row.then.drain(..) {
        arrange(stage);
    }
    for sees in &row.calls {
        call(host, *sees, row).await;
    }
    match row.afterwards {
        Afterwards::Stays => {
            assert_eq!(echo(host).await.unwrap(), "still here");
            assert_eq!(host.server_details("s").unwrap().generation, before);
            // How many the client keeps for its next requests depends on how the last ones met. Those
            // it closes when the server does; one that it has forgotten stays.
            stage.server.close_idle_connections();
            let settled = |server: &HttpServer| server.open_connections() <= LISTENING;
            stage.server.wait_until("connections close", settled).await;
        }
        Afterwards::ComesBack => {
            while !matches!(echo(host).await.as_deref(), Ok("still here")) {
                sleep(POLL).await;
            }
            assert!(host.server_details("s").unwrap().generation > before);
        }
        Afterwards::Gone => {}
    }
}

fn check_start(host: &Host, start: Start) {
    let status = host.server_status("s").unwrap();
    let error = status.error.unwrap_or_default();
    let (expected, words) = match start {
        Start::Connected => (ConnectionStatus::Connected, ""),
        Start::Unlisted(words) => (ConnectionStatus::Connected, words),
        Start::Failed(words) => (ConnectionStatus::Failed, words),
        Start::Retried(words) => (ConnectionStatus::Pending, words),
        Start::NeedsLogin => (ConnectionStatus::NeedsAuth, "log"),
        Start::Any => {
            assert_ne!(status.status, ConnectionStatus::Connected);
            (status.status, "")
        }
    };
    assert_eq!(status.status, expected, "{error}");
    assert_eq!(error.is_empty(), start == Start::Connected, "{error}");
    assert!(error.contains(words), "no {words:?} in: {error}");
}

async fn echo(host: &Host) -> Result<String, CallError> {
    let call = host.call("mcp__s__echo", json!({"message": "still here"}));
    Ok(call.await?.to_text())
}

/// Calls the tool `work` of the hostile server, and compares what comes of it.
async fn call(host: &Host, sees: Sees, row: &Row) {
    let start_time = Instant::now();
    let call = host.call("mcp__s__work", row.arguments.clone());
    let outcome = call.on_progress(|_| {}).await;
    let took = start_time.elapsed();
    let limit = row.call_timeout + SLACK;
    assert!(took < limit, "it took {took:?}: {outcome:?}");
    match (sees, outcome) {
        (Sees::Text(words), Ok(output)) => {
            let text = output.to_text();
            assert!(text.contains(words), "no {words:?} in: {}", shown(&text));
        }
        (Sees::Error(kind, words), Err(error)) => {
            assert_eq!(kind_of(&error), kind, "{error}");
            let error = error.to_string();
            println!("it saw: {error}");
            assert!(error.contains(words), "no {words:?} in: {error}");
            assert!(!shows_canary(error.as_bytes()), "{error}");
        }
        (Sees::Undone, Err(error)) => {
            println!("it saw: {error}");
            assert_ne!(error.delivery(), Delivery::Unknown, "{error}");
        }
        (sees, Ok(output)) => panic!("not {sees:?} but: {}", shown(&output.to_text())),
        (sees, Err(error)) => panic!("not {sees:?} but: {error}"),
    }
}

async fn call_healthy(host: &Host) {
    for server in HEALTHY {
        let call = host.call(format!("mcp__{server}__echo"), json!({"message": "hi"}));
        assert_eq!(call.await.unwrap().to_text(), "hi");
    }
}

fn check_inspection(inspection: &ServerDetails) {
    let said = format!("{inspection:?}");
    assert!(!shows_canary(said.as_bytes()), "{said}");
}

/// Whether the credential of the hostile server's entry is in there.
pub(crate) fn shows_canary(bytes: &[u8]) -> bool {
    let canary = CANARY.as_bytes();
    bytes.windows(canary.len()).any(|window| window == canary)
}

fn kind_of(error: &CallError) -> Kind {
    match error {
        CallError::InvalidResponse { .. } => Kind::Unusable,
        CallError::TimedOut { .. } => Kind::TimedOut,
        CallError::OutcomeUnknown { .. } => Kind::OutcomeUnknown,
        CallError::NotSent { .. } => Kind::NotSent,
        CallError::ErrorResponse { .. } => Kind::Refused,
        CallError::Unavailable { .. } => Kind::Unavailable,
        _ => Kind::Other,
    }
}

/// The beginning of a text that may be long.
fn shown(text: &str) -> String {
    text.chars().take(300).collect()
}
