//! The seam to whoever can be asked: a person at a terminal, a user interface, nobody.
//!
//! The engine asks; it never decides for a person, and it does not count the time they take. What
//! servers ask is read and judged before anybody is asked, and the answer before it is sent.

mod address;
mod elicitation;
mod form;
mod roots;
mod sampling;
mod turns;

pub use address::{Address, AddressWarning};
pub use elicitation::{ElicitAnswer, ElicitMode, Elicitation};
pub use form::{Choice, Field, FieldKind, Form, Misfit, TextFormat};
pub use roots::Root;
pub use sampling::{ContextWish, Sampling};

pub(crate) use elicitation::cancelled;
pub(crate) use roots::WithFolders;
pub(crate) use turns::{LimitReached, Turns, Turnstile};

use serde_json::{Map, Value};

use crate::call::{CallContext, Denial};
use crate::id::{ServerName, ToolId, WireName};
use crate::mcp::{ErrorObject, ToolAnnotations};
use crate::permission::{Decision, Subject};

pub use switchboard_wire::BoxFuture;
pub use switchboard_wire::mcp::ClientCapabilities as Offers;

/// Answers the questions of the engine and of the servers.
///
/// ```
/// use switchboard::{
///     BoxFuture, ElicitAnswer, ElicitMode, Elicitation, Interaction, Offers, PermissionAnswer,
///     PermissionQuestion,
/// };
///
/// /// Lets tools be called that say they change nothing, and fills in forms with what is proposed.
/// struct Careful;
///
/// impl Interaction for Careful {
///     fn offers(&self) -> Offers {
///         Offers::default().elicitation()
///     }
///
///     fn permit<'a>(&'a self, asked: PermissionQuestion<'a>) -> BoxFuture<'a, PermissionAnswer> {
///         let answer = match asked.annotations.read_only {
///             Some(true) => PermissionAnswer::Allow,
///             _ => PermissionAnswer::Deny,
///         };
///         Box::pin(async move { answer })
///     }
///
///     fn elicit<'a>(&'a self, question: Elicitation<'a>) -> BoxFuture<'a, ElicitAnswer> {
///         Box::pin(async move {
///             let ElicitMode::Form(form) = &question.mode else {
///                 return ElicitAnswer::Decline;
///             };
///             // A real front shows `question.server`, `question.message` and every field first.
///             match form.complete(form.defaults()) {
///                 Ok(values) => ElicitAnswer::Accept(values),
///                 Err(_) => ElicitAnswer::Decline,
///             }
///         })
///     }
/// }
/// ```
pub trait Interaction: Send + Sync + 'static {
    /// What servers are told they may ask for. Nothing, unless this says so.
    fn offers(&self) -> Offers {
        Offers::default()
    }

    /// What this server is told it may ask for: the same as every other, unless this says otherwise.
    fn offers_to(&self, server: &ServerName) -> Offers {
        let _ = server;
        self.offers()
    }

    /// May this call be made?
    fn permit<'a>(&'a self, question: PermissionQuestion<'a>) -> BoxFuture<'a, PermissionAnswer>;

    /// A server asks the user for something (`elicitation/create`): to fill in a form, or to visit an
    /// address. Questions of one server come one at a time.
    ///
    /// Values that were accepted must fit the form ([`Form::complete`] tells): if they do not, the
    /// server is told that the question was closed.
    fn elicit<'a>(&'a self, question: Elicitation<'a>) -> BoxFuture<'a, ElicitAnswer> {
        let _ = question;
        Box::pin(std::future::ready(ElicitAnswer::Decline))
    }

    /// A server asks for a completion by a model (`sampling/createMessage`).
    fn sample<'a>(&'a self, request: Sampling<'a>) -> BoxFuture<'a, Result<Value, ErrorObject>> {
        let _ = request;
        Box::pin(std::future::ready(Err(ErrorObject::new(
            -1,
            "sampling was declined",
        ))))
    }

    /// A server asks where it may work (`roots/list`). See [`Host::announce_roots`] for when that
    /// changes.
    ///
    /// [`Host::announce_roots`]: crate::Host::announce_roots
    fn roots<'a>(&'a self, server: &'a ServerName) -> BoxFuture<'a, Vec<Root>> {
        let _ = server;
        Box::pin(std::future::ready(Vec::new()))
    }
}

/// Everything a person needs to decide whether a call may be made.
#[derive(Debug)]
#[non_exhaustive]
pub struct PermissionQuestion<'a> {
    /// The tool, by server and raw name.
    pub tool: &'a ToolId,
    /// How the model calls it.
    pub wire_name: &'a WireName,
    /// What would be sent, exactly.
    pub arguments: &'a Map<String, Value>,
    /// What the server claims of the tool: hints, not facts.
    pub annotations: &'a ToolAnnotations,
    /// Which rule wants it to be asked about, or that none fits.
    pub decision: &'a Decision,
    /// Who wants it.
    pub context: &'a CallContext,
}

impl<'a> PermissionQuestion<'a> {
    /// A question about a tool that somebody else calls, asked as the host asks about its own. The
    /// arguments are what would be sent.
    pub fn new(
        subject: &Subject<'a>,
        arguments: &'a Map<String, Value>,
        decision: &'a Decision,
        context: &'a CallContext,
    ) -> Self {
        Self {
            tool: subject.tool,
            wire_name: subject.wire,
            arguments,
            annotations: subject.annotations,
            decision,
            context,
        }
    }
}

/// What the person said.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum PermissionAnswer {
    /// Yes, this once.
    Allow,
    /// No.
    Deny,
    /// There is nobody who could say.
    NobodyToAsk,
}

impl PermissionAnswer {
    /// Yes is yes; anything else is a denial.
    pub(crate) fn into_result(self) -> Result<(), Denial> {
        match self {
            Self::Allow => Ok(()),
            Self::Deny => Err(Denial::Person),
            Self::NobodyToAsk => Err(Denial::NobodyToAsk),
        }
    }
}

/// Nobody is there: every question is answered with no.
#[derive(Clone, Copy, Debug, Default)]
pub struct Nobody;

impl Interaction for Nobody {
    fn permit<'a>(&'a self, _: PermissionQuestion<'a>) -> BoxFuture<'a, PermissionAnswer> {
        Box::pin(std::future::ready(PermissionAnswer::NobodyToAsk))
    }
}
