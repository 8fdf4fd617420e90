//! The permission question, at a real terminal.

use switchboard_testkit::{Terminal, assert_no_process_left, read_record};

use crate::support::{Desk, polite};

const CALL: [&str; 3] = ["call", "mcp__ant__echo", "message=hi"];

fn desk() -> Desk {
    Desk::with([("ant", polite().record("record").into())])
}

fn calls(desk: &Desk) -> usize {
    let record = read_record(desk.sandbox.project().join("record"));
    let is_call = |message: &&serde_json::Value| message["method"] == "tools/call";
    record.iter().filter(is_call).count()
}

/// Every settings file of the user, with its text.
fn settings(desk: &Desk) -> Vec<(String, String)> {
    let mut found = Vec::new();
    let mut folders = vec![desk.sandbox.config_home()];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
            let path = entry.path();
            if path.is_dir() {
                folders.push(path);
            } else if path.ends_with("settings.json") {
                let name = path.strip_prefix(desk.sandbox.config_home()).unwrap();
                let text = std::fs::read_to_string(&path).unwrap();
                found.push((name.display().to_string(), text));
            }
        }
    }
    found
}

fn asked(desk: &Desk) -> Terminal {
    let terminal = desk.at_terminal(&CALL);
    let screen = terminal.wait_for("Allow this call? [y]es, [a]lways, [N]o ");
    assert!(screen.contains("sends   {\"message\":\"hi\"}"), "{screen}");
    terminal
}

#[tokio::test]
async fn yes_is_for_this_once() {
    let desk = desk();
    let mut terminal = asked(&desk);
    terminal.type_text("y\n");
    let (code, screen) = terminal.finish();
    assert_eq!(code, Some(0), "{screen}");
    assert_eq!((calls(&desk), settings(&desk)), (1, vec![]));
    // And is asked about again.
    let mut terminal = asked(&desk);
    terminal.type_text("n\n");
    let (code, screen) = terminal.finish();
    assert_eq!(code, Some(6), "{screen}");
    assert!(screen.contains("permission was not given"), "{screen}");
    assert_eq!(calls(&desk), 1);
    assert_no_process_left(desk.sandbox.tag()).await;
}

#[tokio::test]
async fn what_was_typed_before_the_question_does_not_answer_it() {
    let desk = desk();
    let mut terminal = desk.at_terminal(&CALL);
    terminal.type_text("y\n");
    terminal.wait_for("Allow this call? [y]es, [a]lways, [N]o ");
    terminal.type_text("n\n");
    let (code, screen) = terminal.finish();
    assert_eq!(code, Some(6), "{screen}");
    assert_eq!(calls(&desk), 0);
}

#[tokio::test]
async fn always_writes_a_rule_for_this_project_and_says_where() {
    let desk = desk();
    let mut terminal = asked(&desk);
    terminal.type_text("a\n");
    terminal.wait_for("Always in this project, or everywhere? [L]ocal, [u]ser ");
    terminal.type_text("\n");
    let (code, screen) = terminal.finish();
    assert_eq!(code, Some(0), "{screen}");
    let files = settings(&desk);
    let [(name, text)] = files.as_slice() else {
        panic!("one file: {files:?}")
    };
    assert!(name.starts_with("switchboard/projects/project-"), "{name}");
    let rules: serde_json::Value = serde_json::from_str(text).unwrap();
    assert_eq!(
        rules,
        serde_json::json!({"permissions": [{"tool": "mcp__ant__echo", "action": "allow"}]})
    );
    let screen = desk.on_screen(&screen);
    let rule =
        r#"Saved rule { "tool": "mcp__ant__echo", "action": "allow" } to [sandbox]/home/.config/"#;
    assert!(screen.contains(rule), "{screen}");
    assert!(
        screen.contains("(local scope)\nTo undo, delete it there.\n"),
        "{screen}"
    );
    assert!(!desk.sandbox.project().join(".switchboard").exists());
    // From now on nobody is asked, with other arguments too; other tools are.
    let ran = desk.run(&["call", "mcp__ant__echo", "message=ho"]).await;
    assert_eq!(ran.to_string(), "exit 0\n--- stdout\nho");
    let ran = desk.run(&["call", "mcp__ant__add", "a=1", "b=2"]).await;
    assert_eq!(ran.code, 6, "{ran}");
}

#[tokio::test]
async fn always_everywhere_keeps_what_stands_in_the_settings() {
    let desk = desk();
    let text = "{\n  // mine\n  \"permissions\": [\n    { \"tool\": \"mcp__bee\", \"action\": \"deny\" }, // stings\n  ]\n}\n";
    let path = desk.sandbox.write_config("switchboard/settings.json", text);
    let mut terminal = asked(&desk);
    terminal.type_text("always\n");
    terminal.wait_for("[L]ocal, [u]ser ");
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
    assert_eq!(desk.run(&CALL).await.code, 0);
}

#[tokio::test]
async fn where_a_rule_asks_always_is_offered_only_where_it_would_help() {
    let desk = desk();
    let ask = r#"{"permissions": [{"tool": "mcp__ant", "action": "ask"}]}"#;
    desk.sandbox.write_config("switchboard/settings.json", ask);
    // A rule for this project is read before the user's own; nothing else would be.
    let mut terminal = asked(&desk);
    terminal.type_text("a\n");
    let (code, screen) = terminal.finish();
    assert_eq!(code, Some(0), "{screen}");
    assert!(screen.contains("(local)"), "{screen}");
    assert_eq!(desk.run(&CALL).await.code, 0);
    // What the command line wants to be asked about, no file settles.
    let words = ["call", "mcp__ant__echo", "message=hi", "--ask", "mcp__*"];
    let mut terminal = desk.at_terminal(&words);
    // What is not offered is asked about again.
    for answer in ["a\n", "perhaps\n", "\n"] {
        terminal.wait_for_next("Allow this call? [y/N] ");
        terminal.type_text(answer);
    }
    assert_eq!(terminal.finish().0, Some(6));
}

#[tokio::test]
async fn ctrl_c_at_a_question_ends_it_and_nothing_is_called_or_written() {
    for before in [None, Some("a\n")] {
        let desk = desk();
        let mut terminal = asked(&desk);
        if let Some(answer) = before {
            terminal.type_text(answer);
            terminal.wait_for("[L]ocal, [u]ser ");
        }
        terminal.type_text("\u{3}");
        let (code, screen) = terminal.finish();
        assert_eq!(code, Some(130), "{screen}");
        assert!(screen.contains("interrupted"), "{screen}");
        assert!(!screen.contains("carried out"), "{screen}");
        assert_eq!((calls(&desk), settings(&desk)), (0, vec![]));
        assert_no_process_left(desk.sandbox.tag()).await;
    }
}

#[tokio::test]
async fn the_end_of_the_input_is_a_no() {
    let desk = desk();
    let mut terminal = asked(&desk);
    terminal.type_text("\u{4}");
    assert_eq!(terminal.finish().0, Some(6));
    let mut terminal = asked(&desk);
    terminal.type_text("a\n");
    terminal.wait_for("[L]ocal, [u]ser ");
    terminal.type_text("\u{4}");
    assert_eq!(terminal.finish().0, Some(6));
    assert_eq!((calls(&desk), settings(&desk)), (0, vec![]));
}
