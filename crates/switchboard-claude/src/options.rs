//! Options of a session with the CLI.
//!
//! Methods are named as in the official SDKs. [`Options`] only stores values. The module
//! `command_line` turns them into arguments and environment, `initialize_request` into the first
//! request, and `connection_parts` into in-process servers, permission rules and hooks. `values`
//! contains the enums.
//!
//! Invariant: `Debug` prints no value of the environment, and no secret of a server is put on the
//! command line, which every user of the machine can read.
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

mod command_line;
mod connection_parts;
mod initialize_request;
#[cfg(test)]
mod tests;
mod validate;
mod values;

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Map, Value};
use switchboard::Interaction;
use switchboard::in_process::ServerInstance;
use switchboard::permission::Rule;

pub(crate) use command_line::{CommandLine, NOT_INHERITED};
pub use values::{PermissionMode, SettingSource};

use crate::hooks::Hooks;
use crate::permission::{PermissionCallback, PermissionResult, ToolPermissionRequest};
use crate::servers::McpServerConfig;

const DEFAULT_REQUEST_TIMEOUT: Duration = Duration::from_secs(60);
/// Default maximum size of one message, in bytes. It is large because a message may contain a tool
/// result twice.
const DEFAULT_MAX_BUFFER_SIZE: usize = 64 * 1024 * 1024;
const DEFAULT_CALL_TIMEOUT: Duration = Duration::from_secs(10 * 60);

/// A callback that receives each line that the CLI writes to stderr.
pub(crate) type StderrCallback = Arc<dyn Fn(&str) + Send + Sync>;

/// Options for starting the CLI. Every option has a default.
#[derive(Clone)]
pub struct Options {
    pub(crate) servers: Vec<(String, McpServerConfig)>,
    allowed_tools: Vec<String>,
    disallowed_tools: Vec<String>,
    /// The built-in tools that the model can use, subject to permission. `None` for all.
    tools: Option<Vec<String>>,
    permission_mode: Option<PermissionMode>,
    can_use_tool: Option<PermissionCallback>,
    rules: Vec<Rule>,
    pub(crate) interaction: Option<Arc<dyn Interaction>>,
    hooks: Hooks,
    system_prompt: SystemPrompt,
    pub(crate) cwd: Option<PathBuf>,
    env: BTreeMap<OsString, OsString>,
    model: Option<String>,
    fallback_model: Option<String>,
    max_turns: Option<u32>,
    max_budget_usd: Option<f64>,
    pub(crate) flags: Flags,
    resume: Option<String>,
    session_id: Option<String>,
    settings: Option<String>,
    setting_sources: Option<Vec<SettingSource>>,
    add_dirs: Vec<PathBuf>,
    json_schema: Option<Value>,
    agents: Map<String, Value>,
    extra_args: Vec<(String, Option<String>)>,
    pub(crate) cli_path: Option<PathBuf>,
    pub(crate) stderr: Option<StderrCallback>,
    pub(crate) request_timeout: Duration,
    pub(crate) call_timeout: Duration,
    pub(crate) max_buffer_size: usize,
}

/// The options that are either on or off.
#[expect(
    clippy::struct_excessive_bools,
    reason = "each field is an independent option"
)]
#[derive(Clone, Debug)]
pub(crate) struct Flags {
    partial_messages: bool,
    continue_conversation: bool,
    fork_session: bool,
    strict_mcp_config: bool,
    pub(crate) manifests: bool,
}

#[derive(Clone, Debug)]
enum SystemPrompt {
    /// Only this text. May be empty.
    Only(String),
    /// The prompt that the interactive CLI uses, with an optional text appended.
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
            flags: Flags {
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
            request_timeout: DEFAULT_REQUEST_TIMEOUT,
            call_timeout: DEFAULT_CALL_TIMEOUT,
            max_buffer_size: DEFAULT_MAX_BUFFER_SIZE,
        }
    }
}

/// Options for MCP servers and tools.
impl Options {
    /// Creates options in which every option has its default value.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds an MCP server. A server that was added before under the same name is replaced. The
    /// model sees the server's tools as `mcp__<name>__<tool>`.
    pub fn mcp_server(mut self, name: impl Into<String>, config: McpServerConfig) -> Self {
        let name = name.into();
        match self.servers.iter_mut().find(|(known, _)| *known == name) {
            Some((_, known)) => *known = config,
            None => self.servers.push((name, config)),
        }
        self
    }

    /// Adds an in-process server. The CLI calls its tools over the control protocol.
    pub fn sdk_server(self, name: impl Into<String>, server: impl Into<ServerInstance>) -> Self {
        self.mcp_server(name, McpServerConfig::sdk(server))
    }

