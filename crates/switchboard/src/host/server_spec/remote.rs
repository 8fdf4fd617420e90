//! Turns the entry of a remote server into a [`ServerEndpoint`]: URL, transport, TLS files,
//! credentials.

use std::sync::Arc;

use switchboard_client::auth::{
    AuthError, AuthProvider, AuthRefusal, AuthRequest, AuthVerdict, Credential, RedactingProvider,
    StaticHeaders, WithStaticHeaders,
};
use switchboard_client::auth::{is_protocol_header, secrets_in_header};
use switchboard_client::http::{
    HttpEndpoint, HttpTransport, TlsConfig, UrlError, parse_server_url,
};
use switchboard_config::{
    LaunchSpec, RemoteConfig, RemoteKind, Secret, secrets_in_arguments, secrets_in_variable,
};
use switchboard_wire::BoxFuture;
use switchboard_wire::redact::Redactor;
use url::Url;

use super::HostInner;
#[cfg(feature = "stdio")]
use crate::headers_helper::HeadersHelper;
use crate::host::claude_ai_proxy;
use crate::server::connect::ServerEndpoint;
use crate::server::state::FailureReason;

impl HostInner {
    /// Returns the endpoint of an entry with a URL, or why the URL, the headers or the
    /// `headersHelper` cannot be used.
    pub(super) fn remote_endpoint(
        &self,
        spec: &LaunchSpec,
        config: &RemoteConfig,
    ) -> Result<ServerEndpoint, FailureReason> {
        let url = parse_server_url(&config.url).map_err(|error| FailureReason {
            hint: Some(url_hint(&error)),
            error: error.to_string(),
        })?;
        let headers =
            StaticHeaders::from_entry(&config.headers).map_err(|error| FailureReason {
                hint: error.hint(),
                error: error.to_string(),
            })?;
        let redactor = redactor(&url, config.headers.iter());
        #[cfg(not(feature = "stdio"))]
        if config.headers_helper.is_some() {
            return Err(super::missing_feature("stdio"));
        }
        let auth = self.auth_provider(spec, config, headers, &redactor);
        Ok(ServerEndpoint::Http(HttpEndpoint {
            url,
            transport: http_transport(config.kind),
            tls: TlsConfig {
                ca: config.tls.ca.clone(),
                cert: config.tls.cert.clone(),
                key: config.tls.key.clone(),
            },
            auth,
            redactor,
        }))
    }

    /// Returns the provider of credentials: the one that the program set for this server, else the
    /// `headersHelper` of the entry. The returned provider also sends the headers of the entry. If
    /// there is neither, it sends only these headers.
    fn auth_provider(
        &self,
        spec: &LaunchSpec,
        config: &RemoteConfig,
        headers: StaticHeaders,
        redactor: &Redactor,
    ) -> Arc<dyn AuthProvider> {
        let defaults = &self.defaults;
        let from_builder = defaults.auth.get(spec.name().as_str()).map(Arc::clone);
        match from_builder.or_else(|| self.headers_helper(spec, config, redactor)) {
            None => Arc::new(headers),
            Some(provider) => {
                let provider = Arc::new(RedactingProvider::new(provider, redactor.clone()));
                Arc::new(WithStaticHeaders { headers, provider })
            }
        }
    }

    /// Returns the provider that runs the `headersHelper` of the entry. `None` if the entry has no
    /// `headersHelper`.
    #[cfg(feature = "stdio")]
    fn headers_helper(
        &self,
        spec: &LaunchSpec,
        config: &RemoteConfig,
        redactor: &Redactor,
    ) -> Option<Arc<dyn AuthProvider>> {
        let command = config.headers_helper.as_ref()?;
        let defaults = &self.defaults;
        let directory =
            super::project_directory(spec).or_else(|| defaults.working_directory.clone());
        Some(Arc::new(HeadersHelper::new(
            command.clone(),
            spec.name().clone(),
            config.url.clone(),
            Arc::clone(&defaults.environment),
            directory,
            self.children.clone(),
            redactor.clone(),
        )))
    }

