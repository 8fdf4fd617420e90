//! Servers in memory, on a paused clock.

use std::time::Duration;

use serde_json::{Value, json};
use switchboard_testkit::scripted::ServerExit;
use switchboard_testkit::{MemoryServer, Script, Step};
use tokio::time::Instant;

use crate::client::open;

fn texts<'a>(messages: &'a [Value]) -> Vec<&'a Value> {
    let text = |message: &'a Value| &message["result"]["content"][0]["text"];
    messages.iter().map(text).collect()
}

#[tokio::test(start_paused = true)]
async fn a_delay_takes_exactly_its_time_on_the_paused_clock() {
    let script = Script::legacy().on(
        "tools/call",
        [Step::delay(Duration::from_secs(3600)), Step::text("late")],
    );
    let mut wire = open(&MemoryServer::new(script));
    let before = Instant::now();
    wire.call("slow").await;
    tokio::time::sleep(Duration::from_secs(3599)).await;
    assert_eq!(texts(&[wire.next().await]), ["late"]);
    assert_eq!(before.elapsed(), Duration::from_secs(3600));
}

#[tokio::test(start_paused = true)]
async fn a_delayed_call_does_not_hold_up_another() {
    let script = Script::legacy()
        .on("tools/call slow", [Step::DelayMs(100), Step::text("slow")])
        .on("tools/call fast", [Step::text("fast")]);
    let mut wire = open(&MemoryServer::new(script));
    wire.call("slow").await;
    wire.call("fast").await;
    let answers = [wire.next().await, wire.next().await];
    assert_eq!(texts(&answers), ["fast", "slow"]);
}

#[tokio::test(start_paused = true)]
async fn a_serial_server_answers_in_order() {
    let script = Script::legacy()
        .serial()
        .on("tools/call slow", [Step::DelayMs(100), Step::text("slow")])
        .on("tools/call fast", [Step::text("fast")]);
    let mut wire = open(&MemoryServer::new(script));
    wire.call("slow").await;
    wire.call("fast").await;
    let answers = [wire.next().await, wire.next().await];
    assert_eq!(texts(&answers), ["slow", "fast"]);
}

#[tokio::test(start_paused = true)]
async fn a_serial_server_still_hears_the_answer_it_waits_for() {
    let script = Script::legacy().serial().on(
        "tools/call",
        [
            Step::request("roots/list", json!({})),
            Step::ReplyWithResponse,
        ],
    );
    let mut wire = open(&MemoryServer::new(script));
    wire.call("any").await;
    let asked = wire.next().await;
    assert_eq!(
        asked,
        json!({"jsonrpc": "2.0", "id": "server-1", "method": "roots/list", "params": {}})
    );
    let answer = json!({"jsonrpc": "2.0", "id": "server-1", "result": {"roots": []}});
    wire.send(&answer).await;
    assert_eq!(texts(&[wire.next().await]), [&answer.to_string()]);
}

#[tokio::test(start_paused = true)]
async fn every_message_of_the_client_is_kept_in_order() {
    let server = MemoryServer::new(Script::legacy());
    let mut first = open(&server);
    first.notify("notifications/initialized", json!({})).await;
    first.send_line("junk").await.unwrap();
    server.wait_received("notifications/initialized", 1).await;
    first.next().await;
    let mut second = open(&server);
    second.ask("ping", json!({})).await;
    assert_eq!(
        server.received(),
        [
            json!({"jsonrpc": "2.0", "method": "notifications/initialized", "params": {}}),
            json!("junk"),
            json!({"jsonrpc": "2.0", "id": 1, "method": "ping", "params": {}}),
        ]
    );
    assert_eq!(server.opened(), 2);
    assert_eq!(server.received_with("ping").len(), 1);
}

