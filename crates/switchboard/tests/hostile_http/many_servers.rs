//! Many servers at a time: all of them fail, or some do.

use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::json;
use switchboard::in_process::{ByteStreams, Connector};
use switchboard::interaction::BoxFuture;
use switchboard::limits::Deadlines;
use switchboard::{Host, HostBuilder, Readiness};
use switchboard_config::{RemoteKind, ServerConfig};
use switchboard_testkit::http::{Fault, HttpServer, Mode, RawStep};
use switchboard_testkit::{Script, Step};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;
use tokio::task::JoinSet;
use tokio::time::Instant;

use crate::common::{launch, name, permissive};
use crate::harness::alone;
use crate::table::head;

const CROWD: usize = 100;
const BUCKET: Duration = Duration::from_millis(100);

/// When servers were tried.
#[derive(Clone, Default)]
struct Attempts(Arc<Mutex<Vec<Instant>>>);

impl Attempts {
    fn note(&self) {
        self.0.lock().unwrap().push(Instant::now());
    }

    fn times(&self) -> Vec<Instant> {
        let mut times = self.0.lock().unwrap().clone();
        times.sort();
        times
    }
}

/// The most attempts within any 100 ms.
fn thickest(times: &[Instant]) -> usize {
    let begins = times.iter().enumerate();
    let counts = begins.map(|(number, begin)| {
        let within = |time: &&Instant| **time < *begin + BUCKET;
        times[number..].iter().take_while(within).count()
    });
    counts.max().unwrap_or_default()
}

/// A server that cannot be reached.
struct Unreachable(Attempts);

impl Connector for Unreachable {
    fn connect(&self) -> BoxFuture<'_, io::Result<ByteStreams>> {
        self.0.note();
        let refused = io::ErrorKind::ConnectionRefused.into();
        Box::pin(std::future::ready(Err(refused)))
    }
}

/// The whole engine in virtual time: every round of attempts for itself keeps to the bound.
#[tokio::test(start_paused = true)]
async fn a_hundred_servers_that_fail_together_do_not_come_back_in_one_burst() {
    let attempts = Attempts::default();
    let add = |builder: HostBuilder, number| {
        builder.connector(format!("s{number}"), Unreachable(attempts.clone()))
    };
    let host = (0..CROWD).fold(permissive(), add).start().unwrap();
    tokio::time::sleep(Duration::from_secs(200)).await;
    let times = attempts.times();
    host.shutdown().await;
    // All are tried at once at the start: that is not coming back.
    for (round, times) in times.chunks(CROWD).enumerate().skip(1) {
        let most = thickest(times);
        assert!(most <= CROWD / 10, "{most} at once in round {round}");
    }
    assert!(times.len() > 8 * CROWD, "{} attempts", times.len());
    let first = times[CROWD] - times[0];
    assert!(first >= Duration::from_millis(799), "after {first:?}");
    let last = times[2 * CROWD - 1] - times[0];
    assert!(last <= Duration::from_millis(2_500), "after {last:?}");
}

/// A server that says that it cannot serve now, to everybody.
async fn busy_server(attempts: Attempts) -> (SocketAddr, JoinSet<()>) {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
    let address = listener.local_addr().unwrap();
    let mut tasks = JoinSet::new();
    tasks.spawn(async move {
        let mut connections = JoinSet::new();
        while let Ok((mut socket, _)) = listener.accept().await {
            attempts.note();
            connections.spawn(async move {
                let _ = socket.read(&mut [0; 4096]).await;
                let busy = b"HTTP/1.1 503 Busy\r\nContent-Length: 0\r\nConnection: close\r\n\r\n";
                let _ = socket.write_all(busy).await;
            });
        }
    });
    (address, tasks)
}

/// The same over sockets, in real time: the first two rounds of coming back, as they arrive. A busy
/// machine makes several late at once; with twice the servers the bound has room for that.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hundred_remote_servers_that_fail_together_do_not_come_back_in_one_burst() {
    let _alone = alone().await;
    let attempts = Attempts::default();
    let (address, _tasks) = busy_server(attempts.clone()).await;
    let add = |builder: HostBuilder, number| {
        let url = format!("http://{address}/{number}");
        let config = ServerConfig::remote(url, RemoteKind::Http);
        builder.launch(launch(&format!("s{number}"), config))
    };
    let crowd = 2 * CROWD;
    let host = (0..crowd).fold(permissive(), add).start().unwrap();
    let mut look = tokio::time::interval(Duration::from_millis(50));
    while attempts.times().len() < 3 * crowd {
        look.tick().await;
    }
    host.shutdown().await;
    let times = &attempts.times()[crowd..3 * crowd];
    let most = thickest(times);
    println!("{most} of {} attempts within 100 ms", times.len());
    assert!(most <= times.len() / 10, "{most} at once");
}

