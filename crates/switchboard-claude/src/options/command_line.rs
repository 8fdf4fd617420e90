//! Turns options into the arguments, temporary files and environment of the CLI.
//!
//! Invariant: the CLI cannot mistake a value for a flag. Settings in JSON and server entries may
//! contain secrets. They, and system prompts of more than 64 KiB, are written to temporary files
//! that only the current user can read.

use std::ffi::{OsStr, OsString};
use std::io::{self, Write};

use serde_json::{Map, Value, json};
use tempfile::TempPath;

use super::values::{PermissionMode, SettingSource};
use super::{Options, SystemPrompt};
use crate::tool_names::{ALL_SERVERS_PATTERN, server_tools_pattern};

/// Maximum length of a system prompt that is passed as an argument, in bytes. A longer one is
/// passed in a file, because Linux limits a single argument to 128 KiB.
const MAX_INLINE_BYTES: usize = 64 * 1024;

/// Environment variables that the CLI must not inherit. With `CLAUDECODE` set, the CLI assumes that
/// it was started by another CLI.
pub(crate) const NOT_INHERITED: [&str; 1] = ["CLAUDECODE"];

/// The arguments of the CLI, and the temporary files whose paths they contain.
#[derive(Debug, Default)]
pub(crate) struct CommandLine {
    pub(crate) arguments: Vec<OsString>,
    /// The temporary files, which are deleted when this field is dropped. Keep it until the CLI has
    /// exited, because the CLI may read the files again.
    files: Vec<TempPath>,
}

impl Options {
    /// Builds the arguments and writes the temporary files whose paths they contain.
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

    /// Returns the variables that are added to the inherited environment. Values of
    /// [`Options::env`] override all others.
    pub(crate) fn environment(&self) -> Vec<(OsString, OsString)> {
        let defaults = [
            ("CLAUDE_CODE_ENTRYPOINT", "sdk-rs"),
            // Makes the CLI report its session state in `session_state_changed` messages.
            ("CLAUDE_CODE_SDK_READS_SESSION_STATE", "1"),
        ];
        let defaults = defaults.map(|(name, value)| (OsString::from(name), OsString::from(value)));
        let pwd = self.cwd.iter().map(|cwd| {
            let cwd = std::path::absolute(cwd).unwrap_or_else(|_| cwd.clone());
            ("PWD".into(), cwd.into_os_string())
        });
        defaults
            .into_iter()
            .chain(pwd)
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
        let allowed = self.expand_wildcards(&self.allowed_tools);
        if !allowed.is_empty() {
            line.pair("--allowedTools", allowed.join(","));
        }
        let mut disallowed = self.expand_wildcards(&self.disallowed_tools);
        if self
            .disallowed_tools
            .iter()
            .any(|tool| tool == ALL_SERVERS_PATTERN)
        {
            // Keep `mcp__*` in addition to the pattern of each server, because `mcp__*` also
            // matches servers that are not in these options.
            disallowed.push(ALL_SERVERS_PATTERN.to_owned());
        }
        if !disallowed.is_empty() {
            line.pair("--disallowedTools", disallowed.join(","));
        }
    }

    /// Replaces `mcp__*` by one pattern for each server of the options, because the CLI does not
    /// accept `mcp__*` in `--allowedTools`.
    fn expand_wildcards(&self, tools: &[String]) -> Vec<String> {
        let mut expanded = Vec::new();
        for tool in tools {
            if tool == ALL_SERVERS_PATTERN {
                expanded.extend(
                    self.servers
                        .iter()
                        .map(|(name, _)| server_tools_pattern(name)),
                );
            } else {
                expanded.push(tool.clone());
            }
        }
        expanded
    }

    fn add_model(&self, line: &mut CommandLine) {
        line.option("--max-turns", self.max_turns.map(|turns| turns.to_string()));
        let budget = self.max_budget_usd.map(|dollars| dollars.to_string());
        line.option("--max-budget-usd", budget);
        line.option("--model", self.model.as_ref());
        line.option("--fallback-model", self.fallback_model.as_ref());
        let schema = self.json_schema.as_ref().map(ToString::to_string);
        line.option("--json-schema", schema);
        if self.flags.partial_messages {
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
        if self.flags.continue_conversation {
            line.flag("--continue");
        }
        if let Some(id) = &self.resume {
            line.joined("--resume", id);
        }
        if let Some(id) = &self.session_id {
            line.joined("--session-id", id);
        }
        if self.flags.fork_session {
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
        for directory in &self.add_dirs {
            line.pair("--add-dir", directory);
        }
        Ok(())
    }

    /// Writes the external servers to the file for `--mcp-config`. In-process servers are declared
    /// in `initialize` instead: the CLI would query servers from the command line before it
    /// receives their manifests.
    fn add_servers(&self, line: &mut CommandLine) -> io::Result<()> {
        let external = self.servers.iter();
        let external = external.filter(|(_, config)| config.instance().is_none());
        let external: Map<String, Value> = external
            .map(|(name, config)| (name.clone(), config.to_json(name)))
            .collect();
        if !external.is_empty() {
            let entries = json!({"mcpServers": external}).to_string();
            let file = line.file("servers", &entries)?;
            line.pair("--mcp-config", file);
        }
        if self.flags.strict_mcp_config {
            line.flag("--strict-mcp-config");
        }
        Ok(())
    }
}

impl CommandLine {
    fn flag(&mut self, flag: &str) {
        self.arguments.push(flag.into());
    }

    /// Adds a flag and its value. If the value starts with `-`, adds a single argument,
    /// `flag=value`.
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
        if prompt.len() <= MAX_INLINE_BYTES {
            self.pair(flag, prompt);
        } else {
            let file = self.file("prompt", prompt)?;
            self.pair(&format!("{flag}-file"), file);
        }
        Ok(())
    }

    /// Writes a temporary file with mode 0600 and returns its path. `label` becomes part of the
    /// file name.
    fn file(&mut self, label: &str, content: &str) -> io::Result<OsString> {
        let mut file = tempfile::Builder::new()
            .prefix(&format!("switchboard-{label}-"))
            .suffix(".json")
            .tempfile()?;
        file.write_all(content.as_bytes())?;
        let file = file.into_temp_path();
        let path = file.as_os_str().to_owned();
        self.files.push(file);
        Ok(path)
    }
}
