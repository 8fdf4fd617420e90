//! Lists of scenarios in YAML, as far as they are used: `name:` at the margin, and below it
//! `  - scenario`.
//!
//! It reads what the suite's requirements and our baseline are written in, and refuses the rest of
//! YAML within the list it is asked for.

/// One list of a file.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct List(Vec<String>);

impl List {
    /// Reads the list called `name`. A list without entries is fine, a missing one is not.
    pub(super) fn named(name: &str, text: &str) -> Result<Self, String> {
        let mut lines = text.lines().map(str::trim_end);
        let heading = format!("{name}:");
        if !lines.any(|line| line == heading) {
            return Err(format!("there is no list {name}"));
        }
        let entries = lines.take_while(|line| line.is_empty() || line.starts_with([' ', '#']));
        let entries = entries.map(str::trim_start);
        entries
            .filter(|line| !line.is_empty() && !line.starts_with('#'))
            .map(|line| match line.strip_prefix("- ") {
                Some(entry) if !entry.contains([' ', ':']) => Ok(entry.to_owned()),
                _ => Err(format!("in the list {name}, this is no scenario: {line}")),
            })
            .collect::<Result<_, _>>()
            .map(Self)
    }

    pub(super) fn names(&self) -> impl Iterator<Item = &str> {
        self.0.iter().map(String::as_str)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILE: &str = "\
# frozen
server:
  - ping

client:
  - initialize
  # not yet
  - auth/basic-cimd

2026-07-28:

not_scored:
  - scenario: auth/dpop
    reason: extension
";

    #[test]
    fn a_list_ends_where_the_next_begins() {
        let list = List::named("client", FILE).unwrap();
        assert_eq!(
            list.names().collect::<Vec<_>>(),
            ["initialize", "auth/basic-cimd"]
        );
        assert_eq!(List::named("2026-07-28", FILE), Ok(List(Vec::new())));
    }

    #[test]
    fn what_is_missing_or_no_plain_name_is_refused() {
        assert!(List::named("2025-11-25", FILE).is_err());
        assert!(List::named("not_scored", FILE).is_err());
    }
}
