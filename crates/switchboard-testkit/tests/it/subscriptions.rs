//! Who hears of changes, in both eras.

use serde_json::{Value, json};
use switchboard_testkit::{
    Flood, ListenEnding, MemoryServer, Script, Step, prompt, resource, tool,
};

use crate::client::{Wire, modern, open, start};

const RESOURCES_CHANGED: &str = "notifications/resources/list_changed";

fn legacy() -> Script {
    Script::legacy()
        .resource("demo://a", "one")
        .resource("demo://b", "two")
        .prompt("greet")
}

fn both_resources() -> Value {
    json!({
        "toolsListChanged": true,
        "promptsListChanged": true,
        "resourcesListChanged": true,
        "resourceSubscriptions": ["demo://a", "demo://b"],
    })
}

/// Opens a listen, and says what was acknowledged.
async fn listen(wire: &mut Wire, filter: &Value) -> (u64, Value) {
    let params = modern(&json!({"notifications": filter}));
    let id = wire.request("subscriptions/listen", params).await;
    let acknowledged = wire.next().await;
    assert_eq!(
        acknowledged["method"],
        "notifications/subscriptions/acknowledged"
    );
    assert_eq!(
        acknowledged["params"]["_meta"],
        json!({"io.modelcontextprotocol/subscriptionId": id})
    );
    (id, acknowledged["params"]["notifications"].clone())
}

fn modern_server() -> MemoryServer {
    MemoryServer::new(Script {
        era: switchboard_testkit::Era::Modern,
        ..legacy()
    })
}

#[tokio::test(start_paused = true)]
async fn a_legacy_client_hears_of_what_it_subscribed_to_until_it_does_not() {
    let server = MemoryServer::new(legacy());
    let mut wire = open(&server);
    wire.ask("initialize", json!({})).await;
    let offer = server.catalog();
    offer.set_resource("demo://a", "unheard").await;
    let a = json!({"uri": "demo://a"});
    assert_eq!(wire.ask("resources/subscribe", a.clone()).await, json!({}));
    assert_eq!(offer.subscribed(), ["demo://a"]);
    offer.set_resource("demo://b", "unheard").await;
    offer.set_resource("demo://a", "heard").await;
    assert_eq!(
        wire.next().await,
        json!({"jsonrpc": "2.0", "method": "notifications/resources/updated", "params": a})
    );
    wire.ask("resources/unsubscribe", a).await;
    assert!(offer.subscribed().is_empty());
    offer.set_resource("demo://a", "unheard").await;
    wire.assert_next_is_pong().await;
    assert_eq!(server.count("resources/subscribe"), 1);
    assert_eq!(server.count("resources/unsubscribe demo://a"), 1);
}

#[tokio::test(start_paused = true)]
async fn a_subscription_ends_with_its_connection() {
    let server = MemoryServer::new(legacy());
    let mut first = open(&server);
    first
        .ask("resources/subscribe", json!({"uri": "demo://a"}))
        .await;
    let mut second = open(&server);
    second
        .ask("resources/subscribe", json!({"uri": "demo://a"}))
        .await;
    assert_eq!(server.catalog().subscribed(), ["demo://a", "demo://a"]);
    first.writer = None;
    first.rest().await;
    assert_eq!(server.catalog().subscribed(), ["demo://a"]);
}

#[tokio::test(start_paused = true)]
async fn changed_lists_are_announced() {
    let server = MemoryServer::new(legacy());
    let mut wire = open(&server);
    wire.ask("initialize", json!({})).await;
    let offer = server.catalog();
    offer.add_resource(resource("demo://c", "three")).await;
    assert_eq!(wire.next().await["method"], RESOURCES_CHANGED);
    offer.remove_resource("demo://a").await;
    assert_eq!(wire.next().await["method"], RESOURCES_CHANGED);
    offer.set_prompts(&[prompt("other")]).await;
    assert_eq!(
        wire.next().await["method"],
        "notifications/prompts/list_changed"
    );
    let listed = wire.ask("resources/list", json!({})).await;
    let uris: Vec<_> = listed["resources"]
        .as_array()
        .unwrap()
        .iter()
        .map(|found| &found["uri"])
        .collect();
    assert_eq!(uris, ["demo://b", "demo://c"]);
    let listed = wire.ask("prompts/list", json!({})).await;
    assert_eq!(listed["prompts"][0]["name"], "other");
}

