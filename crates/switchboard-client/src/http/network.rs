//! Network settings of a host: proxies, and additional trusted certificates.
//!
//! The library does not read proxy variables or certificate paths from the environment; the
//! embedding program passes them in. Invariant: the password of a proxy is never printed.
//!
//! The proxy matcher of hyper-util is not used: it ignores ports in `no_proxy`, and treats an
//! invalid proxy URL as no proxy instead of an error.

use std::fmt;
use std::net::IpAddr;
use std::path::PathBuf;
use std::sync::Arc;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use http::HeaderValue;
use ipnet::IpNet;
use percent_encoding::percent_decode_str;
use tokio_rustls::rustls::RootCertStore;
use url::{Host, Url};

use crate::local_address::is_loopback;

/// Proxies and trusted certificates for connections to remote servers. By default no proxy is used,
/// and the certificates of the platform are trusted.
#[derive(Clone, Default)]
pub struct Network {
    http_proxy: Option<Proxy>,
    https_proxy: Option<Proxy>,
    no_proxy: Vec<DirectTarget>,
    certificates: Vec<PathBuf>,
    ignores_platform_certificates: bool,
    /// Cache of the trusted certificates. Filled when the first TLS connection is opened.
    pub(crate) roots: Arc<tokio::sync::OnceCell<Arc<RootCertStore>>>,
}

/// Why a proxy URL was rejected.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ProxyError {
    /// The text is not a valid URL with a host.
    #[error("invalid proxy URL ({0}); expected `http://host:port`")]
    InvalidUrl(String),
    /// The scheme of the URL is not `http`.
    #[error(
        "proxy scheme `{0}://` is not supported; use `http://` (it also carries https requests, \
         encrypted end to end)"
    )]
    UnsupportedScheme(String),
}

impl Network {
    /// Creates settings without proxies and without additional certificates.
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets the proxy for `http://` requests, in the format of the variable `http_proxy`. Requests
    /// to loopback addresses never use a proxy. An empty URL removes the proxy.
    pub fn http_proxy(mut self, url: &str) -> Result<Self, ProxyError> {
        self.http_proxy = Proxy::parse(url)?;
        Ok(self)
    }

    /// Sets the proxy for `https://` requests, in the format of the variable `https_proxy`. An
    /// empty URL removes the proxy.
    pub fn https_proxy(mut self, url: &str) -> Result<Self, ProxyError> {
        self.https_proxy = Proxy::parse(url)?;
        Ok(self)
    }

    /// Adds targets that are reached without a proxy, in the format of the variable `no_proxy`: a
    /// comma-separated list of domains (which include their subdomains), IP addresses, networks
    /// (`10.0.0.0/8`) or `*`. Domains and addresses may have a port (`example.com:8443`).
    pub fn no_proxy(mut self, targets: &str) -> Self {
        let targets = targets
            .split([',', ' '])
            .filter(|target| !target.is_empty());
        self.no_proxy.extend(targets.map(DirectTarget::parse));
        self
    }

    /// Trusts the certificates of a PEM file, or of a directory of PEM files, in addition to those
    /// of the platform. The path is read when the first TLS connection is opened.
    pub fn certificates(mut self, path: impl Into<PathBuf>) -> Self {
        self.certificates.push(path.into());
        self.roots = Arc::default();
        self
    }

    /// Trusts only the certificates that are added with [`certificates`](Self::certificates), not
    /// those of the platform.
    pub fn without_platform_certificates(mut self) -> Self {
        self.ignores_platform_certificates = true;
        self.roots = Arc::default();
        self
    }

    /// Returns the proxy for requests to `target`; `None` if they are sent directly.
    pub(crate) fn proxy_for(&self, target: &Url) -> Option<&Proxy> {
        let proxy = match target.scheme() {
            "https" => self.https_proxy.as_ref()?,
            _ => self.http_proxy.as_ref()?,
        };
        let host = target.host()?;
        let port = target.port_or_known_default()?;
        let direct = self.no_proxy.iter().any(|one| one.matches(&host, port));
        (!is_loopback(&host) && !direct).then_some(proxy)
    }

