//! The command line and the environment of the CLI.
//!
//! Invariant: a value can never be read as a flag, and what may be secret or is very long (settings,
//! entries of servers, a book of a prompt) goes through files that only this user can read.

use std::ffi::{OsStr, OsString};
use std::io::{self, Write};

use serde_json::{Map, Value, json};
use tempfile::TempPath;

use super::words::{PermissionMode, SettingSource};
use super::{Options, SystemPrompt};
use crate::tool_names::{ALL_SERVERS_PATTERN, server_tools_pattern};

/// A longer prompt goes through a file: the system takes no argument of more than 128 KiB.
const LONGEST_ARGUMENT: usize = 64 * 1024;

/// Variables of this program's environment that the CLI must not inherit: it would take itself for
/// one that was started by another.
pub(crate) const WITHHELD: [&str; 1] = ["CLAUDECODE"];

/// What the CLI is started with.
#[derive(Debug, Default)]
pub(crate) struct CommandLine {
    pub(crate) arguments: Vec<OsString>,
    /// Removed when this is dropped, which has to be after the CLI's end: it may read them again.
    files: Vec<TempPath>,
}

impl Options {
    /// The arguments, and the files that they name.
    pub(crate) fn command_line(&self) -> io::Result<CommandLine> {
        let mut line = CommandLine::default();
        line.pair("--output-format", "stream-json");
        line.flag("--verbose");
        self.add_prompt(&mut line)?;
        self.add_tools(&mut line);
        self.add_model(&mut line);
        self.add_permissions(&mut line);
        self.add_session(&mut line)?;
        self.add_servers(&mut line)?;
        for (flag, value) in &self.extra_args {
            let flag = format!("--{flag}");
            match value {
                Some(value) => line.pair(&flag, value),
                None => line.flag(&flag),
            }
        }
        line.pair("--input-format", "stream-json");
        Ok(line)
    }

    /// What is added to the environment that the CLI inherits.
    pub(crate) fn environment(&self) -> Vec<(OsString, OsString)> {
        let own = [
            ("CLAUDE_CODE_ENTRYPOINT", "sdk-rs"),
            // Asks for frames that say whether the session is at rest.
            ("CLAUDE_CODE_SDK_READS_SESSION_STATE", "1"),
        ];
        let own = own.map(|(name, value)| (OsString::from(name), OsString::from(value)));
        let folder = self.cwd.iter();
        let folder = folder.map(|folder| {
            let folder = std::path::absolute(folder).unwrap_or_else(|_| folder.clone());
            ("PWD".into(), folder.into_os_string())
        });
        let unless_chosen = own.into_iter().chain(folder);
        unless_chosen
            .filter(|(name, _)| !self.env.contains_key(name))
            .chain(self.env.clone())
            .collect()
    }

    fn add_prompt(&self, line: &mut CommandLine) -> io::Result<()> {
        match &self.system_prompt {
            SystemPrompt::Only(prompt) => line.prompt("--system-prompt", prompt),
            SystemPrompt::ClaudeCode(Some(more)) => line.prompt("--append-system-prompt", more),
            SystemPrompt::ClaudeCode(None) => Ok(()),
        }
    }

    fn add_tools(&self, line: &mut CommandLine) {
        if let Some(tools) = &self.tools {
            line.pair("--tools", tools.join(","));
        }
        let allowed = self.spelled_out(&self.allowed_tools);
        if !allowed.is_empty() {
            line.pair("--allowedTools", allowed.join(","));
        }
        let mut disallowed = self.spelled_out(&self.disallowed_tools);
        if self.disallowed_tools.iter().any(|tool| tool == ALL_SERVERS_PATTERN) {
            // Servers that are none of ours are meant as well, where the CLI has a word for them.
            disallowed.push(ALL_SERVERS_PATTERN.to_owned());
        }
        if !disallowed.is_empty() {
            line.pair("--disallowedTools", disallowed.join(","));
        }
    }

    /// The CLI takes no pattern for all servers where it is about to allow something: each is named.
    fn spelled_out(&self, tools: &[String]) -> Vec<String> {
        let mut spelled = Vec::new();
        for tool in tools {
            if tool == ALL_SERVERS_PATTERN {
                spelled.extend(self.servers.iter().map(|(name, _)| server_tools_pattern(name)));
            } else {
                spelled.push(tool.clone());
            }
        }
        spelled
    }

