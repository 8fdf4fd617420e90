//! Every key of a server entry and of the settings, each with all that is to be said about it.
//!
//! The one table of keys: the validator knows them from here, `docs/config.md` has its reference and
//! editors have their JSON Schema from here. Invariant: what a schema says of an entry, the loader
//! says too; only what the environment or a second look at the text decides is the loader's alone.

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
pub(crate) use settings::{RULE_KEYS, is_managed_key, is_restrictive_key, known_settings_keys};

/// The deadlines that may be written, in milliseconds: up to a day.
pub(crate) const MILLIS: RangeInclusive<u64> = 1..=24 * 60 * 60 * 1000;
/// The numbers of things that may be written.
pub(crate) const COUNT: RangeInclusive<u64> = 1..=u32::MAX as u64;
/// The bounds that may be written; whoever wants more wants none.
pub(crate) const BOUND: RangeInclusive<u64> = 1..=1 << 40;
/// The numbers of attempts that may be written.
pub(crate) const ATTEMPTS: RangeInclusive<u64> = 0..=u32::MAX as u64;

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

/// A key, and what stands under it.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Key {
    /// As it is written.
    pub name: &'static str,
    /// What it belongs to.
    pub part: Part,
    /// What its value looks like.
    pub shape: Shape,
    /// What it means, in a sentence or two.
    pub meaning: &'static str,
    /// What holds where it is not written; empty where nothing does.
    pub default: &'static str,
    /// A value, as JSON.
    pub example: &'static str,
    /// Whether variables in it are filled in.
    pub expansion: Expansion,
    /// Whether a project's entry in which it changes must be approved again.
    pub approval: Approval,
    /// Whether what is written under it may be shown.
    pub display: Display,
}

/// What a key belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// Every server.
    Every,
    /// Servers that are programs to start.
    Program,
    /// Servers that are reached over the network.
    Remote,
    /// The settings of any scope.
    Settings,
    /// The settings of the administrator.
    Managed,
}

/// What the value of a key looks like.
#[derive(Clone, Copy, Debug)]
pub enum Shape {
    /// How a server is reached, in one word.
    Type,
    /// Any text.
    Text,
    /// Text that says something.
    Word,
    /// The address of a server.
    Address,
    /// A list of texts; a number stands for its digits.
    Texts,
    /// Variables by name.
    Variables,
    /// Headers by name.
    Headers,
    /// `"all"`, or a list of names.
    AllOrNames,
    /// `true` or `false`.
    Flag,
    /// A time in milliseconds.
    Millis,
    /// A number of things, at least one.
    Count,
    /// When reconnecting stops.
    Reconnect,
    /// Files with certificates.
    Tls,
    /// Not looked at yet.
    Anything,
    /// An object of bounds on size and count.
    Limits,
    /// An object of times in milliseconds.
    Deadlines,
    /// A list of names.
    Names,
    /// Permission rules.
    Rules,
    /// Servers by name, command or address.
    Servers,
    /// For whom a host runs.
    Profile,
}

/// Whether variables in a value are filled in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Expansion {
    /// `${VAR}` and `${VAR:-default}` are.
    FilledIn,
    /// It is taken as written.
    AsWritten,
}

/// Whether a change of a project's entry must be approved again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Approval {
    /// It must.
    AsksAgain,
    /// It holds without.
    Stays,
}

/// Whether what is written under a key may be shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Display {
    /// Literal values are masked: they may be secrets.
    Masked,
    /// It is shown as written.
    Shown,
}

impl Key {
    /// A key that is taken as written, may be shown, and needs no approval.
    const fn new(name: &'static str, part: Part, shape: Shape, meaning: &'static str) -> Self {
        Self {
            name,
            part,
            shape,
            meaning,
            default: "",
            example: "",
            expansion: Expansion::AsWritten,
            approval: Approval::Stays,
            display: Display::Shown,
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

    const fn filled_in(mut self) -> Self {
        self.expansion = Expansion::FilledIn;
        self
    }

    const fn asks_again(mut self) -> Self {
        self.approval = Approval::AsksAgain;
        self
    }

    const fn masked(mut self) -> Self {
        self.display = Display::Masked;
        self
    }
}

/// The key of an entry with this name.
pub(crate) fn entry_key(name: &str) -> Option<&'static Key> {
    ENTRY_KEYS.iter().find(|key| key.name == name)
}
