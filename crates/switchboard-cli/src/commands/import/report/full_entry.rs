//! Renders an entry from a project file completely, so that the user can decide whether it may run.
//!
//! Invariant: nothing that determines what runs is masked, truncated or invisible.

use serde_json::{Map, Value};
use switchboard::content::for_terminal;

use crate::render::text::quote_command_word;

pub(super) fn render(entry: &Map<String, Value>) -> Vec<String> {
    let mut lines = Vec::new();
    for (key, value) in entry {
        match key.as_str() {
            "command" => {
                let args = entry.get("args").and_then(Value::as_array);
                let words = std::iter::once(value).chain(args.into_iter().flatten());
                let words: Vec<_> = words
                    .map(|word| quote_command_word(&value_text(word)))
                    .collect();
                lines.push(format!("runs {}", words.join(" ")));
                lines.extend(non_ascii_note(value));
            }
            // Printed by `details`, after the scope.
            "disabled" => {}
            // Printed on the line of the command.
            "args" if entry.contains_key("command") => {}
            "url" => {
                lines.push(format!("connects to {}", escaped(&value_text(value))));
                lines.extend(non_ascii_note(value));
            }
            key => match value {
                Value::Object(members) => lines.extend(members.iter().map(|(name, value)| {
                    format!(
                        "{}: {}={}",
                        escaped(key),
                        escaped(name),
                        escaped(&value_text(value))
                    )
                })),
                value => lines.push(format!("{}: {}", escaped(key), escaped(&value_text(value)))),
            },
        }
    }
    lines
}

fn value_text(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Array(items) if items.iter().all(Value::is_string) => {
            let items: Vec<_> = items.iter().map(value_text).collect();
            items.join(", ")
        }
        other => other.to_string(),
    }
}

/// Escapes the text if it contains characters that a terminal would not show.
fn escaped(text: &str) -> String {
    if for_terminal(text) == text {
        text.to_owned()
    } else {
        text.escape_default().to_string()
    }
}

/// Spells out non-ASCII characters, because some of them look like ASCII letters.
fn non_ascii_note(value: &Value) -> Option<String> {
    let text = value_text(value);
    let spelled = (!text.is_ascii()).then(|| text.escape_default().to_string());
    spelled.map(|spelled| format!("contains non-ASCII characters: {spelled}"))
}
