//! The environment variable that marks the descendants of a host.
//!
//! Descendants inherit [`MARKER_VARIABLE`] even after they start a new session or lose their
//! parent, so the marker identifies them long after their process group is gone, unless they clear
//! their environment. A host that is itself the child of a host appends its marker, `outer/inner`,
//! so that both hosts find their descendants. Pure functions on text; [`procfs`](crate::procfs)
//! reads the variable of other processes.

use std::fmt;
use std::hash::BuildHasher as _;
use std::str::FromStr;

/// The environment variable that holds the marker.
pub const MARKER_VARIABLE: &str = "SWITCHBOARD_CHILD";

/// Separates the markers of nested hosts, outermost first.
const NESTING_SEPARATOR: char = '/';

/// Last part of the marker of a child whose daemons survive.
const KEEP_DAEMONS: &str = "keep";

/// An outer marker longer than this was not written by a host and is dropped.
const MAX_MARKER_BYTES: usize = 1024;

/// Random id that distinguishes the children of one host from those of all others.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct HostId(u128);

impl HostId {
    /// A new random id.
    #[expect(
        clippy::new_without_default,
        reason = "every new id differs from all others"
    )]
    pub fn new() -> Self {
        // Each `RandomState` has new keys from the system's random source.
        let half = || u128::from(std::hash::RandomState::new().hash_one(std::process::id()));
        Self(half() << 64 | half())
    }
}

impl fmt::Display for HostId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", self.0)
    }
}

impl fmt::Debug for HostId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "HostId({self})")
    }
}

/// The text is not a [`HostId`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not a host id: expected 32 lower-case hexadecimal digits")]
pub struct InvalidHostId;

impl FromStr for HostId {
    type Err = InvalidHostId;

    fn from_str(text: &str) -> Result<Self, InvalidHostId> {
        let is_digit = |byte: u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte);
        if text.len() != 32 || !text.bytes().all(is_digit) {
            return Err(InvalidHostId);
        }
        u128::from_str_radix(text, 16)
            .map(Self)
            .map_err(|_| InvalidHostId)
    }
}

/// The number of a child among the children of one host. Every started child gets the next number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct ChildNumber(pub(crate) u64);

/// The marker of one child: its host, its number, and whether its daemons survive.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct EnvMarker {
    pub(crate) host: HostId,
    pub(crate) child: ChildNumber,
    /// Processes that leave the child's group are not ended.
    pub(crate) keep_daemons: bool,
}

impl fmt::Display for EnvMarker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.host, self.child.0)?;
        if self.keep_daemons {
            write!(f, ".{KEEP_DAEMONS}")?;
        }
        Ok(())
    }
}

impl EnvMarker {
    /// The value of the variable for a child. `outer` is the value that this process has; anything
    /// but a list of markers is dropped.
    pub(crate) fn nested_in(&self, outer: Option<&str>) -> String {
        let is_marker_list = |outer: &&str| {
            outer.len() <= MAX_MARKER_BYTES
                && outer
                    .split(NESTING_SEPARATOR)
                    .all(|marker| Self::parse(marker).is_some())
        };
        match outer.filter(is_marker_list) {
            Some(outer) => format!("{outer}{NESTING_SEPARATOR}{self}"),
            None => self.to_string(),
        }
    }

    /// The markers in a value of the variable, outermost first. Skips invalid ones.
    pub(crate) fn parse_all(value: &str) -> impl Iterator<Item = Self> {
        value.split(NESTING_SEPARATOR).filter_map(Self::parse)
    }

    fn parse(text: &str) -> Option<Self> {
        let mut parts = text.split('.');
        let host = parts.next()?.parse().ok()?;
        let child = ChildNumber(parts.next()?.parse().ok()?);
        let keep_daemons = match (parts.next(), parts.next()) {
            (None, _) => false,
            (Some(KEEP_DAEMONS), None) => true,
            _ => return None,
        };
        Some(Self {
            host,
            child,
            keep_daemons,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn marker(number: u64, keep_daemons: bool) -> EnvMarker {
        EnvMarker {
            host: HostId(0xab),
            child: ChildNumber(number),
            keep_daemons,
        }
    }

    #[test]
    fn host_ids_are_unique_and_round_trip() {
        let (one, other) = (HostId::new(), HostId::new());
        assert_ne!(one, other);
        assert_eq!(one.to_string().parse(), Ok(one));
        for text in ["", "ab", "000000000000000000000000000000AB", "../x"] {
            assert_eq!(text.parse::<HostId>(), Err(InvalidHostId), "{text}");
        }
    }

    #[test]
    fn markers_round_trip_and_invalid_ones_are_skipped() {
        for marker in [marker(7, false), marker(0, true)] {
            let parsed: Vec<_> = EnvMarker::parse_all(&marker.to_string()).collect();
            assert_eq!(parsed, [marker]);
        }
        let host = HostId(0xab);
        for text in [
            String::new(),
            host.to_string(),
            format!("{host}.x"),
            format!("{host}.1.kept"),
            format!("{host}.1.keep.keep"),
        ] {
            assert_eq!(EnvMarker::parse_all(&text).count(), 0, "{text}");
        }
    }

    #[test]
    fn nested_host_appends_its_marker() {
        let (outer, inner) = (marker(1, true), marker(2, false));
        let value = inner.nested_in(Some(&outer.to_string()));
        let parsed: Vec<_> = EnvMarker::parse_all(&value).collect();
        assert_eq!(parsed, [outer, inner]);
        for invalid in ["", "x", &"1/".repeat(1000)] {
            assert_eq!(inner.nested_in(Some(invalid)), inner.to_string());
        }
    }
}
