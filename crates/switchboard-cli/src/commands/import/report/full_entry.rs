//! Everything that an entry of the project's authors says, for whoever is to let it run.
//!
//! Invariant: nothing that decides what runs is masked, cut or hidden.

use serde_json::{Map, Value};
use switchboard::content::for_terminal;

use crate::render::text::shell_word;

/// What the entry says, a thing on each line.
pub(super) fn everything(entry: &Map<String, Value>) -> Vec<String> {
    let mut lines = Vec::new();
    for (key, value) in entry {
        match key.as_str() {
            "command" => {
                let args = entry.get("args").and_then(Value::as_array);
                let words = std::iter::once(value).chain(args.into_iter().flatten());
                let words: Vec<_> = words.map(|word| exact(&shell_word(&plain(word)))).collect();
                lines.push(format!("runs {}", words.join(" ")));
                lines.extend(spelling(value));
            }
            // It stands beside the scope.
            "disabled" => {}
            // They stand behind the command.
            "args" if entry.contains_key("command") => {}
            "url" => {
                lines.push(format!("connects to {}", exact(&plain(value))));
                lines.extend(spelling(value));
            }
            "headersHelper" => lines.push(format!("headers come from: {}", exact(&plain(value)))),
            "cwd" => lines.push(format!("runs in {}", exact(&plain(value)))),
            key => match value {
                Value::Object(members) => lines.extend(members.iter().map(|(name, value)| {
                    format!("{}: {}={}", exact(key), exact(name), exact(&plain(value)))
                })),
                value => lines.push(format!("{}: {}", exact(key), exact(&plain(value)))),
            },
        }
    }
    lines
}

fn plain(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Array(items) if items.iter().all(Value::is_string) => {
            let items: Vec<_> = items.iter().map(plain).collect();
            items.join(", ")
        }
        other => other.to_string(),
    }
}

/// A text in which a terminal would not show everything is spelled out.
fn exact(text: &str) -> String {
    if for_terminal(text) == text {
        text.to_owned()
    } else {
        text.escape_default().to_string()
    }
}

/// Letters that look like others.
fn spelling(value: &Value) -> Option<String> {
    let text = plain(value);
    let spelled = (!text.is_ascii()).then(|| text.escape_default().to_string());
    spelled.map(|spelled| format!("holds letters beyond ASCII: {spelled}"))
}
