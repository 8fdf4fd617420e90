//! Parses tool arguments from the command line and coerces them to the types in the tool's schema.
//!
//! Does no I/O. A value that does not have the type in the schema stays a string: the host
//! validates arguments later and has the better error message. Invariant: no argument is dropped,
//! `key:=json` is never coerced, and a number is sent with exactly the value that was written.

use serde_json::{Map, Number, Value};
use switchboard::mcp::Json;

use crate::exact_number::{find_inexact, is_exact};
use crate::failure::{Failure, Kind};
use crate::render::text::truncate;
use crate::tool_schema::ToolSchema;

/// The form in which the tool arguments were given on the command line.
#[derive(Debug, PartialEq)]
pub(crate) enum ArgumentInput {
    /// One JSON object on stdin.
    Stdin,
    Object(Map<String, Value>),
    Pairs(Vec<ArgumentPair>),
}

#[derive(Debug, PartialEq)]
pub(crate) struct ArgumentPair {
    key: String,
    value: ArgumentValue,
}

#[derive(Debug, PartialEq)]
enum ArgumentValue {
    /// `key=value`
    Text(String),
    /// `key:=json`
    Json(Value),
}

/// Maximum columns of a number in an error message.
const MAX_NUMBER_COLUMNS: usize = 60;

const ARGUMENT_SYNTAX: &str = "write key=value, key:=json, one JSON object, or - to read stdin";

/// Parses the words after the tool's name.
pub(crate) fn parse(words: &[String]) -> Result<ArgumentInput, Failure> {
    match words {
        [word] if word == "-" => Ok(ArgumentInput::Stdin),
        [word] if word.trim_start().starts_with('{') => {
            parse_object(word).map(ArgumentInput::Object)
        }
        words => words
            .iter()
            .map(|word| parse_pair(word))
            .collect::<Result<_, _>>()
            .map(ArgumentInput::Pairs),
    }
}

/// Parses a JSON object.
pub(crate) fn parse_object(text: &str) -> Result<Map<String, Value>, Failure> {
    match parse_json(text) {
        Ok(Value::Object(object)) => match find_inexact(text) {
            None => Ok(object),
            Some(number) => Err(inexact_error(number).hint("write it in quotes, as a string")),
        },
        Ok(_) => {
            Err(Failure::usage("the arguments are JSON, but not an object").hint(ARGUMENT_SYNTAX))
        }
        Err(error) => Err(
            Failure::usage(format!("the arguments are not valid JSON: {error}"))
                .hint(ARGUMENT_SYNTAX),
        ),
    }
}

/// Parses JSON. Rejects an object that has the same key twice: only one of the values would be sent.
fn parse_json(text: &str) -> Result<Value, serde_json::Error> {
    Json::parse(text)?.check_unique_keys()?;
    serde_json::from_str(text)
}

/// The error for a number that would be rounded before it is sent.
fn inexact_error(number: &str) -> Failure {
    Failure::new(
        Kind::InvalidArguments,
        format!(
            "the number {} cannot be sent exactly",
            truncate(number, MAX_NUMBER_COLUMNS)
        ),
    )
}

fn parse_pair(word: &str) -> Result<ArgumentPair, Failure> {
    if word == "-" || word.trim_start().starts_with('{') {
        let message = format!("`{word}` cannot be combined with other arguments");
        return Err(Failure::usage(message));
    }
    let Some((key, value)) = word.split_once('=') else {
        return Err(
            Failure::usage(format!("`{word}` is not an argument; expected key=value"))
                .hint(ARGUMENT_SYNTAX),
        );
    };
    let (key, value) = match key.strip_suffix(':') {
        None => (key, ArgumentValue::Text(value.to_owned())),
        Some(key) => match parse_json(value) {
            Ok(json) => match find_inexact(value) {
                None => (key, ArgumentValue::Json(json)),
                Some(number) => {
                    return Err(inexact_error(number).hint(format!("for plain text write {key}=…")));
                }
            },
            Err(error) => {
                let message = format!("the value of `{key}` is not valid JSON: {error}");
                return Err(Failure::usage(message).hint(format!("for plain text write {key}=…")));
            }
        },
    };
    if key.is_empty() {
        return Err(
            Failure::usage(format!("`{word}` is missing a name before `=`")).hint(ARGUMENT_SYNTAX),
        );
    }
    let key = key.to_owned();
    Ok(ArgumentPair { key, value })
}

