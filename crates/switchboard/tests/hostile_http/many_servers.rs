//! Many HTTP servers in one host: reconnects after a common failure, and hostile servers among
//! healthy ones.

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
use crate::harness::lock_process;
use crate::table::head;

const SERVERS: usize = 100;
const BUCKET: Duration = Duration::from_millis(100);

/// Records the times of connection attempts.
#[derive(Clone, Default)]
struct Attempts(Arc<Mutex<Vec<Instant>>>);

impl Attempts {
    fn record(&self) {
        self.0.lock().unwrap().push(Instant::now());
    }

    fn times(&self) -> Vec<Instant> {
        let mut times = self.0.lock().unwrap().clone();
        times.sort();
        times
    }
}

/// Returns the largest number of attempts within any 100 ms. `times` must be sorted.
fn max_per_bucket(times: &[Instant]) -> usize {
    let starts = times.iter().enumerate();
    let counts = starts.map(|(number, start)| {
        let within = |time: &&Instant| **time < *start + BUCKET;
        times[number..].iter().take_while(within).count()
    });
    counts.max().unwrap_or_default()
}

/// A connector to a server that refuses every connection. Records the attempts.
struct Unreachable(Attempts);

impl Connector for Unreachable {
    fn connect(&self) -> BoxFuture<'_, io::Result<ByteStreams>> {
        self.0.record();
        let refused = io::ErrorKind::ConnectionRefused.into();
        Box::pin(std::future::ready(Err(refused)))
    }
}

/// On a paused clock, no more than a tenth of the servers reconnect within 100 ms.
#[tokio::test(start_paused = true)]
async fn reconnects_are_spread_in_virtual_time() {
    let attempts = Attempts::default();
    let add = |builder: HostBuilder, number| {
        builder.connector(format!("s{number}"), Unreachable(attempts.clone()))
    };
    let host = (0..SERVERS).fold(permissive(), add).start().unwrap();
    tokio::time::sleep(Duration::from_secs(200)).await;
    let times = attempts.times();
    host.shutdown().await;
    // The first attempts are not spread, because all servers connect at once when the host starts.
    for (round, times) in times.chunks(SERVERS).enumerate().skip(1) {
        let max = max_per_bucket(times);
        assert!(max <= SERVERS / 10, "{max} at once in round {round}");
    }
    assert!(times.len() > 8 * SERVERS, "{} attempts", times.len());
    let first = times[SERVERS] - times[0];
    assert!(first >= Duration::from_millis(799), "after {first:?}");
    let last = times[2 * SERVERS - 1] - times[0];
    assert!(last <= Duration::from_millis(2_500), "after {last:?}");
}

/// Starts a server that answers every request with HTTP 503 and records when connections are
/// opened.
async fn busy_server(attempts: Attempts) -> (SocketAddr, JoinSet<()>) {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
    let address = listener.local_addr().unwrap();
    let mut tasks = JoinSet::new();
    tasks.spawn(async move {
        let mut connections = JoinSet::new();
        while let Ok((mut socket, _)) = listener.accept().await {
            attempts.record();
            connections.spawn(async move {
                let _ = socket.read(&mut [0; 4096]).await;
                let busy = b"HTTP/1.1 503 Busy\r\nContent-Length: 0\r\nConnection: close\r\n\r\n";
                let _ = socket.write_all(busy).await;
            });
        }
    });
    (address, tasks)
}

/// Checks the first two rounds of reconnects over sockets, in real time. On a busy machine,
/// attempts that were due at different times may happen together. The test starts `2 * SERVERS`
/// servers, so that a few such attempts do not make it fail.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn reconnects_are_spread_over_sockets() {
    let _guard = lock_process().await;
    let attempts = Attempts::default();
    let (address, _tasks) = busy_server(attempts.clone()).await;
    let add = |builder: HostBuilder, number| {
        let url = format!("http://{address}/{number}");
        let config = ServerConfig::remote(url, RemoteKind::Http);
        builder.launch(launch(&format!("s{number}"), config))
    };
    let count = 2 * SERVERS;
    let host = (0..count).fold(permissive(), add).start().unwrap();
    let mut interval = tokio::time::interval(Duration::from_millis(50));
    while attempts.times().len() < 3 * count {
        interval.tick().await;
    }
    host.shutdown().await;
    let times = &attempts.times()[count..3 * count];
    let max = max_per_bucket(times);
    println!("{max} of {} attempts within 100 ms", times.len());
    assert!(max <= times.len() / 10, "{max} at once");
}

const MIXED_SERVERS: usize = 50;

/// The fault of the n-th server. Most servers have none.
fn fault_of(number: usize) -> Option<Fault> {
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

/// Checks that ten faulty servers do not affect forty healthy servers. The faults begin either at
/// the start or after all servers have connected.
async fn check_healthy_servers(from_the_start: bool) {
    let _guard = lock_process().await;
    let mut servers = Vec::new();
    for number in 0..MIXED_SERVERS {
        let script = match number % 2 {
            0 => Script::modern(),
            _ => Script::legacy(),
        };
        let script = script
            .tool("echo")
            .on("tools/call echo", [Step::text("hi")]);
        let server = HttpServer::start(script, Mode::JSON).await;
        if let Some(fault) = fault_of(number).filter(|_| from_the_start) {
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
    let is_healthy = |number: &usize| fault_of(*number).is_none();
    let names = (0..MIXED_SERVERS)
        .filter(is_healthy)
        .map(|number| name(&format!("s{number}")));
    host.wait_for(Readiness::Servers(names.collect())).await;
    if !from_the_start {
        host.wait_for(Readiness::All).await;
        for (number, server) in servers.iter().enumerate() {
            if let Some(fault) = fault_of(number) {
                server.arm(fault);
            }
        }
    }
    let healthy_calls = async {
        for _ in 0..20 {
            let calls = (0..MIXED_SERVERS)
                .filter(is_healthy)
                .map(|number| call(&host, number));
            for outcome in futures_util::future::join_all(calls).await {
                assert_eq!(outcome.unwrap(), "hi");
            }
        }
    };
    let faulty_calls = async {
        loop {
            let faulty = (0..MIXED_SERVERS).filter(|number| !is_healthy(number));
            let calls = faulty.map(|number| call(&host, number));
            futures_util::future::join_all(calls).await;
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    tokio::select! {
        () = healthy_calls => {}
        () = faulty_calls => {}
    }
    for number in (0..MIXED_SERVERS).filter(is_healthy) {
        let details = host.server_details(&format!("s{number}")).unwrap();
        assert_eq!(details.generation.0, 1, "s{number} was reconnected");
        assert_eq!(servers[number].count("tools/call"), 20);
    }
    host.shutdown().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ten_faulty_servers_affect_no_others() {
    check_healthy_servers(true).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ten_servers_turning_faulty_affect_no_others() {
    check_healthy_servers(false).await;
}
