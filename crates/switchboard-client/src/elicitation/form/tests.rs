use serde_json::{Value, json};

use super::*;

fn form(fields: &Value) -> Result<Form, String> {
    Form::parse(&json!({"type": "object", "properties": fields}))
}

fn field(schema: &Value) -> Field {
    form(&json!({"f": schema})).unwrap().fields.remove(0)
}

#[test]
fn every_field_kind_is_parsed() {
    let schema = json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "type": "object",
        "additionalProperties": false,
        "required": ["mail", "color"],
        "properties": {
            "mail": {"type": "string", "format": "email", "minLength": 3, "maxLength": 80,
                "title": "Mail", "description": "where to", "pattern": "^.+$"},
            "age": {"type": "integer", "minimum": 0, "maximum": 150, "default": 30},
            "share": {"type": "number", "maximum": 0.5},
            "sure": {"type": "boolean", "default": true},
            "color": {"type": "string", "enum": ["r", "g"], "enumNames": ["Red"], "default": "g"},
            "size": {"type": "string", "oneOf": [{"const": "s", "title": "Small"}]},
            "days": {"type": "array", "items": {"type": "string", "enum": ["mo", "tu"]},
                "minItems": 1, "maxItems": 2, "default": ["tu"]},
            "nights": {"type": "array", "items": {"anyOf": [{"const": "mo", "title": "Monday"}]}},
        },
    });
    let parsed = Form::parse(&schema).unwrap();
    let choice = |value: &str, title: &str| EnumOption {
        value: value.to_owned(),
        title: title.to_owned(),
    };
    let kinds: Vec<_> = parsed
        .fields
        .iter()
        .map(|field| field.kind.clone())
        .collect();
    assert_eq!(
        kinds,
        [
            FieldKind::Text {
                format: Some(TextFormat::Email),
                min_length: Some(3),
                max_length: Some(80),
                default: None,
            },
            FieldKind::Number {
                is_integer: true,
                minimum: Some(0.into()),
                maximum: Some(150.into()),
                default: Some(30.into()),
            },
            FieldKind::Number {
                is_integer: false,
                minimum: None,
                maximum: Number::from_f64(0.5),
                default: None,
            },
            FieldKind::Boolean {
                default: Some(true)
            },
            FieldKind::Choice {
                options: vec![choice("r", "Red"), choice("g", "g")],
                default: Some("g".to_owned()),
            },
            FieldKind::Choice {
                options: vec![choice("s", "Small")],
                default: None,
            },
            FieldKind::MultiChoice {
                options: vec![choice("mo", "mo"), choice("tu", "tu")],
                min_items: Some(1),
                max_items: Some(2),
                default: Some(vec!["tu".to_owned()]),
            },
            FieldKind::MultiChoice {
                options: vec![choice("mo", "Monday")],
                min_items: None,
                max_items: None,
                default: None,
            },
        ]
    );
    let required: Vec<_> = parsed
        .fields
        .iter()
        .filter(|field| field.is_required)
        .collect();
    assert_eq!(required.len(), 2);
    assert_eq!(parsed.field("mail").unwrap().label(), "Mail");
    assert_eq!(parsed.field("age").unwrap().label(), "age");
    assert_eq!(
        Value::from(parsed.defaults()),
        json!({"age": 30, "sure": true, "color": "g", "days": ["tu"]})
    );
}

