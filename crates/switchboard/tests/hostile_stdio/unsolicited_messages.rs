//! What a server says of its own accord: stderr, requests, notifications, odd numbers.

use serde_json::json;
use switchboard_testkit::{Script, ServerRequest, Step, read_record};

use crate::harness::Scene;
use crate::table::{Row, legacy, modern, right, text};

/// A request of the server that it does not wait for.
fn ask(method: &str) -> Step {
    Step::Request(ServerRequest {
        id: None,
        method: method.to_owned(),
        params: Some(json!({"messages": [], "maxTokens": 1})),
        wait: false,
    })
}

/// Progress in the server's own spelling.
fn progress(number: &str) -> Step {
    Step::raw(&format!(
        r#"{{"jsonrpc":"2.0","method":"notifications/progress","params":{{"progressToken":$TOKEN,"progress":{number}}}}}"#
    ))
}

fn odd_progress(numbers: &[&str]) -> Row {
    let notes = numbers.iter().map(|number| progress(number));
    Row::working(notes.chain([right()])).sees(text("right"))
}

/// A modern server that says this of how long its answers hold.
fn odd_ttl(ttl: serde_json::Value) -> Row {
    let script = Script {
        ttl_ms: ttl,
        ..modern()
    };
    Row::of(script.on("tools/call work", [right()])).sees(text("right"))
}

/// The messages that the hostile server got, without those that have a method.
fn answers_to_the_server(scene: &Scene) -> Vec<serde_json::Value> {
    let mut messages = read_record(scene.folder().join("record"));
    messages.retain(|message| message.get("method").is_none());
    messages
}

rows! {
    s36_stderr_for_ever: "writes to stderr without end, and works on" =>
        Row::of(legacy()
            .on_start([Step::background([Step::StderrFlood { bytes: None }])])
            .on("tools/call work", [right()]))
            .sees(text("right"))
            .sees(text("right"));
    s36_stderr_before_the_answer: "answers only when 32 MiB of its stderr have been read" =>
        Row::working([Step::StderrFlood { bytes: Some(32 * 1024 * 1024) }, right()])
            .sees(text("right"));

    s37_colours_and_secrets_on_stderr: "dies with its secret in colour on stderr" =>
        Row::starting([Step::stderr("\u{1b}[31mbad token hunter2-hunter2\u{1b}]0;gone\u{7}\u{1b}[0m"), Step::Exit(1)])
            .keeps("TOKEN", "hunter2-hunter2")
            .does_not_start("its last words on stderr:\nbad token ***");
    s37_secret_in_an_error: "puts its secret into an error" =>
        Row::working([Step::error(-1, "no entry with \u{1b}[31mhunter2-hunter2")])
            .keeps("TOKEN", "hunter2-hunter2")
            .sees(crate::table::refused("***"));

    s39_requests_of_a_modern_server: "asks for a model and for roots, where no server may ask" =>
        Row::of(modern()
            .record("record")
            .on("tools/call work", [ask("sampling/createMessage"), ask("roots/list"), right()]))
            .sees(text("right"))
            .holds(|scene| assert!(answers_to_the_server(scene).is_empty()));
    s39_requests_of_a_legacy_server: "asks for what was not offered" =>
        Row::working([
            Step::request("sampling/createMessage", json!({"messages": [], "maxTokens": 1})),
            Step::ReplyWithResponse,
        ])
            .sees(text("-32601"));
    s39_a_thousand_requests: "asks a thousand times and does not wait for an answer" =>
        Row::working([Step::repeat(1_000, [ask("sampling/createMessage")]), right()])
            .sees(text("right"));

    s40_list_changed: "says ten thousand times that its tools have changed" =>
        Row::of(legacy()
            .record("record")
            .on("tools/call work", [
                Step::repeated_bytes("{\"jsonrpc\":\"2.0\",\"method\":\"notifications/tools/list_changed\"}\n", 10_000),
                right(),
            ]))
            .sees(text("right"))
            .holds(|scene| {
                let record = read_record(scene.folder().join("record"));
                let listings = record.iter().filter(|message| message["method"] == "tools/list");
                // One to begin with, and no more than ten a second.
                let most = 3 + scene.start_time.elapsed().as_millis() / 100;
                assert!((listings.count() as u128) <= most, "more than {most} listings");
            });

    s45_negative_ttl: "says that its tools hold for less than no time" => odd_ttl(json!(-1));
    s45_broken_ttl: "says that its tools hold for a fraction of a millisecond" => odd_ttl(json!(0.5));
    s45_huge_ttl: "says that its tools hold for ever and longer" => odd_ttl(json!(1e300));
    s45_ttl_in_words: "says in words how long its tools hold" => odd_ttl(json!("a while"));
    s45_progress_backwards: "reports progress that goes backwards" =>
        odd_progress(&["5", "3", "-1", "4"]);
    s45_progress_of_no_number: "reports progress that is no number" =>
        odd_progress(&["NaN", "Infinity", "null", "\"1\"", "1"]);
    s45_huge_progress: "reports progress beyond any integer" =>
        odd_progress(&["9223372036854775808", "18446744073709551616", "1e400", "1e308"]);
}
