//! The real Claude CLI in an isolated, offline environment.
//!
//! The CLI is in the directory `SWITCHBOARD_FIXTURES`, where `cargo xtask fixtures` installs it.
//!
//! Invariant: with [`RealClaude::environment`] the CLI contacts only the scripted model and does
//! not read the files of the user who runs the tests.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::fake_model::FakeModel;
use crate::process_scan::TAG_VARIABLE;
use crate::sandbox::Sandbox;

/// The directory of the CLI's npm packages, relative to the fixtures directory. One of the packages
/// contains the CLI.
const PACKAGES: &str = "node_modules/@anthropic-ai";

/// Variables that disable all traffic except to the model, and set an invalid API key.
const OFFLINE: [(&str, &str); 7] = [
    ("ANTHROPIC_API_KEY", "test-key"),
    ("DISABLE_TELEMETRY", "1"),
    ("DISABLE_AUTOUPDATER", "1"),
    ("CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC", "1"),
    // Makes the CLI send the tools of servers in the request instead of letting the model search
    // for them.
    ("ENABLE_TOOL_SEARCH", "false"),
    ("NO_PROXY", "127.0.0.1"),
    ("no_proxy", "127.0.0.1"),
];

/// Variables of the user's environment that could redirect the CLI. An empty value counts as unset.
const UNSET: [&str; 16] = [
    "ANTHROPIC_AUTH_TOKEN",
    "ANTHROPIC_CUSTOM_HEADERS",
    "ANTHROPIC_MODEL",
    "ANTHROPIC_SMALL_FAST_MODEL",
    "CLAUDE_CODE_EXTRA_BODY",
    "CLAUDE_CODE_OAUTH_TOKEN",
    "CLAUDE_CODE_SIMPLE",
    "CLAUDE_CODE_SUBAGENT_MODEL",
    "CLAUDE_CODE_USE_BEDROCK",
    "CLAUDE_CODE_USE_FOUNDRY",
    "CLAUDE_CODE_USE_VERTEX",
    "MAX_MCP_OUTPUT_TOKENS",
    "MCP_TIMEOUT",
    "MCP_TOOL_TIMEOUT",
    "NODE_EXTRA_CA_CERTS",
    "NODE_OPTIONS",
];

/// The real CLI, with a home directory of its own.
#[derive(Debug)]
pub struct RealClaude {
    program: PathBuf,
    sandbox: Sandbox,
}

impl RealClaude {
    /// Finds the CLI. If it is not installed, prints a warning and returns `None`; in CI, panics
    /// instead.
    #[expect(
        clippy::disallowed_methods,
        reason = "the environment contains the path of the CLI"
    )]
    pub fn find() -> Option<Self> {
        let folder = std::env::var_os("SWITCHBOARD_FIXTURES").map(PathBuf::from);
        let found = folder.and_then(|folder| find_program(&folder.join(PACKAGES)));
        if found.is_none() {
            assert!(
                std::env::var_os("CI").is_none(),
                "the Claude CLI is not installed; run `cargo xtask fixtures` and set SWITCHBOARD_FIXTURES"
            );
            eprintln!("SKIPPED: the Claude CLI is not installed; run `cargo xtask fixtures`");
        }
        Some(Self {
            program: found?,
            sandbox: Sandbox::new(),
        })
    }

    /// The path of the CLI's executable.
    pub fn program(&self) -> &Path {
        &self.program
    }

    /// The home and project directory of the CLI, and the tag of its processes.
    pub fn sandbox(&self) -> &Sandbox {
        &self.sandbox
    }

    /// The environment variables that connect the CLI to `model` and isolate it from the user.
    pub fn environment(&self, model: &FakeModel) -> Vec<(String, String)> {
        let offline = OFFLINE.map(|(name, value)| (name.to_owned(), value.to_owned()));
        let unset = UNSET.map(|name| (name.to_owned(), String::new()));
        let mut variables = self.sandbox.variables();
        variables.extend(offline);
        variables.extend(unset);
        let settings = self.sandbox.home().join(".claude").display().to_string();
        variables.push(("CLAUDE_CONFIG_DIR".to_owned(), settings));
        variables.push(("ANTHROPIC_BASE_URL".to_owned(), model.url()));
        variables.push((TAG_VARIABLE.to_owned(), self.sandbox.tag().to_owned()));
        variables
    }

    /// A command that starts the CLI in its project directory. Of the environment of the test, the
    /// CLI inherits only `PATH`; it also gets the variables of [`RealClaude::environment`].
    pub fn command(&self, model: &FakeModel) -> Command {
        let mut command = self.sandbox.command(&self.program);
        command.envs(self.environment(model));
        command
    }
}

/// Finds the CLI's executable. Only the package of the current platform is installed.
fn find_program(packages: &Path) -> Option<PathBuf> {
    let packages = std::fs::read_dir(packages).ok()?;
    let mut programs = packages.filter_map(|package| Some(package.ok()?.path().join("claude")));
    programs.find(|program| program.is_file())
}
