//! Selects the environment variables of a child.
//!
//! Pure functions. A child gets the inherited variables, the variables in `env` of the config
//! entry, and [`MARKER_VARIABLE`](switchboard_process::MARKER_VARIABLE), which the supervisor adds.
//! Invariant: a child inherits a variable only if [`INHERITED`] or [`INHERITED_PREFIXES`] matches
//! its name, or `inheritEnv` of the config entry allows it.

use std::collections::BTreeMap;

use switchboard_config::{InheritEnv, StdioConfig};

/// Variables that a child inherits by default because programs need them to run. The names of the
/// proxy variables also match in lower case.
const INHERITED: [&str; 19] = [
    "PATH",
    "HOME",
    "USER",
    "LOGNAME",
    "SHELL",
    "LANG",
    "TERM",
    "TMPDIR",
    "TZ",
    "SSL_CERT_FILE",
    "SSL_CERT_DIR",
    "NODE_EXTRA_CA_CERTS",
    "CARGO_HOME",
    "RUSTUP_HOME",
    "HTTP_PROXY",
    "HTTPS_PROXY",
    "NO_PROXY",
    "ALL_PROXY",
    "FTP_PROXY",
];

/// Variables with these prefixes are inherited by default, too: locale, XDG directories, settings
/// of package runners.
const INHERITED_PREFIXES: [&str; 5] = ["LC_", "XDG_", "npm_config_", "PIP_", "UV_"];

/// Environment variables by name.
pub(crate) type Variables = BTreeMap<String, String>;

/// Returns the environment of a child. Variables of the config entry win over inherited ones.
pub(crate) fn child_env(host_env: &Variables, config: &StdioConfig) -> Variables {
    let inherited = host_env
        .iter()
        .filter(|(name, _)| is_inherited(name, &config.inherit_env));
    let own = config
        .env
        .iter()
        .map(|(name, value)| (name.clone(), value.expose().to_owned()));
    inherited
        .map(|(name, value)| (name.clone(), value.clone()))
        .chain(own)
        .collect()
}

/// Whether a child inherits the variable `name`.
pub(crate) fn is_inherited(name: &str, inherit: &InheritEnv) -> bool {
    match inherit {
        InheritEnv::All => true,
        InheritEnv::Also(names) if names.iter().any(|also| also == name) => true,
        _ => is_inherited_by_default(name),
    }
}

fn is_inherited_by_default(name: &str) -> bool {
    let upper = name.to_ascii_uppercase();
    let is_proxy = upper.ends_with("_PROXY") && INHERITED.contains(&upper.as_str());
    is_proxy
        || INHERITED.contains(&name)
        || INHERITED_PREFIXES
            .iter()
            .any(|prefix| name.starts_with(prefix))
}

/// Returns the first variable in `host_env` that a failed child mentions on `stderr` and that was
/// not passed to the child.
pub(super) fn missing_variable(
    stderr: &str,
    host_env: &Variables,
    config: &StdioConfig,
) -> Option<String> {
    stderr
        .split(|character: char| !(character.is_ascii_alphanumeric() || character == '_'))
        .filter(|word| word.len() > 2 && word.bytes().any(|byte| byte.is_ascii_uppercase()))
        .find(|word| {
            host_env.contains_key(*word)
                && !config.env.contains_key(*word)
                && !is_inherited(word, &config.inherit_env)
        })
        .map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn host_env() -> Variables {
        [
            "PATH",
            "LC_ALL",
            "npm_config_registry",
            "https_proxy",
            "AWS_SECRET_ACCESS_KEY",
            "EXTRA",
        ]
        .into_iter()
        .map(|name| (name.to_owned(), format!("host {name}")))
        .collect()
    }

    fn names(config: &StdioConfig) -> Vec<String> {
        child_env(&host_env(), config).into_keys().collect()
    }

    #[test]
    fn child_gets_default_list_and_entry_variables_only() {
        let mut config = StdioConfig::new("x");
        assert_eq!(
            names(&config),
            ["LC_ALL", "PATH", "https_proxy", "npm_config_registry"]
        );

        config.env.insert("TOKEN".into(), "t".into());
        config.env.insert("PATH".into(), "/mine".into());
        config.inherit_env = InheritEnv::Also(vec!["EXTRA".into()]);
        let child = child_env(&host_env(), &config);
        assert_eq!(child["PATH"], "/mine");
        assert_eq!(child["EXTRA"], "host EXTRA");
        assert_eq!(child["TOKEN"], "t");
        assert!(!child.contains_key("AWS_SECRET_ACCESS_KEY"));

        config.inherit_env = InheritEnv::All;
        assert!(names(&config).contains(&"AWS_SECRET_ACCESS_KEY".to_owned()));
    }

    #[test]
    fn missing_variable_in_stderr_is_found() {
        let stderr = "Error: AWS_SECRET_ACCESS_KEY is not set; see PATH";
        let config = StdioConfig::new("x");
        let found = missing_variable(stderr, &host_env(), &config);
        assert_eq!(found.as_deref(), Some("AWS_SECRET_ACCESS_KEY"));
        assert_eq!(
            missing_variable("NOT_OURS is missing", &host_env(), &config),
            None
        );
    }
}
