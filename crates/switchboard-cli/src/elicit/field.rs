//! One field of a form: what fits, what was typed, and the value that it means.

use std::fmt::Display;

use serde_json::{Number, Value};
use switchboard::{Choice, Field, FieldKind, TextFormat};

use super::{Closed, Conversation};
use crate::render::style::Paint;
use crate::render::text::one_line;

/// Stands for a value that is not shown, however long it is.
const HIDDEN_VALUE: &str = "••••••••";

/// What the person did with a field.
#[derive(Debug)]
pub(super) enum FieldAnswer {
    With(Value),
    LeftOut,
    /// There must be a value, and the person will not give one.
    Refused,
}

/// Asks for the value of a field until it fits.
pub(super) async fn ask(
    talk: &mut Conversation,
    place: &str,
    field: &Field,
) -> Result<FieldAnswer, Closed> {
    introduce(talk, place, field)?;
    if field.is_sensitive && !confirm_secret(talk).await? {
        return Ok(match field.default_value() {
            // A field that is left out counts as what is proposed for it.
            Some(proposed) => FieldAnswer::With(proposed),
            None if field.is_required => FieldAnswer::Refused,
            None => FieldAnswer::LeftOut,
        });
    }
    let prompt = prompt(talk, field);
    loop {
        let typed = if field.is_sensitive {
            talk.ask_unseen(&prompt).await?
        } else {
            talk.ask(&prompt).await?
        };
        match read(field, &typed) {
            Ok(Some(value)) => return Ok(FieldAnswer::With(value)),
            Ok(None) => return Ok(FieldAnswer::LeftOut),
            Err(expected) => talk.show(&talk.style.paint(Paint::Red, &expected))?,
        }
    }
}

/// Says what is asked for: the marked lines are the server's.
fn introduce(talk: &Conversation, place: &str, field: &Field) -> Result<(), Closed> {
    let needed = match (field.is_required, field.default_value()) {
        (_, Some(_)) => "Enter takes what is in brackets",
        (true, None) => "required",
        (false, None) => "optional, Enter leaves it out",
    };
    talk.show("")?;
    talk.note(&format!("{place} · {} · {needed}", expected(&field.kind)))?;
    talk.quote(&one_line(field.label()))?;
    if let Some(description) = &field.description {
        talk.quote(description)?;
    }
    for (at, option) in options(&field.kind).iter().enumerate() {
        talk.quote(&format!("{:>4}  {}", at + 1, one_line(&option.title)))?;
    }
    Ok(())
}

async fn confirm_secret(talk: &mut Conversation) -> Result<bool, Closed> {
    let warning = format!(
        "this looks like a secret, and servers must not ask for secrets in a form. What you type \
         goes to {} as it is.",
        talk.server
    );
    talk.warn(&warning)?;
    talk.is_agreed("Answer it all the same?").await
}

fn prompt(talk: &Conversation, field: &Field) -> String {
    let unseen = if field.is_sensitive {
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
    let before = format!("{unseen}{}", default.unwrap_or_default());
    format!("{}> ", talk.dim(&before))
}

/// What a typed line means; `None` leaves the field out. An error says what is expected.
fn read(field: &Field, typed: &str) -> Result<Option<Value>, String> {
    if typed.is_empty() {
        return match field.default_value() {
            None if field.is_required => Err("a value is required".to_owned()),
            default => Ok(default),
        };
    }
    if typed.contains(|letter: char| letter.is_control() || letter == char::REPLACEMENT_CHARACTER) {
        return Err("there are keys in it that stand for no letter: type it again".to_owned());
    }
    let value = match &field.kind {
        FieldKind::Number { .. } => number(typed)?,
        FieldKind::Boolean { .. } => yes_or_no(typed)?,
        FieldKind::Choice { options, .. } => chosen(typed, options)?,
        FieldKind::Choices { options, .. } => several(typed, options)?,
        _ => Value::from(typed),
    };
    field.check(&value).map_err(|misfit| misfit.expected)?;
    Ok(Some(value))
}

fn number(typed: &str) -> Result<Value, String> {
    let number = typed.parse::<Number>();
    number
        .map(Value::from)
        .map_err(|_| "a number is expected".to_owned())
}

fn yes_or_no(typed: &str) -> Result<Value, String> {
    match typed.to_ascii_lowercase().as_str() {
        "y" | "yes" | "true" => Ok(Value::from(true)),
        "n" | "no" | "false" => Ok(Value::from(false)),
        _ => Err("yes or no is expected".to_owned()),
    }
}

/// A choice by its number, or by what is shown or sent for it.
fn chosen(typed: &str, options: &[Choice]) -> Result<Value, String> {
    let number = typed.parse::<usize>().ok();
    let by_number = number.and_then(|number| options.get(number.checked_sub(1)?));
    let is_named = |option: &&Choice| option.title == typed || option.value == typed;
    let option = by_number.or_else(|| options.iter().find(is_named));
    option
        .map(|option| Value::from(option.value.as_str()))
        .ok_or_else(|| format!("a number from 1 to {} is expected", options.len()))
}

fn several(typed: &str, options: &[Choice]) -> Result<Value, String> {
    if typed == "0" {
        return Ok(Value::Array(Vec::new()));
    }
    // A title may have blanks in it, but then there are commas, or it is the only one.
    if let Ok(only) = chosen(typed, options) {
        return Ok(Value::Array(vec![only]));
    }
    let between = if typed.contains(',') { ',' } else { ' ' };
    let words = typed.split(between).map(str::trim);
    let chosen = words
        .filter(|word| !word.is_empty())
        .map(|word| chosen(word, options));
    Ok(Value::Array(chosen.collect::<Result<_, _>>()?))
}

/// A value as it is shown before it is sent. What the server proposed is no secret of the person.
pub(super) fn review_value(field: &Field, value: &Value) -> String {
    if field.is_sensitive && field.default_value().as_ref() != Some(value) {
        return HIDDEN_VALUE.to_owned();
    }
    display_value(field, value)
}

/// A value as the person knows it.
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

fn options(kind: &FieldKind) -> &[Choice] {
    match kind {
        FieldKind::Choice { options, .. } | FieldKind::Choices { options, .. } => options,
        _ => &[],
    }
}

/// Which values fit, in words.
fn expected(kind: &FieldKind) -> String {
    match kind {
        FieldKind::Text {
            format,
            min_length,
            max_length,
            ..
        } => {
            let what = format.map_or("text", TextFormat::in_words);
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
                "a whole number"
            } else {
                "a number"
            };
            match bounds(minimum.as_ref(), maximum.as_ref()) {
                Some(bounds) => format!("{what}, {bounds}"),
                None => what.to_owned(),
            }
        }
        FieldKind::Boolean { .. } => "yes or no".to_owned(),
        FieldKind::Choice { .. } => "one of these, by its number".to_owned(),
        FieldKind::Choices {
            min_items,
            max_items,
            ..
        } => {
            let bounds = bounds(min_items.as_ref(), max_items.as_ref());
            let count = bounds.unwrap_or_else(|| "any".to_owned());
            format!("{count} of these, as in 1, 2")
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
