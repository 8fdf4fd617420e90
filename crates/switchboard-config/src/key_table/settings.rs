//! The keys of a settings file.

use super::{Key, Part, Shape};
use crate::scope::Scope;

/// Every key that may stand in a settings file, in the order in which they are explained.
pub const SETTINGS_KEYS: &[Key] = &[
    Key::new(
        "permissions",
        Part::Settings,
        Shape::Rules,
        "Which tools may be called, in the order in which the rules are tried; a deny anywhere wins.",
    )
    .default("none: every MCP tool is asked about")
    .example(r#"[{ "tool": "mcp__github__get_*", "action": "allow" }]"#),
    Key::new(
        "disabledServers",
        Part::Settings,
        Shape::Names,
        "Servers that are not started, by name.",
    )
    .default("none")
    .example(r#"["github"]"#),
    Key::new(
        "limits",
        Part::Settings,
        Shape::Limits,
        "Bounds for messages, listings and results, each a whole number. A project may only lower them.",
    )
    .default("the defaults of the engine")
    .example(r#"{ "messageBytes": 33554432, "resultTextBytes": 200000 }"#),
    Key::new(
        "deadlines",
        Part::Settings,
        Shape::Deadlines,
        "How long things may take, in milliseconds. A project may only shorten them.",
    )
    .default("the defaults of the engine")
    .example(r#"{ "startup": 60000, "call": 600000 }"#),
    Key::new(
        "allowedServers",
        Part::Managed,
        Shape::Servers,
        "Only servers that something in the list fits may be used.",
    )
    .default("every server may be")
    .example(r#"[{ "name": "github" }, { "url": "https://*.example.com/*" }]"#),
    Key::new(
        "deniedServers",
        Part::Managed,
        Shape::Servers,
        "Servers that may not be used, whatever else fits them.",
    )
    .default("none")
    .example(r#"[{ "command": ["npx", "-y", "leaky-server"] }]"#),
    Key::new(
        "managedServersOnly",
        Part::Managed,
        Shape::Flag,
        "Only the servers of the administrator's own file may be used.",
    )
    .default("`false`")
    .example("true"),
    Key::new(
        "profile",
        Part::Managed,
        Shape::Profile,
        "For whom the host runs: `local`, everything may be used; `server`, nothing external is ever executed.",
    )
    .default("`local`")
    .example(r#""server""#),
];

/// The names in `limits`, each a bound on size or count.
pub const LIMIT_KEYS: [&str; 28] = [
    "messageBytes",
    "memoryBytes",
    "jsonNodes",
    "jsonDepth",
    "treeNodes",
    "outboxBytes",
    "listPages",
    "toolsPerServer",
    "resourcesPerServer",
    "promptsPerServer",
    "listingBytes",
    "cursorBytes",
    "stderrTailBytes",
    "inboundRequests",
    "inputRounds",
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

/// The names in `deadlines`, each a time in milliseconds.
pub const DEADLINE_KEYS: [&str; 11] = [
    "startup",
    "call",
    "idle",
    "list",
    "probe",
    "connect",
    "silence",
    "signOfLife",
    "visit",
    "exitAfterEof",
    "exitAfterTerm",
];

/// The keys of the files of this scope, and the one by which editors find the schema.
pub(crate) fn known_settings_keys(scope: Scope) -> Vec<&'static str> {
    let is_known = |key: &&Key| key.part != Part::Managed || scope == Scope::Managed;
    let keys = SETTINGS_KEYS.iter().filter(is_known).map(|key| key.name);
    keys.chain(["$schema"]).collect()
}

/// Whether a key is the administrator's alone.
pub(crate) fn is_managed_key(key: &str) -> bool {
    let mut keys = SETTINGS_KEYS.iter();
    keys.any(|known| known.part == Part::Managed && known.name == key)
}

/// The keys of a rule.
pub(crate) const RULE_KEYS: [&str; 4] = ["tool", "pattern", "hint", "action"];

/// Whether a key forbids something, so that nobody may overlook it.
pub(crate) fn is_restrictive_key(key: &str) -> bool {
    !matches!(key, "limits" | "deadlines" | "$schema")
}
