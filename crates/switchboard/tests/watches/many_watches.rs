//! Many watches of many servers, some of which disconnect repeatedly.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::{Value, json};
use switchboard::in_process::{ByteStreams, Connector};
use switchboard::interaction::BoxFuture;
use switchboard::watch::{WatchChange, WatchRequest};
use switchboard::{Host, Readiness};
use switchboard_testkit::repetitions;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, DuplexStream};
use tokio::runtime::Handle;
use tokio::task::AbortHandle;
use tokio::time::sleep;

use crate::common::permissive;
use crate::resource_counts::Memory;

const SERVERS: usize = 50;
const WATCHES_PER_SERVER: usize = 20;
/// Number of servers that disconnect repeatedly.
const FLAPPING_SERVERS: usize = 3;
/// Virtual seconds between two disconnects of a flapping server. The interval is so long that the
/// host does not give up on the server.
const FLAP_INTERVAL: u32 = 50;
/// Duration of the test in CI, in virtual seconds. A full run takes fifteen virtual minutes.
const CI_SECONDS: u32 = 120;
/// Virtual seconds before the first measurement of memory. Caches and pools fill in that time.
const WARM_UP: u32 = 60;

/// A server that records no requests, so that its own memory does not grow.
#[derive(Clone, Default)]
struct VersionedServer(Arc<Mutex<ServerState>>);

#[derive(Default)]
struct ServerState {
    is_modern: bool,
    versions: BTreeMap<String, u64>,
    current: Option<AbortHandle>,
    output: Option<tokio::sync::mpsc::Sender<String>>,
    /// Subscribed URIs, each with the id of the listen request, or null in the legacy era.
    subscribed: BTreeMap<String, Value>,
}

const SUBSCRIPTION_ID: &str = "io.modelcontextprotocol/subscriptionId";

impl VersionedServer {
    fn state(&self) -> std::sync::MutexGuard<'_, ServerState> {
        self.0.lock().unwrap()
    }

    fn text(&self, uri: &str) -> String {
        format!("v{}", self.state().versions.get(uri).unwrap_or(&0))
    }

    /// Changes a resource and notifies its subscriber.
    fn bump(&self, uri: &str) {
        let mut state = self.state();
        *state.versions.entry(uri.to_owned()).or_default() += 1;
        let Some(id) = state.subscribed.get(uri) else {
            return;
        };
        let params = json!({"uri": uri, "_meta": {SUBSCRIPTION_ID: id}});
        let method = "notifications/resources/updated";
        let notification = json!({"jsonrpc": "2.0", "method": method, "params": params});
        if let Some(output) = &state.output {
            let _ = output.try_send(notification.to_string());
        }
    }

    fn kill(&self) {
        let mut state = self.state();
        state.subscribed.clear();
        state.output = None;
        if let Some(current) = state.current.take() {
            current.abort();
        }
    }

    /// The messages that answer a request.
    fn respond_to(&self, message: &Value) -> Vec<Value> {
        let id = &message["id"];
        let uri = message["params"]["uri"].as_str().unwrap_or_default();
        let is_modern = self.state().is_modern;
        let capabilities = json!({"resources": {"subscribe": true}, "tools": {}});
        let result = match message["method"].as_str().unwrap_or_default() {
            "server/discover" if is_modern => {
                json!({"supportedVersions": ["2026-07-28"], "capabilities": capabilities})
            }
            "initialize" if !is_modern => json!({
                "protocolVersion": "2025-11-25", "capabilities": capabilities,
                "serverInfo": {"name": "resource", "version": "1"},
            }),
            "tools/list" => json!({"tools": [
                {"name": "look", "inputSchema": {"type": "object"}},
            ]}),
            "tools/call" => {
                let uri = message["params"]["arguments"]["uri"].as_str().unwrap();
                json!({"content": [{"type": "text", "text": self.text(uri)}]})
            }
            "resources/read" => json!({"contents": [{"uri": uri, "text": self.text(uri)}]}),
            "resources/subscribe" => {
                let subscribed = &mut self.state().subscribed;
                let before = subscribed.insert(uri.to_owned(), Value::Null);
                assert_eq!(before, None, "subscribed twice");
                json!({})
            }
            "resources/unsubscribe" => {
                self.state().subscribed.remove(uri);
                json!({})
            }
            "subscriptions/listen" => {
                let wanted = &message["params"]["notifications"];
                let uris = wanted["resourceSubscriptions"].as_array().unwrap();
                let uris = uris.iter().map(|uri| uri.as_str().unwrap().to_owned());
                let subscribed = &mut self.state().subscribed;
                subscribed.clear();
                subscribed.extend(uris.map(|uri| (uri, id.clone())));
                let method = "notifications/subscriptions/acknowledged";
                let params = json!({"notifications": wanted, "_meta": {SUBSCRIPTION_ID: id}});
                return vec![json!({"jsonrpc": "2.0", "method": method, "params": params})];
            }
            _ if id.is_null() => return Vec::new(),
            method => {
                let error = json!({"code": -32601, "message": method});
                return vec![json!({"jsonrpc": "2.0", "id": id, "error": error})];
            }
        };
        vec![json!({"jsonrpc": "2.0", "id": id, "result": result})]
    }

    async fn serve(self, reader: DuplexStream, mut writer: DuplexStream) {
        let (output, mut notifications) = tokio::sync::mpsc::channel(1_024);
        self.state().output = Some(output);
        let mut lines = BufReader::new(reader).lines();
        loop {
            let responses = tokio::select! {
                line = lines.next_line() => {
                    let Ok(Some(line)) = line else { return };
                    let message: Value = serde_json::from_str(&line).unwrap();
                    self.respond_to(&message).iter().map(Value::to_string).collect()
                }
                Some(notification) = notifications.recv() => vec![notification],
            };
            for line in responses {
                if writer
                    .write_all(format!("{line}\n").as_bytes())
                    .await
                    .is_err()
                {
                    return;
                }
            }
        }
    }
}

