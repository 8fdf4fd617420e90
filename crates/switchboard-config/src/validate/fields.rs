//! The values of one entry, read by key: of the right type, within bounds, expanded.
//!
//! A value that is wrong is reported and then counts as absent, so that one look shows everything
//! that is wrong with an entry.

use std::collections::BTreeMap;
use std::num::NonZeroUsize;
use std::ops::RangeInclusive;
use std::time::Duration;

use super::{EntryContext, EntryProblem};
use crate::diagnostic::Severity;
use crate::expand::{ExpandError, MAX_EXPANDED, expand};
use crate::key_table;
use crate::raw::{Finding, RawKind, RawMember, RawValue, Span};
use crate::secret::Secret;
use crate::server::InheritEnv;
use crate::text::replace_control_chars;

/// A problem and its place.
pub(super) struct Located {
    pub(super) span: Span,
    pub(super) problem: EntryProblem,
}

impl Located {
    pub(super) fn at(span: Span, problem: EntryProblem) -> Self {
        Self { span, problem }
    }

    pub(super) fn wrong_type(member: &RawMember, expected: &str) -> Self {
        let key = replace_control_chars(&member.key);
        let found = member.value.kind_name();
        let message = format!("`{key}` must be {expected}, not {found}");
        Self::at(member.value.span, EntryProblem::new(message))
    }
}

pub(super) struct Fields<'a> {
    pub(super) raw: &'a RawValue,
    pub(super) context: EntryContext<'a>,
    pub(super) findings: Vec<Finding>,
    /// What makes the entry invalid.
    pub(super) first_problem: Option<EntryProblem>,
    /// How much was expanded so far.
    expanded: usize,
}

impl<'a> Fields<'a> {
    pub(super) fn new(raw: &'a RawValue, context: EntryContext<'a>) -> Self {
        Self {
            raw,
            context,
            findings: Vec::new(),
            first_problem: None,
            expanded: 0,
        }
    }

    pub(super) fn require(&self, key: &str) -> Result<&'a RawMember, Located> {
        self.raw.member(key).ok_or_else(|| {
            let problem = EntryProblem::new(format!("`{key}` is missing"));
            let hint = "an entry of this `type` needs it";
            Located::at(self.raw.span, problem.hint(hint))
        })
    }

    /// A string, expanded.
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

    /// A string, taken as written.
    pub(super) fn plain_text(&mut self, key: &str) -> Option<String> {
        let member = self.raw.member(key)?;
        let RawKind::Text(written) = &member.value.kind else {
            self.fail_type(member, "a string");
            return None;
        };
        Some(written.clone())
    }

    /// A list of strings, expanded; a number stands for its digits.
    pub(super) fn texts(&mut self, key: &str) -> Vec<String> {
        let Some(member) = self.raw.member(key) else {
            return Vec::new();
        };
        let RawKind::List(items) = &member.value.kind else {
            self.fail_type(member, "a list of strings");
            return Vec::new();
        };
        let mut texts = Vec::new();
        for item in items {
            match &item.kind {
                RawKind::Text(written) => texts.extend(self.expand(key, item, written)),
                RawKind::Number(digits) => texts.push(digits.clone()),
                _ => {
                    let found = item.kind_name();
                    let message = format!("`{key}` must be a list of strings, but holds {found}");
                    self.fail_at(item.span, EntryProblem::new(message));
                }
            }
        }
        texts
    }

    /// An object of strings, expanded; a number or a boolean stands for its text. `check` says what is
    /// wrong with a name and its value.
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
                self.fail_at(member.key_span, EntryProblem::new(message));
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
            self.fail(member, EntryProblem::new(message));
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
        let millis = self.number(member, key_table::MILLIS)?;
        Some(Duration::from_millis(millis))
    }

    pub(super) fn count(&mut self, key: &str) -> Option<NonZeroUsize> {
        let member = self.raw.member(key)?;
        let count: u32 = self.number(member, key_table::COUNT)?;
        NonZeroUsize::new(usize::try_from(count).ok()?)
    }

    /// A whole number within `range`.
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
            self.fail(member, EntryProblem::new(message));
        }
        number.and_then(|number| T::try_from(number).ok())
    }

    /// `written` with its variables replaced, fit to be handed to a program.
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
                let message = format!("`{key}` must not hold a NUL character");
                self.fail_at(value.span, EntryProblem::new(message));
                None
            }
            Ok(text) => Some(text),
            Err(error) => {
                let problem = EntryProblem::new(error.to_string());
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

    pub(super) fn fail(&mut self, member: &RawMember, problem: EntryProblem) {
        self.fail_at(member.value.span, problem);
    }

    pub(super) fn fail_type(&mut self, member: &RawMember, expected: &str) {
        let Located { span, problem } = Located::wrong_type(member, expected);
        self.fail_at(span, problem);
    }

    fn fail_at(&mut self, span: Span, problem: EntryProblem) {
        let located = Located::at(span, problem);
        self.report(&located);
        self.first_problem.get_or_insert(located.problem);
    }

    /// Tells a problem to whoever reads the diagnostics.
    pub(super) fn report(&mut self, located: &Located) {
        let EntryProblem { message, hint } = located.problem.clone();
        self.findings.push(Finding {
            severity: self.context.scope.severity_of_failure(),
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
        self.findings.push(Finding {
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

/// What is wrong with a variable that a program is to be given.
pub(super) fn check_variable(name: &str, _value: &str) -> Option<&'static str> {
    (name.is_empty() || name.contains(['=', '\0'])).then_some("is not the name of a variable")
}

/// What is wrong with a header that is to be sent.
pub(super) fn check_header(name: &str, value: &str) -> Option<&'static str> {
    let is_token = |c: char| c.is_ascii_alphanumeric() || "!#$%&'*+-.^_`|~".contains(c);
    if name.is_empty() || !name.chars().all(is_token) {
        Some("is not the name of a header")
    } else if value.contains(|c: char| c.is_control() && c != '\t') {
        Some("must not hold line breaks or other control characters")
    } else {
        None
    }
}
