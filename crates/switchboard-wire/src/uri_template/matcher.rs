//! Addresses taken apart: which of a server's templates an address was made of, and of what values.
//!
//! Only of the two expressions of RFC 6570 of which that can be said: `{name}` and `{+name}`.
//!
//! Invariant: it takes time in proportion to the length of the address, whatever the template.

use std::collections::BTreeMap;

/// Longer addresses than this fit no template, in bytes.
const LONGEST: usize = 64 * 1024;
/// More variables than this in a template are a mistake.
const MOST_VARIABLES: usize = 16;

/// A template, ready for addresses to be compared with it.
#[derive(Debug)]
pub struct UriMatcher {
    parts: Vec<Part>,
}

#[derive(Debug)]
enum Part {
    Literal(String),
    /// One character at least.
    Variable {
        name: String,
        /// Whatever separates the parts of an address may be in it.
        takes_reserved: bool,
    },
}

impl UriMatcher {
    /// Reads a template, or says what is wrong with it.
    pub fn parse(template: &str) -> Result<Self, String> {
        let mut parts = Vec::new();
        let mut rest = template;
        while let Some((literal, after)) = rest.split_once('{') {
            let (expression, after) = after
                .split_once('}')
                .ok_or("a brace is opened and not closed")?;
            if !literal.is_empty() {
                parts.push(Part::Literal(literal.to_owned()));
            } else if matches!(parts.last(), Some(Part::Variable { .. })) {
                return Err("two variables need something between them".to_owned());
            }
            parts.push(Part::variable(expression)?);
            rest = after;
        }
        if !rest.is_empty() {
            parts.push(Part::Literal(rest.to_owned()));
        }
        let literals = parts.iter().filter_map(|part| match part {
            Part::Literal(text) => Some(text),
            Part::Variable { .. } => None,
        });
        if literals.clone().any(|text| text.contains('}')) {
            return Err("a brace is closed that was not opened".to_owned());
        }
        match parts.len() - literals.count() {
            0 => Err("there is no variable in it: register it as a resource".to_owned()),
            many if many > MOST_VARIABLES => Err(format!(
                "there are more than {MOST_VARIABLES} variables in it"
            )),
            _ => Ok(Self { parts }),
        }
    }

    /// The values of the variables, if the address fits. A variable takes as much as it can.
    pub fn values(&self, address: &str) -> Option<BTreeMap<String, String>> {
        if address.len() > LONGEST {
            return None;
        }
        let bytes = address.as_bytes();
        let fits = self.fits(bytes);
        let mut values = BTreeMap::new();
        let mut at = 0;
        if !*fits.first()?.first()? {
            return None;
        }
        for (part, fits_after) in self.parts.iter().zip(fits.iter().skip(1)) {
            let rest = bytes.get(at..)?;
            let end = match part {
                Part::Literal(text) => at + text.len(),
                Part::Variable { .. } => {
                    let most = rest.iter().take_while(|byte| part.takes(**byte)).count();
                    let mut ends = (at + 1..=at + most).rev();
                    ends.find(|end| fits_after.get(*end) == Some(&true))?
                }
            };
            if let Part::Variable { name, .. } = part {
                let value = decoded(bytes.get(at..end)?)?;
                let before = values.insert(name.clone(), value.clone());
                // One name twice has one value.
                if before.is_some_and(|before| before != value) {
                    return None;
                }
            }
            at = end;
        }
        Some(values)
    }

    /// Of each part, and behind the last, whether the rest of the template fits the rest of the
    /// address from each place on. Found from the end, so that nothing is tried twice.
    fn fits(&self, address: &[u8]) -> Vec<Vec<bool>> {
        let mut after = vec![false; address.len() + 1];
        if let Some(end) = after.last_mut() {
            *end = true;
        }
        let mut table = vec![after];
        for part in self.parts.iter().rev() {
            let after = table.last().map(Vec::as_slice).unwrap_or_default();
            let here = part.fits(address, after);
            table.push(here);
        }
        table.reverse();
        table
    }
}

