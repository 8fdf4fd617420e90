//! Renders an entry for review before approval: everything that would run, untruncated and
//! unmasked.
//!
//! Literal values come from the repository and are shown. A variable that may hold a secret of the
//! user is shown as written (`${NAME}`) and never with its value.

use std::fmt::Write as _;

use serde_json::Value;
use switchboard::content::for_terminal;
use switchboard_config::{
    ApprovalRecord, ApprovalState, ReviewChange, ReviewFields, ServerEntry, Verdict,
};

use super::TrustDecision;
use crate::render::style::{Paint, Style};
use crate::render::text::{quote_command_word, width};
use crate::render::{Console, utc_date};

/// The column in which the values start, to the right of their labels.
const VALUE_COLUMN: usize = 20;
/// A command line with more columns than this is printed with one word per line.
const MAX_COMMAND_COLUMNS: usize = 76;

/// Renders every field that the approval covers, and what changed since the entry was last approved
/// or rejected.
pub(super) fn render(
    entry: &ServerEntry,
    standing: ApprovalState<'_>,
    console: &Console,
) -> String {
    let mut view = ReviewView {
        style: console.style,
        text: String::new(),
    };
    let name = escaped(entry.name().as_str());
    view.text.push_str(&console.style.paint(Paint::Bold, &name));
    view.text.push('\n');
    view.warn_non_ascii(entry.name().as_str());
    view.field("from", [escaped(&entry.origin().to_string())]);
    if let Some(shown) = entry.unmasked_review() {
        for (key, value) in shown.as_object() {
            view.entry_field(key, value, shown.as_object());
        }
    }
    if let ApprovalState::Changed(before) = standing {
        view.changes(before, entry);
    }
    view.text
}

/// Renders the entry on one line, for the approval question itself. The full review above the
/// question may have scrolled out of view, or may contain text that imitates the output of this
/// program.
pub(super) fn summary(entry: &ServerEntry) -> String {
    let shown = entry.unmasked_review().map(ReviewFields::as_object);
    let text = |key: &str| Some(ascii_escaped(shown?.get(key)?.as_str()?));
    let action = text("program")
        .map(|program| format!("runs {program}"))
        .or_else(|| text("url").map(|url| format!("connects to {url}")))
        .unwrap_or_else(|| "runs nothing: program not found".to_owned());
    format!("{} {action}", ascii_escaped(entry.name().as_str()))
}

/// Escapes all non-ASCII characters.
fn ascii_escaped(text: &str) -> String {
    let mut ascii = String::with_capacity(text.len());
    for letter in escaped(text).chars() {
        if letter.is_ascii() {
            ascii.push(letter);
        } else {
            ascii.extend(letter.escape_unicode());
        }
    }
    ascii
}

pub(super) fn outcome(entry: &ServerEntry, decision: TrustDecision) -> String {
    let name = escaped(entry.name().as_str());
    match decision {
        TrustDecision::Approved => format!("✓ {name} approved"),
        TrustDecision::Rejected => format!("✗ {name} rejected"),
        TrustDecision::Pending | TrustDecision::Unchanged => format!("○ {name} not approved"),
    }
}

/// Escapes characters that a terminal would not show, and repeated spaces, which could imitate the
/// layout of the review.
pub(super) fn escaped(text: &str) -> String {
    let mut spelled = String::with_capacity(text.len());
    let mut was_blank = false;
    for letter in text.chars() {
        let character = letter.encode_utf8(&mut [0; 4]).to_owned();
        let is_layout = letter.is_whitespace() && (letter != ' ' || was_blank);
        was_blank = letter == ' ';
        if for_terminal(&character) == character && !is_layout {
            spelled.push(letter);
        } else {
            // Writing to a string cannot fail.
            let _ = write!(spelled, "\\u{{{:x}}}", u32::from(letter));
        }
    }
    spelled
}

struct ReviewView {
    style: Style,
    text: String,
}

