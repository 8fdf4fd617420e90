//! The servers of this program, by the names under which the CLI knows them.
//!
//! Invariant: every message is answered, whatever it is and whoever it is for: the CLI waits half a
//! minute for each that is not. Messages are taken in the order in which they are handed in.

use std::collections::{HashMap, HashSet};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures_util::future::join_all;
use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Map, Value, json};
use switchboard::Instance;
use switchboard::inprocess::Adapter;
use switchboard::mcp::{ErrorObject, Json};
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio_util::sync::{CancellationToken, DropGuard};

use super::{eager, manifest};
use crate::lenient;

/// How many messages of the servers' own may wait for the CLI; beyond that they wait with their server.
const UNASKED: usize = 64;

pub(crate) struct SdkServers {
    /// In the order in which they were declared.
    servers: Mutex<Vec<(String, Served)>>,
    said: mpsc::Sender<(String, Json)>,
    call_timeout: Duration,
    /// Those whose tools the model is to see from the beginning.
    eager: HashSet<String>,
}

/// One server that the CLI speaks to.
struct Served {
    /// Cancelled before the adapter ends what is under way.
    _gone: DropGuard,
    gone: CancellationToken,
    instance: Instance,
    adapter: Adapter,
    /// Passes on what it says by itself.
    _ears: JoinSet<()>,
}

impl SdkServers {
    /// Connects servers. The receiver yields what they say by themselves, and who does.
    pub(crate) fn new(
        servers: Vec<(String, Instance)>,
        call_timeout: Duration,
    ) -> (Self, mpsc::Receiver<(String, Json)>) {
        let (said, receiver) = mpsc::channel(UNASKED);
        let all = Self {
            servers: Mutex::default(),
            said,
            call_timeout,
            eager: HashSet::new(),
        };
        all.replace(servers);
        (all, receiver)
    }

    /// The model is to see the tools of these from the beginning. The CLI heeds that for servers of its
    /// own; for those of this program each tool has to say so.
    pub(crate) fn loading(mut self, eager: impl IntoIterator<Item = String>) -> Self {
        self.eager = eager.into_iter().collect();
        self
    }

    /// Their names, in the order in which they were declared.
    pub(crate) fn names(&self) -> Vec<String> {
        let servers = self.lock();
        servers.iter().map(|(name, _)| name.clone()).collect()
    }

    /// Answers a message to a server: requests with their answer, all else with a bare result, and so
    /// what the CLI itself has cancelled.
    ///
    /// The message is taken when this returns, and answered by the future.
    pub(crate) fn message(
        &self,
        server: &str,
        message: &RawValue,
    ) -> impl Future<Output = Json> + Send + use<> {
        let (id, method) = request(message).unzip();
        let is_marked = method.is_some_and(|method| method == "tools/list");
        let is_marked = is_marked && self.eager.contains(server);
        let server = server.to_owned();
        let taken = self.reach(&server).map(|(adapter, gone)| {
            let answer = adapter.handle(&lenient::mended(message.get()));
            (answer, gone)
        });
        async move {
            let Some((answer, gone)) = taken else {
                let why = format!("Server '{server}' not found: declare it with the CLI's servers");
                return refusal(id, ErrorObject::METHOD_NOT_FOUND, why);
            };
            match answer.await {
                Some(answer) if is_marked => eager::answer(answer),
                Some(answer) => answer,
                // The CLI would wait for minutes for what nobody answers any more.
                None if gone.is_cancelled() => {
                    let why = format!("server {server} was replaced or closed: call it again");
                    refusal(id, ErrorObject::INTERNAL, why)
                }
                None => acknowledgement(),
            }
        }
    }

    /// What the CLI would learn of each server by asking it, where the server says so quickly.
    pub(crate) async fn manifests(&self) -> Map<String, Value> {
        let servers: Vec<_> = {
            let servers = self.lock();
            let adapters = servers.iter();
            adapters
                .map(|(name, served)| (name.clone(), served.adapter.clone()))
                .collect()
        };
        let manifests = servers.into_iter().map(|(name, adapter)| async move {
            let mut manifest = manifest::of(&adapter).await?;
            if self.eager.contains(&name) {
                eager::mark(manifest.pointer_mut("/toolsListResult/tools"));
            }
            Some((name, manifest))
        });
        join_all(manifests).await.into_iter().flatten().collect()
    }

    /// Puts other servers in the place of these. One that stays the same under its name stays connected;
    /// of the others, what is under way ends.
    pub(crate) fn replace(&self, servers: Vec<(String, Instance)>) {
        let mut current = self.lock();
        let mut earlier: HashMap<_, _> = std::mem::take(&mut *current).into_iter().collect();
        for (name, instance) in servers {
            let stays = earlier.remove(&name);
            let stays = stays.filter(|served| served.instance.is_same(&instance));
            let served = stays.unwrap_or_else(|| self.serve(&name, instance));
            current.retain(|(other, _)| *other != name);
            current.push((name, served));
        }
    }

    fn serve(&self, name: &str, instance: Instance) -> Served {
        let (adapter, heard) = Adapter::connect(&instance, self.call_timeout);
        let mut ears = JoinSet::new();
        ears.spawn(pass_on(name.to_owned(), heard, self.said.clone()));
        let gone = CancellationToken::new();
        Served {
            _gone: gone.clone().drop_guard(),
            gone,
            instance,
            adapter,
            _ears: ears,
        }
    }

    fn reach(&self, server: &str) -> Option<(Adapter, CancellationToken)> {
        let servers = self.lock();
        let found = servers.iter().find(|(name, _)| name == server);
        found.map(|(_, served)| (served.adapter.clone(), served.gone.clone()))
    }

    fn lock(&self) -> MutexGuard<'_, Vec<(String, Served)>> {
        self.servers.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

async fn pass_on(
    name: String,
    mut heard: mpsc::Receiver<Json>,
    said: mpsc::Sender<(String, Json)>,
) {
    while let Some(message) = heard.recv().await {
        if said.send((name.clone(), message)).await.is_err() {
            return;
        }
    }
}

/// What the CLI wants in answer to what has no answer.
fn acknowledgement() -> Json {
    Json::from(&json!({"jsonrpc": "2.0", "result": {}}))
}

/// The id of a message and its method, if it is a request.
fn request(message: &RawValue) -> Option<(Value, String)> {
    #[derive(Deserialize)]
    struct Message {
        id: Option<Value>,
        method: Option<String>,
    }
    let message: Message = serde_json::from_str(message.get()).ok()?;
    message.id.zip(message.method)
}

/// What is said to a request that has no answer; to anything else, what the CLI wants.
fn refusal(id: Option<Value>, code: i64, why: String) -> Json {
    let Some(id) = id else {
        return acknowledgement();
    };
    let error = ErrorObject::new(code, why);
    Json::from(&json!({"jsonrpc": "2.0", "id": id, "error": error}))
}
