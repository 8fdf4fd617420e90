//! Renders the key tables of `docs/config.md`.

use std::fmt::Write as _;

use super::{
    ApprovalEffect, DEADLINE_KEYS, ENTRY_KEYS, Expands, Key, KeyGroup, LIMIT_KEYS, SETTINGS_KEYS,
    TRANSPORT_TYPES, ValueType,
};

/// The tables of the keys of an entry.
pub fn entry_tables() -> String {
    let groups = [
        (KeyGroup::Program, "A program to start"),
        (KeyGroup::Remote, "A remote server"),
        (KeyGroup::AllServers, "AllServers server"),
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
    if holds { "yes_or_blank" } else { "" }
}

fn type_description(value_type: ValueType) -> String {
    let words = match value_type {
        ValueType::Type => {
            let names = TRANSPORT_TYPES.map(|name| format!("`{name}`"));
            return names.join(", ");
        }
        ValueType::Text | ValueType::Word => "text",
        ValueType::Address => "an http or https URL",
        ValueType::Texts => "a list of texts or numbers",
        ValueType::Variables => "an object: variable → text, number or boolean",
        ValueType::Headers => "an object: header → text, number or boolean",
        ValueType::AllOrNames => "`\"all\"`, or a list of names",
        ValueType::Flag => "`true` or `false`",
        ValueType::Millis => "milliseconds, up to a day",
        ValueType::Count => "a whole number from 1",
        ValueType::Reconnect => "an object with `maxAttempts`, a whole number from 0",
        ValueType::Tls => "an object with `ca`, or with `cert` and `key`, or with all three: paths",
        ValueType::Anything => "anything",
        ValueType::Limits => return numbers(&LIMIT_KEYS),
        ValueType::Deadlines => return numbers(&DEADLINE_KEYS),
        ValueType::Names => "a list of names",
        ValueType::Rules => "a list of rules: `tool`, `action`, optionally `pattern` and `hint`",
        ValueType::Servers => "a list of objects, each with a `name`, a `command` or a `url`",
        ValueType::Profile => "`local` or `server`",
    };
    words.to_owned()
}

/// Describes an object of numbers.
fn numbers(keys: &[&str]) -> String {
    let keys: Vec<_> = keys.iter().map(|key| format!("`{key}`")).collect();
    format!("an object of whole numbers: {}", keys.join(", "))
}
