//! Resources and subscriptions over HTTP, in both eras.

use serde_json::json;
use switchboard_testkit::http::{HttpServer, Mode};
use switchboard_testkit::{ListenEnding, Script, resource};

use crate::client::Wire;

const UPDATED: &str = "notifications/resources/updated";

fn legacy() -> Script {
    Script::legacy().resource("demo://a", "one").prompt("greet")
}

fn modern() -> Script {
    Script::modern().resource("demo://a", "one").prompt("greet")
}

/// The stream of what a session hears without asking.
async fn hear(wire: &Wire) -> Wire {
    let mut stream = wire.another().await;
    stream.send_get("/mcp", &[]).await;
    stream.head().await.unwrap();
    stream.chunk().await.unwrap();
    stream
}

#[tokio::test]
async fn modern_requests_are_answered() {
    let server = HttpServer::start(modern(), Mode::JSON).await;
    let mut wire = Wire::open(&server).await;
    let read = wire
        .ask_modern("resources/read", json!({"uri": "demo://a"}))
        .await;
    assert_eq!(read.json()["result"]["contents"][0]["text"], "one");
    let params = json!({"name": "greet", "arguments": {"name": "Ada"}});
    let filled = wire.ask_modern("prompts/get", params).await;
    assert_eq!(
        filled.json()["result"]["messages"][1]["content"]["text"],
        "Hello, Ada!"
    );
    let missing = wire
        .ask_modern("resources/read", json!({"uri": "demo://none"}))
        .await;
    assert_eq!(
        (missing.status, &missing.json()["error"]["code"]),
        (400, &json!(-32602))
    );
    assert_eq!(server.count("resources/read demo://a"), 1);
}

#[tokio::test]
async fn an_update_goes_to_the_session_that_subscribed() {
    let server = HttpServer::start(legacy(), Mode::JSON).await;
    let mut first = Wire::open(&server).await;
    first.initialize().await;
    let mut second = Wire::open(&server).await;
    second.initialize().await;
    let (mut first_hears, mut second_hears) = (hear(&first).await, hear(&second).await);
    let subscribed = first
        .ask("resources/subscribe", json!({"uri": "demo://a"}))
        .await;
    assert_eq!(subscribed.json()["result"], json!({}));
    let offer = server.catalog();
    assert_eq!(offer.subscribed(), ["demo://a"]);
    offer.set_resource("demo://a", "two").await;
    offer.add_resource(resource("demo://b", "new")).await;
    assert!(
        first_hears
            .chunk()
            .await
            .unwrap()
            .unwrap()
            .contains(UPDATED)
    );
    let changed = "notifications/resources/list_changed";
    assert!(
        first_hears
            .chunk()
            .await
            .unwrap()
            .unwrap()
            .contains(changed)
    );
    assert!(
        second_hears
            .chunk()
            .await
            .unwrap()
            .unwrap()
            .contains(changed)
    );
    first.send("DELETE /mcp", &[], b"").await;
    first.answer().await.unwrap();
    assert!(offer.subscribed().is_empty());
    assert_eq!(server.count("resources/subscribe"), 1);
}

#[tokio::test]
async fn the_first_transport_hears_of_updates_too() {
    let server = HttpServer::start(legacy(), Mode::LegacySse).await;
    let mut stream = Wire::open(&server).await;
    stream.send_get("/sse", &[]).await;
    stream.head().await.unwrap();
    let endpoint = stream.chunk().await.unwrap().unwrap();
    let endpoint = endpoint.split_once("data: ").unwrap().1.trim().to_owned();
    let mut wire = Wire::open(&server).await;
    for (method, params) in [
        ("initialize", json!({})),
        ("resources/subscribe", json!({"uri": "demo://a"})),
    ] {
        let message = wire.request(method, params);
        wire.send_post(&endpoint, &message).await;
        assert_eq!(wire.answer().await.unwrap().status, 202);
        stream.chunk().await.unwrap();
    }
    server.catalog().set_resource("demo://a", "two").await;
    assert!(stream.chunk().await.unwrap().unwrap().contains(UPDATED));
    drop(stream);
    server
        .wait_until("nobody is subscribed", |server| {
            server.catalog().subscribed().is_empty()
        })
        .await;
}

#[tokio::test]
async fn a_listen_over_http_ends_by_its_answer_or_without() {
    for ending in [ListenEnding::Result, ListenEnding::Dropped] {
        let server = HttpServer::start(modern(), Mode::JSON).await;
        let mut wire = Wire::open(&server).await;
        let filter = json!({"resourceSubscriptions": ["demo://a"]});
        wire.send_modern("subscriptions/listen", json!({"notifications": filter}))
            .await;
        wire.head().await.unwrap();
        wire.chunk().await.unwrap();
        server
            .wait_until("it listens", |server| {
                server.catalog().listening().len() == 1
            })
            .await;
        server.catalog().set_resource("demo://a", "two").await;
        assert!(wire.chunk().await.unwrap().unwrap().contains(UPDATED));
        server.catalog().end_listening(ending);
        if ending == ListenEnding::Result {
            let last = wire.chunk().await.unwrap().unwrap();
            assert!(last.contains(r#""resultType":"complete""#));
        }
        assert_eq!(wire.chunk().await.unwrap(), None);
        assert_eq!(server.count("subscriptions/listen"), 1);
    }
}

#[tokio::test]
async fn what_was_changed_outlives_a_restart_and_subscriptions_do_not() {
    let server = HttpServer::start(legacy(), Mode::JSON).await;
    let mut wire = Wire::open(&server).await;
    wire.initialize().await;
    wire.ask("resources/subscribe", json!({"uri": "demo://a"}))
        .await;
    server.catalog().set_resource("demo://a", "two").await;
    server.restart().await;
    assert!(server.catalog().subscribed().is_empty());
    let mut wire = Wire::open(&server).await;
    wire.initialize().await;
    let read = wire.ask("resources/read", json!({"uri": "demo://a"})).await;
    assert_eq!(read.json()["result"]["contents"][0]["text"], "two");
}
