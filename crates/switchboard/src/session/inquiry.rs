//! Requests other than tool calls: what a server has, what it says, what it completes.
//!
//! They change nothing, so they may be asked again. A modern server may ask something back before it
//! answers, as it may for a call.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use super::life::Patience;
use super::{RequestError, Session, aside, rounds};
use crate::limits::LARGE;
use crate::mcp::{ErrorObject, GetPromptResult, ReadResourceResult};
use crate::wire::encode::Round;
use crate::wire::{Answer, Problem, decode};

/// What is asked.
#[derive(Debug)]
pub(crate) struct Inquiry<'a> {
    pub(crate) method: &'static str,
    /// What it is about, as far as headers repeat it.
    pub(crate) name: Option<&'a str>,
    pub(crate) params: Map<String, Value>,
    pub(crate) patience: Patience,
}

impl<'a> Inquiry<'a> {
    /// A request without parameters.
    pub(crate) fn new(method: &'static str, patience: Patience) -> Self {
        Self {
            method,
            name: None,
            params: Map::new(),
            patience,
        }
    }

    /// Adds a parameter.
    pub(crate) fn with(mut self, key: &str, value: impl Into<Value>) -> Self {
        self.params.insert(key.to_owned(), value.into());
        self
    }

    /// Adds the parameter that names what it is about.
    pub(crate) fn about(mut self, key: &str, name: &'a str) -> Self {
        self.name = Some(name);
        self.with(key, name)
    }
}

/// Whether a request is answered on the spot, and so not worth cancelling. Of a task, a word about
/// cancelling could be misunderstood besides.
pub(super) fn is_brief(method: &str) -> bool {
    matches!(method, "tasks/get" | "tasks/update" | "tasks/cancel")
}

impl Session {
    /// Asks, and answers what the server wants to know first. Dropping the future cancels the
    /// request, and the server is told.
    pub(crate) async fn inquire(&self, inquiry: &Inquiry<'_>) -> Result<Answer, RequestError> {
        let mut round: Option<Round> = None;
        let mut patience = inquiry.patience;
        loop {
            let answer = self.ask(inquiry, round.as_ref(), patience).await?;
            match decode::asked_in(&answer).map_err(RequestError::Unusable)? {
                None => return Ok(answer),
                Some(asked) => {
                    let (next, left) = rounds::next(self, round.as_ref(), patience, asked).await?;
                    round = Some(next);
                    patience = left;
                }
            }
        }
    }

    /// Asks, and reads the answer where that holds up nobody.
    pub(crate) async fn answer<T: Send + 'static>(
        &self,
        inquiry: &Inquiry<'_>,
        read: impl FnOnce(&Answer) -> Result<T, Problem> + Send + 'static,
    ) -> Result<T, RequestError> {
        let answer = self.inquire(inquiry).await?;
        let result = if answer.text.len() > LARGE {
            aside(move || read(&answer)).await?
        } else {
            read(&answer)
        };
        result.map_err(RequestError::Unusable)
    }

    /// Reads a resource, and of it no more than `most` parts.
    pub(crate) async fn read_resource(
        &self,
        uri: &str,
        patience: Patience,
        most: usize,
    ) -> Result<ReadResourceResult, RequestError> {
        if let Self::Local(local) = self {
            return local.read(uri, patience).await;
        }
        let inquiry = Inquiry::new("resources/read", patience).about("uri", uri);
        let read = move |answer: &Answer| decode::resource_result(answer, most);
        self.answer(&inquiry, read).await
    }

    /// Fills in a prompt, and keeps no more than `most` messages of it.
    pub(crate) async fn prompt(
        &self,
        name: &str,
        arguments: &BTreeMap<String, String>,
        patience: Patience,
        most: usize,
    ) -> Result<GetPromptResult, RequestError> {
        if let Self::Local(local) = self {
            return local.prompt(name, arguments, patience).await;
        }
        let mut inquiry = Inquiry::new("prompts/get", patience).about("name", name);
        if !arguments.is_empty() {
            inquiry = inquiry.with("arguments", texts(arguments));
        }
        let read = move |answer: &Answer| decode::prompt_result(answer, most);
        self.answer(&inquiry, read).await
    }

    async fn ask(
        &self,
        inquiry: &Inquiry<'_>,
        round: Option<&Round>,
        patience: Patience,
    ) -> Result<Answer, RequestError> {
        match self {
            Self::Text(connection) => connection.inquire(inquiry, round, patience).await,
            Self::Streamable(streamable) => {
                Box::pin(streamable.inquire(inquiry, round, patience)).await
            }
            Self::EventStream(stream) => Box::pin(stream.inquire(inquiry, round, patience)).await,
            Self::Local(_) => Err(RequestError::Refused(ErrorObject::new(
                ErrorObject::METHOD_NOT_FOUND,
                format!(
                    "{} is not offered by servers in this process",
                    inquiry.method
                ),
            ))),
        }
    }
}

fn texts(arguments: &BTreeMap<String, String>) -> Map<String, Value> {
    let pairs = arguments.iter();
    pairs
        .map(|(name, text)| (name.clone(), Value::from(text.as_str())))
        .collect()
}
