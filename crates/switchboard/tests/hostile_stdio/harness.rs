//! Plays a row: the hostile server between two healthy ones, and everything that must hold.

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
use crate::table::{Afterwards, Kind, Launch, Row, Sees, Start};

/// What no row takes, however busy the machine is: to hang is to fail.
const PATIENCE: Duration = Duration::from_secs(30);

/// How late an answer to a deadline may come on a machine that is busy with other things.
const SLACK: Duration = Duration::from_secs(8);

/// How long to wait between two looks.
const POLL: Duration = Duration::from_millis(20);

/// The healthy servers of every scene, one of each era.
const HEALTHY: [&str; 2] = ["old", "new"];

/// Waits until no other test runs in this process: memory and time are those of the whole of it.
/// Where every test has a process of its own, nobody waits.
pub(crate) async fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::const_new(());
    ALONE.lock().await
}

/// A host with one hostile and two healthy servers.
pub(crate) struct Scene {
    host: Host,
    /// Where the hostile server works, with `home` in it.
    folder: TempDir,
    tag: String,
    /// What the tools of the hostile server answered last.
    said: RefCell<HashMap<String, String>>,
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

async fn play_out(row: Row) {
    let scene = Scene::open(&row);
    let healthy = HEALTHY.map(name).to_vec();
    scene.host.wait_for(Readiness::Servers(healthy)).await;
    let before = scene.healthy_processes().await;
    let is_over = Cell::new(false);
    let hostile = async {
        scene.play_hostile(&row).await;
        is_over.set(true);
    };
    let neighbours = async {
        loop {
            scene.call_healthy().await;
            if is_over.get() {
                break;
            }
            sleep(POLL).await;
        }
    };
    tokio::join!(hostile, neighbours);
    assert_eq!(
        scene.healthy_processes().await,
        before,
        "a healthy server was restarted"
    );
    scene.check_secret(&row);
    if let Some(check) = &row.check {
        check(&scene);
    }
    scene.close().await;
}

impl Scene {
    fn open(row: &Row) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let home = folder.path().join("home");
        std::fs::create_dir(&home).unwrap();
        let tag = unique_tag();
        let mut builder = permissive()
            .limits(row.limits.clone())
            .deadlines(row.deadlines.clone())
            .environment(environment(&home))
            .launch(launch("s", hostile(row, folder.path(), &tag)));
        for (name, script) in HEALTHY
            .into_iter()
            .zip([Script::legacy(), Script::modern()])
        {
            let script = script.tool("echo").tool("pid");
            builder = builder.launch(launch(name, child(&script, &tag)));
        }
        // Otherwise a server that does not start is tried again and again.
        if row.afterwards == Afterwards::Gone {
            builder = builder.no_reconnect();
        }
        Self {
            host: builder.start().unwrap(),
            folder,
            tag,
            said: RefCell::default(),
            start_time: Instant::now(),
        }
    }

    async fn play_hostile(&self, row: &Row) {
        self.host.wait_for(Readiness::All).await;
        self.check_start(row.start);
        let before = match row.afterwards {
            Afterwards::Gone => None,
            _ => Some(self.process("s").await.unwrap()),
        };
        for (tool, sees) in &row.calls {
            self.call(tool, *sees, row).await;
        }
        match row.afterwards {
            Afterwards::Stays => assert_eq!(self.process("s").await.ok(), before),
            Afterwards::ComesBack => self.come_back(before).await,
            Afterwards::Stuck | Afterwards::Gone => {}
        }
    }

    fn check_start(&self, start: Start) {
        let status = self.host.server_status("s").unwrap();
        let error = status.error.unwrap_or_default();
        let (expected, words) = match start {
            Start::Connected => ("connected", ""),
            Start::Unlisted(words) => ("connected", words),
            Start::Failed(words) => ("failed", words),
        };
        assert_eq!(status.status.as_str(), expected, "{error}");
        assert_eq!(error.is_empty(), start == Start::Connected, "{error}");
        assert!(error.contains(words), "no {words:?} in: {error}");
    }

