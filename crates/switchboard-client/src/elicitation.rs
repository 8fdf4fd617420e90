//! Parses and validates `elicitation/create` requests, and the form values with which the user
//! responds.
//!
//! This module does not show anything to the user; the
//! [`ClientHandler`](crate::client_handler::ClientHandler) does.
//!
//! Invariant: a request that cannot be parsed, or whose mode the client did not announce, never
//! reaches the handler. Form values that are invalid for the form are never sent to the server.

mod form;
mod url;

use serde_json::{Map, Value, json};
use switchboard_wire::id::ServerName;
use switchboard_wire::mcp::ClientCapabilities;
use switchboard_wire::mcp::{ErrorObject, Json};
use switchboard_wire::redact::Redactor;
use switchboard_wire::text::fit;
use switchboard_wire::text::sanitize;

pub use self::form::{EnumOption, Field, FieldKind, Form, InvalidValue, TextFormat};
pub use self::url::{ElicitUrl, UrlWarning};

/// Maximum length of `message`, in bytes. A longer message is truncated.
const MAX_MESSAGE_BYTES: usize = 4 * 1024;
/// Maximum length of `params` as JSON text, in bytes. A longer request is refused.
const MAX_PARAMS_BYTES: usize = 256 * 1024;
/// Maximum length of `elicitationId`, in bytes. A request with a longer id is refused.
const MAX_ID_BYTES: usize = 1024;

/// A valid `elicitation/create` request: a server asks the user for something.
#[derive(Debug)]
#[non_exhaustive]
pub struct Elicitation<'a> {
    /// The server that sent the request. Show its name to the user, so that the user knows who
    /// wrote the message.
    pub server: &'a ServerName,
    /// Why the server asks. Sanitized and truncated, but untrusted, because the server wrote it.
    pub message: String,
    /// What the server asks for.
    pub mode: ElicitMode,
}

/// What the server asks the user for: to fill in a form, or to open a URL.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum ElicitMode {
    /// The user fills in the fields of this form.
    Form(Form),
    /// The user opens this URL. [`ElicitResponse::Accept`] means only that the user agrees to open
    /// it. The crate never opens the URL; the embedding program shows it to the user or opens it in
    /// the user's browser.
    Url(ElicitUrl),
}

/// The user's response to an elicitation.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum ElicitResponse {
    /// The user agrees. Holds the form values by field name; ignored if the server asked to open a
    /// URL.
    Accept(Map<String, Value>),
    /// The user refuses.
    Decline,
    /// The user dismissed the request without a decision.
    Cancel,
}

impl<'a> Elicitation<'a> {
    /// Parses the `params` of an `elicitation/create` request. Refuses a mode (`form` or `url`)
    /// that `capabilities` does not contain. The error is what the server receives as response.
    pub fn parse(
        server: &'a ServerName,
        params: &Json,
        capabilities: ClientCapabilities,
    ) -> Result<Self, ErrorObject> {
        Self::parse_redacted(server, params, capabilities, &Redactor::default())
    }

    /// Like [`parse`](Self::parse), but masks secrets in the texts of the request. The URL is not
    /// masked: the user must see exactly the URL that will be opened.
    pub(crate) fn parse_redacted(
        server: &'a ServerName,
        params: &Json,
        capabilities: ClientCapabilities,
        redactor: &Redactor,
    ) -> Result<Self, ErrorObject> {
        parse_object(params)
            .and_then(|fields| {
                Self::from_fields(server, &redact(params, fields, redactor)?, capabilities)
            })
            .map_err(|problem| ErrorObject::new(ErrorObject::INVALID_PARAMS, problem))
    }

