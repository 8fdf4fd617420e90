//! Whether values fit a form.

use std::cmp::Ordering;
use std::fmt;

use serde_json::{Map, Number, Value};
use url::Url;

use super::{Choice, Field, FieldKind, Form, TextFormat};

/// A value that does not fit its field.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Misfit {
    /// The field, by name.
    pub field: String,
    /// What is expected instead, in words for the user. It never tells the value.
    pub expected: String,
}

impl fmt::Display for Misfit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.field, self.expected)
    }
}

impl std::error::Error for Misfit {}

impl Form {
    /// Checks values, and adds what is proposed for fields that were left out. The values come back
    /// in the order of the fields.
    pub fn complete(
        &self,
        mut given: Map<String, Value>,
    ) -> Result<Map<String, Value>, Vec<Misfit>> {
        let mut whole = Map::with_capacity(self.fields.len());
        let mut misfits = Vec::new();
        for field in &self.fields {
            match given.remove(&field.name).or_else(|| field.default_value()) {
                Some(value) => match field.check(&value) {
                    Ok(()) => drop(whole.insert(field.name.clone(), value)),
                    Err(misfit) => misfits.push(misfit),
                },
                None if field.is_required => misfits.push(field.misfit("a value is required")),
                None => {}
            }
        }
        misfits.extend(given.into_iter().map(|(field, _)| Misfit {
            field,
            expected: "the form has no such field".to_owned(),
        }));
        if misfits.is_empty() {
            Ok(whole)
        } else {
            Err(misfits)
        }
    }
}

impl Field {
    /// Whether a value fits the field; if not, what is expected.
    pub fn check(&self, value: &Value) -> Result<(), Misfit> {
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
            FieldKind::Choice { .. } => Err("one of the choices is expected".to_owned()),
            FieldKind::Choices {
                options,
                min_items,
                max_items,
                ..
            } => check_choices(value, options, *min_items, *max_items),
        }
        .map_err(|expected| self.misfit(expected))
    }

    pub(super) fn misfit(&self, expected: impl Into<String>) -> Misfit {
        Misfit {
            field: self.name.clone(),
            expected: expected.into(),
        }
    }
}

fn check_text(
    value: &Value,
    format: Option<TextFormat>,
    fewest: Option<u64>,
    most: Option<u64>,
) -> Result<(), String> {
    let Value::String(text) = value else {
        return Err("text is expected".to_owned());
    };
    let length = text.chars().count() as u64;
    if let Some(fewest) = fewest.filter(|fewest| length < *fewest) {
        return Err(format!("at least {fewest} characters are expected"));
    }
    if let Some(most) = most.filter(|most| length > *most) {
        return Err(format!("at most {most} characters are expected"));
    }
    match format {
        Some(format) if !format.fits(text) => Err(format!("{} is expected", format.in_words())),
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
    if is_integer && !is_whole(number) {
        return Err("a whole number is expected".to_owned());
    }
    if let Some(least) = minimum.filter(|least| compare(number, least) == Some(Ordering::Less)) {
        return Err(format!("at least {least} is expected"));
    }
    if let Some(most) = maximum.filter(|most| compare(number, most) == Some(Ordering::Greater)) {
        return Err(format!("at most {most} is expected"));
    }
    Ok(())
}

fn check_choices(
    value: &Value,
    options: &[Choice],
    fewest: Option<u64>,
    most: Option<u64>,
) -> Result<(), String> {
    let Value::Array(chosen) = value else {
        return Err("a list of choices is expected".to_owned());
    };
    let count = chosen.len() as u64;
    if let Some(fewest) = fewest.filter(|fewest| count < *fewest) {
        return Err(format!("at least {fewest} choices are expected"));
    }
    if let Some(most) = most.filter(|most| count > *most) {
        return Err(format!("at most {most} choices are expected"));
    }
    // Checked first: no more than there are options can be left to compare with each other.
    if chosen.len() > options.len() || !chosen.iter().all(|value| is_option(value, options)) {
        return Err("only the choices are expected, each at most once".to_owned());
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

fn is_option(value: &Value, options: &[Choice]) -> bool {
    value
        .as_str()
        .is_some_and(|text| options.iter().any(|option| option.value == text))
}

fn is_whole(number: &Number) -> bool {
    number.is_i64() || number.is_u64() || number.as_f64().is_some_and(|float| float.fract() == 0.0)
}

/// Whole numbers are compared exactly.
fn compare(one: &Number, other: &Number) -> Option<Ordering> {
    match (one.as_i128(), other.as_i128()) {
        (Some(one), Some(other)) => Some(one.cmp(&other)),
        _ => one.as_f64()?.partial_cmp(&other.as_f64()?),
    }
}

impl TextFormat {
    /// What is expected, in words for the user.
    pub fn in_words(self) -> &'static str {
        match self {
            Self::Email => "an e-mail address",
            Self::Uri => "a URI with its scheme, such as https://example.com",
            Self::Date => "a date such as 2026-07-28",
            Self::DateTime => "a date and time such as 2026-07-28T12:00:00Z",
        }
    }

    fn fits(self, text: &str) -> bool {
        match self {
            Self::Email => is_email(text),
            Self::Uri => Url::parse(text).is_ok(),
            Self::Date => is_date(text),
            Self::DateTime => is_date_time(text),
        }
    }
}

/// Looks like an address: whether there is such a mailbox nobody can tell by its looks.
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
    let (Some(year), Some(month), Some(day)) = (digits(year, 4), digits(month, 2), digits(day, 2))
    else {
        return false;
    };
    (1..=days(year, month)).contains(&day)
}

fn days(year: u32, month: u32) -> u32 {
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
    // A minute may have a sixty-first second.
    is_date(date) && is_clock(clock, &[23, 59, 60]) && fraction.is_none_or(is_fraction) && is_zone
}

/// Two digits each, up to these.
fn is_clock(text: &str, most: &[u32]) -> bool {
    let parts: Vec<_> = text.split(':').collect();
    parts.len() == most.len()
        && parts
            .iter()
            .zip(most)
            .all(|(part, most)| digits(part, 2).is_some_and(|number| number <= *most))
}

fn digits(text: &str, count: usize) -> Option<u32> {
    let fits = text.len() == count && text.bytes().all(|byte| byte.is_ascii_digit());
    fits.then(|| text.parse().ok()).flatten()
}
