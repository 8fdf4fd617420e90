//! Checks values against the fields of a form.

use std::cmp::Ordering;
use std::fmt;

use serde_json::{Map, Number, Value};
use url::Url;

use super::{EnumOption, Field, FieldKind, Form, TextFormat};

/// Names a field whose value is missing or invalid, and what the field expects.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct InvalidValue {
    /// Name of the field.
    pub field: String,
    /// What the field expects, as text for the user. Never contains the invalid value, which may be
    /// a secret.
    pub expected: String,
}

impl fmt::Display for InvalidValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.field, self.expected)
    }
}

impl std::error::Error for InvalidValue {}

impl Form {
    /// Checks all values of a response and fills in the default of each field without a value.
    /// Returns the values in the order of the fields.
    pub fn validate(
        &self,
        mut values: Map<String, Value>,
    ) -> Result<Map<String, Value>, Vec<InvalidValue>> {
        let mut valid = Map::with_capacity(self.fields.len());
        let mut invalid = Vec::new();
        for field in &self.fields {
            match values.remove(&field.name).or_else(|| field.default_value()) {
                Some(value) => match field.check(&value) {
                    Ok(()) => drop(valid.insert(field.name.clone(), value)),
                    Err(error) => invalid.push(error),
                },
                None if field.is_required => {
                    invalid.push(field.invalid_value("a value is required"));
                }
                None => {}
            }
        }
        invalid.extend(values.into_iter().map(|(field, _)| InvalidValue {
            field,
            expected: "the form has no such field".to_owned(),
        }));
        if invalid.is_empty() {
            Ok(valid)
        } else {
            Err(invalid)
        }
    }
}

impl Field {
    /// Checks whether this field accepts `value`.
    pub fn check(&self, value: &Value) -> Result<(), InvalidValue> {
        match &self.kind {
            FieldKind::Text {
                format,
                min_length,
                max_length,
                ..
            } => check_text(value, *format, *min_length, *max_length),
            FieldKind::Number {
                is_integer,
                minimum,
                maximum,
                ..
            } => check_number(value, *is_integer, minimum.as_ref(), maximum.as_ref()),
            FieldKind::Boolean { .. } if value.is_boolean() => Ok(()),
            FieldKind::Boolean { .. } => Err("yes or no is expected".to_owned()),
            FieldKind::Choice { options, .. } if is_option(value, options) => Ok(()),
            FieldKind::Choice { .. } => Err("one of the options is expected".to_owned()),
            FieldKind::MultiChoice {
                options,
                min_items,
                max_items,
                ..
            } => check_choices(value, options, *min_items, *max_items),
        }
        .map_err(|expected| self.invalid_value(expected))
    }

    pub(super) fn invalid_value(&self, expected: impl Into<String>) -> InvalidValue {
        InvalidValue {
            field: self.name.clone(),
            expected: expected.into(),
        }
    }
}

fn check_text(
    value: &Value,
    format: Option<TextFormat>,
    min_length: Option<u64>,
    max_length: Option<u64>,
) -> Result<(), String> {
    let Value::String(text) = value else {
        return Err("text is expected".to_owned());
    };
    let length = text.chars().count() as u64;
    if let Some(min) = min_length.filter(|min| length < *min) {
        return Err(format!("at least {min} characters are expected"));
    }
    if let Some(max) = max_length.filter(|max| length > *max) {
        return Err(format!("at most {max} characters are expected"));
    }
    match format {
        Some(format) if !format.matches(text) => {
            Err(format!("{} is expected", format.description()))
        }
        _ => Ok(()),
    }
}

fn check_number(
    value: &Value,
    is_integer: bool,
    minimum: Option<&Number>,
    maximum: Option<&Number>,
) -> Result<(), String> {
    let Value::Number(number) = value else {
        return Err("a number is expected".to_owned());
    };
    if is_integer && !is_integral(number) {
        return Err("a whole number is expected".to_owned());
    }
    if let Some(min) = minimum.filter(|min| compare(number, min) == Some(Ordering::Less)) {
        return Err(format!("at least {min} is expected"));
    }
    if let Some(max) = maximum.filter(|max| compare(number, max) == Some(Ordering::Greater)) {
        return Err(format!("at most {max} is expected"));
    }
    Ok(())
}

