//! Asks for one form field and validates the answer.
//!
//! Invariant: a returned value satisfies the field's schema, and a secret is never echoed.

use std::fmt::Display;

use serde_json::{Number, Value};
use switchboard::elicitation::{EnumOption, Field, FieldKind, TextFormat};

use super::{OpenQuestion, QuestionCancelled};
use crate::exact_number::is_exact;
use crate::render::style::Paint;
use crate::render::text::one_line;

/// Printed instead of a secret. The length is fixed, so that it does not reveal the length of the
/// secret.
const HIDDEN_VALUE: &str = "••••••••";

/// The answer to one field.
#[derive(Debug)]
pub(super) enum FieldAnswer {
    Value(Value),
    Omitted,
    /// The field is required and the user refuses to fill it in.
    Refused,
}

/// Asks for one field, and repeats the question until the value is valid.
pub(super) async fn ask(
    question: &mut OpenQuestion,
    position: &str,
    field: &Field,
) -> Result<FieldAnswer, QuestionCancelled> {
    introduce(question, position, field)?;
    if field.is_sensitive && !confirm_secret(question).await? {
        return Ok(match field.default_value() {
            // A secret that the user does not enter gets the default value of the field, if it has
            // one.
            Some(default) => FieldAnswer::Value(default),
            None if field.is_required => FieldAnswer::Refused,
            None => FieldAnswer::Omitted,
        });
    }
    let prompt = prompt(question, field);
    loop {
        let typed = if field.is_sensitive {
            question.ask_hidden(&prompt).await?
        } else {
            question.ask(&prompt).await?
        };
        match parse(field, &typed) {
            Ok(Some(value)) => return Ok(FieldAnswer::Value(value)),
            Ok(None) => return Ok(FieldAnswer::Omitted),
            Err(expected) => question.print_line(&question.style.paint(Paint::Red, &expected))?,
        }
    }
}

/// Prints the field's title and description, quoted as text of the server, and the values that are
/// valid.
fn introduce(
    question: &OpenQuestion,
    position: &str,
    field: &Field,
) -> Result<(), QuestionCancelled> {
    let needed = match (field.is_required, field.default_value()) {
        (_, Some(_)) => "press Enter for the default",
        (true, None) => "required",
        (false, None) => "optional, press Enter to skip",
    };
    question.print_line("")?;
    question.print_dimmed(&format!(
        "{position} · {} · {needed}",
        expected(&field.kind)
    ))?;
    question.print_quoted(&one_line(field.label()))?;
    if let Some(description) = &field.description {
        question.print_quoted(description)?;
    }
    for (at, option) in options(&field.kind).iter().enumerate() {
        question.print_quoted(&format!("{:>4}  {}", at + 1, one_line(&option.title)))?;
    }
    Ok(())
}

async fn confirm_secret(question: &mut OpenQuestion) -> Result<bool, QuestionCancelled> {
    let warning = format!(
        "This field looks like a secret. Servers must not request secrets in forms. Your input is \
         sent to {} unchanged.",
        question.server
    );
    question.print_warning(&warning)?;
    question.confirm("Answer anyway?").await
}

fn prompt(question: &OpenQuestion, field: &Field) -> String {
    let hidden = if field.is_sensitive {
        "(not shown) "
    } else {
        ""
    };
    let default = field.default_value().map(|value| {
        let shown = match (&field.kind, &value) {
            (FieldKind::Boolean { .. }, Value::Bool(true)) => "Y/n".to_owned(),
            (FieldKind::Boolean { .. }, _) => "y/N".to_owned(),
            _ => display_value(field, &value),
        };
        format!("[{shown}] ")
    });
    let before = format!("{hidden}{}", default.unwrap_or_default());
    format!("{}> ", question.dim(&before))
}

/// Parses a line typed by the user. `Ok(None)` omits the field; the error says which values are
/// valid.
fn parse(field: &Field, typed: &str) -> Result<Option<Value>, String> {
    if typed.is_empty() {
        return match field.default_value() {
            None if field.is_required => Err("a value is required".to_owned()),
            default => Ok(default),
        };
    }
    if typed.contains(|letter: char| letter.is_control() || letter == char::REPLACEMENT_CHARACTER) {
        return Err("contains control characters: type it again".to_owned());
    }
    let value = match &field.kind {
        FieldKind::Number { .. } => parse_number(typed)?,
        FieldKind::Boolean { .. } => parse_boolean(typed)?,
        FieldKind::Choice { options, .. } => parse_choice(typed, options)?,
        FieldKind::MultiChoice { options, .. } => parse_choices(typed, options)?,
        _ => Value::from(typed),
    };
    field.check(&value).map_err(|invalid| invalid.expected)?;
    Ok(Some(value))
}

