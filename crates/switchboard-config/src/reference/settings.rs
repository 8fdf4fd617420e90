//! The keys of a settings file.

use super::{Key, Part, Shape};

/// Every key that may stand in a settings file, in the order in which they are explained.
pub const SETTINGS_KEYS: &[Key] = &[
    Key::new(
        "permissions",
        Part::Settings,
        Shape::Rules,
        "Which tools may be called, in the order in which the rules are tried; a deny anywhere wins.",
    )
    .default("none: every MCP tool is asked about")
    .example(r#"[{ "tool": "mcp__github__get_*", "action": "allow" }]"#),
    Key::new(
        "disabledServers",
        Part::Settings,
        Shape::Names,
        "Servers that are not started, by name.",
    )
    .default("none")
    .example(r#"["github"]"#),
    Key::new(
        "limits",
        Part::Settings,
        Shape::Object,
        "Bounds for messages, listings and results.",
    ),
    Key::new(
        "allowedServers",
        Part::Managed,
        Shape::Servers,
        "Only servers that something in the list fits may be used.",
    )
    .default("every server may be")
    .example(r#"[{ "name": "github" }, { "url": "https://*.example.com/*" }]"#),
    Key::new(
        "deniedServers",
        Part::Managed,
        Shape::Servers,
        "Servers that may not be used, whatever else fits them.",
    )
    .default("none")
    .example(r#"[{ "command": ["npx", "-y", "leaky-server"] }]"#),
    Key::new(
        "managedServersOnly",
        Part::Managed,
        Shape::Flag,
        "Only the servers of the administrator's own file may be used.",
    )
    .default("`false`")
    .example("true"),
    Key::new(
        "profile",
        Part::Managed,
        Shape::Profile,
        "For whom the host runs: `local`, everything may be used; `server`, nothing external is ever executed.",
    )
    .default("`local`")
    .example(r#""server""#),
];