    pub(crate) fn certificate_paths(&self) -> &[PathBuf] {
        &self.certificates
    }

    pub(crate) fn uses_platform_certificates(&self) -> bool {
        !self.ignores_platform_certificates
    }
}

impl fmt::Debug for Network {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Network")
            .field("http_proxy", &self.http_proxy)
            .field("https_proxy", &self.https_proxy)
            .field("no_proxy", &self.no_proxy)
            .field("certificates", &self.certificates)
            .finish_non_exhaustive()
    }
}

/// The address of an HTTP proxy, and the header that authenticates to it.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Proxy {
    pub(crate) host: Host<String>,
    pub(crate) port: u16,
    /// Value of the header `Proxy-Authorization`.
    pub(crate) authorization: Option<HeaderValue>,
}

impl Proxy {
    /// Parses `http://user:password@host:port`, with or without the scheme. Returns `None` for an
    /// empty URL.
    fn parse(text: &str) -> Result<Option<Self>, ProxyError> {
        let text = text.trim();
        if text.is_empty() {
            return Ok(None);
        }
        let full = if text.contains("://") {
            text.to_owned()
        } else {
            format!("http://{text}")
        };
        let url = Url::parse(&full).map_err(|error| ProxyError::InvalidUrl(error.to_string()))?;
        if url.scheme() != "http" {
            return Err(ProxyError::UnsupportedScheme(url.scheme().to_owned()));
        }
        let host = url.host().map(|host| host.to_owned());
        let host = host.ok_or_else(|| ProxyError::InvalidUrl("no host".to_owned()))?;
        Ok(Some(Self {
            host,
            port: url.port_or_known_default().unwrap_or(80),
            authorization: basic_authorization(&url),
        }))
    }

    /// `host:port` of the proxy, for messages. Never contains the password.
    pub(crate) fn host_and_port(&self) -> String {
        format!("{}:{}", self.host, self.port)
    }
}

impl fmt::Debug for Proxy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "http://{}", self.host_and_port())
    }
}

/// Encodes the user name and password of a proxy URL as the value of a `Proxy-Authorization`
/// header. Returns `None` if the URL has neither.
fn basic_authorization(url: &Url) -> Option<HeaderValue> {
    if url.username().is_empty() && url.password().is_none() {
        return None;
    }
    let mut credentials: Vec<u8> = percent_decode_str(url.username()).collect();
    credentials.push(b':');
    credentials.extend(percent_decode_str(url.password().unwrap_or_default()));
    let mut value =
        HeaderValue::try_from(format!("Basic {}", BASE64_STANDARD.encode(credentials))).ok()?;
    value.set_sensitive(true);
    Some(value)
}

/// One entry of `no_proxy`: a host or network that is reached without a proxy.
#[derive(Clone, Debug, PartialEq, Eq)]
struct DirectTarget {
    hosts: HostPattern,
    /// The port to which the entry is limited; `None` matches every port.
    port: Option<u16>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum HostPattern {
    Any,
    /// A domain and its subdomains, in lower case and without a leading dot.
    Domain(String),
    Network(IpNet),
}

impl DirectTarget {
    fn parse(text: &str) -> Self {
        // Before looking for a port, check for an IPv6 address without brackets: its last colon
        // does not precede a port.
        if let Some(network) = parse_network(text) {
            return Self {
                hosts: HostPattern::Network(network),
                port: None,
            };
        }
        let with_port = text
            .rsplit_once(':')
            .and_then(|(host, port)| Some((host, port.parse().ok()?)));
        let (host, port) = match with_port {
            Some((host, port)) => (host, Some(port)),
            None => (text, None),
        };
        Self {
            hosts: HostPattern::parse(host),
            port,
        }
    }

    fn matches(&self, host: &Host<&str>, port: u16) -> bool {
        self.port.is_none_or(|only| only == port) && self.hosts.matches(host)
    }
}

impl HostPattern {
    fn parse(text: &str) -> Self {
        if let Some(network) = parse_network(text) {
            return Self::Network(network);
        }
        match text.trim_start_matches("*.").trim_start_matches('.') {
            "*" => Self::Any,
            domain => Self::Domain(domain.to_ascii_lowercase()),
        }
    }

