//! Back-pressure and isolation: whoever is slow, deaf or loud costs nobody else, and no queue grows
//! past its bound.
//!
//! What is counted is counted by the server itself (its record) or by the public surface. How long
//! the floods are in a whole run says `SWITCHBOARD_REPEAT`.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::sync_channel;
use std::time::Duration;

use futures_util::future::join_all;
use serde_json::json;
use switchboard::call::Delivery;
use switchboard::limits::{Deadlines, Limits};
use switchboard::trace::{Direction, WireTap};
use switchboard::{CallContext, CallError, Event, Host, HostBuilder, Readiness};
use switchboard_config::{ServerConfig, ServerName};
use switchboard_testkit::{
    PeakMemory, Script, Step, assert_no_process_left, read_record, repetitions, unique_tag,
};
use tokio::runtime::Handle;
use tokio::sync::MutexGuard;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, timeout};

use crate::common::{child, launch, permissive};
use crate::harness::alone;

const MIB: u64 = 1024 * 1024;
/// What no test takes, however busy the machine is, unless it is a whole run.
const PATIENCE: Duration = Duration::from_secs(30);
const POLL: Duration = Duration::from_millis(20);
/// How far memory may grow while floods pass through.
const FLOOD_MEMORY: u64 = 8 * MIB;

/// A host of one loud server `s` and one healthy server `h`.
struct Scene {
    host: Host,
    tag: String,
    _alone: MutexGuard<'static, ()>,
}

impl Scene {
    async fn open(script: &Script, change: impl FnOnce(HostBuilder) -> HostBuilder) -> Self {
        let alone = alone().await;
        let tag = unique_tag();
        let healthy = child(&Script::legacy().tool("echo"), &tag);
        let builder = permissive()
            .deadlines(quick_to_leave())
            .launch(launch("s", child(script, &tag)))
            .launch(launch("h", healthy));
        let host = change(builder).start().unwrap();
        host.wait_for(Readiness::All).await;
        Self {
            host,
            tag,
            _alone: alone,
        }
    }

    async fn work(&self) -> Result<String, CallError> {
        let called = self.host.call("mcp__s__work", json!({}));
        called.await.map(|output| output.to_text())
    }

    /// The healthy server answers.
    async fn check_healthy(&self) {
        let call = self.host.call("mcp__h__echo", json!({"message": "hi"}));
        assert_eq!(call.await.unwrap().to_text(), "hi");
    }

    async fn close(self) {
        self.host.shutdown().await;
        assert_no_process_left(&self.tag).await;
    }
}

fn quick_to_leave() -> Deadlines {
    let mut deadlines = Deadlines::default();
    deadlines.exit_after_eof = Duration::from_millis(200);
    deadlines.exit_after_term = Duration::from_millis(200);
    deadlines
}

fn limits(change: impl FnOnce(&mut Limits)) -> Limits {
    let mut limits = Limits::default();
    change(&mut limits);
    limits
}

/// A server that does this when its tool `work` is called.
fn working(steps: impl IntoIterator<Item = Step>) -> Script {
    Script::legacy()
        .tool("work")
        .tool("echo")
        .on("tools/call work", steps)
}

/// So many log messages of a hundred bytes.
fn log_messages(count: u32) -> Step {
    log_messages_of(100, count)
}

fn log_messages_of(bytes: usize, count: u32) -> Step {
    let message = json!({
        "jsonrpc": "2.0",
        "method": "notifications/message",
        "params": {"level": "info", "data": "x".repeat(bytes)},
    });
    Step::repeated_bytes(&format!("{message}\n"), u64::from(count))
}