#[tokio::test(start_paused = true)]
async fn a_modern_client_hears_what_it_listens_to_and_nothing_else() {
    let server = modern_server();
    let mut wire = open(&server);
    let filter = json!({"resourceSubscriptions": ["demo://a"]});
    let (id, acknowledged) = listen(&mut wire, &filter).await;
    assert_eq!(acknowledged, filter);
    let offer = server.catalog();
    assert_eq!(offer.listening(), [filter]);
    assert_eq!(offer.subscribed(), ["demo://a"]);
    offer.set_resource("demo://b", "unheard").await;
    offer.add_resource(resource("demo://c", "unheard")).await;
    offer.set_resource("demo://a", "heard").await;
    assert_eq!(
        wire.next().await,
        json!({
            "jsonrpc": "2.0",
            "method": "notifications/resources/updated",
            "params": {
                "uri": "demo://a",
                "_meta": {"io.modelcontextprotocol/subscriptionId": id},
            },
        })
    );
    wire.notify("notifications/cancelled", json!({"requestId": id}))
        .await;
    wire.ask("resources/list", modern(&json!({}))).await;
    assert!(offer.listening().is_empty());
    let response = wire
        .ask("resources/subscribe", modern(&json!({"uri": "demo://a"})))
        .await;
    assert_eq!(response["error"]["code"], -32601);
}

#[tokio::test(start_paused = true)]
async fn only_what_the_server_can_do_is_acknowledged() {
    let all = both_resources();
    let without = Script::modern()
        .resource("demo://a", "one")
        .without_subscribe();
    let some = Script::modern()
        .resource("demo://a", "one")
        .accepting_only(json!({"toolsListChanged": true, "resourceSubscriptions": ["demo://b"]}));
    for (script, expected) in [
        (Script::modern(), json!({"toolsListChanged": true})),
        (
            without,
            json!({"toolsListChanged": true, "resourcesListChanged": true}),
        ),
        (
            some,
            json!({"toolsListChanged": true, "resourceSubscriptions": ["demo://b"]}),
        ),
    ] {
        let mut wire = open(&MemoryServer::new(script));
        assert_eq!(listen(&mut wire, &all).await.1, expected);
    }
}

