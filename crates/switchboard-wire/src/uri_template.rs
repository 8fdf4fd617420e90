//! Addresses with variables in them (RFC 6570), and how they are filled in.
//!
//! It only fills in, and never takes an address apart by a template: that is where others ran for
//! ever. Pure. Invariant: one pass over the template and over each value, and what comes out is no
//! longer than an address may be.

mod matcher;

use std::collections::BTreeMap;

#[doc(hidden)]
pub use matcher::UriMatcher;

/// Longer templates and addresses than this are refused, in bytes.
const MOST_BYTES: usize = 64 * 1024;

/// A template of addresses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UriTemplate<'a> {
    parts: Vec<Part<'a>>,
}

/// Why an address could not be made of a template.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum TemplateError {
    /// It is not written as templates are.
    #[error("{text:?} is no template: {problem}")]
    Malformed {
        /// The part that is wrong.
        text: String,
        /// What is wrong with it.
        problem: &'static str,
    },
    /// Variables that an address cannot do without have no value.
    #[error("no value for {}", .0.join(", "))]
    Missing(Vec<String>),
    /// There is no such variable.
    #[error("there is no variable {0:?}")]
    Unknown(String),
    /// The template or the address is too long.
    #[error("the address would be longer than {MOST_BYTES} bytes")]
    TooLong,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Part<'a> {
    Literal(&'a str),
    Expression {
        operator: Operator,
        variables: Vec<Variable<'a>>,
    },
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Variable<'a> {
    name: &'a str,
    /// A list is written out item by item.
    is_exploded: bool,
    /// Only so many characters of the value.
    prefix: Option<usize>,
}

/// What the sign after a brace stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Operator {
    first: &'static str,
    separator: &'static str,
    /// `name=value`
    is_named: bool,
    /// What follows the name of an empty value.
    if_empty: &'static str,
    keeps_reserved: bool,
}

impl Operator {
    const SIMPLE: Self = Self {
        first: "",
        separator: ",",
        is_named: false,
        if_empty: "",
        keeps_reserved: false,
    };

    fn of(sign: char) -> Option<Self> {
        let plain = Self::SIMPLE;
        let parted = |sign| Self {
            first: sign,
            separator: sign,
            ..plain
        };
        let named = |first, separator, if_empty| Self {
            first,
            separator,
            if_empty,
            is_named: true,
            ..plain
        };
        let kept = |first| Self {
            first,
            keeps_reserved: true,
            ..plain
        };
        Some(match sign {
            '+' => kept(""),
            '#' => kept("#"),
            '.' => parted("."),
            '/' => parted("/"),
            ';' => named(";", ";", ""),
            '?' => named("?", "&", "="),
            '&' => named("&", "&", "="),
            _ => return None,
        })
    }
}

impl<'a> UriTemplate<'a> {
    /// Reads a template. A text without braces is one too.
    pub fn parse(text: &'a str) -> Result<Self, TemplateError> {
        if text.len() > MOST_BYTES {
            return Err(TemplateError::TooLong);
        }
        let mut parts = Vec::new();
        let mut rest = text;
        while let Some((literal, after)) = rest.split_once('{') {
            let problem = |problem| TemplateError::Malformed {
                text: rest.chars().take(80).collect(),
                problem,
            };
            if literal.contains('}') {
                return Err(problem("a brace is closed that was not opened"));
            }
            let (expression, after) = after
                .split_once('}')
                .ok_or_else(|| problem("a brace is not closed"))?;
            parts.push(Part::Literal(literal));
            parts.push(Part::parse(expression).map_err(problem)?);
            rest = after;
        }
        if rest.contains('}') {
            return Err(TemplateError::Malformed {
                text: rest.chars().take(80).collect(),
                problem: "a brace is closed that was not opened",
            });
        }
        parts.push(Part::Literal(rest));
        Ok(Self { parts })
    }

    /// Its variables in their order, each once, and whether an address can do without.
    pub fn variables(&self) -> Vec<(&'a str, bool)> {
        let mut found: Vec<(&str, bool)> = Vec::new();
        let mut known = BTreeMap::new();
        for part in &self.parts {
            let Part::Expression {
                operator,
                variables,
            } = part
            else {
                continue;
            };
            for variable in variables {
                let place = *known.entry(variable.name).or_insert_with(|| {
                    found.push((variable.name, true));
                    found.len() - 1
                });
                if let Some((_, is_optional)) = found.get_mut(place) {
                    *is_optional &= operator.is_named;
                }
            }
        }
        found
    }

    /// The address with these values. A value is a list; most have one item.
    pub fn expand(&self, values: &BTreeMap<String, Vec<String>>) -> Result<String, TemplateError> {
        let variables = self.variables();
        let is_known = |name: &&String| variables.iter().any(|(known, _)| known == name);
        if let Some(unknown) = values.keys().find(|name| !is_known(name)) {
            return Err(TemplateError::Unknown(unknown.clone()));
        }
        let is_given = |name: &str| values.get(name).is_some_and(|items| !items.is_empty());
        let missing = variables.iter().filter(|(name, is_optional)| {
            let has_to_be = !is_optional;
            has_to_be && !is_given(name)
        });
        let missing: Vec<_> = missing.map(|(name, _)| (*name).to_owned()).collect();
        if !missing.is_empty() {
            return Err(TemplateError::Missing(missing));
        }
        let mut address = String::new();
        for part in &self.parts {
            part.expand(values, &mut address);
            if address.len() > MOST_BYTES {
                return Err(TemplateError::TooLong);
            }
        }
        Ok(address)
    }
}

