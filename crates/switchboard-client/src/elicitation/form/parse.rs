//! Parses the `requestedSchema` of an elicitation into a [`Form`].

use serde_json::{Map, Number, Value};

use super::{EnumOption, Field, FieldKind, Form, TextFormat, sensitive};
use switchboard_wire::text::{for_terminal, one_line};

/// Maximum number of fields. A form with more fields is refused.
const MAX_FIELDS: usize = 64;
/// Maximum number of options of one field: enough for a list of all countries. A form that has a
/// field with more options is refused.
const MAX_OPTIONS: usize = 512;
/// Maximum length of a field name, in bytes. A form with a longer name is refused.
const MAX_NAME_BYTES: usize = 128;
/// Maximum length of the value of an option, in bytes. A form with a longer value is refused.
const MAX_OPTION_BYTES: usize = 512;
/// Maximum length of a title, in bytes. A longer title is truncated.
const MAX_TITLE_BYTES: usize = 200;
/// Maximum length of a description, in bytes. A longer description is truncated.
const MAX_DESCRIPTION_BYTES: usize = 1_000;
/// Maximum length of the default value of a text field, in bytes. A longer default is dropped.
const MAX_DEFAULT_BYTES: usize = 4 * 1024;
/// JSON Schema keywords that the protocol does not allow in a form.
const UNSUPPORTED_KEYWORDS: [&str; 15] = [
    "$ref",
    "$dynamicRef",
    "$defs",
    "definitions",
    "allOf",
    "not",
    "if",
    "then",
    "else",
    "patternProperties",
    "dependentSchemas",
    "dependentRequired",
    "propertyNames",
    "unevaluatedProperties",
    "prefixItems",
];

type Schema = Map<String, Value>;

impl Form {
    /// Parses a `requestedSchema`. The error says which part of the schema is invalid.
    pub(crate) fn parse(schema: &Value) -> Result<Self, String> {
        let Value::Object(schema) = schema else {
            return Err("`requestedSchema` is not an object".to_owned());
        };
        refuse_unsupported_keywords(schema)
            .map_err(|problem| format!("`requestedSchema` {problem}"))?;
        if schema.contains_key("anyOf") || schema.contains_key("oneOf") {
            return Err(
                "`requestedSchema` has the unsupported keyword `anyOf` or `oneOf`".to_owned(),
            );
        }
        if text(schema, "type").is_some_and(|kind| kind != "object") {
            return Err("the type of `requestedSchema` is not `object`".to_owned());
        }
        let fields = match schema.get("properties") {
            None => return Ok(Self::default()),
            Some(Value::Object(fields)) => fields,
            Some(_) => return Err("`properties` is not an object".to_owned()),
        };
        if fields.len() > MAX_FIELDS {
            return Err(format!("the form has more than {MAX_FIELDS} fields"));
        }
        let required: Vec<&str> = match schema.get("required") {
            Some(Value::Array(names)) => names.iter().filter_map(Value::as_str).collect(),
            _ => Vec::new(),
        };
        if required.iter().any(|name| !fields.contains_key(*name)) {
            return Err("`required` names a field that does not exist".to_owned());
        }
        let fields = fields
            .iter()
            .map(|(name, schema)| Field::parse(name, schema, required.contains(&name.as_str())))
            .collect::<Result<_, _>>()?;
        Ok(Self { fields })
    }
}

impl Field {
    fn parse(name: &str, schema: &Value, is_required: bool) -> Result<Self, String> {
        // A field name cannot be sanitized like other texts, because the server expects it
        // unchanged in the response. So refuse a name that is not safe to print.
        if name.is_empty() || name.len() > MAX_NAME_BYTES || for_terminal(name) != name {
            return Err(format!(
                "a field name is empty, longer than {MAX_NAME_BYTES} bytes or not printable"
            ));
        }
        let Value::Object(schema) = schema else {
            return Err(format!("the schema of field `{name}` is not an object"));
        };
        let kind = refuse_unsupported_keywords(schema)
            .and_then(|()| parse_kind(schema))
            .map_err(|problem| format!("field `{name}` {problem}"))?;
        let mut field = Self {
            name: name.to_owned(),
            title: sanitized_text(schema, "title", MAX_TITLE_BYTES),
            description: sanitized_text(schema, "description", MAX_DESCRIPTION_BYTES),
            is_required,
            is_sensitive: false,
            kind,
        };
        field.is_sensitive = sensitive::is_sensitive(&field, text(schema, "format"));
        if field
            .default_value()
            .is_some_and(|value| field.check(&value).is_err())
        {
            field.clear_default();
        }
        Ok(field)
    }
}

fn parse_kind(schema: &Schema) -> Result<FieldKind, String> {
    let kind = match schema.get("type") {
        Some(Value::String(kind)) => kind.as_str(),
        // Some servers omit `type`. A field with options is then a choice of strings.
        None if schema.contains_key("enum") || schema.contains_key("oneOf") => "string",
        _ => return Err("has no `type`, or several".to_owned()),
    };
    if kind != "array" && (schema.contains_key("items") || schema.contains_key("anyOf")) {
        return Err("has `items` or `anyOf` but is not an array".to_owned());
    }
    match kind {
        "string" => match parse_options(schema, "oneOf")? {
            Some(options) => Ok(FieldKind::Choice {
                options,
                default: text(schema, "default").map(str::to_owned),
            }),
            None => Ok(parse_text_kind(schema)),
        },
        "number" | "integer" => Ok(FieldKind::Number {
            is_integer: kind == "integer",
            minimum: number(schema, "minimum"),
            maximum: number(schema, "maximum"),
            default: number(schema, "default"),
        }),
        "boolean" => Ok(FieldKind::Boolean {
            default: schema.get("default").and_then(Value::as_bool),
        }),
        "array" => parse_multi_choice(schema),
        "object" => Err("is an object: nested fields are not supported".to_owned()),
        _ => Err("has an unsupported type".to_owned()),
    }
}

