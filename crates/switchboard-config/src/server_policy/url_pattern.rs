//! Canonical URLs, and the URL patterns of allow and deny lists.
//!
//! URL parsers disagree about unusual URLs. An attacker could use the disagreement to bypass a
//! list. Invariant: all parsers agree about the host and path of a [`CanonicalUrl`];
//! [`CanonicalUrl::parse`] rejects every other URL.

use std::fmt::Write as _;
use std::net::{Ipv4Addr, Ipv6Addr};

/// A URL with a lower-case host without a trailing dot, an explicit port, and a path without `.`
/// and `..`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct CanonicalUrl {
    scheme: Scheme,
    host: String,
    port: u16,
    path: String,
    query: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Scheme {
    Http,
    Https,
}

impl Scheme {
    fn parse(text: &str) -> Option<Self> {
        match text.to_ascii_lowercase().as_str() {
            "http" => Some(Self::Http),
            "https" => Some(Self::Https),
            _ => None,
        }
    }

    fn port(self) -> u16 {
        match self {
            Self::Http => 80,
            Self::Https => 443,
        }
    }
}

impl CanonicalUrl {
    /// Returns `None` if the URL is invalid or ambiguous.
    pub(super) fn parse(url: &str) -> Option<Self> {
        let is_plain = |c: char| c.is_ascii_graphic() && !matches!(c, '\\' | '"' | '<' | '>' | '`');
        if !url.chars().all(is_plain) {
            return None;
        }
        let (scheme, rest) = url.split_once("://")?;
        let scheme = Scheme::parse(scheme)?;
        let rest = rest.split_once('#').map_or(rest, |(before, _)| before);
        let (authority, path, query) = split(rest);
        let (host, port) = split_port(authority)?;
        let port = match port {
            None | Some("") => scheme.port(),
            Some(digits) if digits.bytes().all(|byte| byte.is_ascii_digit()) => {
                digits.parse().ok()?
            }
            Some(_) => return None,
        };
        Some(Self {
            scheme,
            host: canonical_host(host)?,
            port,
            path: canonical_path(path.unwrap_or("/"))?,
            query: query.map(str::to_owned),
        })
    }

    fn path_and_query(&self) -> String {
        match &self.query {
            Some(query) => format!("{}?{query}", self.path),
            None => self.path.clone(),
        }
    }
}

/// Splits into the authority, the path with its leading slash, and the query.
fn split(rest: &str) -> (&str, Option<&str>, Option<&str>) {
    let (before, query) = match rest.split_once('?') {
        Some((before, query)) => (before, Some(query)),
        None => (rest, None),
    };
    let (authority, path) = before.split_at(before.find('/').unwrap_or(before.len()));
    (authority, (!path.is_empty()).then_some(path), query)
}

/// Splits an authority into host and port. Returns `None` if it is malformed, or if it contains
/// user information, which can look like a host.
fn split_port(authority: &str) -> Option<(&str, Option<&str>)> {
    if authority.contains('@') {
        return None;
    }
    if authority.starts_with('[') {
        let (host, after) = authority.split_at(authority.find(']')? + 1);
        return match after {
            "" => Some((host, None)),
            _ => Some((host, Some(after.strip_prefix(':')?))),
        };
    }
    match authority.split_once(':') {
        Some((host, port)) => Some((host, Some(port))),
        None => Some((authority, None)),
    }
}

fn canonical_host(host: &str) -> Option<String> {
    if let Some(inside) = host.strip_prefix('[') {
        let address: Ipv6Addr = inside.strip_suffix(']')?.parse().ok()?;
        // An IPv4-mapped address is the same machine as the IPv4 address.
        return Some(match address.to_ipv4_mapped() {
            Some(short) => short.to_string(),
            None => format!("[{address}]"),
        });
    }
    let host = host.strip_suffix('.').unwrap_or(host).to_ascii_lowercase();
    let is_label = |label: &str| {
        let is_letter = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_');
        !label.is_empty() && label.bytes().all(is_letter)
    };
    if !host.split('.').all(is_label) {
        return None;
    }
    // Some parsers read `127.1`, `0x7f.1` and `2130706433` as IPv4 addresses, others as names.
    let last = host.rsplit('.').next().unwrap_or_default();
    let is_number = last.starts_with("0x") || last.bytes().all(|byte| byte.is_ascii_digit());
    if is_number {
        return host
            .parse::<Ipv4Addr>()
            .ok()
            .map(|address| address.to_string());
    }
    Some(host)
}

