//! Web addresses, plain enough to be compared, and the patterns they are compared with.
//!
//! Programs differ in how they read an odd address, and what lies between the readings is how a list is
//! got around. Invariant: an [`Address`] is one that every reader takes for the same place; whatever is
//! odd is none.

use std::fmt::Write as _;
use std::net::{Ipv4Addr, Ipv6Addr};

/// A plain address: lower-case host without a dot at its end, a port, a path without `.` and `..`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Address {
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

impl Address {
    /// `None`: the address is odd.
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
            host: plain_host(host)?,
            port,
            path: plain_path(path.unwrap_or("/"))?,
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

/// Authority, path with its slash, and what follows a question mark.
fn split(rest: &str) -> (&str, Option<&str>, Option<&str>) {
    let (before, query) = match rest.split_once('?') {
        Some((before, query)) => (before, Some(query)),
        None => (rest, None),
    };
    let (authority, path) = before.split_at(before.find('/').unwrap_or(before.len()));
    (authority, (!path.is_empty()).then_some(path), query)
}

/// `None`: there is a user name, which may look like a host.
fn split_port(authority: &str) -> Option<(&str, Option<&str>)> {
    if authority.contains('@') {
        return None;
    }
    if authority.starts_with('[') {
        let (host, behind) = authority.split_at(authority.find(']')? + 1);
        return match behind {
            "" => Some((host, None)),
            _ => Some((host, Some(behind.strip_prefix(':')?))),
        };
    }
    match authority.split_once(':') {
        Some((host, port)) => Some((host, Some(port))),
        None => Some((authority, None)),
    }
}

fn plain_host(host: &str) -> Option<String> {
    if let Some(inside) = host.strip_prefix('[') {
        let address: Ipv6Addr = inside.strip_suffix(']')?.parse().ok()?;
        // The same machine by its shorter name.
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
    // `127.1`, `0x7f.1` and `2130706433` are read as numbers by some, and as names by others.
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

/// The path with letters that need no `%` written without one.
fn plain_path(path: &str) -> Option<String> {
    let mut plain = String::with_capacity(path.len());
    let mut bytes = path.bytes();
    while let Some(byte) = bytes.next() {
        if byte != b'%' {
            plain.push(char::from(byte));
            continue;
        }
        let mut digit = || char::from(bytes.next()?).to_digit(16);
        let code = u8::try_from(digit()? * 16 + digit()?).ok()?;
        match code {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => {
                plain.push(char::from(code));
            }
            // A slash, a backslash or a `%` in disguise: some see through it.
            b'/' | b'\\' | b'%' | 0..=31 => return None,
            _ => {
                // Writing to a string cannot fail.
                let _ = write!(plain, "%{code:02X}");
            }
        }
    }
    let climbs = plain.split('/').any(|part| matches!(part, "." | ".."));
    (!climbs).then_some(plain)
}

/// A pattern for addresses, in the same parts.
#[derive(Clone, Debug)]
pub(super) struct Pattern {
    /// `None`: either.
    scheme: Option<Scheme>,
    host: String,
    port: Option<PortPattern>,
    /// `None`: any.
    path: Option<String>,
}

#[derive(Clone, Copy, Debug)]
enum PortPattern {
    Any,
    This(u16),
}

impl Pattern {
    /// `None`: it is not a pattern for addresses.
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
            Some(digits) => Some(PortPattern::This(digits.parse().ok()?)),
        };
        Some(Self {
            scheme,
            host: plain_host_pattern(host)?,
            port,
            path: (!path.is_empty()).then(|| path.to_owned()),
        })
    }

    /// As an allowed address: no more than what is written.
    pub(super) fn fits_exactly(&self, address: &Address) -> bool {
        let port = match self.port {
            Some(PortPattern::Any) => true,
            Some(PortPattern::This(port)) => port == address.port,
            None => address.port == address.scheme.port(),
        };
        let path = self.path.as_deref();
        port && self.scheme.is_none_or(|scheme| scheme == address.scheme)
            && fits(&self.host, &address.host)
            && path.is_none_or(|path| fits(path, &address.path_and_query()))
    }

    /// As a denied address: everything that could be meant.
    pub(super) fn fits_widely(&self, address: &Address) -> bool {
        let port = match self.port {
            Some(PortPattern::This(port)) => port == address.port,
            Some(PortPattern::Any) | None => true,
        };
        let path = self.path.as_ref().map(|path| path.to_lowercase());
        let fits_path = |path: String| {
            fits(&path, &address.path.to_lowercase())
                || fits(&path, &address.path_and_query().to_lowercase())
        };
        port && fits(&self.host, &address.host) && path.is_none_or(fits_path)
    }
}

fn plain_host_pattern(host: &str) -> Option<String> {
    if !host.contains('*') {
        return plain_host(host);
    }
    let is_letter = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.*".contains(&byte);
    let host = host.strip_suffix('.').unwrap_or(host);
    (!host.is_empty() && host.bytes().all(is_letter)).then(|| host.to_ascii_lowercase())
}

/// Whether a pattern fits all of a text; `*` stands for any number of characters.
fn fits(pattern: &str, text: &str) -> bool {
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
