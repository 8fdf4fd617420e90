//! Reads proxy and certificate variables from the environment, as curl and Node do.
//!
//! An invalid variable is ignored with a warning. Invariant: no warning contains the value of a
//! proxy variable, because it may contain a password.

use std::collections::BTreeMap;
use std::path::PathBuf;

use switchboard::network::{Network, ProxyError};

type Variables = BTreeMap<String, String>;

/// Builds the network settings from environment variables. Also returns a warning for each invalid
/// variable.
pub(crate) fn from_variables(variables: &Variables) -> (Network, Vec<String>) {
    let mut warnings = Vec::new();
    let network = with_proxies(Network::new(), variables, &mut warnings);
    let network = with_certificates(network, variables, &mut warnings);
    (network, warnings)
}

/// Returns the name and value of the first variable that is set and not blank.
fn first_set(variables: &Variables, names: &[&'static str]) -> Option<(&'static str, String)> {
    names.iter().find_map(|name| {
        let value = variables.get(*name)?.trim();
        (!value.is_empty()).then(|| (*name, value.to_owned()))
    })
}

fn with_proxies(
    mut network: Network,
    variables: &Variables,
    warnings: &mut Vec<String>,
) -> Network {
    let mut apply = |network: &mut Network, name: &str, result: Result<Network, ProxyError>| {
        match result {
            Ok(with_proxy) => *network = with_proxy,
            Err(error) => {
                let warning = format!("ignoring {name}: {error}");
                // `all_proxy` applies to `http` and `https`, so the same warning may occur twice.
                if !warnings.contains(&warning) {
                    warnings.push(warning);
                }
            }
        }
    };
    // Do not read `HTTP_PROXY`: in a CGI script it holds the `Proxy` header of the HTTP request.
    let for_http = ["http_proxy", "all_proxy", "ALL_PROXY"];
    if let Some((name, address)) = first_set(variables, &for_http) {
        let result = network.clone().http_proxy(&address);
        apply(&mut network, name, result);
    }
    let for_https = ["https_proxy", "HTTPS_PROXY", "all_proxy", "ALL_PROXY"];
    if let Some((name, address)) = first_set(variables, &for_https) {
        let result = network.clone().https_proxy(&address);
        apply(&mut network, name, result);
    }
    match first_set(variables, &["no_proxy", "NO_PROXY"]) {
        Some((_, exceptions)) => network.no_proxy(&exceptions),
        None => network,
    }
}

fn with_certificates(
    mut network: Network,
    variables: &Variables,
    warnings: &mut Vec<String>,
) -> Network {
    // As in OpenSSL, the certificates in `SSL_CERT_FILE` and `SSL_CERT_DIR` replace those of the
    // platform.
    for name in ["SSL_CERT_FILE", "SSL_CERT_DIR"] {
        let Some((_, value)) = first_set(variables, &[name]) else {
            continue;
        };
        let (existing, missing): (Vec<_>, Vec<_>) = std::env::split_paths(&value)
            .filter(|path| !path.as_os_str().is_empty())
            .partition(|path| path.exists());
        if !existing.is_empty() {
            network = existing
                .into_iter()
                .fold(network, Network::certificates)
                .without_platform_certificates();
        }
        warnings.extend(missing.iter().map(|path| missing_file_warning(name, path)));
    }
    if let Some((name, value)) = first_set(variables, &["NODE_EXTRA_CA_CERTS"]) {
        let path = PathBuf::from(value);
        if path.exists() {
            network = network.certificates(path);
        } else {
            warnings.push(missing_file_warning(name, &path));
        }
    }
    network
}

fn missing_file_warning(name: &str, path: &std::path::Path) -> String {
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
