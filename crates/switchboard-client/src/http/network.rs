//! What a host may know of the network it is in: proxies, and certificates that it trusts.
//!
//! The library finds none of it by itself: the program that embeds it reads the environment, or
//! does not, and passes in what it found. Invariant: the password of a proxy is never printed.

use std::fmt;
use std::net::IpAddr;
use std::path::PathBuf;
use std::sync::Arc;

use http::HeaderValue;
use tokio_rustls::rustls::RootCertStore;
use url::{Host, Url};

/// How to get to remote servers. Without any of it they are reached directly, and trusted by the
/// certificates of the platform.
#[derive(Clone, Default)]
pub struct Network {
    http_proxy: Option<Proxy>,
    https_proxy: Option<Proxy>,
    no_proxy: Vec<Exception>,
    certificates: Vec<PathBuf>,
    without_platform: bool,
    /// What `certificates` and the platform come to, read when it is first needed.
    pub(crate) roots: Arc<tokio::sync::OnceCell<Arc<RootCertStore>>>,
}

/// Why a proxy cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ProxyError {
    /// It is no address.
    #[error("the address of the proxy cannot be read ({0}): write it as `http://host:port`")]
    Address(String),
    /// It is of a kind that is not spoken here.
    #[error(
        "a proxy at `{0}://` is not supported: only `http://` is (https targets go through it \
         too, encrypted from end to end)"
    )]
    Scheme(String),
}

impl Network {
    /// A network without proxies.
    pub fn new() -> Self {
        Self::default()
    }

    /// The proxy for `http://` targets, as in the variable `http_proxy`; loopback targets never go
    /// through it.
    pub fn http_proxy(mut self, address: &str) -> Result<Self, ProxyError> {
        self.http_proxy = Proxy::parse(address)?;
        Ok(self)
    }

    /// The proxy for `https://` targets, as in the variable `https_proxy`.
    pub fn https_proxy(mut self, address: &str) -> Result<Self, ProxyError> {
        self.https_proxy = Proxy::parse(address)?;
        Ok(self)
    }

    /// Targets that are reached directly, as in the variable `no_proxy`: names (and all below
    /// them), addresses, `network/bits`, each with an optional `:port`, or `*`; between commas.
    pub fn no_proxy(mut self, exceptions: &str) -> Self {
        let parts = exceptions.split([',', ' ']).map(str::trim);
        let parts = parts.filter(|part| !part.is_empty());
        self.no_proxy.extend(parts.map(Exception::parse));
        self
    }

    /// Certificates to trust besides those of the platform: a file in PEM format, or a folder of
    /// such files. It is read when the first encrypted connection is made.
    pub fn certificates(mut self, path: impl Into<PathBuf>) -> Self {
        self.certificates.push(path.into());
        self.roots = Arc::default();
        self
    }

    /// Trusts the certificates that were passed in alone, and not those of the platform.
    pub fn without_platform_certificates(mut self) -> Self {
        self.without_platform = true;
        self.roots = Arc::default();
        self
    }

    /// The proxy on the way to a target.
    pub(crate) fn proxy_for(&self, target: &Url) -> Option<&Proxy> {
        let proxy = match target.scheme() {
            "https" => self.https_proxy.as_ref()?,
            _ => self.http_proxy.as_ref()?,
        };
        let host = target.host()?;
        let port = target.port_or_known_default()?;
        let excepted = self.no_proxy.iter().any(|one| one.covers(&host, port));
        (!is_loopback(&host) && !excepted).then_some(proxy)
    }

    pub(crate) fn certificate_paths(&self) -> &[PathBuf] {
        &self.certificates
    }