    /// Returns `None`: without the feature `stdio`, [`Self::remote_endpoint`] has already rejected
    /// entries with a `headersHelper`.
    #[cfg(not(feature = "stdio"))]
    fn headers_helper(
        &self,
        _: &LaunchSpec,
        _: &RemoteConfig,
        _: &Redactor,
    ) -> Option<Arc<dyn AuthProvider>> {
        None
    }

    /// Returns the endpoint of a server of the claude.ai account, or why its URL is not allowed.
    pub(super) fn claude_ai_endpoint(
        &self,
        url: &str,
        id: &str,
    ) -> Result<ServerEndpoint, FailureReason> {
        let defaults = &self.defaults;
        let url = claude_ai_proxy::proxy_endpoint_url(url, id, &defaults.claude_ai_origins);
        let url = url.map_err(|error| FailureReason {
            hint: Some(error.hint()),
            error: error.to_string(),
        })?;
        let redactor = redactor(&url, []);
        let account = defaults.claude_ai_account.as_ref().map(Arc::clone);
        let account = account.unwrap_or_else(|| Arc::new(MissingClaudeAccount));
        Ok(ServerEndpoint::Http(HttpEndpoint {
            url,
            transport: HttpTransport::Streamable,
            tls: TlsConfig::default(),
            auth: Arc::new(RedactingProvider::new(account, redactor.clone())),
            redactor,
        }))
    }
}

/// The provider of credentials if the program set no claude.ai account. Every request fails with
/// [`AuthError::LoginNeeded`].
struct MissingClaudeAccount;

impl AuthProvider for MissingClaudeAccount {
    fn credential<'a>(
        &'a self,
        _: AuthRequest<'a>,
    ) -> BoxFuture<'a, Result<Credential, AuthError>> {
        let hint = "no claude.ai account is configured: the program that embeds Switchboard \
                    provides one with HostBuilder::claude_ai_account";
        Box::pin(std::future::ready(Err(AuthError::LoginNeeded {
            hint: hint.to_owned(),
        })))
    }

    fn refused<'a>(&'a self, refusal: AuthRefusal<'a>) -> BoxFuture<'a, AuthVerdict> {
        Box::pin(std::future::ready(refusal.final_verdict()))
    }
}

/// Creates a redactor for the secrets in the headers of an entry, and for what looks like a secret
/// in its URL.
fn redactor<'a>(
    url: &Url,
    headers: impl IntoIterator<Item = (&'a String, &'a Secret)>,
) -> Redactor {
    let headers = headers.into_iter();
    let headers = headers.filter(|(name, _)| !is_protocol_header(name));
    let headers = headers.flat_map(|(_, value)| secrets_in_header(value.expose()));
    let in_url = secrets_in_arguments(&[url.to_string()]).into_iter();
    let in_query = url.query_pairs();
    let in_query = in_query.flat_map(|(name, value)| secrets_in_variable(&name, &value));
    let detected = in_url.chain(in_query);
    Redactor::new(headers.chain(detected.map(|secret| secret.expose().to_owned())))
}

fn http_transport(kind: RemoteKind) -> HttpTransport {
    match kind {
        RemoteKind::Http => HttpTransport::Streamable,
        RemoteKind::Sse => HttpTransport::Sse2024,
        RemoteKind::Negotiated => HttpTransport::Detect,
    }
}

/// Says how to correct an invalid `url` in an entry.
pub(in crate::host) fn url_hint(error: &UrlError) -> String {
    match error {
        UrlError::Invalid(_) => "it begins with https:// or http:// and a host".to_owned(),
        UrlError::Userinfo => "remove them and use a header instead: \"headers\": \
             { \"Authorization\": \"Basic …\" }"
            .to_owned(),
    }
}
