//! Servers that say no: with our own secrets, with odd waits, without end.

use switchboard_testkit::http::{Fault, RawStep};

use crate::table::{CANARY, Row, Start, head, refused, unknown, unusable};

/// An error of the protocol that repeats the credential wherever there is room.
fn telltale() -> String {
    format!(
        r#"{{"jsonrpc":"2.0","id":$ID,"error":{{"code":-32000,"message":"bad Bearer {CANARY}","data":{{"got":"{CANARY}"}}}}}}"#
    )
}

/// An answer of this status, with this header, and the credential in its body.
fn echoing(status: &str, header: &str) -> Fault {
    let head = format!("HTTP/1.1 {status}\r\n{header}\r\nConnection: close\r\n\r\n");
    Fault::raw_steps([
        RawStep::send(head),
        RawStep::send(format!("you said Bearer {CANARY}")),
    ])
}

fn told() -> Fault {
    Fault::raw_steps([head("application/json"), RawStep::send(telltale())])
}

fn told_with(status: &str) -> Fault {
    let head =
        format!("HTTP/1.1 {status}\r\nContent-Type: application/json\r\nConnection: close\r\n\r\n");
    Fault::raw_steps([RawStep::send(head), RawStep::send(telltale())])
}

/// Busy, and it says for how long.
fn busy(status: u16, wait: &'static str) -> Fault {
    Fault::status(status).header("Retry-After", wait)
}

/// Busy whenever it is called.
fn too_busy(wait: &'static str) -> Row {
    Row::modern()
        .works(busy(429, wait))
        .sees(refused("HTTP 429"))
}

/// Busy from the start: it is asked again, but not at once, and not never.
fn never_ready(wait: &'static str) -> Row {
    Row::modern()
        .begins(busy(503, wait).always())
        .does_not_start(Start::Retried("HTTP 503"))
        .holds(|stage| {
            let asked = stage.server.requests().len();
            let most = 2 + stage.start_time.elapsed().as_millis() / 400;
            assert!(asked as u128 <= most, "asked {asked} times");
        })
}

/// Every request is refused for its credential, and there is always another try to be made.
fn always_refused(row: Row) -> Row {
    row.stubborn().holds(|stage| {
        let asked = stage.server.requests();
        let refused = asked.iter().filter(|seen| seen.status == Some(401));
        let most = 8 + stage.start_time.elapsed().as_millis() / 100;
        assert!(refused.count() as u128 <= most, "{}", asked.len());
    })
}

