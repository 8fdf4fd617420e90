//! Conditions on the arguments of a call: the `pattern` of a rule.
//!
//! | pattern | is compared with |
//! |---|---|
//! | `name=glob` | the value of the argument `name`; the name ends at the first `=` |
//! | `/a/b=glob` | the value at a JSON pointer: member `b` of argument `a`, or a list item by its index |
//! | `*…` or `{…` | all arguments as compact JSON with sorted keys |
//!
//! Strings are compared as they are; numbers, `true`, `false` and `null` as JSON; lists and objects
//! as compact JSON with sorted keys. Globs are anchored at both ends and case-sensitive, and `*`
//! matches everything: `/`, line ends, quotes. A missing argument matches nothing.
//!
//! The [`MatchMode`] decides which forms of a value are compared:
//!
//! - *Exact* (allow): compares the value as it is. A glob with a wildcard does not match a value
//!   that could be a path out of the directory that the glob names. Such a value contains a `..`
//!   segment (also percent-encoded or with invisible characters), a NUL, percent codes that are
//!   nested or are not UTF-8, or characters that look like a dot, a slash or a backslash.
//! - *Broad* (deny and ask): compares several forms of the value. For a list or an object, also
//!   everything in it, including keys. For a number such as `7.0`, also `7`. For a string, also the
//!   result of each of these steps, applied one after another: trim, percent-decode, replace `\` by
//!   `/`, remove `file://`. Each result is also compared with `.`, `..` and doubled `/` resolved.
//!   A pattern for all arguments is compared only with their JSON.
//!
//! A value above [`MAX_VALUE_BYTES`] or [`MAX_VALUE_DEPTH`] matches in broad mode and does not
//! match in exact mode. The same holds if the arguments of the call are not known.
//!
//! Invariant: everything that matches in exact mode also matches in broad mode.

use std::borrow::Cow;
use std::cell::{OnceCell, RefCell};
use std::collections::HashMap;
use std::rc::Rc;

use percent_encoding::percent_decode_str;
use serde_json::{Map, Value};

use super::MatchMode;
use super::glob::{Glob, GlobContext};
use super::pattern::PatternProblem;

/// Maximum size of a value that is compared with a glob, because a comparison takes up to glob
/// length × value length steps.
const MAX_VALUE_BYTES: usize = 1024 * 1024;

/// Maximum nesting depth of a value that is compared with a glob. JSON that `serde_json` parsed is
/// never deeper.
const MAX_VALUE_DEPTH: usize = 128;

/// One condition of a rule.
#[derive(Clone, Debug)]
pub(super) struct ArgumentCondition {
    selector: ArgumentSelector,
    glob: Glob,
}

#[derive(Clone, Debug)]
enum ArgumentSelector {
    All,
    /// The path to one value: the keys of nested objects, or indexes of lists. At least one
    /// element.
    Value(Box<[Box<str>]>),
}

impl ArgumentCondition {
    pub(super) fn parse(text: &str) -> Result<Self, PatternProblem> {
        if text.is_empty() {
            return Err(PatternProblem::EmptyCondition);
        }
        if text.starts_with("*=") {
            return Err(PatternProblem::WildcardArgument);
        }
        if text.starts_with(['*', '{']) {
            let glob = Glob::parse(text, GlobContext::Json)?;
            return Ok(Self {
                selector: ArgumentSelector::All,
                glob,
            });
        }
        let (name, glob) = text.split_once('=').ok_or(PatternProblem::NoEquals)?;
        if name.is_empty() || name.trim() != name {
            return Err(PatternProblem::NoArgument);
        }
        let keys = match name.strip_prefix('/') {
            None => Box::from([Box::from(name)]),
            Some(pointer) => pointer.split('/').map(unescape_pointer).collect(),
        };
        Ok(Self {
            selector: ArgumentSelector::Value(keys),
            glob: Glob::parse(glob, GlobContext::Value)?,
        })
    }

