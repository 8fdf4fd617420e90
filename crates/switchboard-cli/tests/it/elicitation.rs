//! Elicitation on a pseudo-terminal: forms, URLs, cancellation and roots.

use insta::assert_snapshot;
use serde_json::{Value, json};
use switchboard_testkit::http::{HttpServer, Mode};
use switchboard_testkit::{
    Script, ServerRequest, Step, Terminal, assert_no_process_left, read_record,
};

use crate::support::{TestCli, wait_until};

const CALL: [&str; 3] = ["call", "mcp__ant__ask", "--yes"];
const METHOD: &str = "elicitation/create";

/// Configures a server whose tool sends these elicitations in sequence.
fn with_elicitations(questions: impl IntoIterator<Item = Value>) -> TestCli {
    let steps = questions
        .into_iter()
        .map(|params| Step::request(METHOD, params));
    with_tool_steps(steps.chain([Step::text("done")]))
}

/// Configures a server whose tool runs these steps.
fn with_tool_steps(steps: impl IntoIterator<Item = Step>) -> TestCli {
    let script = Script::legacy().tool("ask").record("record");
    TestCli::with_servers([("ant", script.on("tools/call ask", steps).into())])
}

fn form(message: &str, fields: &Value, required: &[&str]) -> Value {
    let schema = json!({"type": "object", "properties": fields, "required": required});
    json!({"message": message, "requestedSchema": schema})
}

fn one_field_form() -> Value {
    form("A word.", &json!({"word": {"type": "string"}}), &[])
}

fn record(cli: &TestCli) -> Vec<Value> {
    read_record(cli.sandbox.project().join("record"))
}

/// Returns the responses that the server received.
fn responses(cli: &TestCli) -> Vec<Value> {
    let record = record(cli);
    let answers = record
        .iter()
        .filter(|message| message.get("method").is_none());
    answers
        .map(|answer| answer.get("result").unwrap_or(&answer["error"]).clone())
        .collect()
}

/// Returns the client capabilities that the server received.
fn capabilities(cli: &TestCli) -> Value {
    let record = record(cli);
    let mut requests = (record.iter()).filter(|message| message["method"] == "initialize");
    requests.next().unwrap()["params"]["capabilities"].clone()
}

/// Waits for each expected text and types the reply, then waits for a successful exit.
fn answer_questions(mut terminal: Terminal, dialog: &[(&str, &str)]) -> String {
    for (expected, typed) in dialog {
        terminal.wait_for_next(expected);
        terminal.type_text(typed);
    }
    let (code, screen) = terminal.finish();
    assert_eq!(code, Some(0), "{screen}");
    // Skip the progress lines before the first question.
    let begin = screen.find("\nServer ").unwrap_or_default();
    screen.get(begin..).unwrap_or_default().to_owned()
}

