//! Parses scenario lists from YAML: an unindented `name:`, followed by indented `- scenario` lines.
//!
//! Supports only the YAML that the suite's requirement files and the baseline use. Other YAML
//! inside the requested list is an error.

/// The scenario names of one list.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct ScenarioList(Vec<String>);

impl ScenarioList {
    /// Parses the list called `name`. An empty list is valid, a missing list is an error.
    pub(super) fn parse(name: &str, text: &str) -> Result<Self, String> {
        let mut lines = text.lines().map(str::trim_end);
        let heading = format!("{name}:");
        if !lines.any(|line| line == heading) {
            return Err(format!("missing list {name}"));
        }
        let entries = lines.take_while(|line| line.is_empty() || line.starts_with([' ', '#']));
        let entries = entries.map(str::trim_start);
        entries
            .filter(|line| !line.is_empty() && !line.starts_with('#'))
            .map(|line| match line.strip_prefix("- ") {
                Some(entry) if !entry.contains([' ', ':']) => Ok(entry.to_owned()),
                _ => Err(format!("list {name}: not a scenario name: {line}")),
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
    fn list_ends_at_next_heading() {
        let list = ScenarioList::parse("client", FILE).unwrap();
        assert_eq!(
            list.names().collect::<Vec<_>>(),
            ["initialize", "auth/basic-cimd"]
        );
        assert_eq!(
            ScenarioList::parse("2026-07-28", FILE),
            Ok(ScenarioList(Vec::new()))
        );
    }

    #[test]
    fn missing_lists_and_mappings_are_rejected() {
        assert!(ScenarioList::parse("2025-11-25", FILE).is_err());
        assert!(ScenarioList::parse("not_scored", FILE).is_err());
    }
}
