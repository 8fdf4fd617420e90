//! Everything one command needs: environment, directories, config, trust, settings, console.
//!
//! The library crates do not look for any of these; the commands pass them on from here. Invariant:
//! an invalid environment variable leads to a warning, not to an error. Only a missing home or
//! current directory and a relative `HOME` are fatal.

mod host_builder;

use std::collections::{BTreeMap, HashMap};
use std::io::{self, IsTerminal as _};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Once};

use switchboard::cache::{ServerCache as _, server_cache_key};
use switchboard::content::{ResultHandle, for_terminal};
use switchboard::mcp::ToolDefinition;
use switchboard::permission::{Policy, Rule, RuleScope};
use switchboard_config::import::{ImportContext, Platform};
use switchboard_config::{
    Approvals, ApprovalsFile, BaseDirs, ConfigSnapshot, Diagnostic, DisabledServer, LaunchDecision,
    LoadedConfig, PolledFiles, ProjectRules, ReloadThread, Scope, ScopePaths, ServerEntry,
    ServerName, Settings, Severity, Trust, can_match_mcp_tool, load, load_settings,
};

use crate::args::{GlobalArgs, RuleArg};
use crate::charset::Charset;
use crate::engine_settings;
use crate::failure::{Failure, Kind};
use crate::find_program;
use crate::private_file::create_private;
use crate::process_env::{ProcessEnv, find_base_dirs, sources};
use crate::process_guard::ProcessGuard;
use crate::render::style::Style;
use crate::render::{Console, Format, Verbosity};
use crate::server_cache::FileServerCache;
use crate::terminal::Terminal;
use crate::trace::TraceFile;
use switchboard::content::quote_for_shell;

/// Environment, flags, directories and shared resources of one run of the program.
#[derive(Debug)]
pub(crate) struct Context {
    pub(crate) console: Console,
    flags: GlobalArgs,
    /// The arguments after the program's name.
    argv: Vec<String>,
    /// The variables of this process, and those of `env` in the settings.
    variables: BTreeMap<String, String>,
    directory: PathBuf,
    base_dirs: BaseDirs,
    cache: PathBuf,
    rules: Vec<Rule>,
    trace: Option<Arc<TraceFile>>,
    process_guard: ProcessGuard,
    /// Ensures that old stored results are cleaned up only once per run, even with several hosts.
    cleanup_started: Once,
}

/// The configured servers, and which of them may run.
#[derive(Debug)]
pub(crate) struct LoadedServers {
    pub(crate) loaded: LoadedConfig,
    pub(crate) trust: Trust,
    pub(crate) settings: Settings,
}

impl Context {
    pub(crate) fn new(
        flags: GlobalArgs,
        env: ProcessEnv,
        console: Console,
    ) -> Result<Self, Failure> {
        let rules = flags.rules.0.iter().map(|rule| {
            let RuleArg { action, pattern } = rule;
            if !can_match_mcp_tool(pattern) {
                let message = format!("--{action} {pattern}: pattern matches no MCP tool");
                return Err(Failure::usage(message)
                    .hint(format!("did you mean --{action} mcp__{pattern}?")));
            }
            Rule::new(*action, pattern)
                .map(|rule| rule.scope(RuleScope::CommandLine))
                .map_err(|error| Failure::usage(format!("--{action}: {error}")))
        });
        let rules = rules.collect::<Result<_, _>>()?;
        let trace = flags.trace.as_deref().map(|path| -> Result<_, Failure> {
            let trace = create_private(path)?;
            Ok(Arc::new(TraceFile::new(trace)))
        });
        let (base_dirs, cache) = find_base_dirs(&env.variables)?;
        check_home(&env, &base_dirs, &cache, &console)?;
        let directory = std::env::current_dir().map_err(|error| {
            Failure::new(
                Kind::Config,
                format!("current directory no longer exists: {error}"),
            )
        })?;
        let paths = ScopePaths::find(&directory, base_dirs.clone());
        let settings = load_settings(&paths, &engine_settings::RULE_VALIDATOR);
        let mut variables = env.variables;
        variables.extend(settings.variables());
        Ok(Self {
            trace: trace.transpose()?,
            process_guard: ProcessGuard::begin(base_dirs.state.join("hosts")),
            console,
            directory,
            base_dirs,
            cache,
            argv: env.argv,
            variables,
            rules,
            flags,
            cleanup_started: Once::new(),
        })
    }

    /// The value of an environment variable; `None` if it is unset or empty.
    pub(crate) fn nonempty_variable(&self, name: &str) -> Option<&str> {
        let text = self.variables.get(name)?;
        Some(text.as_str()).filter(|text| !text.is_empty())
    }