impl ReviewView {
    fn entry_field(&mut self, key: &str, value: &Value, all: &serde_json::Map<String, Value>) {
        match (key, value) {
            ("program", _) => self.field("runs", lines(value)),
            ("programHash", _) => self.field("", ["(a file in this project)".to_owned()]),
            ("command", _) => {
                let words = lines(value).into_iter();
                let words = words.chain(all.get("args").map(lines).unwrap_or_default());
                let words: Vec<_> = words.map(|word| quote_command_word(&word)).collect();
                let line = words.join(" ");
                if width(&line) <= MAX_COMMAND_COLUMNS {
                    self.field("command", [line]);
                } else {
                    self.field("command", words);
                }
                self.warn_non_ascii_in(value);
                self.warn_non_ascii_in(all.get("args").unwrap_or(&Value::Null));
                if !all.contains_key("program") {
                    self.warning("runs", "nothing: program not found");
                }
            }
            // Printed on the line of the command.
            ("args", _) => {}
            ("variables", _) => {
                let names = lines(value).join(", ");
                self.field("reads", [format!("environment variables {names}")]);
            }
            ("url", _) => {
                self.field("connects to", lines(value));
                self.warn_non_ascii_in(value);
            }
            ("headersHelper", _) => {
                self.field("also runs", lines(value));
                self.warn_non_ascii_in(value);
            }
            (key, _) => {
                self.field(key, lines(value));
                self.warn_non_ascii_in(value);
            }
        }
    }

    /// Calls [`Self::warn_non_ascii`] for every text in a value.
    fn warn_non_ascii_in(&mut self, value: &Value) {
        match value {
            Value::String(text) => self.warn_non_ascii(text),
            Value::Array(items) => items.iter().for_each(|item| self.warn_non_ascii_in(item)),
            Value::Object(members) => {
                for (name, value) in members {
                    self.warn_non_ascii(name);
                    self.warn_non_ascii_in(value);
                }
            }
            _ => {}
        }
    }

    /// Spells out non-ASCII characters, because some of them look like ASCII letters.
    fn warn_non_ascii(&mut self, text: &str) {
        if !text.is_ascii() {
            let spelled: String = text.chars().flat_map(char::escape_default).collect();
            self.warning("", &format!("contains non-ASCII characters: {spelled}"));
        }
    }

    fn changes(&mut self, before: &ApprovalRecord, entry: &ServerEntry) {
        let verdict = match before.verdict {
            Verdict::Approved => "approved",
            Verdict::Rejected => "rejected",
        };
        let date = utc_date(before.decided_at);
        self.warning("changed", &format!("since you {verdict} it on {date}:"));
        let changes = super::changes_since(entry, before);
        if changes.is_empty() {
            self.field("", ["  in a masked value".to_owned()]);
        }
        for ReviewChange {
            field,
            before,
            after,
        } in changes
        {
            let value = |value: Option<Value>| match value {
                Some(value) => escaped(&value.to_string()),
                None => "unset".to_owned(),
            };
            if field == "programHash" {
                self.field("", ["  the program (a file in this project)".to_owned()]);
                continue;
            }
            let field = escaped(&field);
            let (before, after) = (value(before), value(after));
            self.field("", [format!("  {field}: {before} → {after}")]);
        }
    }

    fn field(&mut self, label: &str, lines: impl IntoIterator<Item = String>) {
        let mut label = label;
        for line in lines {
            let label_columns = VALUE_COLUMN - 2;
            let painted = self
                .style
                .paint(Paint::Dim, &format!("{label:label_columns$}"));
            self.text.extend(["  ", &painted, &line, "\n"]);
            label = "";
        }
    }

    fn warning(&mut self, label: &str, text: &str) {
        let painted = self.style.paint(Paint::Yellow, text);
        self.field(label, [painted]);
    }
}

/// Renders a value with one item or member per line.
fn lines(value: &Value) -> Vec<String> {
    match value {
        Value::String(text) => vec![escaped(text)],
        Value::Array(items) => items.iter().flat_map(lines).collect(),
        Value::Object(members) => members
            .iter()
            .map(|(name, value)| {
                let value = match value {
                    Value::String(text) => escaped(text),
                    other => escaped(&other.to_string()),
                };
                format!("{}={value}", escaped(name))
            })
            .collect(),
        other => vec![escaped(&other.to_string())],
    }
}