impl<'a> Part<'a> {
    fn parse(expression: &'a str) -> Result<Self, &'static str> {
        let sign = expression.chars().next();
        let sign = sign.ok_or("there is no variable between the braces")?;
        let (operator, names) = match Operator::of(sign) {
            Some(operator) => (operator, expression.get(1..).unwrap_or_default()),
            None => (Operator::SIMPLE, expression),
        };
        let variables = names.split(',').map(Variable::parse);
        Ok(Self::Expression {
            operator,
            variables: variables.collect::<Result<_, _>>()?,
        })
    }

    fn expand(&self, values: &BTreeMap<String, Vec<String>>, address: &mut String) {
        let (operator, variables) = match self {
            Self::Literal(text) => return encode(text, true, address),
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
            address.push_str(if is_first {
                operator.first
            } else {
                operator.separator
            });
            is_first = false;
            variable.expand(items, operator, address);
            // The rest would only make it longer.
            if address.len() > MOST_BYTES {
                return;
            }
        }
    }
}

impl<'a> Variable<'a> {
    fn parse(text: &'a str) -> Result<Self, &'static str> {
        const LONGEST_PREFIX: usize = 10_000;
        let (name, is_exploded, prefix) = match (text.strip_suffix('*'), text.split_once(':')) {
            (Some(name), _) => (name, true, None),
            (None, Some((name, prefix))) => {
                let prefix = prefix.parse().ok();
                let prefix = prefix.filter(|prefix| (1..LONGEST_PREFIX).contains(prefix));
                let prefix = prefix.ok_or("behind `:` stands a number below 10000")?;
                (name, false, Some(prefix))
            }
            (None, None) => (text, false, None),
        };
        let is_plain = |letter: char| letter.is_ascii_alphanumeric() || "_.%-".contains(letter);
        if name.is_empty() || !name.chars().all(is_plain) {
            return Err("a variable's name has letters, digits, `_` and `.`");
        }
        Ok(Self {
            name,
            is_exploded,
            prefix,
        })
    }

    fn expand(&self, items: &[String], operator: Operator, address: &mut String) {
        let between = if self.is_exploded {
            operator.separator
        } else {
            ","
        };
        for (place, item) in items.iter().enumerate() {
            if place > 0 {
                address.push_str(between);
            }
            if operator.is_named && (place == 0 || self.is_exploded) {
                encode(self.name, true, address);
                address.push_str(
                    if item.is_empty() && (self.is_exploded || items.len() == 1) {
                        operator.if_empty
                    } else {
                        "="
                    },
                );
            }
            let end = self.prefix.and_then(|most| item.char_indices().nth(most));
            let shown = end.and_then(|(end, _)| item.get(..end)).unwrap_or(item);
            encode(shown, operator.keeps_reserved, address);
            if address.len() > MOST_BYTES {
                return;
            }
        }
    }
}

/// Appends a text as it may stand in an address.
fn encode(text: &str, keeps_reserved: bool, address: &mut String) {
    const DIGITS: [u8; 16] = *b"0123456789ABCDEF";
    let bytes = text.as_bytes();
    let is_digit = |at: usize| bytes.get(at).is_some_and(u8::is_ascii_hexdigit);
    for (at, byte) in bytes.iter().copied().enumerate() {
        let is_plain = byte.is_ascii_alphanumeric() || b"-._~".contains(&byte);
        let is_kept = match byte {
            b'%' => is_digit(at + 1) && is_digit(at + 2),
            _ => b":/?#[]@!$&'()*+,;=".contains(&byte),
        };
        if is_plain || (keeps_reserved && is_kept) {
            address.push(char::from(byte));
            continue;
        }
        address.push('%');
        for half in [byte >> 4, byte & 0x0f] {
            let digit = DIGITS.get(usize::from(half)).copied().unwrap_or_default();
            address.push(char::from(digit));
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
    fn every_operator_does_what_the_standard_says() {
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
            let address = UriTemplate::parse(template).unwrap().expand(&given);
            assert_eq!(address.unwrap(), expected, "{template} {items:?}");
        }
    }

    #[test]
    fn several_variables_and_those_that_are_left_out() {
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
    fn variables_are_named_once_and_in_order() {
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
    fn what_is_no_template_is_told() {
        for text in [
            "{", "}", "a}{b}", "{}", "{a", "{a b}", "{=a}", "{a:0}", "{a:x}", "{{a}}", "{a,}",
        ] {
            let error = UriTemplate::parse(text).unwrap_err();
            assert!(matches!(error, TemplateError::Malformed { .. }), "{text}");
        }
    }

    #[test]
    fn r9_ten_thousand_commas_are_filled_in_at_once_and_more_are_refused() {
        let commas = ",".repeat(10_000);
        let address = expand("demo://x{/id*}", [("id", &[&commas])]).unwrap();
        assert_eq!(address, format!("demo://x/{}", "%2C".repeat(10_000)));
        let items = vec![""; 10_001];
        let address = expand("demo://x{/id*}", [("id", &items)]).unwrap();
        assert_eq!(address, format!("demo://x{}", "/".repeat(10_001)));
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
        fn a_value_can_be_nothing_but_a_value(value in ".*") {
            let address = expand("demo://{v}", [("v", &[&value])]).unwrap();
            let rest = address.strip_prefix("demo://").unwrap();
            let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~%".contains(&byte);
            prop_assert!(rest.bytes().all(is_plain));
        }
    }
}
