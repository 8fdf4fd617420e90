//! Matches URIs against a template and extracts the values of its variables.
//!
//! Only the expressions `{name}` and `{+name}` of RFC 6570 are supported: for others, the values
//! cannot be determined from the URI.
//!
//! Invariant: matching takes time proportional to the length of the URI times the number of parts
//! of the template. There is no backtracking.

use std::collections::BTreeMap;

use super::RESERVED;

/// Longer URIs match no template.
const MAX_URI_BYTES: usize = 64 * 1024;
/// Maximum number of variables in a template.
const MAX_VARIABLES: usize = 16;

/// A template that URIs are matched against.
#[derive(Debug)]
pub struct UriMatcher {
    parts: Vec<MatcherPart>,
}

#[derive(Debug)]
enum MatcherPart {
    Literal(String),
    /// Matches at least one byte.
    Variable {
        name: String,
        /// `{+name}`: the value may contain reserved characters, such as `/`.
        allows_reserved: bool,
    },
}

impl UriMatcher {
    /// Parses a template. The error says what is wrong with it.
    pub fn parse(template: &str) -> Result<Self, String> {
        let mut parts = Vec::new();
        let mut rest = template;
        while let Some((literal, after)) = rest.split_once('{') {
            let (expression, after) = after.split_once('}').ok_or("a brace is not closed")?;
            if !literal.is_empty() {
                parts.push(MatcherPart::Literal(literal.to_owned()));
            } else if matches!(parts.last(), Some(MatcherPart::Variable { .. })) {
                return Err("there must be text between two variables".to_owned());
            }
            parts.push(MatcherPart::parse_variable(expression)?);
            rest = after;
        }
        if !rest.is_empty() {
            parts.push(MatcherPart::Literal(rest.to_owned()));
        }
        let literals = parts.iter().filter_map(|part| match part {
            MatcherPart::Literal(text) => Some(text),
            MatcherPart::Variable { .. } => None,
        });
        if literals.clone().any(|text| text.contains('}')) {
            return Err("a closing brace has no opening brace".to_owned());
        }
        match parts.len() - literals.count() {
            0 => Err("it has no variables; register it as a resource".to_owned()),
            count if count > MAX_VARIABLES => {
                Err(format!("it has more than {MAX_VARIABLES} variables"))
            }
            _ => Ok(Self { parts }),
        }
    }

    /// Returns the values of the variables, or `None` if the URI does not match. Each variable
    /// takes the longest possible value, from left to right.
    pub fn match_uri(&self, uri: &str) -> Option<BTreeMap<String, String>> {
        if uri.len() > MAX_URI_BYTES {
            return None;
        }
        let bytes = uri.as_bytes();
        let matches = self.match_table(bytes);
        let mut values = BTreeMap::new();
        let mut start = 0;
        if !*matches.first()?.first()? {
            return None;
        }
        for (part, matches_after) in self.parts.iter().zip(matches.iter().skip(1)) {
            let rest = bytes.get(start..)?;
            let end = match part {
                MatcherPart::Literal(text) => start + text.len(),
                MatcherPart::Variable { .. } => {
                    let max_length = rest.iter().take_while(|byte| part.accepts(**byte)).count();
                    let mut ends = (start + 1..=start + max_length).rev();
                    ends.find(|end| matches_after.get(*end) == Some(&true))?
                }
            };
            if let MatcherPart::Variable { name, .. } = part {
                let value = percent_decode(bytes.get(start..end)?)?;
                let previous = values.insert(name.clone(), value.clone());
                // A variable that occurs twice must have one value.
                if previous.is_some_and(|previous| previous != value) {
                    return None;
                }
            }
            start = end;
        }
        Some(values)
    }

    /// Returns for each part, and for the end of the template, at which offsets of the URI the rest
    /// of the template matches the rest of the URI. Computed from the end, so that each combination
    /// of part and offset is computed once.
    fn match_table(&self, uri: &[u8]) -> Vec<Vec<bool>> {
        let mut at_end = vec![false; uri.len() + 1];
        if let Some(end) = at_end.last_mut() {
            *end = true;
        }
        let mut table = vec![at_end];
        for part in self.parts.iter().rev() {
            let after = table.last().map(Vec::as_slice).unwrap_or_default();
            let matches = part.match_row(uri, after);
            table.push(matches);
        }
        table.reverse();
        table
    }
}

impl MatcherPart {
    fn parse_variable(expression: &str) -> Result<Self, String> {
        let (name, allows_reserved) = match expression.strip_prefix('+') {
            Some(name) => (name, true),
            None => (expression, false),
        };
        let is_allowed = |letter: char| letter.is_ascii_alphanumeric() || "_.".contains(letter);
        if name.is_empty() || !name.chars().all(is_allowed) {
            return Err(format!(
                "{{{expression}}} is not supported; use {{name}} or {{+name}}"
            ));
        }
        Ok(Self::Variable {
            name: name.to_owned(),
            allows_reserved,
        })
    }