/// Builds a form with a field of each type.
fn all_field_types() -> Value {
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
async fn form_is_validated_and_sent_as_shown() {
    let cli = with_elicitations([all_field_types()]);
    let screen = answer_questions(
        cli.start_in_terminal(&CALL),
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
            ("at most 2 options are expected\n> ", "2, fish\n"),
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
    at most 2 options are expected
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
    assert_eq!(responses(&cli), [accepted]);
    assert_no_process_left(cli.sandbox.tag()).await;
}

#[tokio::test]
async fn fields_can_be_edited_before_sending() {
    let fields = json!({"one": {"type": "string"}, "two": {"type": "string"}});
    let cli = with_elicitations([form("Two words.", &fields, &[])]);
    let screen = answer_questions(
        cli.start_in_terminal(&CALL),
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
    assert_eq!(responses(&cli), [accepted]);
}

#[tokio::test]
async fn decline_and_cancel_differ() {
    let cli = with_elicitations(std::iter::repeat_with(one_field_form).take(5));
    let screen = answer_questions(
        cli.start_in_terminal(&CALL),
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
    let actions: Vec<_> = responses(&cli)
        .iter()
        .map(|answer| answer["action"].clone())
        .collect();
    assert_eq!(actions, ["decline", "cancel", "cancel", "cancel", "cancel"]);
}

#[tokio::test]
async fn repeated_ctrl_c_ends_command() {
    let cli = with_elicitations(std::iter::repeat_with(one_field_form).take(100));
    let mut terminal = cli.start_in_terminal(&CALL);
    for _ in 0..3 {
        terminal.wait_for_next("> ");
        terminal.type_text("\u{3}");
    }
    terminal.wait_for_next("stopping the command");
    assert_eq!(terminal.finish().0, Some(130));
}

#[tokio::test]
async fn form_without_fields_asks_for_consent() {
    let cli = with_elicitations(std::iter::repeat_with(|| json!({"message": "Go on?"})).take(3));
    let question = "│ Go on?\nDo you agree? [y/N] ";
    answer_questions(
        cli.start_in_terminal(&CALL),
        &[(question, "y\n"), (question, "\n"), (question, "\u{3}")],
    );
    let accepted = json!({"action": "accept", "content": {}});
    let others = [json!({"action": "decline"}), json!({"action": "cancel"})];
    assert_eq!(responses(&cli)[0], accepted);
    assert_eq!(responses(&cli)[1..], others);
}

#[tokio::test]
async fn secret_field_is_warned_about_and_hidden() {
    let pin = json!({"type": "integer", "default": 42});
    let fields = json!({"password": {"type": "string"}, "hint": {"type": "string"}});
    let proposed = form("Guess.", &json!({"pin": pin}), &["pin"]);
    let question = |required: &[&str]| form("Log in.", &fields, required);
    let cli = with_elicitations([
        question(&["password"]),
        question(&["password"]),
        question(&[]),
        proposed.clone(),
        proposed,
    ]);
    let screen = answer_questions(
        cli.start_in_terminal(&CALL),
        &[
            ("Servers must not request secrets in forms", ""),
            ("Answer anyway? [y/N] ", "y\n"),
            ("(not shown) > ", "hunter2\n"),
            ("2 of 2", ""),
            ("> ", "seen\n"),
            ("1  password  ••••••••\n│    2  hint      seen\n", ""),
            ("[c]ancel", "s\n"),
            // An empty reply here skips the required field, which declines the form.
            ("anyway? [y/N] ", "\n"),
            ("Sent to ant: declined", ""),
            ("anyway? [y/N] ", "n\n"),
            ("> ", "h\n"),
            ("1  password  –\n", ""),
            ("[c]ancel", "s\n"),
            // The default in the server's schema is not a secret, so the summary shows it.
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
        responses(&cli),
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
async fn control_keys_do_not_stop_hidden_input() {
    let fields = json!({"password": {"type": "string"}});
    let cli = with_elicitations([form("Log in.", &fields, &[])]);
    let screen = answer_questions(
        cli.start_in_terminal(&CALL),
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
    assert_eq!(responses(&cli), [accepted]);
}

#[tokio::test]
async fn server_text_cannot_imitate_our_output() {
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
    let cli = with_elicitations([form(&fake, &fields, &[])]);
    let screen = answer_questions(
        cli.start_in_terminal(&CALL),
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
async fn withdrawn_question_leaves_next_input() {
    let first = Step::Request(ServerRequest {
        id: Some(json!("first")),
        method: METHOD.to_owned(),
        params: Some(one_field_form()),
        wait: false,
    });
    let withdraw = Step::Notify {
        method: "notifications/cancelled".to_owned(),
        params: Some(json!({"requestId": "first"})),
    };
    let next = Step::request(METHOD, one_field_form());
    let steps = [
        first,
        Step::DelayMs(300),
        withdraw,
        next,
        Step::text("done"),
    ];
    let cli = with_tool_steps(steps);
    answer_questions(
        cli.start_in_terminal(&CALL),
        &[
            ("> ", "half"),
            ("ant no longer needs an answer\n", ""),
            ("> ", "whole\n"),
            ("1  word  whole\n", ""),
            ("[c]ancel", "s\n"),
        ],
    );
    let accepted = json!({"action": "accept", "content": {"word": "whole"}});
    assert_eq!(responses(&cli), [accepted]);
}

#[tokio::test]
async fn line_typed_between_questions_answers_nothing() {
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
        // Time for the program to read the two `y` lines, which are typed before the next question.
        Step::DelayMs(1000),
        Step::request(METHOD, url_elicitation("https://example.org/")),
        Step::text("done"),
    ];
    let cli = with_tool_steps(steps);
    let opener = "#!/bin/sh\necho >opened\n";
    answer_questions(
        with_browser(&cli, opener),
        &[
            ("Do you agree? [y/N] ", ""),
            // The thread that still reads for the withdrawn question gets the first `y`. The second
            // one stays in the input buffer of the terminal.
            ("ant no longer needs an answer\n", "y\ny\n"),
            ("Open it in your browser? [y/N] ", "n\n"),
        ],
    );
    assert_eq!(responses(&cli), [json!({"action": "decline"})]);
    assert!(!cli.sandbox.project().join("opened").exists());
}

/// Starts the call on a terminal. The script `program` is installed as `xdg-open`.
fn with_browser(cli: &TestCli, program: &str) -> Terminal {
    cli.sandbox.write_executable("bin/xdg-open", program);
    let mut command = cli.terminal_command(&CALL);
    let folder = cli.sandbox.project().join("bin");
    command.env("PATH", format!("{}:/usr/bin:/bin", folder.display()));
    Terminal::start(&mut command)
}

fn url_elicitation(url: &str) -> Value {
    json!({"mode": "url", "message": "Log in.", "elicitationId": "1", "url": url})
}

#[tokio::test]
async fn url_is_opened_only_with_consent() {
    let url = "https://xn--exmple-cua.org/login?a=$(id)&b='x'";
    let cli = with_elicitations([
        url_elicitation(url),
        url_elicitation(url),
        url_elicitation("https://10.0.0.1/"),
    ]);
    // The browser must not inherit the terminal: the script fails if its stdin is one.
    let program = "#!/bin/sh\n[ -t 0 ] && exit 1\nprintf '%s\\n' \"$#\" \"$@\" >>opened\n";
    let screen = answer_questions(
        with_browser(&cli, program),
        &[
            ("Open it in your browser? [y/N] ", "y\n"),
            ("Open it in your browser? [y/N] ", "\n"),
            ("Open it in your browser? [y/N] ", "\u{3}"),
        ],
    );
    let warned = "Server ant asks you to open a URL\n│ Log in.\n\n\
        https://xn--exmple-cua.org/login?a=$(id)&b=%27x%27\n\n\
        host  xn--exmple-cua.org\n\
        ! the host contains non-ASCII characters and may be displayed as \"exämple.org\"\n";
    assert!(screen.contains(warned), "{screen}");
    assert!(screen.contains("! the host is an IP address"), "{screen}");
    let actions = [
        json!({"action": "accept"}),
        json!({"action": "decline"}),
        json!({"action": "cancel"}),
    ];
    assert_eq!(responses(&cli), actions);
    let opened = || std::fs::read_to_string(cli.sandbox.project().join("opened"));
    wait_until("the browser", || {
        opened().is_ok_and(|text| text.lines().count() == 2)
    })
    .await;
    let expected = "1\nhttps://xn--exmple-cua.org/login?a=$(id)&b=%27x%27\n";
    assert_eq!(opened().unwrap(), expected);
    assert_no_process_left(cli.sandbox.tag()).await;
}

#[tokio::test]
async fn browser_outlives_switchboard() {
    let cli = with_elicitations([url_elicitation("https://example.org/")]);
    // The browser waits until `switchboard` has exited.
    let program = "#!/bin/sh\nwhile [ ! -e over ]; do sleep 0.05; done\necho >opened\n";
    answer_questions(with_browser(&cli, program), &[("[y/N] ", "y\n")]);
    assert!(!cli.sandbox.project().join("opened").exists());
    cli.sandbox.write("over", "");
    wait_until("the browser", || {
        cli.sandbox.project().join("opened").exists()
    })
    .await;
    assert_no_process_left(cli.sandbox.tag()).await;
}

#[tokio::test]
async fn no_terminal_means_no_elicitation_capability() {
    let cli = with_elicitations([one_field_form()]);
    let output = cli.run(&CALL).await;
    assert_eq!(
        (output.code, output.stdout.as_str()),
        (0, "done"),
        "{output}"
    );
    assert_eq!(capabilities(&cli).get("elicitation"), None);
    assert_eq!(responses(&cli)[0]["code"], -32601);
    // `--quiet` disables elicitation too.
    let cli = with_elicitations([one_field_form()]);
    answer_questions(
        cli.start_in_terminal(&["-q", "call", "mcp__ant__ask", "--yes"]),
        &[],
    );
    assert_eq!(capabilities(&cli).get("elicitation"), None);
    assert_eq!(responses(&cli)[0]["code"], -32601);
}

#[tokio::test]
async fn modern_server_requests_input_during_call() {
    let input_requests = json!({"word": {"method": METHOD, "params": one_field_form()}});
    let first = json!({"resultType": "input_required", "inputRequests": input_requests});
    let steps = [
        Step::until(1, [Step::Reply(first)]),
        Step::after(2, [Step::text("done")]),
    ];
    let script = Script::modern().tool("ask").record("record");
    let cli = TestCli::with_servers([("ant", script.on("tools/call ask", steps).into())]);
    let screen = answer_questions(
        cli.start_in_terminal(&CALL),
        &[("> ", "w\n"), ("[c]ancel", "s\n")],
    );
    assert!(screen.ends_with("\ndone\n"), "{screen}");
    let record = record(&cli);
    let mut calls = (record.iter()).filter(|message| message["method"] == "tools/call");
    let accepted = json!({"action": "accept", "content": {"word": "w"}});
    let last = calls.next_back().unwrap();
    assert_eq!(last["params"]["inputResponses"]["word"], accepted, "{last}");
}

#[tokio::test]
async fn local_server_receives_project_root() {
    let cli = with_tool_steps([Step::request("roots/list", json!({})), Step::text("done")]);
    assert_eq!(cli.run(&CALL).await.code, 0);
    let uri = format!("file://{}", cli.sandbox.project().display());
    let roots = json!({"roots": [{"uri": uri, "name": "project"}]});
    assert_eq!(responses(&cli), [roots]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn remote_server_receives_no_roots() {
    let server = HttpServer::start(Script::legacy().tool("echo"), Mode::STATELESS).await;
    let cli = TestCli::with_servers([("s", json!({"type": "http", "url": server.url()}).into())]);
    let output = cli.run(&["tools"]).await;
    assert_eq!(output.code, 0, "{output}");
    let requests = server.executed("initialize");
    assert_eq!(requests[0]["params"]["capabilities"].get("roots"), None);
}
