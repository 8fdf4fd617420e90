//! Back-pressure and isolation: a slow, blocked or flooding server affects no other server, and no
//! queue grows past its limit.
//!
//! The tests count messages with the record that the server writes, or with the public API of the
//! host. In a full run, `SWITCHBOARD_REPEAT` sets the number of messages of the floods.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::sync_channel;
use std::time::Duration;

use futures_util::future::join_all;
use serde_json::json;
use switchboard::call::Delivery;
use switchboard::limits::{Deadlines, Limits};
use switchboard::wire_tap::{Direction, WireTap};
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
use crate::harness::lock_process;

const MIB: u64 = 1024 * 1024;
/// Maximum duration of one step of a test on a busy machine. Floods of 100,000 or more messages get
/// more time.
const TIMEOUT: Duration = Duration::from_secs(30);
const POLL: Duration = Duration::from_millis(20);
/// Maximum growth of memory during a flood, in bytes.
const MAX_GROWTH: u64 = 8 * MIB;

/// A host with a server `s` that floods it and a healthy server `h`.
struct FloodFixture {
    host: Host,
    tag: String,
    _guard: MutexGuard<'static, ()>,
}

impl FloodFixture {
    async fn open(script: &Script, change: impl FnOnce(HostBuilder) -> HostBuilder) -> Self {
        let guard = lock_process().await;
        let tag = unique_tag();
        let healthy = child(&Script::legacy().tool("echo"), &tag);
        let builder = permissive()
            .deadlines(short_exit_deadlines())
            .launch(launch("s", child(script, &tag)))
            .launch(launch("h", healthy));
        let host = change(builder).start().unwrap();
        host.wait_for(Readiness::All).await;
        Self {
            host,
            tag,
            _guard: guard,
        }
    }

    async fn work(&self) -> Result<String, CallError> {
        let call = self.host.call("mcp__s__work", json!({}));
        call.await.map(|output| output.to_text())
    }

    /// Checks that the healthy server responds.
    async fn check_healthy(&self) {
        let call = self.host.call("mcp__h__echo", json!({"message": "hi"}));
        assert_eq!(call.await.unwrap().to_text(), "hi");
    }

    async fn close(self) {
        self.host.shutdown().await;
        assert_no_process_left(&self.tag).await;
    }
}

