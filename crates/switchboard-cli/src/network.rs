//! Proxies and certificates, as the environment names them.
//!
//! Read as curl and Node read them. Invariant: what is wrong with a variable is told and the variable
//! left out; no value is repeated, since there may be a password in it.

use std::collections::BTreeMap;
use std::path::PathBuf;

use switchboard::Network;

/// The network that these variables describe, and what is wrong with them.
pub(crate) fn from_variables(variables: &BTreeMap<String, String>) -> (Network, Vec<String>) {
    let mut told = Vec::new();
    let mut network = Network::new();
    let first = |names: &[&'static str]| {
        let set = names.iter().filter_map(|name| {
            let text = variables.get(*name)?.trim();
            (!text.is_empty()).then(|| (*name, text.to_owned()))
        });
        set.into_iter().next()
    };
    // Never `HTTP_PROXY`: a web server sets that for its scripts, from a header of the request.
    let plain = first(&["http_proxy", "all_proxy", "ALL_PROXY"]);
    let safe = first(&["https_proxy", "HTTPS_PROXY", "all_proxy", "ALL_PROXY"]);
    let mut try_out = |network: &mut Network, name: &str, tried: Result<Network, _>| match tried {
        Ok(with_proxy) => *network = with_proxy,
        Err::<_, switchboard::ProxyError>(error) => {
            let what = format!("{name} is left out: {error}");
            if !told.contains(&what) {
                told.push(what);
            }
        }
    };
    if let Some((name, address)) = plain {
        let tried = network.clone().http_proxy(&address);
        try_out(&mut network, name, tried);
    }
    if let Some((name, address)) = safe {
        let tried = network.clone().https_proxy(&address);
        try_out(&mut network, name, tried);
    }
    if let Some((_, exceptions)) = first(&["no_proxy", "NO_PROXY"]) {
        network = network.no_proxy(&exceptions);
    }
    // As everywhere, these two are meant instead of those of the platform.
    for name in ["SSL_CERT_FILE", "SSL_CERT_DIR"] {
        let Some((_, written)) = first(&[name]) else {
            continue;
        };
        let (found, missing): (Vec<_>, Vec<_>) = std::env::split_paths(&written)
            .filter(|path| !path.as_os_str().is_empty())
            .partition(|path| path.exists());
        if !found.is_empty() {
            network = found
                .into_iter()
                .fold(network, Network::certificates)
                .without_platform_certificates();
        }
        told.extend(missing.iter().map(|path| is_missing(name, path)));
    }
    if let Some((name, written)) = first(&["NODE_EXTRA_CA_CERTS"]) {
        let path = PathBuf::from(written);
        if path.exists() {
            network = network.certificates(path);
        } else {
            told.push(is_missing(name, &path));
        }
    }
    (network, told)
}

fn is_missing(name: &str, path: &std::path::Path) -> String {
    format!(
        "{name} is left out: there is no {}; unset it, or name a file that is there",
        path.display()
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn network(variables: &[(&str, &str)]) -> (String, Vec<String>) {
        let variables = variables.iter();
        let variables = variables.map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
        let (network, told) = from_variables(&variables.collect());
        (format!("{network:?}"), told)
    }

    #[test]
    fn proxies_are_read_as_curl_reads_them() {
        let (none, told) = network(&[("HTTP_PROXY", "http://a.example:1"), ("https_proxy", " ")]);
        assert_eq!((none, told), network(&[]));
        let (both, _) = network(&[("ALL_PROXY", "http://a.example:1")]);
        let (one, _) = network(&[
            ("ALL_PROXY", "http://a.example:1"),
            ("https_proxy", "http://b.example:2"),
            ("HTTPS_PROXY", "http://c.example:3"),
        ]);
        assert!(
            both.contains("a.example") && !both.contains("b.example"),
            "{both}"
        );
        assert!(
            one.contains("a.example") && one.contains("b.example"),
            "{one}"
        );
        assert!(!one.contains("c.example"), "{one}");
    }

    #[test]
    fn what_is_wrong_is_told_once_and_left_out() {
        let (left, told) = network(&[("all_proxy", "socks5://me:hush-hush@a.example:1")]);
        assert_eq!(left, network(&[]).0);
        assert_eq!(told.len(), 1, "{told:?}");
        assert!(told[0].starts_with("all_proxy is left out: "), "{told:?}");
        assert!(!told[0].contains("hush"), "{told:?}");
        let (_, told) = network(&[("SSL_CERT_FILE", "/nowhere/ca.pem")]);
        assert_eq!(told.len(), 1, "{told:?}");
    }
}
