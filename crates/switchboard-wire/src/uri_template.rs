//! URI templates (RFC 6570): parsing, and expansion with values.
//!
//! [`UriTemplate`] only expands. [`UriMatcher`] does the opposite for two kinds of expressions.
//!
//! Invariant: expansion takes one pass over the template and over each value, and the result is at
//! most 64 KiB.

mod matcher;

use std::collections::BTreeMap;

#[doc(hidden)]
pub use matcher::UriMatcher;

/// Maximum length of templates and of expanded URIs, in bytes.
const MAX_URI_BYTES: usize = 64 * 1024;
/// How much of a malformed template is shown in the error.
const MAX_SHOWN_CHARS: usize = 80;
/// The reserved characters of RFC 3986.
const RESERVED: &[u8] = b":/?#[]@!$&'()*+,;=";

/// A parsed template.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UriTemplate<'a> {
    parts: Vec<TemplatePart<'a>>,
}

/// Why a template cannot be parsed or expanded.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum TemplateError {
    /// The text is not a valid template.
    #[error("invalid URI template at {text:?}: {problem}")]
    Malformed {
        /// The template from the invalid part on, truncated.
        text: String,
        /// What is wrong with the part.
        problem: &'static str,
    },
    /// Required variables have no value.
    #[error("no value for {}", .0.join(", "))]
    Missing(Vec<String>),
    /// The template has no variable with this name.
    #[error("there is no variable {0:?}")]
    Unknown(String),
    /// The template or the expanded URI is too long.
    #[error("the URI would be longer than {MAX_URI_BYTES} bytes")]
    TooLong,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum TemplatePart<'a> {
    Literal(&'a str),
    Expression {
        operator: Operator,
        variables: Vec<Variable<'a>>,
    },
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Variable<'a> {
    name: &'a str,
    /// `*`: each item of a list is expanded separately.
    is_exploded: bool,
    /// `:n`: only the first n characters of the value are used.
    max_chars: Option<usize>,
}

/// How an expression is expanded. Determined by the character after the opening brace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Operator {
    /// Written before the first value.
    prefix: &'static str,
    /// Written between values.
    separator: &'static str,
    /// Values are written as `name=value`, and variables may be missing.
    is_named: bool,
    /// Written between the name and an empty value.
    before_empty: &'static str,
    /// Reserved characters in values are not percent-encoded.
    keeps_reserved: bool,
}

impl Operator {
    /// Expressions without an operator character.
    const SIMPLE: Self = Self {
        prefix: "",
        separator: ",",
        is_named: false,
        before_empty: "",
        keeps_reserved: false,
    };

    fn from_char(operator: char) -> Option<Self> {
        let simple = Self::SIMPLE;
        let separated_by = |separator| Self {
            prefix: separator,
            separator,
            ..simple
        };
        let named = |prefix, separator, before_empty| Self {
            prefix,
            separator,
            before_empty,
            is_named: true,
            ..simple
        };
        let reserved = |prefix| Self {
            prefix,
            keeps_reserved: true,
            ..simple
        };
        Some(match operator {
            '+' => reserved(""),
            '#' => reserved("#"),
            '.' => separated_by("."),
            '/' => separated_by("/"),
            ';' => named(";", ";", ""),
            '?' => named("?", "&", "="),
            '&' => named("&", "&", "="),
            _ => return None,
        })
    }
}

impl<'a> UriTemplate<'a> {
    /// Parses a template. A text without braces is a template without variables.
    pub fn parse(text: &'a str) -> Result<Self, TemplateError> {
        if text.len() > MAX_URI_BYTES {
            return Err(TemplateError::TooLong);
        }
        let mut parts = Vec::new();
        let mut rest = text;
        while let Some((literal, after)) = rest.split_once('{') {
            if literal.contains('}') {
                return Err(unmatched_closing_brace(rest));
            }
            let malformed = |problem| malformed(rest, problem);
            let (expression, after) = after
                .split_once('}')
                .ok_or_else(|| malformed("a brace is not closed"))?;
            parts.push(TemplatePart::Literal(literal));
            parts.push(TemplatePart::parse_expression(expression).map_err(malformed)?);
            rest = after;
        }
        if rest.contains('}') {
            return Err(unmatched_closing_brace(rest));
        }
        parts.push(TemplatePart::Literal(rest));
        Ok(Self { parts })
    }

