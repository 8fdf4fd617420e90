//! Reads proxy and certificate variables from the environment, as curl and Node do.
//!
//! An invalid variable is ignored with a warning. Invariant: no warning contains the value of a proxy
//! variable, since it may contain a password.

use std::collections::BTreeMap;
use std::path::PathBuf;

use switchboard::network::Network;

/// The network settings in these variables, and warnings about the invalid ones.
pub(crate) fn from_variables(variables: &BTreeMap<String, String>) -> (Network, Vec<String>) {
    let mut warnings = Vec::new();
    let mut network = Network::new();
    let first = |names: &[&'static str]| {
        let set = names.iter().filter_map(|name| {
            let text = variables.get(*name)?.trim();
            (!text.is_empty()).then(|| (*name, text.to_owned()))
        });
        set.into_iter().next()
    };
    // Never `HTTP_PROXY`: in a CGI script it holds the `Proxy` header of the request.
    let for_http = first(&["http_proxy", "all_proxy", "ALL_PROXY"]);
    let for_https = first(&["https_proxy", "HTTPS_PROXY", "all_proxy", "ALL_PROXY"]);
    let mut apply = |network: &mut Network, name: &str, result: Result<Network, _>| match result {
        Ok(with_proxy) => *network = with_proxy,
        Err::<_, switchboard::network::ProxyError>(error) => {
            let warning = format!("ignoring {name}: {error}");
            if !warnings.contains(&warning) {
                warnings.push(warning);
            }
        }
    };
    if let Some((name, address)) = for_http {
        let result = network.clone().http_proxy(&address);
        apply(&mut network, name, result);
    }
    if let Some((name, address)) = for_https {
        let result = network.clone().https_proxy(&address);
        apply(&mut network, name, result);
    }
    if let Some((_, exceptions)) = first(&["no_proxy", "NO_PROXY"]) {
        network = network.no_proxy(&exceptions);
    }
    // As in OpenSSL, these two replace the platform's certificates.
    for name in ["SSL_CERT_FILE", "SSL_CERT_DIR"] {
        let Some((_, value)) = first(&[name]) else {
            continue;
        };
        let (found, missing): (Vec<_>, Vec<_>) = std::env::split_paths(&value)
            .filter(|path| !path.as_os_str().is_empty())
            .partition(|path| path.exists());
        if !found.is_empty() {
            network = found
                .into_iter()
                .fold(network, Network::certificates)
                .without_platform_certificates();
        }
        warnings.extend(missing.iter().map(|path| missing_file(name, path)));
    }
    if let Some((name, value)) = first(&["NODE_EXTRA_CA_CERTS"]) {
        let path = PathBuf::from(value);
        if path.exists() {
            network = network.certificates(path);
        } else {
            warnings.push(missing_file(name, &path));
        }
    }
    (network, warnings)
}

fn missing_file(name: &str, path: &std::path::Path) -> String {
    format!("ignoring {name}: {} does not exist", path.display())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn network(variables: &[(&str, &str)]) -> (String, Vec<String>) {
        let variables = variables.iter();
        let variables = variables.map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
        let (network, warnings) = from_variables(&variables.collect());
        (format!("{network:?}"), warnings)
    }

    #[test]
    fn proxy_variables_follow_curl() {
        let (none, warnings) =
            network(&[("HTTP_PROXY", "http://a.example:1"), ("https_proxy", " ")]);
        assert_eq!((none, warnings), network(&[]));
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
    fn invalid_variable_is_ignored_with_one_warning() {
        let (ignored, warnings) = network(&[("all_proxy", "socks5://me:hush-hush@a.example:1")]);
        assert_eq!(ignored, network(&[]).0);
        assert_eq!(warnings.len(), 1, "{warnings:?}");
        assert!(
            warnings[0].starts_with("ignoring all_proxy: "),
            "{warnings:?}"
        );
        assert!(!warnings[0].contains("hush"), "{warnings:?}");
        let (_, warnings) = network(&[("SSL_CERT_FILE", "/nowhere/ca.pem")]);
        assert_eq!(warnings.len(), 1, "{warnings:?}");
    }
}