rows! {
    h23_in_words: "repeats our credential in the words of an error" =>
        Row::modern().works(echoing("500 Oh No", "X: y")).sees(unknown("HTTP 500"));
    h23_in_words_of_a_refusal: "repeats our credential in the words of a refusal" =>
        Row::modern().works(echoing("422 Oh No", "X: y")).sees(refused("HTTP 422"));
    h23_in_an_error: "repeats our credential in an error of the protocol" =>
        Row::modern().works(told()).sees(refused("***"));
    h23_in_an_error_with_a_status: "repeats our credential in an error of the protocol, with a status" =>
        Row::modern().works(told_with("400 Bad Request")).sees(refused("***"));
    h23_in_a_header: "repeats our credential as the kind of its answer" =>
        Row::modern()
            .works(echoing("200 OK", &format!("Content-Type: text/{CANARY}")))
            .sees(unknown("***"));
    h23_in_an_encoding: "repeats our credential as the encoding of its answer" =>
        Row::modern()
            .works(echoing("200 OK", &format!("Content-Type: application/json\r\nContent-Encoding: {CANARY}")))
            .sees(unknown(""));
    h23_in_a_place: "repeats our credential as the place to go to" =>
        Row::modern()
            .works(echoing("301 Moved", &format!("Location: http://127.0.0.1:1/{CANARY}")))
            .sees(refused("***"));
    h23_in_the_reason: "repeats our credential beside the status" =>
        Row::modern()
            .works(echoing(&format!("500 {CANARY}"), "X: y"))
            .sees(unknown("HTTP 500"));
    h23_in_a_challenge: "repeats our credential in what it wants instead" =>
        Row::modern()
            .begins(echoing("401 Unauthorized", &format!("WWW-Authenticate: Bearer realm=\"{CANARY}\"")).always())
            .does_not_start(Start::NeedsLogin);
    h23_at_the_start: "repeats our credential before there is a session" =>
        Row::modern()
            .begins(echoing("500 Oh No", "X: y").always())
            .does_not_start(Start::Retried("HTTP 500"));
    h23_in_a_refused_start: "refuses the first request with our credential" =>
        Row::modern()
            .begins(told().always())
            .does_not_start(Start::Failed("***"));
    h23_of_a_program: "repeats in words a credential that is not the entry's" =>
        Row::modern().stubborn().works(echoing("500 Oh No", "X: y")).sees(unknown("HTTP 500"));
    h23_of_a_program_in_an_error: "repeats in an error a credential that is not the entry's" =>
        Row::modern().stubborn().works(told()).sees(refused("***"));
    h23_of_a_program_in_an_event: "repeats in an event a credential that is not the entry's" =>
        Row::modern()
            .stubborn()
            .works(Fault::raw_steps([
                head("text/event-stream"),
                RawStep::send(format!("data: {}\n\n", telltale())),
            ]))
            .sees(refused("***"));
    h23_of_a_program_in_a_header: "repeats in a header a credential that is not the entry's" =>
        Row::modern()
            .stubborn()
            .works(echoing("200 OK", &format!("Content-Type: text/{CANARY}")))
            .sees(unknown("***"));
    h23_of_a_program_in_a_place: "repeats as a place a credential that is not the entry's" =>
        Row::modern()
            .stubborn()
            .works(echoing("301 Moved", &format!("Location: http://127.0.0.1:1/{CANARY}")))
            .sees(refused("***"));
    h23_of_a_program_on_the_one_stream: "repeats on its one stream a credential that is not the entry's" =>
        Row::sse()
            .stubborn()
            .script(|script| script.on("tools/call work", [
                switchboard_testkit::Step::error(-32000, &format!("bad Bearer {CANARY}")),
            ]))
            .sees(refused("***"));
    h23_of_a_program_in_a_refused_start: "refuses the first request with a credential that is not the entry's" =>
        Row::modern()
            .stubborn()
            .begins(told().always())
            .does_not_start(Start::Failed("***"));

    h30_at_once: "is busy, and wants to be asked again at once" => too_busy("0");
    h30_before_now: "is busy for less than no time" => too_busy("-5");
    h30_ten_years: "is busy for ten years" => too_busy("315360000");
    h30_in_the_past: "is busy until a day long ago" => too_busy("Sun, 06 Nov 1994 08:49:37 GMT");
    h30_beyond_any_number: "is busy for longer than can be counted" => too_busy("99999999999999999999999");
    h30_in_words: "is busy for a while" => too_busy("a while");
    h30_never_ready_at_once: "is never ready, and wants to be asked again at once" => never_ready("0");
    h30_never_ready_before_now: "is never ready, for less than no time" => never_ready("-1");
    h30_never_ready_in_the_past: "is never ready, until a day long ago" =>
        never_ready("Sun, 06 Nov 1994 08:49:37 GMT");
    h30_ready_in_ten_years: "is ready in ten years, and is asked long before" =>
        never_ready("315360000").holds(|stage| {
            let detail = stage.inspection().status.detail.unwrap();
            // No more than ten minutes and what chance adds to them.
            let seconds: Vec<u64> = detail
                .split(|letter: char| !letter.is_ascii_digit())
                .filter_map(|digits| digits.parse().ok())
                .collect();
            assert!(seconds.iter().all(|number| *number <= 900), "{detail}");
        });
    h30_busy_with_a_call_under_way: "may or may not have carried out a call when it is busy" =>
        Row::modern().works(busy(503, "0")).sees(unknown("HTTP 503"));

    h31_refused_for_ever: "refuses every credential" =>
        always_refused(Row::modern())
            .before(|stage| stage.server.require_bearer("another-one"))
            .does_not_start(Start::Retried("401"));
    h31_refused_later: "refuses every credential from some time on" =>
        always_refused(Row::modern())
            .then(|stage| stage.server.require_bearer("another-one"))
            .sees(refused("401"))
            .stays_away();
    h31_forbidden_for_ever: "forbids every call" =>
        Row::modern()
            .stubborn()
            .then(|stage| stage.server.arm(Fault::status(403).on("tools/call work").always()))
            .sees(refused("403"))
            .holds(|stage| assert!(stage.server.requests_with("tools/call").len() <= 5));
    h31_entry_is_refused: "refuses the credential of the entry" =>
        Row::modern()
            .before(|stage| stage.server.require_bearer("another-one"))
            .does_not_start(Start::NeedsLogin)
            .holds(|stage| assert!(stage.server.requests().len() <= 2));
    h31_wrong_challenge: "asks for a login in words that cannot be read" =>
        Row::modern()
            .begins(Fault::unauthorized("Bearer realm=\"never closed, =,,==").always())
            .does_not_start(Start::NeedsLogin);
    h31_unusable: "refuses a credential and is not understood" =>
        Row::modern()
            .works(Fault::raw_steps([head("application/json"), RawStep::send("401")]))
            .sees(unusable(""));
}