    /// Adds tools that run without a permission prompt: built-in ones (`Read`, `Bash(git log:*)`),
    /// one tool of a server (`mcp__calculator__add`), all tools of a server (`mcp__calculator`, see
    /// [`server_tools_pattern`](crate::server_tools_pattern)), or the tools of all servers in these
    /// options (`mcp__*`).
    pub fn allowed_tools(mut self, tools: impl IntoIterator<Item = impl Into<String>>) -> Self {
        self.allowed_tools.extend(tools.into_iter().map(Into::into));
        self
    }

    /// Adds tools that must not run. They are written as in [`Options::allowed_tools`].
    pub fn disallowed_tools(mut self, tools: impl IntoIterator<Item = impl Into<String>>) -> Self {
        let tools = tools.into_iter().map(Into::into);
        self.disallowed_tools.extend(tools);
        self
    }

    /// Sets the built-in tools that the model can use; an empty list removes all of them. This does
    /// not grant permission to use them.
    pub fn tools(mut self, tools: impl IntoIterator<Item = impl Into<String>>) -> Self {
        self.tools = Some(tools.into_iter().map(Into::into).collect());
        self
    }

    /// Sets whether the CLI uses only the MCP servers of these options and ignores those in
    /// settings files of the user and the project. On by default, because project files are not
    /// trusted.
    pub fn strict_mcp_config(mut self, strict: bool) -> Self {
        self.flags.strict_mcp_config = strict;
        self
    }

    /// Sets whether `initialize` carries the tool lists of in-process servers. This saves several
    /// round trips at the start of the CLI. On by default. A CLI that ignores these lists requests
    /// them from the servers.
    pub fn manifests(mut self, manifests: bool) -> Self {
        self.flags.manifests = manifests;
        self
    }

    /// Sets how long a call of a tool of an in-process server may take; the default is ten minutes.
    /// If [`McpServerConfig::timeout`] is set, the CLI additionally applies that timeout. Also
    /// limits each [`Client::mcp_call`](crate::Client::mcp_call).
    pub fn call_timeout(mut self, timeout: Duration) -> Self {
        self.call_timeout = timeout;
        self
    }
}

/// Options that decide which tools may run.
impl Options {
    /// Sets for which tools the CLI asks for permission.
    pub fn permission_mode(mut self, mode: PermissionMode) -> Self {
        self.permission_mode = Some(mode);
        self
    }

    /// Adds permission rules, which are evaluated before any handler. Allow and deny rules are
    /// final. If an ask rule or no rule matches, the callback of [`Options::can_use_tool`] decides,
    /// or else the handler of [`Options::interaction`]. Deny and ask rules also apply to tools that
    /// the CLI would run without permission (`Read`, [`Options::allowed_tools`]). A rule names an
    /// MCP tool by the server name given in these options, and a built-in tool by its own name
    /// (`Bash`).
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

    /// Sets the callback that decides about a tool use if no allow or deny rule does. With a
    /// callback, the handler of [`Options::interaction`] is not asked about tools.
    ///
    /// ```
    /// use switchboard_claude::{Options, PermissionResult};
    ///
    /// let options = Options::new().can_use_tool(|request| async move {
    ///     match request.tool_name.as_str() {
    ///         "Bash" => PermissionResult::deny("commands are not allowed"),
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

    /// Sets the handler that answers permission requests that no rule decides, and elicitations of
    /// MCP servers.
    pub fn interaction(mut self, interaction: impl Interaction) -> Self {
        self.interaction = Some(Arc::new(interaction));
        self
    }

    /// Sets the hooks: callbacks that the CLI calls on events such as a tool use.
    pub fn hooks(mut self, hooks: Hooks) -> Self {
        self.hooks = hooks;
        self
    }
}

/// Options for the model and its prompts.
impl Options {
    /// Sets the system prompt, which replaces that of the CLI. Empty by default.
    pub fn system_prompt(mut self, prompt: impl Into<String>) -> Self {
        self.system_prompt = SystemPrompt::Only(prompt.into());
        self
    }

    /// Uses the same system prompt as the interactive CLI.
    pub fn claude_code_system_prompt(mut self) -> Self {
        self.system_prompt = SystemPrompt::ClaudeCode(None);
        self
    }

    /// Uses the same system prompt as the interactive CLI, and appends a text to it.
    pub fn append_system_prompt(mut self, prompt: impl Into<String>) -> Self {
        self.system_prompt = SystemPrompt::ClaudeCode(Some(prompt.into()));
        self
    }

    /// Sets the model, by its name or an alias such as `sonnet`.
    pub fn model(mut self, model: impl Into<String>) -> Self {
        self.model = Some(model.into());
        self
    }

    /// Sets the model that the CLI uses while the main model is overloaded.
    pub fn fallback_model(mut self, model: impl Into<String>) -> Self {
        self.fallback_model = Some(model.into());
        self
    }

    /// Limits the number of requests to the model in one turn.
    pub fn max_turns(mut self, turns: u32) -> Self {
        self.max_turns = Some(turns);
        self
    }