#[tokio::test(start_paused = true)]
async fn a_listen_ends_as_the_script_wants_it() {
    for ending in [
        ListenEnding::Result,
        ListenEnding::Cancelled,
        ListenEnding::Dropped,
    ] {
        let script = Script::modern()
            .resource("demo://a", "one")
            .end_listen_after(2, ending);
        let server = MemoryServer::new(script);
        let mut wire = open(&server);
        let (id, _) = listen(&mut wire, &both_resources()).await;
        for _ in 0..3 {
            server.catalog().set_resource("demo://a", "again").await;
        }
        wire.next().await;
        wire.next().await;
        assert!(server.catalog().listening().is_empty());
        match ending {
            ListenEnding::Result => assert_eq!(
                wire.next().await,
                json!({"jsonrpc": "2.0", "id": id, "result": {
                    "_meta": {"io.modelcontextprotocol/subscriptionId": id},
                    "resultType": "complete",
                }})
            ),
            ListenEnding::Cancelled => {
                let told = wire.next().await;
                assert_eq!(told["method"], "notifications/cancelled");
                assert_eq!(told["params"]["requestId"], id);
            }
            ListenEnding::Dropped => {}
        }
        wire.ask("resources/list", modern(&json!({}))).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_test_can_end_what_is_listened_to() {
    let server = modern_server();
    let mut wire = open(&server);
    let (id, _) = listen(&mut wire, &both_resources()).await;
    server.catalog().end_listening(ListenEnding::Result);
    assert_eq!(wire.next().await["id"], id);
}

#[tokio::test(start_paused = true)]
async fn steps_change_resources_and_say_so() {
    let script = legacy().on(
        "tools/call change",
        [
            Step::set_resource("demo://a", "changed"),
            Step::resource_updated("demo://b"),
            Step::resources_changed(),
            Step::SetPrompts(vec![]),
            Step::prompts_changed(),
            Step::text("done"),
        ],
    );
    let mut wire = open(&MemoryServer::new(script));
    wire.ask("resources/subscribe", json!({"uri": "demo://a"}))
        .await;
    wire.call("change").await;
    let mut methods = Vec::new();
    for _ in 0..3 {
        methods.push(wire.next().await["method"].as_str().unwrap().to_owned());
    }
    assert_eq!(
        methods,
        [
            "notifications/resources/updated",
            RESOURCES_CHANGED,
            "notifications/prompts/list_changed",
        ]
    );
    assert!(wire.next().await.get("result").is_some());
    let listed = wire.ask("prompts/list", json!({})).await;
    assert_eq!(listed["prompts"], json!([]));
}

#[tokio::test(start_paused = true)]
async fn a_flood_is_as_long_as_it_was_ordered_and_as_fast() {
    let server = MemoryServer::new(legacy());
    let mut wire = open(&server);
    wire.ask("resources/subscribe", json!({"uri": "demo://a"}))
        .await;
    for flood in [
        Flood::of_updates("demo://a", 10_000),
        Flood::of(RESOURCES_CHANGED, 10_000),
    ] {
        let offer = server.catalog();
        let flooding = async { offer.flood(&flood).await };
        let reading = async {
            for _ in 0..10_000 {
                assert!(
                    wire.next().await["method"]
                        .as_str()
                        .unwrap()
                        .contains("resources")
                );
            }
        };
        tokio::join!(flooding, reading);
        wire.assert_next_is_pong().await;
    }
    let before = tokio::time::Instant::now();
    let slow = Flood::of_updates("demo://a", 20).per_second(10);
    server.catalog().flood(&slow).await;
    assert_eq!(before.elapsed(), std::time::Duration::from_secs(2));
}

#[tokio::test]
async fn a_child_is_told_by_tools_what_to_change() {
    let mut script = legacy();
    for name in [
        "set_resource",
        "add_resource",
        "remove_resource",
        "updates_flood",
    ] {
        script = script.raw_tool(tool(name));
    }
    let mut server = start(&script);
    let wire = &mut server.wire;
    wire.ask("resources/subscribe", json!({"uri": "demo://a"}))
        .await;
    assert_eq!(wire.call_text("subscribed", json!({})).await, "demo://a");
    let change = json!({"uri": "demo://a", "text": "changed"});
    wire.request(
        "tools/call",
        json!({"name": "set_resource", "arguments": change}),
    )
    .await;
    assert_eq!(
        wire.next().await["method"],
        "notifications/resources/updated"
    );
    assert_eq!(wire.next().await["result"]["content"][0]["text"], "done");
    let read = wire.ask("resources/read", json!({"uri": "demo://a"})).await;
    assert_eq!(read["contents"][0]["text"], "changed");
    for (tool, arguments) in [
        ("add_resource", json!({"uri": "demo://c", "text": "new"})),
        ("remove_resource", json!({"uri": "demo://c"})),
        ("touch_resources", json!({})),
    ] {
        wire.request("tools/call", json!({"name": tool, "arguments": arguments}))
            .await;
        assert_eq!(wire.next().await["method"], RESOURCES_CHANGED, "{tool}");
        wire.next().await;
    }
    let flood = json!({"uri": "demo://a", "count": 500});
    wire.request(
        "tools/call",
        json!({"name": "updates_flood", "arguments": flood}),
    )
    .await;
    let mut updates = 0;
    for _ in 0..501 {
        updates += u32::from(wire.next().await["method"] == "notifications/resources/updated");
    }
    assert_eq!(updates, 500);
    let gone = json!({"uri": "demo://none", "text": ""});
    let failed = wire
        .ask(
            "tools/call",
            json!({"name": "set_resource", "arguments": gone}),
        )
        .await;
    assert_eq!(failed["isError"], true);
    assert_eq!(server.close_and_wait().await.code(), Some(0));
}
