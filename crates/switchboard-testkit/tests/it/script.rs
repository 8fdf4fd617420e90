//! Scripts as data.

use serde_json::json;
use switchboard_testkit::{
    Cursors, Era, Grandchild, HexBytes, ListenEnding, Script, ServerRequest, Step, tool,
};

#[test]
fn the_empty_script_is_a_polite_legacy_server() {
    let script = Script::from_json("{}").unwrap();
    assert_eq!(script, Script::legacy());
    assert_eq!(script.era, Era::Legacy);
    assert_eq!(script.protocol_version.as_deref(), Some("2025-11-25"));
}

#[test]
fn every_step_can_be_written_in_json() {
    let written = json!([
        "default",
        {"reply": {"a": 1}},
        {"text": "hello"},
        {"error": {"code": -32000, "message": "no", "data": [1]}},
        {"replyTwice": {}},
        {"replyOfSize": 1000},
        "replyWithAnswer",
        {"raw": "{\"id\":$ID}"},
        {"bytes": {"text": "x", "repeat": 3}},
        {"hex": {"data": "fffe00", "repeat": 1}},
        "printEnv",
        {"stderr": "oops"},
        {"stderrFlood": {"bytes": 10}},
        {"stderrFlood": {}},
        {"notify": {"method": "m", "params": {}}},
        {"publish": {"method": "m"}},
        {"progress": {"progress": 1, "total": 2, "message": "half"}},
        {"request": {"id": 7, "method": "roots/list", "await": true}},
        {"delayMs": 5},
        "hang",
        {"repeat": {"times": 2, "steps": ["hang"]}},
        {"repeat": {"steps": ["hang"]}},
        {"background": ["hang"]},
        {"after": {"n": 3, "steps": ["abort"]}},
        {"until": {"n": 3, "steps": ["abort"]}},
        {"once": {"marker": "m", "steps": ["abort"]}},
        {"count": "calls"},
        {"writeFile": {"path": "f", "text": "t"}},
        {"setTools": [{"name": 1}]},
        {"setResources": [{"uri": 1}]},
        {"setPrompts": [{"name": 1}]},
        {"setResource": {"uri": "demo://a", "text": "t"}},
        {"flood": {"uri": "demo://a", "count": 10, "perSecond": 5}},
        {"flood": {"method": "m", "count": 10}},
        {"endListening": "result"},
        {"exit": 3},
        "abort",
        "closeStdout",
        "closeStdin",
        "stopReading",
        "useDescriptors",
        "ignoreTerm",
        "stopSelf",
        {"spawnChild": {"setsid": true, "doubleFork": false, "holdStdout": false, "seconds": 9}},
        {"forkBomb": {"generations": 3}},
    ]);
    let steps: Vec<Step> = serde_json::from_value(written.clone()).unwrap();
    assert_eq!(serde_json::to_value(&steps).unwrap(), written);
}

#[test]
fn what_is_left_out_of_a_step_has_a_default() {
    let steps: Vec<Step> = serde_json::from_value(json!([
        {"bytes": {"text": "x"}},
        {"request": {"method": "ping"}},
        {"spawnChild": {}},
    ]))
    .unwrap();
    let expected = [
        Step::bytes("x"),
        Step::Request(ServerRequest {
            id: None,
            method: "ping".to_owned(),
            params: None,
            wait: false,
        }),
        Step::SpawnChild(Grandchild {
            setsid: false,
            double_fork: false,
            hold_stdout: false,
            seconds: 300,
        }),
    ];
    assert_eq!(steps, expected);
}

#[test]
fn a_script_in_json_has_the_capabilities_of_its_offers_unless_it_says_others() {
    let offers = json!({
        "resources": [{"uri": "demo://a"}],
        "prompts": [{"name": "greet"}],
        "tools": [tool("research")],
    });
    let read = |script: &serde_json::Value| Script::from_json(&script.to_string()).unwrap();
    let derived = read(&offers).capabilities;
    let mut names: Vec<_> = derived.as_object().unwrap().keys().cloned().collect();
    names.sort();
    assert_eq!(names, ["prompts", "resources", "tasks", "tools"]);
    let mut silent = offers;
    silent["capabilities"] = json!({"tools": {}});
    assert_eq!(read(&silent).capabilities, json!({"tools": {}}));
}

#[test]
fn a_script_survives_the_way_through_json() {
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
fn a_misspelt_field_or_step_is_refused() {
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

#[test]
fn hexadecimal_digits_are_bytes() {
    let bytes = HexBytes::try_from("00fF7e".to_owned());
    assert_eq!(bytes, Ok(HexBytes(vec![0x00, 0xff, 0x7e])));
    assert_eq!(String::from(bytes.unwrap()), "00ff7e");
}

#[test]
fn a_known_tool_has_the_schema_of_what_it_does() {
    assert_eq!(
        tool("echo"),
        json!({
            "name": "echo",
            "description": "The scripted tool echo.",
            "inputSchema": {
                "type": "object",
                "properties": {"message": {"type": "string"}},
                "required": ["message"],
            },
        })
    );
}