    /// Calls a tool of the hostile server, and compares what comes of it.
    async fn call(&self, tool: &str, sees: Sees, row: &Row) {
        let start_time = Instant::now();
        let call = self.host.call(format!("mcp__s__{tool}"), json!({}));
        let outcome = call.on_progress(|_| {}).await;
        let took = start_time.elapsed();
        let limit = row.call_timeout + SLACK;
        assert!(took < limit, "{tool} took {took:?}: {outcome:?}");
        match (sees, outcome) {
            (Sees::Text(words), Ok(output)) => {
                let text = output.to_text();
                assert!(text.contains(words), "no {words:?} in: {}", shown(&text));
                self.said.borrow_mut().insert(tool.to_owned(), text);
            }
            (Sees::Error(kind, words), Err(error)) => {
                assert_eq!(kind_of(&error), kind, "{error}");
                let error = error.to_string();
                assert!(error.contains(words), "no {words:?} in: {error}");
                assert!(
                    !row.secret.is_some_and(|secret| error.contains(secret)),
                    "{error}"
                );
            }
            (sees, Ok(output)) => panic!("not {sees:?} but: {}", shown(&output.to_text())),
            (sees, Err(error)) => panic!("not {sees:?} but: {error}"),
        }
    }

    /// Waits until the hostile server answers again, from another process.
    async fn come_back(&self, before: Option<String>) {
        loop {
            match self.process("s").await {
                Ok(now) if Some(&now) != before.as_ref() => return,
                _ => sleep(POLL).await,
            }
        }
    }

    /// The process behind a server, by its own words.
    async fn process(&self, server: &str) -> Result<String, CallError> {
        loop {
            let called = self.host.call(format!("mcp__{server}__pid"), json!({}));
            match called.await {
                // The short deadline of a row is meant for its calls; a busy machine may need more.
                Err(CallError::TimedOut { .. }) => {}
                outcome => return outcome.map(|output| output.to_text()),
            }
        }
    }

    async fn healthy_processes(&self) -> [String; 2] {
        [
            self.process(HEALTHY[0]).await.unwrap(),
            self.process(HEALTHY[1]).await.unwrap(),
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

    fn check_secret(&self, row: &Row) {
        let Some(secret) = row.secret else { return };
        let ServerDetails {
            status,
            notes,
            stderr,
            ..
        } = self.inspection();
        // Not the entry itself: what the server does is written there.
        let said = [status.error, status.detail, stderr, Some(notes.join("\n"))];
        let said: Vec<_> = said.into_iter().flatten().collect();
        assert!(!said.join("\n").contains(secret), "{said:?}");
    }

    /// What a person sees who looks into the hostile server.
    pub(crate) fn inspection(&self) -> ServerDetails {
        self.host.server_details("s").unwrap()
    }

    /// What a tool of the hostile server answered last.
    pub(crate) fn said(&self, tool: &str) -> String {
        self.said.borrow().get(tool).cloned().unwrap()
    }

    /// Where the hostile server works.
    pub(crate) fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// Ends the host: nothing of any server may be left.
    async fn close(&self) {
        self.host.shutdown().await;
        assert_no_process_left(&self.tag).await;
        assert_eq!(zombie_children(), [0; 0], "ended, but not waited for");
    }
}

/// The entry of the hostile server.
fn hostile(row: &Row, folder: &Path, tag: &str) -> ServerConfig {
    let config = match &row.launch {
        Launch::Script(script) => child(script, tag),
        Launch::Made(make) => make(folder).env(switchboard_testkit::TAG_VARIABLE, tag),
    };
    let config = config
        .cwd(folder)
        .call_timeout(row.call_timeout)
        .startup_timeout(row.startup_timeout);
    row.env
        .iter()
        .fold(config, |config, (name, value)| config.env(*name, *value))
}

/// What the host is told of its surroundings: enough to find programs, and a secret of its own.
#[expect(
    clippy::disallowed_methods,
    reason = "a test is a front, and passes its environment in"
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

fn kind_of(error: &CallError) -> Kind {
    match error {
        CallError::InvalidResponse { .. } => Kind::Unusable,
        CallError::TimedOut { .. } => Kind::TimedOut,
        CallError::OutcomeUnknown { .. } => Kind::OutcomeUnknown,
        CallError::NotSent { .. } => Kind::NotSent,
        CallError::ErrorResponse { .. } => Kind::Refused,
        _ => Kind::Other,
    }
}

/// The beginning of a text that may be long.
fn shown(text: &str) -> String {
    text.chars().take(300).collect()
}
