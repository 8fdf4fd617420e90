//! What a session with the CLI is to be like.
//!
//! Names follow the official SDKs. [`Options`] only holds what was said; `arguments` makes the command
//! line of it, `initialize` the first request, `words` the lists of values.
//!
//! Invariant: `Debug` shows no value of the environment, and no secret of a server reaches the command
//! line, which everybody on the machine can read.
//!
//! ```
//! use switchboard_claude::{McpServerConfig, Options, PermissionMode};
//!
//! let options = Options::new()
//!     .mcp_server("files", McpServerConfig::stdio("npx", ["-y", "some-server"]))
//!     .allowed_tools(["Read", "mcp__files__read_file"])
//!     .permission_mode(PermissionMode::AcceptEdits)
//!     .max_turns(10)
//!     .cwd("/srv/project");
//! ```

mod arguments;
mod initialize;
#[cfg(test)]
mod tests;
mod words;

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Map, Value};
use switchboard::permission::Rule;
use switchboard::{Instance, Interaction};

pub(crate) use arguments::{CommandLine, WITHHELD};
pub use words::{PermissionMode, SettingSource};

use crate::hooks::Hooks;
use crate::permission::{Callback, PermissionResult, Permissions, ToolPermissionRequest};
use crate::servers::McpServerConfig;

/// How long the CLI may take to answer a request.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(60);
/// How long a line of the CLI's may be, in bytes: results of tools are in them, twice.
const LONGEST_LINE: usize = 64 * 1024 * 1024;
/// How long a tool of this program may take.
const CALL_TIMEOUT: Duration = Duration::from_secs(10 * 60);

/// What is done with each line that the CLI writes to its standard error.
pub(crate) type StderrCallback = Arc<dyn Fn(&str) + Send + Sync>;

/// What a session with the CLI is to be like. Everything has a default.
#[derive(Clone)]
pub struct Options {
    servers: Vec<(String, McpServerConfig)>,
    allowed_tools: Vec<String>,
    disallowed_tools: Vec<String>,
    /// The built-in tools, if not all of them.
    tools: Option<Vec<String>>,
    permission_mode: Option<PermissionMode>,
    can_use_tool: Option<Callback>,
    rules: Vec<Rule>,
    interaction: Option<Arc<dyn Interaction>>,
    hooks: Hooks,
    system_prompt: SystemPrompt,
    cwd: Option<PathBuf>,
    env: BTreeMap<OsString, OsString>,
    model: Option<String>,
    fallback_model: Option<String>,
    max_turns: Option<u32>,
    max_budget_usd: Option<f64>,
    switches: Switches,
    resume: Option<String>,
    session_id: Option<String>,
    settings: Option<String>,
    setting_sources: Option<Vec<SettingSource>>,
    add_dirs: Vec<PathBuf>,
    json_schema: Option<Value>,
    agents: Map<String, Value>,
    extra_args: Vec<(String, Option<String>)>,
    cli_path: Option<PathBuf>,
    stderr: Option<StderrCallback>,
    request_timeout: Duration,
    call_timeout: Duration,
    max_buffer_size: usize,
}

/// What is either on or off.
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is a flag of its own on the command line"
)]
#[derive(Clone, Debug)]
struct Switches {
    partial_messages: bool,
    continue_conversation: bool,
    fork_session: bool,
    strict_mcp_config: bool,
    manifests: bool,
}

/// What the model is told before anything else.
#[derive(Clone, Debug)]
enum SystemPrompt {
    /// This, which may be nothing, and no more.
    Only(String),
    /// What the CLI tells it when a person uses it, and this.
    ClaudeCode(Option<String>),
}

impl Default for Options {
    fn default() -> Self {
        Self {
            servers: Vec::new(),
            allowed_tools: Vec::new(),
            disallowed_tools: Vec::new(),
            tools: None,
            permission_mode: None,
            can_use_tool: None,
            rules: Vec::new(),
            interaction: None,
            hooks: Hooks::new(),
            system_prompt: SystemPrompt::Only(String::new()),
            cwd: None,
            env: BTreeMap::new(),
            model: None,
            fallback_model: None,
            max_turns: None,
            max_budget_usd: None,
            switches: Switches {
                partial_messages: false,
                continue_conversation: false,
                fork_session: false,
                strict_mcp_config: true,
                manifests: true,
            },
            resume: None,
            session_id: None,
            settings: None,
            setting_sources: None,
            add_dirs: Vec::new(),
            json_schema: None,
            agents: Map::new(),
            extra_args: Vec::new(),
            cli_path: None,
            stderr: None,
            request_timeout: REQUEST_TIMEOUT,
            call_timeout: CALL_TIMEOUT,
            max_buffer_size: LONGEST_LINE,
        }
    }
}