    /// Returns each variable once, in order, and whether it is optional.
    pub fn variables(&self) -> Vec<(&'a str, bool)> {
        let mut variables: Vec<(&str, bool)> = Vec::new();
        let mut index_by_name = BTreeMap::new();
        for part in &self.parts {
            let TemplatePart::Expression {
                operator,
                variables: in_expression,
            } = part
            else {
                continue;
            };
            for variable in in_expression {
                let index = *index_by_name.entry(variable.name).or_insert_with(|| {
                    variables.push((variable.name, true));
                    variables.len() - 1
                });
                if let Some((_, is_optional)) = variables.get_mut(index) {
                    *is_optional &= operator.is_named;
                }
            }
        }
        variables
    }

    /// Expands the template. A value is a list; most have one item.
    pub fn expand(&self, values: &BTreeMap<String, Vec<String>>) -> Result<String, TemplateError> {
        let variables = self.variables();
        let is_known = |name: &&String| variables.iter().any(|(known, _)| known == name);
        if let Some(unknown) = values.keys().find(|name| !is_known(name)) {
            return Err(TemplateError::Unknown(unknown.clone()));
        }
        let has_value = |name: &str| values.get(name).is_some_and(|items| !items.is_empty());
        let missing: Vec<_> = variables
            .iter()
            .filter(|(name, is_optional)| !is_optional && !has_value(name))
            .map(|(name, _)| (*name).to_owned())
            .collect();
        if !missing.is_empty() {
            return Err(TemplateError::Missing(missing));
        }
        let mut uri = String::new();
        for part in &self.parts {
            part.expand(values, &mut uri);
            if uri.len() > MAX_URI_BYTES {
                return Err(TemplateError::TooLong);
            }
        }
        Ok(uri)
    }
}

fn unmatched_closing_brace(rest: &str) -> TemplateError {
    malformed(rest, "a closing brace has no opening brace")
}

fn malformed(rest: &str, problem: &'static str) -> TemplateError {
    TemplateError::Malformed {
        text: rest.chars().take(MAX_SHOWN_CHARS).collect(),
        problem,
    }
}