    pub(super) fn matches(&self, arguments: &ComparedArguments<'_>, mode: MatchMode) -> bool {
        let Some(members) = arguments.members else {
            return mode.is_broad();
        };
        match &self.selector {
            ArgumentSelector::All => match arguments.all(members) {
                None => mode.is_broad(),
                Some(all) => {
                    self.glob.matches(&all.json)
                        && (mode.is_broad() || self.glob.is_literal() || !all.has_path_escape())
                }
            },
            ArgumentSelector::Value(keys) => match find_value(members, keys) {
                None => false,
                Some(value) => match arguments.value(value) {
                    None => mode.is_broad(),
                    Some(value) if mode.is_broad() => self.matches_any(value.forms()),
                    Some(value) => {
                        self.glob.matches(&value.text)
                            && (self.glob.is_literal() || !value.has_path_escape())
                    }
                },
            },
        }
    }

    fn matches_any(&self, forms: &[String]) -> bool {
        forms.iter().any(|form| self.glob.matches(form))
    }
}

/// The arguments of a call, with the texts that rules are compared with. Each text is built once for
/// all rules, when the first rule needs it.
pub(super) struct ComparedArguments<'a> {
    /// `None` if the arguments of the call are not known.
    members: Option<&'a Map<String, Value>>,
    /// `None` if the arguments are too large.
    all: OnceCell<Option<AllArguments<'a>>>,
    /// The values that rules selected, by address. `None` if a value is too large.
    values: RefCell<HashMap<*const Value, Option<Rc<SelectedValue<'a>>>>>,
}

/// All arguments of a call.
struct AllArguments<'a> {
    members: &'a Map<String, Value>,
    json: String,
    has_path_escape: OnceCell<bool>,
}

/// A value within the arguments of a call.
struct SelectedValue<'a> {
    value: &'a Value,
    text: Cow<'a, str>,
    forms: OnceCell<Vec<String>>,
    has_path_escape: OnceCell<bool>,
}

impl<'a> ComparedArguments<'a> {
    pub(super) fn new(members: Option<&'a Map<String, Value>>) -> Self {
        Self {
            members,
            all: OnceCell::new(),
            values: RefCell::default(),
        }
    }

    fn all(&self, members: &'a Map<String, Value>) -> Option<&AllArguments<'a>> {
        let all = self.all.get_or_init(|| {
            let mut budget = MAX_VALUE_BYTES;
            let is_small = members_are_within_budget(members, MAX_VALUE_DEPTH, &mut budget);
            is_small.then(|| AllArguments {
                members,
                json: sorted_json(members),
                has_path_escape: OnceCell::new(),
            })
        });
        all.as_ref()
    }

    fn value(&self, value: &'a Value) -> Option<Rc<SelectedValue<'a>>> {
        let mut values = self.values.borrow_mut();
        let selected = values.entry(std::ptr::from_ref(value)).or_insert_with(|| {
            is_small_enough(value).then(|| {
                Rc::new(SelectedValue {
                    value,
                    text: match_text(value),
                    forms: OnceCell::new(),
                    has_path_escape: OnceCell::new(),
                })
            })
        });
        selected.clone()
    }
}

impl AllArguments<'_> {
    fn has_path_escape(&self) -> bool {
        *self.has_path_escape.get_or_init(|| {
            let mut members = self.members.iter();
            members.any(|(key, value)| text_has_path_escape(key) || has_path_escape(value))
        })
    }
}

impl SelectedValue<'_> {
    /// The forms of the value that broad mode compares.
    fn forms(&self) -> &[String] {
        self.forms.get_or_init(|| {
            let mut forms = Vec::new();
            add_forms(self.value, &mut forms);
            forms
        })
    }

    fn has_path_escape(&self) -> bool {
        let has_escape = || has_path_escape(self.value);
        *self.has_path_escape.get_or_init(has_escape)
    }
}

/// Adds all forms of a value and of everything in it.
fn add_forms(value: &Value, forms: &mut Vec<String>) {
    forms.push(match_text(value).into_owned());
    match value {
        Value::String(text) => add_normalized(text, forms),
        Value::Number(number) => {
            let number = number.as_f64().filter(|number| number.fract() == 0.0);
            forms.extend(number.map(|number| format!("{number:.0}")));
        }
        Value::Array(items) => {
            for item in items {
                add_forms(item, forms);
            }
        }
        Value::Object(members) => {
            for (key, member) in members {
                add_normalized(key, forms);
                add_forms(member, forms);
            }
        }
        Value::Null | Value::Bool(_) => {}
    }
}

