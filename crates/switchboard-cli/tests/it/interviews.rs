//! Questions of servers, at a real terminal.

use insta::assert_snapshot;
use serde_json::{Value, json};
use switchboard_testkit::http::{HttpServer, Mode};
use switchboard_testkit::{
    Script, ServerRequest, Step, Terminal, assert_no_process_left, read_record,
};

use crate::support::{Desk, until};

const CALL: [&str; 3] = ["call", "mcp__ant__ask", "--yes"];
const METHOD: &str = "elicitation/create";

/// A server whose tool asks these, one after the other.
fn asking(questions: impl IntoIterator<Item = Value>) -> Desk {
    let steps = questions
        .into_iter()
        .map(|asked| Step::request(METHOD, asked));
    doing(steps.chain([Step::text("done")]))
}

fn doing(steps: impl IntoIterator<Item = Step>) -> Desk {
    let script = Script::legacy().tool("ask").record("record");
    Desk::with([("ant", script.on("tools/call ask", steps).into())])
}

fn form(message: &str, fields: &Value, required: &[&str]) -> Value {
    let schema = json!({"type": "object", "properties": fields, "required": required});
    json!({"message": message, "requestedSchema": schema})
}

fn one_word() -> Value {
    form("A word.", &json!({"word": {"type": "string"}}), &[])
}

fn record(desk: &Desk) -> Vec<Value> {
    read_record(desk.sandbox.project().join("record"))
}

/// What the server was answered.
fn answers(desk: &Desk) -> Vec<Value> {
    let record = record(desk);
    let answers = record
        .iter()
        .filter(|message| message.get("method").is_none());
    answers
        .map(|answer| answer.get("result").unwrap_or(&answer["error"]).clone())
        .collect()
}

/// What the server was told that it may ask for.
fn offered(desk: &Desk) -> Value {
    let record = record(desk);
    let mut greetings = record.iter().filter(|it| it["method"] == "initialize");
    greetings.next().unwrap()["params"]["capabilities"].clone()
}

/// Waits for each of these and types what goes with it, and then for the end.
fn talk(mut terminal: Terminal, said: &[(&str, &str)]) -> String {
    for (expected, typed) in said {
        terminal.wait_for_next(expected);
        terminal.type_text(typed);
    }
    let (code, screen) = terminal.finish();
    assert_eq!(code, Some(0), "{screen}");
    // Before the first question, lines move.
    let begin = screen.find("\nServer ").unwrap_or_default();
    screen.get(begin..).unwrap_or_default().to_owned()
}

/// A form with a field of each kind.
fn every_kind() -> Value {
    let kinds = json!([{"const": "c", "title": "A cat"}, {"const": "d", "title": "A dog"}]);
    let likes = json!({"type": "string", "enum": ["walks", "naps", "fish"]});
    let fields = json!({
        "name": {"type": "string", "title": "Name", "description": "What it\nhears", "minLength": 2},
        "kind": {"type": "string", "oneOf": kinds, "default": "c"},
        "age": {"type": "integer", "minimum": 0, "maximum": 40},
        "weight": {"type": "number"},
        "chipped": {"type": "boolean", "default": true},
        "likes": {"type": "array", "items": likes, "maxItems": 2},
        "born": {"type": "string", "format": "date", "default": "2026-01-01"},
        "note": {"type": "string"},
    });
    form("About your pet.", &fields, &["name", "likes"])
}