impl<'a> TemplatePart<'a> {
    fn parse_expression(expression: &'a str) -> Result<Self, &'static str> {
        let first = expression.chars().next();
        let first = first.ok_or("there is no variable between the braces")?;
        let (operator, names) = match Operator::from_char(first) {
            Some(operator) => (operator, expression.get(1..).unwrap_or_default()),
            None => (Operator::SIMPLE, expression),
        };
        let variables = names.split(',').map(Variable::parse);
        Ok(Self::Expression {
            operator,
            variables: variables.collect::<Result<_, _>>()?,
        })
    }

    fn expand(&self, values: &BTreeMap<String, Vec<String>>, uri: &mut String) {
        let (operator, variables) = match self {
            Self::Literal(text) => return push_encoded(uri, text, true),
            Self::Expression {
                operator,
                variables,
            } => (*operator, variables),
        };
        let mut is_first = true;
        for variable in variables {
            let Some(items) = values.get(variable.name).filter(|items| !items.is_empty()) else {
                continue;
            };
            uri.push_str(if is_first {
                operator.prefix
            } else {
                operator.separator
            });
            is_first = false;
            variable.expand(items, operator, uri);
            // The caller rejects a URI that is too long.
            if uri.len() > MAX_URI_BYTES {
                return;
            }
        }
    }
}

impl<'a> Variable<'a> {
    fn parse(text: &'a str) -> Result<Self, &'static str> {
        /// RFC 6570 allows only lengths less than this.
        const MAX_PREFIX: usize = 10_000;
        let (name, is_exploded, max_chars) = match (text.strip_suffix('*'), text.split_once(':')) {
            (Some(name), _) => (name, true, None),
            (None, Some((name, length))) => {
                let length = length.parse().ok();
                let length = length.filter(|length| (1..MAX_PREFIX).contains(length));
                let length = length.ok_or("the length after `:` must be a number below 10000")?;
                (name, false, Some(length))
            }
            (None, None) => (text, false, None),
        };
        let is_allowed = |letter: char| letter.is_ascii_alphanumeric() || "_.%-".contains(letter);
        if name.is_empty() || !name.chars().all(is_allowed) {
            return Err("a variable name may only have letters, digits, `_`, `.`, `-` and `%`");
        }
        Ok(Self {
            name,
            is_exploded,
            max_chars,
        })
    }

    fn expand(&self, items: &[String], operator: Operator, uri: &mut String) {
        let separator = if self.is_exploded {
            operator.separator
        } else {
            ","
        };
        for (index, item) in items.iter().enumerate() {
            if index > 0 {
                uri.push_str(separator);
            }
            if operator.is_named && (index == 0 || self.is_exploded) {
                push_encoded(uri, self.name, true);
                let is_empty = item.is_empty() && (self.is_exploded || items.len() == 1);
                uri.push_str(if is_empty { operator.before_empty } else { "=" });
            }
            let end = self
                .max_chars
                .and_then(|max_chars| item.char_indices().nth(max_chars));
            let prefix = end.and_then(|(end, _)| item.get(..end)).unwrap_or(item);
            push_encoded(uri, prefix, operator.keeps_reserved);
            if uri.len() > MAX_URI_BYTES {
                return;
            }
        }
    }
}

/// Appends a text, with percent-encoding of all characters but the unreserved ones. With
/// `keeps_reserved`, reserved characters and percent-encoded bytes are kept, too.
fn push_encoded(uri: &mut String, text: &str, keeps_reserved: bool) {
    const DIGITS: [u8; 16] = *b"0123456789ABCDEF";
    let bytes = text.as_bytes();
    let is_hex_digit = |at: usize| bytes.get(at).is_some_and(u8::is_ascii_hexdigit);
    for (at, byte) in bytes.iter().copied().enumerate() {
        let is_unreserved = byte.is_ascii_alphanumeric() || b"-._~".contains(&byte);
        let is_kept = match byte {
            b'%' => is_hex_digit(at + 1) && is_hex_digit(at + 2),
            _ => RESERVED.contains(&byte),
        };
        if is_unreserved || (keeps_reserved && is_kept) {
            uri.push(char::from(byte));
            continue;
        }
        uri.push('%');
        for half in [byte >> 4, byte & 0x0f] {
            let digit = DIGITS.get(usize::from(half)).copied().unwrap_or_default();
            uri.push(char::from(digit));
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn values<const N: usize>(given: [(&str, &[&str]); N]) -> BTreeMap<String, Vec<String>> {
        let owned = |items: &[&str]| items.iter().map(|item| (*item).to_owned()).collect();
        let given = given.iter();
        given
            .map(|(name, items)| ((*name).to_owned(), owned(items)))
            .collect()
    }

    fn expand<const N: usize>(
        template: &str,
        given: [(&str, &[&str]); N],
    ) -> Result<String, TemplateError> {
        UriTemplate::parse(template)?.expand(&values(given))
    }

    #[test]
    fn operators_expand_as_specified() {
        let cases: [(&str, &str, &[&str], &str); 34] = [
            ("{v}", "v", &["value"], "value"),
            ("{v}", "v", &["Hello World!"], "Hello%20World%21"),
            ("{v}", "v", &["50%"], "50%25"),
            ("{v}", "v", &["é"], "%C3%A9"),
            ("{v:3}", "v", &["value"], "val"),
            ("{v:30}", "v", &["value"], "value"),
            ("{v:1}", "v", &["éa"], "%C3%A9"),
            ("{v}", "v", &["a", "b"], "a,b"),
            ("{v*}", "v", &["a", "b"], "a,b"),
            ("{+v}", "v", &["/foo/bar"], "/foo/bar"),
            ("{+v}", "v", &["50% %20"], "50%25%20%20"),
            ("{+v:6}here", "v", &["/foo/bar"], "/foo/bhere"),
            ("{#v}", "v", &["Hello World!"], "#Hello%20World!"),
            ("{#v*}", "v", &["a", "b"], "#a,b"),
            ("X{.v}", "v", &["value"], "X.value"),
            ("X{.v}", "v", &["a", "b"], "X.a,b"),
            ("X{.v*}", "v", &["a", "b"], "X.a.b"),
            ("{/v}", "v", &["1/2"], "/1%2F2"),
            ("{/v}", "v", &["a", "b"], "/a,b"),
            ("{/v*}", "v", &["a", "b"], "/a/b"),
            ("{;v}", "v", &["1024"], ";v=1024"),
            ("{;v}", "v", &[""], ";v"),
            ("{;v}", "v", &["a", "b"], ";v=a,b"),
            ("{;v*}", "v", &["a", "b"], ";v=a;v=b"),
            ("{?v}", "v", &["1024"], "?v=1024"),
            ("{?v}", "v", &[""], "?v="),
            ("{?v}", "v", &["a", "b"], "?v=a,b"),
            ("{?v*}", "v", &["a", "b"], "?v=a&v=b"),
            ("{?v:3}", "v", &["value"], "?v=val"),
            ("?fixed=yes{&v}", "v", &["1"], "?fixed=yes&v=1"),
            ("a b/ü{?v}", "v", &["1"], "a%20b/%C3%BC?v=1"),
            ("{v}{v}", "v", &["1"], "11"),
            ("demo://{v}/x", "v", &["../a"], "demo://..%2Fa/x"),
            ("demo://plain%20", "", &[], "demo://plain%20"),
        ];
        for (template, name, items, expected) in cases {
            let given = if name.is_empty() {
                values([])
            } else {
                values([(name, items)])
            };
            let uri = UriTemplate::parse(template).unwrap().expand(&given);
            assert_eq!(uri.unwrap(), expected, "{template} {items:?}");
        }
    }

    #[test]
    fn optional_variables_may_be_missing() {
        let both: [(&str, &[&str]); 2] = [("x", &["1"]), ("y", &["2"])];
        assert_eq!(expand("{x,y}", both).unwrap(), "1,2");
        assert_eq!(expand("{/x,y}", both).unwrap(), "/1/2");
        assert_eq!(expand("{?x,y}", both).unwrap(), "?x=1&y=2");
        assert_eq!(expand("{?x,y}", [("y", &["2"])]).unwrap(), "?y=2");
        assert_eq!(expand("a{?x,y}", []).unwrap(), "a");
        assert_eq!(
            expand("{x}/{y}{?z}", []),
            Err(TemplateError::Missing(vec!["x".into(), "y".into()]))
        );
        assert_eq!(expand("{x}", both), Err(TemplateError::Unknown("y".into())));
    }

    #[test]
    fn variables_are_listed_once_in_order() {
        let template = UriTemplate::parse("{b}{/a*}{?b,c}").unwrap();
        assert_eq!(
            template.variables(),
            [("b", false), ("a", false), ("c", true)]
        );
        assert!(
            UriTemplate::parse("demo://a")
                .unwrap()
                .variables()
                .is_empty()
        );
    }

    #[test]
    fn malformed_template_is_rejected() {
        for text in [
            "{", "}", "a}{b}", "{}", "{a", "{a b}", "{=a}", "{a:0}", "{a:x}", "{{a}}", "{a,}",
        ] {
            let error = UriTemplate::parse(text).unwrap_err();
            assert!(matches!(error, TemplateError::Malformed { .. }), "{text}");
        }
    }

    #[test]
    fn expansion_is_fast_and_bounded() {
        let commas = ",".repeat(10_000);
        let uri = expand("demo://x{/id*}", [("id", &[&commas])]).unwrap();
        assert_eq!(uri, format!("demo://x/{}", "%2C".repeat(10_000)));
        let items = vec![""; 10_001];
        let uri = expand("demo://x{/id*}", [("id", &items)]).unwrap();
        assert_eq!(uri, format!("demo://x{}", "/".repeat(10_001)));
        let more = ",".repeat(100_000);
        assert_eq!(
            expand("demo://x{/id*}", [("id", &[&more])]),
            Err(TemplateError::TooLong)
        );
        let names = format!("{{{}a}}", "a,".repeat(10_000));
        assert!(expand(&names, [("a", &["1"])]).is_ok());
        assert_eq!(
            expand(&names, [("a", &[&commas])]),
            Err(TemplateError::TooLong)
        );
        assert_eq!(
            UriTemplate::parse(&"{a}".repeat(30_000)),
            Err(TemplateError::TooLong)
        );
    }

    proptest! {
        #[test]
        fn value_is_fully_encoded(value in ".*") {
            let uri = expand("demo://{v}", [("v", &[&value])]).unwrap();
            let rest = uri.strip_prefix("demo://").unwrap();
            let is_encoded = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~%".contains(&byte);
            prop_assert!(rest.bytes().all(is_encoded));
        }
    }
}
