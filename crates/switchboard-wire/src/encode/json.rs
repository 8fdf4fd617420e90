//! Writes JSON values, with the same output as `serde_json`.
//!
//! Faster than `serde_json` for strings, which are most of the arguments of a call: it searches
//! eight bytes at a time for characters that need an escape.

use serde_json::{Map, Value};

use super::write_serialized;
use crate::scan::find_special;

pub(super) fn write_object(out: &mut Vec<u8>, members: &Map<String, Value>) {
    out.push(b'{');
    for (index, (key, member)) in members.iter().enumerate() {
        if index > 0 {
            out.push(b',');
        }
        write_string(out, key);
        out.push(b':');
        write_value(out, member);
    }
    out.push(b'}');
}

fn write_value(out: &mut Vec<u8>, value: &Value) {
    match value {
        Value::String(text) => write_string(out, text),
        Value::Object(members) => write_object(out, members),
        Value::Array(elements) => {
            out.push(b'[');
            for (index, element) in elements.iter().enumerate() {
                if index > 0 {
                    out.push(b',');
                }
                write_value(out, element);
            }
            out.push(b']');
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => write_serialized(out, value),
    }
}

pub(super) fn write_string(out: &mut Vec<u8>, text: &str) {
    let mut rest = text.as_bytes();
    out.push(b'"');
    while let Some((plain, special, after)) = split_at_special(rest) {
        out.extend_from_slice(plain);
        write_escape(out, special);
        rest = after;
    }
    out.extend_from_slice(rest);
    out.push(b'"');
}

/// Returns the text before the first character that needs an escape, that character, and the rest.
fn split_at_special(text: &[u8]) -> Option<(&[u8], u8, &[u8])> {
    let (plain, rest) = text.split_at_checked(find_special(text)?)?;
    let (special, after) = rest.split_first()?;
    Some((plain, *special, after))
}

fn write_escape(out: &mut Vec<u8>, special: u8) {
    let letter = match special {
        b'"' | b'\\' => special,
        b'\n' => b'n',
        b'\r' => b'r',
        b'\t' => b't',
        0x08 => b'b',
        0x0C => b'f',
        _ => {
            out.extend_from_slice(format!("\\u{special:04x}").as_bytes());
            return;
        }
    };
    out.extend_from_slice(&[b'\\', letter]);
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn any_value() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            any::<i64>().prop_map(Value::from),
            any::<f64>().prop_map(Value::from),
            any::<String>().prop_map(Value::from),
            "[ -~\n\r\t\u{0}-\u{1f}]{0,40}".prop_map(Value::from),
        ];
        leaf.prop_recursive(4, 40, 6, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..6).prop_map(Value::from),
                prop::collection::btree_map(any::<String>(), inner, 0..6)
                    .prop_map(|members| Value::Object(members.into_iter().collect())),
            ]
        })
    }

    proptest! {
        #[test]
        fn output_equals_serde_json(value in any_value()) {
            let mut out = Vec::new();
            write_value(&mut out, &value);
            prop_assert_eq!(String::from_utf8(out).unwrap(), value.to_string());
        }
    }
}