fn parse_text_kind(schema: &Schema) -> FieldKind {
    let format = match text(schema, "format") {
        Some("email") => Some(TextFormat::Email),
        Some("uri") => Some(TextFormat::Uri),
        Some("date") => Some(TextFormat::Date),
        Some("date-time") => Some(TextFormat::DateTime),
        _ => None,
    };
    let is_valid_default =
        |text: &&str| text.len() <= MAX_DEFAULT_BYTES && for_terminal(text) == *text;
    FieldKind::Text {
        format,
        min_length: schema.get("minLength").and_then(Value::as_u64),
        max_length: schema.get("maxLength").and_then(Value::as_u64),
        default: text(schema, "default")
            .filter(is_valid_default)
            .map(str::to_owned),
    }
}

fn parse_multi_choice(schema: &Schema) -> Result<FieldKind, String> {
    let Some(Value::Object(items)) = schema.get("items") else {
        return Err("is an array without an `items` object".to_owned());
    };
    refuse_unsupported_keywords(items)?;
    // The protocol defines `anyOf` for arrays; some servers send `oneOf`.
    let options = match parse_options(items, "anyOf")? {
        Some(options) => Some(options),
        None => parse_titled_options(items, "oneOf")?,
    };
    let Some(options) = options else {
        return Err("is an array whose items are not options".to_owned());
    };
    let default = schema.get("default").and_then(Value::as_array);
    let to_strings = |values: &Vec<Value>| {
        let strings = values.iter().map(|value| value.as_str().map(str::to_owned));
        strings.collect::<Option<Vec<_>>>()
    };
    Ok(FieldKind::MultiChoice {
        options,
        min_items: schema.get("minItems").and_then(Value::as_u64),
        max_items: schema.get("maxItems").and_then(Value::as_u64),
        default: default.and_then(to_strings),
    })
}

/// Parses the options of a field: from `enum`, with titles from `enumNames`, or otherwise from the
/// titled options in the member `titled_key`. Returns `None` if the schema has neither.
fn parse_options(schema: &Schema, titled_key: &str) -> Result<Option<Vec<EnumOption>>, String> {
    let values = match schema.get("enum") {
        None => return parse_titled_options(schema, titled_key),
        Some(Value::Array(values)) => values,
        Some(_) => return Err("has an `enum` that is not an array".to_owned()),
    };
    let names = schema.get("enumNames").and_then(Value::as_array);
    let name = |index| {
        names
            .and_then(|names| names.get(index))
            .and_then(Value::as_str)
    };
    let values = values.iter().enumerate();
    let options = values.map(|(index, value)| parse_option(Some(value), name(index)));
    check_option_count(options.collect::<Result<_, _>>()?).map(Some)
}

/// Parses titled options: an array of `{"const": …, "title": …}`.
fn parse_titled_options(schema: &Schema, key: &str) -> Result<Option<Vec<EnumOption>>, String> {
    let entries = match schema.get(key) {
        None => return Ok(None),
        Some(Value::Array(entries)) => entries,
        Some(_) => return Err(format!("has a `{key}` that is not an array")),
    };
    let options = entries.iter().map(|entry| {
        let entry = entry.as_object();
        let title = entry.and_then(|entry| text(entry, "title"));
        parse_option(entry.and_then(|entry| entry.get("const")), title)
    });
    check_option_count(options.collect::<Result<_, _>>()?).map(Some)
}

fn parse_option(value: Option<&Value>, title: Option<&str>) -> Result<EnumOption, String> {
    match value {
        Some(Value::String(value)) if value.len() <= MAX_OPTION_BYTES => Ok(EnumOption {
            value: value.clone(),
            title: one_line(title.unwrap_or(value), MAX_TITLE_BYTES).into_owned(),
        }),
        _ => Err(format!(
            "has an option that is not a string of at most {MAX_OPTION_BYTES} bytes"
        )),
    }
}

fn check_option_count(options: Vec<EnumOption>) -> Result<Vec<EnumOption>, String> {
    match options.len() {
        0 => Err("has no options".to_owned()),
        1..=MAX_OPTIONS => Ok(options),
        _ => Err(format!("has more than {MAX_OPTIONS} options")),
    }
}

fn refuse_unsupported_keywords(schema: &Schema) -> Result<(), String> {
    let mut keywords = UNSUPPORTED_KEYWORDS.iter();
    match keywords.find(|keyword| schema.contains_key(**keyword)) {
        Some(keyword) => Err(format!("has the unsupported keyword `{keyword}`")),
        None => Ok(()),
    }
}

fn text<'a>(schema: &'a Schema, key: &str) -> Option<&'a str> {
    schema.get(key).and_then(Value::as_str)
}

fn number(schema: &Schema, key: &str) -> Option<Number> {
    match schema.get(key) {
        Some(Value::Number(number)) => Some(number.clone()),
        _ => None,
    }
}

/// Returns a string member of the schema as one sanitized line, truncated to `max_bytes`. Returns
/// `None` if it is missing or blank.
fn sanitized_text(schema: &Schema, key: &str, max_bytes: usize) -> Option<String> {
    let text = one_line(text(schema, key)?, max_bytes);
    (!text.trim().is_empty()).then(|| text.into_owned())
}
