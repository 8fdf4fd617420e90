//! Scripts are read from JSON and written as JSON.

use serde_json::json;
use switchboard_testkit::{Cursors, Era, ListenEnding, Script, Step};

#[test]
fn script_round_trips_through_json() {
    let script = Script {
        protocol_version: None,
        cursor_bytes: 12,
        ttl_ms: json!(-1),
        ..Script::of_era(Era::LegacySilentOnProbe)
    }
    .tool("echo")
    .raw_tool(json!("not even an object"))
    .resource("demo://a", "text")
    .clock("demo://clock", 50)
    .resource_template("demo://item/{id}")
    .prompt("greet")
    .completion_when("greet", "name", [("style", "loud")], ["Ada"])
    .accepting_only(json!({"toolsListChanged": true}))
    .end_listen_after(3, ListenEnding::Result)
    .research()
    .instructions("be nice")
    .paged(2, Cursors::EmptyFirst)
    .serial()
    .record("lines")
    .on_start([Step::stderr("up")])
    .on("*", [Step::binary(&[0xff, 0x0a]), Step::Default])
    .on_eof([Step::Exit(3)]);
    assert_eq!(Script::from_json(&script.to_json()).unwrap(), script);
}

#[test]
fn unknown_fields_and_steps_are_rejected() {
    for wrong in [
        r#"{"tool": []}"#,
        r#"{"era": "ancient"}"#,
        r#"{"start": ["sleep"]}"#,
        r#"{"start": [{"bytes": {"text": "x", "times": 2}}]}"#,
        r#"{"start": [{"spawnChild": {"second": 2}}]}"#,
        r#"{"start": [{"request": {"method": "m", "wait": true}}]}"#,
        r#"{"start": [{"hex": {"data": "abc"}}]}"#,
        r#"{"start": [{"hex": {"data": "zz"}}]}"#,
    ] {
        assert!(Script::from_json(wrong).is_err(), "{wrong} was accepted");
    }
}
