//! Typed access to the fields of one entry: type check, range check and expansion.
//!
//! An invalid value is reported and then treated as absent, so that one run reports all problems of
//! an entry.

use std::collections::BTreeMap;
use std::num::NonZeroUsize;
use std::ops::RangeInclusive;
use std::time::Duration;

use super::{EntryContext, EntryError};
use crate::diagnostic::Severity;
use crate::expand::{ExpandError, MAX_EXPANDED, expand};
use crate::key_table;
use crate::raw::{Problem, RawKind, RawMember, RawValue, Span};
use crate::secret::Secret;
use crate::server::InheritEnv;
use crate::text::replace_control_chars;

/// An error and its span.
pub(super) struct LocatedError {
    pub(super) span: Span,
    pub(super) problem: EntryError,
}

impl LocatedError {
    pub(super) fn at(span: Span, problem: EntryError) -> Self {
        Self { span, problem }
    }

    pub(super) fn wrong_type(member: &RawMember, expected: &str) -> Self {
        let key = replace_control_chars(&member.key);
        let found = member.value.kind_name();
        let message = format!("`{key}` must be {expected}, not {found}");
        Self::at(member.value.span, EntryError::new(message))
    }
}

pub(super) struct EntryFields<'a> {
    pub(super) raw: &'a RawValue,
    pub(super) context: EntryContext<'a>,
    pub(super) problems: Vec<Problem>,
    /// The first error found. It makes the entry invalid.
    pub(super) first_error: Option<EntryError>,
    /// Total size of all expanded values so far, in bytes.
    expanded: usize,
}

impl<'a> EntryFields<'a> {
    pub(super) fn new(raw: &'a RawValue, context: EntryContext<'a>) -> Self {
        Self {
            raw,
            context,
            problems: Vec::new(),
            first_error: None,
            expanded: 0,
        }
    }

