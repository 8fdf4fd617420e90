//! StreamableHttpSession HTTP, both eras: what is asked, and with which headers.
//!
//! Every request is a POST of its own, driven by whoever makes it; see [`super::exchange`] for how it
//! is answered. Invariant: header and body of a request say the same.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;

use bytes::Bytes;
use http::header::{ACCEPT, CONTENT_TYPE};
use http::{HeaderMap, HeaderValue, Method};
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::exchange::Listener;
use super::health::{self, Health, HealthMonitor};
use super::{
    ACCEPT_BOTH, AuthorizedClient, JSON, METHOD, NAME, PROTOCOL_VERSION, SESSION_ID, status,
};
use crate::limits::Limits;
use crate::mcp::{Era, ErrorObject, ProtocolVersion, ServerHello, Tool};
use crate::session::deadline::Deadline;
use crate::session::list_changes::ListChangeKind;
use crate::session::peer::{Outgoing, Peer};
use crate::session::query::Query;
use crate::session::{Delivery, RequestError, SessionContext, SessionEnd, ToolRequest};
use crate::sync::lock;
use crate::telemetry::Direction;
use crate::wire::Answer;
use crate::wire::decode::{LeftOut, Page};
use crate::wire::encode::{self, Interests, Round};
use crate::wire::mirror::{Mirrors, header_value};

/// How many things may be said at a time that no answer is expected to.
const WORDS: usize = 32;
/// And how long each of them may take.
const WORD_TIME: Duration = Duration::from_secs(10);
/// A server that does not begin its stream within this time is asked for something meanwhile.
pub(super) const ATTENDING: Duration = Duration::from_secs(1);
/// Longer session ids than this are refused, in bytes.
const LONGEST_SESSION_ID: usize = 256;
/// How long a call waits for the tools to be listed anew when its headers did not fit.
const RELISTING: Duration = Duration::from_secs(10);

pub(crate) struct StreamableHttpSession {
    pub(super) peer: Peer,
    pub(super) client: AuthorizedClient,
    pub(super) tasks: TaskTracker,
    next_id: AtomicU64,
    pub(super) session_id: OnceLock<HeaderValue>,
    /// The tools whose arguments are mirrored in headers, and how.
    mirrors: Mutex<HashMap<String, Arc<Mirrors>>>,
    /// Bumped when the tools were listed anew.
    listed: tokio::sync::watch::Sender<u64>,
    /// Who wants to know of the progress of which request.
    pub(super) listeners: Mutex<HashMap<u64, Listener>>,
    words: Arc<Semaphore>,
    pub(super) health: HealthMonitor,
    /// Cancelled when it is known whether the server has a stream of what it says unasked.
    pub(super) attended: CancellationToken,
    /// Whether the server was asked to forget the session.
    result_only: AtomicBool,
}

impl std::fmt::Debug for StreamableHttpSession {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("StreamableHttpSession")
            .field("server", &self.peer.context.server)
            .finish_non_exhaustive()
    }
}

/// What a request is about, as far as headers repeat it.
#[derive(Clone, Copy)]
pub(super) struct Topic<'a> {
    pub(super) method: &'static str,
    /// The tool, the resource, the prompt.
    pub(super) name: Option<&'a str>,
    pub(super) mirrored: Option<(&'a Mirrors, &'a ToolRequest<'a>)>,
    /// The version to name, where none is agreed on yet.
    pub(super) version: Option<ProtocolVersion>,
}

impl Topic<'_> {
    pub(super) fn of(method: &'static str) -> Self {
        Self {
            method,
            name: None,
            mirrored: None,
            version: None,
        }
    }
}

