//! Parses the URL of a URL elicitation and collects warnings about it.
//!
//! This crate never opens or fetches the URL; it only checks the text.
//!
//! Invariant: [`ElicitUrl::url`] is the normalized ASCII form, so that the user sees the URL that
//! the browser opens.

use std::fmt;

use url::{Host, Url};

use crate::local_address::is_loopback;

/// Maximum length of the URL, in bytes. A longer URL is refused.
const MAX_URL_BYTES: usize = 8 * 1024;
/// A URL with more bytes than this gets the warning [`UrlWarning::Long`].
const LONG_URL_BYTES: usize = 1_000;

/// A URL that a server asks the user to open: `https`, or `http` on a loopback host.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ElicitUrl {
    /// The normalized URL in ASCII. Show the whole URL to the user before you open it.
    pub url: String,
    /// The host as it is written in `url`. Show it separately, so that the user notices to which
    /// site the URL leads.
    pub host: String,
    /// Reasons why the URL is suspicious. Empty if there are none.
    pub warnings: Vec<UrlWarning>,
    /// The id of the request. The server repeats it in a notification when the user has completed
    /// the request. `None` if the server sent no id.
    pub elicitation_id: Option<String>,
}

/// A reason why a URL is suspicious. `Display` explains it to the user.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum UrlWarning {
    /// The host name contains non-ASCII letters, which can look like the ASCII letters of another
    /// host.
    InternationalizedHost {
        /// The host name in Unicode, as a browser may show it.
        displayed_as: String,
    },
    /// One label of the host name contains both Latin letters and letters of other scripts.
    MixedScripts,
    /// The host is an IP address instead of a name.
    IpAddress,
    /// The URL is so long that the user may overlook its end.
    Long,
    /// The host is this machine.
    Loopback,
}

impl fmt::Display for UrlWarning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::InternationalizedHost { displayed_as } => write!(
                f,
                "the host contains non-ASCII characters and may be displayed as {displayed_as:?}"
            ),
            Self::MixedScripts => f.write_str(
                "the host mixes letters of several scripts, a common way to imitate another host",
            ),
            Self::IpAddress => {
                f.write_str("the host is an IP address, which does not tell who runs it")
            }
            Self::Long => f.write_str("the URL is very long; check its host"),
            Self::Loopback => f.write_str("the URL leads to this machine"),
        }
    }
}

impl ElicitUrl {
    /// Parses a URL. The error says why the user must not open it.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        if text.len() > MAX_URL_BYTES {
            return Err(format!("`url` is longer than {MAX_URL_BYTES} bytes"));
        }
        let url = Url::parse(text).map_err(|error| format!("`url` is invalid: {error}"))?;
        let is_local = url.host().is_some_and(|host| is_loopback(&host));
        match url.scheme() {
            "https" => {}
            "http" if is_local => {}
            _ => return Err("`url` does not use https".to_owned()),
        }
        // A user name before the `@` can be mistaken for the host.
        if !url.username().is_empty() || url.password().is_some() {
            return Err("`url` contains a user name or password".to_owned());
        }
        let (Some(host), Some(name)) = (url.host(), url.host_str()) else {
            return Err("`url` has no host".to_owned());
        };
        let mut warnings = Vec::new();
        match host {
            _ if is_local => warnings.push(UrlWarning::Loopback),
            Host::Domain(name) => warn_about_domain(name, &mut warnings),
            Host::Ipv4(_) | Host::Ipv6(_) => warnings.push(UrlWarning::IpAddress),
        }
        if url.as_str().len() > LONG_URL_BYTES {
            warnings.push(UrlWarning::Long);
        }
        Ok(Self {
            host: name.to_owned(),
            warnings,
            elicitation_id: None,
            url: url.into(),
        })
    }
}

fn warn_about_domain(domain: &str, warnings: &mut Vec<UrlWarning>) {
    let is_punycode = |label: &str| label.starts_with("xn--");
    if !domain.split('.').any(is_punycode) {
        return;
    }
    let unicode = url::quirks::domain_to_unicode(domain);
    if unicode.split('.').any(mixes_scripts) {
        warnings.push(UrlWarning::MixedScripts);
    }
    let displayed_as = switchboard_wire::text::one_line(&unicode, 256).into_owned();
    warnings.push(UrlWarning::InternationalizedHost { displayed_as });
}

/// Whether a label of a host name contains both Latin and other letters. Latin letters with accents
/// count as Latin.
fn mixes_scripts(label: &str) -> bool {
    const LAST_LATIN: char = '\u{24f}';
    let letters = || label.chars().filter(|letter| letter.is_alphabetic());
    letters().any(|letter| letter <= LAST_LATIN) && letters().any(|letter| letter > LAST_LATIN)
}
