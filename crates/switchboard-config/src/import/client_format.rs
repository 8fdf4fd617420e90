//! The table that describes one client: its files, the section with the servers, its keys and its
//! variable syntax.

use std::path::Path;

use super::{FileOwner, ImportContext, Platform};
use crate::raw::{RawKind, RawMember, RawValue, Syntax};

/// The config format of one client.
pub(super) struct ClientFormat {
    pub(super) files: &'static [File],
    pub(super) syntax: Syntax,
    /// Finds the sections with servers in a file, and adds notes about the file.
    pub(super) sections: Sections,
    /// Keys of this client. They override the keys in [`COMMON`].
    pub(super) keys: &'static [(&'static str, KeyMeaning)],
    pub(super) variable_syntax: VariableSyntax,
    /// The transport of an entry that has a `url` and no `type`.
    pub(super) url: Remote,
}

pub(super) type Sections =
    for<'a> fn(&'a RawValue, &ImportContext<'_>, &mut Vec<Section<'a>>, &mut Vec<String>);

impl ClientFormat {
    /// Looks up a key of an entry.
    pub(super) fn key(&self, key: &str) -> Option<KeyMeaning> {
        let tables = self.keys.iter().chain(COMMON);
        let found = tables.into_iter().find(|(known, _)| *known == key);
        found.map(|(_, meaning)| *meaning)
    }

    pub(super) fn files_on(&self, platform: Platform) -> impl Iterator<Item = &File> {
        let is_used = move |file: &&File| match file.on {
            OnPlatform::Any => true,
            OnPlatform::Windows => platform == Platform::Windows,
            OnPlatform::Others => platform != Platform::Windows,
        };
        self.files.iter().filter(is_used)
    }
}

/// A config file of a client.
pub(super) struct File {
    pub(super) base: BaseDir,
    pub(super) path: &'static str,
    pub(super) on: OnPlatform,
}

impl File {
    pub(super) const fn new(base: BaseDir, path: &'static str) -> Self {
        Self {
            base,
            path,
            on: OnPlatform::Any,
        }
    }

    pub(super) const fn on(self, on: OnPlatform) -> Self {
        Self { on, ..self }
    }

    pub(super) fn owner(&self) -> FileOwner {
        match self.base {
            BaseDir::Project => FileOwner::Project,
            _ => FileOwner::User,
        }
    }

    /// Returns true if the last components of `path` are the path of this file. For
    /// [`BaseDir::FromVariable`], the path of the file includes the default directory.
    pub(super) fn matches(&self, path: &Path) -> bool {
        match self.base {
            BaseDir::FromVariable { default, .. } => {
                path.ends_with(Path::new(default).join(self.path))
            }
            _ => path.ends_with(self.path),
        }
    }
}

/// The directory that the path of a file is relative to.
#[derive(Clone, Copy)]
pub(super) enum BaseDir {
    Home,
    Project,
    /// `$XDG_CONFIG_HOME` or `~/.config`, on every platform.
    Xdg,
    /// The settings directory of desktop programs on this platform.
    Applications,
    /// The directory in a variable, or a default directory in the home directory.
    FromVariable {
        variable: &'static str,
        default: &'static str,
    },
}

#[derive(Clone, Copy)]
pub(super) enum OnPlatform {
    Any,
    Windows,
    Others,
}

/// A section of a file that contains servers.
pub(super) struct Section<'a> {
    /// The object with the servers by name.
    pub(super) servers: &'a RawMember,
    /// True if the servers apply to the current project only.
    pub(super) is_project_scoped: bool,
    /// Names of disabled servers.
    pub(super) disabled: Vec<String>,
    /// Names of servers that are disabled in the current project only.
    pub(super) disabled_in_project: Vec<String>,
}

impl<'a> Section<'a> {
    pub(super) fn new(servers: &'a RawMember) -> Self {
        Self {
            servers,
            is_project_scoped: false,
            disabled: Vec::new(),
            disabled_in_project: Vec::new(),
        }
    }
}

/// Returns the strings in `list`. Empty if there is no list.
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

/// What a key of a foreign entry means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum KeyMeaning {
    Type,
    /// The program. Also accepts a list of the program and its arguments, or an object with `path`,
    /// `args` and `env`.
    Command,
    Args,
    Env,
    /// Names of variables to inherit.
    InheritEnv,
    Cwd,
    Url,
    UrlOf(Remote),
    Headers,
    /// An object that maps each header to the name of the variable that contains its value.
    HeadersFromVariables,
    /// The name of the variable that contains the bearer token.
    BearerVariable,
    CallTimeout(Unit),
    StartTimeout(Unit),
    /// A timeout for start and calls, or an object with `startup` and `request`.
    Timeout(Unit),
    Enabled,
    Disabled,
    /// Copied without a change: Switchboard has the same key.
    Unchanged,
    /// Not supported. The text tells the user what follows from that, or what to do instead.
    Unsupported(&'static str),
    /// Like [`Self::Unsupported`], but only if the value is not `false`.
    UnsupportedIfTrue(&'static str),
    /// If the value equals this text, the server is started by a part of the client and cannot be
    /// imported.
    ClientOnly(&'static str),
    /// Ignored: it does not affect how the server runs.
    Ignored,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Unit {
    Milliseconds,
    Seconds,
    /// Seconds; older versions of the client used milliseconds.
    SecondsOrLegacyMillis,
}

/// The transport of a remote server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Remote {
    Http,
    Sse,
    /// Try streamable HTTP first, then SSE.
    Negotiated,
}

/// How a client writes references to variables.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum VariableSyntax {
    /// `${NAME}` and `${NAME:-default}`, as in Switchboard.
    Native,
    /// No references: values are passed literally.
    None,
    /// `${env:NAME}`, `${workspaceFolder}`, `${input:id}` and similar.
    Editor,
    /// `$NAME` and `${NAME}`, and `%NAME%` on Windows.
    Shell,
    /// `{env:NAME}` and `{file:path}`.
    Braces,
}

pub(super) const USE_PERMISSION_RULES: &str = "add permission rules for its tools instead";

/// Keys that most clients share.
const COMMON: &[(&str, KeyMeaning)] = &[
    ("type", KeyMeaning::Type),
    ("transport", KeyMeaning::Type),
    ("command", KeyMeaning::Command),
    ("args", KeyMeaning::Args),
    ("env", KeyMeaning::Env),
    ("cwd", KeyMeaning::Cwd),
    ("url", KeyMeaning::Url),
    ("headers", KeyMeaning::Headers),
    ("disabled", KeyMeaning::Disabled),
    ("enabled", KeyMeaning::Enabled),
    (
        "envFile",
        KeyMeaning::Unsupported(
            "copy the variables of that file to `env`, or list them in `inheritEnv`",
        ),
    ),
    ("autoApprove", KeyMeaning::Unsupported(USE_PERMISSION_RULES)),
    ("alwaysAllow", KeyMeaning::Unsupported(USE_PERMISSION_RULES)),
    (
        "disabledTools",
        KeyMeaning::Unsupported(USE_PERMISSION_RULES),
    ),
    ("oauth", KeyMeaning::Unsupported("log in again here")),
    ("auth", KeyMeaning::Unsupported("log in again here")),
    ("name", KeyMeaning::Ignored),
    ("description", KeyMeaning::Ignored),
    ("icon", KeyMeaning::Ignored),
];
