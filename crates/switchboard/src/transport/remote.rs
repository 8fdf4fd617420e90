//! Where a server behind a URL is, and what gets one in.

use std::sync::Arc;

use switchboard_config::RemoteKind;
use url::Url;

use super::http::TlsConfig;
use crate::auth::AuthProvider;

/// A server behind a URL.
#[derive(Clone)]
pub(crate) struct RemoteEndpoint {
    pub(crate) url: Url,
    pub(crate) kind: RemoteKind,
    pub(crate) tls: TlsConfig,
    pub(crate) auth: Arc<dyn AuthProvider>,
}

impl RemoteEndpoint {
    pub(crate) fn kind_name(&self) -> &'static str {
        match self.kind {
            RemoteKind::Http | RemoteKind::Negotiated => "http",
            RemoteKind::Sse => "sse",
        }
    }
}
