//! Computes the cache key of a server: a hash of the name and of the launched program or the URL.
//!
//! Invariant: the key changes when the entry launches another program or connects to another
//! endpoint. It does not change when only the value of a `${VARIABLE}` in `env` or `headers`
//! changes.

use std::fmt::Write as _;
use std::path::Path;

use serde_json::Value;
use sha2::{Digest, Sha256};
use switchboard_config::{LaunchSpec, Scope, Secret, StdioConfig, TransportConfig};

/// Length of a cache key in bytes. The key has twice as many hexadecimal digits.
const KEY_BYTES: usize = 16;

/// Returns the key under which a [`ServerCache`](super::ServerCache) stores the era and the tools
/// of a server. `None` for in-process servers, which are not cached.
///
/// `working_directory` is the value of
/// [`HostBuilder::working_directory`](crate::HostBuilder::working_directory).
pub fn server_cache_key(spec: &LaunchSpec, working_directory: Option<&Path>) -> Option<String> {
    let identity = match &spec.config().transport {
        TransportConfig::Stdio(config) => program_identity(spec, config, working_directory),
        _ => remote_identity(spec)?,
    };
    let mut hash = Sha256::new();
    for text in identity {
        hash.update(text.len().to_le_bytes());
        hash.update(text.as_bytes());
    }
    let digest = hash.finalize();
    let mut key = String::new();
    for byte in digest.iter().take(KEY_BYTES) {
        // Writing to a string cannot fail.
        let _ = write!(key, "{byte:02x}");
    }
    Some(key)
}

/// The values from which the key of a stdio server is computed: server name, command, arguments,
/// environment variables and directories.
fn program_identity(
    spec: &LaunchSpec,
    config: &StdioConfig,
    working_directory: Option<&Path>,
) -> Vec<String> {
    let mut parts = vec![spec.name().to_string(), config.command.clone()];
    parts.push(config.args.len().to_string());
    parts.extend(config.args.iter().cloned());
    parts.push(config.env.len().to_string());
    for (key, value) in unexpanded_env(spec, config) {
        parts.extend([key.to_owned(), value.to_owned()]);
    }
    let base = base_directory(spec, config, working_directory);
    for directory in [config.cwd.as_deref(), base] {
        let directory = directory.map(Path::to_string_lossy).unwrap_or_default();
        parts.push(directory.into_owned());
    }
    parts
}

/// The values from which the key of a remote server is computed: the server name, the URL, the
/// transport, the headers, the TLS files and the headers helper. For a claude.ai server, only the
/// server name, the URL and the id. `None` for in-process servers.
fn remote_identity(spec: &LaunchSpec) -> Option<Vec<String>> {
    let mut parts = vec![spec.name().to_string()];
    match &spec.config().transport {
        TransportConfig::Remote(remote) => {
            parts.push(remote.url.clone());
            parts.push(format!("{:?}", remote.kind));
            let written = spec.masked_entry().as_object().get("headers");
            for (name, value) in &remote.headers {
                parts.push(name.to_ascii_lowercase());
                parts.push(unexpanded_value(written, name, value).to_owned());
            }
            let files = [&remote.tls.ca, &remote.tls.cert, &remote.tls.key];
            let files = files.map(|file| file.as_deref().unwrap_or("".as_ref()));
            parts.extend(files.map(|file| file.to_string_lossy().into_owned()));
            parts.extend(remote.headers_helper.clone());
        }
        TransportConfig::ClaudeAiProxy { url, id } => parts.extend([url.clone(), id.clone()]),
        _ => return None,
    }
    Some(parts)
}

/// The names and values of `env` in the entry. A value that contains a `${VARIABLE}` reference is
/// not expanded, so a new token in that variable does not change the key.
fn unexpanded_env<'a>(
    spec: &'a LaunchSpec,
    config: &'a StdioConfig,
) -> impl Iterator<Item = (&'a str, &'a str)> {
    let written = spec.masked_entry().as_object().get("env");
    config
        .env
        .iter()
        .map(move |(key, value)| (key.as_str(), unexpanded_value(written, key, value)))
}

/// Returns the text of the member `key` in `written` if it contains a `${VARIABLE}` reference, else
/// `value`, which is the expanded text.
fn unexpanded_value<'a>(written: Option<&'a Value>, key: &str, value: &'a Secret) -> &'a str {
    let reference = written.and_then(|members| members.get(key)?.as_str());
    // `written` comes from the masked entry, in which references are readable and literal values
    // are masked.
    let reference = reference.filter(|text| text.contains("${"));
    reference.unwrap_or_else(|| value.expose())
}

/// Returns the directory that is a part of the key. For the project and local scope, this is the
/// directory of the config file. For other scopes, it is the working directory of the host if
/// `command` is a relative path with a slash, else `None`.
fn base_directory<'a>(
    spec: &'a LaunchSpec,
    config: &StdioConfig,
    working_directory: Option<&'a Path>,
) -> Option<&'a Path> {
    let is_relative = config.command.contains('/') && !config.command.starts_with('/');
    match spec.scope() {
        Scope::Project | Scope::Local => spec.origin().file.as_deref().and_then(Path::parent),
        _ => working_directory.filter(|_| is_relative),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use switchboard_config::{ConfigSources, LaunchDecision, Trust, load};

    use super::*;

    /// Writes `entry` to a project file in `root` and returns the cache key of that server. The
    /// variable `TOKEN` has the value `token`.
    fn key(root: &Path, entry: &str, token: &str) -> String {
        std::fs::create_dir_all(root).unwrap();
        let file = root.join(".mcp.json");
        std::fs::write(&file, format!(r#"{{"mcpServers":{{"n":{entry}}}}}"#)).unwrap();
        let sources = ConfigSources {
            project: Some(file),
            ..ConfigSources::default()
        };
        let environment = HashMap::from([("TOKEN".to_owned(), token.to_owned())]);
        let loaded = load(&sources, &environment);
        let admitted = loaded.config.servers[0].decide_launch(&Trust::project_for_this_run());
        let LaunchDecision::Launch(spec) = admitted else {
            panic!("{admitted:?}");
        };
        server_cache_key(&spec, Some(root)).unwrap()
    }

    #[test]
    fn key_depends_on_project_and_environment() {
        let folder = tempfile::tempdir().unwrap();
        let (a, b) = (folder.path().join("a"), folder.path().join("b"));
        let plain = r#"{"command":"./s","lazy":true}"#;
        assert_eq!(key(&a, plain, ""), key(&a, plain, ""));
        assert_ne!(key(&a, plain, ""), key(&b, plain, ""));
        let with = |value: &str| format!(r#"{{"command":"./s","env":{{"X":"{value}"}}}}"#);
        assert_ne!(key(&a, &with("one"), ""), key(&a, &with("two"), ""));
        // Another value of `TOKEN` does not change the key.
        let token = with("${TOKEN}");
        assert_eq!(key(&a, &token, "1"), key(&a, &token, "2"));
    }
}
