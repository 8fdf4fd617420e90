//! Runs every command of `docs/guide/terminal.md` and compares its output with the page.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

use switchboard_testkit::{Sandbox, assert_no_process_left};

use crate::fixtures;

const GUIDE: &str = include_str!("../../../../docs/guide/terminal.md");
const PYTHON: &str = "venv/bin/python";

/// A command of the page and the output below it.
struct Example {
    command: String,
    output: Vec<String>,
}

#[tokio::test]
async fn commands_of_terminal_guide_print_what_it_shows() {
    let Some(fixtures) = fixtures(PYTHON) else {
        return;
    };
    let sandbox = Sandbox::new();
    let path = install_programs(&sandbox, &fixtures);
    let examples = examples(GUIDE);
    assert!(examples.len() > 10, "the page contains no commands");
    for Example { command, output } in examples {
        let mut shell = sandbox.command("sh");
        shell.args(["-c", &format!("exec 2>&1; {command}")]);
        let printed = shell.env("PATH", &path).output().unwrap().stdout;
        let printed = String::from_utf8_lossy(&printed);
        let lines: Vec<_> = printed.lines().collect();
        assert!(
            lines_match(&output, &lines),
            "$ {command}\nthe page shows:\n{}\nthe command prints:\n{printed}",
            output.join("\n")
        );
    }
    assert_no_process_left(sandbox.tag()).await;
}

/// Puts `switchboard` and a `uvx` that starts the installed server first on the PATH, and returns
/// the PATH.
fn install_programs(sandbox: &Sandbox, fixtures: &Path) -> String {
    let bin = sandbox.root().join("bin");
    fs::create_dir(&bin).unwrap();
    symlink(env!("CARGO_BIN_EXE_switchboard"), bin.join("switchboard")).unwrap();
    let python = fixtures.join(PYTHON);
    let uvx = format!(
        "#!/bin/sh\ntest \"$*\" = mcp-server-time || exit 1\nexec '{}' -m mcp_server_time\n",
        python.display()
    );
    sandbox.write_executable(bin.join("uvx"), uvx);
    format!("{}:/usr/local/bin:/usr/bin:/bin", bin.display())
}

/// The commands in the `console` blocks of a page.
fn examples(page: &str) -> Vec<Example> {
    let mut examples: Vec<Example> = Vec::new();
    for block in page.split("```console\n").skip(1) {
        let block = block.split("```").next().unwrap_or_default();
        for line in block.lines() {
            if let Some(command) = line.strip_prefix("$ ") {
                examples.push(Example {
                    command: command.to_owned(),
                    output: Vec::new(),
                });
            } else if let Some(example) = examples.last_mut() {
                example.output.push(line.to_owned());
            }
        }
    }
    examples
}

/// Whether the lines have the form that the page shows. A line `…` stands for any number of lines.
fn lines_match(shown: &[String], printed: &[&str]) -> bool {
    let Some((first, rest)) = shown.split_first() else {
        return printed.is_empty();
    };
    if first == "…" {
        return (0..=printed.len()).any(|skipped| lines_match(rest, &printed[skipped..]));
    }
    let Some((line, others)) = printed.split_first() else {
        return false;
    };
    (first == line || text_matches(first, line)) && lines_match(rest, others)
}

/// Whether the line has the form that the page shows. `…` stands for any text.
fn text_matches(shown: &str, line: &str) -> bool {
    match shown.split_once('…') {
        None => shown == line,
        Some((start, rest)) => line.strip_prefix(start).is_some_and(|line| {
            let ends = line.char_indices().map(|(at, _)| at).chain([line.len()]);
            ends.into_iter().any(|at| text_matches(rest, &line[at..]))
        }),
    }
}
