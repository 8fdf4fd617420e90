//! Addresses that servers want the user to visit.
//!
//! They are judged by their looks alone: nothing here, and nothing in the engine, opens or fetches
//! one. Invariant: what is shown is what is opened, in plain ASCII, whatever the server wrote.

use std::fmt;

use url::{Host, Url};

use crate::http::is_loopback;

/// A longer address than this is refused, in bytes.
const LONGEST: usize = 8 * 1024;
/// A longer address than this is hard to judge, in bytes.
const LONG: usize = 1_000;

/// An address that a server wants the user to visit: `https`, or `http` on this machine.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Address {
    /// The whole of it, in plain ASCII. All of it is to be shown before it is opened.
    pub url: String,
    /// The host alone, as it is in the address: what to look at.
    pub host: String,
    /// What makes it suspicious.
    pub warnings: Vec<AddressWarning>,
    /// How the server calls this question.
    pub elicitation_id: Option<String>,
}

/// What makes an address suspicious, in words for the user by way of `Display`.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum AddressWarning {
    /// The name of the host has letters besides the plain Latin ones, and may look like another.
    International {
        /// The name as a browser may show it.
        looks_like: String,
    },
    /// The name of the host mixes letters of several scripts, as look-alikes do.
    MixedLetters,
    /// The host is a number and has no name.
    Numeric,
    /// It is so long that its end is easily overlooked.
    Long,
    /// The host is this machine.
    ThisMachine,
}

impl fmt::Display for AddressWarning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::International { looks_like } => write!(
                f,
                "the host has letters that may look like others: it reads {looks_like:?}"
            ),
            Self::MixedLetters => {
                f.write_str("the host mixes letters of several scripts, as look-alikes do")
            }
            Self::Numeric => f.write_str("the host is a number: nobody can tell whose it is"),
            Self::Long => f.write_str("the address is very long: look at its host"),
            Self::ThisMachine => f.write_str("the address is one of this machine"),
        }
    }
}

impl Address {
    /// Reads an address; says what is wrong with it if it is not one to visit.
    pub(crate) fn read(written: &str) -> Result<Self, String> {
        if written.len() > LONGEST {
            return Err(format!("the address is longer than {LONGEST} bytes"));
        }
        let url = Url::parse(written).map_err(|error| format!("`url` is no address: {error}"))?;
        let is_local = url.host().is_some_and(|host| is_loopback(&host));
        match url.scheme() {
            "https" => {}
            "http" if is_local => {}
            "http" => return Err("`url` is not encrypted: only https is visited".to_owned()),
            _ => return Err("`url` is not an address of the web: only https is visited".to_owned()),
        }
        if !url.username().is_empty() || url.password().is_some() {
            return Err("`url` has a user name in it, which hides its host".to_owned());
        }
        let (Some(host), Some(name)) = (url.host(), url.host_str()) else {
            return Err("`url` has no host".to_owned());
        };
        let mut warnings = Vec::new();
        match host {
            _ if is_local => warnings.push(AddressWarning::ThisMachine),
            Host::Domain(name) => warn_of_name(name, &mut warnings),
            Host::Ipv4(_) | Host::Ipv6(_) => warnings.push(AddressWarning::Numeric),
        }
        if url.as_str().len() > LONG {
            warnings.push(AddressWarning::Long);
        }
        Ok(Self {
            host: name.to_owned(),
            warnings,
            elicitation_id: None,
            url: url.into(),
        })
    }
}

fn warn_of_name(name: &str, warnings: &mut Vec<AddressWarning>) {
    let is_encoded = |label: &str| label.starts_with("xn--");
    if !name.split('.').any(is_encoded) {
        return;
    }
    let looks_like = url::quirks::domain_to_unicode(name);
    if looks_like.split('.').any(is_mixed) {
        warnings.push(AddressWarning::MixedLetters);
    }
    let looks_like = switchboard_wire::text::one_line(&looks_like, 256).into_owned();
    warnings.push(AddressWarning::International { looks_like });
}

/// Whether Latin letters stand beside others. Latin ones with marks are Latin.
fn is_mixed(label: &str) -> bool {
    const LAST_LATIN: char = '\u{24f}';
    let letters = || label.chars().filter(|letter| letter.is_alphabetic());
    letters().any(|letter| letter <= LAST_LATIN) && letters().any(|letter| letter > LAST_LATIN)
}
