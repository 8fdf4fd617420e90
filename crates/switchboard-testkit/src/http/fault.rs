//! What goes wrong, and with which request.

use std::time::Duration;

use super::raw_server::RawStep;

/// Something that goes wrong with a request or a connection, once unless it is said otherwise.
///
/// ```
/// use switchboard_testkit::http::Fault;
///
/// let busy = Fault::status(503).header("Retry-After", "2").on("tools/call echo").nth(3);
/// ```
#[derive(Debug, Clone)]
pub struct Fault {
    pub(super) deed: FaultAction,
    on: String,
    /// How many that match pass unharmed before it happens.
    spared: usize,
    /// How often it happens; none: for ever.
    times: Option<usize>,
    /// The request is carried out before.
    pub(super) is_executed: bool,
    /// A connection ends with a reset and not with a clean close.
    pub(super) is_reset: bool,
}

#[derive(Debug, Clone)]
pub(super) enum FaultAction {
    CloseUnread,
    CloseInBody,
    Close,
    CloseInAnswer(usize),
    CloseAfterAnswer,
    EndStream(Option<Duration>),
    Answer(CannedResponse),
    Raw(Vec<u8>),
    Play(Vec<RawStep>),
    Hang,
    Slow { piece: usize, pause: Duration },
}

/// An answer of the test's choice.
#[derive(Debug, Clone)]
pub(crate) struct CannedResponse {
    pub(super) status: u16,
    pub(super) headers: Vec<(String, String)>,
    pub(super) body: Vec<u8>,
}

/// What goes wrong.
impl Fault {
    fn new(deed: FaultAction) -> Self {
        Self {
            deed,
            on: "*".to_owned(),
            spared: 0,
            times: Some(1),
            is_executed: false,
            is_reset: false,
        }
    }

    /// A connection is closed as soon as it is accepted. Counts connections, not requests.
    pub fn close_on_accept() -> Self {
        Self::new(FaultAction::CloseUnread)
    }

    /// The connection is closed when half of the body has been read. Nothing is carried out.
    pub fn close_in_body() -> Self {
        Self::new(FaultAction::CloseInBody)
    }

    /// The connection is closed when the request has been read. Nothing is carried out.
    pub fn close_before_execution() -> Self {
        Self::new(FaultAction::Close)
    }

    /// The request is carried out, and the connection closed without a byte of an answer.
    pub fn close_after_execution() -> Self {
        Self::new(FaultAction::Close).after_execution()
    }

    /// The connection is closed after so many bytes of the answer, its head included.
    pub fn close_in_answer(bytes: usize) -> Self {
        Self::new(FaultAction::CloseInAnswer(bytes))
    }

    /// The whole answer is sent, and then the connection is closed although nothing has said so.
    pub fn close_after_answer() -> Self {
        Self::new(FaultAction::CloseAfterAnswer)
    }

    /// The answer begins as a stream of events which ends properly before anything was answered. A
    /// legacy server with sessions goes on with it when the client asks by `Last-Event-ID`.
    pub fn end_stream() -> Self {
        Self::new(FaultAction::EndStream(None))
    }

    /// The same, and the client is told when to come back.
    pub fn end_stream_with_retry(retry: Duration) -> Self {
        Self::new(FaultAction::EndStream(Some(retry)))
    }

    /// ResponseFormat with this status and an empty body.
    pub fn status(status: u16) -> Self {
        Self::new(FaultAction::Answer(CannedResponse {
            status,
            headers: Vec::new(),
            body: Vec::new(),
        }))
    }

    /// Sends the client somewhere else.
    pub fn redirect(status: u16, url: &str) -> Self {
        Self::status(status).header("Location", url)
    }

    /// Asks for a login, with this challenge.
    pub fn unauthorized(challenge: &str) -> Self {
        Self::status(401).header("WWW-Authenticate", challenge)
    }

    /// Sends these bytes instead of an answer, and closes the connection.
    pub fn raw(bytes: impl Into<Vec<u8>>) -> Self {
        Self::new(FaultAction::Raw(bytes.into()))
    }

    /// Plays these steps instead of an answer, and closes the connection. `$ID` in bytes that are sent
    /// is the id of the request. Nothing more is read.
    pub fn raw_steps(steps: impl IntoIterator<Item = RawStep>) -> Self {
        Self::new(FaultAction::Play(steps.into_iter().collect()))
    }

    /// Reads the request and never answers it.
    pub fn hang() -> Self {
        Self::new(FaultAction::Hang)
    }

    /// ResponseFormat as usual, but only so many bytes at a time.
    pub fn slow(piece: usize, pause: Duration) -> Self {
        Self::new(FaultAction::Slow { piece, pause })
    }
}

/// The details.
impl Fault {
    /// Adds a header to an answer made with [`Fault::status`].
    pub fn header(mut self, name: &str, value: &str) -> Self {
        if let FaultAction::Answer(canned) = &mut self.deed {
            canned.headers.push((name.to_owned(), value.to_owned()));
        }
        self
    }

    /// Gives an answer made with [`Fault::status`] a body.
    pub fn body(mut self, body: impl Into<Vec<u8>>) -> Self {
        if let FaultAction::Answer(canned) = &mut self.deed {
            canned.body = body.into();
        }
        self
    }

    /// Which requests it concerns: a method of HTTP (`"GET"`), a method of the protocol
    /// (`"tools/call"`), that and a name (`"tools/call echo"`), `"response"` for an answer of the
    /// client, or `"*"` for any, which is the default.
    pub fn on(mut self, key: &str) -> Self {
        key.clone_into(&mut self.on);
        self
    }

    /// It happens to the n-th that matches, counted from now and from 1.
    pub fn nth(mut self, n: usize) -> Self {
        self.spared = n.saturating_sub(1);
        self
    }

    /// It happens so many times in a row.
    pub fn times(mut self, times: usize) -> Self {
        self.times = Some(times);
        self
    }

    /// It happens again and again.
    pub fn always(mut self) -> Self {
        self.times = None;
        self
    }

    /// The request is carried out before it happens.
    pub fn after_execution(mut self) -> Self {
        self.is_executed = true;
        self
    }

    /// The connection ends with a reset and not with a clean close.
    pub fn with_reset(mut self) -> Self {
        self.is_reset = true;
        self
    }
}

/// When a fault can come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum FaultTrigger {
    /// A connection was accepted.
    Accepted,
    /// Half of a body was read.
    InBody,
    /// A request was read.
    Read,
}

impl Fault {
    fn moment(&self) -> FaultTrigger {
        match self.deed {
            FaultAction::CloseUnread => FaultTrigger::Accepted,
            FaultAction::CloseInBody => FaultTrigger::InBody,
            _ => FaultTrigger::Read,
        }
    }
}

/// The faults that have been armed and have not happened yet, the oldest first.
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

    /// The fault that happens now, to a thing that goes by these names.
    pub(super) fn take(&mut self, moment: FaultTrigger, names: &[String]) -> Option<Fault> {
        let mut happens = None;
        for (index, fault) in self.0.iter_mut().enumerate() {
            let matches = fault.on == "*" || names.contains(&fault.on);
            if fault.moment() != moment || !matches {
                continue;
            }
            if fault.spared > 0 {
                fault.spared -= 1;
                continue;
            }
            if let Some(times) = &mut fault.times {
                *times = times.saturating_sub(1);
            }
            happens = Some(index);
            break;
        }
        let index = happens?;
        let fault = self.0.get(index).cloned();
        if fault.as_ref().is_some_and(|fault| fault.times == Some(0)) {
            self.0.remove(index);
        }
        fault
    }
}
