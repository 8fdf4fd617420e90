//! HTTP error statuses: error bodies that contain the credential, invalid `Retry-After` values, and
//! servers that answer every request with 401 or 403.

use switchboard_testkit::http::{Fault, RawStep};

use crate::table::{CANARY, Case, Start, error_response, head, invalid_response, outcome_unknown};

/// A JSON-RPC error that contains the credential in every text field.
fn error_with_credential() -> String {
    format!(
        r#"{{"jsonrpc":"2.0","id":$ID,"error":{{"code":-32000,"message":"bad Bearer {CANARY}","data":{{"got":"{CANARY}"}}}}}}"#
    )
}

/// A response with this status and header. Its body is plain text that contains the credential.
fn echo_credential(status: &str, header: &str) -> Fault {
    let head = format!("HTTP/1.1 {status}\r\n{header}\r\nConnection: close\r\n\r\n");
    Fault::raw_steps([
        RawStep::send(head),
        RawStep::send(format!("you said Bearer {CANARY}")),
    ])
}

fn credential_in_error() -> Fault {
    Fault::raw_steps([
        head("application/json"),
        RawStep::send(error_with_credential()),
    ])
}

fn credential_in_error_with_status(status: &str) -> Fault {
    let head =
        format!("HTTP/1.1 {status}\r\nContent-Type: application/json\r\nConnection: close\r\n\r\n");
    Fault::raw_steps([RawStep::send(head), RawStep::send(error_with_credential())])
}

/// An error status with this `Retry-After`.
fn busy(status: u16, wait: &'static str) -> Fault {
    Fault::status(status).header("Retry-After", wait)
}

/// The server answers the call with HTTP 429 and this `Retry-After`.
fn busy_on_call(wait: &'static str) -> Case {
    Case::modern()
        .fault_on_work(busy(429, wait))
        .expects(error_response("HTTP 429"))
}

/// The server answers every request with HTTP 503, beginning with the first. The host must retry,
/// but not more often than its backoff allows.
fn busy_from_start(wait: &'static str) -> Case {
    Case::modern()
        .fault_at_start(busy(503, wait).always())
        .start_fails(Start::Retried("HTTP 503"))
        .also_checks(|servers| {
            let request_count = servers.hostile.requests().len();
            let max = 2 + servers.start_time.elapsed().as_millis() / 400;
            assert!(request_count as u128 <= max, "{request_count} requests");
        })
}

/// Uses an auth provider that asks for a retry after every HTTP 401. Checks that the host limits
/// the rate of refused requests.
fn always_refused(case: Case) -> Case {
    case.with_retrying_provider().also_checks(|servers| {
        let requests = servers.hostile.requests();
        let refused = requests
            .iter()
            .filter(|request| request.status == Some(401));
        let max = 8 + servers.start_time.elapsed().as_millis() / 100;
        assert!(refused.count() as u128 <= max, "{}", requests.len());
    })
}

