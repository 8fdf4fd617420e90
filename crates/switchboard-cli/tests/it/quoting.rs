//! Text that is printed to be pasted: a shell reads exactly the intended words.

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use serde_json::json;
use switchboard::content::quote_for_shell;
use switchboard_testkit::{Sandbox, Script};

use crate::support::TestCli;

/// Runs a script with `sh`, and returns its stdout.
fn run_in_shell(sandbox: &Sandbox, script: &str) -> Vec<u8> {
    let output = sandbox.command("sh").arg("-c").arg(script).output();
    output.unwrap().stdout
}

#[test]
fn shell_reads_quoted_words_back() {
    let sandbox = Sandbox::new();
    let special = r#"[ \t\n'"`$\\!*?\[\]{}()<>|&;#~%=a-c\x1b\x7f\u{85}\u{202e}\u{200b}é日-]{0,10}"#;
    let words = vec(
        prop_oneof![special, "[^\0]{0,6}", "-?[a-z$(){}]{0,8}\n{0,3}"],
        1..40,
    );
    let mut runner = TestRunner::new(Config {
        failure_persistence: None,
        ..Config::with_cases(60)
    });
    let outcome = runner.run(&words, |words| {
        let quoted: Vec<_> = words.iter().map(|word| quote_for_shell(word)).collect();
        for word in &quoted {
            let hidden = word.trim_end_matches(['\n', '"']);
            prop_assert!(!hidden.contains(['\u{1b}', '\n', '\u{202e}']), "{word:?}");
        }
        let script = format!(r"printf '%s\0' {}", quoted.join(" "));
        let expected: Vec<u8> = words
            .iter()
            .flat_map(|word| [word.as_bytes(), b"\0"].concat())
            .collect();
        prop_assert_eq!(run_in_shell(&sandbox, &script), expected);
        Ok(())
    });
    outcome.unwrap();
}

#[tokio::test]
async fn usage_line_runs_nothing_that_a_server_chose() {
    let names = [
        "$(touch F)",
        "`touch F`",
        "a;touch F",
        "x y",
        "\u{1b}[31mred",
    ];
    let properties: serde_json::Map<_, _> = names
        .iter()
        .map(|name| ((*name).to_owned(), json!({"type": "string"})))
        .collect();
    let tool = json!({
        "name": "t",
        "inputSchema": {"type": "object", "properties": properties, "required": names},
    });
    let cli = TestCli::with_servers([("ant", Script::legacy().raw_tool(tool).into())]);
    let output = cli.run(&["describe", "mcp__ant__t"]).await;
    let usage = output.stdout.lines().last().unwrap().trim().to_owned();
    let script = format!("switchboard() {{ printf '%s\\n' \"$@\"; }}; {usage}");
    let words = run_in_shell(&cli.sandbox, &script);
    let words = String::from_utf8(words).unwrap();
    let mut given: Vec<_> = words.lines().skip(2).map(str::to_owned).collect();
    let mut expected = names.map(|name| format!("{name}=…"));
    given.sort();
    expected.sort();
    assert_eq!(given, expected, "{output}");
    assert!(!cli.sandbox.project().join("F").exists());
}

#[tokio::test]
async fn hints_quote_names_of_servers() {
    let cli = TestCli::with_servers([("a b", json!({"command": "no-such-program"}).into())]);
    let output = cli.run(&["get", "a c"]).await;
    assert!(output.stderr.contains("did you mean 'a b'?"), "{output}");
    cli.run(&["disable", "a b"]).await;
    let output = cli.run(&["list"]).await;
    let expected = "to enable it: switchboard enable 'a b'";
    assert!(output.stdout.contains(expected), "{output}");
}
