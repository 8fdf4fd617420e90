//! Editors: Cursor, VS Code, Windsurf and Zed.

use super::super::client_format::{
    Base, ClientFormat, File, Key, Notation, On, RULES, Remote, Section, Unit,
};
use crate::raw::Syntax;

pub(super) static CURSOR: ClientFormat = ClientFormat {
    files: &[
        File::new(Base::Home, ".cursor/mcp.json"),
        File::new(Base::Project, ".cursor/mcp.json"),
    ],
    syntax: Syntax::Json,
    sections: |root, _, sections, _| {
        sections.extend(root.member("mcpServers").map(Section::of));
    },
    keys: &[],
    notation: Notation::Editor,
    url: Remote::Negotiated,
};

pub(super) static VSCODE: ClientFormat = ClientFormat {
    files: &[
        File::new(Base::Applications, "Code/User/mcp.json"),
        File::new(Base::Applications, "Code - Insiders/User/mcp.json"),
        File::new(Base::Project, ".vscode/mcp.json"),
    ],
    syntax: Syntax::Json,
    sections: |root, _, sections, _| {
        sections.extend(root.member("servers").map(Section::of));
    },
    keys: &[
        ("sandboxEnabled", Key::LostIfTrue(SANDBOX)),
        ("sandbox", Key::Lost(SANDBOX)),
        ("dev", Key::Description),
        ("gallery", Key::Description),
        ("version", Key::Description),
    ],
    notation: Notation::Editor,
    // It tries streamable HTTP first, whichever of the two the entry names.
    url: Remote::Negotiated,
};

const SANDBOX: &str = "here the server runs without a sandbox";

pub(super) static WINDSURF: ClientFormat = ClientFormat {
    files: &[
        File::new(Base::Home, ".codeium/windsurf/mcp_config.json"),
        File::new(Base::Home, ".codeium/mcp_config.json"),
    ],
    syntax: Syntax::Json,
    sections: |root, _, sections, _| {
        sections.extend(root.member("mcpServers").map(Section::of));
    },
    keys: &[("serverUrl", Key::Url)],
    notation: Notation::Editor,
    url: Remote::Negotiated,
};

pub(super) static ZED: ClientFormat = ClientFormat {
    files: &[
        File::new(Base::Xdg, "zed/settings.json").on(On::Others),
        File::new(Base::Applications, "Zed/settings.json").on(On::Windows),
        File::new(Base::Project, ".zed/settings.json"),
    ],
    syntax: Syntax::Json,
    sections: |root, _, sections, _| {
        sections.extend(root.member("context_servers").map(Section::of));
    },
    keys: &[
        ("timeout", Key::CallTimeout(Unit::SecondsOfLate)),
        ("source", Key::Foreign("extension")),
        (
            "settings",
            Key::Lost("they are for the extension of Zed that starts the server"),
        ),
        (
            "remote",
            Key::LostIfTrue("here the server runs on this machine"),
        ),
        ("tool_permissions", Key::Lost(RULES)),
    ],
    notation: Notation::None,
    url: Remote::Http,
};