impl StreamableHttpSession {
    pub(crate) fn new(
        client: AuthorizedClient,
        context: SessionContext,
        tasks: &TaskTracker,
        stop: CancellationToken,
        health: &Health,
    ) -> Arc<Self> {
        Arc::new(Self {
            peer: Peer::new(context, tasks, stop),
            client,
            tasks: tasks.clone(),
            next_id: AtomicU64::new(1),
            session_id: OnceLock::new(),
            mirrors: Mutex::default(),
            listed: tokio::sync::watch::Sender::new(0),
            listeners: Mutex::default(),
            words: Arc::new(Semaphore::new(WORDS)),
            health: HealthMonitor::new(health),
            attended: CancellationToken::new(),
            result_only: AtomicBool::new(false),
        })
    }

    pub(in crate::session) fn limits(&self) -> &Limits {
        &self.peer.context.limits
    }

    pub(super) fn next_id(&self) -> u64 {
        self.next_id.fetch_add(1, Ordering::Relaxed)
    }

    pub(super) fn is_modern(&self) -> bool {
        self.peer
            .version()
            .is_some_and(|version| version.era() == Era::Modern)
    }

    /// Ends the handshake, and begins to listen to what the server says unasked, before anything is
    /// asked of it.
    pub(crate) async fn set_handshake(self: &Arc<Self>, handshake: ServerHello) {
        let is_modern = handshake.version.era() == Era::Modern;
        let interests = Interests::in_what(&handshake.capabilities);
        self.peer.set_handshake(handshake);
        if is_modern {
            if interests.is_none() {
                self.attended.cancel();
            } else {
                self.tasks.spawn(Arc::clone(self).subscribe(interests));
            }
        } else {
            self.tasks.spawn(Arc::clone(self).attend());
        }
        self.tasks.spawn(health::watch(Arc::clone(self)));
        let _ = tokio::time::timeout(ATTENDING, self.attended.cancelled()).await;
    }

    /// The headers of a request.
    pub(super) fn headers(&self, topic: &Topic<'_>) -> HeaderMap {
        let mut headers = HeaderMap::with_capacity(12);
        headers.insert(ACCEPT, ACCEPT_BOTH);
        headers.insert(CONTENT_TYPE, JSON);
        self.insert_version_headers(&mut headers, topic.version);
        let version = topic.version.or_else(|| self.peer.version());
        if version.is_some_and(|version| version.era() == Era::Modern) {
            headers.insert(METHOD, HeaderValue::from_static(topic.method));
            if let Some(name) = topic.name {
                headers.insert(NAME, header_value(name));
            }
            if let Some((mirrors, request)) = topic.mirrored {
                headers.extend(mirrors.headers(request.arguments));
            }
        }
        headers
    }

    /// The version, and the session where there is one.
    pub(super) fn insert_version_headers(
        &self,
        headers: &mut HeaderMap,
        asked: Option<ProtocolVersion>,
    ) {
        let version = asked.or_else(|| self.peer.version());
        // Older ones know no such header.
        if let Some(version) = version.filter(|version| *version > ProtocolVersion::V2025_03_26) {
            let version = HeaderValue::from_static(version.as_str());
            headers.insert(PROTOCOL_VERSION, version);
        }
        if let Some(session) = self.session_id.get() {
            headers.insert(SESSION_ID, session.clone());
        }
    }

    /// Keeps the session's id, if the server gave it one.
    pub(super) fn take_session_id(&self, headers: &HeaderMap) -> Result<(), RequestError> {
        let Some(id) = headers.get(SESSION_ID) else {
            return Ok(());
        };
        let is_plain = id.as_bytes().iter().all(u8::is_ascii_graphic);
        if !is_plain || id.is_empty() || id.len() > LONGEST_SESSION_ID {
            let why = format!(
                "its session id is not made of at most {LONGEST_SESSION_ID} visible characters"
            );
            return Err(RequestError::InvalidResponse(
                crate::wire::Problem::Malformed(why),
            ));
        }
        let mut id = id.clone();
        // Whoever has it can speak in our name.
        id.set_sensitive(true);
        let _ = self.session_id.set(id);
        Ok(())
    }