    /// The file that a stdio server with this command would run.
    pub(crate) fn program(&self, command: &str, directory: Option<&Path>) -> Option<PathBuf> {
        let directory = self.directory.join(directory.unwrap_or(Path::new("")));
        find_program::find(command, self.nonempty_variable("PATH"), &directory)
    }

    /// The permission policy of this run.
    pub(crate) fn policy(&self, servers: &LoadedServers) -> Policy {
        Policy::new(self.rules(servers))
    }

    /// The tools in the server's cached listing. Empty if nothing is cached, or if the entry may
    /// not be started even with `--trust-project`.
    pub(crate) fn cached_tools(&self, entry: &ServerEntry) -> Vec<ToolDefinition> {
        // The launch spec is only needed for the cache key; no server is launched.
        let LaunchDecision::Launch(spec) = entry.decide_launch(&Trust::project_for_this_run())
        else {
            return Vec::new();
        };
        let tools = server_cache_key(&spec, Some(&self.directory))
            .and_then(|key| self.server_cache().tools(&key));
        tools.unwrap_or_default()
    }

    /// The current directory.
    pub(crate) fn directory(&self) -> &Path {
        &self.directory
    }

    pub(crate) fn server_cache(&self) -> FileServerCache {
        FileServerCache::new(self.base_dirs.state.join("servers"))
    }

    /// The file paths of each scope.
    pub(crate) fn scope_paths(&self) -> ScopePaths {
        ScopePaths::find(&self.directory, self.base_dirs.clone())
    }

    /// The value of an environment variable.
    pub(crate) fn variable(&self, name: &str) -> Option<String> {
        self.variables.get(name).cloned()
    }

    /// Watches the files that hold servers, settings and approvals.
    pub(crate) fn watch_config(
        &self,
        on_change: impl FnMut(ConfigSnapshot) + Send + 'static,
    ) -> Result<ReloadThread, Failure> {
        let (directory, base_dirs) = (self.directory.clone(), self.base_dirs.clone());
        let selection = self.flags.config_selection();
        let targets = move || {
            // Find the paths on each poll: the current directory may become part of a project
            // later.
            let paths = ScopePaths::find(&directory, base_dirs.clone());
            let scopes = [Scope::Managed, Scope::Local, Scope::Project, Scope::User];
            let settings = scopes.map(|scope| paths.settings_file(scope));
            PolledFiles {
                others: settings
                    .into_iter()
                    .flatten()
                    .chain(paths.enclosing_settings_files())
                    .chain([paths.approvals_file()])
                    .collect(),
                sources: sources(&selection, &paths),
            }
        };
        Ok(ReloadThread::spawn(targets, self.environment(), on_change)?)
    }

    fn environment(&self) -> HashMap<String, String> {
        self.variables.clone().into_iter().collect()
    }