impl Connector for VersionedServer {
    #[expect(clippy::disallowed_methods, reason = "the abort handle is kept")]
    fn connect(&self) -> BoxFuture<'_, io::Result<ByteStreams>> {
        let (client_reads, server_writes) = tokio::io::duplex(64 * 1024);
        let (server_reads, client_writes) = tokio::io::duplex(64 * 1024);
        let task = tokio::spawn(self.clone().serve(server_reads, server_writes));
        self.state().current = Some(task.abort_handle());
        let streams = ByteStreams::new(client_reads, client_writes);
        Box::pin(std::future::ready(Ok(streams)))
    }
}

fn uri(number: usize) -> String {
    format!("resource://{number}")
}

fn request(server: &str, number: usize) -> WatchRequest {
    match number % 10 {
        0 => WatchRequest::poll_tool(server, "look", json!({"uri": uri(number)})),
        1 | 2 => WatchRequest::poll_resource(server, uri(number)),
        _ => WatchRequest::subscription(server, uri(number)),
    }
}

/// The watch events so far.
#[derive(Default)]
struct SeenEvents {
    /// The text that each watch reported last.
    last: BTreeMap<String, String>,
    events: usize,
}

impl SeenEvents {
    /// Drains the events. Checks that the diff of each event begins with the text at which the
    /// previous diff of the same watch ended, so that no event is lost or repeated.
    fn drain(&mut self, host: &Host) {
        for event in host.drain_watch_events() {
            let WatchChange::Changed { .. } = event.change else {
                panic!("{event:?}");
            };
            // An event whose text is unchanged has no diff.
            let Some(diff) = event.diff else { continue };
            let (before, now) = diff.split_once('\n').unwrap();
            let last = self.last.entry(event.watch.to_string());
            let last = last.or_insert_with(|| "v0".to_owned());
            assert_eq!(
                before.strip_prefix('-'),
                Some(last.as_str()),
                "{}",
                event.watch
            );
            now.strip_prefix('+').unwrap().clone_into(last);
            self.events += 1;
        }
    }
}

#[tokio::test(start_paused = true)]
async fn stress_watches_lose_and_repeat_no_event() {
    let servers: Vec<_> = (0..SERVERS).map(|_| VersionedServer::default()).collect();
    let mut builder = permissive();
    for (number, server) in servers.iter().enumerate() {
        server.state().is_modern = number % 2 == 1;
        builder = builder.connector(format!("s{number}"), server.clone());
    }
    let host = builder.start().unwrap();
    host.wait_for(Readiness::All).await;
    let mut watched = BTreeMap::new();
    for server in 0..SERVERS {
        for number in 0..WATCHES_PER_SERVER {
            let request = request(&format!("s{server}"), number);
            let watch = host.watch(request).await.unwrap();
            watched.insert(watch.id.to_string(), (server, uri(number)));
        }
    }
    sleep(Duration::from_secs(1)).await;
    let tasks = Handle::current().metrics().num_alive_tasks();
    let mut rng = fastrand::Rng::with_seed(7);
    let mut seen = SeenEvents::default();
    let mut memory = None;
    for second in 0..repetitions(CI_SECONDS) {
        for _ in 0..20 {
            servers[rng.usize(..SERVERS)].bump(&uri(rng.usize(..WATCHES_PER_SERVER)));
        }
        for (number, server) in servers.iter().take(FLAPPING_SERVERS).enumerate() {
            let offset = FLAP_INTERVAL / 3 * u32::try_from(number).unwrap();
            if second % FLAP_INTERVAL == offset + 5 {
                server.kill();
            }
        }
        if second == WARM_UP {
            memory = Some(Memory::read());
        }
        sleep(Duration::from_secs(1)).await;
        if rng.bool() {
            seen.drain(&host);
        }
    }
    sleep(Duration::from_secs(120)).await;
    seen.drain(&host);
    assert_eq!(
        host.watches().len(),
        SERVERS * WATCHES_PER_SERVER,
        "a watch was lost"
    );
    for (watch, (server, uri)) in &watched {
        let last = seen.last.get(watch).map_or("v0", String::as_str);
        assert_eq!(last, servers[*server].text(uri), "{watch}");
    }
    let subscribed = |server: &VersionedServer| server.state().subscribed.len();
    let subscribed: BTreeSet<_> = servers.iter().map(subscribed).collect();
    assert_eq!(
        subscribed,
        BTreeSet::from([14]),
        "each resource is subscribed once"
    );
    let now = Handle::current().metrics().num_alive_tasks();
    assert!(
        now <= tasks + FLAPPING_SERVERS,
        "{tasks} tasks before, {now} after"
    );
    println!("{} events of {} watches", seen.events, watched.len());
    memory.unwrap().assert_grown_little();
}
