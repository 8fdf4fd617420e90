//! Property tests of edits: only the edited member changes, and the commas and whitespace around
//! it.

#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::string_slice,
    reason = "helpers of tests fail loudly when the test itself is wrong"
)]

use std::fs;

use jsonc_parser::{JsonValue, ParseOptions, parse_to_value};
use proptest::prelude::*;
use serde_json::{Map, Value, json};
use switchboard_config::JsonEditor;

/// Whitespace and comments that may separate two tokens.
const TRIVIA: [&str; 10] = [
    "",
    "",
    " ",
    "\n",
    "\n  ",
    "\n\n\t",
    " /* , } */ ",
    "/*\n*/",
    " // \"a\": 1, {\n",
    " // x\n    // y\n  ",
];

/// Writes a document with random whitespace and comments between its tokens.
struct Writer<'a> {
    random_bytes: std::iter::Cycle<std::slice::Iter<'a, u8>>,
    text: String,
}

impl Writer<'_> {
    fn next_random(&mut self) -> usize {
        usize::from(*self.random_bytes.next().unwrap())
    }

    fn trivia(&mut self) {
        let random = self.next_random();
        self.text.push_str(TRIVIA[random % TRIVIA.len()]);
    }

    fn comma(&mut self, is_last: bool) {
        self.trivia();
        if !is_last || self.next_random().is_multiple_of(3) {
            self.text.push(',');
            self.trivia();
        }
    }

    fn value(&mut self, value: &Value) {
        match value {
            Value::Object(members) => {
                self.text.push('{');
                self.trivia();
                for (index, (key, value)) in members.iter().enumerate() {
                    self.text.push_str(&json!(key).to_string());
                    self.trivia();
                    self.text.push(':');
                    self.trivia();
                    self.value(value);
                    self.comma(index + 1 == members.len());
                }
                self.text.push('}');
            }
            Value::Array(items) => {
                self.text.push('[');
                self.trivia();
                for (index, item) in items.iter().enumerate() {
                    self.value(item);
                    self.comma(index + 1 == items.len());
                }
                self.text.push(']');
            }
            plain => self.text.push_str(&plain.to_string()),
        }
    }
}

fn key() -> impl Strategy<Value = String> {
    prop_oneof![Just("a"), Just("b"), Just("mcpServers"), Just("q\"\\ü,")].prop_map(str::to_owned)
}

fn value() -> impl Strategy<Value = Value> {
    let plain = prop_oneof![
        Just(json!(null)),
        Just(json!(true)),
        Just(json!(17)),
        Just(json!("// no } comment")),
        Just(json!("\"quoted\"\\")),
    ];
    plain.prop_recursive(3, 20, 4, |inner| {
        prop_oneof![
            proptest::collection::vec(inner.clone(), 0..4).prop_map(Value::Array),
            object(inner),
        ]
    })
}

fn object(inner: impl Strategy<Value = Value>) -> impl Strategy<Value = Value> {
    proptest::collection::vec((key(), inner), 0..4)
        .prop_map(|members| Value::Object(members.into_iter().collect()))
}

fn document() -> impl Strategy<Value = (Value, String)> {
    let random_bytes = proptest::collection::vec(any::<u8>(), 1..60);
    (object(value()), random_bytes, 0..3).prop_map(|(value, random_bytes, line_ends)| {
        let mut writer = Writer {
            random_bytes: random_bytes.iter().cycle(),
            text: String::new(),
        };
        writer.trivia();
        writer.value(&value);
        writer.trivia();
        let text = match line_ends {
            0 => writer.text.replace('\n', "\r\n"),
            _ => writer.text,
        };
        (value, text)
    })
}

/// Parses the text to a value, without the editor.
fn read(text: &str) -> Value {
    fn convert(value: JsonValue<'_>) -> Value {
        match value {
            JsonValue::Null => Value::Null,
            JsonValue::Boolean(flag) => json!(flag),
            JsonValue::Number(digits) => Value::Number(digits.parse().unwrap()),
            JsonValue::String(text) => json!(text),
            JsonValue::Array(items) => items.into_iter().map(convert).collect(),
            JsonValue::Object(members) => Value::Object(
                members
                    .into_iter()
                    .map(|(key, value)| (key.into_owned(), convert(value)))
                    .collect(),
            ),
        }
    }
    convert(
        parse_to_value(text, &ParseOptions::default())
            .unwrap()
            .unwrap(),
    )
}

fn edit<T>(text: &str, edit: impl FnOnce(&mut JsonEditor) -> T) -> (String, T) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("mcp.json");
    fs::write(&path, text).unwrap();
    let mut file = JsonEditor::open(&path).unwrap();
    let outcome = edit(&mut file);
    // Compare the text to be written. Other tests cover the writing.
    (file.text().to_owned(), outcome)
}

/// The object that contains the last key of `path`. Creates missing objects. Returns `None` if the
/// path leads through a value that is not an object.
fn parent<'a>(root: &'a mut Value, path: &[&str]) -> Option<&'a mut Map<String, Value>> {
    let (_, parents) = path.split_last()?;
    let mut at = root;
    for key in parents {
        at = at.as_object_mut()?.entry(*key).or_insert_with(|| json!({}));
    }
    at.as_object_mut()
}

