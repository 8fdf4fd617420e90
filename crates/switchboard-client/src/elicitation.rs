//! A server's question to the user, read and judged before anybody sees it.
//!
//! Invariant: what does not fit the rules of the protocol is refused and never shown, and no answer
//! leaves that does not fit its question.

mod form;
mod url;

use serde_json::{Map, Value, json};
use switchboard_wire::id::ServerName;
use switchboard_wire::mcp::ClientCapabilities as Offers;
use switchboard_wire::mcp::{ErrorObject, Json};
use switchboard_wire::redact::Redactor;
use switchboard_wire::text::fit;
use switchboard_wire::text::sanitize;

pub use self::form::{Choice, Field, FieldKind, Form, Misfit, TextFormat};
pub use self::url::{Address, AddressWarning};

/// How much of a server's words is shown, in bytes.
const MESSAGE_BYTES: usize = 4 * 1024;
/// A longer question than this is not read at all, in bytes.
const LONGEST_QUESTION: usize = 256 * 1024;
/// The longest name of a question, in bytes.
const LONGEST_ID: usize = 1024;

/// What a server asks the user.
#[derive(Debug)]
#[non_exhaustive]
pub struct Elicitation<'a> {
    /// Who asks. Shown with the question: the words below are the server's.
    pub server: &'a ServerName,
    /// What it says: clean, not too long, and still untrusted.
    pub message: String,
    /// What it asks for.
    pub mode: ElicitMode,
}

/// What a server asks for.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum ElicitMode {
    /// Values for the fields of a form.
    Form(Form),
    /// To visit an address. Accepting is consent to go there, and no more than that; nobody but the
    /// user's own browser opens it.
    Url(Address),
}

/// What the user said to a server's question.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum ElicitAnswer {
    /// The values asked for; none for an address.
    Accept(Map<String, Value>),
    /// No.
    Decline,
    /// Neither yes nor no: the question was closed.
    Cancel,
}

impl<'a> Elicitation<'a> {
    /// Reads what a server asks by way of somebody else, if it asks for what is offered: the
    /// parameters of `elicitation/create`.
    pub fn parse(
        server: &'a ServerName,
        params: &Json,
        offers: Offers,
    ) -> Result<Self, ErrorObject> {
        Self::read(server, params, offers, &Redactor::default())
    }

    /// Reads what a server asks, if it asks for what it was offered. The secrets that it was given
    /// are masked, save in an address, which is shown as it is opened.
    pub(crate) fn read(
        server: &'a ServerName,
        params: &Json,
        offers: Offers,
        redactor: &Redactor,
    ) -> Result<Self, ErrorObject> {
        object(params)
            .and_then(|asked| Self::of(server, &masked(params, asked, redactor)?, offers))
            .map_err(|what| ErrorObject::new(ErrorObject::INVALID_PARAMS, what))
    }

    fn of(
        server: &'a ServerName,
        asked: &Map<String, Value>,
        offers: Offers,
    ) -> Result<Self, String> {
        let mode = match asked.get("mode") {
            None | Some(Value::Null) => "form",
            Some(Value::String(mode)) => mode,
            Some(_) => return Err("`mode` is not a string".to_owned()),
        };
        let message = match asked.get("message") {
            Some(Value::String(message)) => shown(message),
            _ => return Err("`message` is missing".to_owned()),
        };
        let mode = match mode {
            "form" if offers.elicitation => ElicitMode::Form(match asked.get("requestedSchema") {
                Some(schema) => Form::read(schema)?,
                None => Form::default(),
            }),
            "url" if offers.elicitation_url => {
                let mut address = match asked.get("url") {
                    Some(Value::String(url)) => Address::read(url)?,
                    _ => return Err("`url` is missing".to_owned()),
                };
                address.elicitation_id = id(asked)?;
                ElicitMode::Url(address)
            }
            "form" | "url" => {
                return Err(format!("the mode `{mode}` is not offered by this client"));
            }
            _ => return Err("`mode` is neither `form` nor `url`".to_owned()),
        };
        Ok(Self {
            server,
            message,
            mode,
        })
    }
}

impl ElicitAnswer {
    /// What the server is told. An answer that does not fit is not sent: the question counts as
    /// closed.
    pub fn into_result(self, mode: &ElicitMode, server: &ServerName) -> Value {
        match (self, mode) {
            (Self::Accept(_), ElicitMode::Url(_)) => json!({"action": "accept"}),
            (Self::Accept(given), ElicitMode::Form(form)) => match form.complete(given) {
                Ok(content) => json!({"action": "accept", "content": content}),
                Err(misfits) => {
                    // Names of fields only: the values may be secrets.
                    let fields: Vec<_> = misfits.iter().map(|misfit| &misfit.field).collect();
                    tracing::warn!(%server, ?fields, "an answer does not fit its form: not sent");
                    cancelled()
                }
            },
            (Self::Decline, _) => json!({"action": "decline"}),
            (Self::Cancel, _) => cancelled(),
        }
    }
}

fn object(params: &Json) -> Result<Map<String, Value>, String> {
    if params.as_str().len() > LONGEST_QUESTION {
        return Err(format!(
            "the question is longer than {LONGEST_QUESTION} bytes"
        ));
    }
    match params.to_value() {
        Ok(Value::Object(asked)) => Ok(asked),
        _ => Err("the question is not an object".to_owned()),
    }
}

/// The question without secrets, masked before anything of it is cut.
fn masked(
    params: &Json,
    mut asked: Map<String, Value>,
    redactor: &Redactor,
) -> Result<Map<String, Value>, String> {
    let clean = redactor.redact_json(params.clone());
    let clean = clean.ok_or("the question cannot be read")?;
    if clean == *params {
        return Ok(asked);
    }
    let mut clean = object(&clean)?;
    for key in ["url", "elicitationId"] {
        if let Some(value) = asked.remove(key) {
            clean.insert(key.to_owned(), value);
        }
    }
    Ok(clean)
}

/// The answer to a question that nobody said yes or no to.
pub(crate) fn cancelled() -> Value {
    json!({"action": "cancel"})
}

/// A server's words, clean and not too long.
fn shown(message: &str) -> String {
    let message = sanitize(message);
    if message.len() <= MESSAGE_BYTES {
        return message.into_owned();
    }
    format!("{}…", fit(&message, MESSAGE_BYTES))
}

/// The server's name for the question, by which it tells that it is over.
fn id(asked: &Map<String, Value>) -> Result<Option<String>, String> {
    match asked.get("elicitationId") {
        None => Ok(None),
        Some(Value::String(id)) if id.len() <= LONGEST_ID => Ok(Some(id.clone())),
        Some(_) => Err(format!(
            "`elicitationId` is not a string of at most {LONGEST_ID} bytes"
        )),
    }
}