fn short_exit_deadlines() -> Deadlines {
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

/// The script of a server that runs these steps when `work` is called.
fn on_work(steps: impl IntoIterator<Item = Step>) -> Script {
    Script::legacy()
        .tool("work")
        .tool("echo")
        .on("tools/call work", steps)
}

/// A step that sends `count` log messages of 100 bytes.
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

/// Runs a flood of `count` messages, or of `count` KiB on stderr, and returns the output of
/// `flood`. Fails if the flood takes too much time or memory.
async fn run_flood<T>(count: u32, flood: impl Future<Output = T>) -> T {
    let memory = PeakMemory::begin();
    // The time limit grows with the number of messages.
    let limit = TIMEOUT * (1 + count / 100_000);
    let outcome = timeout(limit, flood).await;
    let growth = memory.growth();
    println!("{count} messages, {} KiB of memory", growth / 1024);
    assert!(growth <= MAX_GROWTH, "{growth} bytes of memory");
    outcome.unwrap_or_else(|_| panic!("the flood does not end"))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn stress_floods_of_notifications_do_not_block() {
    const BACKLOG: u32 = 1_000;
    let count = repetitions(100_000);
    let script = on_work([log_messages(count), Step::text("done")]);
    let limits = limits(|limits| {
        limits.event_backlog = BACKLOG as usize;
        // At this rate limit, every log message becomes an event.
        limits.log_messages_per_second = usize::MAX;
    });
    let fixture = FloodFixture::open(&script, |builder| builder.limits(limits)).await;
    let mut events = fixture.host.events();
    assert_eq!(run_flood(count, fixture.work()).await.unwrap(), "done");
    fixture.check_healthy().await;

    let Some(Event::Missed { count: missed }) = events.next().await else {
        panic!("no `Missed` event");
    };
    // The event channel may round its capacity up to a power of two.
    assert!(
        missed >= u64::from(count - 2 * BACKLOG),
        "{missed} of {count}"
    );
    fixture.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn unread_log_events_use_bounded_memory() {
    // All messages together are about twice as large as `MAX_GROWTH`. A larger flood would take
    // long, because the host throttles it.
    const COUNT: u32 = 300;
    let script = on_work([log_messages_of(60_000, COUNT), Step::text("done")]);
    let limits = limits(|limits| limits.log_messages_per_second = usize::MAX);
    let fixture = FloodFixture::open(&script, |builder| builder.limits(limits)).await;
    let _events = fixture.host.events();
    assert_eq!(run_flood(COUNT, fixture.work()).await.unwrap(), "done");
    fixture.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn stress_floods_of_stderr_keep_only_the_tail() {
    let kibibytes = repetitions(100_000);
    let flood = Step::StderrFlood {
        bytes: Some(u64::from(kibibytes) * 1024),
    };
    let fixture =
        FloodFixture::open(&on_work([flood, Step::text("done")]), |builder| builder).await;
    assert_eq!(run_flood(kibibytes, fixture.work()).await.unwrap(), "done");
    let tail = fixture.host.server_details("s").unwrap().stderr.unwrap();
    assert!(tail.len() <= Limits::default().stderr_tail_bytes);
    fixture.check_healthy().await;
    fixture.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn stress_floods_of_progress_do_not_block() {
    const BACKLOG: usize = 64;
    let count = repetitions(100_000);
    let notification = r#"{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":$TOKEN,"progress":1}}"#;
    let script = on_work([
        Step::repeated_bytes(&format!("{notification}\n"), u64::from(count)),
        Step::text("done"),
    ]);
    let limits = limits(|limits| limits.progress_backlog = BACKLOG);
    let fixture = FloodFixture::open(&script, |builder| builder.limits(limits)).await;

    // The progress callback blocks in its first notification until `release` is sent.
    let (release, gate) = sync_channel::<()>(1);
    let received = Arc::new(AtomicUsize::new(0));
    let (host, runtime) = (fixture.host.clone(), Handle::current());
    let call = tokio::task::spawn_blocking({
        let received = Arc::clone(&received);
        move || {
            let call = host.call("mcp__s__work", json!({})).on_progress(move |_| {
                if received.fetch_add(1, Ordering::SeqCst) == 0 {
                    gate.recv().unwrap();
                }
            });
            runtime.block_on(call.into_future())
        }
    });
    run_flood(count, async {
        while received.load(Ordering::SeqCst) == 0 {
            sleep(POLL).await;
        }
        // The server writes the whole flood in one step, so it answers this `echo` call after the
        // flood.
        let echo = fixture.host.call("mcp__s__echo", json!({"message": "hi"}));
        assert_eq!(echo.await.unwrap().to_text(), "hi");
        fixture.check_healthy().await;
    })
    .await;
    release.send(()).unwrap();
    let output = run_flood(count, call).await.unwrap().unwrap();
    assert_eq!(output.to_text(), "done");
    let received = received.load(Ordering::SeqCst);
    assert!(
        received <= BACKLOG + 1,
        "{received} notifications were kept"
    );
    fixture.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn non_reading_server_fills_only_its_queue() {
    const CALLS: usize = 300;
    const LOAD: usize = 20_000;
    let script = on_work([Step::StopReading, Step::text("stopped reading")]);
    let limits = limits(|limits| {
        limits.write_queue_bytes = 1_000_000;
        limits.calls_per_server = CALLS;
    });
    let written = Arc::new(LargeLineCount::default());
    let tap = Arc::clone(&written) as Arc<dyn WireTap>;
    let fixture = FloodFixture::open(&script, |builder| builder.limits(limits).wire_tap(tap)).await;
    assert_eq!(fixture.work().await.unwrap(), "stopped reading");

    let memory = PeakMemory::begin();
    let load = json!({"message": "x".repeat(LOAD)});
    let context = CallContext::default().deadline(Instant::now() + Duration::from_secs(2));
    let calls = (0..CALLS).map(|_| {
        let call = fixture.host.call("mcp__s__echo", load.clone());
        call.context(context.clone()).into_future()
    });
    let healthy = async {
        for _ in 0..50 {
            fixture.check_healthy().await;
        }
    };
    let (outcomes, ()) = tokio::join!(timeout(TIMEOUT, join_all(calls)), healthy);
    let outcomes = outcomes.unwrap();
    let growth = memory.growth();
    assert!(growth <= 32 * MIB, "{growth} bytes of memory");
    let timed_out = outcomes
        .iter()
        .filter(|outcome| matches!(outcome, Err(CallError::TimedOut { .. })));
    assert_eq!(timed_out.count(), CALLS, "{outcomes:?}");
    // The sum of the write queue, one batch that is being written, the buffers of the pipe and of
    // the server, and some slack.
    let max = 1_000_000 + 256 * 1024 + 128 * 1024 + 4 * LOAD;
    let written = written.0.load(Ordering::SeqCst);
    assert!(written * LOAD <= max, "{written} lines were queued");
    let not_sent = outcomes
        .iter()
        .filter(|outcome| matches!(outcome, Err(error) if error.delivery() == Delivery::NotSent));
    assert!(not_sent.count() >= CALLS - written);
    fixture.close().await;
}

/// Counts the lines above 20,000 bytes that the host queued for a server.
#[derive(Default)]
struct LargeLineCount(AtomicUsize);

impl WireTap for LargeLineCount {
    fn line(&self, _: &ServerName, direction: Direction, line: &str) {
        let is_large = direction == Direction::Sent && line.len() > 20_000;
        self.0.fetch_add(usize::from(is_large), Ordering::SeqCst);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn change_notifications_are_coalesced_without_loss() {
    let folder = tempfile::tempdir().unwrap();
    let record = folder.path().join("record");
    let change_notification =
        "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/tools/list_changed\"}\n";
    let tools = ["work", "new"].map(switchboard_testkit::tool).to_vec();
    let script = on_work([
        Step::repeated_bytes(change_notification, 10_000),
        Step::SetTools(tools),
        Step::tools_changed(),
        Step::text("done"),
    ]);
    let fixture = FloodFixture::open(&script.record(&record), |builder| builder).await;
    let start_time = Instant::now();
    assert_eq!(fixture.work().await.unwrap(), "done");
    let is_new = |fixture: &FloodFixture| fixture.host.catalog().get("mcp__s__new").is_some();
    timeout(TIMEOUT, async {
        while !is_new(&fixture) {
            sleep(POLL).await;
        }
    })
    .await
    .unwrap();
    let record = read_record(&record);
    let list_requests = record
        .iter()
        .filter(|message| message["method"] == "tools/list");
    // One listing at the start, then at most ten per second, and two of slack.
    let max = 3 + start_time.elapsed().as_millis() / 100;
    assert!(
        (list_requests.count() as u128) <= max,
        "more than {max} list requests"
    );
    fixture.close().await;
}

/// Starts a host with these hostile servers, named `s0`, `s1`, …, and `healthy` healthy servers,
/// named `h0`, `h1`, ….
async fn start_host(hostile: Vec<ServerConfig>, healthy: usize, tag: &str) -> Host {
    let mut builder = permissive().deadlines(short_exit_deadlines());
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

/// Calls each healthy server `times` times, all servers concurrently. Every call must succeed.
async fn call_healthy(host: &Host, servers: usize, times: usize) {
    let calls = (0..servers).map(|number| async move {
        for _ in 0..times {
            let call = host.call(format!("mcp__h{number}__echo"), json!({"message": "hi"}));
            assert_eq!(call.await.unwrap().to_text(), "hi");
        }
    });
    timeout(TIMEOUT, join_all(calls)).await.unwrap();
}

/// Spawns calls that are cancelled when `calls` is dropped.
fn spawn_work_calls(host: &Host, server: &str, times: usize, calls: &mut JoinSet<bool>) {
    for _ in 0..times {
        let (host, tool) = (host.clone(), format!("mcp__{server}__work"));
        calls.spawn(async move { host.call(tool, json!({})).await.is_ok() });
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn hanging_server_delays_no_other() {
    let _guard = lock_process().await;
    let tag = unique_tag();
    let host = start_host(vec![child(&on_work([Step::Hang]), &tag)], 5, &tag).await;
    let mut pending = JoinSet::new();
    spawn_work_calls(&host, "s0", 1_000, &mut pending);
    call_healthy(&host, 5, 50).await;
    assert!(pending.try_join_next().is_none(), "a hanging call returned");
    pending.shutdown().await;
    host.shutdown().await;
    assert_no_process_left(&tag).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn hanging_servers_leave_host_capacity() {
    let _guard = lock_process().await;
    let tag = unique_tag();
    let limits = Limits::default();
    let hanging = limits.calls_in_flight / limits.calls_per_server + 1;
    let hostile = vec![child(&on_work([Step::Hang]), &tag); hanging];
    let host = start_host(hostile, 2, &tag).await;
    let mut pending = JoinSet::new();
    for number in 0..hanging {
        spawn_work_calls(
            &host,
            &format!("s{number}"),
            limits.calls_per_server,
            &mut pending,
        );
    }
    call_healthy(&host, 2, 5).await;
    pending.shutdown().await;
    host.shutdown().await;
    assert_no_process_left(&tag).await;
}

/// Ten servers that misbehave in different ways.
fn hostile_servers(tag: &str) -> Vec<ServerConfig> {
    let delay = || Step::DelayMs(5);
    let repeat = |step: Step| Step::forever([step, delay()]);
    let change_notification = Step::tools_changed();
    [
        on_work([Step::Hang]),
        on_work([Step::Abort]),
        on_work([repeat(log_messages(500))]),
        on_work([repeat(Step::progress(1))]),
        on_work([repeat(Step::StderrFlood {
            bytes: Some(64 * 1024),
        })]),
        on_work([Step::StopReading, Step::Hang]),
        on_work([Step::ReplyOfSize(4 * 1024 * 1024)]),
        on_work([repeat(change_notification)]),
        on_work([
            Step::repeated_bytes("{\"a\":", 100_000),
            Step::CloseStdout,
            Step::Hang,
        ]),
        on_work([Step::StopSelf]),
    ]
    .iter()
    .map(|script| child(script, tag).call_timeout(Duration::from_secs(2)))
    .collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ten_hostile_servers_affect_no_other_call() {
    const HEALTHY: usize = 40;
    let _guard = lock_process().await;
    let tag = unique_tag();
    let host = start_host(hostile_servers(&tag), HEALTHY, &tag).await;
    let mut pending = JoinSet::new();
    for number in 0..10 {
        spawn_work_calls(&host, &format!("s{number}"), 4, &mut pending);
    }
    call_healthy(&host, HEALTHY, 25).await;
    pending.shutdown().await;
    host.shutdown().await;
    assert_no_process_left(&tag).await;
}
