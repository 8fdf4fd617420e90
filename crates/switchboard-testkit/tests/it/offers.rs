//! Resources, prompts and completion, where the script says nothing of their answers.

use serde_json::{Value, json};
use switchboard_testkit::{Cursors, MemoryServer, Script, prompt, resource};

use crate::client::{Wire, modern, open};

fn wire(script: Script) -> Wire {
    open(&MemoryServer::new(script))
}

fn text_of(read: &Value) -> &str {
    read["contents"][0]["text"].as_str().unwrap()
}

#[tokio::test(start_paused = true)]
async fn what_is_not_offered_is_an_unknown_method() {
    let mut wire = wire(
        Script::legacy()
            .resource("demo://a", "one")
            .without_subscribe(),
    );
    for method in [
        "prompts/list",
        "prompts/get",
        "completion/complete",
        "resources/subscribe",
        "resources/unsubscribe",
        "subscriptions/listen",
    ] {
        let response = wire.ask(method, json!({"uri": "demo://a"})).await;
        assert_eq!(response["error"]["code"], -32601, "{method}");
    }
}

#[tokio::test(start_paused = true)]
async fn an_offer_comes_with_its_capability() {
    let script = Script::legacy()
        .resource("demo://a", "one")
        .prompt("greet")
        .completion("greet", "name", ["Ada"]);
    let opened = wire(script).ask("initialize", json!({})).await;
    assert_eq!(
        opened["capabilities"],
        json!({
            "tools": {"listChanged": true},
            "resources": {"subscribe": true, "listChanged": true},
            "prompts": {"listChanged": true},
            "completions": {},
        })
    );
}

#[tokio::test(start_paused = true)]
async fn resources_are_listed_without_what_they_hold_and_read_with_it() {
    let full = json!({
        "uri": "demo://full",
        "name": "full",
        "title": "All of it",
        "mimeType": "text/markdown",
        "size": 3,
        "annotations": {"audience": ["user"], "priority": 0.5},
        "text": "abc",
    });
    let mut listed = full.clone();
    listed.as_object_mut().unwrap().remove("text");
    let blob = json!({"uri": "demo://b", "name": "b", "mimeType": "image/png"});
    let lie = json!([{"uri": "demo://other", "text": "foreign"}]);
    let script = Script::legacy()
        .raw_resource(full)
        .blob("demo://b", "image/png", "AAEC")
        .raw_resource(json!({"uri": "demo://lie", "contents": lie}));
    let mut wire = wire(script);
    let offered = wire.ask("resources/list", json!({})).await;
    assert_eq!(
        offered,
        json!({"resources": [listed, blob, {"uri": "demo://lie"}]})
    );
    let read = wire
        .ask("resources/read", json!({"uri": "demo://full"}))
        .await;
    let content = json!({"uri": "demo://full", "mimeType": "text/markdown", "text": "abc"});
    assert_eq!(read, json!({"contents": [content]}));
    let read = wire.ask("resources/read", json!({"uri": "demo://b"})).await;
    let content = json!({"uri": "demo://b", "mimeType": "image/png", "blob": "AAEC"});
    assert_eq!(read, json!({"contents": [content]}));
    let read = wire
        .ask("resources/read", json!({"uri": "demo://lie"}))
        .await;
    assert_eq!(read, json!({"contents": lie}));
}

#[tokio::test(start_paused = true)]
async fn a_missing_resource_is_refused_as_the_era_wants_it() {
    let script = Script::legacy().resource("demo://a", "one");
    let mut legacy = wire(script);
    let missing = json!({"uri": "demo://none"});
    let response = legacy.ask("resources/read", missing.clone()).await;
    assert_eq!(response["error"]["code"], -32002);
    assert_eq!(response["error"]["data"], missing);
    let response = legacy.ask("resources/subscribe", missing.clone()).await;
    assert_eq!(response["error"]["code"], -32002);
    let mut wire = wire(Script::modern().resource("demo://a", "one"));
    let response = wire.ask("resources/read", modern(&missing)).await;
    assert_eq!(response["error"]["code"], -32602);
    let read = modern(&json!({"uri": "demo://a"}));
    assert_eq!(
        wire.ask("resources/read", read).await,
        json!({
            "contents": [{"uri": "demo://a", "mimeType": "text/plain", "text": "one"}],
            "ttlMs": 60000,
            "cacheScope": "private",
            "resultType": "complete",
        })
    );
}

