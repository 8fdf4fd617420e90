//! Conditions on the arguments of a call: the `pattern` of a rule.
//!
//! | pattern | is held against |
//! |---|---|
//! | `name=glob` | the value of the argument `name`; the name ends at the first `=` |
//! | `/a/b=glob` | the value that a JSON pointer leads to: member `b` of argument `a`, or an item by its number |
//! | `*…` or `{…` | all arguments as compact JSON, keys sorted |
//!
//! A string is compared as it is, a number, `true`, `false` and `null` as JSON writes them, a list or an
//! object as compact JSON with sorted keys. Globs are anchored at both ends, see capitals, and `*` crosses
//! everything: `/`, line ends, quotes. An argument that is not there fits nothing.
//!
//! What fits depends on which way the rule goes:
//!
//! - An *allow* fits only the value as a whole. With a wildcard it does not fit where a path could lead
//!   out of what the glob seems to say: a `..` between separators anywhere in the value, also with
//!   percent codes or with characters in it that nobody sees; a NUL; percent codes that hide others or
//!   are no UTF-8; letters that only look like a dot, a slash or a backslash.
//! - A *deny* or an *ask* fits in any way it can: the value, anything inside it if it is a list or an
//!   object, keys included, a number such as `7.0` as `7`; a text also without blanks around it, then
//!   with its percent codes decoded, then with `\` as `/`, then without `file://`, and each of these
//!   with `.`, `..` and doubled `/` worked out.
//!
//! A value that is too large to be looked at fits every deny and ask and no allow; so do arguments that
//! are not known.
//!
//! Invariant: with the same text, what an allow fits a deny fits as well.

use std::borrow::Cow;

use serde_json::{Map, Value};

use super::glob::{Dialect, Glob};
use super::pattern::Problem;

/// Longer values are not looked at: a glob may take as many steps as pattern × value.
const MOST_BYTES: usize = 1024 * 1024;

/// Nor are deeper ones: nothing that was read from a text nests like that.
const MOST_LEVELS: usize = 128;

/// One condition of a rule.
#[derive(Clone, Debug)]
pub(super) struct Condition {
    place: Place,
    glob: Glob,
}

#[derive(Clone, Debug)]
enum Place {
    All,
    /// The keys on the way to a value, at least one.
    Value(Box<[Box<str>]>),
}

impl Condition {
    pub(super) fn parse(text: &str) -> Result<Self, Problem> {
        if text.is_empty() {
            return Err(Problem::NoCondition);
        }
        if text.starts_with("*=") {
            return Err(Problem::AnyArgument);
        }
        if text.starts_with(['*', '{']) {
            let glob = Glob::parse(text, Dialect::Json)?;
            return Ok(Self {
                place: Place::All,
                glob,
            });
        }
        let (name, glob) = text.split_once('=').ok_or(Problem::NoEquals)?;
        if name.is_empty() || name.trim() != name {
            return Err(Problem::NoArgument);
        }
        let keys = match name.strip_prefix('/') {
            None => Box::from([Box::from(name)]),
            Some(pointer) => pointer.split('/').map(unescape).collect(),
        };
        Ok(Self {
            place: Place::Value(keys),
            glob: Glob::parse(glob, Dialect::Value)?,
        })
    }

    /// Whether the condition holds. `narrows`: for a rule that takes something away, which fits in any
    /// way it can.
    pub(super) fn fits(&self, arguments: Option<&Map<String, Value>>, narrows: bool) -> bool {
        let Some(arguments) = arguments else {
            return narrows;
        };
        match &self.place {
            Place::All => self.fits_all(arguments, narrows),
            Place::Value(keys) => match find(arguments, keys) {
                None => false,
                Some(value) if !is_visible(value) => narrows,
                Some(value) if narrows => self.fits_somehow(value),
                Some(value) => {
                    self.glob.matches(&text_of(value))
                        && (self.glob.is_literal() || !leads_astray(value))
                }
            },
        }
    }

    fn fits_all(&self, arguments: &Map<String, Value>, narrows: bool) -> bool {
        let mut room = MOST_BYTES;
        if !members_are_visible(arguments, MOST_LEVELS, &mut room) {
            return narrows;
        }
        let is_straight = || {
            let mut members = arguments.iter();
            members.all(|(key, value)| !path_leads_astray(key) && !leads_astray(value))
        };
        self.glob.matches(&sorted_json(arguments))
            && (narrows || self.glob.is_literal() || is_straight())
    }