/// Adds a text and all its normalized forms. Each form is derived from the previous form.
fn add_normalized(text: &str, forms: &mut Vec<String>) {
    let trimmed = text.trim();
    let decoded = percent_decode(trimmed);
    let decoded = decoded.trim();
    let with_slashes = decoded.replace('\\', "/");
    let path = strip_file_scheme(&with_slashes);
    let derived = [text, trimmed, decoded, &with_slashes, path];
    for (index, form) in derived.into_iter().enumerate() {
        let is_new = index == 0 || derived.get(index - 1) != Some(&form);
        if is_new {
            forms.push(form.to_owned());
            forms.extend(normalize_path(form));
        }
    }
}

/// Unescapes a key of a JSON pointer (RFC 6901).
fn unescape_pointer(key: &str) -> Box<str> {
    key.replace("~1", "/").replace("~0", "~").into()
}

fn find_value<'a>(arguments: &'a Map<String, Value>, keys: &[Box<str>]) -> Option<&'a Value> {
    let (first, rest) = keys.split_first()?;
    rest.iter()
        .try_fold(arguments.get(&**first)?, |value, key| match value {
            Value::Object(members) => members.get(&**key),
            Value::Array(items) => items.get(parse_list_index(key)?),
            _ => None,
        })
}

fn parse_list_index(key: &str) -> Option<usize> {
    let is_canonical = key == "0" || !key.starts_with(['0', '+']);
    is_canonical.then(|| key.parse().ok()).flatten()
}

fn is_small_enough(value: &Value) -> bool {
    is_within_budget(value, MAX_VALUE_DEPTH, &mut MAX_VALUE_BYTES.clone())
}

/// Whether the value is nested at most `depth` levels and fits into `budget` bytes. Subtracts a
/// lower bound of the value's JSON size from `budget`.
fn is_within_budget(value: &Value, depth: usize, budget: &mut usize) -> bool {
    match value {
        Value::Null | Value::Bool(_) | Value::Number(_) => consume(budget, 1),
        Value::String(text) => consume(budget, text.len()),
        Value::Array(_) | Value::Object(_) if depth == 0 => false,
        Value::Array(items) => {
            let mut items = items.iter();
            items.all(|item| consume(budget, 1) && is_within_budget(item, depth - 1, budget))
        }
        Value::Object(members) => members_are_within_budget(members, depth - 1, budget),
    }
}

fn members_are_within_budget(
    members: &Map<String, Value>,
    depth: usize,
    budget: &mut usize,
) -> bool {
    let mut members = members.iter();
    members.all(|(key, value)| {
        consume(budget, key.len() + 1) && is_within_budget(value, depth, budget)
    })
}

fn consume(budget: &mut usize, bytes: usize) -> bool {
    let rest = budget.checked_sub(bytes);
    *budget = rest.unwrap_or(0);
    rest.is_some()
}

/// Converts a value to the text that globs are compared with.
fn match_text(value: &Value) -> Cow<'_, str> {
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

/// Serializes members as compact JSON with sorted keys, so that the order of keys in the call does
/// not matter.
fn sorted_json(members: &Map<String, Value>) -> String {
    let mut text = String::new();
    write_members(members, &mut text);
    text
}

fn write_members(members: &Map<String, Value>, text: &mut String) {
    let mut members: Vec<_> = members.iter().collect();
    members.sort_unstable_by_key(|(key, _)| *key);
    text.push('{');
    for (index, (key, value)) in members.into_iter().enumerate() {
        if index > 0 {
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
            for (index, item) in items.iter().enumerate() {
                if index > 0 {
                    text.push(',');
                }
                write_sorted(item, text);
            }
            text.push(']');
        }
        scalar => text.push_str(&scalar.to_string()),
    }
}

