//! The tables of `docs/config.md`.

use std::fmt::Write as _;

use super::{
    Approval, DEADLINE_KEYS, ENTRY_KEYS, Expansion, Key, LIMIT_KEYS, Part, SETTINGS_KEYS, Shape,
    TRANSPORT_TYPES,
};

/// The keys of an entry, as Markdown.
pub fn entry_tables() -> String {
    let parts = [
        (Part::Program, "A program to start"),
        (Part::Remote, "A remote server"),
        (Part::Every, "Every server"),
    ];
    let tables = parts.map(|(part, title)| {
        let head = "| key | is | if not written | `${…}` | asks again | means |";
        let rule = "|---|---|---|---|---|---|";
        table(ENTRY_KEYS, part, title, [head, rule], |key| {
            let expansion = yes(key.expansion == Expansion::FilledIn);
            let approval = yes(key.approval == Approval::AsksAgain);
            format!("{expansion} | {approval} | ")
        })
    });
    tables.join("\n")
}

/// The keys of the settings, as Markdown.
pub fn settings_tables() -> String {
    let parts = [
        (Part::Settings, "In every scope"),
        (Part::Managed, "Of the administrator"),
    ];
    let tables = parts.map(|(part, title)| {
        let head = "| key | is | if not written | means |";
        table(
            SETTINGS_KEYS,
            part,
            title,
            [head, "|---|---|---|---|"],
            |_| String::new(),
        )
    });
    tables.join("\n")
}

fn table(
    keys: &[Key],
    part: Part,
    title: &str,
    [head, rule]: [&str; 2],
    middle: impl Fn(&Key) -> String,
) -> String {
    let mut text = format!("### {title}\n\n{head}\n{rule}\n");
    for key in keys.iter().filter(|key| key.part == part) {
        // Writing to a string cannot fail.
        let _ = writeln!(
            text,
            "| `{}` | {} | {} | {}{}{} |",
            key.name,
            looks(key.shape),
            key.default,
            middle(key),
            key.meaning,
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

fn yes(holds: bool) -> &'static str {
    if holds { "yes" } else { "" }
}

fn looks(shape: Shape) -> String {
    let words = match shape {
        Shape::Type => {
            let names = TRANSPORT_TYPES.map(|name| format!("`{name}`"));
            return names.join(", ");
        }
        Shape::Text | Shape::Word => "text",
        Shape::Address => "a web address",
        Shape::Texts => "a list of texts or numbers",
        Shape::Variables => "an object: variable → text, number or boolean",
        Shape::Headers => "an object: header → text, number or boolean",
        Shape::AllOrNames => "`\"all\"`, or a list of names",
        Shape::Flag => "`true` or `false`",
        Shape::Millis => "milliseconds, up to a day",
        Shape::Count => "a whole number from 1",
        Shape::Reconnect => "an object with `maxAttempts`, a whole number from 0",
        Shape::Tls => "an object with `ca`, or with `cert` and `key`, or with all three: paths",
        Shape::Anything => "anything",
        Shape::Limits => return numbers(&LIMIT_KEYS),
        Shape::Deadlines => return numbers(&DEADLINE_KEYS),
        Shape::Names => "a list of names",
        Shape::Rules => "a list of rules: `tool`, `action`, and where wanted `pattern` and `hint`",
        Shape::Servers => "a list of objects, each with a `name`, a `command` or a `url`",
        Shape::Profile => "`local` or `server`",
    };
    words.to_owned()
}

/// An object of numbers by name.
fn numbers(keys: &[&str]) -> String {
    let keys: Vec<_> = keys.iter().map(|key| format!("`{key}`")).collect();
    format!("an object of whole numbers: {}", keys.join(", "))
}
