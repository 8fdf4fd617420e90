//! The keys of a server entry.

use super::{Key, KeyGroup, ValueType};

/// All keys of a server entry, in the order of the documentation.
pub const ENTRY_KEYS: &[Key] = &[
    Key::new(
        "type",
        KeyGroup::AllServers,
        ValueType::Type,
        "The transport. `http` and `streamable-http` mean the same.",
    )
    .default("`stdio` with `command`; with `url`, streamable HTTP, then SSE")
    .example(r#""stdio""#)
    .needs_reapproval(),
    Key::new(
        "command",
        KeyGroup::Program,
        ValueType::NonEmptyText,
        "The program to start: a path, or a name to look up on the `PATH`.",
    )
    .example(r#""npx""#)
    .expanded()
    .needs_reapproval(),
    Key::new(
        "args",
        KeyGroup::Program,
        ValueType::TextList,
        "Arguments, passed without a shell.",
    )
    .default("none")
    .example(r#"["-y", "@modelcontextprotocol/server-filesystem", "."]"#)
    .expanded()
    .needs_reapproval(),
    Key::new(
        "env",
        KeyGroup::Program,
        ValueType::Variables,
        "Environment variables, in addition to the inherited ones.",
    )
    .default("none")
    .example(r#"{ "GITHUB_TOKEN": "${GITHUB_TOKEN}" }"#)
    .expanded()
    .needs_reapproval()
    .masked(),
    Key::new(
        "cwd",
        KeyGroup::Program,
        ValueType::Text,
        "Working directory. In a project's entry, relative to the project root.",
    )
    .default("the project root for a project's entry, otherwise the current directory")
    .example(r#""server""#)
    .expanded()
    .needs_reapproval(),
    Key::new(
        "inheritEnv",
        KeyGroup::Program,
        ValueType::AllOrNames,
        "Variables of your environment to inherit, in addition to the default ones.",
    )
    .default("none")
    .example(r#"["AWS_PROFILE"]"#)
    .needs_reapproval(),
    Key::new(
        "keepDaemons",
        KeyGroup::Program,
        ValueType::Flag,
        "Keep background processes that left the process group when the server stops.",
    )
    .default("`false`: these processes are stopped")
    .example("true")
    .needs_reapproval(),
    Key::new(
        "url",
        KeyGroup::Remote,
        ValueType::HttpUrl,
        "The URL of the server: `https://…` or `http://…`.",
    )
    .example(r#""https://example.com/mcp""#)
    .expanded()
    .needs_reapproval(),
    Key::new(
        "headers",
        KeyGroup::Remote,
        ValueType::Headers,
        "Headers sent with every request. They are treated as secrets: sent only to the server's origin, and over `http://` only to this machine.",
    )
    .default("none")
    .example(r#"{ "Authorization": "Bearer ${TOKEN}" }"#)
    .expanded()
    .needs_reapproval()
    .masked(),
    Key::new(
        "headersHelper",
        KeyGroup::Remote,
        ValueType::Text,
        "A command line for `sh` that prints more headers: a JSON object of strings, or lines such as `Name: value`. They override `headers`. It runs before the first request, and again after a 401 or 403 response.",
    )
    .default("none")
    .example(r#""print-headers --json""#)
    .needs_reapproval(),
    Key::new(
        "tls",
        KeyGroup::Remote,
        ValueType::Tls,
        "PEM files. `ca`: additional trusted CA. `cert` and `key`: client certificate. In a project's entry, paths are relative to the project root.",
    )
    .default("the CAs that the system trusts")
    .example(r#"{ "ca": "certs/ca.pem" }"#)
    .expanded()
    .needs_reapproval(),
    Key::new(
        "auth",
        KeyGroup::Remote,
        ValueType::AnyValue,
        "Reserved; ignored today.",
    )
    .needs_reapproval()
    .masked(),
    Key::new(
        "oauth",
        KeyGroup::Remote,
        ValueType::AnyValue,
        "Reserved; ignored today.",
    )
    .needs_reapproval()
    .masked(),
    Key::new(
        "id",
        KeyGroup::Remote,
        ValueType::Text,
        "Id of the server in your claude.ai account, for `claudeai-proxy`.",
    )
    .example(r#""srv_1""#)
    .needs_reapproval(),
    Key::new(
        "name",
        KeyGroup::AllServers,
        ValueType::Text,
        "Name of the server in the embedding program, for `sdk`.",
    )
    .default("the name of the entry")
    .example(r#""calculator""#)
    .needs_reapproval(),
    Key::new(
        "timeout",
        KeyGroup::AllServers,
        ValueType::Millis,
        "Timeout of a call in milliseconds.",
    )
    .default("3600000, and 300000 without progress")
    .example("60000"),
    Key::new(
        "startupTimeout",
        KeyGroup::AllServers,
        ValueType::Millis,
        "Timeout of the start in milliseconds, until the tools are listed.",
    )
    .default("30000")
    .example("10000"),
    Key::new(
        "maxConcurrentCalls",
        KeyGroup::AllServers,
        ValueType::Count,
        "Maximum number of calls in flight.",
    )
    .default("64")
    .example("4"),
    Key::new(
        "reconnect",
        KeyGroup::AllServers,
        ValueType::Reconnect,
        "Give up after `maxAttempts` failed reconnects in a row; 0 disables reconnecting.",
    )
    .default("give up after the fifth crash within three minutes")
    .example(r#"{ "maxAttempts": 3 }"#),
    Key::new(
        "lazy",
        KeyGroup::AllServers,
        ValueType::Flag,
        "Start on the first call; until then tools come from the cached listing.",
    )
    .default("`false`")
    .example("true"),
    Key::new("disabled", KeyGroup::AllServers, ValueType::Flag, "Do not start the server.")
        .default("`false`")
        .example("true"),
    Key::new(
        "trustAnnotations",
        KeyGroup::AllServers,
        ValueType::Flag,
        "Trust the server's tool annotations in `hint` allow rules.",
    )
    .default("`false`")
    .example("true")
    .needs_reapproval(),
    Key::new(
        "alwaysLoad",
        KeyGroup::AllServers,
        ValueType::Flag,
        "Reserved: always show the tools to a model. Ignored today.",
    )
    .default("`false`")
    .example("true"),
    Key::new(
        "tools",
        KeyGroup::AllServers,
        ValueType::AnyValue,
        "Reserved for settings of single tools; ignored today.",
    )
    .needs_reapproval(),
];