#[tokio::test(start_paused = true)]
async fn all_lists_come_in_pages() {
    let mut script = Script::legacy().paged(2, Cursors::EmptyFirst);
    for name in ["a", "b", "c"] {
        script = script
            .resource(&format!("demo://{name}"), name)
            .resource_template(&format!("demo://{name}/{{id}}"))
            .prompt(name);
    }
    let mut wire = wire(script);
    for (method, key) in [
        ("resources/list", "resources"),
        ("resources/templates/list", "resourceTemplates"),
        ("prompts/list", "prompts"),
    ] {
        let first = wire.ask(method, json!({})).await;
        assert_eq!(first[key].as_array().unwrap().len(), 2);
        assert_eq!(first["nextCursor"], "");
        let second = wire.ask(method, json!({"cursor": ""})).await;
        assert_eq!(second[key].as_array().unwrap().len(), 1);
        assert_eq!(second.get("nextCursor"), None);
        let response = wire.ask(method, json!({"cursor": "what"})).await;
        assert_eq!(response["error"]["code"], -32602);
    }
}

#[tokio::test(start_paused = true)]
async fn a_template_answers_with_its_variables() {
    let script = Script::legacy()
        .resource_template("demo://item/{id}")
        .raw_template(json!({"uriTemplate": "demo://page/{+path}", "text": "page {path}"}));
    let mut wire = wire(script);
    let read = wire
        .ask("resources/read", json!({"uri": "demo://item/7"}))
        .await;
    assert_eq!(text_of(&read), "id = 7");
    let read = wire
        .ask("resources/read", json!({"uri": "demo://page/a/b"}))
        .await;
    assert_eq!(text_of(&read), "page a/b");
    let response = wire
        .ask("resources/read", json!({"uri": "demo://item/7/8"}))
        .await;
    assert_eq!(response["error"]["code"], -32002);
}

#[tokio::test(start_paused = true)]
async fn a_counter_moves_with_every_read_and_a_clock_with_time() {
    let script = Script::legacy()
        .counter("demo://counter")
        .clock("demo://clock", 1000);
    let mut wire = wire(script);
    for expected in ["count 1", "count 2", "count 3"] {
        let read = wire
            .ask("resources/read", json!({"uri": "demo://counter"}))
            .await;
        assert_eq!(text_of(&read), expected);
    }
    wire.ask("resources/subscribe", json!({"uri": "demo://clock"}))
        .await;
    for expected in ["tick 1", "tick 2"] {
        let told = wire.next().await;
        assert_eq!(told["method"], "notifications/resources/updated");
        assert_eq!(told["params"], json!({"uri": "demo://clock"}));
        let read = wire
            .ask("resources/read", json!({"uri": "demo://clock"}))
            .await;
        assert_eq!(text_of(&read), expected);
    }
}

#[tokio::test(start_paused = true)]
async fn a_change_outlives_the_connection_until_another_script_is_played() {
    let first = Script::legacy().resource("demo://a", "one");
    let other = Script::legacy().resource("demo://b", "two");
    let server = MemoryServer::in_sequence([first.clone(), first, other]);
    let mut wire = open(&server);
    wire.ask("initialize", json!({})).await;
    server.catalog().set_resource("demo://a", "changed").await;
    for _ in 0..2 {
        let read = wire.ask("resources/read", json!({"uri": "demo://a"})).await;
        assert_eq!(text_of(&read), "changed");
        wire = open(&server);
        if server.opened() == 3 {
            break;
        }
    }
    let read = wire.ask("resources/read", json!({"uri": "demo://b"})).await;
    assert_eq!(text_of(&read), "two");
}

#[tokio::test(start_paused = true)]
async fn a_prompt_is_filled_in() {
    let script = Script::legacy()
        .prompt("greet")
        .prompt("picture")
        .prompt("plain");
    let mut wire = wire(script);
    let offered = wire.ask("prompts/list", json!({})).await;
    let mut listed = prompt("greet");
    listed.as_object_mut().unwrap().remove("messages");
    assert_eq!(offered["prompts"][0], listed);
    let arguments = json!({"name": "Ada", "style": "loud"});
    let filled = wire
        .ask(
            "prompts/get",
            json!({"name": "greet", "arguments": arguments}),
        )
        .await;
    assert_eq!(
        filled,
        json!({
            "description": "The scripted prompt greet.",
            "messages": [
                {"role": "user", "content": {"type": "text", "text": "Greet Ada in this style: loud"}},
                {"role": "assistant", "content": {"type": "text", "text": "Hello, Ada!"}},
            ],
        })
    );
    let picture = wire.ask("prompts/get", json!({"name": "picture"})).await;
    assert_eq!(picture["messages"][0]["content"]["type"], "image");
    assert_eq!(
        picture["messages"][1]["content"]["resource"]["text"],
        "embedded"
    );
    for wrong in [json!({"name": "greet"}), json!({"name": "none"})] {
        let response = wire.ask("prompts/get", wrong).await;
        assert_eq!(response["error"]["code"], -32602);
    }
}

