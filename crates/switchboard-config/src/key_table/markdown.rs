//! Renders the key tables of `docs/config.md`.

use std::fmt::Write as _;

use super::{
    ApprovalEffect, ENTRY_KEYS, Expands, Key, KeyGroup, SETTINGS_KEYS, TRANSPORT_TYPES, ValueType,
};

/// The tables of the keys of an entry.
pub fn entry_tables() -> String {
    let groups = [
        (KeyGroup::Program, "A program to start"),
        (KeyGroup::Remote, "A remote server"),
        (KeyGroup::AllServers, "Every server"),
    ];
    let tables = groups.map(|(group, title)| {
        let head = "| key | type | default | `${…}` | re-approval | description |";
        let rule = "|---|---|---|---|---|---|";
        table(ENTRY_KEYS, group, title, [head, rule], |key| {
            let expands = yes_or_blank(key.expands == Expands::Yes);
            let approval = yes_or_blank(key.approval == ApprovalEffect::Reapprove);
            format!("{expands} | {approval} | ")
        })
    });
    tables.join("\n")
}

/// The tables of the keys of the settings.
pub fn settings_tables() -> String {
    let groups = [
        (KeyGroup::Settings, "In every scope"),
        (KeyGroup::Managed, "In managed settings only"),
    ];
    let tables = groups.map(|(group, title)| {
        let head = "| key | type | default | description |";
        table(
            SETTINGS_KEYS,
            group,
            title,
            [head, "|---|---|---|---|"],
            |_| String::new(),
        )
    });
    tables.join("\n")
}

fn table(
    keys: &[Key],
    group: KeyGroup,
    title: &str,
    [head, rule]: [&str; 2],
    middle: impl Fn(&Key) -> String,
) -> String {
    let mut text = format!("### {title}\n\n{head}\n{rule}\n");
    for key in keys.iter().filter(|key| key.group == group) {
        // Writing to a string cannot fail.
        let _ = writeln!(
            text,
            "| `{}` | {} | {} | {}{}{} |",
            key.name,
            type_description(key.value_type),
            key.default,
            middle(key),
            key.description,
            example(key)
        );
    }
    text
}

fn example(key: &Key) -> String {
    match key.example {
        "" | "true" => String::new(),
        example => format!(" Example: `{example}`"),
    }
}

fn yes_or_blank(holds: bool) -> &'static str {
    if holds { "yes" } else { "" }
}

fn type_description(value_type: ValueType) -> String {
    let text = match value_type {
        ValueType::Type => {
            let names = TRANSPORT_TYPES.map(|name| format!("`{name}`"));
            return names.join(", ");
        }
        ValueType::Text | ValueType::NonEmptyText => "a string",
        ValueType::HttpUrl => "an http or https URL",
        ValueType::TextList => "a list of strings or numbers",
        ValueType::Variables => "an object: variable → string, number or boolean",
        ValueType::Headers => "an object: header → string, number or boolean",
        ValueType::AllOrNames => "`\"all\"`, or a list of names",
        ValueType::Flag => "`true` or `false`",
        ValueType::Millis => "milliseconds, at most 86400000",
        ValueType::Count => "a whole number, at least 1",
        ValueType::Reconnect => "an object with `maxAttempts`, a whole number",
        ValueType::Tls => "an object of paths: `ca`, or `cert` and `key`, or all three",
        ValueType::AnyValue => "any value",
        ValueType::Limits | ValueType::Deadlines => {
            "an object of whole numbers, see [below](#limits-and-timeouts)"
        }
        ValueType::Names => "a list of names",
        ValueType::Rules => {
            "a list of rules with `tool`, `action` and optionally `pattern`, `hint`; or an object with `allow`, `ask`, `deny`"
        }
        ValueType::ServerMatches => "a list of objects, each with a `name`, a `command` or a `url`",
        ValueType::Profile => "`local` or `server`",
    };
    text.to_owned()
}
