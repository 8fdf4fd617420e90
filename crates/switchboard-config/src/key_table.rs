//! The table of all keys of server entries and settings.
//!
//! The validator, the reference in `docs/config.md` and the JSON Schemas for editors use this
//! table. Invariant: the loader reports a problem for everything that the schemas reject. The
//! loader also checks what a schema cannot express, such as unset variables and duplicate keys.

mod entry;
pub(crate) mod lookup;
mod markdown;
mod schema;
mod settings;

use std::ops::RangeInclusive;

pub use entry::ENTRY_KEYS;
pub use markdown::{entry_tables, settings_tables};
pub use schema::{servers_schema, settings_schema};
pub use settings::{DEADLINE_KEYS, LIMIT_KEYS, SETTINGS_KEYS};
pub(crate) use settings::{
    RENAMED_KEYS, RULE_KEYS, current_key, is_managed_key, is_restrictive_key, known_settings_keys,
};

/// Range of timeouts in milliseconds: up to 24 hours.
pub(crate) const TIMEOUT_RANGE: RangeInclusive<u64> = 1..=24 * 60 * 60 * 1000;
/// Range of counts.
pub(crate) const COUNT_RANGE: RangeInclusive<u64> = 1..=u32::MAX as u64;
/// Range of limits. Larger values have no practical effect.
pub(crate) const LIMIT_RANGE: RangeInclusive<u64> = 1..=1 << 40;
/// Range of `maxAttempts`.
pub(crate) const ATTEMPTS_RANGE: RangeInclusive<u64> = 0..=u32::MAX as u64;

/// The values of the key `type`.
pub(crate) const TRANSPORT_TYPES: [&str; 6] = [
    "stdio",
    "http",
    "streamable-http",
    "sse",
    "sdk",
    "claudeai-proxy",
];
/// The keys of the object `tls`.
pub(crate) const TLS_KEYS: [&str; 3] = ["ca", "cert", "key"];

/// A key of an entry or of the settings.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Key {
    /// The key as written.
    pub name: &'static str,
    /// Where the key is allowed. The documentation has a table for each group.
    pub group: KeyGroup,
    /// The type of the value.
    pub value_type: ValueType,
    /// What the key does, in one or two sentences.
    pub description: &'static str,
    /// The default, as text; empty if there is none.
    pub default: &'static str,
    /// An example value, as JSON.
    pub example: &'static str,
    /// Whether variables in the value are expanded.
    pub expands: Expands,
    /// Whether a change of the value in a project's entry requires a new approval.
    pub approval: ApprovalEffect,
    /// Whether literal values are masked in output. The review before an approval masks only values
    /// that look like secrets.
    pub masking: Masking,
}

/// Where a key is allowed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyGroup {
    /// In every server entry.
    AllServers,
    /// In entries of stdio servers.
    Program,
    /// In entries of remote servers.
    Remote,
    /// In the settings of every scope.
    Settings,
    /// In managed settings only.
    Managed,
}

/// The type of the value of a key.
#[derive(Clone, Copy, Debug)]
pub enum ValueType {
    /// A transport type, such as `"stdio"` or `"http"`.
    Type,
    /// Any text.
    Text,
    /// Text that is not empty.
    NonEmptyText,
    /// An http or https URL.
    HttpUrl,
    /// A list of texts or numbers.
    TextList,
    /// Environment variables by name.
    Variables,
    /// HTTP headers by name.
    Headers,
    /// `"all"`, or a list of names.
    AllOrNames,
    /// `true` or `false`.
    Flag,
    /// A time in milliseconds.
    Millis,
    /// A whole number, at least 1.
    Count,
    /// The object `reconnect`.
    Reconnect,
    /// The object `tls`.
    Tls,
    /// Any value. The key is reserved, and its value is ignored.
    AnyValue,
    /// An object of limits.
    Limits,
    /// An object of times in milliseconds.
    Deadlines,
    /// A list of names.
    Names,
    /// Permission rules.
    Rules,
    /// A list that selects servers by name, command or URL.
    ServerMatches,
    /// `local` or `server`.
    Profile,
}

/// Whether variables in a value are expanded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Expands {
    /// `${VAR}` and `${VAR:-default}` are expanded.
    Yes,
    /// The value is used as written.
    No,
}

/// Whether a change of the value requires a new approval.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ApprovalEffect {
    /// The user has to approve the entry again.
    Reapprove,
    /// The approval stays valid.
    Keep,
}

/// Whether literal values of a key are masked in output.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Masking {
    /// Masked: literal values may be secrets.
    Masked,
    /// Shown as written.
    Shown,
}

impl Key {
    /// Creates a key whose value is not expanded and not masked, and whose changes need no new
    /// approval.
    const fn new(
        name: &'static str,
        group: KeyGroup,
        value_type: ValueType,
        description: &'static str,
    ) -> Self {
        Self {
            name,
            group,
            value_type,
            description,
            default: "",
            example: "",
            expands: Expands::No,
            approval: ApprovalEffect::Keep,
            masking: Masking::Shown,
        }
    }

    const fn default(mut self, default: &'static str) -> Self {
        self.default = default;
        self
    }

    const fn example(mut self, example: &'static str) -> Self {
        self.example = example;
        self
    }

    const fn expanded(mut self) -> Self {
        self.expands = Expands::Yes;
        self
    }

    const fn needs_reapproval(mut self) -> Self {
        self.approval = ApprovalEffect::Reapprove;
        self
    }

    const fn masked(mut self) -> Self {
        self.masking = Masking::Masked;
        self
    }
}

/// Finds a key of an entry by name.
pub(crate) fn entry_key(name: &str) -> Option<&'static Key> {
    ENTRY_KEYS.iter().find(|key| key.name == name)
}
