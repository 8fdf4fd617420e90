//! The mark that a child carries, and that whatever it starts inherits.
//!
//! One environment variable, [`VARIABLE`]. Neither a new session nor a lost parent takes it away, so
//! it tells whose process this is long after its group is gone. A host that is itself a child of a
//! host writes its mark behind the outer one, `outer/inner`: each finds what is its own. Pure.

use std::fmt;
use std::hash::BuildHasher as _;
use std::str::FromStr;

/// The variable that holds the mark.
pub(crate) const VARIABLE: &str = "SWITCHBOARD_CHILD";

/// Stands between the marks of hosts within hosts.
const INSIDE: char = '/';

/// Ends the mark of a child whose daemons may stay.
const KEEP: &str = "keep";

/// A longer chain of outer hosts is nothing that we wrote.
const LONGEST_CHAIN: usize = 1024;

/// What tells the children of one host from those of all others, ever.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct HostTag(u128);

impl HostTag {
    /// A tag that nobody else has.
    #[expect(
        clippy::new_without_default,
        reason = "no two are alike, and a default should be"
    )]
    pub fn new() -> Self {
        // Keyed by the system's own randomness, anew for each of the two.
        let half = || u128::from(std::hash::RandomState::new().hash_one(std::process::id()));
        Self(half() << 64 | half())
    }
}

impl fmt::Display for HostTag {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", self.0)
    }
}

impl fmt::Debug for HostTag {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "HostTag({self})")
    }
}

/// That is not the text of a tag.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not a tag: 32 hexadecimal digits are")]
pub struct InvalidTag;

impl FromStr for HostTag {
    type Err = InvalidTag;

    fn from_str(text: &str) -> Result<Self, InvalidTag> {
        let is_digit = |byte: u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte);
        if text.len() != 32 || !text.bytes().all(is_digit) {
            return Err(InvalidTag);
        }
        u128::from_str_radix(text, 16)
            .map(Self)
            .map_err(|_| InvalidTag)
    }
}

/// Which child of which host.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Mark {
    pub(crate) host: HostTag,
    /// Counts the children of the host, each start of a server anew.
    pub(crate) number: u64,
    /// What leaves the child's group may stay.
    pub(crate) keeps_daemons: bool,
}

impl fmt::Display for Mark {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.host, self.number)?;
        if self.keeps_daemons {
            write!(f, ".{KEEP}")?;
        }
        Ok(())
    }
}

impl Mark {
    /// The value of the variable for a child, `outer` being the value that this process has itself.
    pub(crate) fn inside(&self, outer: Option<&str>) -> String {
        let is_chain = |outer: &&str| {
            outer.len() <= LONGEST_CHAIN
                && outer.split(INSIDE).all(|mark| Self::parse(mark).is_some())
        };
        match outer.filter(is_chain) {
            Some(outer) => format!("{outer}{INSIDE}{self}"),
            None => self.to_string(),
        }
    }

    /// The marks in a value of the variable, outermost first. What is none is passed over.
    pub(crate) fn all_in(value: &str) -> impl Iterator<Item = Self> {
        value.split(INSIDE).filter_map(Self::parse)
    }

    fn parse(text: &str) -> Option<Self> {
        let mut parts = text.split('.');
        let host = parts.next()?.parse().ok()?;
        let number = parts.next()?.parse().ok()?;
        let keeps_daemons = match (parts.next(), parts.next()) {
            (None, _) => false,
            (Some(KEEP), None) => true,
            _ => return None,
        };
        Some(Self {
            host,
            number,
            keeps_daemons,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mark(number: u64, keeps_daemons: bool) -> Mark {
        let host = HostTag(0xab);
        Mark {
            host,
            number,
            keeps_daemons,
        }
    }

    #[test]
    fn no_two_tags_are_alike_and_each_is_read_back() {
        let (one, other) = (HostTag::new(), HostTag::new());
        assert_ne!(one, other);
        assert_eq!(one.to_string().parse(), Ok(one));
        for text in ["", "ab", "000000000000000000000000000000AB", "../x"] {
            assert_eq!(text.parse::<HostTag>(), Err(InvalidTag), "{text}");
        }
    }

    #[test]
    fn a_mark_is_read_back_and_what_is_none_is_passed_over() {
        for mark in [mark(7, false), mark(0, true)] {
            assert_eq!(Mark::all_in(&mark.to_string()).collect::<Vec<_>>(), [mark]);
        }
        let tag = HostTag(0xab);
        for text in [
            String::new(),
            tag.to_string(),
            format!("{tag}.x"),
            format!("{tag}.1.kept"),
            format!("{tag}.1.keep.keep"),
        ] {
            assert_eq!(Mark::all_in(&text).count(), 0, "{text}");
        }
    }

    #[test]
    fn a_host_within_a_host_writes_its_mark_behind() {
        let (outer, inner) = (mark(1, true), mark(2, false));
        let value = inner.inside(Some(&outer.to_string()));
        assert_eq!(Mark::all_in(&value).collect::<Vec<_>>(), [outer, inner]);
        for nonsense in ["", "x", &"1/".repeat(1000)] {
            assert_eq!(inner.inside(Some(nonsense)), inner.to_string());
        }
    }
}
