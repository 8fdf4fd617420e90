//! The real Claude CLI, with surroundings in which nothing leaves the machine.
//!
//! It lies in the folder that `SWITCHBOARD_FIXTURES` names, where `cargo xtask fixtures` puts it.
//!
//! Invariant: what runs with [`RealClaude::environment`] asks the scripted model and nobody else, and
//! sees nothing of the user who runs the tests.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::fake_model::FakeModel;
use crate::process_scan::TAG_VARIABLE;
use crate::sandbox::Sandbox;

/// Where the packages are of which one carries the program, seen from the fixtures folder.
const PACKAGES: &str = "node_modules/@anthropic-ai";

/// What the CLI would do besides asking the model, switched off; and a key that opens nothing.
const QUIET: [(&str, &str); 7] = [
    ("ANTHROPIC_API_KEY", "test-key"),
    ("DISABLE_TELEMETRY", "1"),
    ("DISABLE_AUTOUPDATER", "1"),
    ("CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC", "1"),
    // The tools of servers stand in the request itself, and are not looked for first.
    ("ENABLE_TOOL_SEARCH", "false"),
    ("NO_PROXY", "127.0.0.1"),
    ("no_proxy", "127.0.0.1"),
];

/// What the user who runs the tests may have set, and would lead the CLI elsewhere: empty, it is as if
/// it were not there.
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

/// The real CLI, with a home of its own.
#[derive(Debug)]
pub struct RealClaude {
    program: PathBuf,
    sandbox: Sandbox,
}

impl RealClaude {
    /// Finds the program. None if it is not installed, which is said loudly; in CI that is a failure.
    #[expect(
        clippy::disallowed_methods,
        reason = "the test is told by its environment where the program is"
    )]
    pub fn find() -> Option<Self> {
        let folder = std::env::var_os("SWITCHBOARD_FIXTURES").map(PathBuf::from);
        let found = folder.and_then(|folder| find_program(&folder.join(PACKAGES)));
        if found.is_none() {
            assert!(
                std::env::var_os("CI").is_none(),
                "the Claude CLI is missing: run `cargo xtask fixtures`, and set SWITCHBOARD_FIXTURES"
            );
            eprintln!("SKIPPED: the Claude CLI is missing, run `cargo xtask fixtures`");
        }
        Some(Self {
            program: found?,
            sandbox: Sandbox::new(),
        })
    }

    /// The program.
    pub fn program(&self) -> &Path {
        &self.program
    }

    /// Its home, its project, and the tag of its processes.
    pub fn sandbox(&self) -> &Sandbox {
        &self.sandbox
    }

    /// What it needs in its environment to ask this model, and to touch nothing of the user's.
    pub fn environment(&self, model: &FakeModel) -> Vec<(String, String)> {
        let quiet = QUIET.map(|(name, value)| (name.to_owned(), value.to_owned()));
        let unset = UNSET.map(|name| (name.to_owned(), String::new()));
        let mut variables = self.sandbox.variables();
        variables.extend(quiet);
        variables.extend(unset);
        let settings = self.sandbox.home().join(".claude").display().to_string();
        variables.push(("CLAUDE_CONFIG_DIR".to_owned(), settings));
        variables.push(("ANTHROPIC_BASE_URL".to_owned(), model.url()));
        variables.push((TAG_VARIABLE.to_owned(), self.sandbox.tag().to_owned()));
        variables
    }

    /// The command that starts it by hand, with this environment and no other.
    pub fn command(&self, model: &FakeModel) -> Command {
        let mut command = self.sandbox.command(&self.program);
        command.envs(self.environment(model));
        command
    }
}

/// The program in the package of this platform, which is the only one that was installed.
fn find_program(packages: &Path) -> Option<PathBuf> {
    let packages = std::fs::read_dir(packages).ok()?;
    let mut programs = packages.filter_map(|package| Some(package.ok()?.path().join("claude")));
    programs.find(|program| program.is_file())
}