#[test]
fn nested_and_unsupported_schemas_are_refused() {
    for fields in [
        json!({"f": {"type": "object", "properties": {"g": {"type": "string"}}}}),
        json!({"f": {"type": "array", "items": {"type": "string"}}}),
        json!({"f": {"type": "array", "items": {"type": "object"}}}),
        json!({"f": {"type": "array"}}),
        json!({"f": {"type": "array", "items": {"$ref": "#/x", "enum": ["a"]}}}),
        json!({"f": {"$ref": "https://example.com/schema"}}),
        json!({"f": {"type": "string", "allOf": []}}),
        json!({"f": {"anyOf": [{"type": "string"}, {"type": "number"}]}}),
        json!({"f": {"type": ["string", "number"]}}),
        json!({"f": {"type": "null"}}),
        json!({"f": {}}),
        json!({"f": true}),
        json!({"f": {"type": "string", "enum": []}}),
        json!({"f": {"type": "string", "enum": [1]}}),
        json!({"f": {"type": "string", "enum": vec!["a"; 513]}}),
        json!({"f": {"type": "string", "enum": ["x".repeat(513)]}}),
        json!({"f": {"type": "string", "oneOf": [{"title": "A"}]}}),
        json!({"": {"type": "string"}}),
        json!({"\u{1b}[2Jname": {"type": "string"}}),
        json!({"two\nlines": {"type": "string"}}),
        json!({"x".repeat(129): {"type": "string"}}),
        (0..65)
            .map(|n| (n.to_string(), json!({"type": "string"})))
            .collect(),
        json!([]),
    ] {
        assert!(form(&fields).is_err(), "{fields}");
    }
    for schema in [
        json!([]),
        json!({"type": "string"}),
        json!({"$defs": {}, "properties": {}}),
        json!({"oneOf": []}),
        json!({"properties": {}, "required": ["a"]}),
    ] {
        assert!(Form::parse(&schema).is_err(), "{schema}");
    }
    assert_eq!(Form::parse(&json!({})).unwrap(), Form::default());
}

#[test]
fn texts_are_sanitized_and_truncated() {
    let parsed = field(&json!({
        "type": "string",
        "enum": ["a", "b"],
        "enumNames": ["\u{1b}[31mRed\u{1b}[0m\nand more", "x".repeat(10_000)],
        "title": "\u{1b}]0;owned\u{7}Pick\u{200b}",
        "description": "y".repeat(100_000),
    }));
    assert_eq!(parsed.title.as_deref(), Some("Pick"));
    assert!(parsed.description.unwrap().len() < 1_100);
    let FieldKind::Choice { options, .. } = parsed.kind else {
        panic!("not a choice")
    };
    assert_eq!(options[0].title, "Red and more");
    assert!(options[1].title.len() < 300);
    let unprintable_default = field(&json!({"type": "string", "default": "\u{1b}[2J"}));
    assert_eq!(unprintable_default.default_value(), None);
}

#[test]
fn fields_that_ask_for_secrets_are_sensitive() {
    for (name, schema) in [
        ("password", json!({})),
        ("userPassword", json!({})),
        ("api_key", json!({})),
        ("apiKey", json!({})),
        ("APIKEY", json!({})),
        ("githubtoken", json!({})),
        ("x", json!({"title": "Access token"})),
        ("x", json!({"title": "Your API keys"})),
        ("x", json!({"description": "the secret of your account"})),
        ("x", json!({"description": "enter your credit-card number"})),
        ("x", json!({"format": "password"})),
        ("pin", json!({"type": "integer"})),
        ("passphrase", json!({})),
        ("pass_word", json!({})),
    ] {
        let mut schema = schema;
        schema["type"] = schema.get("type").cloned().unwrap_or(json!("string"));
        let parsed = form(&json!({name: schema})).unwrap();
        assert!(parsed.fields[0].is_sensitive, "{name} {schema}");
    }
    for (name, schema) in [
        ("name", json!({"type": "string"})),
        ("keyword", json!({"type": "string"})),
        ("opinion", json!({"type": "string", "title": "What spins?"})),
        ("hasPassword", json!({"type": "boolean"})),
        ("tokenKind", json!({"type": "string", "enum": ["a"]})),
    ] {
        let parsed = form(&json!({name: schema})).unwrap();
        assert!(!parsed.fields[0].is_sensitive, "{name}");
    }
}