fn check_choices(
    value: &Value,
    options: &[EnumOption],
    min_items: Option<u64>,
    max_items: Option<u64>,
) -> Result<(), String> {
    let Value::Array(chosen) = value else {
        return Err("a list of options is expected".to_owned());
    };
    let count = chosen.len() as u64;
    if let Some(min) = min_items.filter(|min| count < *min) {
        return Err(format!("at least {min} options are expected"));
    }
    if let Some(max) = max_items.filter(|max| count > *max) {
        return Err(format!("at most {max} options are expected"));
    }
    // Compare the lengths before the search for duplicates. The search takes quadratic time in the
    // length of `chosen`, which is now at most the number of options.
    if chosen.len() > options.len() || !chosen.iter().all(|value| is_option(value, options)) {
        return Err("only the listed options are expected, each at most once".to_owned());
    }
    let stands_before = |at: usize, value| chosen.iter().take(at).any(|earlier| earlier == value);
    if chosen
        .iter()
        .enumerate()
        .any(|(at, value)| stands_before(at, value))
    {
        return Err("each choice is expected at most once".to_owned());
    }
    Ok(())
}

fn is_option(value: &Value, options: &[EnumOption]) -> bool {
    value
        .as_str()
        .is_some_and(|text| options.iter().any(|option| option.value == text))
}

fn is_integral(number: &Number) -> bool {
    number.is_i64() || number.is_u64() || number.as_f64().is_some_and(|float| float.fract() == 0.0)
}

/// Compares two integers exactly, and any other pair of numbers as floats.
fn compare(left: &Number, right: &Number) -> Option<Ordering> {
    match (left.as_i128(), right.as_i128()) {
        (Some(left), Some(right)) => Some(left.cmp(&right)),
        _ => left.as_f64()?.partial_cmp(&right.as_f64()?),
    }
}

impl TextFormat {
    /// Describes the format to the user, with an article: "an e-mail address".
    pub fn description(self) -> &'static str {
        match self {
            Self::Email => "an e-mail address",
            Self::Uri => "a URI with its scheme, such as https://example.com",
            Self::Date => "a date such as 2026-07-28",
            Self::DateTime => "a date and time such as 2026-07-28T12:00:00Z",
        }
    }

    fn matches(self, text: &str) -> bool {
        match self {
            Self::Email => is_email(text),
            Self::Uri => Url::parse(text).is_ok(),
            Self::Date => is_date(text),
            Self::DateTime => is_date_time(text),
        }
    }
}

/// Whether the text has the form `mailbox@domain`. Does not check which characters an e-mail
/// address may contain.
fn is_email(text: &str) -> bool {
    let is_part = |part: &str| {
        !part.is_empty() && !part.contains(|c: char| c.is_whitespace() || c.is_control())
    };
    match text.rsplit_once('@') {
        Some((mailbox, domain)) => {
            is_part(mailbox)
                && domain.split('.').all(is_part)
                && !domain.contains('@')
                && !mailbox.contains('@')
        }
        None => false,
    }
}

fn is_date(text: &str) -> bool {
    let [year, month, day] = text.split('-').collect::<Vec<_>>()[..] else {
        return false;
    };
    let (Some(year), Some(month), Some(day)) = (
        parse_digits(year, 4),
        parse_digits(month, 2),
        parse_digits(day, 2),
    ) else {
        return false;
    };
    (1..=days_in_month(year, month)).contains(&day)
}

fn days_in_month(year: u32, month: u32) -> u32 {
    let is_leap = year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400));
    match month {
        1 | 3 | 5 | 7 | 8 | 10 | 12 => 31,
        4 | 6 | 9 | 11 => 30,
        2 if is_leap => 29,
        2 => 28,
        _ => 0,
    }
}

fn is_date_time(text: &str) -> bool {
    let Some((date, time)) = text.split_once(['T', 't', ' ']) else {
        return false;
    };
    let Some(end) = time.find(['Z', 'z', '+', '-']) else {
        return false;
    };
    let (clock, zone) = time.split_at(end);
    let (clock, fraction) = match clock.split_once('.') {
        Some((clock, fraction)) => (clock, Some(fraction)),
        None => (clock, None),
    };
    let is_fraction = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    let is_zone = matches!(zone, "Z" | "z")
        || zone
            .get(1..)
            .is_some_and(|offset| is_clock(offset, &[23, 59]));
    // A leap second is written as second 60.
    is_date(date) && is_clock(clock, &[23, 59, 60]) && fraction.is_none_or(is_fraction) && is_zone
}

/// Whether the text consists of two-digit numbers separated by colons, one for each of `maxima`,
/// and none exceeds its maximum.
fn is_clock(text: &str, maxima: &[u32]) -> bool {
    let parts: Vec<_> = text.split(':').collect();
    parts.len() == maxima.len()
        && parts
            .iter()
            .zip(maxima)
            .all(|(part, max)| parse_digits(part, 2).is_some_and(|number| number <= *max))
}

/// Parses a number of exactly `count` digits.
fn parse_digits(text: &str, count: usize) -> Option<u32> {
    let is_number = text.len() == count && text.bytes().all(|byte| byte.is_ascii_digit());
    is_number.then(|| text.parse().ok()).flatten()
}