    pub(crate) fn uses_platform_certificates(&self) -> bool {
        !self.without_platform
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

/// Whether a target is on this machine.
pub fn is_loopback<S: AsRef<str>>(host: &Host<S>) -> bool {
    match host {
        Host::Domain(name) => {
            let name = name.as_ref();
            name.strip_suffix('.')
                .unwrap_or(name)
                .eq_ignore_ascii_case("localhost")
        }
        Host::Ipv4(address) => address.is_loopback(),
        Host::Ipv6(address) => address.is_loopback(),
    }
}

/// A proxy, and what it wants to be told.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Proxy {
    pub(crate) host: Host<String>,
    pub(crate) port: u16,
    /// For `Proxy-Authorization`.
    pub(crate) authorization: Option<HeaderValue>,
}

impl Proxy {
    /// Nothing for an empty address: that is how a variable is taken back.
    fn parse(address: &str) -> Result<Option<Self>, ProxyError> {
        let address = address.trim();
        if address.is_empty() {
            return Ok(None);
        }
        let full = if address.contains("://") {
            address.to_owned()
        } else {
            format!("http://{address}")
        };
        let url = Url::parse(&full).map_err(|error| ProxyError::Address(error.to_string()))?;
        if url.scheme() != "http" {
            return Err(ProxyError::Scheme(url.scheme().to_owned()));
        }
        let host = url.host().map(|host| host.to_owned());
        let host = host.ok_or_else(|| ProxyError::Address("it names no host".to_owned()))?;
        Ok(Some(Self {
            host,
            port: url.port_or_known_default().unwrap_or(80),
            authorization: basic(&url),
        }))
    }

    /// Where it is, for messages.
    pub(crate) fn at(&self) -> String {
        format!("{}:{}", self.host, self.port)
    }
}

impl fmt::Debug for Proxy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "http://{}", self.at())
    }
}

/// The `Basic` form of what stands before the `@` of an address.
fn basic(url: &Url) -> Option<HeaderValue> {
    if url.username().is_empty() && url.password().is_none() {
        return None;
    }
    let mut plain = percent_decoded(url.username());
    plain.push(b':');
    plain.extend(percent_decoded(url.password().unwrap_or_default()));
    let mut value = HeaderValue::try_from(format!("Basic {}", base64(&plain))).ok()?;
    value.set_sensitive(true);
    Some(value)
}

fn percent_decoded(text: &str) -> Vec<u8> {
    let mut decoded = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((byte, after)) = rest.split_first() {
        let escaped = (*byte == b'%').then(|| after.get(..2)).flatten();
        let value = escaped
            .and_then(|digits| std::str::from_utf8(digits).ok())
            .and_then(|digits| u8::from_str_radix(digits, 16).ok());
        decoded.push(value.unwrap_or(*byte));
        rest = match value {
            Some(_) => after.get(2..).unwrap_or_default(),
            None => after,
        };
    }
    decoded
}

fn base64(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for group in bytes.chunks(3) {
        let byte = |index: usize| u32::from(group.get(index).copied().unwrap_or(0));
        let bits = byte(0) << 16 | byte(1) << 8 | byte(2);
        for position in 0..4_usize {
            let digit = (bits >> (18 - 6 * position)) & 63;
            let digit = usize::try_from(digit).unwrap_or(0);
            match DIGITS.get(digit) {
                Some(digit) if position <= group.len() => text.push(char::from(*digit)),
                _ => text.push('='),
            }
        }
    }
    text
}

/// Where no proxy is used.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Exception {
    place: Place,
    port: Option<u16>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Place {
    Everywhere,
    /// A name and all below it, in lower case and without a dot in front.
    Below(String),
    Block(IpAddr, u8),
}

impl Exception {
    fn parse(text: &str) -> Self {
        if let Some(place) = Place::address(text) {
            return Self { place, port: None };
        }
        let (name, port) = match text.rsplit_once(':') {
            Some((name, port)) => match port.parse() {
                Ok(port) => (name, Some(port)),
                Err(_) => (text, None),
            },
            None => (text, None),
        };
        let place = Place::address(name).unwrap_or_else(|| Place::name(name));
        Self { place, port }
    }

    fn covers(&self, host: &Host<&str>, port: u16) -> bool {
        self.port.is_none_or(|only| only == port) && self.place.holds(host)
    }
}