    /// Runs `import` with the paths and variables that locate the files of other MCP clients. If
    /// `scope` is given, all entries are imported to this scope.
    pub(crate) fn with_import_context<T>(
        &self,
        scope: Option<Scope>,
        import: impl FnOnce(&ImportContext<'_>) -> T,
    ) -> T {
        let paths = self.scope_paths();
        import(&ImportContext {
            platform: Platform::current(),
            home: &self.base_dirs.home,
            project_dir: paths.project().unwrap_or(&self.directory),
            environment: &|name: &str| self.variables.get(name).cloned(),
            scope,
        })
    }

    /// Makes a path from the command line absolute.
    pub(crate) fn absolute(&self, path: &Path) -> PathBuf {
        self.directory.join(path)
    }

    /// Whether `--trust-project` was given.
    pub(crate) fn trusts_project(&self) -> bool {
        self.flags.trust_project
    }

    /// Loads the config. If `--mcp-config` is unusable, or if the config has problems and no
    /// entries, prints the problems and returns an error. Otherwise the command decides which
    /// problems to print.
    pub(crate) fn load_servers(&self) -> Result<LoadedServers, Failure> {
        let loaded = load_config(&self.flags, &self.variables, &self.scope_paths());
        let unusable_source = loaded.diagnostics.iter().any(|diagnostic| {
            diagnostic.severity == Severity::Error && diagnostic.server.is_none()
        });
        let problem = if unusable_source {
            Some("cannot use the value of --mcp-config")
        } else if loaded.config.servers.is_empty() && !loaded.diagnostics.is_empty() {
            Some("no valid server entries")
        } else {
            None
        };
        if let Some(problem) = problem {
            self.console.diagnose(&loaded.diagnostics);
            return Err(Failure::new(Kind::Config, problem).diagnostics(loaded.diagnostics));
        }
        Ok(self.with_trust(loaded))
    }

    /// Adds the settings, the recorded approvals and the administrator's policy to a loaded config.
    pub(crate) fn with_trust(&self, mut loaded: LoadedConfig) -> LoadedServers {
        let trust = if self.flags.trust_project {
            Trust::project_for_this_run()
        } else {
            Trust::none()
        };
        let settings = self.load_settings();
        loaded.diagnostics.extend(self.scope_paths().diagnostic());
        let trust = trust
            .with_approvals(self.approvals_for(&mut loaded))
            .with_policy(settings.policy.clone());
        let local_settings = self.scope_paths().settings_file(Scope::Local);
        LoadedServers::new(loaded, trust, settings, local_settings.as_deref())
    }

    /// Loads the settings of all scopes.
    pub(crate) fn load_settings(&self) -> Settings {
        load_settings(&self.scope_paths(), &engine_settings::RULE_VALIDATOR)
    }

    /// The permission rules of the command line, followed by those of the settings.
    pub(crate) fn rules(&self, servers: &LoadedServers) -> Vec<Rule> {
        let from_settings =
            engine_settings::rules(&servers.settings, &servers.trusted_project_servers());
        self.rules.iter().cloned().chain(from_settings).collect()
    }

    /// The file with recorded approvals and rejections.
    pub(crate) fn approvals_file(&self) -> ApprovalsFile {
        ApprovalsFile::at(self.scope_paths().approvals_file())
    }

    /// The recorded approvals. Empty if the config has no server of project scope. Also empty, with
    /// a diagnostic, if the file cannot be read.
    fn approvals_for(&self, loaded: &mut LoadedConfig) -> Approvals {
        let mut servers = loaded.config.servers.iter();
        if !servers.any(|entry| entry.scope() == Scope::Project) {
            return Approvals::default();
        }
        let file = self.approvals_file();
        file.read().unwrap_or_else(|error| {
            loaded.diagnostics.push(error.diagnostic(&file));
            Approvals::default()
        })
    }

    /// Removes the host records. Call this after every host has shut down and before the hosts are
    /// dropped.
    pub(crate) fn on_hosts_shut_down(&self) {
        self.process_guard.release();
    }

    /// The command line of this run, quoted for a shell.
    pub(crate) fn rerun_command(&self) -> String {
        let words = self.argv.iter().map(|word| quote_for_shell(word));
        let words: Vec<_> = std::iter::once("switchboard".to_owned())
            .chain(words)
            .collect();
        words.join(" ")
    }

    /// The command line of this run with one more flag, before the command.
    pub(crate) fn rerun_with(&self, flag: &str) -> String {
        let words = self.argv.iter().map(|word| quote_for_shell(word));
        let words: Vec<_> = ["switchboard".to_owned(), flag.to_owned()]
            .into_iter()
            .chain(words)
            .collect();
        words.join(" ")
    }

    /// The file in the result store that holds the full text of a truncated result.
    pub(crate) fn stored_result_path(&self, handle: &ResultHandle) -> PathBuf {
        self.result_store().path(handle)
    }
}

/// Fails if the home directory does not exist and a directory of this program would be created in
/// it. Says which home directory is used if HOME is not set.
fn check_home(
    env: &ProcessEnv,
    dirs: &BaseDirs,
    cache: &Path,
    console: &Console,
) -> Result<(), Failure> {
    let home = dirs.home.as_path();
    if env.nonempty_variable("HOME").is_none() {
        let home = for_terminal(&home.to_string_lossy()).into_owned();
        console.note(&format!("HOME is not set; using {home}"));
    }
    let is_used = [dirs.config.as_path(), &dirs.state, cache]
        .iter()
        .any(|directory| directory.starts_with(home));
    if !is_used || home.is_dir() {
        return Ok(());
    }
    let message = format!(
        "the home directory {} does not exist",
        for_terminal(&home.to_string_lossy())
    );
    Err(Failure::new(Kind::Config, message).hint("create it, or set HOME to an existing directory"))
}

fn load_config(
    flags: &GlobalArgs,
    variables: &BTreeMap<String, String>,
    paths: &ScopePaths,
) -> LoadedConfig {
    let environment: HashMap<_, _> = variables.clone().into_iter().collect();
    load(&sources(&flags.config_selection(), paths), &environment)
}

/// How to enable a server that a settings file disables. `switchboard enable` edits the local
/// settings of this project only.
fn enable_hint(disabled: &DisabledServer, local_settings: Option<&Path>) -> String {
    if disabled.origin.file.as_deref() == local_settings {
        return format!("switchboard enable {}", quote_for_shell(&disabled.name));
    }
    match disabled.scope {
        Scope::Managed => "ask your administrator".to_owned(),
        scope => format!("remove it from `disabledServers` in the {scope} settings"),
    }
}

impl LoadedServers {
    /// Marks the entries that settings files disable, passes the variables of the settings to stdio
    /// servers, and combines the parts.
    fn new(
        mut loaded: LoadedConfig,
        trust: Trust,
        settings: Settings,
        local_settings: Option<&Path>,
    ) -> Self {
        let names: Vec<String> = settings.variables().into_keys().collect();
        for entry in &mut loaded.config.servers {
            if !names.is_empty() {
                entry.inherit_variables(&names);
            }
            let mut disabled = settings.disabled.iter();
            if let Some(found) = disabled.find(|found| found.name == entry.name().as_str()) {
                entry.set_disabled_by(found.origin.clone(), enable_hint(found, local_settings));
            }
        }
        Self {
            loaded,
            trust,
            settings,
        }
    }

