//! Faults that a test arms on an HTTP server, and the requests that trigger them.

use std::time::Duration;

use super::raw_server::RawStep;

/// What goes wrong with a request or a connection, and when. By default a fault occurs once, at the
/// first match after [`HttpServer::arm`](super::HttpServer::arm).
///
/// ```
/// use switchboard_testkit::http::Fault;
///
/// let busy = Fault::status(503).header("Retry-After", "2").on("tools/call echo").nth(3);
/// ```
#[derive(Debug, Clone)]
pub struct Fault {
    pub(super) action: FaultAction,
    on: String,
    /// Number of matching requests that are still served normally before the fault occurs.
    skip: usize,
    /// How often the fault still occurs; `None`: unlimited.
    times: Option<usize>,
    /// If true, the server executes the request before the fault occurs.
    pub(super) is_executed: bool,
    /// If true, the fault ends the connection with a reset instead of a clean close.
    pub(super) is_reset: bool,
}

#[derive(Debug, Clone)]
pub(super) enum FaultAction {
    CloseUnread,
    CloseInBody,
    Close,
    CloseInResponse(usize),
    CloseAfterResponse,
    EndStream(Option<Duration>),
    Respond(CannedResponse),
    Raw(Vec<u8>),
    Play(Vec<RawStep>),
    Hang,
    Slow { write_bytes: usize, pause: Duration },
}

/// A response with fixed content.
#[derive(Debug, Clone)]
pub(crate) struct CannedResponse {
    pub(super) status: u16,
    pub(super) headers: Vec<(String, String)>,
    pub(super) body: Vec<u8>,
}

/// Constructors.
impl Fault {
    fn new(action: FaultAction) -> Self {
        Self {
            action,
            on: "*".to_owned(),
            skip: 0,
            times: Some(1),
            is_executed: false,
            is_reset: false,
        }
    }

    /// Closes a connection right after accepting it. For this fault, `nth` and `times` count
    /// connections instead of requests.
    pub fn close_on_accept() -> Self {
        Self::new(FaultAction::CloseUnread)
    }

    /// Closes the connection after half of the request's body, or the first chunk of a chunked
    /// body, was read. The request is not executed.
    pub fn close_in_body() -> Self {
        Self::new(FaultAction::CloseInBody)
    }

    /// Closes the connection after the whole request was read. The request is not executed.
    pub fn close_before_execution() -> Self {
        Self::new(FaultAction::Close)
    }

    /// Executes the request, then closes the connection without a response.
    pub fn close_after_execution() -> Self {
        Self::new(FaultAction::Close).after_execution()
    }

    /// Closes the connection after this many bytes of the response, counted from the start of its
    /// head. The request is executed.
    pub fn close_in_response(bytes: usize) -> Self {
        Self::new(FaultAction::CloseInResponse(bytes))
    }

    /// Sends the whole response, then closes the connection without a `Connection: close` header.
    /// The connection counts as open until the client has closed its end, too.
    pub fn close_after_response() -> Self {
        Self::new(FaultAction::CloseAfterResponse)
    }

    /// Starts an event stream and ends it cleanly before the response. A client can resume the
    /// stream with `Last-Event-ID` if the request is of the legacy era.
    pub fn end_stream() -> Self {
        Self::new(FaultAction::EndStream(None))
    }

    /// Like [`Fault::end_stream`], but sends a `retry` field before the end.
    pub fn end_stream_with_retry(retry: Duration) -> Self {
        Self::new(FaultAction::EndStream(Some(retry)))
    }

    /// Responds with this status and an empty body.
    pub fn status(status: u16) -> Self {
        Self::new(FaultAction::Respond(CannedResponse {
            status,
            headers: Vec::new(),
            body: Vec::new(),
        }))
    }

    /// Responds with this status and a `Location` header.
    pub fn redirect(status: u16, url: &str) -> Self {
        Self::status(status).header("Location", url)
    }

    /// Responds with 401 and this challenge in `WWW-Authenticate`.
    pub fn unauthorized(challenge: &str) -> Self {
        Self::status(401).header("WWW-Authenticate", challenge)
    }

    /// Sends these bytes instead of a response and closes the connection.
    pub fn raw(bytes: impl Into<Vec<u8>>) -> Self {
        Self::new(FaultAction::Raw(bytes.into()))
    }