    pub(in crate::session) async fn query(
        self: &Arc<Self>,
        query: &Query<'_>,
        input_responses: Option<&Round>,
        deadline: Deadline,
    ) -> Result<Answer, RequestError> {
        let topic = Topic {
            name: query.name,
            ..Topic::of(query.method)
        };
        self.request(topic, deadline, None, |id| {
            self.peer.encode_query(id, query, input_responses)
        })
        .await
    }

    /// Leaves out the tools of a page that cannot be called over HTTP, and notes what is to be
    /// mirrored of the arguments of the others.
    pub(in crate::session) fn filter_tools_for_http(&self, page: &mut Page<Tool>) {
        if !self.is_modern() {
            return;
        }
        let mut mirrors = lock(&self.mirrors);
        let left_out = &mut page.left_out;
        page.items
            .retain(|tool| match Mirrors::of(&tool.input_schema) {
                Ok(found) => {
                    if found.is_empty() {
                        mirrors.remove(&tool.name);
                    } else {
                        mirrors.insert(tool.name.clone(), Arc::new(found));
                    }
                    true
                }
                Err(why) => {
                    mirrors.remove(&tool.name);
                    left_out.push(LeftOut {
                        what: tool.name.clone(),
                        why,
                    });
                    false
                }
            });
        drop(mirrors);
        if page.next_cursor.is_none() {
            self.listed.send_modify(|count| *count += 1);
        }
    }

    pub(in crate::session) async fn call_tool(
        self: &Arc<Self>,
        call: &ToolRequest<'_>,
    ) -> Result<Answer, RequestError> {
        let listed = *self.listed.borrow();
        let outcome = self.call_once(call).await;
        match outcome {
            // It was not carried out: what is to be mirrored has changed since the tools were listed.
            Err(RequestError::ErrorResponse(error))
                if error.code == ErrorObject::HEADER_MISMATCH && self.is_modern() =>
            {
                self.peer.list_changes.record(ListChangeKind::Tools);
                let mut listing = self.listed.subscribe();
                let anew = listing.wait_for(|count| *count != listed);
                match tokio::time::timeout(RELISTING, anew)
                    .await
                    .map(|done| done.is_ok())
                {
                    Ok(true) => Box::pin(self.call_once(call)).await,
                    _ => Err(RequestError::ErrorResponse(error)),
                }
            }
            outcome => outcome,
        }
    }

    async fn call_once(self: &Arc<Self>, call: &ToolRequest<'_>) -> Result<Answer, RequestError> {
        let mirrors = lock(&self.mirrors).get(call.target.tool()).cloned();
        let topic = Topic {
            name: Some(call.target.tool()),
            mirrored: mirrors.as_deref().map(|mirrors| (mirrors, call)),
            ..Topic::of("tools/call")
        };
        self.request(topic, call.deadline, call.progress.clone(), |id| {
            self.peer.encode_call(id, call)
        })
        .await
    }

    pub(crate) async fn discover(
        self: &Arc<Self>,
        version: ProtocolVersion,
        deadline: Deadline,
    ) -> Result<Answer, RequestError> {
        let params = encode::OnlyMeta {
            meta: self.peer.request_meta(Some(version), None, None),
        };
        let topic = Topic {
            version: Some(version),
            ..Topic::of("server/discover")
        };
        self.request(topic, deadline, None, |id| {
            encode::request(id, topic.method, &params)
        })
        .await
    }

    pub(crate) async fn initialize(
        self: &Arc<Self>,
        version: ProtocolVersion,
        deadline: Deadline,
    ) -> Result<Answer, RequestError> {
        let context = &self.peer.context;
        let offers = context.client_capabilities();
        let topic = Topic::of("initialize");
        self.request(topic, deadline, None, |id| {
            let params = encode::initialize(version, offers, &context.client);
            encode::request(id, topic.method, params)
        })
        .await
    }

