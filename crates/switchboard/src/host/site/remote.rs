//! From the entry of a remote server to its endpoint.

use std::sync::Arc;

use switchboard_config::{
    LaunchSpec, RemoteConfig, RemoteKind, Secret, secrets_in_arguments, secrets_in_variable,
};
use url::Url;

use super::{Sites, project_of};
use crate::auth::credential::secret_parts;
use crate::auth::fixed::is_of_protocol;
use crate::auth::helper::HeadersHelper;
use crate::auth::{
    AuthError, AuthProvider, AuthRefusal, AuthRequest, AuthVerdict, Credential, Learning,
    StaticHeaders, WithHeaders,
};
use crate::interact::BoxFuture;
use crate::server::connect::Endpoint;
use crate::server::state::Failure;
use crate::telemetry::Redactor;
use crate::transport::http::TlsConfig;
use crate::transport::proxy;
use crate::transport::remote::{RemoteEndpoint, address};

impl Sites {
    /// The endpoint of a remote entry, or why it has none.
    pub(super) fn remote(
        &self,
        spec: &LaunchSpec,
        config: &RemoteConfig,
    ) -> Result<Endpoint, Failure> {
        let url = address(&config.url).map_err(|error| Failure {
            hint: Some(error.hint()),
            error: error.to_string(),
        })?;
        let headers = StaticHeaders::of_entry(&config.headers).map_err(|error| Failure {
            hint: error.hint(),
            error: error.to_string(),
        })?;
        let redactor = redactor(&url, config.headers.iter());
        let auth = self.auth_of(spec, config, headers, &redactor);
        Ok(Endpoint::Remote(RemoteEndpoint {
            url,
            kind: config.kind,
            is_claude_ai: false,
            tls: TlsConfig {
                ca: config.tls.ca.clone(),
                cert: config.tls.cert.clone(),
                key: config.tls.key.clone(),
            },
            auth,
            redactor,
        }))
    }

    /// Who authorizes requests: whoever the program named, the entry's command, or its headers alone.
    fn auth_of(
        &self,
        spec: &LaunchSpec,
        config: &RemoteConfig,
        headers: StaticHeaders,
        redactor: &Redactor,
    ) -> Arc<dyn AuthProvider> {
        let given = self.auth.get(spec.name().as_str()).map(Arc::clone);
        let helper = config.headers_helper.as_ref().map(|command| {
            let directory = project_of(spec).or_else(|| self.directory.clone());
            Arc::new(HeadersHelper::new(
                command.clone(),
                spec.name().clone(),
                config.url.clone(),
                Arc::clone(&self.variables),
                directory,
                self.children.clone(),
                redactor.clone(),
            )) as Arc<dyn AuthProvider>
        });
        match given.or(helper) {
            None => Arc::new(headers),
            Some(provider) => {
                let provider = Arc::new(Learning::new(provider, redactor.clone()));
                Arc::new(WithHeaders { headers, provider })
            }
        }
    }

    /// The endpoint of a server of a claude.ai account, or why it has none.
    pub(super) fn claude_ai(&self, url: &str, id: &str) -> Result<Endpoint, Failure> {
        let url = proxy::endpoint(url, id, &self.claude_ai_origins).map_err(|error| Failure {
            hint: Some(error.hint()),
            error: error.to_string(),
        })?;
        let redactor = redactor(&url, []);
        let account = self.claude_ai.as_ref().map(Arc::clone);
        let account = account.unwrap_or_else(|| Arc::new(NoAccount));
        Ok(Endpoint::Remote(RemoteEndpoint {
            url,
            kind: RemoteKind::Http,
            is_claude_ai: true,
            tls: TlsConfig::default(),
            auth: Arc::new(Learning::new(account, redactor.clone())),
            redactor,
        }))
    }
}

/// Stands in for an account that nobody has logged in to.
struct NoAccount;

impl AuthProvider for NoAccount {
    fn credential<'a>(
        &'a self,
        _: AuthRequest<'a>,
    ) -> BoxFuture<'a, Result<Credential, AuthError>> {
        let hint = "there is no claude.ai account to use: the program that embeds Switchboard \
                    provides one with HostBuilder::claude_ai_account";
        Box::pin(std::future::ready(Err(AuthError::LoginNeeded {
            hint: hint.to_owned(),
        })))
    }

    fn refused<'a>(&'a self, refusal: AuthRefusal<'a>) -> BoxFuture<'a, AuthVerdict> {
        Box::pin(std::future::ready(refusal.final_verdict()))
    }
}

/// Masks the headers of an entry, and what looks like a secret in its address.
fn redactor<'a>(
    url: &Url,
    headers: impl IntoIterator<Item = (&'a String, &'a Secret)>,
) -> Redactor {
    let own = headers.into_iter();
    let own = own.filter(|(name, _)| !is_of_protocol(name));
    let own = own.flat_map(|(_, value)| secret_parts(value.expose()));
    let in_address = secrets_in_arguments(&[url.to_string()]).into_iter();
    let in_query = url.query_pairs();
    let in_query = in_query.flat_map(|(name, value)| secrets_in_variable(&name, &value));
    let in_address = in_address.chain(in_query);
    Redactor::new(own.chain(in_address.map(|secret| secret.expose().to_owned())))
}
