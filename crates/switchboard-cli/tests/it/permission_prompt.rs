//! The permission question on a pseudo-terminal.

use switchboard_testkit::{Terminal, assert_no_process_left, read_record};

use crate::support::{TestCli, echo_server};

const CALL: [&str; 3] = ["call", "mcp__ant__echo", "message=hi"];

fn test_cli() -> TestCli {
    TestCli::with_servers([("ant", echo_server().record("record").into())])
}

fn calls(cli: &TestCli) -> usize {
    let record = read_record(cli.sandbox.project().join("record"));
    let is_call = |message: &&serde_json::Value| message["method"] == "tools/call";
    record.iter().filter(is_call).count()
}

/// Returns path and text of every settings file of the user.
fn settings(cli: &TestCli) -> Vec<(String, String)> {
    let mut files = Vec::new();
    let mut folders = vec![cli.sandbox.config_home()];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
            let path = entry.path();
            if path.is_dir() {
                folders.push(path);
            } else if path.ends_with("settings.json") {
                let name = path.strip_prefix(cli.sandbox.config_home()).unwrap();
                let text = std::fs::read_to_string(&path).unwrap();
                files.push((name.display().to_string(), text));
            }
        }
    }
    files
}

/// Starts the call and waits for the question.
fn start_until_question(cli: &TestCli) -> Terminal {
    let terminal = cli.start_in_terminal(&CALL);
    let screen = terminal.wait_for("Allow this call? [y]es, [a]lways with any arguments, [N]o ");
    assert!(screen.contains("sends   {\"message\":\"hi\"}"), "{screen}");
    terminal
}

#[tokio::test]
async fn yes_allows_one_call() {
    let cli = test_cli();
    let mut terminal = start_until_question(&cli);
    terminal.type_text("y\n");
    let (code, screen) = terminal.finish();
    assert_eq!(code, Some(0), "{screen}");
    assert_eq!((calls(&cli), settings(&cli)), (1, vec![]));
    // The first call was allowed only once, so the next call asks again.
    let mut terminal = start_until_question(&cli);
    terminal.type_text("n\n");
    let (code, screen) = terminal.finish();
    assert_eq!(code, Some(6), "{screen}");
    assert!(screen.contains("the user denied permission"), "{screen}");
    assert_eq!(calls(&cli), 1);
    assert_no_process_left(cli.sandbox.tag()).await;
}

#[tokio::test]
async fn input_before_question_is_discarded() {
    let cli = test_cli();
    let mut terminal = cli.start_in_terminal(&CALL);
    terminal.type_text("y\n");
    terminal.wait_for("Allow this call? [y]es, [a]lways with any arguments, [N]o ");
    terminal.type_text("n\n");
    let (code, screen) = terminal.finish();
    assert_eq!(code, Some(6), "{screen}");
    assert_eq!(calls(&cli), 0);
}

#[tokio::test]
async fn always_writes_local_rule() {
    let cli = test_cli();
    let mut terminal = start_until_question(&cli);
    terminal.type_text("a\n");
    terminal.wait_for("Always in this project, or everywhere? [P]roject, [e]verywhere, [n]o ");
    terminal.type_text("\n");
    let (code, screen) = terminal.finish();
    assert_eq!(code, Some(0), "{screen}");
    let files = settings(&cli);
    let [(name, text)] = files.as_slice() else {
        panic!("one file: {files:?}")
    };
    assert!(name.starts_with("switchboard/projects/project-"), "{name}");
    let rules: serde_json::Value = serde_json::from_str(text).unwrap();
    assert_eq!(
        rules,
        serde_json::json!({"permissions": [{"tool": "mcp__ant__echo", "action": "allow"}]})
    );
    let screen = cli.filter_screen(&screen);
    let rule =
        r#"Saved rule { "tool": "mcp__ant__echo", "action": "allow" } to [sandbox]/home/.config/"#;
    assert!(screen.contains(rule), "{screen}");
    assert!(
        screen.contains("(local scope)\nTo undo, delete it there.\n"),
        "{screen}"
    );
    assert!(!cli.sandbox.project().join(".switchboard").exists());
    // The saved rule allows the tool with any arguments, and no other tool.
    let output = cli.run(&["call", "mcp__ant__echo", "message=ho"]).await;
    assert_eq!(output.to_string(), "exit 0\n--- stdout\nho");
    let output = cli.run(&["call", "mcp__ant__add", "a=1", "b=2"]).await;
    assert_eq!(output.code, 6, "{output}");
}

