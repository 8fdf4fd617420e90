//! The keys of a settings file, and what a misspelt one stands for.
//!
//! Invariant: a misspelt key under which something would be forbidden is an error. Others are warned about.

use crate::layer::Scope;
use crate::reference::{Key, Part, SETTINGS_KEYS};

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
pub(super) fn known(scope: Scope) -> Vec<&'static str> {
    let is_known = |key: &&Key| key.part != Part::Managed || scope == Scope::Managed;
    let keys = SETTINGS_KEYS.iter().filter(is_known).map(|key| key.name);
    keys.chain(["$schema"]).collect()
}

/// Whether a key is the administrator's alone.
pub(super) fn is_managed(key: &str) -> bool {
    let mut keys = SETTINGS_KEYS.iter();
    keys.any(|known| known.part == Part::Managed && known.name == key)
}

/// The keys of a rule.
pub(super) const RULE: [&str; 4] = ["tool", "pattern", "hint", "action"];

/// Whether a key forbids something, so that nobody may overlook it.
pub(super) fn forbids(key: &str) -> bool {
    !matches!(key, "limits" | "deadlines" | "$schema")
}
