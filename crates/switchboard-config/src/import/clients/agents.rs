//! Agents of the command line: Codex, Gemini CLI and opencode.

use super::super::Whereabouts;
use super::super::client_format::{
    Base, ClientFormat, File, Key, Notation, RULES, Remote, Section, Unit, names,
};
use crate::raw::{RawValue, Syntax};
use crate::text::replace_control_chars;

pub(super) static CODEX: ClientFormat = ClientFormat {
    files: &[
        File::new(
            Base::Named {
                variable: "CODEX_HOME",
                otherwise: ".codex",
            },
            "config.toml",
        ),
        File::new(Base::Project, ".codex/config.toml"),
    ],
    syntax: Syntax::Toml,
    sections: |root, _, sections, _| {
        sections.extend(root.member("mcp_servers").map(Section::of));
    },
    keys: &[
        ("env_vars", Key::PassedOn),
        ("http_headers", Key::Headers),
        ("env_http_headers", Key::HeadersFromVariables),
        ("bearer_token_env_var", Key::BearerVariable),
        ("startup_timeout_sec", Key::StartTimeout(Unit::Seconds)),
        ("startup_timeout_ms", Key::StartTimeout(Unit::Milliseconds)),
        ("tool_timeout_sec", Key::CallTimeout(Unit::Seconds)),
        ("enabled_tools", Key::Lost(RULES)),
        ("disabled_tools", Key::Lost(RULES)),
        ("default_tools_approval_mode", Key::Lost(RULES)),
        ("tools", Key::Lost(RULES)),
        (
            "http_headers_helper",
            Key::Lost("write `headersHelper` by hand"),
        ),
        ("scopes", Key::Lost("log in again here")),
        ("oauth_resource", Key::Lost("log in again here")),
        (
            "required",
            Key::LostIfTrue("here a server that fails ends no run"),
        ),
        ("supports_parallel_tool_calls", Key::Description),
        (
            "bearer_token",
            Key::Lost("Codex takes no token from its file; write a header"),
        ),
    ],
    notation: Notation::None,
    url: Remote::Http,
};

pub(super) static GEMINI: ClientFormat = ClientFormat {
    files: &[
        File::new(Base::Home, ".gemini/settings.json"),
        File::new(Base::Project, ".gemini/settings.json"),
    ],
    syntax: Syntax::Json,
    sections: gemini_sections,
    keys: &[
        ("httpUrl", Key::UrlOf(Remote::Http)),
        ("timeout", Key::CallTimeout(Unit::Milliseconds)),
        (
            "trust",
            Key::LostIfTrue("there its calls are never asked about; here write an allow rule"),
        ),
        ("includeTools", Key::Lost(RULES)),
        ("excludeTools", Key::Lost(RULES)),
        ("authProviderType", Key::Lost("log in again here")),
        ("targetAudience", Key::Lost("log in again here")),
        ("targetServiceAccount", Key::Lost("log in again here")),
    ],
    notation: Notation::Shell,
    url: Remote::Sse,
};

pub(super) static OPENCODE: ClientFormat = ClientFormat {
    files: &[
        File::new(Base::Xdg, "opencode/opencode.json"),
        File::new(Base::Xdg, "opencode/opencode.jsonc"),
        File::new(Base::Project, "opencode.json"),
        File::new(Base::Project, "opencode.jsonc"),
    ],
    syntax: Syntax::Json,
    sections: opencode_sections,
    keys: &[
        ("environment", Key::Env),
        ("timeout", Key::Timeout(Unit::Milliseconds)),
    ],
    notation: Notation::Braces,
    url: Remote::Negotiated,
};

/// Which of the servers are used, `mcp.allowed` and `mcp.excluded` say.
fn gemini_sections<'a>(
    root: &'a RawValue,
    _: &Whereabouts<'_>,
    sections: &mut Vec<Section<'a>>,
    notes: &mut Vec<String>,
) {
    let Some(servers) = root.member("mcpServers") else {
        return;
    };
    let mcp = root.member("mcp").map(|mcp| &mcp.value);
    let list = |key: &str| mcp.and_then(|mcp| mcp.member(key));
    let (allowed, excluded) = (list("allowed"), names(list("excluded")));
    let is_off = |name: &String| {
        excluded.contains(name) || (allowed.is_some() && !names(allowed).contains(name))
    };
    let keys = servers.value.members().iter().map(|server| &server.key);
    let disabled: Vec<String> = keys.filter(|name| is_off(name)).cloned().collect();
    if !disabled.is_empty() {
        let listed: Vec<_> = disabled
            .iter()
            .map(|name| replace_control_chars(name))
            .collect();
        notes.push(format!(
            "switched off there by `mcp.allowed` or `mcp.excluded`, and so here: {}",
            listed.join(", ")
        ));
    }
    sections.push(Section {
        disabled,
        ..Section::of(servers)
    });
}

/// Its first version has the servers in `mcp`, its second in `mcp.servers`.
fn opencode_sections<'a>(
    root: &'a RawValue,
    _: &Whereabouts<'_>,
    sections: &mut Vec<Section<'a>>,
    _: &mut Vec<String>,
) {
    let Some(mcp) = root.member("mcp") else {
        return;
    };
    let inner = mcp.value.member("servers");
    // A server may have that name as well.
    let inner = inner.filter(|servers| servers.value.member("type").is_none());
    sections.push(Section::of(inner.unwrap_or(mcp)));
}
