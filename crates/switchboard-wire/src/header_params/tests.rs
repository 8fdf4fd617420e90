use serde_json::json;

use super::*;

fn mirrors(schema: &Value) -> Result<HeaderParams, String> {
    HeaderParams::from_schema(&Json::from(schema))
}

/// The schema of a tool with these properties.
fn object(properties: &Value) -> Value {
    json!({"type": "object", "properties": properties})
}

fn property(kind: &str, header: &str) -> Value {
    object(&json!({"value": {"type": kind, "x-mcp-header": header}}))
}

fn headers(schema: &Value, arguments: &Value) -> Vec<(String, String)> {
    let mirrors = mirrors(schema).unwrap();
    let headers = mirrors.headers(arguments.as_object().unwrap());
    headers
        .map(|(name, value)| (name.to_string(), value.to_str().unwrap().to_owned()))
        .collect()
}

/// What a header says, as a server reads it.
fn decoded(value: &HeaderValue) -> String {
    let text = value.to_str().unwrap();
    let encoded = text
        .strip_prefix("=?base64?")
        .and_then(|rest| rest.strip_suffix("?="));
    match encoded {
        Some(encoded) => String::from_utf8(STANDARD.decode(encoded).unwrap()).unwrap(),
        None => text.to_owned(),
    }
}

#[test]
fn text_is_sent_as_it_is_only_where_that_is_safe() {
    let table = [
        ("us-west1", true),
        ("us west 1", true),
        ("test-method", true),
        ("~!@#$%^&*()_+{}|:\"<>?", true),
        ("=?utf-8?Q?a?=", true),
        ("", false),
        ("Hello, 世界", false),
        (" padded ", false),
        (" us-west1", false),
        ("us-west1 ", false),
        ("line1\nline2", false),
        ("line1\r\nline2", false),
        ("\tindented", false),
        ("a\tb", false),
        ("a\0b", false),
        ("a\u{7f}", false),
        ("=?base64?YQ==?=", false),
        ("=?BASE64?YQ==?=", false),
        ("=?base64?", false),
    ];
    for (text, is_plain) in table {
        let value = header_value(text);
        assert_eq!(value == *text, is_plain, "{text:?}");
        assert_eq!(decoded(&value), text);
        let visible = |byte: &u8| (b' '..=b'~').contains(byte);
        assert!(value.as_bytes().iter().all(visible), "{text:?}");
    }
    assert_eq!(header_value("世界"), "=?base64?5LiW55WM?=");
}

#[test]
fn arguments_go_along_as_the_schema_says() {
    let schema = object(&json!({
        "region": {"type": "string", "x-mcp-header": "Region"},
        "priority": {"type": "integer", "x-mcp-header": "Priority"},
        "verbose": {"type": "boolean", "x-mcp-header": "Verbose"},
        "debug": {"type": "boolean", "x-mcp-header": "Debug"},
        "empty": {"type": "string", "x-mcp-header": "EmptyVal"},
        "method": {"type": "string", "x-mcp-header": "Method"},
        "float": {"type": "number"},
        "query": {"type": "string"},
        "absent": {"type": "string", "x-mcp-header": "Absent"},
        "nothing": {"type": "string", "x-mcp-header": "Nothing"},
    }));
    let arguments = json!({
        "region": "us-west1", "priority": 42, "verbose": false, "debug": true, "empty": "",
        "method": "test-method", "float": 1.5, "query": "SELECT", "nothing": null,
    });
    let expected = [
        ("mcp-param-region", "us-west1"),
        ("mcp-param-priority", "42"),
        ("mcp-param-verbose", "false"),
        ("mcp-param-debug", "true"),
        ("mcp-param-emptyval", "=?base64??="),
        ("mcp-param-method", "test-method"),
    ];
    let expected = expected.map(|(name, value)| (name.to_owned(), value.to_owned()));
    assert_eq!(headers(&schema, &arguments), expected);
}

#[test]
fn integers_are_written_in_digits_and_what_is_none_is_left_out() {
    let schema = property("integer", "A");
    let table = [
        (json!(0), Some("0")),
        (json!(-7), Some("-7")),
        (json!(u64::MAX), Some("18446744073709551615")),
        (json!(i64::MIN), Some("-9223372036854775808")),
        (json!(3.0), Some("3")),
        (json!(-0.0), Some("0")),
        (json!(1e21), Some("1000000000000000000000")),
        (json!(1.5), None),
        (json!([1]), None),
        (json!({"a": 1}), None),
    ];
    for (value, expected) in table {
        let found = headers(&schema, &json!({"value": value}));
        let found = found.first().map(|(_, value)| value.as_str());
        assert_eq!(found, expected, "{value}");
    }
}

