//! [`Interaction`]: the trait through which a host asks the user for permissions, and passes on
//! elicitation, sampling and roots requests of servers.
//!
//! The embedding program implements the trait, for example with a prompt in the terminal or with a
//! dialog. The time until the user decides on a permission does not count toward the call timeout,
//! but it counts toward the deadline in the [`CallContext`](crate::CallContext).
//!
//! Invariant: the host validates a request of a server before it calls an [`Interaction`]. It
//! validates the values of a form before it sends them to the server.

use std::path::PathBuf;
use std::sync::Arc;

use serde_json::Value;
use switchboard_client::elicitation::{ElicitResponse, Elicitation};
pub use switchboard_client::roots::Root;
use switchboard_client::sampling::SamplingRequest;

use switchboard_wire::mcp::ErrorObject;

use crate::id::ServerName;
use crate::permission::{PermissionRequest, PermissionResponse};

pub use switchboard_wire::BoxFuture;
pub use switchboard_wire::mcp::ClientCapabilities;

/// Responds to permission requests of the host and to elicitation, sampling and roots requests of
/// servers.
///
/// ```
/// use switchboard::Interaction;
/// use switchboard::elicitation::{ElicitMode, ElicitResponse, Elicitation};
/// use switchboard::interaction::{BoxFuture, ClientCapabilities};
/// use switchboard::permission::{PermissionRequest, PermissionResponse};
///
/// /// Allows tools that declare to be read-only. Fills in forms with their default values.
/// struct ReadOnlyTools;
///
/// impl Interaction for ReadOnlyTools {
///     fn capabilities(&self) -> ClientCapabilities {
///         ClientCapabilities::default().elicitation()
///     }
///
///     fn can_use_tool<'a>(&'a self, request: PermissionRequest) -> BoxFuture<'a, PermissionResponse> {
///         let response = match request.annotations.read_only {
///             Some(true) => PermissionResponse::Allow,
///             _ => PermissionResponse::Deny,
///         };
///         Box::pin(async move { response })
///     }
///
///     fn elicit<'a>(&'a self, request: Elicitation<'a>) -> BoxFuture<'a, ElicitResponse> {
///         Box::pin(async move {
///             let ElicitMode::Form(form) = &request.mode else {
///                 return ElicitResponse::Decline;
///             };
///             // A real program first shows `request.server`, `request.message` and the fields.
///             match form.validate(form.defaults()) {
///                 Ok(values) => ElicitResponse::Accept(values),
///                 Err(_) => ElicitResponse::Decline,
///             }
///         })
///     }
/// }
/// ```
pub trait Interaction: Send + Sync + 'static {
    /// The client capabilities that the host announces to all servers. The default announces none,
    /// so that servers do not send requests.
    fn capabilities(&self) -> ClientCapabilities {
        ClientCapabilities::default()
    }

    /// The client capabilities that the host announces to this server. The default returns
    /// [`Self::capabilities`].
    fn capabilities_for(&self, server: &ServerName) -> ClientCapabilities {
        let _ = server;
        self.capabilities()
    }

    /// Decides whether a call may be made. Called if no rule allows or denies the call.
    fn can_use_tool(&self, request: PermissionRequest) -> BoxFuture<'_, PermissionResponse>;

    /// Responds to `elicitation/create`: the server asks the user to fill in a form or to open a
    /// URL. The host passes on one elicitation of a server at a time. The default declines.
    ///
    /// Validate the values of a form with
    /// [`Form::validate`](crate::elicitation::Form::validate) before accepting. If the values are
    /// not valid, the host sends [`ElicitResponse::Cancel`] to the server.
    fn elicit<'a>(&'a self, request: Elicitation<'a>) -> BoxFuture<'a, ElicitResponse> {
        let _ = request;
        Box::pin(std::future::ready(ElicitResponse::Decline))
    }

    /// Responds to `sampling/createMessage`: the server requests a completion by a model. The
    /// default declines.
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

    /// Responds to `roots/list`: returns the directories that the server may use. The default
    /// returns none. Call [`Host::notify_roots_changed`] when the roots change.
    ///
    /// [`Host::notify_roots_changed`]: crate::Host::notify_roots_changed
    fn roots<'a>(&'a self, server: &'a ServerName) -> BoxFuture<'a, Vec<Root>> {
        let _ = server;
        Box::pin(std::future::ready(Vec::new()))
    }
}

/// A shared interaction, so that the program can keep a handle to it.
impl<I: Interaction + ?Sized> Interaction for Arc<I> {
    fn capabilities(&self) -> ClientCapabilities {
        (**self).capabilities()
    }

    fn capabilities_for(&self, server: &ServerName) -> ClientCapabilities {
        (**self).capabilities_for(server)
    }

    fn can_use_tool(&self, request: PermissionRequest) -> BoxFuture<'_, PermissionResponse> {
        (**self).can_use_tool(request)
    }

    fn elicit<'a>(&'a self, request: Elicitation<'a>) -> BoxFuture<'a, ElicitResponse> {
        (**self).elicit(request)
    }

    fn sample<'a>(
        &'a self,
        request: SamplingRequest<'a>,
    ) -> BoxFuture<'a, Result<Value, ErrorObject>> {
        (**self).sample(request)
    }

    fn roots<'a>(&'a self, server: &'a ServerName) -> BoxFuture<'a, Vec<Root>> {
        (**self).roots(server)
    }
}

/// An [`Interaction`] for programs without a user: denies every permission request and announces no
/// capabilities to servers.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoInteraction;

impl Interaction for NoInteraction {
    fn can_use_tool(&self, _: PermissionRequest) -> BoxFuture<'_, PermissionResponse> {
        Box::pin(std::future::ready(PermissionResponse::NoInteraction))
    }
}

/// Wraps an [`Interaction`]: adds fixed roots to the roots of the wrapped interaction, and passes
/// all other requests on to it.
pub(crate) struct WithRoots {
    roots: Vec<Root>,
    inner: Arc<dyn Interaction>,
}

impl WithRoots {
    /// Turns `paths` into roots. Leaves out relative paths, because a server does not know the
    /// working directory of this process.
    pub(crate) fn new(paths: &[PathBuf], inner: Arc<dyn Interaction>) -> Self {
        let root = |path: &PathBuf| {
            let root = Root::from_path(path);
            if root.is_none() {
                tracing::warn!(path = %path.display(), "a root is not an absolute path and was left out");
            }
            root
        };
        Self {
            roots: paths.iter().filter_map(root).collect(),
            inner,
        }
    }
}

impl Interaction for WithRoots {
    fn capabilities(&self) -> ClientCapabilities {
        self.inner.capabilities().roots()
    }

    fn capabilities_for(&self, server: &ServerName) -> ClientCapabilities {
        self.inner.capabilities_for(server).roots()
    }

    fn can_use_tool(&self, request: PermissionRequest) -> BoxFuture<'_, PermissionResponse> {
        self.inner.can_use_tool(request)
    }

    fn elicit<'a>(&'a self, request: Elicitation<'a>) -> BoxFuture<'a, ElicitResponse> {
        self.inner.elicit(request)
    }

    fn sample<'a>(
        &'a self,
        request: SamplingRequest<'a>,
    ) -> BoxFuture<'a, Result<Value, ErrorObject>> {
        self.inner.sample(request)
    }

    fn roots<'a>(&'a self, server: &'a ServerName) -> BoxFuture<'a, Vec<Root>> {
        Box::pin(async move {
            let mut roots = self.roots.clone();
            if self.inner.capabilities_for(server).roots {
                roots.extend(self.inner.roots(server).await);
            }
            roots
        })
    }
}
