//! JSON values as text: the same text as `serde_json` writes, which looks at every byte of a string
//! by itself. Arguments are mostly strings, and go out with every call.

use serde_json::{Map, Value};

use super::write;
use crate::scan::first_special;

pub(super) fn object(out: &mut Vec<u8>, members: &Map<String, Value>) {
    out.push(b'{');
    for (number, (key, member)) in members.iter().enumerate() {
        if number > 0 {
            out.push(b',');
        }
        string(out, key);
        out.push(b':');
        value(out, member);
    }
    out.push(b'}');
}

fn value(out: &mut Vec<u8>, of: &Value) {
    match of {
        Value::String(text) => string(out, text),
        Value::Object(members) => object(out, members),
        Value::Array(elements) => {
            out.push(b'[');
            for (number, element) in elements.iter().enumerate() {
                if number > 0 {
                    out.push(b',');
                }
                value(out, element);
            }
            out.push(b']');
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => write(out, of),
    }
}

pub(super) fn string(out: &mut Vec<u8>, text: &str) {
    let mut rest = text.as_bytes();
    out.push(b'"');
    while let Some((plain, special, after)) = split(rest) {
        out.extend_from_slice(plain);
        escape(out, special);
        rest = after;
    }
    out.extend_from_slice(rest);
    out.push(b'"');
}

/// What comes before the first special character, that character, and what comes after it.
fn split(text: &[u8]) -> Option<(&[u8], u8, &[u8])> {
    let (plain, rest) = text.split_at_checked(first_special(text)?)?;
    let (special, after) = rest.split_first()?;
    Some((plain, *special, after))
}

fn escape(out: &mut Vec<u8>, special: u8) {
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
        fn it_is_what_serde_json_writes(of in any_value()) {
            let mut out = Vec::new();
            value(&mut out, &of);
            prop_assert_eq!(String::from_utf8(out).unwrap(), of.to_string());
        }
    }
}