    /// Returns for each offset whether the rest of the URI matches this part and all parts after
    /// it. `after` is the row of the next part.
    fn match_row(&self, uri: &[u8], after: &[bool]) -> Vec<bool> {
        let matches_after = |at: usize| after.get(at) == Some(&true);
        let mut row = vec![false; uri.len() + 1];
        let mut matches_at_next = false;
        for (at, matches) in row.iter_mut().enumerate().rev() {
            let rest = uri.get(at..).unwrap_or_default();
            *matches = match self {
                Self::Literal(text) => {
                    rest.starts_with(text.as_bytes()) && matches_after(at + text.len())
                }
                Self::Variable { .. } => {
                    let accepts = rest.first().is_some_and(|byte| self.accepts(*byte));
                    matches_at_next = accepts && (matches_after(at + 1) || matches_at_next);
                    matches_at_next
                }
            };
        }
        row
    }

    /// Whether the value of a variable may contain this byte.
    fn accepts(&self, byte: u8) -> bool {
        match self {
            Self::Literal(_) => false,
            Self::Variable {
                allows_reserved, ..
            } => *allows_reserved || !RESERVED.contains(&byte),
        }
    }
}

/// Decodes percent-encoding. `None` if it is malformed or the result is not UTF-8.
fn percent_decode(bytes: &[u8]) -> Option<String> {
    let hex_digit = |byte: Option<&u8>| char::from(*byte?).to_digit(16);
    let mut decoded = Vec::with_capacity(bytes.len());
    let mut rest = bytes.iter();
    while let Some(byte) = rest.next() {
        if *byte != b'%' {
            decoded.push(*byte);
            continue;
        }
        let value = hex_digit(rest.next())? * 16 + hex_digit(rest.next())?;
        decoded.push(u8::try_from(value).ok()?);
    }
    String::from_utf8(decoded).ok()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;
    use crate::uri_template::UriTemplate;

    fn values(template: &str, uri: &str) -> Option<Vec<(String, String)>> {
        let values = UriMatcher::parse(template).unwrap().match_uri(uri)?;
        Some(values.into_iter().collect())
    }

    fn pair(name: &str, value: &str) -> (String, String) {
        (name.to_owned(), value.to_owned())
    }

    #[test]
    fn uri_is_matched() {
        let row = "db://{table}/rows/{id}";
        let expected = vec![pair("id", "7"), pair("table", "a b")];
        assert_eq!(values(row, "db://a%20b/rows/7"), Some(expected));
        for other in [
            "db://a/rows/",
            "db://a/b/rows/7",
            "db://a/rows/7/8",
            "x",
            "",
        ] {
            assert_eq!(values(row, other), None, "{other}");
        }
        let file = "file:///{+path}.{ending}";
        let expected = vec![pair("ending", "gz"), pair("path", "a/b.tar")];
        assert_eq!(values(file, "file:///a/b.tar.gz"), Some(expected));
        let twice = "x://{a}/{a}";
        assert_eq!(values(twice, "x://1/1"), Some(vec![pair("a", "1")]));
        assert_eq!(values(twice, "x://1/2"), None);
        assert_eq!(values("x://{a}", "x://%zz"), None);
        assert_eq!(values("x://{a}", "x://%ff"), None);
    }

    #[test]
    fn unsupported_templates_are_rejected() {
        for template in [
            "x://plain",
            "x://{a",
            "x://a}",
            "x://{}",
            "x://{a,b}",
            "x://{?a}",
            "x://{/a}",
            "x://{a*}",
            "x://{a:3}",
            "x://{a}{b}",
        ] {
            assert!(UriMatcher::parse(template).is_err(), "{template}");
        }
    }

    #[test]
    fn matching_takes_bounded_time() {
        let variables: Vec<_> = (0..MAX_VARIABLES)
            .map(|at| format!("a{{+v{at}}}"))
            .collect();
        let pattern = UriMatcher::parse(&(variables.concat() + "b")).unwrap();
        assert_eq!(pattern.match_uri(&"a".repeat(MAX_URI_BYTES)), None);
        assert_eq!(pattern.match_uri(&"a".repeat(MAX_URI_BYTES + 1)), None);
    }

    proptest! {
        #[test]
        fn expanded_uri_matches_with_same_values(first in "\\PC{1,20}", second in "[a-z/ ]{1,20}") {
            let template = "x://{first}/of/{+second}";
            let given = BTreeMap::from([
                ("first".to_owned(), vec![first.clone()]),
                ("second".to_owned(), vec![second.clone()]),
            ]);
            let uri = UriTemplate::parse(template).unwrap().expand(&given).unwrap();
            prop_assert_eq!(
                values(template, &uri),
                Some(vec![pair("first", &first), pair("second", &second)])
            );
        }
    }
}
