//! The keys of a server entry.

use super::{Key, Part, Shape};

/// Every key that may stand in a server entry, in the order in which they are explained.
pub const ENTRY_KEYS: &[Key] = &[
    Key::new(
        "type",
        Part::Every,
        Shape::Type,
        "How the server is reached. `http` and `streamable-http` mean the same.",
    )
    .default("`stdio` with `command`; with `url`, streamable HTTP and then SSE are tried")
    .example(r#""stdio""#)
    .asks_again(),
    Key::new(
        "command",
        Part::Program,
        Shape::Word,
        "The program to start: a path, or a name that is looked for on the `PATH`.",
    )
    .example(r#""npx""#)
    .filled_in()
    .asks_again(),
    Key::new(
        "args",
        Part::Program,
        Shape::Texts,
        "What the program is given, word by word; no shell reads them.",
    )
    .default("none")
    .example(r#"["-y", "@modelcontextprotocol/server-filesystem", "."]"#)
    .filled_in()
    .asks_again(),
    Key::new(
        "env",
        Part::Program,
        Shape::Variables,
        "Variables for the program, besides those that every child gets.",
    )
    .default("none")
    .example(r#"{ "GITHUB_TOKEN": "${GITHUB_TOKEN}" }"#)
    .filled_in()
    .asks_again()
    .masked(),
    Key::new(
        "cwd",
        Part::Program,
        Shape::Text,
        "The folder it works in; a project's is relative to the project's root.",
    )
    .default("the project's root for a project's entry, else where `switchboard` runs")
    .example(r#""server""#)
    .filled_in()
    .asks_again(),
    Key::new(
        "inheritEnv",
        Part::Program,
        Shape::AllOrNames,
        "Variables of your environment to pass on, besides those that every child gets.",
    )
    .default("none")
    .example(r#"["AWS_PROFILE"]"#)
    .asks_again(),
    Key::new(
        "keepDaemons",
        Part::Program,
        Shape::Flag,
        "Processes that the server puts into the background, outside of its process group, may stay when it ends.",
    )
    .default("`false`: they go with it")
    .example("true")
    .asks_again(),
    Key::new(
        "url",
        Part::Remote,
        Shape::Address,
        "Where the server is: `https://…` or `http://…`.",
    )
    .example(r#""https://example.com/mcp""#)
    .filled_in()
    .asks_again(),
    Key::new(
        "headers",
        Part::Remote,
        Shape::Headers,
        "Headers that go with every request. They are secrets: they go to the server's own origin, and over `http://` only to this machine.",
    )
    .default("none")
    .example(r#"{ "Authorization": "Bearer ${TOKEN}" }"#)
    .filled_in()
    .asks_again()
    .masked(),
    Key::new(
        "headersHelper",
        Part::Remote,
        Shape::Text,
        "A command line for `sh` that prints further headers: a JSON object of strings, or lines such as `Name: value`. They win over `headers`. It runs before the first request, and again when the server answers 401 or 403.",
    )
    .default("none")
    .example(r#""print-headers --json""#)
    .asks_again(),
    Key::new(
        "tls",
        Part::Remote,
        Shape::Tls,
        "Certificates in PEM format: `ca` vouches for the server besides those that the system trusts, `cert` and `key` are shown to a server that asks who you are. A project's paths are relative to the project's root.",
    )
    .default("what the system trusts")
    .example(r#"{ "ca": "certs/ca.pem" }"#)
    .filled_in()
    .asks_again(),
    Key::new(
        "auth",
        Part::Remote,
        Shape::Anything,
        "How to log in. Still to come; not looked at yet.",
    )
    .asks_again()
    .masked(),
    Key::new(
        "oauth",
        Part::Remote,
        Shape::Anything,
        "How to log in by OAuth. Still to come; not looked at yet.",
    )
    .asks_again()
    .masked(),
    Key::new(
        "id",
        Part::Remote,
        Shape::Text,
        "Which server of your claude.ai account, for `claudeai-proxy`.",
    )
    .example(r#""srv_1""#)
    .asks_again(),
    Key::new(
        "name",
        Part::Every,
        Shape::Text,
        "Which server of the embedding program, for `sdk`.",
    )
    .default("the entry's own name")
    .example(r#""calculator""#)
    .asks_again(),
    Key::new(
        "timeout",
        Part::Every,
        Shape::Millis,
        "The longest that a call may take.",
    )
    .default("3600000, and 300000 without a sign of life")
    .example("60000"),
    Key::new(
        "startupTimeout",
        Part::Every,
        Shape::Millis,
        "The longest that the start may take.",
    )
    .default("30000")
    .example("10000"),
    Key::new(
        "maxConcurrentCalls",
        Part::Every,
        Shape::Count,
        "How many calls may be under way at a time.",
    )
    .default("64")
    .example("4"),
    Key::new(
        "reconnect",
        Part::Every,
        Shape::Reconnect,
        "Stop coming back after so many failures in a row.",
    )
    .default("the fifth crash within three minutes stops it")
    .example(r#"{ "maxAttempts": 3 }"#),
    Key::new(
        "lazy",
        Part::Every,
        Shape::Flag,
        "Started by the first call; until then its tools are those of the last time.",
    )
    .default("`false`")
    .example("true"),
    Key::new("disabled", Part::Every, Shape::Flag, "Not started.")
        .default("`false`")
        .example("true"),
    Key::new(
        "trustAnnotations",
        Part::Every,
        Shape::Flag,
        "What the server claims of its tools is believed: an allow rule by hint counts for it.",
    )
    .default("`false`")
    .example("true")
    .asks_again(),
    Key::new(
        "alwaysLoad",
        Part::Every,
        Shape::Flag,
        "A model sees its tools without having searched for them. Still to come.",
    )
    .default("`false`")
    .example("true"),
    Key::new(
        "tools",
        Part::Every,
        Shape::Anything,
        "What holds for single tools. Still to come; not looked at yet.",
    )
    .asks_again(),
];
