//! What a person sees of an entry before they approve it: all that runs, untruncated and unmasked.
//! The text is the repository's; of the user's variables there are only references.

use std::fmt::Write as _;

use serde_json::Value;
use switchboard::content::for_terminal;
use switchboard_config::{Approval, Change, ServerEntry, Shown, Standing, Verdict};

use super::Decision;
use crate::render::style::{Paint, Style};
use crate::render::text::{shell_word, width};
use crate::render::{Console, utc_date};

/// How far values stand in.
const INDENT: usize = 20;
/// A command line longer than this is shown with one word on each line.
const LONG: usize = 76;

/// Everything about an entry that consent to it is about.
pub(super) fn render(entry: &ServerEntry, standing: Standing<'_>, console: &Console) -> String {
    let mut page = Page {
        style: console.style,
        text: String::new(),
    };
    let name = exact(entry.name().as_str());
    page.text.push_str(&console.style.paint(Paint::Bold, &name));
    page.text.push('\n');
    page.spelling("", entry.name().as_str());
    page.field("from", [exact(&entry.origin().to_string())]);
    if let Some(shown) = entry.shown_in_full() {
        for (key, value) in shown.as_object() {
            page.entry_field(key, value, shown.as_object());
        }
    }
    if let Standing::Changed(before) = standing {
        page.changes(before, entry);
    }
    page.text
}

/// What the question is about, in a line: whatever stands above it may have scrolled away, or was made
/// to look like something else.
pub(super) fn summary(entry: &ServerEntry) -> String {
    let shown = entry.shown_in_full().map(Shown::as_object);
    let text = |key: &str| Some(plain(shown?.get(key)?.as_str()?));
    let does = text("program")
        .map(|program| format!("runs {program}"))
        .or_else(|| text("url").map(|url| format!("connects to {url}")))
        .unwrap_or_else(|| "runs nothing: there is no such program".to_owned());
    format!("{} {does}", plain(entry.name().as_str()))
}

/// Spelled out wherever it is beyond ASCII.
fn plain(text: &str) -> String {
    let mut plain = String::with_capacity(text.len());
    for letter in exact(text).chars() {
        if letter.is_ascii() {
            plain.push(letter);
        } else {
            plain.extend(letter.escape_unicode());
        }
    }
    plain
}

/// What became of an entry, in a line.
pub(super) fn outcome(entry: &ServerEntry, decision: Decision) -> String {
    let name = exact(entry.name().as_str());
    match decision {
        Decision::Approved => format!("✓ {name} is approved."),
        Decision::Rejected => format!("✗ {name} is rejected."),
        Decision::Left | Decision::Unchanged => format!("○ {name} is not approved."),
    }
}

/// A text so that nothing in it is hidden: what a terminal would not show is spelled out, and so are
/// blanks behind a blank, which could pass for the layout of the page.
pub(super) fn exact(text: &str) -> String {
    let mut spelled = String::with_capacity(text.len());
    let mut was_blank = false;
    for letter in text.chars() {
        let alone = letter.encode_utf8(&mut [0; 4]).to_owned();
        let is_layout = letter.is_whitespace() && (letter != ' ' || was_blank);
        was_blank = letter == ' ';
        if for_terminal(&alone) == alone && !is_layout {
            spelled.push(letter);
        } else {
            // Writing to a string cannot fail.
            let _ = write!(spelled, "\\u{{{:x}}}", u32::from(letter));
        }
    }
    spelled
}

struct Page {
    style: Style,
    text: String,
}

impl Page {
    fn entry_field(&mut self, key: &str, value: &Value, all: &serde_json::Map<String, Value>) {
        match (key, value) {
            ("program", _) => self.field("runs", lines(value)),
            ("programHash", _) => self.field("", ["a file of this project".to_owned()]),
            ("command", _) => {
                let words = lines(value).into_iter();
                let words = words.chain(all.get("args").map(lines).unwrap_or_default());
                let words: Vec<_> = words.map(|word| shell_word(&word)).collect();
                let line = words.join(" ");
                if width(&line) <= LONG {
                    self.field("command", [line]);
                } else {
                    self.field("command", words);
                }
                self.spelling_of(value);
                self.spelling_of(all.get("args").unwrap_or(&Value::Null));
                if !all.contains_key("program") {
                    self.warning("runs", "nothing: there is no such program");
                }
            }
            // They stand behind the command.
            ("args", _) => {}
            ("variables", _) => {
                let names = lines(value).join(", ");
                self.field("reads", [format!("your variables {names}")]);
            }
            ("url", _) => {
                self.field("connects to", lines(value));
                self.spelling_of(value);
            }
            ("headersHelper", _) => {
                self.field("runs, too", lines(value));
                self.spelling_of(value);
            }
            (key, _) => {
                self.field(key, lines(value));
                self.spelling_of(value);
            }
        }
    }

    /// The same, of every text in a value.
    fn spelling_of(&mut self, value: &Value) {
        match value {
            Value::String(text) => self.spelling("", text),
            Value::Array(items) => items.iter().for_each(|item| self.spelling_of(item)),
            Value::Object(members) => {
                for (name, value) in members {
                    self.spelling("", name);
                    self.spelling_of(value);
                }
            }
            _ => {}
        }
    }

    /// Letters that look like others.
    fn spelling(&mut self, label: &str, text: &str) {
        if !text.is_ascii() {
            let spelled: String = text.chars().flat_map(char::escape_default).collect();
            self.warning(label, &format!("holds letters beyond ASCII: {spelled}"));
        }
    }

    fn changes(&mut self, before: &Approval, entry: &ServerEntry) {
        let said = match before.verdict {
            Verdict::Approved => "approved",
            Verdict::Rejected => "rejected",
        };
        let when = utc_date(before.at);
        self.warning("changed", &format!("since you {said} it on {when}:"));
        let changes = super::changes(entry, before);
        if changes.is_empty() {
            self.field("", ["  in a value that is not shown".to_owned()]);
        }
        for Change {
            field,
            before,
            after,
        } in changes
        {
            let value = |value: Option<Value>| match value {
                Some(value) => exact(&value.to_string()),
                None => "nothing".to_owned(),
            };
            if field == "programHash" {
                self.field("", ["  the program, a file of this project".to_owned()]);
                continue;
            }
            let field = exact(&field);
            let (before, after) = (value(before), value(after));
            self.field("", [format!("  {field} was {before}, is {after}")]);
        }
    }

    fn field(&mut self, label: &str, lines: impl IntoIterator<Item = String>) {
        let mut label = label;
        for line in lines {
            let room = INDENT - 2;
            let painted = self.style.paint(Paint::Dim, &format!("{label:room$}"));
            self.text.extend(["  ", &painted, &line, "\n"]);
            label = "";
        }
    }

    fn warning(&mut self, label: &str, text: &str) {
        let painted = self.style.paint(Paint::Yellow, text);
        self.field(label, [painted]);
    }
}

/// A value, one thing on each line.
fn lines(value: &Value) -> Vec<String> {
    match value {
        Value::String(text) => vec![exact(text)],
        Value::Array(items) => items.iter().flat_map(lines).collect(),
        Value::Object(members) => members
            .iter()
            .map(|(name, value)| {
                let value = match value {
                    Value::String(text) => exact(text),
                    other => exact(&other.to_string()),
                };
                format!("{}={value}", exact(name))
            })
            .collect(),
        other => vec![exact(&other.to_string())],
    }
}
