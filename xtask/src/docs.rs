//! The pages that are made from the code: the reference part of `docs/config.md`, and the JSON Schemas.
//!
//! In a page, what lies between its two marks is made and the rest is written by hand. Invariant:
//! making them twice changes nothing, so that a check can compare.

use std::fs;
use std::path::Path;

use switchboard_config::key_table;

use crate::step::{Failure, Steps};

const STEP: &str = "reference";
const PAGE: &str = "docs/config.md";

/// Writes what differs.
pub(crate) fn write(steps: &mut Steps) -> Result<(), Failure> {
    let root = steps.root().to_owned();
    steps.perform(STEP, "writing what differs", || {
        for (file, text) in differing(&root)? {
            fs::write(root.join(file), text).map_err(|error| failed(file, &error))?;
            println!("{file}");
        }
        Ok(())
    })
}

/// Fails if something differs.
pub(crate) fn check(steps: &mut Steps) -> Result<(), Failure> {
    let root = steps.root().to_owned();
    steps.perform(STEP, "comparing", || {
        let differing = differing(&root)?;
        if differing.is_empty() {
            return Ok(());
        }
        let files: Vec<_> = differing.iter().map(|(file, _)| *file).collect();
        Err(Failure::Step {
            step: STEP,
            reason: format!(
                "{} is not what the code says; to write it again:\n  cargo xtask docs",
                files.join(", ")
            ),
        })
    })
}

/// The files that are not as they would be made, and how they would.
fn differing(root: &Path) -> Result<Vec<(&'static str, String)>, Failure> {
    let read = |file: &str| fs::read_to_string(root.join(file));
    let page = read(PAGE).map_err(|error| failed(PAGE, &error))?;
    let page = fill(&page, "keys of an entry", &key_table::entry_tables())?;
    let page = fill(&page, "keys of the settings", &key_table::settings_tables())?;
    let made = [
        (PAGE, page),
        (
            "docs/mcp.schema.json",
            format!("{:#}\n", key_table::servers_schema()),
        ),
        (
            "docs/settings.schema.json",
            format!("{:#}\n", key_table::settings_schema()),
        ),
    ];
    let differs = |(file, made): &(&str, String)| read(file).ok().as_ref() != Some(made);
    Ok(made.into_iter().filter(differs).collect())
}

/// The page with `text` between the marks of this name.
fn fill(page: &str, name: &str, text: &str) -> Result<String, Failure> {
    let begin = format!("<!-- made by `cargo xtask docs`: {name} -->\n");
    let end = format!("<!-- end of {name} -->\n");
    let filled = page.split_once(&begin).and_then(|(before, rest)| {
        let (_, after) = rest.split_once(&end)?;
        Some(format!("{before}{begin}\n{text}\n{end}{after}"))
    });
    filled.ok_or_else(|| Failure::Step {
        step: STEP,
        reason: format!("{PAGE} has no marks for the {name}:\n{begin}{end}"),
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
    fn what_lies_between_the_marks_is_replaced_and_the_rest_stays() {
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