    /// Tells the server that the handshake is over. What follows must not overtake it.
    pub(crate) async fn send_initialized(self: &Arc<Self>, version: ProtocolVersion) {
        let line = encode::notification("notifications/initialized", None::<()>);
        self.post(line, Some(version)).await;
    }

    /// `ping`, or in the era without it a question that every server answers.
    pub(super) async fn ask_for_life(
        self: &Arc<Self>,
        deadline: Deadline,
    ) -> Result<Answer, RequestError> {
        match self.peer.version() {
            Some(version) if version.era() == Era::Modern => self.discover(version, deadline).await,
            _ => {
                let topic = Topic::of("ping");
                self.request(topic, deadline, None, |id| {
                    encode::request(id, topic.method, serde_json::json!({}))
                })
                .await
            }
        }
    }

    /// Sends a message that no answer is expected to. Nobody can do anything about its failing.
    async fn post(&self, mut line: Vec<u8>, version: Option<ProtocolVersion>) {
        line.pop();
        self.peer.tap(Direction::Sent, &line);
        let topic = Topic {
            version,
            ..Topic::of("notifications/initialized")
        };
        let headers = || {
            let mut headers = self.headers(&topic);
            headers.remove(METHOD);
            headers
        };
        let body = Bytes::from(line);
        let sent = self.client.send(Method::POST, None, headers, body);
        let server = &self.peer.context.server;
        match tokio::time::timeout(WORD_TIME, sent).await {
            Ok(Ok(reply)) if reply.incoming.status.is_success() => {}
            Ok(Ok(reply)) => {
                tracing::debug!(%server, status = %reply.incoming.status, "not taken");
            }
            Ok(Err(error)) => {
                let error = status::send_error(error);
                tracing::debug!(%server, %error, "not said");
            }
            Err(_) => tracing::debug!(%server, "not said in time"),
        }
    }

    /// Tells the server that nobody waits for an answer any more. In the modern era the end of the
    /// exchange says so by itself.
    pub(super) fn send_cancelled(self: &Arc<Self>, id: u64, reason: &str) {
        if !self.is_modern() && self.peer.version().is_some() && !self.peer.stop.is_cancelled() {
            self.send_notification(encode::cancelled(id, reason));
        }
    }

    pub(in crate::session) fn close(&self) {
        self.peer.end(SessionEnd::Closed);
    }

    /// Tells the server that its session is over, once. Whether it cares is its own affair.
    pub(crate) async fn delete_session(&self, within: Duration) {
        if self.session_id.get().is_none() || self.result_only.swap(true, Ordering::Relaxed) {
            return;
        }
        let headers = || {
            let mut headers = HeaderMap::new();
            headers.insert(ACCEPT, ACCEPT_BOTH);
            self.insert_version_headers(&mut headers, None);
            headers
        };
        let goodbye = self
            .client
            .send(Method::DELETE, None, headers, Bytes::new());
        let _ = tokio::time::timeout(within, goodbye).await;
    }

    /// The server no longer knows the session, and did not take what was asked of it: who has a new
    /// one may ask again. Nothing is left to say goodbye to.
    pub(super) fn expire(&self) -> RequestError {
        self.result_only.store(true, Ordering::Relaxed);
        self.peer.end(SessionEnd::Expired);
        RequestError::Lost {
            delivery: Delivery::NotSent,
            end: SessionEnd::Expired,
        }
    }
}

impl Outgoing for StreamableHttpSession {
    fn peer(&self) -> &Peer {
        &self.peer
    }

    fn send_notification(self: &Arc<Self>, line: Vec<u8>) {
        // Whoever asks more than can be answered gets no answer.
        let Ok(turn) = Arc::clone(&self.words).try_acquire_owned() else {
            tracing::debug!(server = %self.peer.context.server, "too much to say at a time");
            return;
        };
        let this = Arc::clone(self);
        self.peer.spawn_notification(async move {
            let stop = this.peer.stop.clone();
            stop.run_until_cancelled(this.post(line, None)).await;
            drop(turn);
        });
    }
}
