//! Reads the schema of a form.

use serde_json::{Map, Number, Value};

use super::{Choice, Field, FieldKind, Form, TextFormat, sensitive};
use switchboard_wire::text::{for_terminal, one_line};

/// More fields than this nobody fills in.
const MOST_FIELDS: usize = 64;
/// More choices than this nobody reads; there are fewer countries.
const MOST_OPTIONS: usize = 512;
/// The longest name of a field, in bytes.
const NAME_BYTES: usize = 128;
/// The longest value that can be chosen, in bytes.
const OPTION_BYTES: usize = 512;
/// How much of a title is shown, in bytes.
const TITLE_BYTES: usize = 200;
/// How much of a description is shown, in bytes.
const DESCRIPTION_BYTES: usize = 1_000;
/// The longest text that is proposed, in bytes; a longer one is not.
const DEFAULT_BYTES: usize = 4 * 1024;
/// What makes a schema more than a plain one.
const BEYOND_PLAIN: [&str; 15] = [
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
    /// Reads the schema of a form; says what is wrong with it if it is none.
    pub(crate) fn read(schema: &Value) -> Result<Self, String> {
        let Value::Object(schema) = schema else {
            return Err("`requestedSchema` is not an object".to_owned());
        };
        refuse_beyond_plain(schema, "the form")?;
        if schema.contains_key("anyOf") || schema.contains_key("oneOf") {
            return Err("the form is not one of plain fields: `anyOf` or `oneOf`".to_owned());
        }
        if text(schema, "type").is_some_and(|kind| kind != "object") {
            return Err("`requestedSchema` does not describe an object".to_owned());
        }
        let fields = match schema.get("properties") {
            None => return Ok(Self::default()),
            Some(Value::Object(fields)) => fields,
            Some(_) => return Err("`properties` is not an object".to_owned()),
        };
        if fields.len() > MOST_FIELDS {
            return Err(format!("the form has more than {MOST_FIELDS} fields"));
        }
        let required: Vec<&str> = match schema.get("required") {
            Some(Value::Array(names)) => names.iter().filter_map(Value::as_str).collect(),
            _ => Vec::new(),
        };
        if required.iter().any(|name| !fields.contains_key(*name)) {
            return Err("a field is required that the form does not have".to_owned());
        }
        let fields = fields
            .iter()
            .map(|(name, schema)| Field::read(name, schema, required.contains(&name.as_str())))
            .collect::<Result<_, _>>()?;
        Ok(Self { fields })
    }
}

impl Field {
    fn read(name: &str, schema: &Value, is_required: bool) -> Result<Self, String> {
        // It is sent back as it is, so it must be fit to be shown as it is.
        if name.is_empty() || name.len() > NAME_BYTES || for_terminal(name) != name {
            return Err(format!(
                "a field has a name that is not a line of at most {NAME_BYTES} plain bytes"
            ));
        }
        let Value::Object(schema) = schema else {
            return Err(format!("the field `{name}` is not described by an object"));
        };
        refuse_beyond_plain(schema, name)?;
        let mut read = Self {
            name: name.to_owned(),
            title: shown(schema, "title", TITLE_BYTES),
            description: shown(schema, "description", DESCRIPTION_BYTES),
            is_required,
            is_sensitive: false,
            kind: kind(schema).map_err(|what| format!("the field `{name}` {what}"))?,
        };
        read.is_sensitive = sensitive::is_sensitive(&read, text(schema, "format"));
        if read
            .default_value()
            .is_some_and(|value| read.check(&value).is_err())
        {
            read.forget_default();
        }
        Ok(read)
    }
}