    fn fits_somehow(&self, value: &Value) -> bool {
        self.glob.matches(&text_of(value))
            || match value {
                Value::String(text) => self.fits_disguised(text),
                Value::Number(number) => number
                    .as_f64()
                    .filter(|number| number.fract() == 0.0)
                    .is_some_and(|number| self.glob.matches(&format!("{number:.0}"))),
                Value::Array(items) => items.iter().any(|item| self.fits_somehow(item)),
                Value::Object(members) => members.iter().any(|(key, member)| {
                    self.glob.matches(key) || self.fits_disguised(key) || self.fits_somehow(member)
                }),
                Value::Null | Value::Bool(_) => false,
            }
    }

    /// Whether what a text could be taken for fits. Each step is made on top of the one before.
    fn fits_disguised(&self, text: &str) -> bool {
        let trimmed = text.trim();
        let decoded = decoded_once(trimmed);
        let decoded = decoded.trim();
        let slashed = decoded.replace('\\', "/");
        let ways = [text, trimmed, decoded, &slashed, without_scheme(&slashed)];
        ways.into_iter().enumerate().any(|(place, way)| {
            let is_new = place == 0 || ways.get(place - 1) != Some(&way);
            is_new
                && (self.glob.matches(way)
                    || worked_out(way).is_some_and(|path| self.glob.matches(&path)))
        })
    }
}

/// A key of a JSON pointer (RFC 6901).
fn unescape(key: &str) -> Box<str> {
    key.replace("~1", "/").replace("~0", "~").into()
}

fn find<'a>(arguments: &'a Map<String, Value>, keys: &[Box<str>]) -> Option<&'a Value> {
    let (first, rest) = keys.split_first()?;
    rest.iter()
        .try_fold(arguments.get(&**first)?, |value, key| match value {
            Value::Object(members) => members.get(&**key),
            Value::Array(items) => items.get(index(key)?),
            _ => None,
        })
}

fn index(key: &str) -> Option<usize> {
    let is_plain = key == "0" || !key.starts_with(['0', '+']);
    is_plain.then(|| key.parse().ok()).flatten()
}

fn is_visible(value: &Value) -> bool {
    has_room(value, MOST_LEVELS, &mut MOST_BYTES.clone())
}

/// Takes from `room` what a value's text needs at least.
fn has_room(value: &Value, levels: usize, room: &mut usize) -> bool {
    match value {
        Value::Null | Value::Bool(_) | Value::Number(_) => take(room, 1),
        Value::String(text) => take(room, text.len()),
        Value::Array(_) | Value::Object(_) if levels == 0 => false,
        Value::Array(items) => {
            let mut items = items.iter();
            items.all(|item| take(room, 1) && has_room(item, levels - 1, room))
        }
        Value::Object(members) => members_are_visible(members, levels - 1, room),
    }
}

fn members_are_visible(members: &Map<String, Value>, levels: usize, room: &mut usize) -> bool {
    let mut members = members.iter();
    members.all(|(key, value)| take(room, key.len() + 1) && has_room(value, levels, room))
}

fn take(room: &mut usize, bytes: usize) -> bool {
    let left = room.checked_sub(bytes);
    *room = left.unwrap_or(0);
    left.is_some()
}

/// The text that a value is compared as.
fn text_of(value: &Value) -> Cow<'_, str> {
    match value {
        Value::String(text) => Cow::Borrowed(text),
        Value::Object(members) => Cow::Owned(sorted_json(members)),
        Value::Array(_) => {
            let mut text = String::new();
            write_sorted(value, &mut text);
            Cow::Owned(text)
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => Cow::Owned(value.to_string()),
    }
}

/// Compact JSON in which the order of keys says nothing, whoever wrote them in whichever.
fn sorted_json(members: &Map<String, Value>) -> String {
    let mut text = String::new();
    write_members(members, &mut text);
    text
}

fn write_members(members: &Map<String, Value>, text: &mut String) {
    let mut members: Vec<_> = members.iter().collect();
    members.sort_unstable_by_key(|(key, _)| *key);
    text.push('{');
    for (place, (key, value)) in members.into_iter().enumerate() {
        if place > 0 {
            text.push(',');
        }
        text.push_str(&Value::from(key.as_str()).to_string());
        text.push(':');
        write_sorted(value, text);
    }
    text.push('}');
}

fn write_sorted(value: &Value, text: &mut String) {
    match value {
        Value::Object(members) => write_members(members, text),
        Value::Array(items) => {
            text.push('[');
            for (place, item) in items.iter().enumerate() {
                if place > 0 {
                    text.push(',');
                }
                write_sorted(item, text);
            }
            text.push(']');
        }
        scalar => text.push_str(&scalar.to_string()),
    }
}

/// Whether anything in a value could be a path to elsewhere.
fn leads_astray(value: &Value) -> bool {
    match value {
        Value::String(text) => path_leads_astray(text),
        Value::Array(items) => items.iter().any(leads_astray),
        Value::Object(members) => members
            .iter()
            .any(|(key, value)| path_leads_astray(key) || leads_astray(value)),
        Value::Null | Value::Bool(_) | Value::Number(_) => false,
    }
}