/// Servers and tools.
impl Options {
    /// Everything as it is by default.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds an MCP server; one of the same name is replaced. Its tools are called
    /// `mcp__<name>__<tool>`.
    pub fn mcp_server(mut self, name: impl Into<String>, config: McpServerConfig) -> Self {
        let name = name.into();
        match self.servers.iter_mut().find(|(known, _)| *known == name) {
            Some((_, known)) => *known = config,
            None => self.servers.push((name, config)),
        }
        self
    }

    /// Adds a server of this program: the CLI calls it through this session.
    pub fn sdk_server(self, name: impl Into<String>, server: impl Into<Instance>) -> Self {
        self.mcp_server(name, McpServerConfig::sdk(server))
    }

    /// Tools that are used without a question: built-in ones (`Read`, `Bash(git log:*)`), one of a
    /// server (`mcp__calculator__add`), all of a server (`mcp__calculator`, see [`server_tools_pattern`](crate::server_tools_pattern)), or those
    /// of all servers in these options (`mcp__*`). Adds to what was said before.
    pub fn allowed_tools(mut self, tools: impl IntoIterator<Item = impl Into<String>>) -> Self {
        self.allowed_tools.extend(tools.into_iter().map(Into::into));
        self
    }

    /// Tools that are never used, spelled as in [`Options::allowed_tools`]. Adds to what was said
    /// before.
    pub fn disallowed_tools(mut self, tools: impl IntoIterator<Item = impl Into<String>>) -> Self {
        let tools = tools.into_iter().map(Into::into);
        self.disallowed_tools.extend(tools);
        self
    }

    /// The built-in tools that there are at all; none of them if the list is empty. Whether they may
    /// be used is another question.
    pub fn tools(mut self, tools: impl IntoIterator<Item = impl Into<String>>) -> Self {
        self.tools = Some(tools.into_iter().map(Into::into).collect());
        self
    }

    /// Whether only the servers of these options are used, and none from the user's or the project's
    /// files. It is so by default: what is in a project's file may have been written by anybody.
    pub fn strict_mcp_config(mut self, strict: bool) -> Self {
        self.switches.strict_mcp_config = strict;
        self
    }

    /// Whether the CLI is told at once what servers of this program offer, which saves it from asking.
    /// It is by default. A CLI that does not know of it asks.
    pub fn manifests(mut self, manifests: bool) -> Self {
        self.switches.manifests = manifests;
        self
    }

    /// How long a tool of this program may take: ten minutes by default. What an entry says of itself
    /// ([`McpServerConfig::timeout`]) is the CLI's limit besides.
    pub fn call_timeout(mut self, timeout: Duration) -> Self {
        self.call_timeout = timeout;
        self
    }
}

/// Permission.
impl Options {
    /// Which questions are asked.
    pub fn permission_mode(mut self, mode: PermissionMode) -> Self {
        self.permission_mode = Some(mode);
        self
    }

    /// Adds rules. They are read first: an allow or a deny is the answer, and only what is left is
    /// asked about. What denies or wants to be asked holds for every use of a tool, also for those that
    /// the CLI would not have asked about (`Read`, [`Options::allowed_tools`]). MCP tools go by the name
    /// of their server as it was given here, built-in ones by their own (`Bash`).
    ///
    /// ```
    /// use switchboard::permission::{Action, Rule};
    /// use switchboard_claude::Options;
    ///
    /// let options = Options::new().allowed_tools(["mcp__files"]).rules([
    ///     Rule::new(Action::Deny, "mcp__files__delete_*")?,
    ///     Rule::new(Action::Ask, "mcp__files__write_*")?,
    /// ]);
    /// # Ok::<(), switchboard::permission::InvalidPattern>(())
    /// ```
    pub fn rules(mut self, rules: impl IntoIterator<Item = Rule>) -> Self {
        self.rules.extend(rules);
        self
    }

    /// Who is asked where no rule decides: a function of this program. It goes before
    /// [`Options::interaction`].
    ///
    /// ```
    /// use switchboard_claude::{Options, PermissionResult};
    ///
    /// let options = Options::new().can_use_tool(|asked| async move {
    ///     match asked.tool_name.as_str() {
    ///         "Bash" => PermissionResult::deny("no commands, please"),
    ///         _ => PermissionResult::allow(),
    ///     }
    /// });
    /// ```
    pub fn can_use_tool<F, A>(mut self, callback: F) -> Self
    where
        F: Fn(ToolPermissionRequest) -> A + Send + Sync + 'static,
        A: Future<Output = PermissionResult> + Send + 'static,
    {
        self.can_use_tool = Some(Arc::new(move |request| Box::pin(callback(request))));
        self
    }

