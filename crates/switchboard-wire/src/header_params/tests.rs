use serde_json::json;

use super::*;

fn parse(schema: &Value) -> Result<HeaderParams, String> {
    HeaderParams::from_schema(&Json::from(schema))
}

/// Returns the schema of an object with these properties.
fn object(properties: &Value) -> Value {
    json!({"type": "object", "properties": properties})
}

fn property(kind: &str, header: &str) -> Value {
    object(&json!({"value": {"type": kind, "x-mcp-header": header}}))
}

fn headers(schema: &Value, arguments: &Value) -> Vec<(String, String)> {
    let params = parse(schema).unwrap();
    let headers = params.headers(arguments.as_object().unwrap());
    headers
        .map(|(name, value)| (name.to_string(), value.to_str().unwrap().to_owned()))
        .collect()
}

/// Decodes a header value like a server.
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
fn unsafe_text_is_encoded() {
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
fn annotated_arguments_become_headers() {
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
fn integers_are_decimal_and_other_values_are_omitted() {
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
fn nested_property_is_found_by_path() {
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
fn invalid_annotations_are_rejected() {
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
        property("string", &"x".repeat(MAX_NAME_BYTES + 1)),
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
        "unknown-keyword",
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
        let why = parse(&schema).unwrap_err();
        assert!(!why.contains(char::is_control), "{why:?}");
    }
}

#[test]
fn keyword_in_other_places_is_ignored() {
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
        assert_eq!(parse(&schema), Ok(HeaderParams::default()), "{schema}");
    }
}

#[test]
fn escaped_keyword_is_found() {
    let text = r#"{"properties":{"a":{"type":"string","\u0078\u002dmcp-header":"A"}}}"#;
    let params = HeaderParams::from_schema(&Json::parse(text).unwrap()).unwrap();
    assert!(!params.is_empty());
}

#[test]
fn headers_and_schema_size_are_limited() {
    let many = |count: usize| {
        let property = |index| {
            let schema = json!({"type": "string", "x-mcp-header": format!("h{index}")});
            (format!("p{index}"), schema)
        };
        let properties: Map<String, Value> = (0..count).map(property).collect();
        object(&Value::Object(properties))
    };
    assert!(parse(&many(MAX_HEADERS)).is_ok());
    assert!(parse(&many(MAX_HEADERS + 1)).is_err());
    let mut wide = many(1);
    wide["enum"] = json!(vec![0; MAX_SCHEMA_NODES]);
    assert!(parse(&wide).is_err());
}
