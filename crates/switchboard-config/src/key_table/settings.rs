//! The keys of a settings file.
//!
//! Invariant: a misspelt key that could contain a restriction is an error; other unknown keys are
//! warnings.

use super::{Key, KeyGroup, ValueType};
use crate::scope::Scope;

/// All keys of a settings file, in the order of the documentation.
pub const SETTINGS_KEYS: &[Key] = &[
    Key::new(
        "permissions",
        KeyGroup::Settings,
        ValueType::Rules,
        "Permission rules for tool calls, tried in order. A deny rule wins over all others. The object \
         of Claude Code is understood too: `{ \"allow\": [\"mcp__github\"], \"deny\": [] }`.",
    )
    .default("none: ask before every MCP tool call")
    .example(r#"[{ "tool": "mcp__github__get_*", "action": "allow" }]"#),
    Key::new(
        "disabledServers",
        KeyGroup::Settings,
        ValueType::Names,
        "Names of servers that are not started.",
    )
    .default("none")
    .example(r#"["github"]"#),
    Key::new(
        "env",
        KeyGroup::Settings,
        ValueType::Variables,
        "Variables for `${VAR}` in server entries and for the programs of stdio servers. They win \
         over variables of the shell. Values are used as written. Ignored in the settings of a project.",
    )
    .default("none")
    .example(r#"{ "GITHUB_TOKEN": "…", "HTTPS_PROXY": "http://proxy:3128" }"#)
    .masked(),
    Key::new(
        "limits",
        KeyGroup::Settings,
        ValueType::Limits,
        "Limits for messages, listings and results. A project can only lower them.",
    )
    .default("the defaults of the engine")
    .example(r#"{ "messageBytes": 33554432, "resultTextBytes": 200000 }"#),
    Key::new(
        "deadlines",
        KeyGroup::Settings,
        ValueType::Deadlines,
        "Timeouts in milliseconds. A project can only shorten them.",
    )
    .default("the defaults of the engine")
    .example(r#"{ "startup": 60000, "call": 600000 }"#),
    Key::new(
        "startConcurrency",
        KeyGroup::Settings,
        ValueType::Count,
        "How many stdio servers start at the same time. The others wait until one has completed its \
         handshake or has been starting for 5 seconds. A project can only lower it.",
    )
    .default("twice the number of cores")
    .example("8"),
    Key::new(
        "allowedServers",
        KeyGroup::Managed,
        ValueType::ServerMatches,
        "Only servers that match an item are allowed.",
    )
    .default("every server is allowed")
    .example(r#"[{ "name": "github" }, { "url": "https://*.example.com/*" }]"#),
    Key::new(
        "deniedServers",
        KeyGroup::Managed,
        ValueType::ServerMatches,
        "Servers that are never allowed.",
    )
    .default("none")
    .example(r#"[{ "command": ["npx", "-y", "leaky-server"] }]"#),
    Key::new(
        "managedServersOnly",
        KeyGroup::Managed,
        ValueType::Flag,
        "Allow only the servers of the managed file.",
    )
    .default("`false`")
    .example("true"),
    Key::new(
        "profile",
        KeyGroup::Managed,
        ValueType::Profile,
        "`local`: no restrictions. `server`: never run programs (no `command`, no `headersHelper`).",
    )
    .default("`local`")
    .example(r#""server""#),
];

/// The keys of `limits`.
pub const LIMIT_KEYS: [&str; 31] = [
    "messageBytes",
    "memoryBytes",
    "jsonNodes",
    "jsonDepth",
    "jsonTreeNodes",
    "writeQueueBytes",
    "listPages",
    "toolsPerServer",
    "resourcesPerServer",
    "promptsPerServer",
    "listingBytes",
    "nameBytes",
    "descriptionBytes",
    "schemaBytes",
    "cursorBytes",
    "stderrTailBytes",
    "inboundRequests",
    "inputRequests",
    "questionsPerMinute",
    "samplingsPerMinute",
    "samplingTokens",
    "logMessagesPerSecond",
    "progressBacklog",
    "eventBacklog",
    "contentBlocks",
    "resultTextBytes",
    "resultMediaBytes",
    "callsPerServer",
    "callsInFlight",
    "watches",
    "watchTextBytes",
];

/// The keys of `deadlines`, each a time in milliseconds.
pub const DEADLINE_KEYS: [&str; 11] = [
    "startup",
    "call",
    "idle",
    "list",
    "probe",
    "connect",
    "pingAfterIdle",
    "pingTimeout",
    "urlElicitation",
    "exitAfterEof",
    "exitAfterTerm",
];

/// Old and new names of renamed limits and deadlines. The loader accepts both. If a file contains
/// both, the new name wins.
pub(crate) const RENAMED_KEYS: [(&str, &str); 6] = [
    ("treeNodes", "jsonTreeNodes"),
    ("outboxBytes", "writeQueueBytes"),
    ("inputRounds", "inputRequests"),
    ("silence", "pingAfterIdle"),
    ("signOfLife", "pingTimeout"),
    ("visit", "urlElicitation"),
];

/// The current name of a limit or deadline, if `key` is an old name.
pub(crate) fn current_key(key: &str) -> Option<&'static str> {
    let mut renamed = RENAMED_KEYS.iter();
    let (_, current) = renamed.find(|(old, _)| *old == key)?;
    Some(current)
}

/// The keys allowed in the settings file of a scope. `$schema` lets editors find the JSON Schema.
pub(crate) fn known_settings_keys(scope: Scope) -> Vec<&'static str> {
    let is_known = |key: &&Key| key.group != KeyGroup::Managed || scope == Scope::Managed;
    let keys = SETTINGS_KEYS.iter().filter(is_known).map(|key| key.name);
    keys.chain(["$schema"]).collect()
}

/// Returns true if a key is allowed in managed settings only.
pub(crate) fn is_managed_key(key: &str) -> bool {
    let mut keys = SETTINGS_KEYS.iter();
    keys.any(|known| known.group == KeyGroup::Managed && known.name == key)
}

/// The keys of a rule.
pub(crate) const RULE_KEYS: [&str; 4] = ["tool", "pattern", "hint", "action"];

/// Returns true if the value of a key can restrict calls or servers.
pub(crate) fn is_restrictive_key(key: &str) -> bool {
    !matches!(
        key,
        "limits" | "deadlines" | "startConcurrency" | "env" | "$schema"
    )
}