/// Asserts that a field with this schema accepts each item of `valid` and no item of `invalid`.
fn check(schema: &Value, valid: &Value, invalid: &Value) {
    let field = field(schema);
    for (values, is_valid) in [(valid, true), (invalid, false)] {
        for value in values.as_array().unwrap() {
            assert_eq!(field.check(value).is_ok(), is_valid, "{schema} {value}");
        }
    }
}

#[test]
fn text_constraints_are_checked() {
    let text_with = |extra: (&str, Value)| json!({"type": "string", extra.0: extra.1});
    let format = |format: &str| text_with(("format", format.into()));
    check(
        &json!({"type": "string"}),
        &json!(["", "é"]),
        &json!([1, null]),
    );
    check(
        &text_with(("maxLength", json!(1))),
        &json!(["", "é"]),
        &json!(["ab"]),
    );
    check(
        &text_with(("minLength", json!(1))),
        &json!(["a"]),
        &json!([""]),
    );
    check(
        &format("email"),
        &json!(["a@b.example", "a+b@c"]),
        &json!(["a", "a b@c", "@c", "a@", "a@b..c", "a@b@c"]),
    );
    check(
        &format("uri"),
        &json!(["https://a.example/b", "urn:a:b"]),
        &json!(["/b", ""]),
    );
    check(
        &format("date"),
        &json!(["2024-02-29", "2000-02-29"]),
        &json!([
            "2026-02-29",
            "1900-02-29",
            "2026-2-9",
            "2026-13-01",
            "2026-01-00",
            "+026-01-01"
        ]),
    );
    check(
        &format("date-time"),
        &json!(["2026-07-28T12:00:00Z", "2026-07-28t12:00:00.5+02:00"]),
        &json!([
            "2026-07-28T25:00:00Z",
            "2026-07-28T12:00:00",
            "2026-07-28T12:00:00é",
            "2026-07-28T12:00:00.Z",
            "2026-07-28T12:00:00+é",
            "2026-07-28"
        ]),
    );
}

#[test]
fn number_and_choice_constraints_are_checked() {
    let integer_up_to = |max: u64| json!({"type": "integer", "maximum": max});
    check(
        &integer_up_to(u64::MAX),
        &json!([5, 5.0, -5, u64::MAX]),
        &json!([5.5, "5"]),
    );
    check(
        &integer_up_to(u64::MAX - 1),
        &json!([u64::MAX - 1]),
        &json!([u64::MAX]),
    );
    check(
        &json!({"type": "number", "minimum": 0.5}),
        &json!([0.5, 1]),
        &json!([0.4, 0, "1"]),
    );
    check(
        &json!({"type": "boolean"}),
        &json!([true, false]),
        &json!(["yes", 1]),
    );
    check(&json!({"enum": ["a"]}), &json!(["a"]), &json!(["A", ["a"]]));
    let items = json!({"type": "string", "enum": ["a", "b", "c"]});
    check(
        &json!({"type": "array", "items": items, "minItems": 1, "maxItems": 2}),
        &json!([["b", "a"], ["c"]]),
        &json!(["a", [], ["a", "a"], ["d"], ["a", "b", "c"], [1]]),
    );
}

#[test]
fn validation_adds_defaults_or_names_invalid_fields() {
    let schema = json!({"type": "object", "required": ["name"], "properties": {
        "name": {"type": "string"},
        "age": {"type": "integer", "default": 30},
        "bad": {"type": "integer", "default": "thirty"},
        "note": {"type": "string"},
    }});
    let form = Form::parse(&schema).unwrap();
    let values = |value: Value| value.as_object().unwrap().clone();
    let valid = form.validate(values(json!({"name": "Ada"}))).unwrap();
    assert_eq!(Value::from(valid), json!({"name": "Ada", "age": 30}));
    let invalid = form
        .validate(values(json!({"age": "old", "more": 1})))
        .unwrap_err();
    let fields: Vec<_> = invalid.iter().map(|value| value.field.as_str()).collect();
    assert_eq!(fields, ["name", "age", "more"]);
    assert!(
        invalid
            .iter()
            .all(|value| !value.to_string().contains("old"))
    );
}