#[tokio::test(start_paused = true)]
async fn the_counter_tells_how_often_a_tool_ran() {
    let script = Script::legacy().on("tools/call pay", [Step::count("pay"), Step::text("paid")]);
    let server = MemoryServer::new(script);
    assert_eq!(server.count("pay"), 0);
    for _ in 0..2 {
        let mut wire = open(&server);
        wire.call_text("pay", json!({})).await;
    }
    assert_eq!(server.count("pay"), 2);
}

#[tokio::test(start_paused = true)]
async fn the_end_of_a_server_is_the_end_of_both_streams() {
    let endings = [
        (Step::Exit(3), vec![ServerExit::Exited(3)]),
        (Step::Abort, vec![ServerExit::Killed]),
    ];
    for (step, expected) in endings {
        let script = Script::legacy().on("tools/call", [Step::bytes("half a li"), step]);
        let server = MemoryServer::new(script);
        let mut wire = open(&server);
        wire.call("any").await;
        assert_eq!(wire.rest().await, b"half a li");
        assert_eq!(server.ended(), expected);
        assert!(wire.send_line("{}").await.is_err());
    }
}

#[tokio::test(start_paused = true)]
async fn a_killed_connection_ends_in_the_middle_of_whatever_it_does() {
    let flood = Step::forever([Step::notify("notifications/tools/list_changed")]);
    let script = Script::legacy().on("tools/call", [flood]);
    let server = MemoryServer::new(script);
    let mut wire = open(&server);
    wire.call("any").await;
    wire.next().await;
    server.kill();
    wire.rest().await;
    assert!(wire.send_line("{}").await.is_err());
    assert_eq!(server.ended(), []);

    let mut again = open(&server);
    again.assert_next_is_pong().await;
    assert_eq!(server.opened(), 2);
}

#[tokio::test(start_paused = true)]
async fn a_server_ends_when_the_client_closes_its_end() {
    let script = Script::legacy().on_eof([Step::bytes("bye"), Step::Exit(5)]);
    for (script, code, farewell) in [(Script::legacy(), 0, ""), (script, 5, "bye")] {
        let server = MemoryServer::new(script);
        let mut wire = open(&server);
        wire.writer = None;
        assert_eq!(wire.rest().await, farewell.as_bytes());
        assert_eq!(server.ended(), [ServerExit::Exited(code)]);
    }
}

#[tokio::test(start_paused = true)]
async fn each_connection_can_play_a_script_of_its_own() {
    let crashing = Script::legacy().on_start([Step::Exit(1)]);
    let server = MemoryServer::in_sequence([crashing, Script::legacy()]);
    assert_eq!(open(&server).rest().await, b"");
    open(&server).assert_next_is_pong().await;
    open(&server).assert_next_is_pong().await;
}

#[tokio::test(start_paused = true)]
async fn stderr_is_kept() {
    let script = Script::legacy().on_start([Step::stderr("warming up")]);
    let server = MemoryServer::new(script);
    open(&server).assert_next_is_pong().await;
    assert_eq!(server.stderr(), "warming up\n");
}

#[tokio::test(start_paused = true)]
async fn an_answer_without_a_request_is_a_fault_of_the_script() {
    let server = MemoryServer::new(Script::legacy().on_start([Step::text("to whom?")]));
    assert_eq!(open(&server).rest().await, b"");
    assert_eq!(server.ended(), [ServerExit::Exited(70)]);
    assert_eq!(
        server.stderr(),
        "scripted server: there is no request to answer here\n"
    );
}

#[test]
#[should_panic(expected = "StopSelf) needs a real process")]
fn what_needs_a_process_is_refused_in_memory() {
    let steps = [Step::after(2, [Step::StopSelf])];
    let _ = MemoryServer::new(Script::legacy().on("tools/call", steps));
}

#[tokio::test(start_paused = true)]
#[should_panic(expected = "waited for 1 of tools/call")]
async fn waiting_for_a_message_that_never_comes_is_bounded() {
    let server = MemoryServer::new(Script::legacy());
    let _wire = open(&server);
    server.wait_received("tools/call", 1).await;
}