    fn add_model(&self, line: &mut CommandLine) {
        line.option("--max-turns", self.max_turns.map(|turns| turns.to_string()));
        let budget = self.max_budget_usd.map(|dollars| dollars.to_string());
        line.option("--max-budget-usd", budget);
        line.option("--model", self.model.as_ref());
        line.option("--fallback-model", self.fallback_model.as_ref());
        let schema = self.json_schema.as_ref().map(ToString::to_string);
        line.option("--json-schema", schema);
        if self.switches.partial_messages {
            line.flag("--include-partial-messages");
        }
    }

    fn add_permissions(&self, line: &mut CommandLine) {
        if self.answers_permissions() {
            line.pair("--permission-prompt-tool", "stdio");
        }
        let mode = self.permission_mode.as_ref();
        line.option("--permission-mode", mode.map(PermissionMode::as_str));
    }

    fn add_session(&self, line: &mut CommandLine) -> io::Result<()> {
        if self.switches.continue_conversation {
            line.flag("--continue");
        }
        if let Some(id) = &self.resume {
            line.joined("--resume", id);
        }
        if let Some(id) = &self.session_id {
            line.joined("--session-id", id);
        }
        if self.switches.fork_session {
            line.flag("--fork-session");
        }
        if let Some(settings) = &self.settings {
            if settings.trim_start().starts_with('{') {
                let file = line.file("settings", settings)?;
                line.pair("--settings", file);
            } else {
                line.pair("--settings", settings);
            }
        }
        if let Some(sources) = &self.setting_sources {
            let sources: Vec<_> = sources
                .iter()
                .map(|source| SettingSource::as_str(*source))
                .collect();
            line.joined("--setting-sources", sources.join(","));
        }
        for folder in &self.add_dirs {
            line.pair("--add-dir", folder);
        }
        Ok(())
    }

    /// Servers of this program are declared in `initialize`: declared here as well they would be asked
    /// what they offer before their manifests arrive.
    fn add_servers(&self, line: &mut CommandLine) -> io::Result<()> {
        let external = self.servers.iter();
        let external = external.filter(|(_, config)| config.instance().is_none());
        let external: Map<String, Value> = external
            .map(|(name, config)| (name.clone(), config.declared(name)))
            .collect();
        if !external.is_empty() {
            let entries = json!({"mcpServers": external}).to_string();
            let file = line.file("servers", &entries)?;
            line.pair("--mcp-config", file);
        }
        if self.switches.strict_mcp_config {
            line.flag("--strict-mcp-config");
        }
        Ok(())
    }
}

impl CommandLine {
    fn flag(&mut self, flag: &str) {
        self.arguments.push(flag.into());
    }

    /// A flag and its value. A value that looks like a flag is joined to it.
    fn pair(&mut self, flag: &str, value: impl AsRef<OsStr>) {
        let value = value.as_ref();
        if value.as_encoded_bytes().first() == Some(&b'-') {
            self.joined(flag, value);
        } else {
            self.arguments.extend([flag.into(), value.to_owned()]);
        }
    }

    fn option(&mut self, flag: &str, value: Option<impl AsRef<OsStr>>) {
        if let Some(value) = value {
            self.pair(flag, value);
        }
    }

    fn joined(&mut self, flag: &str, value: impl AsRef<OsStr>) {
        let mut argument = OsString::from(flag);
        argument.push("=");
        argument.push(value);
        self.arguments.push(argument);
    }

    fn prompt(&mut self, flag: &str, prompt: &str) -> io::Result<()> {
        if prompt.len() <= LONGEST_ARGUMENT {
            self.pair(flag, prompt);
        } else {
            let file = self.file("prompt", prompt)?;
            self.pair(&format!("{flag}-file"), file);
        }
        Ok(())
    }

    /// Writes a file that nobody else can read.
    fn file(&mut self, what: &str, content: &str) -> io::Result<OsString> {
        let mut file = tempfile::Builder::new()
            .prefix(&format!("switchboard-{what}-"))
            .suffix(".json")
            .tempfile()?;
        file.write_all(content.as_bytes())?;
        let file = file.into_temp_path();
        let path = file.as_os_str().to_owned();
        self.files.push(file);
        Ok(path)
    }
}