    /// Who is asked where no rule decides, and who answers what servers ask of the user.
    pub fn interaction(mut self, interaction: impl Interaction) -> Self {
        self.interaction = Some(Arc::new(interaction));
        self
    }

    /// Functions of this program that the CLI calls when something happens.
    pub fn hooks(mut self, hooks: Hooks) -> Self {
        self.hooks = hooks;
        self
    }
}

/// The model and what it is told.
impl Options {
    /// What the model is told before anything else, and no more than that. By default it is told
    /// nothing.
    pub fn system_prompt(mut self, prompt: impl Into<String>) -> Self {
        self.system_prompt = SystemPrompt::Only(prompt.into());
        self
    }

    /// The model is told what the CLI tells it when a person uses it.
    pub fn claude_code_system_prompt(mut self) -> Self {
        self.system_prompt = SystemPrompt::ClaudeCode(None);
        self
    }

    /// The model is told what the CLI tells it when a person uses it, and then this.
    pub fn append_system_prompt(mut self, prompt: impl Into<String>) -> Self {
        self.system_prompt = SystemPrompt::ClaudeCode(Some(prompt.into()));
        self
    }

    /// The model: a name or an alias (`sonnet`).
    pub fn model(mut self, model: impl Into<String>) -> Self {
        self.model = Some(model.into());
        self
    }

    /// The model that is used while the other is overloaded.
    pub fn fallback_model(mut self, model: impl Into<String>) -> Self {
        self.fallback_model = Some(model.into());
        self
    }

    /// How often the model may be asked before the turn ends.
    pub fn max_turns(mut self, turns: u32) -> Self {
        self.max_turns = Some(turns);
        self
    }

    /// How much may be spent, in dollars.
    pub fn max_budget_usd(mut self, dollars: f64) -> Self {
        self.max_budget_usd = Some(dollars);
        self
    }

    /// Whether pieces of what the model says come as it says them.
    pub fn include_partial_messages(mut self, include: bool) -> Self {
        self.switches.partial_messages = include;
        self
    }

    /// The shape of the last answer, as a JSON Schema: see [`ResultMessage::structured_output`].
    ///
    /// [`ResultMessage::structured_output`]: crate::ResultMessage::structured_output
    pub fn json_schema(mut self, schema: Value) -> Self {
        self.json_schema = Some(schema);
        self
    }

    /// Adds a subagent, described as the CLI wants it: `description`, `prompt`, `tools`, `model`.
    pub fn agent(mut self, name: impl Into<String>, definition: Value) -> Self {
        self.agents.insert(name.into(), definition);
        self
    }
}

/// The session.
impl Options {
    /// Takes up a session again.
    pub fn resume(mut self, session_id: impl Into<String>) -> Self {
        self.resume = Some(session_id.into());
        self
    }

    /// Takes up the latest session of the folder again.
    pub fn continue_conversation(mut self, continues: bool) -> Self {
        self.switches.continue_conversation = continues;
        self
    }

    /// Whether a session that is taken up again goes on under a new name, and the old one stays as it
    /// is.
    pub fn fork_session(mut self, fork: bool) -> Self {
        self.switches.fork_session = fork;
        self
    }

    /// The name of the new session, a UUID.
    pub fn session_id(mut self, id: impl Into<String>) -> Self {
        self.session_id = Some(id.into());
        self
    }

    /// Settings of the CLI beside those of files: JSON, or the path of a file.
    pub fn settings(mut self, settings: impl Into<String>) -> Self {
        self.settings = Some(settings.into());
        self
    }

    /// Which files settings are read from; none if the list is empty. By default the CLI reads what it
    /// always reads, files of the project included.
    pub fn setting_sources(mut self, sources: impl IntoIterator<Item = SettingSource>) -> Self {
        self.setting_sources = Some(sources.into_iter().collect());
        self
    }

    /// A folder that tools may work in beside the first.
    pub fn add_dir(mut self, folder: impl Into<PathBuf>) -> Self {
        self.add_dirs.push(folder.into());
        self
    }
}

/// The process.
impl Options {
    /// The folder to work in.
    pub fn cwd(mut self, folder: impl Into<PathBuf>) -> Self {
        self.cwd = Some(folder.into());
        self
    }

