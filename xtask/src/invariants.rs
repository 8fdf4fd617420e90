//! Checks that every test named in `docs/invariants.md` exists.
//!
//! A table row names a test file in backticks, relative to `crates/`, followed by its test
//! functions. Invariant: a row that names no test fails the check.

use std::fs;
use std::path::Path;

use crate::steps::{Failure, Steps};

const STEP: &str = "invariants";
const PAGE: &str = "docs/invariants.md";

pub(crate) fn check(steps: &mut Steps) -> Result<(), Failure> {
    let crates = steps.root().join("crates");
    let page = steps.root().join(PAGE);
    steps.run_work(STEP, PAGE, || {
        let failed = |reason| Failure::Step { step: STEP, reason };
        let page = fs::read_to_string(page).map_err(|error| failed(format!("{PAGE}: {error}")))?;
        let problems = find_problems(&page, &crates);
        if problems.is_empty() {
            return Ok(());
        }
        Err(failed(format!("\n{}", problems.join("\n"))))
    })
}

/// One message for each missing file, missing test function and row without tests.
fn find_problems(page: &str, crates: &Path) -> Vec<String> {
    let mut problems = Vec::new();
    for (index, line) in page.lines().enumerate() {
        let tests = line
            .strip_prefix("| ")
            .and_then(|row| row.split(" | ").nth(1));
        let Some(tests) = tests.filter(|tests| *tests != "tests |") else {
            continue;
        };
        let mut file = ("", String::new());
        let mut functions = 0;
        for name in tests.split('`').skip(1).step_by(2) {
            if Path::new(name).extension().is_some_and(|it| it == "rs") {
                let text = fs::read_to_string(crates.join(name)).unwrap_or_default();
                file = (name, text);
                continue;
            }
            functions += 1;
            if !file.1.contains(&format!("fn {name}(")) {
                let message = format!("{PAGE}:{}: no test `{name}` in {}", index + 1, file.0);
                problems.push(message);
            }
        }
        if functions == 0 {
            problems.push(format!("{PAGE}:{}: the row names no test", index + 1));
        }
    }
    problems
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn missing_files_and_functions_are_reported() {
        let crates = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
        let own = "xtask/src/invariants.rs";
        let page = format!(
            "| invariant | tests |\n|---|---|\n\
             | a | `{own}`: `missing_files_and_functions_are_reported` |\n\
             | b | `{own}`: `check`, `{}`; `xtask/absent.rs`: `check` |\n\
             | c | `{own}` |\n",
            "absent_test"
        );
        let expected = [
            "docs/invariants.md:4: no test `absent_test` in xtask/src/invariants.rs",
            "docs/invariants.md:4: no test `check` in xtask/absent.rs",
            "docs/invariants.md:5: the row names no test",
        ];
        assert_eq!(find_problems(&page, &crates), expected);
    }
}
