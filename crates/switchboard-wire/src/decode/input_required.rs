//! Answers that are no result yet: the server asks for something first (modern era).

use std::borrow::Cow;

use super::{Task, cut, json, task, text};
use crate::jsonrpc::{Answer, InvalidMessage};
use crate::mcp::Json;
use crate::scan;

/// More questions at a time than this nobody answers.
const MOST_QUESTIONS: usize = 32;

/// Why an answer to a call is not its result.
#[derive(Debug, PartialEq)]
pub enum NoResult {
    Unusable(InvalidMessage),
    /// The server wants to know something first.
    InputRequired(Box<InputRequired>),
    /// It is to be had later: the server made a task of the call.
    Task(Box<Task>),
}

impl From<InvalidMessage> for NoResult {
    fn from(problem: InvalidMessage) -> Self {
        Self::Unusable(problem)
    }
}

/// What the server wants to know before it goes on.
#[derive(Debug, Default, PartialEq)]
pub struct InputRequired {
    /// In the order of the server, no name twice.
    pub requests: Vec<InputRequest>,
    /// What it wants to be reminded of: a string as it was written, which nobody looks into.
    pub state: Option<Json>,
}

#[derive(Debug, PartialEq)]
pub struct InputRequest {
    /// How the server calls this question.
    pub key: String,
    pub method: String,
    pub params: Json,
}

/// What the server wants to know before it answers, if this is no answer yet.
pub fn asked_in(answer: &Answer) -> Result<Option<Box<InputRequired>>, InvalidMessage> {
    let mut kind = None;
    answer.members(|key, value| {
        if key == b"resultType" {
            kind = Some(value);
        }
    })?;
    let Some(kind) = kind.filter(|kind| *kind != b"\"complete\"") else {
        return Ok(None);
    };
    match no_result(answer, kind) {
        NoResult::InputRequired(asked) => Ok(Some(asked)),
        NoResult::Unusable(problem) => Err(problem),
        NoResult::Task(_) => Err(InvalidMessage::malformed(
            "a task, where only calls may become one",
        )),
    }
}

/// What an answer is that is not complete.
#[cold]
pub(super) fn no_result(answer: &Answer, kind: &[u8]) -> NoResult {
    let read = match text(kind).as_deref() {
        Some("input_required") => {
            input_required(answer).map(|asked| NoResult::InputRequired(Box::new(asked)))
        }
        // The task has only begun: its end is not to be found here.
        Some("task") => task(answer, 0).map(|task| NoResult::Task(Box::new(task))),
        _ => {
            let kind = cut(String::from_utf8_lossy(kind).into_owned(), 100);
            Err(InvalidMessage::malformed(format!(
                "a result of the unknown type {kind}"
            )))
        }
    };
    read.unwrap_or_else(NoResult::from)
}

fn input_required(answer: &Answer) -> Result<InputRequired, InvalidMessage> {
    let (mut requests, mut state) = (None, None);
    answer.members(|key, value| match key {
        b"inputRequests" => requests = Some(value),
        b"requestState" => state = Some(value),
        _ => {}
    })?;
    let given = |value: &&[u8]| *value != b"null";
    let state = match state.filter(given) {
        None => None,
        Some(written) if written.starts_with(b"\"") => Some(
            json(written)
                .ok_or_else(|| InvalidMessage::malformed("`requestState` is not valid text"))?,
        ),
        Some(_) => return Err(InvalidMessage::malformed("`requestState` is not a string")),
    };
    let requests = match requests.filter(given) {
        Some(written) => input_requests(written)?,
        None => Vec::new(),
    };
    if requests.is_empty() && state.is_none() {
        return Err(InvalidMessage::malformed(
            "it asks for input, but says not for which",
        ));
    }
    Ok(InputRequired { requests, state })
}

pub(super) fn input_requests(written: &[u8]) -> Result<Vec<InputRequest>, InvalidMessage> {
    let mut requests = Vec::new();
    let mut problem = None;
    let scanned = scan::members(written, |key, value| {
        if problem.is_none() {
            match input_request(&key, value, &requests) {
                Ok(request) => requests.push(request),
                Err(what) => problem = Some(what),
            }
        }
    });
    match (scanned, problem) {
        (Ok(()), None) => Ok(requests),
        (_, Some(what)) => Err(InvalidMessage::malformed(what)),
        (Err(_), None) => Err(InvalidMessage::malformed(
            "`inputRequests` is not an object",
        )),
    }
}

fn input_request(
    key: &[u8],
    value: &[u8],
    before: &[InputRequest],
) -> Result<InputRequest, String> {
    let key = std::str::from_utf8(key)
        .map_err(|_| "a name in `inputRequests` is not valid text")?
        .to_owned();
    if before.iter().any(|request| request.key == key) {
        return Err("a name in `inputRequests` stands twice".to_owned());
    }
    if before.len() == MOST_QUESTIONS {
        return Err(format!(
            "it asks for more than {MOST_QUESTIONS} things at a time"
        ));
    }
    let (mut method, mut params) = (None, None);
    scan::members(value, |key, value| match &*key {
        b"method" => method = text(value).map(Cow::into_owned),
        b"params" => params = json(value),
        _ => {}
    })
    .map_err(|_| "a request for input is not an object")?;
    Ok(InputRequest {
        key,
        method: method.ok_or("a request for input has no `method`")?,
        params: match params {
            Some(params) => params,
            None => json(b"{}").ok_or("a request for input has no `params`")?,
        },
    })
}