/// Whether any text in the value could be a path out of the directory that a glob names.
fn has_path_escape(value: &Value) -> bool {
    match value {
        Value::String(text) => text_has_path_escape(text),
        Value::Array(items) => items.iter().any(has_path_escape),
        Value::Object(members) => members
            .iter()
            .any(|(key, value)| text_has_path_escape(key) || has_path_escape(value)),
        Value::Null | Value::Bool(_) | Value::Number(_) => false,
    }
}

fn text_has_path_escape(text: &str) -> bool {
    // A path can be part of a longer text. Therefore white space, quotes and other punctuation end
    // a segment, too, not only slashes.
    let ends_segment =
        |character: char| character.is_whitespace() || "/\\?#&;=:,|\"'`()<>".contains(character);
    let has_parent_segment = |text: &str| text.split(ends_segment).any(|segment| segment == "..");
    let text = percent_decode(text);
    text.contains(is_path_lookalike)
        || has_percent_code(&text)
        || has_parent_segment(&text)
        || text.contains(is_ignorable_in_path)
            && has_parent_segment(&text.replace(is_ignorable_in_path, ""))
}

/// Whether the character makes the meaning of a path uncertain. NUL ends a path early. U+FFFD
/// results from decoding percent codes that are not UTF-8. Some programs treat the other characters
/// as a dot, a slash or a backslash.
fn is_path_lookalike(character: char) -> bool {
    matches!(
        character,
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

/// Whether some programs remove the character from a path.
fn is_ignorable_in_path(character: char) -> bool {
    character.is_control()
        || matches!(
            character,
            '\u{ad}' | '\u{200b}'..='\u{200f}' | '\u{2060}' | '\u{feff}'
        )
}

/// Whether a text contains a percent code. In a text that was already decoded once, such a code was
/// nested, and a server that decodes twice would use another path.
fn has_percent_code(text: &str) -> bool {
    matches!(Cow::<[u8]>::from(percent_decode_str(text)), Cow::Owned(_))
}

/// Decodes all percent codes once. Codes that appear only after decoding stay.
fn percent_decode(text: &str) -> Cow<'_, str> {
    percent_decode_str(text).decode_utf8_lossy()
}

/// Returns the path of a `file:` URL, and other texts unchanged.
fn strip_file_scheme(text: &str) -> &str {
    let scheme = text.get(..5);
    if !scheme.is_some_and(|scheme| scheme.eq_ignore_ascii_case("file:")) {
        return text;
    }
    let rest = text.get(5..).unwrap_or_default();
    match rest.strip_prefix("//") {
        // The path starts after the host.
        Some(rest) => rest.find('/').and_then(|at| rest.get(at..)).unwrap_or(rest),
        None => rest,
    }
}

/// Decodes the percent codes of dots, slashes and backslashes. Other codes stay, because the text
/// may have been decoded before.
fn decode_path_characters(text: &str) -> Cow<'_, str> {
    const CODES: [(&str, &str); 6] = [
        ("%2e", "."),
        ("%2E", "."),
        ("%2f", "/"),
        ("%2F", "/"),
        ("%5c", "\\"),
        ("%5C", "\\"),
    ];
    if !text.contains('%') {
        return Cow::Borrowed(text);
    }
    let decode = |text: String, (code, character): (&str, &str)| text.replace(code, character);
    Cow::Owned(CODES.into_iter().fold(text.to_owned(), decode))
}

/// Resolves `.`, `..` and doubled `/` in a path. Returns `None` if the text contains no slash or
/// does not change.
fn normalize_path(text: &str) -> Option<String> {
    let decoded = decode_path_characters(text);
    if !decoded.contains('/') {
        return None;
    }
    let mut segments: Vec<&str> = Vec::new();
    let is_absolute = decoded.starts_with('/');
    for segment in decoded.split('/') {
        match (segment, segments.last()) {
            ("" | ".", _) => {}
            ("..", Some(last)) if *last != ".." => drop(segments.pop()),
            ("..", _) if is_absolute => {}
            _ => segments.push(segment),
        }
    }
    let root = if is_absolute { "/" } else { "" };
    let path = format!("{root}{}", segments.join("/"));
    (path != text).then_some(path)
}