/// Parses `key=value` words whose values are strings, for prompts and URI templates.
pub(crate) fn parse_text_pairs(words: &[String]) -> Result<Vec<(String, String)>, Failure> {
    let hint = "write key=value";
    let pair = |word: &String| match word.split_once('=') {
        Some(("", _)) => {
            Err(Failure::usage(format!("`{word}` is missing a name before `=`")).hint(hint))
        }
        Some((key, value)) => Ok((key.to_owned(), value.to_owned())),
        None => Err(
            Failure::usage(format!("`{word}` is not an argument; expected key=value")).hint(hint),
        ),
    };
    words.iter().map(pair).collect()
}

/// Coerces `key=value` pairs to the types in the schema, and groups values with the same key.
pub(crate) fn coerce(
    pairs: Vec<ArgumentPair>,
    schema: &ToolSchema,
) -> Result<Map<String, Value>, Failure> {
    let mut grouped: Vec<(String, Vec<ArgumentValue>)> = Vec::new();
    for ArgumentPair { key, value } in pairs {
        match grouped.iter_mut().find(|(known, _)| *known == key) {
            Some((_, values)) => values.push(value),
            None => grouped.push((key, vec![value])),
        }
    }
    let mut arguments = Map::new();
    for (key, values) in grouped {
        let value = coerce_all(&key, values, schema)?;
        arguments.insert(key, value);
    }
    Ok(arguments)
}

fn coerce_all(
    key: &str,
    mut values: Vec<ArgumentValue>,
    schema: &ToolSchema,
) -> Result<Value, Failure> {
    let property_schema = schema.argument(key);
    if values.len() > 1 {
        let Some(list) =
            property_schema.filter(|property_schema| schema.allows(property_schema, "array"))
        else {
            return Err(Failure::usage(format!(
                "`{key}` was given {} times but is not a list",
                values.len()
            )));
        };
        let items = schema.items(list);
        let items = values
            .into_iter()
            .map(|value| coerce_one(value, items, schema));
        return items.collect();
    }
    match values.pop() {
        None => Ok(Value::Null),
        Some(value) => coerce_one(value, property_schema, schema),
    }
}

fn coerce_one(
    value: ArgumentValue,
    property_schema: Option<&Value>,
    schema: &ToolSchema,
) -> Result<Value, Failure> {
    match (value, property_schema) {
        (ArgumentValue::Json(json), _) => Ok(json),
        (ArgumentValue::Text(text), None) => Ok(Value::String(text)),
        (ArgumentValue::Text(text), Some(property_schema)) => {
            coerce_text(text, property_schema, schema)
        }
    }
}

fn coerce_text(
    text: String,
    property_schema: &Value,
    schema: &ToolSchema,
) -> Result<Value, Failure> {
    let choices = schema.choices(property_schema);
    let matches_text =
        |choice: &&&Value| choice.as_str() == Some(&text) || choice.to_string() == text;
    if let Some(choice) = choices.iter().find(matches_text) {
        return Ok((*choice).clone());
    }
    if schema.allows(property_schema, "string") || !schema.is_typed(property_schema) {
        return Ok(Value::String(text));
    }
    if let Some(scalar) = parse_scalar(&text, property_schema, schema)? {
        return Ok(scalar);
    }
    let value = parse_json_value(&text, property_schema, schema)?;
    Ok(value.unwrap_or(Value::String(text)))
}

fn parse_scalar(
    text: &str,
    property_schema: &Value,
    schema: &ToolSchema,
) -> Result<Option<Value>, Failure> {
    let allows = |kind| schema.allows(property_schema, kind);
    Ok(match text {
        "true" | "false" if allows("boolean") => Some(Value::Bool(text == "true")),
        "null" if allows("null") => Some(Value::Null),
        _ if allows("number") || allows("integer") => parse_number(text)?.map(Value::Number),
        _ => None,
    })
}

