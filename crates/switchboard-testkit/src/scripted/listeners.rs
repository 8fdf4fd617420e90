//! Who hears what no request asked for, and what each of them wants to hear.
//!
//! A modern client listens by a request that stays open, a legacy one by having a session. Invariant: a
//! change of a list or of a resource goes to nobody who did not ask for it in the way of his era.

use std::collections::BTreeSet;
use std::sync::{Arc, MutexGuard};
use std::time::Duration;

use serde_json::{Value, json};
use tokio::sync::oneshot;

use super::defaults::is_modern;
use super::message::Request;
use super::notification_line;
use super::output::{Chunk, HandlerOutput};
use super::state::{SUBSCRIPTION_ID, ServerState, StepsStopped};
use crate::script::{Flood, ListenEnding, Script};

pub(super) const UPDATED: &str = "notifications/resources/updated";
pub(super) const RESOURCES_CHANGED: &str = "notifications/resources/list_changed";
pub(super) const PROMPTS_CHANGED: &str = "notifications/prompts/list_changed";
const TASKS: &str = "notifications/tasks";
pub(super) const TOOLS_CHANGED: &str = "notifications/tools/list_changed";

/// Who hears what no request asked for.
#[derive(Debug, Default)]
pub(super) struct Listeners {
    /// The open `subscriptions/listen`, in order.
    listens: Vec<Listen>,
    /// The legacy clients, in the order in which they came.
    sessions: Vec<LegacyClient>,
}

/// An open `subscriptions/listen`.
#[derive(Debug)]
struct Listen {
    id: Value,
    /// Where its notifications go; none: to stdout.
    outlet: Option<Arc<dyn HandlerOutput>>,
    /// What was acknowledged.
    filter: Value,
    /// How many notifications it has had.
    heard: u64,
    /// Wakes the handler of the request, which says how it ends.
    end: oneshot::Sender<ListenEnding>,
}

/// A legacy client.
#[derive(Debug)]
struct LegacyClient {
    scope: String,
    /// Where it hears what it did not ask for; none: on stdout.
    outlet: Option<Arc<dyn HandlerOutput>>,
    /// What it is subscribed to.
    watched: BTreeSet<String>,
}

/// Where one notification goes.
struct Recipient {
    outlet: Option<Arc<dyn HandlerOutput>>,
    /// The id of a listen; none: unmarked.
    id: Option<Value>,
    /// It has heard enough.
    end: Option<oneshot::Sender<ListenEnding>>,
}

impl Listen {
    fn wants(&self, method: &str, params: Option<&Value>) -> bool {
        let asked = |key: &str| self.filter.get(key).is_some_and(|asked| asked == true);
        match method {
            TOOLS_CHANGED => asked("toolsListChanged"),
            PROMPTS_CHANGED => asked("promptsListChanged"),
            RESOURCES_CHANGED => asked("resourcesListChanged"),
            UPDATED => uris(&self.filter).any(|uri| Some(uri) == uri_of(params)),
            TASKS => {
                let id = params.and_then(|params| params.get("taskId"));
                let wanted = self.filter.get("taskIds").and_then(Value::as_array);
                wanted.is_some_and(|wanted| wanted.iter().any(|wanted| Some(wanted) == id))
            }
            // Whatever else a script says is meant to be heard.
            _ => true,
        }
    }

    fn is_open(&self) -> bool {
        self.outlet.as_ref().is_none_or(|outlet| outlet.is_open())
    }
}

impl LegacyClient {
    fn wants(&self, method: &str, params: Option<&Value>) -> bool {
        method != UPDATED || uri_of(params).is_some_and(|uri| self.watched.contains(uri))
    }

    fn is_open(&self) -> bool {
        let hears = |outlet: &Arc<dyn HandlerOutput>| outlet.hears_unasked();
        self.outlet.as_ref().is_none_or(hears)
    }
}

fn uri_of(params: Option<&Value>) -> Option<&str> {
    params?.get("uri")?.as_str()
}

fn uris(filter: &Value) -> impl Iterator<Item = &str> {
    let uris = filter
        .get("resourceSubscriptions")
        .and_then(Value::as_array);
    uris.into_iter().flatten().filter_map(Value::as_str)
}

