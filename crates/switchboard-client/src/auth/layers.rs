//! Providers that wrap another provider. [`WithStaticHeaders`] adds static headers to the
//! credentials of the other provider. [`RedactingProvider`] adds these credentials to a redactor,
//! which masks them in output. [`ForPrincipal`] requests the credentials of one principal.

use std::sync::{Arc, Mutex};

use switchboard_wire::BoxFuture;
use switchboard_wire::redact::Redactor;
use switchboard_wire::sync::lock;

use super::{
    AuthError, AuthProvider, AuthRefusal, AuthRequest, AuthVerdict, Credential, StaticHeaders,
};

/// Adds static headers to the credential of another provider. If both set the same header, the
/// value of the other provider is sent.
#[derive(Debug)]
pub struct WithStaticHeaders {
    /// The headers in `headers` of the config entry.
    pub headers: StaticHeaders,
    /// The provider whose credential is extended.
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

    fn depends_on_principal(&self) -> bool {
        self.provider.depends_on_principal()
    }
}

/// Adds every credential of another provider to a redactor. If the server repeats a credential in a
/// message, the redactor masks it.
#[derive(Debug)]
pub struct RedactingProvider {
    provider: Arc<dyn AuthProvider>,
    redactor: Redactor,
    /// The last credential that was added to the redactor. A credential equal to it is not added
    /// again.
    last: Mutex<Credential>,
}

impl RedactingProvider {
    /// Wraps `provider` and adds each of its credentials to `redactor`.
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

    fn depends_on_principal(&self) -> bool {
        self.provider.depends_on_principal()
    }
}

/// Asks another provider for the credentials of one principal.
#[derive(Debug)]
pub struct ForPrincipal {
    /// The provider of the credentials of all principals.
    pub provider: Arc<dyn AuthProvider>,
    /// The principal.
    pub principal: String,
}

impl AuthProvider for ForPrincipal {
    fn credential<'a>(
        &'a self,
        request: AuthRequest<'a>,
    ) -> BoxFuture<'a, Result<Credential, AuthError>> {
        self.provider
            .credential(request.for_principal(&self.principal))
    }

    fn refused<'a>(&'a self, refusal: AuthRefusal<'a>) -> BoxFuture<'a, AuthVerdict> {
        self.provider
            .refused(refusal.for_principal(&self.principal))
    }

    fn depends_on_principal(&self) -> bool {
        true
    }
}
