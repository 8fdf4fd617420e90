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
        Shape::Limits,
        "Bounds for messages, listings and results, each a whole number. A project may only lower them.",
    )
    .default("the defaults of the engine")
    .example(r#"{ "messageBytes": 33554432, "resultTextBytes": 200000 }"#),
    Key::new(
        "deadlines",
        Part::Settings,
        Shape::Deadlines,
        "How long things may take, in milliseconds. A project may only shorten them.",
    )
    .default("the defaults of the engine")
    .example(r#"{ "startup": 60000, "call": 600000 }"#),
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