const ALL: usize = 50;

/// What the n-th server does instead of what it should; most do what they should.
fn badness(number: usize) -> Option<Fault> {
    let flood = |kind: &str, bytes: &str| {
        Fault::raw_steps([head(kind), RawStep::send_forever(bytes.as_bytes())])
    };
    let fault = match number {
        0 => Fault::hang(),
        5 => flood("application/json", "["),
        10 => flood("text/event-stream", "data: noise\n\n"),
        15 => Fault::status(500),
        20 => Fault::status(503).header("Retry-After", "0"),
        25 => Fault::redirect(307, "/mcp"),
        30 => Fault::slow(1, Duration::from_millis(20)),
        35 => Fault::close_on_accept(),
        40 => Fault::raw("this is no HTTP\r\n\r\n"),
        45 => Fault::status(401),
        _ => return None,
    };
    Some(fault.always())
}

async fn call(host: &Host, number: usize) -> Result<String, switchboard::CallError> {
    let call = host.call(format!("mcp__s{number}__echo"), json!({"message": "hi"}));
    Ok(call.await?.to_text())
}

/// Ten bad servers, bad from the start or only when they are used, hurt none of the forty others.
async fn among_others(from_the_start: bool) {
    let _alone = alone().await;
    let mut servers = Vec::new();
    for number in 0..ALL {
        let script = match number % 2 {
            0 => Script::modern(),
            _ => Script::legacy(),
        };
        let script = script
            .tool("echo")
            .on("tools/call echo", [Step::text("hi")]);
        let server = HttpServer::start(script, Mode::JSON).await;
        if let Some(fault) = badness(number).filter(|_| from_the_start) {
            server.arm(fault);
        }
        servers.push(server);
    }
    let mut deadlines = Deadlines::default();
    deadlines.ping_after_idle = Duration::from_millis(500);
    deadlines.startup = Duration::from_secs(20);
    deadlines.exit_after_eof = Duration::from_millis(300);
    let add = |builder: HostBuilder, (number, server): (usize, &HttpServer)| {
        let config = ServerConfig::remote(server.url(), RemoteKind::Http)
            .call_timeout(Duration::from_secs(10));
        builder.launch(launch(&format!("s{number}"), config))
    };
    let builder = permissive().deadlines(deadlines);
    let host = servers
        .iter()
        .enumerate()
        .fold(builder, add)
        .start()
        .unwrap();
    let good = |number: &usize| badness(*number).is_none();
    let names = (0..ALL)
        .filter(good)
        .map(|number| name(&format!("s{number}")));
    host.wait_for(Readiness::Servers(names.collect())).await;
    if !from_the_start {
        host.wait_for(Readiness::All).await;
        for (number, server) in servers.iter().enumerate() {
            if let Some(fault) = badness(number) {
                server.arm(fault);
            }
        }
    }
    let good_calls = async {
        for _ in 0..20 {
            let calls = (0..ALL).filter(good).map(|number| call(&host, number));
            for outcome in futures_util::future::join_all(calls).await {
                assert_eq!(outcome.unwrap(), "hi");
            }
        }
    };
    let bad_calls = async {
        loop {
            let bad = (0..ALL).filter(|number| !good(number));
            let calls = bad.map(|number| call(&host, number));
            futures_util::future::join_all(calls).await;
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    tokio::select! {
        () = good_calls => {}
        () = bad_calls => {}
    }
    for number in (0..ALL).filter(good) {
        let inspection = host.server_details(&format!("s{number}")).unwrap();
        assert_eq!(inspection.generation.0, 1, "s{number} was connected anew");
        assert_eq!(servers[number].count("tools/call"), 20);
    }
    host.shutdown().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ten_servers_that_are_bad_from_the_start_leave_forty_others_without_errors() {
    among_others(true).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ten_servers_that_turn_bad_leave_forty_others_without_errors() {
    among_others(false).await;
}
