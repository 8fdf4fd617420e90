//! Providers that wrap another provider: one adds static headers, one masks credentials in output.

use std::sync::{Arc, Mutex};

use switchboard_wire::BoxFuture;
use switchboard_wire::redact::Redactor;
use switchboard_wire::sync::lock;

use super::{
    AuthError, AuthProvider, AuthRefusal, AuthRequest, AuthVerdict, Credential, StaticHeaders,
};

/// Adds static headers to the credential of another provider. On conflict the provider's header wins.
#[derive(Debug)]
pub struct WithStaticHeaders {
    /// The headers of the config entry.
    pub headers: StaticHeaders,
    /// The wrapped provider.
    pub provider: Arc<dyn AuthProvider>,
}

impl AuthProvider for WithStaticHeaders {
    fn credential<'a>(
        &'a self,
        request: AuthRequest<'a>,
    ) -> BoxFuture<'a, Result<Credential, AuthError>> {
        Box::pin(async move {
            let credential = self.provider.credential(request).await?;
            Ok(credential.with_defaults(self.headers.as_credential()))
        })
    }

    fn refused<'a>(&'a self, refusal: AuthRefusal<'a>) -> BoxFuture<'a, AuthVerdict> {
        self.provider.refused(refusal)
    }
}

/// Adds every credential of another provider to a redactor, so that messages of the server that
/// repeat a credential are masked.
#[derive(Debug)]
pub struct RedactingProvider {
    provider: Arc<dyn AuthProvider>,
    redactor: Redactor,
    /// The credential that was added last; it is not added again.
    last: Mutex<Credential>,
}

impl RedactingProvider {
    /// Wraps `provider`.
    pub fn new(provider: Arc<dyn AuthProvider>, redactor: Redactor) -> Self {
        Self {
            provider,
            redactor,
            last: Mutex::default(),
        }
    }

    fn add_to_redactor(&self, credential: &Credential) {
        let mut last = lock(&self.last);
        if *last != *credential {
            self.redactor.learn(credential.secrets());
            last.clone_from(credential);
        }
    }
}

impl AuthProvider for RedactingProvider {
    fn credential<'a>(
        &'a self,
        request: AuthRequest<'a>,
    ) -> BoxFuture<'a, Result<Credential, AuthError>> {
        Box::pin(async move {
            let credential = self.provider.credential(request).await?;
            self.add_to_redactor(&credential);
            Ok(credential)
        })
    }

    fn refused<'a>(&'a self, refusal: AuthRefusal<'a>) -> BoxFuture<'a, AuthVerdict> {
        self.provider.refused(refusal)
    }
}