    fn from_fields(
        server: &'a ServerName,
        fields: &Map<String, Value>,
        capabilities: ClientCapabilities,
    ) -> Result<Self, String> {
        let mode = match fields.get("mode") {
            None | Some(Value::Null) => "form",
            Some(Value::String(mode)) => mode,
            Some(_) => return Err("`mode` is not a string".to_owned()),
        };
        let message = match fields.get("message") {
            Some(Value::String(message)) => sanitize_message(message),
            _ => return Err("`message` is missing or not a string".to_owned()),
        };
        let mode = match mode {
            "form" if capabilities.elicitation => {
                ElicitMode::Form(match fields.get("requestedSchema") {
                    Some(schema) => Form::parse(schema)?,
                    None => Form::default(),
                })
            }
            "url" if capabilities.elicitation_url => {
                let mut url = match fields.get("url") {
                    Some(Value::String(url)) => ElicitUrl::parse(url)?,
                    _ => return Err("`url` is missing or not a string".to_owned()),
                };
                url.elicitation_id = parse_elicitation_id(fields)?;
                ElicitMode::Url(url)
            }
            "form" | "url" => {
                return Err(format!("this client does not support the mode `{mode}`"));
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

impl ElicitResponse {
    /// Builds the result to send to the server. If the values are invalid for the form, the result
    /// is `cancel`.
    pub fn into_result(self, mode: &ElicitMode, server: &ServerName) -> Value {
        match (self, mode) {
            (Self::Accept(_), ElicitMode::Url(_)) => json!({"action": "accept"}),
            (Self::Accept(values), ElicitMode::Form(form)) => match form.validate(values) {
                Ok(content) => json!({"action": "accept", "content": content}),
                Err(invalid) => {
                    // Log only the names of the invalid fields: their values may be secrets.
                    let fields: Vec<_> = invalid.iter().map(|value| &value.field).collect();
                    tracing::warn!(%server, ?fields, "form response not sent: invalid values");
                    cancel_result()
                }
            },
            (Self::Decline, _) => json!({"action": "decline"}),
            (Self::Cancel, _) => cancel_result(),
        }
    }
}

fn parse_object(params: &Json) -> Result<Map<String, Value>, String> {
    if params.as_str().len() > MAX_PARAMS_BYTES {
        return Err(format!("`params` is longer than {MAX_PARAMS_BYTES} bytes"));
    }
    match params.to_value() {
        Ok(Value::Object(fields)) => Ok(fields),
        _ => Err("`params` is not an object".to_owned()),
    }
}

/// Masks secrets in all members of `params` except `url` and `elicitationId`. Must run before texts
/// are truncated: the redactor does not recognize a secret that was cut in two.
fn redact(
    params: &Json,
    mut fields: Map<String, Value>,
    redactor: &Redactor,
) -> Result<Map<String, Value>, String> {
    let redacted = redactor.redact_json(params.clone());
    let redacted = redacted.ok_or("`params` cannot be parsed")?;
    if redacted == *params {
        return Ok(fields);
    }
    let mut redacted = parse_object(&redacted)?;
    for key in ["url", "elicitationId"] {
        if let Some(value) = fields.remove(key) {
            redacted.insert(key.to_owned(), value);
        }
    }
    Ok(redacted)
}

/// The result for an elicitation that ended without a decision of the user.
pub(crate) fn cancel_result() -> Value {
    json!({"action": "cancel"})
}

fn sanitize_message(message: &str) -> String {
    let message = sanitize(message);
    if message.len() <= MAX_MESSAGE_BYTES {
        return message.into_owned();
    }
    format!("{}…", fit(&message, MAX_MESSAGE_BYTES))
}

/// Returns the id with which a later `notifications/elicitation/complete` of the server refers to
/// this request.
fn parse_elicitation_id(fields: &Map<String, Value>) -> Result<Option<String>, String> {
    match fields.get("elicitationId") {
        None => Ok(None),
        Some(Value::String(id)) if id.len() <= MAX_ID_BYTES => Ok(Some(id.clone())),
        Some(_) => Err(format!(
            "`elicitationId` is not a string of at most {MAX_ID_BYTES} bytes"
        )),
    }
}