impl Part {
    fn variable(expression: &str) -> Result<Self, String> {
        let (name, takes_reserved) = match expression.strip_prefix('+') {
            Some(name) => (name, true),
            None => (expression, false),
        };
        let is_plain = |letter: char| letter.is_ascii_alphanumeric() || "_.".contains(letter);
        if name.is_empty() || !name.chars().all(is_plain) {
            return Err(format!(
                "{{{expression}}} is neither {{name}} nor {{+name}}, and addresses cannot be taken apart by others"
            ));
        }
        Ok(Self::Variable {
            name: name.to_owned(),
            takes_reserved,
        })
    }

    /// Whether this part and what follows it fit from each place on.
    fn fits(&self, address: &[u8], after: &[bool]) -> Vec<bool> {
        let follows = |at: usize| after.get(at) == Some(&true);
        let mut fits = vec![false; address.len() + 1];
        let mut goes_on = false;
        for (at, fits) in fits.iter_mut().enumerate().rev() {
            let rest = address.get(at..).unwrap_or_default();
            *fits = match self {
                Self::Literal(text) => {
                    rest.starts_with(text.as_bytes()) && follows(at + text.len())
                }
                Self::Variable { .. } => {
                    let takes = rest.first().is_some_and(|byte| self.takes(*byte));
                    goes_on = takes && (follows(at + 1) || goes_on);
                    goes_on
                }
            };
        }
        fits
    }

    fn takes(&self, byte: u8) -> bool {
        match self {
            Self::Literal(_) => false,
            Self::Variable { takes_reserved, .. } => {
                *takes_reserved || !b":/?#[]@!$&'()*+,;=".contains(&byte)
            }
        }
    }
}

/// The text that was written with `%`, if it is one.
fn decoded(bytes: &[u8]) -> Option<String> {
    let digit = |byte: Option<&u8>| char::from(*byte?).to_digit(16);
    let mut plain = Vec::with_capacity(bytes.len());
    let mut rest = bytes.iter();
    while let Some(byte) = rest.next() {
        if *byte != b'%' {
            plain.push(*byte);
            continue;
        }
        let code = digit(rest.next())? * 16 + digit(rest.next())?;
        plain.push(u8::try_from(code).ok()?);
    }
    String::from_utf8(plain).ok()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;
    use crate::uri_template::UriTemplate;

    fn values(template: &str, address: &str) -> Option<Vec<(String, String)>> {
        let values = UriMatcher::parse(template).unwrap().values(address)?;
        Some(values.into_iter().collect())
    }

    fn pair(name: &str, value: &str) -> (String, String) {
        (name.to_owned(), value.to_owned())
    }

    #[test]
    fn an_address_is_taken_apart() {
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
    fn what_cannot_be_taken_apart_is_refused() {
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
    fn an_address_made_to_take_for_ever_does_not() {
        let variables: Vec<_> = (0..MOST_VARIABLES)
            .map(|at| format!("a{{+v{at}}}"))
            .collect();
        let pattern = UriMatcher::parse(&(variables.concat() + "b")).unwrap();
        assert_eq!(pattern.values(&"a".repeat(LONGEST)), None);
        assert_eq!(pattern.values(&"a".repeat(LONGEST + 1)), None);
    }

    proptest! {
        #[test]
        fn what_was_filled_in_comes_back(first in "\\PC{1,20}", second in "[a-z/ ]{1,20}") {
            let template = "x://{first}/of/{+second}";
            let filled = BTreeMap::from([
                ("first".to_owned(), vec![first.clone()]),
                ("second".to_owned(), vec![second.clone()]),
            ]);
            let address = UriTemplate::parse(template).unwrap().expand(&filled).unwrap();
            prop_assert_eq!(
                values(template, &address),
                Some(vec![pair("first", &first), pair("second", &second)])
            );
        }
    }
}