/// What of a filter a server honours: what its capabilities promise and its script does not take away.
pub(super) fn acknowledge(script: &Script, asked: &Value) -> Value {
    let promised = |capability: &str, what: &str| {
        let capability = script.capabilities.get(capability);
        capability.and_then(|capability| capability.get(what)) == Some(&json!(true))
    };
    let honours = |key: &str| script.listening.honours.as_ref().map(|all| all.get(key));
    let mut filter = json!({});
    for (key, capability) in [
        ("toolsListChanged", "tools"),
        ("promptsListChanged", "prompts"),
        ("resourcesListChanged", "resources"),
    ] {
        let is_honoured = honours(key).is_none_or(|honoured| honoured == Some(&json!(true)));
        if asked.get(key) == Some(&json!(true))
            && promised(capability, "listChanged")
            && is_honoured
        {
            insert(&mut filter, key, json!(true));
        }
    }
    if asked.get("resourceSubscriptions").is_some() && promised("resources", "subscribe") {
        let honoured = honours("resourceSubscriptions");
        let is_honoured = |uri: &str| {
            let all = honoured.as_ref();
            all.is_none_or(|all| {
                let all = all.and_then(Value::as_array);
                all.is_some_and(|all| all.iter().any(|found| found == uri))
            })
        };
        let accepted: Vec<_> = uris(asked).filter(|uri| is_honoured(uri)).collect();
        if !accepted.is_empty() {
            insert(&mut filter, "resourceSubscriptions", json!(accepted));
        }
    }
    if let Some(ids) = asked.get("taskIds").filter(|_| has_tasks(script)) {
        insert(&mut filter, "taskIds", ids.clone());
    }
    filter
}

fn has_tasks(script: &Script) -> bool {
    let extensions = script.capabilities.get("extensions");
    extensions.is_some_and(|all| all.get("io.modelcontextprotocol/tasks").is_some())
}

fn insert(object: &mut Value, key: &str, value: Value) {
    if let Value::Object(object) = object {
        object.insert(key.to_owned(), value);
    }
}

/// Coming and going.
impl ServerState {
    fn audience(&self) -> MutexGuard<'_, Listeners> {
        self.audience.lock().expect("no holder panics")
    }

    /// Notes whom a legacy request came from.
    pub(super) fn notice(
        &self,
        scope: &str,
        request: &Request,
        outlet: Option<&Arc<dyn HandlerOutput>>,
    ) {
        // A probe is no beginning of anything.
        if request.method == "server/discover" || is_modern(&self.script(), request) {
            return;
        }
        let mut audience = self.audience();
        if !audience.sessions.iter().any(|known| known.scope == scope) {
            audience.sessions.push(LegacyClient {
                scope: scope.to_owned(),
                outlet: outlet.cloned(),
                watched: BTreeSet::new(),
            });
        }
    }

    pub(super) fn listen(
        &self,
        id: &Value,
        filter: Value,
        outlet: Option<Arc<dyn HandlerOutput>>,
    ) -> oneshot::Receiver<ListenEnding> {
        let (end, ended) = oneshot::channel();
        self.audience().listens.push(Listen {
            id: id.clone(),
            outlet,
            filter,
            heard: 0,
            end,
        });
        self.host.touch();
        ended
    }

    pub(super) fn stop_listening(&self, id: &Value) {
        self.audience().listens.retain(|listen| listen.id != *id);
        self.host.touch();
    }

    pub(super) fn watch(&self, scope: &str, uri: &str) {
        self.change_watched(scope, |watched| watched.insert(uri.to_owned()));
    }

    pub(super) fn unwatch(&self, scope: &str, uri: &str) {
        self.change_watched(scope, |watched| watched.remove(uri));
    }

    fn change_watched(&self, scope: &str, change: impl FnOnce(&mut BTreeSet<String>) -> bool) {
        let mut audience = self.audience();
        let mut sessions = audience.sessions.iter_mut();
        if let Some(session) = sessions.find(|session| session.scope == scope) {
            change(&mut session.watched);
        }
        drop(audience);
        self.host.touch();
    }

    /// Every resource that somebody is subscribed to now, once for each who is.
    pub(super) fn subscribed(&self) -> Vec<String> {
        let mut audience = self.audience();
        audience.forget_the_gone();
        let listens = audience
            .listens
            .iter()
            .flat_map(|listen| uris(&listen.filter));
        let sessions = audience
            .sessions
            .iter()
            .flat_map(|session| &session.watched);
        let sessions = sessions.map(String::as_str);
        listens.chain(sessions).map(str::to_owned).collect()
    }

    /// What was acknowledged of each open `subscriptions/listen`.
    pub(super) fn listens(&self) -> Vec<Value> {
        let mut audience = self.audience();
        audience.forget_the_gone();
        let filter = |listen: &Listen| listen.filter.clone();
        audience.listens.iter().map(filter).collect()
    }

    pub(super) fn end_listens(&self, ending: ListenEnding) {
        let listens = std::mem::take(&mut self.audience().listens);
        for listen in listens {
            let _ = listen.end.send(ending);
        }
        self.host.touch();
    }

    /// Nobody hears anything any more.
    pub(super) fn dismiss(&self) {
        *self.audience() = Listeners::default();
        self.host.touch();
    }
}

impl Listeners {
    fn forget_the_gone(&mut self) {
        self.listens.retain(Listen::is_open);
        self.sessions.retain(LegacyClient::is_open);
    }
}