#[tokio::test]
async fn a_form_is_asked_field_by_field_and_sent_as_it_was_shown() {
    let desk = asking([every_kind()]);
    let screen = talk(
        desk.at_terminal(&CALL),
        &[
            ("> ", "\n"),
            ("a value is required\n> ", "R\n"),
            ("at least 2 characters are expected\n> ", "Rex\n"),
            ("[A cat] > ", "\n"),
            ("> ", "many\n"),
            ("expected a number\n> ", "41\n"),
            ("at most 40 is expected\n> ", "7\n"),
            ("> ", "4.5\n"),
            ("[Y/n] > ", "perhaps\n"),
            ("expected yes or no\n[Y/n] > ", "no\n"),
            ("> ", "1 2 3\n"),
            ("at most 2 choices are expected\n> ", "2, fish\n"),
            ("[2026-01-01] > ", "tomorrow\n"),
            (
                "a date such as 2026-07-28 is expected\n[2026-01-01] > ",
                "\n",
            ),
            ("8 of 8", ""),
            ("> ", "\n"),
            ("[c]ancel", "\n"),
            ("type s, e, d or c\n[s]end", "s\n"),
        ],
    );
    let lines: Vec<_> = screen.lines().map(str::trim_end).collect();
    assert_snapshot!(lines.join("\n"), @"
    Server ant asks you to fill in a form
    │ About your pet.
    Ctrl-C cancels; nothing is sent

    1 of 8 · text, at least 2 characters · required
    │ Name
    │ What it hears
    >
    a value is required
    > R
    at least 2 characters are expected
    > Rex

    2 of 8 · one of these, by number · press Enter for the default
    │ kind
    │    1  A cat
    │    2  A dog
    [A cat] >

    3 of 8 · an integer, 0 to 40 · optional, press Enter to skip
    │ age
    > many
    expected a number
    > 41
    at most 40 is expected
    > 7

    4 of 8 · a number · optional, press Enter to skip
    │ weight
    > 4.5

    5 of 8 · yes or no · press Enter for the default
    │ chipped
    [Y/n] > perhaps
    expected yes or no
    [Y/n] > no

    6 of 8 · at most 2 of these, e.g. 1, 2 · required
    │ likes
    │    1  walks
    │    2  naps
    │    3  fish
    > 1 2 3
    at most 2 choices are expected
    > 2, fish

    7 of 8 · a date such as 2026-07-28 · press Enter for the default
    │ born
    [2026-01-01] > tomorrow
    a date such as 2026-07-28 is expected
    [2026-01-01] >

    8 of 8 · text · optional, press Enter to skip
    │ note
    >

    Ready to send to ant:
    │    1  Name     Rex
    │    2  kind     A cat
    │    3  age      7
    │    4  weight   4.5
    │    5  chipped  no
    │    6  likes    naps, fish
    │    7  born     2026-01-01
    │    8  note     –
    [s]end, [e]dit, [d]ecline, [c]ancel (e 2 edits the second)
    type s, e, d or c
    [s]end, [e]dit, [d]ecline, [c]ancel (e 2 edits the second) s
    Sent to ant: accepted

    done
    ");
    let content = json!({
        "name": "Rex", "kind": "c", "age": 7, "weight": 4.5, "chipped": false,
        "likes": ["naps", "fish"], "born": "2026-01-01",
    });
    let accepted = json!({"action": "accept", "content": content});
    assert_eq!(answers(&desk), [accepted]);
    assert_no_process_left(desk.sandbox.tag()).await;
}

#[tokio::test]
async fn what_was_typed_can_be_changed_before_it_is_sent() {
    let fields = json!({"one": {"type": "string"}, "two": {"type": "string"}});
    let desk = asking([form("Two words.", &fields, &[])]);
    let screen = talk(
        desk.at_terminal(&CALL),
        &[
            ("1 of 2", ""),
            ("> ", "first\n"),
            ("2 of 2", ""),
            ("> ", "second\n"),
            ("[c]ancel", "e 1\n"),
            ("1 of 2", ""),
            ("> ", "last\n"),
            ("1  one  last\n│    2  two  second\n", ""),
            ("[c]ancel", "e\n"),
            ("Which one, 1 to 2? ", "3\n"),
            ("Which one, 1 to 2? ", "2\n"),
            ("> ", "\n"),
            ("2  two  –\n", ""),
            ("[c]ancel", "send\n"),
        ],
    );
    assert!(screen.contains("Sent to ant: accepted"), "{screen}");
    let accepted = json!({"action": "accept", "content": {"one": "last"}});
    assert_eq!(answers(&desk), [accepted]);
}

#[tokio::test]
async fn no_and_neither_yes_nor_no_are_told_apart_and_the_call_goes_on() {
    let desk = asking(std::iter::repeat_with(one_word).take(5));
    let screen = talk(
        desk.at_terminal(&CALL),
        &[
            ("> ", "w\n"),
            ("[c]ancel", "d\n"),
            ("> ", "w\n"),
            ("[c]ancel", "c\n"),
            ("> ", "half\u{3}"),
            ("> ", "\u{4}"),
            ("> ", "w\n"),
            ("[c]ancel", "\u{3}"),
        ],
    );
    assert!(screen.ends_with("\ndone\n"), "{screen}");
    let actions: Vec<_> = answers(&desk)
        .iter()
        .map(|it| it["action"].clone())
        .collect();
    assert_eq!(actions, ["decline", "cancel", "cancel", "cancel", "cancel"]);
}

#[tokio::test]
async fn whoever_closes_one_question_after_the_other_gets_out() {
    let desk = asking(std::iter::repeat_with(one_word).take(100));
    let mut terminal = desk.at_terminal(&CALL);
    for _ in 0..3 {
        terminal.wait_for_next("> ");
        terminal.type_text("\u{3}");
    }
    terminal.wait_for_next("the command ends");
    assert_eq!(terminal.finish().0, Some(130));
}

#[tokio::test]
async fn a_form_without_fields_asks_for_a_yes() {
    let desk = asking(std::iter::repeat_with(|| json!({"message": "Go on?"})).take(3));
    let question = "│ Go on?\nDo you agree? [y/N] ";
    talk(
        desk.at_terminal(&CALL),
        &[(question, "y\n"), (question, "\n"), (question, "\u{3}")],
    );
    let accepted = json!({"action": "accept", "content": {}});
    let others = [json!({"action": "decline"}), json!({"action": "cancel"})];
    assert_eq!(answers(&desk)[0], accepted);
    assert_eq!(answers(&desk)[1..], others);
}

#[tokio::test]
async fn a_secret_is_warned_about_and_not_shown() {
    let pin = json!({"type": "integer", "default": 42});
    let fields = json!({"password": {"type": "string"}, "hint": {"type": "string"}});
    let proposed = form("Guess.", &json!({"pin": pin}), &["pin"]);
    let question = |required: &[&str]| form("Log in.", &fields, required);
    let desk = asking([
        question(&["password"]),
        question(&["password"]),
        question(&[]),
        proposed.clone(),
        proposed,
    ]);
    let screen = talk(
        desk.at_terminal(&CALL),
        &[
            ("Servers must not request secrets in forms", ""),
            ("Answer anyway? [y/N] ", "y\n"),
            ("(not shown) > ", "hunter2\n"),
            ("2 of 2", ""),
            ("> ", "seen\n"),
            ("1  password  ••••••••\n│    2  hint      seen\n", ""),
            ("[c]ancel", "s\n"),
            // What must be given and is not: that is a no to all of it.
            ("anyway? [y/N] ", "\n"),
            ("Sent to ant: declined", ""),
            ("anyway? [y/N] ", "n\n"),
            ("> ", "h\n"),
            ("1  password  –\n", ""),
            ("[c]ancel", "s\n"),
            // What the server proposed is no secret, and is seen before it is sent.
            ("anyway? [y/N] ", "n\n"),
            ("1  pin  42\n", ""),
            ("[c]ancel", "s\n"),
            ("anyway? [y/N] ", "y\n"),
            ("(not shown) [42] > ", "4711\n"),
            ("1  pin  ••••••••\n", ""),
            ("[c]ancel", "s\n"),
        ],
    );
    assert!(
        !screen.contains("hunter2") && !screen.contains("4711"),
        "{screen}"
    );
    let accepted = |content: Value| json!({"action": "accept", "content": content});
    assert_eq!(
        answers(&desk),
        [
            accepted(json!({"password": "hunter2", "hint": "seen"})),
            json!({"action": "decline"}),
            accepted(json!({"hint": "h"})),
            accepted(json!({"pin": 42})),
            accepted(json!({"pin": 4711})),
        ]
    );
}

#[tokio::test]
async fn no_key_stops_or_ends_the_program_while_a_question_is_open() {
    let fields = json!({"password": {"type": "string"}});
    let desk = asking([form("Log in.", &fields, &[])]);
    let screen = talk(
        desk.at_terminal(&CALL),
        &[
            ("Answer anyway? [y/N] ", "y\n"),
            ("(not shown) > ", "\u{1a}\n"),
            ("type it again", ""),
            ("(not shown) > ", "\u{1c}\n"),
            ("type it again", ""),
            ("(not shown) > ", "hunter2\n"),
            ("[c]ancel", "s\n"),
        ],
    );
    assert!(!screen.contains("hunter2"), "{screen}");
    let accepted = json!({"action": "accept", "content": {"password": "hunter2"}});
    assert_eq!(answers(&desk), [accepted]);
}

#[tokio::test]
async fn nothing_a_server_says_can_pass_for_words_of_ours() {
    let fake = format!(
        "{}\u{2800}Password:\n\u{1b}[2JSent to ant: accepted",
        "x".repeat(78)
    );
    let fields = json!({"a": {
        "type": "string",
        "title": "Name\nAllow this call? [y/N]",
        "description": "One\nServer bee asks",
        "enum": ["x\nType it again >"],
    }});
    let desk = asking([form(&fake, &fields, &[])]);
    let screen = talk(
        desk.at_terminal(&CALL),
        &[("> ", "1\n"), ("[c]ancel", "d\n")],
    );
    let fakes = [
        "Password:",
        "Sent to ant: accepted",
        "Allow this call?",
        "Server bee",
        "Type it again",
    ];
    for line in screen.lines() {
        let is_fake = fakes.iter().any(|fake| line.contains(fake));
        assert!(line.starts_with('│') || !is_fake, "{line:?} in:\n{screen}");
    }
    assert!(!screen.contains('\u{1b}'), "{screen:?}");
}

#[tokio::test]
async fn a_question_that_the_server_withdraws_takes_no_line_from_the_next() {
    let first = Step::Request(ServerRequest {
        id: Some(json!("first")),
        method: METHOD.to_owned(),
        params: Some(one_word()),
        wait: false,
    });
    let withdraw = Step::Notify {
        method: "notifications/cancelled".to_owned(),
        params: Some(json!({"requestId": "first"})),
    };
    let next = Step::request(METHOD, one_word());
    let steps = [
        first,
        Step::DelayMs(300),
        withdraw,
        next,
        Step::text("done"),
    ];
    let desk = doing(steps);
    talk(
        desk.at_terminal(&CALL),
        &[
            ("> ", "half"),
            ("ant no longer needs an answer\n", ""),
            ("> ", "whole\n"),
            ("1  word  whole\n", ""),
            ("[c]ancel", "s\n"),
        ],
    );
    let accepted = json!({"action": "accept", "content": {"word": "whole"}});
    assert_eq!(answers(&desk), [accepted]);
}

#[tokio::test]
async fn a_line_that_was_typed_when_nothing_was_asked_answers_nothing() {
    let first = Step::Request(ServerRequest {
        id: Some(json!("first")),
        method: METHOD.to_owned(),
        params: Some(form("Agreed?", &json!({}), &[])),
        wait: false,
    });
    let withdraw = Step::Notify {
        method: "notifications/cancelled".to_owned(),
        params: Some(json!({"requestId": "first"})),
    };
    let steps = [
        first,
        Step::DelayMs(300),
        withdraw,
        // So long, that what is typed meanwhile is certain to have been read.
        Step::DelayMs(1000),
        Step::request(METHOD, address("https://example.org/")),
        Step::text("done"),
    ];
    let desk = doing(steps);
    let opener = "#!/bin/sh\necho >opened\n";
    talk(
        with_browser(&desk, opener),
        &[
            ("Do you agree? [y/N] ", ""),
            // One for the thread that still reads, and one for the terminal to keep.
            ("ant no longer needs an answer\n", "y\ny\n"),
            ("Open it in your browser? [y/N] ", "n\n"),
        ],
    );
    assert_eq!(answers(&desk), [json!({"action": "decline"})]);
    assert!(!desk.sandbox.project().join("opened").exists());
}

/// A terminal at which addresses are opened by a program that writes down what it gets.
fn with_browser(desk: &Desk, program: &str) -> Terminal {
    desk.sandbox.write_executable("bin/xdg-open", program);
    let mut command = desk.for_terminal(&CALL);
    let folder = desk.sandbox.project().join("bin");
    command.env("PATH", format!("{}:/usr/bin:/bin", folder.display()));
    Terminal::start(&mut command)
}

fn address(url: &str) -> Value {
    json!({"mode": "url", "message": "Log in.", "elicitationId": "1", "url": url})
}

#[tokio::test]
async fn an_address_is_opened_with_consent_only() {
    let url = "https://xn--exmple-cua.org/login?a=$(id)&b='x'";
    let desk = asking([address(url), address(url), address("https://10.0.0.1/")]);
    // Nothing of the terminal is left to it.
    let program = "#!/bin/sh\n[ -t 0 ] && exit 1\nprintf '%s\\n' \"$#\" \"$@\" >>opened\n";
    let screen = talk(
        with_browser(&desk, program),
        &[
            ("Open it in your browser? [y/N] ", "y\n"),
            ("Open it in your browser? [y/N] ", "\n"),
            ("Open it in your browser? [y/N] ", "\u{3}"),
        ],
    );
    let warned = "Server ant asks you to open a URL\n│ Log in.\n\n\
        https://xn--exmple-cua.org/login?a=$(id)&b=%27x%27\n\n\
        host  xn--exmple-cua.org\n\
        ! the host has letters that may look like others: it reads \"exämple.org\"\n";
    assert!(screen.contains(warned), "{screen}");
    assert!(screen.contains("! the host is a number"), "{screen}");
    let actions = [
        json!({"action": "accept"}),
        json!({"action": "decline"}),
        json!({"action": "cancel"}),
    ];
    assert_eq!(answers(&desk), actions);
    let opened = || std::fs::read_to_string(desk.sandbox.project().join("opened"));
    until("the browser", || {
        opened().is_ok_and(|text| text.lines().count() == 2)
    })
    .await;
    let expected = "1\nhttps://xn--exmple-cua.org/login?a=$(id)&b=%27x%27\n";
    assert_eq!(opened().unwrap(), expected);
    assert_no_process_left(desk.sandbox.tag()).await;
}

#[tokio::test]
async fn a_browser_outlives_the_program() {
    let desk = asking([address("https://example.org/")]);
    // It begins when the program is over.
    let program = "#!/bin/sh\nwhile [ ! -e over ]; do sleep 0.05; done\necho >opened\n";
    talk(with_browser(&desk, program), &[("[y/N] ", "y\n")]);
    assert!(!desk.sandbox.project().join("opened").exists());
    desk.sandbox.write("over", "");
    until("the browser", || {
        desk.sandbox.project().join("opened").exists()
    })
    .await;
    assert_no_process_left(desk.sandbox.tag()).await;
}

#[tokio::test]
async fn where_nobody_can_be_asked_servers_are_not_told_that_they_may() {
    let desk = asking([one_word()]);
    let ran = desk.run(&CALL).await;
    assert_eq!((ran.code, ran.stdout.as_str()), (0, "done"), "{ran}");
    assert_eq!(offered(&desk).get("elicitation"), None);
    assert_eq!(answers(&desk)[0]["code"], -32601);
    // Neither is who wants quiet.
    let desk = asking([one_word()]);
    talk(
        desk.at_terminal(&["-q", "call", "mcp__ant__ask", "--yes"]),
        &[],
    );
    assert_eq!(offered(&desk).get("elicitation"), None);
    assert_eq!(answers(&desk)[0]["code"], -32601);
}

#[tokio::test]
async fn a_modern_server_asks_in_the_middle_of_its_call() {
    let asked = json!({"word": {"method": METHOD, "params": one_word()}});
    let first = json!({"resultType": "input_required", "inputRequests": asked});
    let steps = [
        Step::until(1, [Step::Reply(first)]),
        Step::after(2, [Step::text("done")]),
    ];
    let script = Script::modern().tool("ask").record("record");
    let desk = Desk::with([("ant", script.on("tools/call ask", steps).into())]);
    let screen = talk(
        desk.at_terminal(&CALL),
        &[("> ", "w\n"), ("[c]ancel", "s\n")],
    );
    assert!(screen.ends_with("\ndone\n"), "{screen}");
    let record = record(&desk);
    let mut calls = record.iter().filter(|it| it["method"] == "tools/call");
    let accepted = json!({"action": "accept", "content": {"word": "w"}});
    let last = calls.next_back().unwrap();
    assert_eq!(last["params"]["inputResponses"]["word"], accepted, "{last}");
}

#[tokio::test]
async fn servers_on_this_machine_are_told_where_the_project_is() {
    let desk = doing([Step::request("roots/list", json!({})), Step::text("done")]);
    assert_eq!(desk.run(&CALL).await.code, 0);
    let uri = format!("file://{}", desk.sandbox.project().display());
    let roots = json!({"roots": [{"uri": uri, "name": "project"}]});
    assert_eq!(answers(&desk), [roots]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn servers_elsewhere_are_not_told_where_the_project_is() {
    let server = HttpServer::start(Script::legacy().tool("echo"), Mode::STATELESS).await;
    let desk = Desk::with([("s", json!({"type": "http", "url": server.url()}).into())]);
    let ran = desk.run(&["tools"]).await;
    assert_eq!(ran.code, 0, "{ran}");
    let greetings = server.executed("initialize");
    assert_eq!(greetings[0]["params"]["capabilities"].get("roots"), None);
}