    pub(super) fn require(&self, key: &str) -> Result<&'a RawMember, LocatedError> {
        self.raw.member(key).ok_or_else(|| {
            let problem = EntryError::new(format!("`{key}` is missing"));
            let hint = "required for this `type`";
            LocatedError::at(self.raw.span, problem.hint(hint))
        })
    }

    /// Reads and expands a string.
    pub(super) fn text(&mut self, key: &str) -> Option<String> {
        let member = self.raw.member(key)?;
        self.text_of(member)
    }

    pub(super) fn text_of(&mut self, member: &RawMember) -> Option<String> {
        let RawKind::Text(written) = &member.value.kind else {
            self.fail_type(member, "a string");
            return None;
        };
        self.expand(&member.key, &member.value, written)
    }

    /// Reads a string without expanding it.
    pub(super) fn unexpanded_text(&mut self, key: &str) -> Option<String> {
        let member = self.raw.member(key)?;
        let RawKind::Text(written) = &member.value.kind else {
            self.fail_type(member, "a string");
            return None;
        };
        Some(written.clone())
    }

    /// Reads and expands a list of strings. Numbers are converted to their digits.
    pub(super) fn string_list(&mut self, key: &str) -> Vec<String> {
        let Some(member) = self.raw.member(key) else {
            return Vec::new();
        };
        let RawKind::List(items) = &member.value.kind else {
            self.fail_type(member, "a list of strings");
            return Vec::new();
        };
        let mut string_list = Vec::new();
        for item in items {
            match &item.kind {
                RawKind::Text(written) => string_list.extend(self.expand(key, item, written)),
                RawKind::Number(digits) => string_list.push(digits.clone()),
                _ => {
                    let found = item.kind_name();
                    let message =
                        format!("`{key}` must be a list of strings, but contains {found}");
                    self.fail_at(item.span, EntryError::new(message));
                }
            }
        }
        string_list
    }

    /// Reads and expands an object of strings. Numbers and booleans are converted to text. `check`
    /// returns the problem of a name or value.
    pub(super) fn secrets(
        &mut self,
        key: &str,
        check: fn(&str, &str) -> Option<&'static str>,
    ) -> BTreeMap<String, Secret> {
        let Some(member) = self.raw.member(key) else {
            return BTreeMap::new();
        };
        let RawKind::Object(members) = &member.value.kind else {
            self.fail_type(member, "an object of strings");
            return BTreeMap::new();
        };
        let mut secrets = BTreeMap::new();
        for member in members {
            let Some(value) = self.scalar(key, member) else {
                continue;
            };
            if let Some(problem) = check(&member.key, &value) {
                let message = format!(
                    "`{}` in `{key}` {problem}",
                    replace_control_chars(&member.key)
                );
                self.fail_at(member.key_span, EntryError::new(message));
            }
            secrets.insert(member.key.clone(), Secret::new(value));
        }
        secrets
    }

    fn scalar(&mut self, key: &str, member: &RawMember) -> Option<String> {
        match &member.value.kind {
            RawKind::Text(written) => self.expand(key, &member.value, written),
            RawKind::Number(digits) => Some(digits.clone()),
            RawKind::Bool(flag) => Some(flag.to_string()),
            RawKind::Null | RawKind::List(_) | RawKind::Object(_) => {
                self.fail_type(member, "a string");
                None
            }
        }
    }

    pub(super) fn inherit_env(&mut self) -> InheritEnv {
        let Some(member) = self.raw.member("inheritEnv") else {
            return InheritEnv::Default;
        };
        let inherit = match &member.value.kind {
            RawKind::Text(word) => (word == "all").then_some(InheritEnv::All),
            RawKind::List(items) => {
                let names: Option<_> = items.iter().map(as_text).collect();
                names.map(InheritEnv::Also)
            }
            _ => None,
        };
        if inherit.is_none() {
            let message = "`inheritEnv` must be \"all\" or a list of names";
            self.fail(member, EntryError::new(message));
        }
        inherit.unwrap_or_default()
    }

    pub(super) fn flag(&mut self, key: &str) -> bool {
        let Some(member) = self.raw.member(key) else {
            return false;
        };
        if let RawKind::Bool(flag) = member.value.kind {
            return flag;
        }
        self.fail_type(member, "true or false");
        false
    }

    pub(super) fn duration(&mut self, key: &str) -> Option<Duration> {
        let member = self.raw.member(key)?;
        let millis = self.number(member, key_table::TIMEOUT_RANGE)?;
        Some(Duration::from_millis(millis))
    }

    pub(super) fn count(&mut self, key: &str) -> Option<NonZeroUsize> {
        let member = self.raw.member(key)?;
        let count: u32 = self.number(member, key_table::COUNT_RANGE)?;
        NonZeroUsize::new(usize::try_from(count).ok()?)
    }

    /// Reads a whole number within `range`.
    pub(super) fn number<T: TryFrom<u64>>(
        &mut self,
        member: &RawMember,
        range: RangeInclusive<u64>,
    ) -> Option<T> {
        let expected = format!("a whole number from {} to {}", range.start(), range.end());
        let RawKind::Number(digits) = &member.value.kind else {
            self.fail_type(member, &expected);
            return None;
        };
        let number = digits.parse().ok().filter(|number| range.contains(number));
        if number.is_none() {
            let message = format!(
                "`{}` must be {expected}",
                replace_control_chars(&member.key)
            );
            self.fail(member, EntryError::new(message));
        }
        number.and_then(|number| T::try_from(number).ok())
    }

    /// Expands `written`. Rejects NUL characters, which cannot be passed to a program.
    fn expand(&mut self, key: &str, value: &RawValue, written: &str) -> Option<String> {
        let expanded = expand(written, self.context.environment).and_then(|text| {
            self.expanded += text.len();
            if self.expanded > MAX_EXPANDED {
                return Err(ExpandError::TooLong);
            }
            Ok(text)
        });
        match expanded {
            Ok(text) if text.contains('\0') => {
                let message = format!("`{key}` must not contain a NUL character");
                self.fail_at(value.span, EntryError::new(message));
                None
            }
            Ok(text) => Some(text),
            Err(error) => {
                let problem = EntryError::new(error.to_string());
                let problem = match error {
                    ExpandError::Unset { name } => {
                        problem.hint(format!("export {name}=… or write ${{{name}:-default}}"))
                    }
                    ExpandError::TooLong => problem,
                };
                self.fail_at(value.span, problem);
                None
            }
        }
    }

    pub(super) fn fail(&mut self, member: &RawMember, problem: EntryError) {
        self.fail_at(member.value.span, problem);
    }

    pub(super) fn fail_type(&mut self, member: &RawMember, expected: &str) {
        let LocatedError { span, problem } = LocatedError::wrong_type(member, expected);
        self.fail_at(span, problem);
    }

    fn fail_at(&mut self, span: Span, problem: EntryError) {
        let located = LocatedError::at(span, problem);
        self.report(&located);
        self.first_error.get_or_insert(located.problem);
    }

    /// Adds an error to the problems of the source.
    pub(super) fn report(&mut self, located: &LocatedError) {
        let EntryError { message, hint } = located.problem.clone();
        self.problems.push(Problem {
            severity: self.context.scope.failure_severity(),
            message,
            hint,
            span: Some(located.span),
            server: Some(self.context.name.clone()),
        });
    }

    pub(super) fn warn(&mut self, span: Span, message: String) {
        self.warn_with_hint(span, message, None);
    }

    pub(super) fn warn_with_hint(&mut self, span: Span, message: String, hint: Option<String>) {
        self.problems.push(Problem {
            severity: Severity::Warning,
            message,
            hint,
            span: Some(span),
            server: Some(self.context.name.clone()),
        });
    }
}

fn as_text(value: &RawValue) -> Option<String> {
    match &value.kind {
        RawKind::Text(text) => Some(text.clone()),
        _ => None,
    }
}

/// Checks the name of an environment variable.
pub(super) fn check_variable(name: &str, _value: &str) -> Option<&'static str> {
    (name.is_empty() || name.contains(['=', '\0'])).then_some("is not a valid variable name")
}

/// Checks the name and the value of a header.
pub(super) fn check_header(name: &str, value: &str) -> Option<&'static str> {
    let is_token = |c: char| c.is_ascii_alphanumeric() || "!#$%&'*+-.^_`|~".contains(c);
    if name.is_empty() || !name.chars().all(is_token) {
        Some("is not a valid header name")
    } else if value.contains(|c: char| c.is_control() && c != '\t') {
        Some("must not contain line breaks or other control characters")
    } else {
        None
    }
}