fn kind(schema: &Schema) -> Result<FieldKind, String> {
    let kind = match schema.get("type") {
        Some(Value::String(kind)) => kind.as_str(),
        // An `enum` of strings says it all.
        None if schema.contains_key("enum") || schema.contains_key("oneOf") => "string",
        _ => return Err("has no type of one word".to_owned()),
    };
    if kind != "array" && (schema.contains_key("items") || schema.contains_key("anyOf")) {
        return Err("is not a plain one".to_owned());
    }
    match kind {
        "string" => match options(schema, "oneOf")? {
            Some(options) => Ok(FieldKind::Choice {
                options,
                default: text(schema, "default").map(str::to_owned),
            }),
            None => Ok(text_kind(schema)),
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
        "array" => choices(schema),
        "object" => Err("holds fields of its own: forms are flat".to_owned()),
        _ => Err("has a type that forms do not have".to_owned()),
    }
}

fn text_kind(schema: &Schema) -> FieldKind {
    let format = match text(schema, "format") {
        Some("email") => Some(TextFormat::Email),
        Some("uri") => Some(TextFormat::Uri),
        Some("date") => Some(TextFormat::Date),
        Some("date-time") => Some(TextFormat::DateTime),
        _ => None,
    };
    let plain = |text: &&str| text.len() <= DEFAULT_BYTES && for_terminal(text) == *text;
    FieldKind::Text {
        format,
        min_length: schema.get("minLength").and_then(Value::as_u64),
        max_length: schema.get("maxLength").and_then(Value::as_u64),
        default: text(schema, "default").filter(plain).map(str::to_owned),
    }
}

fn choices(schema: &Schema) -> Result<FieldKind, String> {
    let Some(Value::Object(items)) = schema.get("items") else {
        return Err("is a list of nobody knows what".to_owned());
    };
    if BEYOND_PLAIN.iter().any(|word| items.contains_key(*word)) {
        return Err("is a list of more than choices".to_owned());
    }
    // Some write the one, some the other.
    let options = match options(items, "anyOf")? {
        Some(options) => Some(options),
        None => options_of(items, "oneOf")?,
    };
    let Some(options) = options else {
        return Err("is a list of anything: only choices can be listed".to_owned());
    };
    let default = schema.get("default").and_then(Value::as_array);
    let texts = |values: &Vec<Value>| {
        let texts = values.iter().map(|value| value.as_str().map(str::to_owned));
        texts.collect::<Option<Vec<_>>>()
    };
    Ok(FieldKind::Choices {
        options,
        min_items: schema.get("minItems").and_then(Value::as_u64),
        max_items: schema.get("maxItems").and_then(Value::as_u64),
        default: default.and_then(texts),
    })
}

/// What can be chosen: an `enum`, with names or without, or a list of constants with titles.
fn options(schema: &Schema, titled: &str) -> Result<Option<Vec<Choice>>, String> {
    let values = match schema.get("enum") {
        None => return options_of(schema, titled),
        Some(Value::Array(values)) => values,
        Some(_) => return Err("has an `enum` that is no list".to_owned()),
    };
    let names = schema.get("enumNames").and_then(Value::as_array);
    let name = |at| {
        names
            .and_then(|names| names.get(at))
            .and_then(Value::as_str)
    };
    let values = values.iter().enumerate();
    let options = values.map(|(at, value)| option(Some(value), name(at)));
    checked(options.collect::<Result<_, _>>()?).map(Some)
}

fn options_of(schema: &Schema, titled: &str) -> Result<Option<Vec<Choice>>, String> {
    let listed = match schema.get(titled) {
        None => return Ok(None),
        Some(Value::Array(listed)) => listed,
        Some(_) => return Err(format!("has `{titled}` that is no list")),
    };
    let options = listed.iter().map(|listed| {
        let listed = listed.as_object();
        let title = listed.and_then(|listed| text(listed, "title"));
        option(listed.and_then(|listed| listed.get("const")), title)
    });
    checked(options.collect::<Result<_, _>>()?).map(Some)
}

fn option(value: Option<&Value>, title: Option<&str>) -> Result<Choice, String> {
    match value {
        Some(Value::String(value)) if value.len() <= OPTION_BYTES => Ok(Choice {
            value: value.clone(),
            title: one_line(title.unwrap_or(value), TITLE_BYTES).into_owned(),
        }),
        _ => Err(format!(
            "has a choice that is no text of at most {OPTION_BYTES} bytes"
        )),
    }
}

fn checked(options: Vec<Choice>) -> Result<Vec<Choice>, String> {
    match options.len() {
        0 => Err("has nothing to choose from".to_owned()),
        1..=MOST_OPTIONS => Ok(options),
        _ => Err(format!("has more than {MOST_OPTIONS} choices")),
    }
}

fn refuse_beyond_plain(schema: &Schema, what: &str) -> Result<(), String> {
    match BEYOND_PLAIN.iter().find(|word| schema.contains_key(**word)) {
        Some(word) => Err(format!("{what} is not one of plain fields: `{word}`")),
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

/// A text of the schema for a place of one line.
fn shown(schema: &Schema, key: &str, most: usize) -> Option<String> {
    let text = one_line(text(schema, key)?, most);
    (!text.trim().is_empty()).then(|| text.into_owned())
}