/// Lets a flood of so many pieces pass, and says what came of it. Memory stays in its bound.
async fn outlast<T>(pieces: u32, flood: impl Future<Output = T>) -> T {
    let memory = PeakMemory::begin();
    // A whole run is ten times as long as its share, or more.
    let patience = PATIENCE * (1 + pieces / 100_000);
    let outcome = timeout(patience, flood).await;
    let growth = memory.growth();
    println!("{pieces} pieces, {} KiB of memory", growth / 1024);
    assert!(growth <= FLOOD_MEMORY, "{growth} bytes of memory");
    outcome.unwrap_or_else(|_| panic!("the flood does not pass"))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn stress_floods_of_notifications_wait_for_no_listener() {
    const BACKLOG: u32 = 1_000;
    let count = repetitions(100_000);
    let script = working([log_messages(count), Step::text("done")]);
    let limits = limits(|limits| {
        limits.event_backlog = BACKLOG as usize;
        // All of it becomes events.
        limits.log_messages_per_second = usize::MAX;
    });
    let scene = Scene::open(&script, |builder| builder.limits(limits)).await;
    let mut events = scene.host.events();
    assert_eq!(outlast(count, scene.work()).await.unwrap(), "done");
    scene.check_healthy().await;

    let Some(Event::Missed { count: missed }) = events.next().await else {
        panic!("nobody says that events were missed");
    };
    // A channel may round its capacity up to a power of two.
    assert!(
        missed >= u64::from(count - 2 * BACKLOG),
        "{missed} of {count}"
    );
    scene.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn large_log_messages_do_not_pile_up_for_a_listener_that_does_not_listen() {
    // Twice what memory may grow by; more of it takes long, because it is read slowly.
    const COUNT: u32 = 300;
    let script = working([log_messages_of(60_000, COUNT), Step::text("done")]);
    let limits = limits(|limits| limits.log_messages_per_second = usize::MAX);
    let scene = Scene::open(&script, |builder| builder.limits(limits)).await;
    let _events = scene.host.events();
    assert_eq!(outlast(COUNT, scene.work()).await.unwrap(), "done");
    scene.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn stress_floods_of_stderr_are_read_and_forgotten() {
    let kibibytes = repetitions(100_000);
    let flood = Step::StderrFlood {
        bytes: Some(u64::from(kibibytes) * 1024),
    };
    let scene = Scene::open(&working([flood, Step::text("done")]), |builder| builder).await;
    assert_eq!(outlast(kibibytes, scene.work()).await.unwrap(), "done");
    let kept = scene.host.server_details("s").unwrap().stderr.unwrap();
    assert!(kept.len() <= Limits::default().stderr_tail_bytes);
    scene.check_healthy().await;
    scene.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn stress_floods_of_progress_wait_for_no_listener() {
    const BACKLOG: usize = 64;
    let count = repetitions(100_000);
    let note = r#"{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":$TOKEN,"progress":1}}"#;
    let script = working([
        Step::repeated_bytes(&format!("{note}\n"), u64::from(count)),
        Step::text("done"),
    ]);
    let limits = limits(|limits| limits.progress_backlog = BACKLOG);
    let scene = Scene::open(&script, |builder| builder.limits(limits)).await;

    // The listener stands still in its first note until it is let go.
    let (let_go, gate) = sync_channel::<()>(1);
    let notes = Arc::new(AtomicUsize::new(0));
    let (host, runtime) = (scene.host.clone(), Handle::current());
    let call = tokio::task::spawn_blocking({
        let notes = Arc::clone(&notes);
        move || {
            let call = host.call("mcp__s__work", json!({})).on_progress(move |_| {
                if notes.fetch_add(1, Ordering::SeqCst) == 0 {
                    gate.recv().unwrap();
                }
            });
            runtime.block_on(call.into_future())
        }
    });
    outlast(count, async {
        while notes.load(Ordering::SeqCst) == 0 {
            sleep(POLL).await;
        }
        // The server writes the flood in one piece: what is asked now is answered after it.
        let echo = scene.host.call("mcp__s__echo", json!({"message": "hi"}));
        assert_eq!(echo.await.unwrap().to_text(), "hi");
        scene.check_healthy().await;
    })
    .await;
    let_go.send(()).unwrap();
    let output = outlast(count, call).await.unwrap().unwrap();
    assert_eq!(output.to_text(), "done");
    let notes = notes.load(Ordering::SeqCst);
    assert!(notes <= BACKLOG + 1, "{notes} notes were kept");
    scene.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_deaf_server_fills_its_outbox_and_no_more() {
    const CALLS: usize = 300;
    const LOAD: usize = 20_000;
    let script = working([Step::StopReading, Step::text("deaf")]);
    let limits = limits(|limits| {
        limits.write_queue_bytes = 1_000_000;
        limits.calls_per_server = CALLS;
    });
    let taken = Arc::new(Taken::default());
    let tap = Arc::clone(&taken) as Arc<dyn WireTap>;
    let scene = Scene::open(&script, |builder| builder.limits(limits).wire_tap(tap)).await;
    assert_eq!(scene.work().await.unwrap(), "deaf");

    let memory = PeakMemory::begin();
    let load = json!({"message": "x".repeat(LOAD)});
    let until = CallContext::default().deadline(Instant::now() + Duration::from_secs(2));
    let calls = (0..CALLS).map(|_| {
        let call = scene.host.call("mcp__s__echo", load.clone());
        call.context(until.clone()).into_future()
    });
    let healthy = async {
        for _ in 0..50 {
            scene.check_healthy().await;
        }
    };
    let (outcomes, ()) = tokio::join!(timeout(PATIENCE, join_all(calls)), healthy);
    let outcomes = outcomes.unwrap();
    let growth = memory.growth();
    assert!(growth <= 32 * MIB, "{growth} bytes of memory");
    let waited = outcomes
        .iter()
        .filter(|outcome| matches!(outcome, Err(CallError::TimedOut { .. })));
    assert_eq!(waited.count(), CALLS, "{outcomes:?}");
    // The outbox, one batch on its way, and what the pipe and the server's own buffer hold.
    let most = 1_000_000 + 256 * 1024 + 128 * 1024 + 4 * LOAD;
    let taken = taken.0.load(Ordering::SeqCst);
    assert!(taken * LOAD <= most, "{taken} were taken");
    let not_sent = outcomes
        .iter()
        .filter(|outcome| matches!(outcome, Err(error) if error.delivery() == Delivery::NotSent));
    assert!(not_sent.count() >= CALLS - taken);
    scene.close().await;
}

/// How many of the large lines were taken for a server.
#[derive(Default)]
struct Taken(AtomicUsize);

impl WireTap for Taken {
    fn line(&self, _: &ServerName, direction: Direction, line: &str) {
        let is_large = direction == Direction::Sent && line.len() > 20_000;
        self.0.fetch_add(usize::from(is_large), Ordering::SeqCst);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ten_thousand_notices_of_change_make_few_listings_and_lose_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let record = folder.path().join("record");
    let notice = "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/tools/list_changed\"}\n";
    let tools = ["work", "new"].map(switchboard_testkit::tool).to_vec();
    let script = working([
        Step::repeated_bytes(notice, 10_000),
        Step::SetTools(tools),
        Step::tools_changed(),
        Step::text("done"),
    ]);
    let scene = Scene::open(&script.record(&record), |builder| builder).await;
    let start_time = Instant::now();
    assert_eq!(scene.work().await.unwrap(), "done");
    let is_new = |scene: &Scene| scene.host.catalog().get("mcp__s__new").is_some();
    timeout(PATIENCE, async {
        while !is_new(&scene) {
            sleep(POLL).await;
        }
    })
    .await
    .unwrap();
    let record = read_record(&record);
    let listings = record
        .iter()
        .filter(|message| message["method"] == "tools/list");
    // One to begin with, and no more than ten a second.
    let most = 3 + start_time.elapsed().as_millis() / 100;
    assert!(
        (listings.count() as u128) <= most,
        "more than {most} listings"
    );
    scene.close().await;
}

/// A host of these hostile servers and of so many healthy ones, named `h0`, `h1`, ….
async fn crowd(hostile: Vec<ServerConfig>, healthy: usize, tag: &str) -> Host {
    let mut builder = permissive().deadlines(quick_to_leave());
    for (number, config) in hostile.into_iter().enumerate() {
        builder = builder.launch(launch(&format!("s{number}"), config));
    }
    for number in 0..healthy {
        let config = child(&Script::legacy().tool("echo"), tag);
        builder = builder.launch(launch(&format!("h{number}"), config));
    }
    let host = builder.start().unwrap();
    host.wait_for(Readiness::All).await;
    host
}

/// Calls each healthy server so many times, all servers at once; every call is answered.
async fn call_healthy(host: &Host, servers: usize, times: usize) {
    let calls = (0..servers).map(|number| async move {
        for _ in 0..times {
            let call = host.call(format!("mcp__h{number}__echo"), json!({"message": "hi"}));
            assert_eq!(call.await.unwrap().to_text(), "hi");
        }
    });
    timeout(PATIENCE, join_all(calls)).await.unwrap();
}

/// Calls that nobody waits for: they are cancelled with the set.
fn call_in_vain(host: &Host, server: &str, times: usize, calls: &mut JoinSet<bool>) {
    for _ in 0..times {
        let (host, tool) = (host.clone(), format!("mcp__{server}__work"));
        calls.spawn(async move { host.call(tool, json!({})).await.is_ok() });
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_hangs_under_many_calls_delays_nobody() {
    let _alone = alone().await;
    let tag = unique_tag();
    let host = crowd(vec![child(&working([Step::Hang]), &tag)], 5, &tag).await;
    let mut vain = JoinSet::new();
    call_in_vain(&host, "s0", 1_000, &mut vain);
    call_healthy(&host, 5, 50).await;
    assert!(
        vain.try_join_next().is_none(),
        "a call that hangs was answered"
    );
    vain.shutdown().await;
    host.shutdown().await;
    assert_no_process_left(&tag).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn servers_that_hang_do_not_use_up_the_hosts_permits() {
    let _alone = alone().await;
    let tag = unique_tag();
    let limits = Limits::default();
    let hanging = limits.calls_in_flight / limits.calls_per_server + 1;
    let hostile = vec![child(&working([Step::Hang]), &tag); hanging];
    let host = crowd(hostile, 2, &tag).await;
    let mut vain = JoinSet::new();
    for number in 0..hanging {
        call_in_vain(
            &host,
            &format!("s{number}"),
            limits.calls_per_server,
            &mut vain,
        );
    }
    call_healthy(&host, 2, 5).await;
    vain.shutdown().await;
    host.shutdown().await;
    assert_no_process_left(&tag).await;
}

/// Ten ways to be a bad neighbour.
fn bad_neighbours(tag: &str) -> Vec<ServerConfig> {
    let pause = || Step::DelayMs(5);
    let for_ever = |step: Step| Step::forever([step, pause()]);
    let notice = Step::tools_changed();
    [
        working([Step::Hang]),
        working([Step::Abort]),
        working([for_ever(log_messages(500))]),
        working([for_ever(Step::progress(1))]),
        working([for_ever(Step::StderrFlood {
            bytes: Some(64 * 1024),
        })]),
        working([Step::StopReading, Step::Hang]),
        working([Step::ReplyOfSize(4 * 1024 * 1024)]),
        working([for_ever(notice)]),
        working([
            Step::repeated_bytes("{\"a\":", 100_000),
            Step::CloseStdout,
            Step::Hang,
        ]),
        working([Step::StopSelf]),
    ]
    .iter()
    .map(|script| child(script, tag).call_timeout(Duration::from_secs(2)))
    .collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ten_hostile_servers_among_fifty_cost_the_others_no_call() {
    const HEALTHY: usize = 40;
    let _alone = alone().await;
    let tag = unique_tag();
    let host = crowd(bad_neighbours(&tag), HEALTHY, &tag).await;
    let mut vain = JoinSet::new();
    for number in 0..10 {
        call_in_vain(&host, &format!("s{number}"), 4, &mut vain);
    }
    call_healthy(&host, HEALTHY, 25).await;
    vain.shutdown().await;
    host.shutdown().await;
    assert_no_process_left(&tag).await;
}