    fn matches(&self, host: &Host<&str>) -> bool {
        match (self, host) {
            (Self::Any, _) => true,
            (Self::Domain(parent), Host::Domain(domain)) => domain
                .strip_suffix(parent.as_str())
                .is_some_and(|prefix| prefix.is_empty() || prefix.ends_with('.')),
            (Self::Network(network), Host::Ipv4(address)) => {
                network.contains(&IpAddr::V4(*address))
            }
            (Self::Network(network), Host::Ipv6(address)) => {
                network.contains(&IpAddr::V6(*address))
            }
            (Self::Domain(_), _) | (Self::Network(_), Host::Domain(_)) => false,
        }
    }
}

/// Parses an IP address or a network (`10.0.0.0/8`). An IPv6 address may be in brackets:
/// `[fd00::]/8`.
fn parse_network(text: &str) -> Option<IpNet> {
    let text = text.replacen('[', "", 1).replacen("]/", "/", 1);
    let text = text.strip_suffix(']').unwrap_or(&text);
    let network = text.parse::<IpNet>().ok();
    network.or_else(|| Some(text.parse::<IpAddr>().ok()?.into()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn uses_proxy(no_proxy: &str, target: &str) -> bool {
        let network = Network::new().http_proxy("proxy:3128").unwrap();
        let network = network.https_proxy("http://proxy:3128").unwrap();
        let network = network.no_proxy(no_proxy);
        network.proxy_for(&Url::parse(target).unwrap()).is_some()
    }

    #[test]
    fn no_proxy_matches_domains_addresses_networks_and_ports() {
        let list =
            "example.com, .inner.test,10.0.0.0/8,[fd00::]/8,192.0.2.7,one.test:8443,[fe00::1]:81";
        for direct in [
            "https://example.com/",
            "https://EXAMPLE.com/",
            "http://a.b.example.com/",
            "https://inner.test/",
            "https://x.inner.test/",
            "http://10.1.2.3/",
            "http://[fd12::1]/",
            "http://192.0.2.7:99/",
            "https://one.test:8443/",
            "http://[fe00::1]:81/",
        ] {
            assert!(!uses_proxy(list, direct), "{direct}");
        }
        for proxied in [
            "https://notexample.com/",
            "https://example.com.evil.test/",
            "http://11.0.0.1/",
            "http://192.0.2.8/",
            "http://[fc00::1]/",
            "http://[fe00::1]/",
            "https://one.test/",
        ] {
            assert!(uses_proxy(list, proxied), "{proxied}");
        }
        assert!(!uses_proxy("*", "https://anything.test/"));
    }

    #[test]
    fn loopback_targets_never_use_a_proxy() {
        for target in [
            "http://localhost:1/",
            "http://LOCALHOST/",
            "http://127.9.9.9/",
            "http://[::1]/",
        ] {
            assert!(!uses_proxy("", target), "{target}");
        }
        assert!(uses_proxy("", "http://localhost.evil.test/"));
    }

    #[test]
    fn proxy_password_becomes_a_header_and_is_not_printed() {
        let network = Network::new()
            .http_proxy("http://me:p%40ss@proxy:1")
            .unwrap();
        let proxy = network.http_proxy.clone().unwrap();
        assert_eq!(proxy.authorization.unwrap(), "Basic bWU6cEBzcw==");
        assert!(!format!("{network:?}").contains("ss@"));
    }

    #[test]
    fn invalid_proxy_is_rejected_without_showing_its_password() {
        let error = Network::new()
            .https_proxy("socks5://me:secret@proxy:1")
            .unwrap_err();
        assert_eq!(error, ProxyError::UnsupportedScheme("socks5".into()));
        let error = Network::new()
            .https_proxy("http://me:secret@:99999")
            .unwrap_err();
        assert!(!error.to_string().contains("secret"));
        let network = Network::new().https_proxy("").unwrap();
        assert!(network.https_proxy.is_none());
    }
}
