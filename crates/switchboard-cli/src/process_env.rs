//! Environment variables, arguments and directories of this process.
//!
//! Does not parse command-line options: the callers pass the two options that decide which config
//! files are read as a [`ConfigSelection`]. Invariant: no other module of this crate reads
//! environment variables itself.

use std::collections::{BTreeMap, HashMap};
use std::path::PathBuf;

use etcetera::BaseStrategy as _;
use switchboard::content::for_terminal;
use switchboard_config::{
    BaseDirs, ConfigSource, ConfigSources, LoadedConfig, ScopePaths, load_names_only, managed_dir,
};

use crate::failure::{Failure, Kind};
use crate::server_cache::FileServerCache;

/// Environment variables and command-line arguments.
#[derive(Debug)]
pub(crate) struct ProcessEnv {
    /// The variables whose name and value are UTF-8. The others are left out, because config
    /// values and messages are text.
    pub(crate) variables: BTreeMap<String, String>,
    /// The arguments after the program's name.
    pub(crate) argv: Vec<String>,
}

/// The two options that decide which config files are read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct ConfigSelection {
    /// Values of `--mcp-config`: paths or JSON text.
    pub(crate) mcp_config: Vec<String>,
    /// Whether `--strict-mcp-config` excludes the files of the local, project and user scopes.
    pub(crate) strict: bool,
}

impl ProcessEnv {
    #[expect(
        clippy::disallowed_methods,
        reason = "this is the only place in the CLI that reads the environment"
    )]
    pub(crate) fn read() -> Self {
        let as_text = |(name, value): (std::ffi::OsString, std::ffi::OsString)| {
            Some((name.into_string().ok()?, value.into_string().ok()?))
        };
        Self {
            variables: std::env::vars_os().filter_map(as_text).collect(),
            argv: std::env::args_os()
                .skip(1)
                .map(|word| word.to_string_lossy().into_owned())
                .collect(),
        }
    }

    /// Loads the configured servers, opens the server cache and finds the current directory. `None`
    /// if a directory cannot be found. Prints nothing and starts nothing.
    pub(crate) fn load_for_completion(
        &self,
        selection: &ConfigSelection,
    ) -> Option<(LoadedConfig, FileServerCache, PathBuf)> {
        let (base_dirs, _) = find_base_dirs(&self.variables).ok()?;
        let cache = FileServerCache::new(base_dirs.state.join("servers"));
        let directory = std::env::current_dir().ok()?;
        let paths = ScopePaths::find(&directory, base_dirs);
        let environment: HashMap<_, _> = self.variables.clone().into_iter().collect();
        let loaded = load_names_only(&sources(selection, &paths), &environment);
        Some((loaded, cache, directory))
    }

    /// The value of a variable; `None` if it is unset or empty.
    pub(crate) fn nonempty_variable(&self, name: &str) -> Option<&str> {
        let text = self.variables.get(name)?;
        Some(text.as_str()).filter(|text| !text.is_empty())
    }
}

/// The config sources in effect: those of every scope, and those of `--mcp-config`.
pub(crate) fn sources(selection: &ConfigSelection, paths: &ScopePaths) -> ConfigSources {
    let named = selection.mcp_config.iter();
    ConfigSources {
        command_line: named
            .map(|text| ConfigSource::from_argument(text))
            .collect(),
        strict: selection.strict,
        ..paths.sources()
    }
}

/// Finds the directories for config and state, and the cache directory.
pub(crate) fn find_base_dirs(
    variables: &BTreeMap<String, String>,
) -> Result<(BaseDirs, PathBuf), Failure> {
    let base = etcetera::base_strategy::choose_native_strategy().map_err(|_| {
        Failure::new(Kind::Config, "cannot determine the home directory").hint("set HOME")
    })?;
    // A relative HOME could name a directory in the project. Files of the project would then count
    // as the user's.
    if !base.home_dir().is_absolute() {
        let message = format!(
            "HOME is not an absolute path: {}",
            for_terminal(&base.home_dir().to_string_lossy())
        );
        return Err(
            Failure::new(Kind::Config, message).hint("set HOME to a path that starts with /")
        );
    }
    let state = base.state_dir().unwrap_or_else(|| base.data_dir());
    let base_dirs = BaseDirs {
        home: base.home_dir().to_owned(),
        config: base.config_dir().join("switchboard"),
        state: state.join("switchboard"),
        managed: find_managed_dir(variables),
    };
    Ok((base_dirs, base.cache_dir().join("switchboard")))
}

/// Returns the directory with the administrator's config. Tests override it with a variable, which
/// only debug builds read: otherwise a user could escape the administrator's rules.
fn find_managed_dir(variables: &BTreeMap<String, String>) -> PathBuf {
    let test_path = variables.get("SWITCHBOARD_TEST_MANAGED");
    match test_path.filter(|_| cfg!(debug_assertions)) {
        Some(path) => PathBuf::from(path),
        None => managed_dir(),
    }
}