impl Place {
    fn address(text: &str) -> Option<Self> {
        let (address, bits) = match text.split_once('/') {
            Some((address, bits)) => (address, Some(bits.parse::<u8>().ok()?)),
            None => (text, None),
        };
        let address = address.strip_prefix('[').unwrap_or(address);
        let address: IpAddr = address.strip_suffix(']').unwrap_or(address).parse().ok()?;
        let most = if address.is_ipv4() { 32 } else { 128 };
        let bits = bits.unwrap_or(most);
        (bits <= most).then_some(Self::Block(address, bits))
    }

    fn name(text: &str) -> Self {
        match text.trim_start_matches("*.").trim_start_matches('.') {
            "*" => Self::Everywhere,
            name => Self::Below(name.to_ascii_lowercase()),
        }
    }

    fn holds(&self, host: &Host<&str>) -> bool {
        match (self, host) {
            (Self::Everywhere, _) => true,
            (Self::Below(name), Host::Domain(domain)) => domain
                .strip_suffix(name.as_str())
                .is_some_and(|above| above.is_empty() || above.ends_with('.')),
            (Self::Block(IpAddr::V4(block), bits), Host::Ipv4(address)) => {
                let differ = u32::from(*block) ^ u32::from(*address);
                differ.leading_zeros() >= u32::from(*bits)
            }
            (Self::Block(IpAddr::V6(block), bits), Host::Ipv6(address)) => {
                let differ = u128::from(*block) ^ u128::from(*address);
                differ.leading_zeros() >= u32::from(*bits)
            }
            _ => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn goes_through_a_proxy(no_proxy: &str, target: &str) -> bool {
        let network = Network::new().http_proxy("proxy:3128").unwrap();
        let network = network.https_proxy("http://proxy:3128").unwrap();
        let network = network.no_proxy(no_proxy);
        network.proxy_for(&Url::parse(target).unwrap()).is_some()
    }

    #[test]
    fn exceptions_are_names_with_all_below_them_addresses_blocks_and_ports() {
        let list = "example.com, .inner.test,10.0.0.0/8,[fd00::]/8,192.0.2.7,one.test:8443";
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
        ] {
            assert!(!goes_through_a_proxy(list, direct), "{direct}");
        }
        for proxied in [
            "https://notexample.com/",
            "https://example.com.evil.test/",
            "http://11.0.0.1/",
            "http://192.0.2.8/",
            "http://[fc00::1]/",
            "https://one.test/",
        ] {
            assert!(goes_through_a_proxy(list, proxied), "{proxied}");
        }
        assert!(!goes_through_a_proxy("*", "https://anything.test/"));
    }

    #[test]
    fn this_machine_is_never_reached_through_a_proxy() {
        for target in [
            "http://localhost:1/",
            "http://LOCALHOST/",
            "http://127.9.9.9/",
            "http://[::1]/",
        ] {
            assert!(!goes_through_a_proxy("", target), "{target}");
        }
        assert!(goes_through_a_proxy("", "http://localhost.evil.test/"));
    }

    #[test]
    fn the_password_of_a_proxy_becomes_a_header_and_is_not_printed() {
        let network = Network::new()
            .http_proxy("http://me:p%40ss@proxy:1")
            .unwrap();
        let proxy = network.http_proxy.clone().unwrap();
        assert_eq!(proxy.authorization.unwrap(), "Basic bWU6cEBzcw==");
        assert!(!format!("{network:?}").contains("ss@"));
        assert_eq!(base64(b""), "");
        assert_eq!(base64(b"a"), "YQ==");
        assert_eq!(base64(b"abc"), "YWJj");
    }

    #[test]
    fn a_proxy_is_plain_http_or_refused_without_a_word_of_its_password() {
        let error = Network::new()
            .https_proxy("socks5://me:secret@proxy:1")
            .unwrap_err();
        assert_eq!(error, ProxyError::Scheme("socks5".into()));
        let error = Network::new()
            .https_proxy("http://me:secret@:99999")
            .unwrap_err();
        assert!(!error.to_string().contains("secret"));
        let network = Network::new().https_proxy("").unwrap();
        assert!(network.https_proxy.is_none());
    }
}
