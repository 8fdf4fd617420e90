//! What there is to know of one client: its files, where the servers stand in them, and its words.

use std::path::Path;

use super::{Authorship, Platform, Whereabouts};
use crate::raw::{RawKind, RawMember, RawValue, Syntax};

/// How one client writes its servers down.
pub(super) struct ClientFormat {
    pub(super) files: &'static [File],
    pub(super) syntax: Syntax,
    /// Finds where servers stand in a file, and says what else is to be said of it.
    pub(super) sections: Sections,
    /// What its keys mean. A key that stands here with no meaning of its own is told as left out.
    pub(super) keys: &'static [(&'static str, Key)],
    pub(super) notation: Notation,
    /// What a `url` without a `type` means.
    pub(super) url: Remote,
}

pub(super) type Sections =
    for<'a> fn(&'a RawValue, &Whereabouts<'_>, &mut Vec<Section<'a>>, &mut Vec<String>);

impl ClientFormat {
    /// What a key of an entry means.
    pub(super) fn key(&self, key: &str) -> Option<Key> {
        let tables = self.keys.iter().chain(COMMON);
        let found = tables.into_iter().find(|(known, _)| *known == key);
        found.map(|(_, meaning)| *meaning)
    }

    pub(super) fn files_on(&self, platform: Platform) -> impl Iterator<Item = &File> {
        let is_there = move |file: &&File| match file.on {
            On::Any => true,
            On::Windows => platform == Platform::Windows,
            On::Others => platform != Platform::Windows,
        };
        self.files.iter().filter(is_there)
    }
}

/// A place where a client keeps servers.
pub(super) struct File {
    pub(super) base: Base,
    pub(super) path: &'static str,
    pub(super) on: On,
}

impl File {
    pub(super) const fn new(base: Base, path: &'static str) -> Self {
        Self {
            base,
            path,
            on: On::Any,
        }
    }

    pub(super) const fn on(self, on: On) -> Self {
        Self { on, ..self }
    }

    pub(super) fn authorship(&self) -> Authorship {
        match self.base {
            Base::Project => Authorship::Project,
            _ => Authorship::User,
        }
    }

    /// Whether `path` may be this file, as far as names tell.
    pub(super) fn fits(&self, path: &Path) -> bool {
        match self.base {
            Base::Named { otherwise, .. } => path.ends_with(Path::new(otherwise).join(self.path)),
            _ => path.ends_with(self.path),
        }
    }
}

/// What the path of a file is relative to.
#[derive(Clone, Copy)]
pub(super) enum Base {
    Home,
    Project,
    /// `$XDG_CONFIG_HOME` or `~/.config`, whatever the platform.
    Xdg,
    /// Where desktop programs keep their settings on this platform.
    Applications,
    /// A folder that a variable may name, and otherwise one in the home folder.
    Named {
        variable: &'static str,
        otherwise: &'static str,
    },
}

#[derive(Clone, Copy)]
pub(super) enum On {
    Any,
    Windows,
    Others,
}

/// A place in a file where servers stand.
pub(super) struct Section<'a> {
    /// The object that holds them, by name.
    pub(super) servers: &'a RawMember,
    /// Whether the user keeps them for the project alone.
    pub(super) is_of_project: bool,
    /// The names of those that are switched off.
    pub(super) disabled: Vec<String>,
    /// The names of those that are switched off in this project, and on elsewhere.
    pub(super) disabled_here: Vec<String>,
}

impl<'a> Section<'a> {
    pub(super) fn of(servers: &'a RawMember) -> Self {
        Self {
            servers,
            is_of_project: false,
            disabled: Vec::new(),
            disabled_here: Vec::new(),
        }
    }
}

/// The texts of a list.
pub(super) fn names(list: Option<&RawMember>) -> Vec<String> {
    let Some(RawKind::List(items)) = list.map(|list| &list.value.kind) else {
        return Vec::new();
    };
    let names = items.iter().filter_map(|item| match &item.kind {
        RawKind::Text(name) => Some(name.clone()),
        _ => None,
    });
    names.collect()
}

/// What a key of an entry means to its client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Key {
    Type,
    /// The program; also as a list with its arguments, or as an object with `path`, `args` and `env`.
    Command,
    Args,
    Env,
    /// Names of variables that are passed on.
    PassedOn,
    Cwd,
    Url,
    UrlOf(Remote),
    Headers,
    /// Headers whose values are in variables.
    HeadersFromVariables,
    /// The variable that holds the token to send.
    BearerVariable,
    CallTimeout(Unit),
    StartTimeout(Unit),
    /// A limit for both; or an object with `startup` and `request`.
    Timeout(Unit),
    Enabled,
    Disabled,
    /// It means here what it means there.
    Same,
    /// Nothing here does the same, and that matters: what to do instead.
    Lost(&'static str),
    /// As [`Self::Lost`], where the value says that it is in use.
    LostIfTrue(&'static str),
    /// The server is started by something that only this client has.
    Foreign(&'static str),
    /// Says nothing about how the server is run.
    Description,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Unit {
    Milliseconds,
    Seconds,
    /// Seconds, but milliseconds in older versions.
    SecondsOfLate,
}

/// The transport that a remote server is spoken to by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Remote {
    Http,
    Sse,
    /// The client finds out, and so do we.
    Negotiated,
}

/// How a client spells variables.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Notation {
    /// `${NAME}` and `${NAME:-default}`, as here.
    Ours,
    /// Values are handed over as they stand.
    None,
    /// `${env:NAME}`, `${workspaceFolder}`, `${input:id}` and their like.
    Editor,
    /// `$NAME` and `${NAME}`, and `%NAME%` on Windows.
    Shell,
    /// `{env:NAME}` and `{file:path}`.
    Braces,
}

pub(super) const RULES: &str = "write permission rules for its tools instead";

/// What nearly everybody means by these.
const COMMON: &[(&str, Key)] = &[
    ("type", Key::Type),
    ("transport", Key::Type),
    ("command", Key::Command),
    ("args", Key::Args),
    ("env", Key::Env),
    ("cwd", Key::Cwd),
    ("url", Key::Url),
    ("headers", Key::Headers),
    ("disabled", Key::Disabled),
    ("enabled", Key::Enabled),
    (
        "envFile",
        Key::Lost("put the variables of that file into `env`, or name them in `inheritEnv`"),
    ),
    ("autoApprove", Key::Lost(RULES)),
    ("alwaysAllow", Key::Lost(RULES)),
    ("disabledTools", Key::Lost(RULES)),
    ("oauth", Key::Lost("log in again here")),
    ("auth", Key::Lost("log in again here")),
    ("name", Key::Description),
    ("description", Key::Description),
    ("icon", Key::Description),
];