/// Decodes percent-encoded unreserved characters. Returns `None` for ambiguous paths.
fn canonical_path(path: &str) -> Option<String> {
    let mut canonical = String::with_capacity(path.len());
    let mut bytes = path.bytes();
    while let Some(byte) = bytes.next() {
        if byte != b'%' {
            canonical.push(char::from(byte));
            continue;
        }
        let mut digit = || char::from(bytes.next()?).to_digit(16);
        let code = u8::try_from(digit()? * 16 + digit()?).ok()?;
        match code {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => {
                canonical.push(char::from(code));
            }
            // Some parsers decode an encoded slash, backslash or `%`, others do not.
            b'/' | b'\\' | b'%' | 0..=31 => return None,
            _ => {
                // Writing to a string cannot fail.
                let _ = write!(canonical, "%{code:02X}");
            }
        }
    }
    let has_dot_segments = canonical.split('/').any(|part| matches!(part, "." | ".."));
    (!has_dot_segments).then_some(canonical)
}

/// A URL pattern, split into the same parts as a URL.
#[derive(Clone, Debug)]
pub(super) struct UrlPattern {
    /// `None` matches both schemes.
    scheme: Option<Scheme>,
    host: String,
    port: Option<PortPattern>,
    /// `None` matches every path.
    path: Option<String>,
}

#[derive(Clone, Copy, Debug)]
enum PortPattern {
    Any,
    Exact(u16),
}

impl UrlPattern {
    /// Returns `None` if the pattern is invalid.
    pub(super) fn parse(pattern: &str) -> Option<Self> {
        let (scheme, rest) = pattern.split_once("://")?;
        let scheme = match scheme {
            "*" => None,
            scheme => Some(Scheme::parse(scheme)?),
        };
        let (authority, path) = rest.split_at(rest.find(['/', '?']).unwrap_or(rest.len()));
        let (host, port) = split_port(authority)?;
        let port = match port {
            None => None,
            Some("*") => Some(PortPattern::Any),
            Some(digits) => Some(PortPattern::Exact(digits.parse().ok()?)),
        };
        Some(Self {
            scheme,
            host: canonical_host_pattern(host)?,
            port,
            path: (!path.is_empty()).then(|| path.to_owned()),
        })
    }

    /// Strict match for an allow list: the scheme and the case of the path matter, and no port
    /// means the default port.
    pub(super) fn matches_allow(&self, url: &CanonicalUrl) -> bool {
        let port = match self.port {
            Some(PortPattern::Any) => true,
            Some(PortPattern::Exact(port)) => port == url.port,
            None => url.port == url.scheme.port(),
        };
        let path = self.path.as_deref();
        port && self.scheme.is_none_or(|scheme| scheme == url.scheme)
            && wildcard_match(&self.host, &url.host)
            && path.is_none_or(|path| wildcard_match(path, &url.path_and_query()))
    }

    /// Wide match for a deny list: scheme and case do not matter, and no port means every port.
    pub(super) fn matches_deny(&self, url: &CanonicalUrl) -> bool {
        let port = match self.port {
            Some(PortPattern::Exact(port)) => port == url.port,
            Some(PortPattern::Any) | None => true,
        };
        let path = self.path.as_ref().map(|path| path.to_lowercase());
        let matches_path = |path: String| {
            wildcard_match(&path, &url.path.to_lowercase())
                || wildcard_match(&path, &url.path_and_query().to_lowercase())
        };
        port && wildcard_match(&self.host, &url.host) && path.is_none_or(matches_path)
    }
}

fn canonical_host_pattern(host: &str) -> Option<String> {
    if !host.contains('*') {
        return canonical_host(host);
    }
    let is_letter = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.*".contains(&byte);
    let host = host.strip_suffix('.').unwrap_or(host);
    (!host.is_empty() && host.bytes().all(is_letter)).then(|| host.to_ascii_lowercase())
}

/// Returns true if the pattern matches the whole text. `*` matches any number of characters.
fn wildcard_match(pattern: &str, text: &str) -> bool {
    let mut pieces = pattern.split('*');
    let first = pieces.next().unwrap_or_default();
    let Some(mut rest) = text.strip_prefix(first) else {
        return false;
    };
    let Some(last) = pieces.next_back() else {
        return rest.is_empty();
    };
    for piece in pieces {
        let Some(at) = rest.find(piece) else {
            return false;
        };
        rest = rest.get(at + piece.len()..).unwrap_or_default();
    }
    rest.ends_with(last)
}

#[cfg(test)]
mod tests;