/// Parses a number. `None` if the text is no number; an error if the number would be rounded.
fn parse_number(text: &str) -> Result<Option<Number>, Failure> {
    let as_json = serde_json::from_str(text).ok();
    let number = as_json.or_else(|| Number::from_f64(text.parse().ok()?));
    match number {
        Some(number) if !is_exact(text, &number) => Err(inexact_error(text)),
        number => Ok(number),
    }
}

fn parse_json_value(
    text: &str,
    property_schema: &Value,
    schema: &ToolSchema,
) -> Result<Option<Value>, Failure> {
    let json: Option<Value> = serde_json::from_str(text).ok();
    let is_list = schema.allows(property_schema, "array");
    let value = match json {
        Some(json @ Value::Object(_)) if schema.allows(property_schema, "object") => Some(json),
        Some(json @ Value::Array(_)) if is_list => Some(json),
        // The schema expects a list and the text is a single value: pass a list with this one item.
        _ if is_list => {
            let item = ArgumentValue::Text(text.to_owned());
            let items = schema.items(property_schema);
            let item = coerce_one(item, items, schema)?;
            return Ok(Some(Value::Array(vec![item])));
        }
        _ => None,
    };
    match find_inexact(text) {
        Some(number) if value.is_some() => Err(inexact_error(number)),
        _ => Ok(value),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    fn words(words: &[&str]) -> Vec<String> {
        words.iter().map(|word| (*word).to_owned()).collect()
    }

    #[test]
    fn duplicate_keys_are_rejected() {
        for word in [
            r#"{"a":1,"a":2}"#,
            r#"{"a":[{"b":1,"b":1}]}"#,
            r#"a:={"b":1,"b":2}"#,
        ] {
            let failure = parse(&words(&[word])).unwrap_err();
            assert!(
                format!("{failure:?}").contains("duplicate key"),
                "{failure:?}"
            );
        }
        assert!(parse(&words(&[r#"{"a":{"b":1},"c":{"b":1}}"#])).is_ok());
    }

    fn schema() -> ToolSchema {
        ToolSchema::new(json!({
            "type": "object",
            "properties": {
                "text": {"type": "string"},
                "count": {"type": "integer"},
                "ratio": {"type": "number"},
                "deep": {"type": "boolean"},
                "tags": {"type": "array", "items": {"type": "string"}},
                "sizes": {"type": "array", "items": {"type": "integer"}},
                "where": {"type": "object"},
                "level": {"enum": [1, 2, "high"]},
                "limit": {"anyOf": [{"type": "integer"}, {"type": "null"}]},
                "either": {"type": ["number", "string"]},
                "untyped": {"description": "whatever"},
                "named": {"$ref": "#/$defs/Count"},
            },
            "$defs": {"Count": {"type": "integer"}},
        }))
    }

    fn typed(given: &[&str]) -> Value {
        let Ok(ArgumentInput::Pairs(pairs)) = parse(&words(given)) else {
            panic!("{given:?}")
        };
        Value::Object(coerce(pairs, &schema()).unwrap())
    }

    fn error_of(given: &[&str]) -> String {
        let failure = match parse(&words(given)) {
            Err(failure) => failure,
            Ok(ArgumentInput::Pairs(pairs)) => coerce(pairs, &schema()).unwrap_err(),
            Ok(given) => panic!("{given:?}"),
        };
        failure.parts().message.clone()
    }

    #[test]
    fn values_are_coerced_by_schema() {
        let cases = [
            ("text=15", json!({"text": "15"})),
            ("text=", json!({"text": ""})),
            ("text=a=b", json!({"text": "a=b"})),
            ("count=15", json!({"count": 15})),
            ("count=-3", json!({"count": -3})),
            ("ratio=2.50", json!({"ratio": 2.5})),
            ("ratio=.5", json!({"ratio": 0.5})),
            ("deep=true", json!({"deep": true})),
            ("tags=a,b", json!({"tags": ["a,b"]})),
            (r#"tags=["a","b"]"#, json!({"tags": ["a", "b"]})),
            ("sizes=3", json!({"sizes": [3]})),
            (r#"where={"x":1}"#, json!({"where": {"x": 1}})),
            ("level=2", json!({"level": 2})),
            ("level=high", json!({"level": "high"})),
            ("limit=null", json!({"limit": null})),
            ("limit=7", json!({"limit": 7})),
            ("either=7", json!({"either": "7"})),
            ("untyped=7", json!({"untyped": "7"})),
            ("unknown=7", json!({"unknown": "7"})),
            ("named=7", json!({"named": 7})),
            ("text:=15", json!({"text": 15})),
            (r#"text:={"a": [1]}"#, json!({"text": {"a": [1]}})),
        ];
        for (word, expected) in cases {
            assert_eq!(typed(&[word]), expected, "{word}");
        }
    }

    #[test]
    fn mismatched_text_stays_a_string() {
        assert_eq!(
            typed(&["count=many", "deep=yes", "where=here"]),
            json!({"count": "many", "deep": "yes", "where": "here"})
        );
    }

    #[test]
    fn numbers_that_would_be_rounded_are_rejected() {
        for given in [
            "count=99999999999999999999999",
            "ratio=99999999999999999999999",
            "sizes=99999999999999999999999",
            "text:=99999999999999999999999",
            "untyped:=[99999999999999999999999]",
            "sizes=[1,99999999999999999999999]",
            r#"{"a": {"b": 99999999999999999999999}}"#,
        ] {
            assert_eq!(
                error_of(&[given]),
                "the number 99999999999999999999999 cannot be sent exactly",
                "{given}"
            );
        }
        let long = "text=99999999999999999999999";
        assert_eq!(typed(&[long]), json!({"text": "99999999999999999999999"}));
    }

    #[test]
    fn repeated_key_becomes_a_list() {
        assert_eq!(
            typed(&["sizes=1", "text=x", "sizes=2", "sizes:=3"]),
            json!({"sizes": [1, 2, 3], "text": "x"})
        );
        assert_eq!(
            error_of(&["text=a", "text=b"]),
            "`text` was given 2 times but is not a list"
        );
    }

    #[test]
    fn object_or_stdin_cannot_be_combined() {
        assert_eq!(
            parse(&words(&[r#" {"a": 1}"#])).unwrap(),
            ArgumentInput::Object(Map::from_iter([("a".to_owned(), json!(1))]))
        );
        assert_eq!(parse(&words(&["-"])).unwrap(), ArgumentInput::Stdin);
        assert_eq!(parse(&[]).unwrap(), ArgumentInput::Pairs(Vec::new()));
        let combined = "cannot be combined with other arguments";
        assert_eq!(error_of(&["-", "a=1"]), format!("`-` {combined}"));
        assert_eq!(error_of(&["a=1", "{}"]), format!("`{{}}` {combined}"));
    }

    #[test]
    fn invalid_words_are_rejected() {
        assert_eq!(
            error_of(&["15"]),
            "`15` is not an argument; expected key=value"
        );
        assert_eq!(error_of(&["=15"]), "`=15` is missing a name before `=`");
        assert_eq!(error_of(&[":=15"]), "`:=15` is missing a name before `=`");
        assert!(error_of(&["a:=x"]).starts_with("the value of `a` is not valid JSON: "));
        assert!(error_of(&["{\"a\""]).starts_with("the arguments are not valid JSON: "));
    }

    proptest! {
        #[test]
        fn strings_are_passed_unchanged(text in ".*") {
            let arguments = typed(&[&format!("text={text}")]);
            prop_assert_eq!(&arguments["text"], &json!(text));
        }

        #[test]
        fn integers_stay_integers(number: i64) {
            let arguments = typed(&[&format!("count={number}")]);
            prop_assert_eq!(&arguments["count"], &json!(number));
        }
    }
}
