//! The seam to whoever can be asked: a person at a terminal, a user interface, nobody.
//!
//! The engine asks; it never decides for a person, and it does not count the time they take. What
//! servers ask is read and judged before anybody is asked, and the answer before it is sent.

use std::path::PathBuf;
use std::sync::Arc;

use serde_json::Value;
use switchboard_client::elicitation::{ElicitResponse, Elicitation};
pub use switchboard_client::roots::Root;
use switchboard_client::sampling::SamplingRequest;

use crate::id::ServerName;
use crate::permission::{PermissionRequest, PermissionResponse};
use switchboard_wire::mcp::ErrorObject;

pub use switchboard_wire::BoxFuture;
pub use switchboard_wire::mcp::ClientCapabilities;

/// Answers the questions of the engine and of the servers.
///
/// ```
/// use switchboard::Interaction;
/// use switchboard::elicitation::{ElicitResponse, ElicitMode, Elicitation};
/// use switchboard::interaction::{BoxFuture, ClientCapabilities};
/// use switchboard::permission::{PermissionRequest, PermissionResponse};
///
/// /// Lets tools be called that say they change nothing, and fills in forms with what is proposed.
/// struct Careful;
///
/// impl Interaction for Careful {
///     fn capabilities(&self) -> ClientCapabilities {
///         ClientCapabilities::default().elicitation()
///     }
///
///     fn can_use_tool<'a>(&'a self, request: PermissionRequest) -> BoxFuture<'a, PermissionResponse> {
///         let answer = match request.annotations.read_only {
///             Some(true) => PermissionResponse::Allow,
///             _ => PermissionResponse::Deny,
///         };
///         Box::pin(async move { answer })
///     }
///
///     fn elicit<'a>(&'a self, question: Elicitation<'a>) -> BoxFuture<'a, ElicitResponse> {
///         Box::pin(async move {
///             let ElicitMode::Form(form) = &question.mode else {
///                 return ElicitResponse::Decline;
///             };
///             // A real front shows `question.server`, `question.message` and every field first.
///             match form.validate(form.defaults()) {
///                 Ok(values) => ElicitResponse::Accept(values),
///                 Err(_) => ElicitResponse::Decline,
///             }
///         })
///     }
/// }
/// ```
pub trait Interaction: Send + Sync + 'static {
    /// What servers are told they may ask for. Nothing, unless this says so.
    fn capabilities(&self) -> ClientCapabilities {
        ClientCapabilities::default()
    }

    /// What this server is told it may ask for: the same as every other, unless this says otherwise.
    fn capabilities_for(&self, server: &ServerName) -> ClientCapabilities {
        let _ = server;
        self.capabilities()
    }

    /// May this call be made?
    fn can_use_tool(&self, request: PermissionRequest) -> BoxFuture<'_, PermissionResponse>;

    /// A server asks the user for something (`elicitation/create`): to fill in a form, or to visit an
    /// address. Questions of one server come one at a time.
    ///
    /// Values that were accepted must fit the form ([`Form::validate`] tells): if they do not, the
    /// server is told that the question was closed.
    fn elicit<'a>(&'a self, question: Elicitation<'a>) -> BoxFuture<'a, ElicitResponse> {
        let _ = question;
        Box::pin(std::future::ready(ElicitResponse::Decline))
    }

    /// A server asks for a completion by a model (`sampling/createMessage`).
    fn sample<'a>(
        &'a self,
        request: SamplingRequest<'a>,
    ) -> BoxFuture<'a, Result<Value, ErrorObject>> {
        let _ = request;
        Box::pin(std::future::ready(Err(ErrorObject::new(
            -1,
            "sampling was declined",
        ))))
    }

    /// A server asks where it may work (`roots/list`). See [`Host::notify_roots_changed`] for when that
    /// changes.
    ///
    /// [`Host::notify_roots_changed`]: crate::Host::notify_roots_changed
    fn roots<'a>(&'a self, server: &'a ServerName) -> BoxFuture<'a, Vec<Root>> {
        let _ = server;
        Box::pin(std::future::ready(Vec::new()))
    }
}

/// Nobody is there: every question is answered with no.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoInteraction;

impl Interaction for NoInteraction {
    fn can_use_tool(&self, _: PermissionRequest) -> BoxFuture<'_, PermissionResponse> {
        Box::pin(std::future::ready(PermissionResponse::NoInteraction))
    }
}

/// Somebody who also offers servers a fixed set of folders. What else is asked is passed on.
pub(crate) struct WithFolders {
    roots: Vec<Root>,
    rest: Arc<dyn Interaction>,
}

impl WithFolders {
    /// Relative paths are left out: nobody else knows relative to what.
    pub(crate) fn new(folders: &[PathBuf], rest: Arc<dyn Interaction>) -> Self {
        let root = |path: &PathBuf| {
            let root = Root::from_path(path);
            if root.is_none() {
                tracing::warn!(path = %path.display(), "not an absolute path: not offered as a root");
            }
            root
        };
        Self {
            roots: folders.iter().filter_map(root).collect(),
            rest,
        }
    }
}

impl Interaction for WithFolders {
    fn capabilities(&self) -> ClientCapabilities {
        self.rest.capabilities().roots()
    }

    fn capabilities_for(&self, server: &ServerName) -> ClientCapabilities {
        self.rest.capabilities_for(server).roots()
    }

    fn can_use_tool(&self, request: PermissionRequest) -> BoxFuture<'_, PermissionResponse> {
        self.rest.can_use_tool(request)
    }

    fn elicit<'a>(&'a self, question: Elicitation<'a>) -> BoxFuture<'a, ElicitResponse> {
        self.rest.elicit(question)
    }

    fn sample<'a>(
        &'a self,
        request: SamplingRequest<'a>,
    ) -> BoxFuture<'a, Result<Value, ErrorObject>> {
        self.rest.sample(request)
    }

    fn roots<'a>(&'a self, server: &'a ServerName) -> BoxFuture<'a, Vec<Root>> {
        Box::pin(async move {
            let mut roots = self.roots.clone();
            if self.rest.capabilities_for(server).roots {
                roots.extend(self.rest.roots(server).await);
            }
            roots
        })
    }
}
