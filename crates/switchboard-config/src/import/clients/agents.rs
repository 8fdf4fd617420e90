//! Format tables of the command line clients Codex, Gemini CLI and opencode.

use super::super::ImportContext;
use super::super::client_format::{
    BaseDir, ClientFormat, File, KeyMeaning, Remote, Section, USE_PERMISSION_RULES, Unit,
    VariableSyntax, names,
};
use crate::raw::{RawValue, Syntax};
use crate::text::replace_control_chars;

pub(super) static CODEX: ClientFormat = ClientFormat {
    files: &[
        File::new(
            BaseDir::FromVariable {
                variable: "CODEX_HOME",
                default: ".codex",
            },
            "config.toml",
        ),
        File::new(BaseDir::Project, ".codex/config.toml"),
    ],
    syntax: Syntax::Toml,
    sections: |root, _, sections, _| {
        sections.extend(root.member("mcp_servers").map(Section::new));
    },
    keys: &[
        ("env_vars", KeyMeaning::InheritEnv),
        ("http_headers", KeyMeaning::Headers),
        ("env_http_headers", KeyMeaning::HeadersFromVariables),
        ("bearer_token_env_var", KeyMeaning::BearerVariable),
        (
            "startup_timeout_sec",
            KeyMeaning::StartTimeout(Unit::Seconds),
        ),
        (
            "startup_timeout_ms",
            KeyMeaning::StartTimeout(Unit::Milliseconds),
        ),
        ("tool_timeout_sec", KeyMeaning::CallTimeout(Unit::Seconds)),
        (
            "enabled_tools",
            KeyMeaning::Unsupported(USE_PERMISSION_RULES),
        ),
        (
            "disabled_tools",
            KeyMeaning::Unsupported(USE_PERMISSION_RULES),
        ),
        (
            "default_tools_approval_mode",
            KeyMeaning::Unsupported(USE_PERMISSION_RULES),
        ),
        ("tools", KeyMeaning::Unsupported(USE_PERMISSION_RULES)),
        (
            "http_headers_helper",
            KeyMeaning::Unsupported("add `headersHelper` by hand"),
        ),
        ("scopes", KeyMeaning::Unsupported("log in again here")),
        (
            "oauth_resource",
            KeyMeaning::Unsupported("log in again here"),
        ),
        (
            "required",
            KeyMeaning::UnsupportedIfTrue("a failing server never ends the run"),
        ),
        ("supports_parallel_tool_calls", KeyMeaning::Ignored),
        (
            "bearer_token",
            KeyMeaning::Unsupported("Codex ignores this key; set a header instead"),
        ),
    ],
    variable_syntax: VariableSyntax::None,
    url: Remote::Http,
};

pub(super) static GEMINI: ClientFormat = ClientFormat {
    files: &[
        File::new(BaseDir::Home, ".gemini/settings.json"),
        File::new(BaseDir::Project, ".gemini/settings.json"),
    ],
    syntax: Syntax::Json,
    sections: gemini_sections,
    keys: &[
        ("httpUrl", KeyMeaning::UrlOf(Remote::Http)),
        ("timeout", KeyMeaning::CallTimeout(Unit::Milliseconds)),
        (
            "trust",
            KeyMeaning::UnsupportedIfTrue(
                "Gemini never asks for its calls; add an allow rule instead",
            ),
        ),
        (
            "includeTools",
            KeyMeaning::Unsupported(USE_PERMISSION_RULES),
        ),
        (
            "excludeTools",
            KeyMeaning::Unsupported(USE_PERMISSION_RULES),
        ),
        (
            "authProviderType",
            KeyMeaning::Unsupported("log in again here"),
        ),
        (
            "targetAudience",
            KeyMeaning::Unsupported("log in again here"),
        ),
        (
            "targetServiceAccount",
            KeyMeaning::Unsupported("log in again here"),
        ),
    ],
    variable_syntax: VariableSyntax::Shell,
    url: Remote::Sse,
};

pub(super) static OPENCODE: ClientFormat = ClientFormat {
    files: &[
        File::new(BaseDir::Xdg, "opencode/opencode.json"),
        File::new(BaseDir::Xdg, "opencode/opencode.jsonc"),
        File::new(BaseDir::Project, "opencode.json"),
        File::new(BaseDir::Project, "opencode.jsonc"),
    ],
    syntax: Syntax::Json,
    sections: opencode_sections,
    keys: &[
        ("environment", KeyMeaning::Env),
        ("timeout", KeyMeaning::Timeout(Unit::Milliseconds)),
    ],
    variable_syntax: VariableSyntax::Braces,
    url: Remote::Negotiated,
};

/// `mcp.allowed` and `mcp.excluded` decide which servers are disabled.
fn gemini_sections<'a>(
    root: &'a RawValue,
    _: &ImportContext<'_>,
    sections: &mut Vec<Section<'a>>,
    notes: &mut Vec<String>,
) {
    let Some(servers) = root.member("mcpServers") else {
        return;
    };
    let mcp = root.member("mcp").map(|mcp| &mcp.value);
    let list = |key: &str| mcp.and_then(|mcp| mcp.member(key));
    let (allowed, excluded) = (list("allowed"), names(list("excluded")));
    let is_disabled = |name: &String| {
        excluded.contains(name) || (allowed.is_some() && !names(allowed).contains(name))
    };
    let keys = servers.value.members().iter().map(|server| &server.key);
    let disabled: Vec<String> = keys.filter(|name| is_disabled(name)).cloned().collect();
    if !disabled.is_empty() {
        let listed: Vec<_> = disabled
            .iter()
            .map(|name| replace_control_chars(name))
            .collect();
        notes.push(format!(
            "disabled, as in Gemini's `mcp.allowed`/`mcp.excluded`: {}",
            listed.join(", ")
        ));
    }
    sections.push(Section {
        disabled,
        ..Section::new(servers)
    });
}

/// Version 1 of the format has the servers in `mcp`, version 2 in `mcp.servers`.
fn opencode_sections<'a>(
    root: &'a RawValue,
    _: &ImportContext<'_>,
    sections: &mut Vec<Section<'a>>,
    _: &mut Vec<String>,
) {
    let Some(mcp) = root.member("mcp") else {
        return;
    };
    let inner = mcp.value.member("servers");
    // In version 1, a server may be called `servers`.
    let inner = inner.filter(|servers| servers.value.member("type").is_none());
    sections.push(Section::new(inner.unwrap_or(mcp)));
}
