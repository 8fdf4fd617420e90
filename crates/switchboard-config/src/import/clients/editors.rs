//! Format tables of the editors Cursor, VS Code, Windsurf and Zed.

use super::super::client_format::{
    BaseDir, ClientFormat, File, KeyMeaning, OnPlatform, Remote, Section, USE_PERMISSION_RULES,
    Unit, VariableSyntax,
};
use crate::raw::Syntax;

pub(super) static CURSOR: ClientFormat = ClientFormat {
    files: &[
        File::new(BaseDir::Home, ".cursor/mcp.json"),
        File::new(BaseDir::Project, ".cursor/mcp.json"),
    ],
    syntax: Syntax::Json,
    sections: |root, _, sections, _| {
        sections.extend(root.member("mcpServers").map(Section::new));
    },
    keys: &[],
    variable_syntax: VariableSyntax::Editor,
    url: Remote::Negotiated,
};

pub(super) static VSCODE: ClientFormat = ClientFormat {
    files: &[
        File::new(BaseDir::Applications, "Code/User/mcp.json"),
        File::new(BaseDir::Applications, "Code - Insiders/User/mcp.json"),
        File::new(BaseDir::Project, ".vscode/mcp.json"),
    ],
    syntax: Syntax::Json,
    sections: |root, _, sections, _| {
        sections.extend(root.member("servers").map(Section::new));
    },
    keys: &[
        ("sandboxEnabled", KeyMeaning::UnsupportedIfTrue(SANDBOX)),
        ("sandbox", KeyMeaning::Unsupported(SANDBOX)),
        ("dev", KeyMeaning::Ignored),
        ("gallery", KeyMeaning::Ignored),
        ("version", KeyMeaning::Ignored),
    ],
    variable_syntax: VariableSyntax::Editor,
    // VS Code tries streamable HTTP first, even if `type` is `sse`.
    url: Remote::Negotiated,
};

const SANDBOX: &str = "the server runs without a sandbox";

pub(super) static WINDSURF: ClientFormat = ClientFormat {
    files: &[
        File::new(BaseDir::Home, ".codeium/windsurf/mcp_config.json"),
        File::new(BaseDir::Home, ".codeium/mcp_config.json"),
    ],
    syntax: Syntax::Json,
    sections: |root, _, sections, _| {
        sections.extend(root.member("mcpServers").map(Section::new));
    },
    keys: &[("serverUrl", KeyMeaning::Url)],
    variable_syntax: VariableSyntax::Editor,
    url: Remote::Negotiated,
};

pub(super) static ZED: ClientFormat = ClientFormat {
    files: &[
        File::new(BaseDir::Xdg, "zed/settings.json").on(OnPlatform::Others),
        File::new(BaseDir::Applications, "Zed/settings.json").on(OnPlatform::Windows),
        File::new(BaseDir::Project, ".zed/settings.json"),
    ],
    syntax: Syntax::Json,
    sections: |root, _, sections, _| {
        sections.extend(root.member("context_servers").map(Section::new));
    },
    keys: &[
        (
            "timeout",
            KeyMeaning::CallTimeout(Unit::SecondsOrLegacyMillis),
        ),
        ("source", KeyMeaning::ClientOnly("extension")),
        (
            "settings",
            KeyMeaning::Unsupported("used only by the Zed extension that starts the server"),
        ),
        (
            "remote",
            KeyMeaning::UnsupportedIfTrue("the server runs on this machine"),
        ),
        (
            "tool_permissions",
            KeyMeaning::Unsupported(USE_PERMISSION_RULES),
        ),
    ],
    variable_syntax: VariableSyntax::None,
    url: Remote::Http,
};
