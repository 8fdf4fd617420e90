//! The arguments of a call as typed, and their way to what the tool's schema wants.
//!
//! Pure. Text that cannot be what the schema wants stays text: the engine checks arguments, and says
//! better what is wrong. Invariant: nothing typed is dropped, and `key:=json` is taken as it stands.

use serde_json::{Map, Number, Value};

use crate::failure::Failure;
use crate::schema::Schema;

/// The arguments as typed.
#[derive(Debug, PartialEq)]
pub(crate) enum Given {
    /// They come on stdin, as one JSON object.
    OnStdin,
    Object(Map<String, Value>),
    Pairs(Vec<Pair>),
}

#[derive(Debug, PartialEq)]
pub(crate) struct Pair {
    key: String,
    value: Typed,
}

#[derive(Debug, PartialEq)]
enum Typed {
    /// `key=value`
    Text(String),
    /// `key:=json`
    Json(Value),
}

const FORMS: &str = "write key=value, key:=json, one JSON object, or - to read it from stdin";

/// Takes the words after the tool's name apart.
pub(crate) fn parse(words: &[String]) -> Result<Given, Failure> {
    match words {
        [word] if word == "-" => Ok(Given::OnStdin),
        [word] if word.trim_start().starts_with('{') => parse_object(word).map(Given::Object),
        words => words
            .iter()
            .map(|word| parse_pair(word))
            .collect::<Result<_, _>>()
            .map(Given::Pairs),
    }
}

/// Reads a JSON object.
pub(crate) fn parse_object(text: &str) -> Result<Map<String, Value>, Failure> {
    match serde_json::from_str(text) {
        Ok(Value::Object(object)) => Ok(object),
        Ok(_) => Err(Failure::usage("the arguments are JSON, but not an object").hint(FORMS)),
        Err(error) => {
            Err(Failure::usage(format!("the arguments are not valid JSON: {error}")).hint(FORMS))
        }
    }
}

fn parse_pair(word: &str) -> Result<Pair, Failure> {
    if word == "-" || word.trim_start().starts_with('{') {
        let message = format!("`{word}` stands for all arguments and cannot have others beside it");
        return Err(Failure::usage(message));
    }
    let Some((key, value)) = word.split_once('=') else {
        return Err(Failure::usage(format!("`{word}` is no argument")).hint(FORMS));
    };
    let (key, value) = match key.strip_suffix(':') {
        None => (key, Typed::Text(value.to_owned())),
        Some(key) => match serde_json::from_str(value) {
            Ok(json) => (key, Typed::Json(json)),
            Err(error) => {
                let message = format!("the value of `{key}` is not valid JSON: {error}");
                return Err(Failure::usage(message).hint(format!("for plain text write {key}=…")));
            }
        },
    };
    if key.is_empty() {
        return Err(Failure::usage(format!("`{word}` has no name before the `=`")).hint(FORMS));
    }
    let key = key.to_owned();
    Ok(Pair { key, value })
}

/// Takes words apart that are texts by name, as prompts and templates want them: `key=value`.
pub(crate) fn texts(words: &[String]) -> Result<Vec<(String, String)>, Failure> {
    let hint = "write key=value";
    let pair = |word: &String| match word.split_once('=') {
        Some(("", _)) => {
            Err(Failure::usage(format!("`{word}` has no name before the `=`")).hint(hint))
        }
        Some((key, value)) => Ok((key.to_owned(), value.to_owned())),
        None => Err(Failure::usage(format!("`{word}` is no argument")).hint(hint)),
    };
    words.iter().map(pair).collect()
}

/// Makes of the pairs what the schema wants.
pub(crate) fn coerce(pairs: Vec<Pair>, schema: &Schema) -> Result<Map<String, Value>, Failure> {
    let mut typed: Vec<(String, Vec<Typed>)> = Vec::new();
    for Pair { key, value } in pairs {
        match typed.iter_mut().find(|(known, _)| *known == key) {
            Some((_, values)) => values.push(value),
            None => typed.push((key, vec![value])),
        }
    }
    let mut arguments = Map::new();
    for (key, values) in typed {
        let value = coerce_all(&key, values, schema)?;
        arguments.insert(key, value);
    }
    Ok(arguments)
}

fn coerce_all(key: &str, mut values: Vec<Typed>, schema: &Schema) -> Result<Value, Failure> {
    let wanted = schema.of_argument(key);
    if values.len() > 1 {
        let Some(list) = wanted.filter(|wanted| schema.allows(wanted, "array")) else {
            return Err(Failure::usage(format!(
                "`{key}` is given {} times, but is no list",
                values.len()
            )));
        };
        let items = schema.of_items(list);
        let items = values
            .into_iter()
            .map(|value| coerce_one(value, items, schema));
        return Ok(items.collect());
    }
    Ok(values
        .pop()
        .map_or(Value::Null, |value| coerce_one(value, wanted, schema)))
}

fn coerce_one(value: Typed, wanted: Option<&Value>, schema: &Schema) -> Value {
    match (value, wanted) {
        (Typed::Json(json), _) => json,
        (Typed::Text(text), None) => Value::String(text),
        (Typed::Text(text), Some(wanted)) => coerce_text(text, wanted, schema),
    }
}