fn parse_number(typed: &str) -> Result<Value, String> {
    let expected = || "expected a number".to_owned();
    let number = typed.parse::<Number>().map_err(|_| expected())?;
    if !is_exact(typed, &number) {
        return Err("this number has more digits than can be sent exactly".to_owned());
    }
    Ok(Value::from(number))
}

fn parse_boolean(typed: &str) -> Result<Value, String> {
    match typed.to_ascii_lowercase().as_str() {
        "y" | "yes" | "true" => Ok(Value::from(true)),
        "n" | "no" | "false" => Ok(Value::from(false)),
        _ => Err("expected yes or no".to_owned()),
    }
}

/// Finds the option that the user chose by number, title or value.
fn parse_choice(typed: &str, options: &[EnumOption]) -> Result<Value, String> {
    let number = typed.parse::<usize>().ok();
    let by_number = number.and_then(|number| options.get(number.checked_sub(1)?));
    let is_named = |option: &&EnumOption| option.title == typed || option.value == typed;
    let option = by_number.or_else(|| options.iter().find(is_named));
    option
        .map(|option| Value::from(option.value.as_str()))
        .ok_or_else(|| format!("expected a number from 1 to {}", options.len()))
}

fn parse_choices(typed: &str, options: &[EnumOption]) -> Result<Value, String> {
    if typed == "0" {
        return Ok(Value::Array(Vec::new()));
    }
    // Titles may contain spaces: try the whole line first, then split at commas or spaces.
    if let Ok(only) = parse_choice(typed, options) {
        return Ok(Value::Array(vec![only]));
    }
    let separator = if typed.contains(',') { ',' } else { ' ' };
    let words = typed.split(separator).map(str::trim);
    let chosen = words
        .filter(|word| !word.is_empty())
        .map(|word| parse_choice(word, options));
    Ok(Value::Array(chosen.collect::<Result<_, _>>()?))
}

/// The value as shown in the summary before the form is sent. A secret is hidden unless it is the
/// default in the server's schema.
pub(super) fn review_value(field: &Field, value: &Value) -> String {
    if field.is_sensitive && field.default_value().as_ref() != Some(value) {
        return HIDDEN_VALUE.to_owned();
    }
    display_value(field, value)
}

/// A value as text, choices by their title.
fn display_value(field: &Field, value: &Value) -> String {
    let title = |value: &Value| {
        let text = value.as_str().unwrap_or_default();
        let option = options(&field.kind)
            .iter()
            .find(|option| option.value == text);
        one_line(option.map_or(text, |option| &option.title))
    };
    match value {
        Value::Bool(true) => "yes".to_owned(),
        Value::Bool(false) => "no".to_owned(),
        Value::String(_) => title(value),
        Value::Array(values) if values.is_empty() => "none".to_owned(),
        Value::Array(values) => values.iter().map(title).collect::<Vec<_>>().join(", "),
        other => other.to_string(),
    }
}

fn options(kind: &FieldKind) -> &[EnumOption] {
    match kind {
        FieldKind::Choice { options, .. } | FieldKind::MultiChoice { options, .. } => options,
        _ => &[],
    }
}

/// Describes the valid values of a field for the user.
fn expected(kind: &FieldKind) -> String {
    match kind {
        FieldKind::Text {
            format,
            min_length,
            max_length,
            ..
        } => {
            let what = format.map_or("text", TextFormat::description);
            match bounds(min_length.as_ref(), max_length.as_ref()) {
                Some(bounds) => format!("{what}, {bounds} characters"),
                None => what.to_owned(),
            }
        }
        FieldKind::Number {
            is_integer,
            minimum,
            maximum,
            ..
        } => {
            let what = if *is_integer {
                "an integer"
            } else {
                "a number"
            };
            match bounds(minimum.as_ref(), maximum.as_ref()) {
                Some(bounds) => format!("{what}, {bounds}"),
                None => what.to_owned(),
            }
        }
        FieldKind::Boolean { .. } => "yes or no".to_owned(),
        FieldKind::Choice { .. } => "one of these, by number".to_owned(),
        FieldKind::MultiChoice {
            min_items,
            max_items,
            ..
        } => {
            let bounds = bounds(min_items.as_ref(), max_items.as_ref());
            let count = bounds.unwrap_or_else(|| "any".to_owned());
            format!("{count} of these, e.g. 1, 2")
        }
        _ => "a value".to_owned(),
    }
}

fn bounds<T: Display + PartialEq>(least: Option<&T>, most: Option<&T>) -> Option<String> {
    Some(match (least, most) {
        (None, None) => return None,
        (Some(least), None) => format!("at least {least}"),
        (None, Some(most)) => format!("at most {most}"),
        (Some(least), Some(most)) if least == most => format!("exactly {least}"),
        (Some(least), Some(most)) => format!("{least} to {most}"),
    })
}