    /// The servers that the project's allow rules apply to. Each server is defined in the project's
    /// file, and is approved or trusted by `--trust-project`.
    fn trusted_project_servers(&self) -> Vec<ServerName> {
        let entries = self.loaded.config.servers.iter();
        let trusted = entries.filter(|entry| self.is_trusted_project_server(entry));
        trusted.map(|entry| entry.name().clone()).collect()
    }

    fn is_trusted_project_server(&self, entry: &ServerEntry) -> bool {
        entry.scope() == Scope::Project
            && matches!(entry.decide_launch(&self.trust), LaunchDecision::Launch(_))
    }

    /// Counts the allow rules of the project that do not apply to this server.
    pub(crate) fn ignored_project_allows(&self, entry: &ServerEntry) -> usize {
        if self.is_trusted_project_server(entry) {
            return 0;
        }
        let all = self.settings.rules(ProjectRules::All).count();
        all - self.settings.rules(ProjectRules::RestrictionsOnly).count()
    }

    /// Prints all problems of config and settings.
    pub(crate) fn diagnose(&self, console: &Console) {
        console.diagnose(&self.loaded.diagnostics);
        console.diagnose(&self.settings.diagnostics);
        if !self.settings.blocking_errors.is_empty() {
            console.note("all calls are blocked until the settings are fixed");
        }
    }

    /// All problems of config files and settings files.
    pub(crate) fn diagnostics(&self) -> Vec<&Diagnostic> {
        let settings = self.settings.diagnostics.iter();
        self.loaded.diagnostics.iter().chain(settings).collect()
    }

    /// Prints the problems of this entry, of the config files and of the settings files. Does not
    /// print the problems of other entries.
    pub(crate) fn diagnose_one(&self, entry: &ServerEntry, console: &Console) {
        for diagnostic in &self.loaded.diagnostics {
            if diagnostic
                .server
                .as_ref()
                .is_none_or(|server| server == entry.name())
            {
                console.diagnose(std::slice::from_ref(diagnostic));
            }
        }
        console.diagnose(&self.settings.diagnostics);
    }
}

/// Columns and rows of the terminal on stdout; `None` if stdout is no terminal.
pub(crate) fn stdout_size() -> Option<(usize, usize)> {
    let (columns, rows) = terminal_size::terminal_size_of(io::stdout())?;
    Some((usize::from(columns.0), usize::from(rows.0)))
}

/// Chooses format, colours and widths of the output from environment, flags and terminal.
pub(crate) fn console_for(env: &ProcessEnv, flags: &GlobalArgs) -> Console {
    Charset::of_locale(|name| env.nonempty_variable(name)).select();
    let is_dumb = env.nonempty_variable("TERM") == Some("dumb");
    let is_plain = env.nonempty_variable("NO_COLOR").is_some() || is_dumb;
    let style = |is_terminal: bool| {
        if is_terminal && !is_plain {
            Style::Coloured
        } else {
            Style::Plain
        }
    };
    let stderr_is_terminal = io::stderr().is_terminal();
    let columns = |(columns, _): (terminal_size::Width, _)| usize::from(columns.0);
    Console {
        format: if flags.json {
            Format::Json
        } else {
            Format::Text
        },
        verbosity: match flags {
            GlobalArgs { quiet: true, .. } => Verbosity::Quiet,
            GlobalArgs { verbose: 1.., .. } => Verbosity::Verbose,
            _ => Verbosity::Normal,
        },
        style: style(io::stdout().is_terminal()),
        stderr_style: style(stderr_is_terminal),
        columns: stdout_size().map(|(columns, _)| columns),
        stderr_columns: terminal_size::terminal_size_of(io::stderr()).map(columns),
        shows_progress: stderr_is_terminal && !is_dumb,
        can_ask: stderr_is_terminal && io::stdin().is_terminal(),
        terminal: Terminal::default(),
    }
}