#[tokio::test(start_paused = true)]
async fn completion_knows_what_was_typed_and_what_was_chosen_before() {
    let script = Script::legacy()
        .prompt("greet")
        .resource_template("demo://{country}/{city}")
        .completion("greet", "name", ["Ada", "Alan", "Grace"])
        .completion_when(
            "demo://{country}/{city}",
            "city",
            [("country", "de")],
            ["Berlin"],
        )
        .completion_when(
            "demo://{country}/{city}",
            "city",
            [("country", "fr")],
            ["Paris"],
        );
    let mut wire = wire(script);
    let of_prompt = json!({"type": "ref/prompt", "name": "greet"});
    let of_template = json!({"type": "ref/resource", "uri": "demo://{country}/{city}"});
    let no_context = json!({});
    let in_france = json!({"arguments": {"country": "fr"}});
    for (subject, argument, typed, context, expected) in [
        (
            &of_prompt,
            "name",
            "",
            &no_context,
            vec!["Ada", "Alan", "Grace"],
        ),
        (&of_prompt, "name", "A", &no_context, vec!["Ada", "Alan"]),
        (&of_prompt, "style", "", &no_context, vec![]),
        (&of_template, "city", "", &in_france, vec!["Paris"]),
        (&of_template, "city", "", &no_context, vec![]),
    ] {
        let argument = json!({"name": argument, "value": typed});
        let params = json!({"ref": subject, "argument": argument, "context": context});
        let result = wire.ask("completion/complete", params).await;
        let completion = json!({"values": expected, "total": expected.len(), "hasMore": false});
        assert_eq!(result, json!({"completion": completion}));
    }
    let unknown = json!({"type": "ref/prompt", "name": "none"});
    let params = json!({"ref": unknown, "argument": {"name": "name", "value": ""}});
    let response = wire.ask("completion/complete", params).await;
    assert_eq!(response["error"]["code"], -32602);
}

#[tokio::test(start_paused = true)]
async fn completion_stops_at_a_hundred_and_says_so() {
    let names: Vec<_> = (0..250).map(|number| format!("n{number}")).collect();
    let script = Script::legacy().prompt("greet").completion(
        "greet",
        "name",
        names.iter().map(String::as_str),
    );
    let subject = json!({"type": "ref/prompt", "name": "greet"});
    let params = json!({"ref": subject, "argument": {"name": "name", "value": ""}});
    let result = wire(script).ask("completion/complete", params).await;
    let completion = &result["completion"];
    assert_eq!(completion["values"].as_array().unwrap().len(), 100);
    assert_eq!(completion["total"], 250);
    assert_eq!(completion["hasMore"], true);
}

#[tokio::test(start_paused = true)]
async fn requests_are_counted_by_method_and_by_name() {
    let server = MemoryServer::new(Script::legacy().resource("demo://a", "one"));
    let mut wire = open(&server);
    wire.ask("resources/list", json!({})).await;
    for _ in 0..2 {
        wire.ask("resources/read", json!({"uri": "demo://a"})).await;
    }
    assert_eq!(server.count("resources/list"), 1);
    assert_eq!(server.count("resources/read"), 2);
    assert_eq!(server.count("resources/read demo://a"), 2);
    let counts = wire.call_text("counts", json!({})).await;
    let counts: Value = serde_json::from_str(&counts).unwrap();
    assert_eq!(counts["resources/read demo://a"], 2);
}

#[tokio::test(start_paused = true)]
async fn a_resource_of_the_kit_is_well_formed() {
    assert_eq!(
        resource("demo://dir/a.txt", "one"),
        json!({
            "uri": "demo://dir/a.txt",
            "name": "a.txt",
            "description": "The scripted resource demo://dir/a.txt.",
            "mimeType": "text/plain",
            "text": "one",
        })
    );
}