fn path_leads_astray(text: &str) -> bool {
    // What may stand around a path inside a longer text, besides the separators themselves.
    let ends = |letter: char| letter.is_whitespace() || "/\\?#&;=:,|\"'`()<>".contains(letter);
    let has_dots = |text: &str| text.split(ends).any(|segment| segment == "..");
    let text = decoded_once(text);
    text.contains(is_deceptive)
        || has_percent_code(&text)
        || has_dots(&text)
        || text.contains(is_unseen) && has_dots(&text.replace(is_unseen, ""))
}

/// What ends a text early, what percent codes that are no UTF-8 become (overlong ones are none), and what
/// some programs take for a dot, a slash or a backslash.
fn is_deceptive(letter: char) -> bool {
    matches!(
        letter,
        '\0' | '\u{fffd}'
            | '\u{2024}'
            | '\u{2025}'
            | '\u{fe52}'
            | '\u{ff0e}'
            | '\u{2044}'
            | '\u{2215}'
            | '\u{ff0f}'
            | '\u{fe68}'
            | '\u{ff3c}'
    )
}

/// What some programs leave out of a path.
fn is_unseen(letter: char) -> bool {
    letter.is_control()
        || matches!(
            letter,
            '\u{ad}' | '\u{200b}'..='\u{200f}' | '\u{2060}' | '\u{feff}'
        )
}

/// Where one is left after decoding, whoever decodes twice reads something else.
fn has_percent_code(text: &str) -> bool {
    let mut codes = text.as_bytes().windows(3);
    codes.any(|code| code.first() == Some(&b'%') && percent_code(code).is_some())
}

/// The byte that a text stands for which begins with a percent code.
fn percent_code(text: &[u8]) -> Option<u8> {
    let [b'%', high, low, ..] = text else {
        return None;
    };
    let digit = |letter: &u8| char::from(*letter).to_digit(16);
    u8::try_from(digit(high)? * 16 + digit(low)?).ok()
}

/// The text with all percent codes decoded, once.
fn decoded_once(text: &str) -> Cow<'_, str> {
    if !text.contains('%') {
        return Cow::Borrowed(text);
    }
    let mut decoded = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let [first, after @ ..] = rest {
        let code = percent_code(rest);
        decoded.push(code.unwrap_or(*first));
        rest = match code {
            Some(_) => rest.get(3..).unwrap_or_default(),
            None => after,
        };
    }
    Cow::Owned(String::from_utf8_lossy(&decoded).into_owned())
}

/// The path of a `file:` address; anything else as it is.
fn without_scheme(text: &str) -> &str {
    let scheme = text.get(..5);
    if !scheme.is_some_and(|scheme| scheme.eq_ignore_ascii_case("file:")) {
        return text;
    }
    let rest = text.get(5..).unwrap_or_default();
    match rest.strip_prefix("//") {
        // A host may stand before the path.
        Some(rest) => rest.find('/').and_then(|at| rest.get(at..)).unwrap_or(rest),
        None => rest,
    }
}

/// The text with `%2e`, `%2f` and `%5c` as the characters that they stand for.
fn percent_decoded(text: &str) -> Cow<'_, str> {
    if !text.contains('%') {
        return Cow::Borrowed(text);
    }
    let mut pieces = text.split('%');
    let mut decoded = pieces.next().unwrap_or_default().to_owned();
    for piece in pieces {
        let letter = match piece.get(..2) {
            Some("2e" | "2E") => '.',
            Some("2f" | "2F") => '/',
            Some("5c" | "5C") => '\\',
            _ => {
                decoded.extend(["%", piece]);
                continue;
            }
        };
        decoded.push(letter);
        decoded.push_str(piece.get(2..).unwrap_or_default());
    }
    Cow::Owned(decoded)
}

/// A path with `.`, `..` and doubled `/` worked out, where that changes anything.
fn worked_out(text: &str) -> Option<String> {
    let decoded = percent_decoded(text);
    if !decoded.contains('/') {
        return None;
    }
    let mut kept: Vec<&str> = Vec::new();
    let is_absolute = decoded.starts_with('/');
    for segment in decoded.split('/') {
        match (segment, kept.last()) {
            ("" | ".", _) => {}
            ("..", Some(last)) if *last != ".." => drop(kept.pop()),
            ("..", _) if is_absolute => {}
            _ => kept.push(segment),
        }
    }
    let root = if is_absolute { "/" } else { "" };
    let path = format!("{root}{}", kept.join("/"));
    (path != text).then_some(path)
}
