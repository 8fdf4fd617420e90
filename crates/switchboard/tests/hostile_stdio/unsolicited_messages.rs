//! Output that the host did not request: stderr, server requests, notifications, and notifications
//! with unusual numbers.

use serde_json::json;
use switchboard_testkit::{Script, ServerRequest, Step, read_record};

use crate::harness::TestHost;
use crate::table::{Case, legacy, modern, text, valid_response};

/// A step that sends a request to the host and does not wait for the response.
fn server_request(method: &str) -> Step {
    Step::Request(ServerRequest {
        id: None,
        method: method.to_owned(),
        params: Some(json!({"messages": [], "maxTokens": 1})),
        wait: false,
    })
}

/// A progress notification whose progress value is this JSON text.
fn progress(number: &str) -> Step {
    Step::raw(&format!(
        r#"{{"jsonrpc":"2.0","method":"notifications/progress","params":{{"progressToken":$TOKEN,"progress":{number}}}}}"#
    ))
}

fn odd_progress(numbers: &[&str]) -> Case {
    let notifications = numbers.iter().map(|number| progress(number));
    Case::on_work(notifications.chain([valid_response()])).expects(text("right"))
}

/// A modern server whose tool listing has this `ttlMs`.
fn odd_ttl(ttl: serde_json::Value) -> Case {
    let script = Script {
        ttl_ms: ttl,
        ..modern()
    };
    Case::new(script.on("tools/call work", [valid_response()])).expects(text("right"))
}

/// Returns the responses that the hostile server received from the host.
fn received_responses(test_host: &TestHost) -> Vec<serde_json::Value> {
    let mut messages = read_record(test_host.folder().join("record"));
    messages.retain(|message| message.get("method").is_none());
    messages
}

cases! {
    s36_endless_stderr: "endless stderr while calls work" =>
        Case::new(legacy()
            .on_start([Step::background([Step::StderrFlood { bytes: None }])])
            .on("tools/call work", [valid_response()]))
            .expects(text("right"))
            .expects(text("right"));
    s36_stderr_before_response: "response only after 32 MiB of stderr were read" =>
        Case::on_work([Step::StderrFlood { bytes: Some(32 * 1024 * 1024) }, valid_response()])
            .expects(text("right"));

    s37_secret_on_stderr: "exit with the secret and escape sequences on stderr" =>
        Case::on_start([Step::stderr("\u{1b}[31mbad token hunter2-hunter2\u{1b}]0;gone\u{7}\u{1b}[0m"), Step::Exit(1)])
            .has_secret("TOKEN", "hunter2-hunter2")
            .start_fails("last lines of its stderr:\nbad token ***");
    s37_secret_in_an_error: "error message contains the secret" =>
        Case::on_work([Step::error(-1, "no entry with \u{1b}[31mhunter2-hunter2")])
            .has_secret("TOKEN", "hunter2-hunter2")
            .expects(crate::table::error_response("***"));

    s39_requests_of_a_modern_server: "a modern server sends requests, which it may not" =>
        Case::new(modern()
            .record("record")
            .on("tools/call work", [server_request("sampling/createMessage"), server_request("roots/list"), valid_response()]))
            .expects(text("right"))
            .also_checks(|test_host| assert!(received_responses(test_host).is_empty()));
    s39_unoffered_request: "a legacy server requests an unoffered capability" =>
        Case::on_work([
            Step::request("sampling/createMessage", json!({"messages": [], "maxTokens": 1})),
            Step::ReplyWithResponse,
        ])
            .expects(text("-32601"));
    s39_a_thousand_requests: "a thousand requests without waiting" =>
        Case::on_work([Step::repeat(1_000, [server_request("sampling/createMessage")]), valid_response()])
            .expects(text("right"));

    s40_list_changed_flood: "ten thousand list_changed notifications" =>
        Case::new(legacy()
            .record("record")
            .on("tools/call work", [
                Step::repeated_bytes("{\"jsonrpc\":\"2.0\",\"method\":\"notifications/tools/list_changed\"}\n", 10_000),
                valid_response(),
            ]))
            .expects(text("right"))
            .also_checks(|test_host| {
                let record = read_record(test_host.folder().join("record"));
                let list_requests = record.iter().filter(|message| message["method"] == "tools/list");
                // One listing at the start, then at most ten per second, and two of slack.
                let max = 3 + test_host.start_time.elapsed().as_millis() / 100;
                assert!((list_requests.count() as u128) <= max, "more than {max} list requests");
            });

    s45_negative_ttl: "negative `ttlMs`" => odd_ttl(json!(-1));
    s45_fractional_ttl: "fractional `ttlMs`" => odd_ttl(json!(0.5));
    s45_huge_ttl: "huge `ttlMs`" => odd_ttl(json!(1e300));
    s45_ttl_is_not_a_number: "`ttlMs` is not a number" => odd_ttl(json!("a while"));
    s45_progress_backwards: "progress decreases" =>
        odd_progress(&["5", "3", "-1", "4"]);
    s45_progress_is_not_a_number: "progress is not a number" =>
        odd_progress(&["NaN", "Infinity", "null", "\"1\"", "1"]);
    s45_huge_progress: "progress exceeds 64 bits" =>
        odd_progress(&["9223372036854775808", "18446744073709551616", "1e400", "1e308"]);
}