    /// Limits the cost of the session. The unit is US dollars.
    pub fn max_budget_usd(mut self, dollars: f64) -> Self {
        self.max_budget_usd = Some(dollars);
        self
    }

    /// Sets whether the CLI also sends the model's output in pieces, as [`Message::StreamEvent`].
    ///
    /// [`Message::StreamEvent`]: crate::Message::StreamEvent
    pub fn include_partial_messages(mut self, include: bool) -> Self {
        self.flags.partial_messages = include;
        self
    }

    /// Requests a final answer that matches this JSON Schema: see
    /// [`ResultMessage::structured_output`].
    ///
    /// [`ResultMessage::structured_output`]: crate::ResultMessage::structured_output
    pub fn json_schema(mut self, schema: Value) -> Self {
        self.json_schema = Some(schema);
        self
    }

    /// Adds a subagent. `definition` is an object with the members that the CLI expects:
    /// `description`, `prompt`, `tools` and `model`.
    pub fn agent(mut self, name: impl Into<String>, definition: Value) -> Self {
        self.agents.insert(name.into(), definition);
        self
    }
}

/// Options that select the session that the CLI starts or resumes.
impl Options {
    /// Resumes an earlier session by its id
    /// ([`ResultMessage::session_id`](crate::ResultMessage::session_id)).
    pub fn resume(mut self, session_id: impl Into<String>) -> Self {
        self.resume = Some(session_id.into());
        self
    }

    /// Sets whether the CLI resumes the latest session of its working directory.
    pub fn continue_conversation(mut self, continues: bool) -> Self {
        self.flags.continue_conversation = continues;
        self
    }

    /// Sets whether a resumed session gets a new id. The original session then stays unchanged.
    pub fn fork_session(mut self, fork: bool) -> Self {
        self.flags.fork_session = fork;
        self
    }

    /// Sets the id of the new session, which must be a UUID.
    pub fn session_id(mut self, id: impl Into<String>) -> Self {
        self.session_id = Some(id.into());
        self
    }

    /// Adds settings to those that the CLI reads from its settings files. `settings` is JSON text
    /// or the path of a JSON file.
    pub fn settings(mut self, settings: impl Into<String>) -> Self {
        self.settings = Some(settings.into());
        self
    }

    /// Sets which settings files the CLI reads; none if the list is empty. By default it reads all
    /// of them, including the files of the project.
    pub fn setting_sources(mut self, sources: impl IntoIterator<Item = SettingSource>) -> Self {
        self.setting_sources = Some(sources.into_iter().collect());
        self
    }

    /// Adds a directory that tools may access besides the working directory.
    pub fn add_dir(mut self, directory: impl Into<PathBuf>) -> Self {
        self.add_dirs.push(directory.into());
        self
    }
}

/// Options for the CLI process and its limits.
impl Options {
    /// Sets the working directory of the CLI.
    pub fn cwd(mut self, directory: impl Into<PathBuf>) -> Self {
        self.cwd = Some(directory.into());
        self
    }

    /// Adds a variable to the environment of the CLI, which also inherits the environment of this
    /// program.
    pub fn env(mut self, name: impl Into<OsString>, value: impl Into<OsString>) -> Self {
        self.env.insert(name.into(), value.into());
        self
    }

    /// Adds a command line flag for which this crate has no method. Write `flag` without the
    /// leading dashes. `value` is `None` for a flag without a value.
    pub fn extra_arg(mut self, flag: impl Into<String>, value: Option<&str>) -> Self {
        let value = value.map(str::to_owned);
        self.extra_args.push((flag.into(), value));
        self
    }

    /// Sets the path of the CLI's executable. By default, this crate searches for it on the PATH
    /// and in the usual install locations.
    pub fn cli_path(mut self, path: impl Into<PathBuf>) -> Self {
        self.cli_path = Some(path.into());
        self
    }

    /// Sets a callback that receives each line that the CLI writes to stderr. A line of more than
    /// 64 KiB arrives in pieces. The callback runs on the task that reads stderr, so it must not
    /// block.
    pub fn stderr(mut self, callback: impl Fn(&str) + Send + Sync + 'static) -> Self {
        self.stderr = Some(Arc::new(callback));
        self
    }

    /// Sets how long the CLI may take to respond to a request, `initialize` included. Also limits
    /// how long the CLI may leave its input unread while this crate writes to it. The default is
    /// one minute.
    pub fn request_timeout(mut self, timeout: Duration) -> Self {
        self.request_timeout = timeout;
        self
    }

    /// Sets the maximum size of one message of the CLI, in bytes. The default is 64 MiB. A larger
    /// message ends the session with an error.
    pub fn max_buffer_size(mut self, bytes: usize) -> Self {
        self.max_buffer_size = bytes;
        self
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
            .field("flags", &self.flags)
            .field("resume", &self.resume)
            .field("cli_path", &self.cli_path)
            .finish_non_exhaustive()
    }
}