/// Speaking.
impl ServerState {
    /// Sends a notification to each open listen that wants it, marked with its id. Says whether any is
    /// open.
    pub(super) async fn publish(
        &self,
        method: &str,
        params: Option<&Value>,
    ) -> Result<bool, StepsStopped> {
        drop(self.acknowledging.lock().await);
        let (hearers, is_heard) = {
            let mut audience = self.audience();
            audience.forget_the_gone();
            let is_heard = !audience.listens.is_empty();
            (self.choose_listens(&mut audience, method, params), is_heard)
        };
        self.tell(hearers, method, params).await?;
        Ok(is_heard)
    }

    /// Sends a notification to everybody who wants it, in either era.
    pub(super) async fn announce(
        &self,
        method: &str,
        params: Option<&Value>,
    ) -> Result<(), StepsStopped> {
        drop(self.acknowledging.lock().await);
        let hearers = {
            let mut audience = self.audience();
            audience.forget_the_gone();
            let mut hearers = self.choose_listens(&mut audience, method, params);
            let sessions = audience.sessions.iter();
            let wanting = sessions.filter(|session| session.wants(method, params));
            hearers.extend(wanting.map(|session| Recipient {
                outlet: session.outlet.clone(),
                id: None,
                end: None,
            }));
            hearers
        };
        self.tell(hearers, method, params).await
    }

    fn choose_listens(
        &self,
        audience: &mut Listeners,
        method: &str,
        params: Option<&Value>,
    ) -> Vec<Recipient> {
        let most = self.script().listening.ends_after;
        let listens = std::mem::take(&mut audience.listens);
        let mut hearers = Vec::new();
        for mut listen in listens {
            if !listen.wants(method, params) {
                audience.listens.push(listen);
                continue;
            }
            listen.heard += 1;
            let mut hearer = Recipient {
                outlet: listen.outlet.clone(),
                id: Some(listen.id.clone()),
                end: None,
            };
            if most.is_some_and(|most| listen.heard >= most) {
                hearer.end = Some(listen.end);
            } else {
                audience.listens.push(listen);
            }
            hearers.push(hearer);
        }
        hearers
    }

    async fn tell(
        &self,
        hearers: Vec<Recipient>,
        method: &str,
        params: Option<&Value>,
    ) -> Result<(), StepsStopped> {
        for Recipient { outlet, id, end } in hearers {
            let line = match &id {
                Some(id) => notification_line(method, Some(&marked(params, id))),
                None => notification_line(method, params),
            };
            // An outlet may have closed just now.
            match (outlet, &id) {
                (Some(outlet), Some(_)) => _ = outlet.put(Chunk::Line(line)).await,
                (Some(outlet), None) => _ = outlet.put_unasked(Chunk::Line(line)).await,
                (None, _) => self.write_line(&line).await?,
            }
            if let Some(end) = end {
                let _ = end.send(self.script().listening.ending);
            }
        }
        Ok(())
    }

    /// Sends one notification many times to everybody who wants it.
    pub(super) async fn flood(&self, flood: &Flood) -> Result<(), StepsStopped> {
        let (method, params) = match (&flood.method, &flood.uri) {
            (Some(method), uri) => (method.as_str(), uri.as_ref().map(|uri| json!({"uri": uri}))),
            (None, Some(uri)) => (UPDATED, Some(json!({"uri": uri}))),
            (None, None) => (RESOURCES_CHANGED, None),
        };
        let pause = flood
            .per_second
            .map(|rate| Duration::from_secs(1) / one_or_more(rate));
        for _ in 0..flood.count {
            self.announce(method, params.as_ref()).await?;
            match pause {
                Some(pause) => tokio::time::sleep(pause).await,
                // A flood that never waits must not keep the others from running.
                None => tokio::task::yield_now().await,
            }
        }
        Ok(())
    }

    /// Lets the resources change that change as time goes by.
    pub(super) fn start_clocks(self: &Arc<Self>) {
        for (uri, period) in self.host.stock().clocks() {
            let shared = Arc::clone(self);
            self.spawn(async move {
                loop {
                    tokio::time::sleep(period).await;
                    shared.host.stock().turn(&uri);
                    let params = json!({"uri": uri});
                    if shared.announce(UPDATED, Some(&params)).await.is_err() {
                        return;
                    }
                }
            });
        }
    }
}

fn one_or_more(rate: u64) -> u32 {
    u32::try_from(rate).unwrap_or(u32::MAX).max(1)
}

/// The parameters, with the id of the listen that they are for.
fn marked(params: Option<&Value>, id: &Value) -> Value {
    let mut params = params.cloned().unwrap_or_else(|| json!({}));
    if let Some(params) = params.as_object_mut() {
        let meta = params.entry("_meta").or_insert_with(|| json!({}));
        insert(meta, SUBSCRIPTION_ID, id.clone());
    }
    params
}
