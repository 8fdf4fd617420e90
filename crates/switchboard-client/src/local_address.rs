//! Recognizes host names and addresses of this machine.

use url::Host;

/// Returns whether a host is `localhost` (in upper or lower case, also with a trailing dot) or a
/// loopback address.
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