fn coerce_text(text: String, wanted: &Value, schema: &Schema) -> Value {
    let choices = schema.choices(wanted);
    let spelled = |choice: &&&Value| choice.as_str() == Some(&text) || choice.to_string() == text;
    if let Some(choice) = choices.iter().find(spelled) {
        return (*choice).clone();
    }
    if schema.allows(wanted, "string") || !schema.is_typed(wanted) {
        return Value::String(text);
    }
    scalar(&text, wanted, schema)
        .or_else(|| compound(&text, wanted, schema))
        .unwrap_or(Value::String(text))
}

fn scalar(text: &str, wanted: &Value, schema: &Schema) -> Option<Value> {
    let allows = |kind| schema.allows(wanted, kind);
    match text {
        "true" | "false" if allows("boolean") => Some(Value::Bool(text == "true")),
        "null" if allows("null") => Some(Value::Null),
        _ if allows("number") || allows("integer") => number(text).map(Value::Number),
        _ => None,
    }
}

/// The number, unless it would change: an integer of more digits than 64 bits hold becomes a float.
fn number(text: &str) -> Option<Number> {
    let digits = text.strip_prefix('-').unwrap_or(text);
    let is_integer = digits.bytes().all(|byte| byte.is_ascii_digit());
    let as_json = serde_json::from_str(text).ok();
    let number: Number = as_json.or_else(|| Number::from_f64(text.parse().ok()?))?;
    (!is_integer || !number.is_f64()).then_some(number)
}

fn compound(text: &str, wanted: &Value, schema: &Schema) -> Option<Value> {
    let json: Option<Value> = serde_json::from_str(text).ok();
    let is_list = schema.allows(wanted, "array");
    match json {
        Some(json @ Value::Object(_)) if schema.allows(wanted, "object") => Some(json),
        Some(json @ Value::Array(_)) if is_list => Some(json),
        // One value where a list is wanted is a list of one.
        _ if is_list => {
            let item = Typed::Text(text.to_owned());
            let items = schema.of_items(wanted);
            Some(Value::Array(vec![coerce_one(item, items, schema)]))
        }
        _ => None,
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

    fn schema() -> Schema {
        Schema::of(json!({
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
        let Ok(Given::Pairs(pairs)) = parse(&words(given)) else {
            panic!("{given:?}")
        };
        Value::Object(coerce(pairs, &schema()).unwrap())
    }

    fn complaint(given: &[&str]) -> String {
        let failure = match parse(&words(given)) {
            Err(failure) => failure,
            Ok(Given::Pairs(pairs)) => coerce(pairs, &schema()).unwrap_err(),
            Ok(given) => panic!("{given:?}"),
        };
        failure.parts().message.clone()
    }

    #[test]
    fn values_become_what_the_schema_wants() {
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
    fn what_does_not_fit_stays_text_for_the_engine_to_judge() {
        assert_eq!(
            typed(&["count=many", "deep=yes", "where=here"]),
            json!({"count": "many", "deep": "yes", "where": "here"})
        );
        let long = "count=99999999999999999999999";
        assert_eq!(typed(&[long]), json!({"count": "99999999999999999999999"}));
    }

    #[test]
    fn a_key_given_twice_makes_a_list_where_one_is_wanted() {
        assert_eq!(
            typed(&["sizes=1", "text=x", "sizes=2", "sizes:=3"]),
            json!({"sizes": [1, 2, 3], "text": "x"})
        );
        assert_eq!(
            complaint(&["text=a", "text=b"]),
            "`text` is given 2 times, but is no list"
        );
    }

    #[test]
    fn an_object_or_stdin_stands_alone() {
        assert_eq!(
            parse(&words(&[r#" {"a": 1}"#])).unwrap(),
            Given::Object(Map::from_iter([("a".to_owned(), json!(1))]))
        );
        assert_eq!(parse(&words(&["-"])).unwrap(), Given::OnStdin);
        assert_eq!(parse(&[]).unwrap(), Given::Pairs(Vec::new()));
        let beside = "stands for all arguments and cannot have others beside it";
        assert_eq!(complaint(&["-", "a=1"]), format!("`-` {beside}"));
        assert_eq!(complaint(&["a=1", "{}"]), format!("`{{}}` {beside}"));
    }

    #[test]
    fn nonsense_is_told() {
        assert_eq!(complaint(&["15"]), "`15` is no argument");
        assert_eq!(complaint(&["=15"]), "`=15` has no name before the `=`");
        assert_eq!(complaint(&[":=15"]), "`:=15` has no name before the `=`");
        assert!(complaint(&["a:=x"]).starts_with("the value of `a` is not valid JSON: "));
        assert!(complaint(&["{\"a\""]).starts_with("the arguments are not valid JSON: "));
    }

    proptest! {
        #[test]
        fn text_for_a_string_arrives_as_typed(text in ".*") {
            let arguments = typed(&[&format!("text={text}")]);
            prop_assert_eq!(&arguments["text"], &json!(text));
        }

        #[test]
        fn integers_arrive_as_integers(number: i64) {
            let arguments = typed(&[&format!("count={number}")]);
            prop_assert_eq!(&arguments["count"], &json!(number));
        }
    }
}
