//! The fast JSON-RPC parser agrees with a slow reference parser.

#![no_main]

use std::fmt;

use libfuzzer_sys::fuzz_target;
use serde::de::{Deserialize, Deserializer, MapAccess, Visitor};
use serde_json::Value;
use serde_json::value::RawValue;
use switchboard_fuzz::{LineContent, parse_line};

/// The two parsers differ on purpose beyond this depth.
const MAX_COMPARED_DEPTH: usize = 100;

fuzz_target!(|line: &[u8]| {
    let content = parse_line(line);
    if let LineContent::Batch(count) = &content {
        check_batch(line, *count);
    }
    if let Some(members) = parse_reference(line) {
        check(&members, &content);
    }
});

/// The members of a message in order, including duplicates.
struct Members(Vec<(String, Box<RawValue>)>);

impl<'de> Deserialize<'de> for Members {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Collect;
        impl<'de> Visitor<'de> for Collect {
            type Value = Members;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Members, A::Error> {
                let mut members = Vec::new();
                while let Some(member) = map.next_entry()? {
                    members.push(member);
                }
                Ok(Members(members))
            }
        }
        deserializer.deserialize_map(Collect)
    }
}

impl Members {
    fn of<'a>(&'a self, key: &'a str) -> impl Iterator<Item = &'a str> {
        let same = self.0.iter().filter(move |(name, _)| name == key);
        same.map(|(_, value)| value.get())
    }

    fn text(&self, key: &str) -> Option<&str> {
        self.0
            .iter()
            .find(|(name, _)| name == key)
            .map(|(_, value)| value.get())
    }
}

/// Parses the line as a JSON object; `None` if it is invalid or too deep.
fn parse_reference(line: &[u8]) -> Option<Members> {
    let line = line.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(line);
    let text = std::str::from_utf8(line.trim_ascii()).ok()?;
    let tree: Value = serde_json::from_str(text).ok()?;
    if depth(&tree) > MAX_COMPARED_DEPTH {
        return None;
    }
    serde_json::from_str(text).ok()
}

fn depth(tree: &Value) -> usize {
    match tree {
        Value::Array(items) => 1 + items.iter().map(depth).max().unwrap_or(0),
        Value::Object(members) => 1 + members.values().map(depth).max().unwrap_or(0),
        _ => 0,
    }
}

fn check(members: &Members, content: &LineContent) {
    let known = ["jsonrpc", "id", "method", "params", "result", "error"];
    let is_rpc = members.text("jsonrpc") == Some("\"2.0\"");
    let has_duplicate = known.iter().any(|key| members.of(key).count() > 1);
    let own = members.text("id").and_then(|id| id.parse::<u64>().ok());
    let own = own.filter(|id| members.text("id") == Some(&id.to_string()));
    if has_duplicate {
        assert!(
            matches!(content, LineContent::Invalid(_) | LineContent::Noise),
            "{content:?}"
        );
        return;
    }
    if !is_rpc {
        return;
    }
    let [method, id, result, error] =
        ["method", "id", "result", "error"].map(|key| members.text(key));
    match (method, id, result, error) {
        (None, Some(_), Some(result), None) => {
            assert_eq!(
                *content,
                LineContent::Result(own, result.as_bytes().to_vec())
            );
        }
        (None, Some(_), None, Some(_)) => assert_eq!(*content, LineContent::Error),
        (Some(method), None, _, _) => match serde_json::from_str::<String>(method) {
            Ok(method) => assert_eq!(*content, LineContent::Notification(method)),
            Err(_) => assert_eq!(*content, LineContent::Invalid(None)),
        },
        (Some(method), Some(_), _, _) => match content {
            LineContent::Request(read) => {
                assert_eq!(serde_json::from_str(method).ok().as_ref(), Some(read));
            }
            other => assert_eq!(*other, LineContent::Invalid(None)),
        },
        _ => assert_eq!(
            *content,
            LineContent::Invalid(own.filter(|_| method.is_none()))
        ),
    }
}

/// The reference parser counts the same number of messages in a batch.
fn check_batch(line: &[u8], count: usize) {
    if let Ok(messages) = serde_json::from_slice::<Vec<&RawValue>>(line) {
        assert_eq!(messages.len(), count);
    }
}