#[tokio::test]
async fn always_for_user_keeps_existing_settings() {
    let cli = test_cli();
    let text = "{\n  // mine\n  \"permissions\": [\n    { \"tool\": \"mcp__bee\", \"action\": \"deny\" }, // stings\n  ]\n}\n";
    let path = cli.sandbox.write_config("switchboard/settings.json", text);
    let mut terminal = start_until_question(&cli);
    terminal.type_text("always\n");
    terminal.wait_for("[P]roject, [e]verywhere, [n]o ");
    terminal.type_text("u\n");
    let (code, screen) = terminal.finish();
    assert_eq!(code, Some(0), "{screen}");
    let text = std::fs::read_to_string(path).unwrap();
    assert!(text.starts_with("{\n  // mine\n"), "{text}");
    assert!(
        text.contains("\"mcp__bee\", \"action\": \"deny\" }, // stings\n"),
        "{text}"
    );
    assert!(text.contains("mcp__ant__echo"), "{text}");
    assert_eq!(cli.run(&CALL).await.code, 0);
}

#[tokio::test]
async fn always_is_offered_only_if_effective() {
    let cli = test_cli();
    let ask = r#"{"permissions": [{"tool": "mcp__ant", "action": "ask"}]}"#;
    cli.sandbox.write_config("switchboard/settings.json", ask);
    // Only a rule of the local scope takes precedence over the ask rule of the user scope. So the
    // user is not asked which scope to save to.
    let mut terminal = start_until_question(&cli);
    terminal.type_text("a\n");
    let (code, screen) = terminal.finish();
    assert_eq!(code, Some(0), "{screen}");
    assert!(screen.contains("(local scope)"), "{screen}");
    assert_eq!(cli.run(&CALL).await.code, 0);
    // No rule in a file takes precedence over `--ask`, so "always" is not offered.
    let words = ["call", "mcp__ant__echo", "message=hi", "--ask", "mcp__*"];
    let mut terminal = cli.start_in_terminal(&words);
    // The question is repeated after an answer that is not offered, such as `a` or `perhaps`.
    for answer in ["a\n", "perhaps\n", "\n"] {
        terminal.wait_for_next("Allow this call? [y/N] ");
        terminal.type_text(answer);
    }
    assert_eq!(terminal.finish().0, Some(6));
}

#[tokio::test]
async fn ctrl_c_at_question_calls_and_writes_nothing() {
    for before in [None, Some("a\n")] {
        let cli = test_cli();
        let mut terminal = start_until_question(&cli);
        if let Some(answer) = before {
            terminal.type_text(answer);
            terminal.wait_for("[P]roject, [e]verywhere, [n]o ");
        }
        terminal.type_text("\u{3}");
        let (code, screen) = terminal.finish();
        assert_eq!(code, Some(130), "{screen}");
        assert!(screen.contains("interrupted"), "{screen}");
        assert!(!screen.contains("may or may not have run"), "{screen}");
        assert_eq!((calls(&cli), settings(&cli)), (0, vec![]));
        assert_no_process_left(cli.sandbox.tag()).await;
    }
}

#[tokio::test]
async fn end_of_input_means_no() {
    let cli = test_cli();
    let mut terminal = start_until_question(&cli);
    terminal.type_text("\u{4}");
    assert_eq!(terminal.finish().0, Some(6));
    let mut terminal = start_until_question(&cli);
    terminal.type_text("a\n");
    terminal.wait_for("[P]roject, [e]verywhere, [n]o ");
    terminal.type_text("\u{4}");
    assert_eq!(terminal.finish().0, Some(6));
    assert_eq!((calls(&cli), settings(&cli)), (0, vec![]));
}

#[tokio::test]
async fn words_choose_where_always_applies() {
    for (word, count) in [("everywhere", 1), ("project", 1), ("perhaps", 0)] {
        let cli = test_cli();
        let mut terminal = start_until_question(&cli);
        terminal.type_text("always\n");
        terminal.wait_for_next("Always in this project, or everywhere? ");
        terminal.type_text(&format!("{word}\n"));
        if count == 0 {
            terminal.wait_for_next("Always in this project, or everywhere? ");
            terminal.type_text("no\n");
        }
        let (code, screen) = terminal.finish();
        assert_eq!(
            code,
            Some(if count == 1 { 0 } else { 6 }),
            "{word}: {screen}"
        );
        assert_eq!(
            (calls(&cli), settings(&cli).len()),
            (count, count),
            "{word}"
        );
    }
}

#[tokio::test]
async fn interrupted_question_leaves_no_progress_line() {
    let cli = test_cli();
    let mut terminal = start_until_question(&cli);
    terminal.type_text("\u{3}");
    let (code, screen) = terminal.finish();
    assert_eq!(code, Some(130), "{screen}");
    // What follows the progress line begins by erasing the line.
    if let Some((_, after)) = screen.rsplit_once("shutting down servers") {
        assert!(after.contains("\u{1b}[2K"), "{screen:?}");
    }
}