#[test]
fn nested_properties_are_found_at_their_very_place() {
    let schema = object(&json!({
        "a": object(&json!({"b": {"type": "string", "x-mcp-header": "Deep"}})),
        "x-mcp-header": {"type": "string"},
    }));
    let table = [
        (json!({"a": {"b": "x"}}), Some("x")),
        (json!({"a": {"c": "x"}, "b": "x"}), None),
        (json!({"a": "x"}), None),
        (json!({"a": ["x"]}), None),
        (json!({"x-mcp-header": "x"}), None),
    ];
    for (arguments, expected) in table {
        let found = headers(&schema, &arguments);
        let found = found.first().map(|(_, value)| value.as_str());
        assert_eq!(found, expected, "{arguments}");
    }
}

#[test]
fn tools_with_wrong_annotations_are_refused() {
    let annotated = json!({"type": "string", "x-mcp-header": "A"});
    let twice = |one: &str, two: &str| {
        object(&json!({
            "a": {"type": "string", "x-mcp-header": one},
            "b": {"type": "string", "x-mcp-header": two},
        }))
    };
    let wrong = [
        property("string", ""),
        property("object", "Data"),
        property("array", "Items"),
        property("null", "Nil"),
        property("number", "Score"),
        twice("Region", "Region"),
        twice("MyField", "myfield"),
        property("string", "My Region"),
        property("string", "Region:Primary"),
        property("string", "Région"),
        property("string", "Region\t1"),
        property("string", "a\r\nX: y"),
        property("string", "a\0"),
        property("string", &"x".repeat(LONGEST_NAME + 1)),
        object(&json!({"value": {"type": "string", "x-mcp-header": 7}})),
        object(&json!({"value": {"type": "string", "x-mcp-header": null}})),
        object(&json!({"value": {"x-mcp-header": "A"}})),
        object(&json!({"value": {"type": ["string", "null"], "x-mcp-header": "A"}})),
        json!({"type": "object", "x-mcp-header": "A"}),
        json!({"type": "string", "x-mcp-header": "A"}),
    ];
    let elsewhere = [
        "items",
        "not",
        "if",
        "then",
        "else",
        "additionalProperties",
        "contains",
        "propertyNames",
        "unevaluatedItems",
        "contentSchema",
        "unheard-of",
    ];
    let elsewhere = elsewhere.map(|keyword| object(&json!({"a": {(keyword): annotated}})));
    let listed = ["oneOf", "anyOf", "allOf", "prefixItems"];
    let listed = listed.map(|keyword| object(&json!({"a": {(keyword): [true, annotated]}})));
    let named = [
        "patternProperties",
        "dependentSchemas",
        "$defs",
        "definitions",
    ];
    let named = named.map(|keyword| json!({"properties": {}, (keyword): {"a": annotated}}));
    let deeper = [
        object(&json!({"a": {"items": object(&json!({"b": annotated}))}})),
        json!({"anyOf": [object(&json!({"b": annotated}))]}),
        json!({"$ref": "#/$defs/a", "$defs": {"a": object(&json!({"b": annotated}))}}),
    ];
    let all = wrong.into_iter().chain(elsewhere).chain(listed);
    for schema in all.chain(named).chain(deeper) {
        let why = mirrors(&schema).unwrap_err();
        assert!(!why.contains(char::is_control), "{why:?}");
    }
}

#[test]
fn what_only_looks_like_an_annotation_is_none() {
    let fine = [
        json!({}),
        json!(true),
        json!({"description": "an x-mcp-header"}),
        object(&json!({"x-mcp-header": {"type": "number"}})),
        object(
            &json!({"a": {"default": {"x-mcp-header": "A"}, "examples": [{"x-mcp-header": 1}]}}),
        ),
        json!({"$defs": {"x-mcp-header": {"type": "string"}}}),
        object(&json!({"a": {"enum": ["x-mcp-header"]}})),
    ];
    for schema in fine {
        assert_eq!(mirrors(&schema), Ok(HeaderParams::default()), "{schema}");
    }
}

#[test]
fn a_keyword_in_escapes_is_the_same_keyword() {
    let text = r#"{"properties":{"a":{"type":"string","\u0078\u002dmcp-header":"A"}}}"#;
    let mirrors = HeaderParams::from_schema(&Json::parse(text).unwrap()).unwrap();
    assert!(!mirrors.is_empty());
}

#[test]
fn there_are_only_so_many() {
    let many = |count: usize| {
        let property = |index| {
            let schema = json!({"type": "string", "x-mcp-header": format!("h{index}")});
            (format!("p{index}"), schema)
        };
        let properties: Map<String, Value> = (0..count).map(property).collect();
        object(&Value::Object(properties))
    };
    assert!(mirrors(&many(MOST)).is_ok());
    assert!(mirrors(&many(MOST + 1)).is_err());
    let mut wide = many(1);
    wide["enum"] = json!(vec![0; MOST_NODES]);
    assert!(mirrors(&wide).is_err());
}