    /// Adds a variable to the environment of the CLI, which inherits that of this program.
    pub fn env(mut self, name: impl Into<OsString>, value: impl Into<OsString>) -> Self {
        self.env.insert(name.into(), value.into());
        self
    }

    /// A flag that has no method here, without its dashes. One without a value is given `None`.
    pub fn extra_arg(mut self, flag: impl Into<String>, value: Option<&str>) -> Self {
        let value = value.map(str::to_owned);
        self.extra_args.push((flag.into(), value));
        self
    }

    /// Where the CLI is. By default it is looked for.
    pub fn cli_path(mut self, path: impl Into<PathBuf>) -> Self {
        self.cli_path = Some(path.into());
        self
    }

    /// What is done with each line that the CLI writes to its standard error. It is called on the task
    /// that reads them and must not wait.
    pub fn stderr(mut self, callback: impl Fn(&str) + Send + Sync + 'static) -> Self {
        self.stderr = Some(Arc::new(callback));
        self
    }

    /// How long the CLI may take to answer a request, the first one included: a minute by default.
    pub fn request_timeout(mut self, timeout: Duration) -> Self {
        self.request_timeout = timeout;
        self
    }

    /// How long a message of the CLI's may be, in bytes: 64 MiB by default. One that is longer ends the
    /// session with an error.
    pub fn max_buffer_size(mut self, bytes: usize) -> Self {
        self.max_buffer_size = bytes;
        self
    }
}

/// What the rest of the crate needs to know.
impl Options {
    /// The servers of this program, by the names that the CLI knows them by.
    pub(crate) fn sdk_servers(&self) -> Vec<(String, Instance)> {
        let servers = self.servers.iter();
        servers
            .filter_map(|(name, config)| Some((name.clone(), config.instance()?.clone())))
            .collect()
    }

    pub(crate) fn servers(&self) -> &[(String, McpServerConfig)] {
        &self.servers
    }

    /// Answers the CLI's questions about tools.
    /// The servers of this program whose tools the model is to see from the beginning.
    pub(crate) fn eager_servers(&self) -> impl Iterator<Item = String> {
        let servers = self.servers.iter();
        let eager =
            servers.filter(|(_, config)| config.instance().is_some() && config.is_always_loaded());
        eager.map(|(name, _)| name.clone())
    }

    pub(crate) fn permissions(&self) -> Permissions {
        Permissions::new(
            self.rules.iter().cloned(),
            self.can_use_tool.clone(),
            self.interaction.clone(),
            self.servers.iter().map(|(name, _)| name.clone()).collect(),
        )
    }

    /// Whether the CLI is to ask about tools that it has no rule for.
    pub(crate) fn answers_permissions(&self) -> bool {
        self.can_use_tool.is_some() || self.interaction.is_some() || !self.rules.is_empty()
    }

    pub(crate) fn asked(&self) -> Option<Arc<dyn Interaction>> {
        self.interaction.clone()
    }

    /// The program's hooks, and the one by which rules hold whatever the CLI would ask about.
    pub(crate) fn hooked(&self) -> Hooks {
        let hooks = self.hooks.clone();
        if self.rules.is_empty() {
            hooks
        } else {
            hooks.guarded(self.permissions())
        }
    }

    pub(crate) fn wants_manifests(&self) -> bool {
        self.switches.manifests
    }

    pub(crate) fn folder(&self) -> Option<&Path> {
        self.cwd.as_deref()
    }

    pub(crate) fn program(&self) -> Option<&Path> {
        self.cli_path.as_deref()
    }

    pub(crate) fn stderr_callback(&self) -> Option<StderrCallback> {
        self.stderr.clone()
    }

    pub(crate) fn time_for_requests(&self) -> Duration {
        self.request_timeout
    }

    pub(crate) fn longest_line(&self) -> usize {
        self.max_buffer_size
    }

    pub(crate) fn time_for_calls(&self) -> Duration {
        self.call_timeout
    }
}

impl fmt::Debug for Options {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let variables: Vec<_> = self.env.keys().collect();
        f.debug_struct("Options")
            .field("servers", &self.servers)
            .field("allowed_tools", &self.allowed_tools)
            .field("disallowed_tools", &self.disallowed_tools)
            .field("tools", &self.tools)
            .field("permission_mode", &self.permission_mode)
            .field("rules", &self.rules)
            .field("hooks", &self.hooks)
            .field("cwd", &self.cwd)
            .field("env", &variables)
            .field("model", &self.model)
            .field("max_turns", &self.max_turns)
            .field("switches", &self.switches)
            .field("resume", &self.resume)
            .field("cli_path", &self.cli_path)
            .finish_non_exhaustive()
    }
}
