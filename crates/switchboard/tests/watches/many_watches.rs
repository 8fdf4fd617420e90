//! Many watches of many servers, some of which come and go.

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
const WATCHES: usize = 20;
/// So many of the servers flap: one in twenty, rounded up.
const FLAPPING: usize = 3;
/// How often each of those goes away, in seconds: seldom enough not to be given up.
const FLAP: u32 = 50;
/// The share of the virtual seconds that CI runs; the whole are fifteen minutes.
const SHARE: u32 = 120;
/// Seconds before memory is looked at: pools fill up, and code is read in.
const WARM_UP: u32 = 60;

/// A server that keeps nothing of what it is asked, so that what grows is not the test.
#[derive(Clone, Default)]
struct Place(Arc<Mutex<Inside>>);

#[derive(Default)]
struct Inside {
    is_modern: bool,
    versions: BTreeMap<String, u64>,
    current: Option<AbortHandle>,
    output: Option<tokio::sync::mpsc::Sender<String>>,
    /// With the id of the listen that asked for it.
    subscribed: BTreeMap<String, Value>,
}

const ID: &str = "io.modelcontextprotocol/subscriptionId";

impl Place {
    fn inside(&self) -> std::sync::MutexGuard<'_, Inside> {
        self.0.lock().unwrap()
    }

    fn text(&self, uri: &str) -> String {
        format!("v{}", self.inside().versions.get(uri).unwrap_or(&0))
    }

    /// Changes a resource, and says so to whoever asked for that.
    fn bump(&self, uri: &str) {
        let mut inside = self.inside();
        *inside.versions.entry(uri.to_owned()).or_default() += 1;
        let Some(id) = inside.subscribed.get(uri) else {
            return;
        };
        let params = json!({"uri": uri, "_meta": {ID: id}});
        let method = "notifications/resources/updated";
        let notice = json!({"jsonrpc": "2.0", "method": method, "params": params});
        if let Some(output) = &inside.output {
            let _ = output.try_send(notice.to_string());
        }
    }

    fn kill(&self) {
        let mut inside = self.inside();
        inside.subscribed.clear();
        inside.output = None;
        if let Some(current) = inside.current.take() {
            current.abort();
        }
    }

    /// The lines that answer a message.
    fn answer(&self, message: &Value) -> Vec<Value> {
        let id = &message["id"];
        let uri = message["params"]["uri"].as_str().unwrap_or_default();
        let is_modern = self.inside().is_modern;
        let offers = json!({"resources": {"subscribe": true}, "tools": {}});
        let result = match message["method"].as_str().unwrap_or_default() {
            "server/discover" if is_modern => {
                json!({"supportedVersions": ["2026-07-28"], "capabilities": offers})
            }
            "initialize" if !is_modern => json!({
                "protocolVersion": "2025-11-25", "capabilities": offers,
                "serverInfo": {"name": "place", "version": "1"},
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
                let subscribed = &mut self.inside().subscribed;
                let before = subscribed.insert(uri.to_owned(), Value::Null);
                assert_eq!(before, None, "subscribed twice");
                json!({})
            }
            "resources/unsubscribe" => {
                self.inside().subscribed.remove(uri);
                json!({})
            }
            "subscriptions/listen" => {
                let wanted = &message["params"]["notifications"];
                let uris = wanted["resourceSubscriptions"].as_array().unwrap();
                let uris = uris.iter().map(|uri| uri.as_str().unwrap().to_owned());
                let subscribed = &mut self.inside().subscribed;
                subscribed.clear();
                subscribed.extend(uris.map(|uri| (uri, id.clone())));
                let method = "notifications/subscriptions/acknowledged";
                let params = json!({"notifications": wanted, "_meta": {ID: id}});
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
        let (output, mut unasked) = tokio::sync::mpsc::channel(1_024);
        self.inside().output = Some(output);
        let mut lines = BufReader::new(reader).lines();
        loop {
            let said = tokio::select! {
                line = lines.next_line() => {
                    let Ok(Some(line)) = line else { return };
                    let message: Value = serde_json::from_str(&line).unwrap();
                    self.answer(&message).iter().map(Value::to_string).collect()
                }
                Some(notice) = unasked.recv() => vec![notice],
            };
            for line in said {
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

impl Connector for Place {
    #[expect(clippy::disallowed_methods, reason = "its handle is kept")]
    fn connect(&self) -> BoxFuture<'_, io::Result<ByteStreams>> {
        let (client_reads, server_writes) = tokio::io::duplex(64 * 1024);
        let (server_reads, client_writes) = tokio::io::duplex(64 * 1024);
        let task = tokio::spawn(self.clone().serve(server_reads, server_writes));
        self.inside().current = Some(task.abort_handle());
        let streams = ByteStreams::new(client_reads, client_writes);
        Box::pin(std::future::ready(Ok(streams)))
    }
}

fn uri(number: usize) -> String {
    format!("place://{number}")
}

fn request(server: &str, number: usize) -> WatchRequest {
    match number % 10 {
        0 => WatchRequest::poll_tool(server, "look", json!({"uri": uri(number)})),
        1 | 2 => WatchRequest::poll_resource(server, uri(number)),
        _ => WatchRequest::subscription(server, uri(number)),
    }
}

/// What the watches have told so far.
#[derive(Default)]
struct Told {
    /// The text that each told of last.
    last: BTreeMap<String, String>,
    events: usize,
}

impl Told {
    /// Every event begins where the one before it ended: so none is lost, and none comes twice.
    fn take(&mut self, host: &Host) {
        for event in host.drain_watch_events() {
            let WatchChange::Changed { .. } = event.change else {
                panic!("{event:?}");
            };
            // A text that is as it was before has nothing to compare.
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
async fn stress_watches_of_a_flapping_crowd_lose_nothing_and_repeat_nothing() {
    let places: Vec<_> = (0..SERVERS).map(|_| Place::default()).collect();
    let mut builder = permissive();
    for (number, place) in places.iter().enumerate() {
        place.inside().is_modern = number % 2 == 1;
        builder = builder.connector(format!("s{number}"), place.clone());
    }
    let host = builder.start().unwrap();
    host.wait_for(Readiness::All).await;
    let mut watched = BTreeMap::new();
    for server in 0..SERVERS {
        for number in 0..WATCHES {
            let request = request(&format!("s{server}"), number);
            let watch = host.watch(request).await.unwrap();
            watched.insert(watch.id.to_string(), (server, uri(number)));
        }
    }
    sleep(Duration::from_secs(1)).await;
    let tasks = Handle::current().metrics().num_alive_tasks();
    let mut random = fastrand::Rng::with_seed(7);
    let mut told = Told::default();
    let mut memory = None;
    for second in 0..repetitions(SHARE) {
        for _ in 0..20 {
            places[random.usize(..SERVERS)].bump(&uri(random.usize(..WATCHES)));
        }
        for (number, place) in places.iter().take(FLAPPING).enumerate() {
            let turn = FLAP / 3 * u32::try_from(number).unwrap();
            if second % FLAP == turn + 5 {
                place.kill();
            }
        }
        if second == WARM_UP {
            memory = Some(Memory::read());
        }
        sleep(Duration::from_secs(1)).await;
        if random.bool() {
            told.take(&host);
        }
    }
    sleep(Duration::from_secs(120)).await;
    told.take(&host);
    assert_eq!(host.watches().len(), SERVERS * WATCHES, "no watch is lost");
    for (watch, (server, uri)) in &watched {
        let last = told.last.get(watch).map_or("v0", String::as_str);
        assert_eq!(last, places[*server].text(uri), "{watch}");
    }
    let subscribed = |place: &Place| place.inside().subscribed.len();
    let subscribed: BTreeSet<_> = places.iter().map(subscribed).collect();
    assert_eq!(subscribed, BTreeSet::from([14]), "each resource once");
    let now = Handle::current().metrics().num_alive_tasks();
    assert!(now <= tasks + FLAPPING, "{tasks} tasks before, {now} after");
    println!("{} events of {} watches", told.events, watched.len());
    memory.unwrap().assert_grown_little();
}
