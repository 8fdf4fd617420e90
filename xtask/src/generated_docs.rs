//! Generates the key tables of `docs/config.md` and the JSON Schemas from the table of keys.
//!
//! In `docs/config.md` only the text between a pair of marker comments is generated; there are two
//! pairs. Invariant: generating twice gives the same bytes, so [`check`] can compare files.

use std::fs;
use std::path::Path;

use switchboard_config::key_table;

use crate::steps::{Failure, Steps};

const STEP: &str = "generated docs";
const PAGE: &str = "docs/config.md";
const SERVERS_SCHEMA: &str = "docs/mcp.schema.json";
const SETTINGS_SCHEMA: &str = "docs/settings.schema.json";

/// Writes the generated files that are out of date.
pub(crate) fn write(steps: &mut Steps) -> Result<(), Failure> {
    let root = steps.root().to_owned();
    steps.run_work(STEP, "write", || {
        for (file, text) in outdated(&root)? {
            fs::write(root.join(file), text).map_err(|error| failed(file, &error))?;
            println!("{file}");
        }
        Ok(())
    })
}

/// Fails if a generated file is out of date.
pub(crate) fn check(steps: &mut Steps) -> Result<(), Failure> {
    let root = steps.root().to_owned();
    steps.run_work(STEP, "compare", || {
        let outdated = outdated(&root)?;
        if outdated.is_empty() {
            return Ok(());
        }
        let files: Vec<_> = outdated.iter().map(|(file, _)| *file).collect();
        Err(Failure::Step {
            step: STEP,
            reason: format!(
                "{} is out of date; run:\n  cargo xtask docs",
                files.join(", ")
            ),
        })
    })
}

/// The files that are out of date, with their new content.
fn outdated(root: &Path) -> Result<Vec<(&'static str, String)>, Failure> {
    let read = |file: &str| fs::read_to_string(root.join(file));
    let page = read(PAGE).map_err(|error| failed(PAGE, &error))?;
    let page = fill(&page, "keys of an entry", &key_table::entry_tables())?;
    let page = fill(&page, "keys of the settings", &key_table::settings_tables())?;
    let generated = [
        (PAGE, page),
        (
            SERVERS_SCHEMA,
            format!("{:#}\n", key_table::servers_schema()),
        ),
        (
            SETTINGS_SCHEMA,
            format!("{:#}\n", key_table::settings_schema()),
        ),
    ];
    let differs = |(file, text): &(&str, String)| read(file).ok().as_ref() != Some(text);
    Ok(generated.into_iter().filter(differs).collect())
}

/// Replaces the text between the markers called `name`.
fn fill(page: &str, name: &str, text: &str) -> Result<String, Failure> {
    let begin = format!("<!-- made by `cargo xtask docs`: {name} -->\n");
    let end = format!("<!-- end of {name} -->\n");
    let filled = page.split_once(&begin).and_then(|(before, rest)| {
        let (_, after) = rest.split_once(&end)?;
        Some(format!("{before}{begin}\n{text}\n{end}{after}"))
    });
    filled.ok_or_else(|| Failure::Step {
        step: STEP,
        reason: format!("{PAGE} lacks the markers for {name}:\n{begin}{end}"),
    })
}

fn failed(file: &str, error: &std::io::Error) -> Failure {
    Failure::Step {
        step: STEP,
        reason: format!("{file}: {error}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_text_between_markers_is_replaced() {
        let page =
            "before\n<!-- made by `cargo xtask docs`: x -->\nold\n<!-- end of x -->\nafter\n";
        let filled = fill(page, "x", "new").unwrap_or_default();
        assert_eq!(
            filled,
            "before\n<!-- made by `cargo xtask docs`: x -->\n\nnew\n<!-- end of x -->\nafter\n"
        );
        assert_eq!(fill(&filled, "x", "new").unwrap_or_default(), filled);
        assert!(fill(page, "y", "new").is_err());
    }
}