/// The text that was inserted into `shorter` to make `longer`, if it is contiguous.
fn insertion<'a>(longer: &'a str, shorter: &str) -> Option<&'a str> {
    let equal = |(a, b): &(u8, u8)| a == b;
    let before = longer.bytes().zip(shorter.bytes()).take_while(equal);
    let before = before.count();
    let behind = longer.bytes().rev().zip(shorter.bytes().rev());
    let behind = behind.take_while(equal).count();
    let behind = behind.min(shorter.len() - before);
    (before + behind == shorter.len()).then(|| &longer[before..longer.len() - behind])
}

/// Like [`insertion`], but ignores one comma elsewhere.
fn insertion_ignoring_comma(longer: &str, shorter: &str) -> Option<String> {
    let commas = longer.match_indices(',').map(|(index, _)| index);
    let without = commas.map(|at| format!("{}{}", &longer[..at], &longer[at + 1..]));
    let mut found = without.filter_map(|longer| Some(insertion(&longer, shorter)?.to_owned()));
    insertion(longer, shorter)
        .map(str::to_owned)
        .or_else(|| found.next())
}

fn path() -> impl Strategy<Value = Vec<String>> {
    proptest::collection::vec(key(), 1..4)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn set_changes_only_its_member(
        (before, text) in document(),
        path in path(),
        value in value(),
    ) {
        let path: Vec<_> = path.iter().map(String::as_str).collect();
        let mut expected = before.clone();
        let (after, outcome) = edit(&text, |file| file.set(&path, &value));
        let Some(members) = parent(&mut expected, &path) else {
            prop_assert!(outcome.is_err());
            prop_assert_eq!(after, text);
            return Ok(());
        };
        let last = *path.last().unwrap();
        members.insert(last.to_owned(), value);
        prop_assert_eq!(read(&after), expected, "{}", after);
        if text.contains("\r\n") && !text.replace("\r\n", "").contains('\n') {
            prop_assert!(!after.replace("\r\n", "").contains('\n'), "{after:?}");
        }
    }

    #[test]
    fn insert_adds_only_the_member(
        (before, text) in document(),
        value in value(),
    ) {
        let (after, outcome) = edit(&text, |file| file.set(&["new"], &value));
        outcome.unwrap();
        if before.as_object().unwrap().is_empty() {
            // Whitespace between empty brackets is replaced.
            prop_assert!(after.contains("\"new\":"));
        } else {
            let inserted = insertion_ignoring_comma(&after, &text);
            prop_assert!(inserted.is_some(), "{text}\n-----\n{after}");
        }
    }

    #[test]
    fn replace_changes_only_the_value(
        (before, text) in document(),
        which in any::<prop::sample::Index>(),
    ) {
        let members = before.as_object().unwrap();
        prop_assume!(!members.is_empty());
        let key = members.keys().nth(which.index(members.len())).unwrap();
        // Replace by two unique values: everything else must be equal.
        let (one, ()) = edit(&text, |file| file.set(&[key], &json!("~one~")).unwrap());
        let (two, ()) = edit(&one, |file| file.set(&[key], &json!("~two~")).unwrap());
        prop_assert_eq!(one.replace("~one~", "~two~"), two);
        let (head, tail) = one.split_once("\"~one~\"").unwrap();
        prop_assert!(text.starts_with(head) && text.ends_with(tail), "{text}\n-----\n{one}");
    }

    #[test]
    fn remove_deletes_only_the_member(
        (before, text) in document(),
        path in path(),
    ) {
        let path: Vec<_> = path.iter().map(String::as_str).collect();
        let mut expected = before.clone();
        let (after, outcome) = edit(&text, |file| file.remove(&path));
        let last = *path.last().unwrap();
        let is_there = parent(&mut before.clone(), &path).is_some_and(|members| members.contains_key(last));
        if !is_there {
            prop_assert!(!matches!(outcome, Ok(true)));
            prop_assert_eq!(after, text);
            return Ok(());
        }
        prop_assert_eq!(outcome.unwrap(), true);
        parent(&mut expected, &path).unwrap().shift_remove(last);
        prop_assert_eq!(read(&after), expected, "{}", after);
        let deleted = insertion_ignoring_comma(&text, &after);
        prop_assert!(deleted.is_some(), "{text}\n-----\n{after}");
    }

    #[test]
    fn append_adds_at_the_end(
        (before, text) in document(),
        key in key(),
        value in value(),
    ) {
        let mut expected = before.clone();
        let (after, outcome) = edit(&text, |file| file.append(&[&key], &value));
        let list = expected
            .as_object_mut()
            .unwrap()
            .entry(key)
            .or_insert_with(|| json!([]));
        match list.as_array_mut() {
            Some(items) => {
                items.push(value);
                prop_assert_eq!(read(&after), expected, "{}", after);
            }
            None => {
                prop_assert!(outcome.is_err());
                prop_assert_eq!(after, text);
            }
        }
    }
}