    /// Runs these steps instead of a response and closes the connection. In the bytes of
    /// [`RawStep::Send`], `$ID` is replaced by the id of the request. Steps that read are not
    /// allowed.
    pub fn raw_steps(steps: impl IntoIterator<Item = RawStep>) -> Self {
        Self::new(FaultAction::Play(steps.into_iter().collect()))
    }

    /// Reads the request and never responds; the connection stays open.
    pub fn hang() -> Self {
        Self::new(FaultAction::Hang)
    }

    /// Sends the response in writes of at most `write_bytes` bytes, with a pause after each write.
    pub fn slow(write_bytes: usize, pause: Duration) -> Self {
        Self::new(FaultAction::Slow { write_bytes, pause })
    }
}

/// When the fault occurs, and what it sends.
impl Fault {
    /// Adds a header to a response made with [`Fault::status`].
    pub fn header(mut self, name: &str, value: &str) -> Self {
        if let FaultAction::Respond(canned) = &mut self.action {
            canned.headers.push((name.to_owned(), value.to_owned()));
        }
        self
    }

    /// Adds a body to a response made with [`Fault::status`].
    pub fn body(mut self, body: impl Into<Vec<u8>>) -> Self {
        if let FaultAction::Respond(canned) = &mut self.action {
            canned.body = body.into();
        }
        self
    }

    /// Selects the requests that match: by HTTP method (`"GET"`), MCP method (`"tools/call"`), or
    /// MCP method and name (`"tools/call echo"`). `"response"` matches a response of the client,
    /// `"*"` (default) any request.
    pub fn on(mut self, key: &str) -> Self {
        key.clone_into(&mut self.on);
        self
    }

    /// Lets the fault occur first at the n-th matching request after arming, counted from 1.
    pub fn nth(mut self, n: usize) -> Self {
        self.skip = n.saturating_sub(1);
        self
    }

    /// Lets the fault occur at this many matching requests in a row. Default 1.
    pub fn times(mut self, times: usize) -> Self {
        self.times = Some(times);
        self
    }

    /// Lets the fault occur at every matching request.
    pub fn always(mut self) -> Self {
        self.times = None;
        self
    }

    /// Makes the server execute the request before the fault occurs.
    pub fn after_execution(mut self) -> Self {
        self.is_executed = true;
        self
    }

    /// Makes the fault end the connection with a reset instead of a clean close.
    pub fn with_reset(mut self) -> Self {
        self.is_reset = true;
        self
    }
}

/// The moment at which a fault can occur.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum FaultTrigger {
    /// Right after a connection was accepted.
    Accepted,
    /// While the body is read: at half of a body with a `Content-Length`, or after each chunk of a
    /// chunked body.
    InBody,
    /// After a complete request was read.
    Read,
}

impl Fault {
    fn trigger(&self) -> FaultTrigger {
        match self.action {
            FaultAction::CloseUnread => FaultTrigger::Accepted,
            FaultAction::CloseInBody => FaultTrigger::InBody,
            _ => FaultTrigger::Read,
        }
    }
}

/// The armed faults, oldest first. A fault is removed after its last occurrence.
#[derive(Debug, Default)]
pub(super) struct ArmedFaults(Vec<Fault>);

impl ArmedFaults {
    pub(super) fn arm(&mut self, fault: Fault) {
        self.0.push(fault);
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(super) fn disarm(&mut self) {
        self.0.clear();
    }

    /// Returns the oldest fault that occurs now: at this trigger, for a request with one of these
    /// names. Counts the occurrence, and removes the fault if this was its last occurrence.
    pub(super) fn take(&mut self, trigger: FaultTrigger, names: &[String]) -> Option<Fault> {
        let mut triggered = None;
        for (index, fault) in self.0.iter_mut().enumerate() {
            let matches = fault.on == "*" || names.contains(&fault.on);
            if fault.trigger() != trigger || !matches {
                continue;
            }
            if fault.skip > 0 {
                fault.skip -= 1;
                continue;
            }
            if let Some(times) = &mut fault.times {
                *times = times.saturating_sub(1);
            }
            triggered = Some(index);
            break;
        }
        let index = triggered?;
        let fault = self.0.get(index).cloned();
        if fault.as_ref().is_some_and(|fault| fault.times == Some(0)) {
            self.0.remove(index);
        }
        fault
    }
}