cases! {
    h23_in_body_of_500: "the body of HTTP 500 contains the credential" =>
        Case::modern().fault_on_work(echo_credential("500 Oh No", "X: y")).expects(outcome_unknown("HTTP 500"));
    h23_in_body_of_422: "the body of HTTP 422 contains the credential" =>
        Case::modern().fault_on_work(echo_credential("422 Oh No", "X: y")).expects(error_response("HTTP 422"));
    h23_in_json_rpc_error: "a JSON-RPC error contains the credential" =>
        Case::modern().fault_on_work(credential_in_error()).expects(error_response("***"));
    h23_in_json_rpc_error_with_400: "a JSON-RPC error with HTTP 400 contains the credential" =>
        Case::modern().fault_on_work(credential_in_error_with_status("400 Bad Request")).expects(error_response("***"));
    h23_in_content_type: "Content-Type contains the credential" =>
        Case::modern()
            .fault_on_work(echo_credential("200 OK", &format!("Content-Type: text/{CANARY}")))
            .expects(outcome_unknown("***"));
    h23_in_content_encoding: "Content-Encoding contains the credential" =>
        Case::modern()
            .fault_on_work(echo_credential("200 OK", &format!("Content-Type: application/json\r\nContent-Encoding: {CANARY}")))
            .expects(outcome_unknown(""));
    h23_in_location: "Location contains the credential" =>
        Case::modern()
            .fault_on_work(echo_credential("301 Moved", &format!("Location: http://127.0.0.1:1/{CANARY}")))
            .expects(error_response("***"));
    h23_in_reason_phrase: "the reason phrase contains the credential" =>
        Case::modern()
            .fault_on_work(echo_credential(&format!("500 {CANARY}"), "X: y"))
            .expects(outcome_unknown("HTTP 500"));
    h23_in_challenge: "WWW-Authenticate contains the credential" =>
        Case::modern()
            .fault_at_start(echo_credential("401 Unauthorized", &format!("WWW-Authenticate: Bearer realm=\"{CANARY}\"")).always())
            .start_fails(Start::NeedsLogin);
    h23_at_start: "HTTP 500 at startup contains the credential" =>
        Case::modern()
            .fault_at_start(echo_credential("500 Oh No", "X: y").always())
            .start_fails(Start::Retried("HTTP 500"));
    h23_in_json_rpc_error_at_start: "a JSON-RPC error at startup contains the credential" =>
        Case::modern()
            .fault_at_start(credential_in_error().always())
            .start_fails(Start::Failed("***"));
    h23_provider_in_body_of_500: "the body of HTTP 500 contains the credential of an auth provider" =>
        Case::modern().with_retrying_provider().fault_on_work(echo_credential("500 Oh No", "X: y")).expects(outcome_unknown("HTTP 500"));
    h23_provider_in_json_rpc_error: "a JSON-RPC error contains the credential of an auth provider" =>
        Case::modern().with_retrying_provider().fault_on_work(credential_in_error()).expects(error_response("***"));
    h23_provider_in_event: "an event contains the credential of an auth provider" =>
        Case::modern()
            .with_retrying_provider()
            .fault_on_work(Fault::raw_steps([
                head("text/event-stream"),
                RawStep::send(format!("data: {}\n\n", error_with_credential())),
            ]))
            .expects(error_response("***"));
    h23_provider_in_content_type: "Content-Type contains the credential of an auth provider" =>
        Case::modern()
            .with_retrying_provider()
            .fault_on_work(echo_credential("200 OK", &format!("Content-Type: text/{CANARY}")))
            .expects(outcome_unknown("***"));
    h23_provider_in_location: "Location contains the credential of an auth provider" =>
        Case::modern()
            .with_retrying_provider()
            .fault_on_work(echo_credential("301 Moved", &format!("Location: http://127.0.0.1:1/{CANARY}")))
            .expects(error_response("***"));
    h23_provider_on_sse_2024_stream: "the 2024 event stream contains the credential of an auth provider" =>
        Case::sse()
            .with_retrying_provider()
            .script(|script| script.on("tools/call work", [
                switchboard_testkit::Step::error(-32000, &format!("bad Bearer {CANARY}")),
            ]))
            .expects(error_response("***"));
    h23_provider_in_json_rpc_error_at_start: "a JSON-RPC error at startup contains the credential of an auth provider" =>
        Case::modern()
            .with_retrying_provider()
            .fault_at_start(credential_in_error().always())
            .start_fails(Start::Failed("***"));

    h30_zero: "Retry-After is zero" => busy_on_call("0");
    h30_negative: "Retry-After is negative" => busy_on_call("-5");
    h30_ten_years: "Retry-After is ten years" => busy_on_call("315360000");
    h30_in_the_past: "Retry-After is a date in the past" => busy_on_call("Sun, 06 Nov 1994 08:49:37 GMT");
    h30_overflow: "Retry-After overflows 64 bits" => busy_on_call("99999999999999999999999");
    h30_not_a_number: "Retry-After is not a number" => busy_on_call("a while");
    h30_at_start_zero: "503 at startup, Retry-After is zero" => busy_from_start("0");
    h30_at_start_negative: "503 at startup, Retry-After is negative" => busy_from_start("-1");
    h30_at_start_in_the_past: "503 at startup, Retry-After is a date in the past" =>
        busy_from_start("Sun, 06 Nov 1994 08:49:37 GMT");
    h30_at_start_ten_years: "503 at startup, Retry-After is ten years" =>
        busy_from_start("315360000").also_checks(|servers| {
            let detail = servers.details().status.detail.unwrap();
            // `detail` contains the number of the attempt and the delay until the retry. The host
            // limits `Retry-After` to 600 seconds; 900 leaves a margin.
            let seconds: Vec<u64> = detail
                .split(|character: char| !character.is_ascii_digit())
                .filter_map(|digits| digits.parse().ok())
                .collect();
            assert!(seconds.iter().all(|number| *number <= 900), "{detail}");
        });
    h30_503_on_call_is_outcome_unknown: "HTTP 503 for a call, which may have been executed" =>
        Case::modern().fault_on_work(busy(503, "0")).expects(outcome_unknown("HTTP 503"));

    h31_401_from_start: "HTTP 401 for every request" =>
        always_refused(Case::modern())
            .before_start(|servers| servers.hostile.require_bearer("another-one"))
            .start_fails(Start::Retried("401"));
    h31_401_after_connect: "HTTP 401 for every request after the connect" =>
        always_refused(Case::modern())
            .after_connect(|servers| servers.hostile.require_bearer("another-one"))
            .expects(error_response("401"))
            .stays_disconnected();
    h31_403_for_every_call: "HTTP 403 for every call" =>
        Case::modern()
            .with_retrying_provider()
            .after_connect(|servers| servers.hostile.arm(Fault::status(403).on("tools/call work").always()))
            .expects(error_response("403"))
            .also_checks(|servers| assert!(servers.hostile.requests_with("tools/call").len() <= 5));
    h31_401_for_configured_header: "HTTP 401 for the credential of the config entry" =>
        Case::modern()
            .before_start(|servers| servers.hostile.require_bearer("another-one"))
            .start_fails(Start::NeedsLogin)
            .also_checks(|servers| assert!(servers.hostile.requests().len() <= 2));
    h31_malformed_challenge: "HTTP 401 with a malformed challenge" =>
        Case::modern()
            .fault_at_start(Fault::unauthorized("Bearer realm=\"never closed, =,,==").always())
            .start_fails(Start::NeedsLogin);
    h31_401_as_json_body: "HTTP 200 whose JSON body is the number 401" =>
        Case::modern()
            .fault_on_work(Fault::raw_steps([head("application/json"), RawStep::send("401")]))
            .expects(invalid_response(""));
}
