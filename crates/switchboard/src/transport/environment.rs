//! Which environment variables a child gets.
//!
//! Pure. Invariant: a variable of ours reaches a child only by this list, by the entry's
//! `inheritEnv`, or by the entry's `env`. (The mark that tells whose child it is comes on top, see
//! [`MARKER_VARIABLE`](switchboard_process::MARKER_VARIABLE).)

use std::collections::BTreeMap;

use switchboard_config::{InheritEnv, StdioConfig};

/// What programs need to find their way, and nothing that is a secret.
const PASSED_ON: [&str; 19] = [
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

/// Families of such names: locale, XDG folders, and the settings of package runners.
const PASSED_ON_PREFIXES: [&str; 5] = ["LC_", "XDG_", "npm_config_", "PIP_", "UV_"];

/// The variables of the host process, as far as they were passed in.
pub(crate) type Variables = BTreeMap<String, String>;

/// The whole environment of a child.
pub(crate) fn for_child(ours: &Variables, config: &StdioConfig) -> Variables {
    let inherited = ours
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

pub(crate) fn is_inherited(name: &str, inherit: &InheritEnv) -> bool {
    match inherit {
        InheritEnv::All => true,
        InheritEnv::Also(names) if names.iter().any(|also| also == name) => true,
        _ => is_passed_on(name),
    }
}

fn is_passed_on(name: &str) -> bool {
    let upper = name.to_ascii_uppercase();
    let is_proxy = upper.ends_with("_PROXY") && PASSED_ON.contains(&upper.as_str());
    is_proxy
        || PASSED_ON.contains(&name)
        || PASSED_ON_PREFIXES
            .iter()
            .any(|prefix| name.starts_with(prefix))
}

/// The first variable that a dying child names in its last words and that we have but withheld.
pub(crate) fn named_but_withheld(
    words: &str,
    ours: &Variables,
    config: &StdioConfig,
) -> Option<String> {
    words
        .split(|letter: char| !(letter.is_ascii_alphanumeric() || letter == '_'))
        .filter(|word| word.len() > 2 && word.bytes().any(|byte| byte.is_ascii_uppercase()))
        .find(|word| {
            ours.contains_key(*word)
                && !config.env.contains_key(*word)
                && !is_inherited(word, &config.inherit_env)
        })
        .map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ours() -> Variables {
        [
            "PATH",
            "LC_ALL",
            "npm_config_registry",
            "https_proxy",
            "AWS_SECRET_ACCESS_KEY",
            "EXTRA",
        ]
        .into_iter()
        .map(|name| (name.to_owned(), format!("our {name}")))
        .collect()
    }

    fn names(config: &StdioConfig) -> Vec<String> {
        for_child(&ours(), config).into_keys().collect()
    }

    #[test]
    fn a_child_gets_the_list_and_what_its_entry_says_and_no_more() {
        let mut config = StdioConfig::new("x");
        assert_eq!(
            names(&config),
            ["LC_ALL", "PATH", "https_proxy", "npm_config_registry"]
        );

        config.env.insert("TOKEN".into(), "t".into());
        config.env.insert("PATH".into(), "/mine".into());
        config.inherit_env = InheritEnv::Also(vec!["EXTRA".into()]);
        let child = for_child(&ours(), &config);
        assert_eq!(child["PATH"], "/mine");
        assert_eq!(child["EXTRA"], "our EXTRA");
        assert_eq!(child["TOKEN"], "t");
        assert!(!child.contains_key("AWS_SECRET_ACCESS_KEY"));

        config.inherit_env = InheritEnv::All;
        assert!(names(&config).contains(&"AWS_SECRET_ACCESS_KEY".to_owned()));
    }

    #[test]
    fn a_withheld_variable_that_the_child_names_is_found() {
        let words = "Error: AWS_SECRET_ACCESS_KEY is not set; see PATH";
        let config = StdioConfig::new("x");
        let found = named_but_withheld(words, &ours(), &config);
        assert_eq!(found.as_deref(), Some("AWS_SECRET_ACCESS_KEY"));
        assert_eq!(
            named_but_withheld("NOT_OURS is missing", &ours(), &config),
            None
        );
    }
}
