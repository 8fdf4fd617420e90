//! When a listing that is kept is asked for again.

use std::time::Duration;

use serde_json::json;
use switchboard::event::Events;
use switchboard::{Event, Readiness};
use switchboard_config::{RemoteKind, ServerConfig};
use switchboard_testkit::http::{Fault, HttpServer, Mode, ResponseFormat};
use switchboard_testkit::{Flood, ListenEnding, MemoryServer, Script, Step, prompt, resource};

use super::common::{host_with, launch, permissive};
use super::{both_eras, uris};

async fn next_change(events: &mut Events) -> Event {
    loop {
        let change = events.next().await.unwrap();
        if let Event::ResourcesChanged { .. } | Event::PromptsChanged { .. } = change {
            return change;
        }
    }
}

fn listings(server: &MemoryServer, what: &str) -> usize {
    server.received_with(&format!("{what}/list")).len()
}

#[tokio::test(start_paused = true)]
async fn a_kept_listing_is_not_asked_for_again_until_the_server_announces_a_change() {
    for mut script in both_eras() {
        script.ttl_ms = json!(null);
        let script = script.resource("demo://x", "x").prompt("greet");
        let (host, server) = host_with(script).await;
        let mut events = host.events();
        for _ in 0..3 {
            host.resources(None).await.unwrap();
            host.prompts(Some("s")).await.unwrap();
        }
        assert_eq!(listings(&server, "resources"), 1);
        assert_eq!(listings(&server, "prompts"), 1);

        server
            .catalog()
            .add_resource(resource("demo://y", "y"))
            .await;
        let change = next_change(&mut events).await;
        assert!(matches!(change, Event::ResourcesChanged { .. }));
        let offer = host.resources(None).await.unwrap();
        assert_eq!(uris(&offer), ["s demo://x", "s demo://y"]);
        host.resources(None).await.unwrap();
        host.prompts(None).await.unwrap();
        assert_eq!(listings(&server, "resources"), 2);
        assert_eq!(listings(&server, "prompts"), 1, "of these nothing was said");

        server.catalog().set_prompts(&[prompt("other")]).await;
        let method = "notifications/prompts/list_changed";
        server.catalog().announce(method, json!({})).await;
        let change = next_change(&mut events).await;
        assert!(matches!(change, Event::PromptsChanged { .. }));
        let offer = host.prompts(None).await.unwrap();
        assert_eq!(offer.items[0].item.name, "other");
    }
}

#[tokio::test(start_paused = true)]
async fn a_listing_lasts_as_long_as_the_server_says_where_it_announces_nothing() {
    let mut script = Script::modern().resource("demo://x", "x");
    script.capabilities = json!({"resources": {}});
    script.ttl_ms = json!(60_000);
    let (host, server) = host_with(script.clone()).await;
    host.resources(None).await.unwrap();
    tokio::time::sleep(Duration::from_secs(59)).await;
    host.resources(None).await.unwrap();
    assert_eq!(listings(&server, "resources"), 1);
    tokio::time::sleep(Duration::from_secs(2)).await;
    host.resources(None).await.unwrap();
    assert_eq!(listings(&server, "resources"), 2);

    script.ttl_ms = json!(null);
    let (host, server) = host_with(script).await;
    host.resources(None).await.unwrap();
    host.resources(None).await.unwrap();
    assert_eq!(
        listings(&server, "resources"),
        2,
        "nobody says how long it is good"
    );
}

/// A server whose listings say nothing of time, with one resource and one prompt.
fn timeless(mut script: Script) -> Script {
    script.ttl_ms = json!(null);
    script.resource("demo://x", "x").prompt("greet")
}

#[tokio::test(start_paused = true)]
async fn only_what_a_modern_server_agreed_to_tell_is_kept() {
    let refusing = timeless(Script::modern()).on(
        "subscriptions/listen",
        [Step::Error {
            code: -32601,
            message: "no such method".to_owned(),
            data: None,
        }],
    );
    let silent = timeless(Script::modern()).on("subscriptions/listen", [Step::Hang]);
    let choosy = timeless(Script::modern()).accepting_only(json!({"promptsListChanged": true}));
    for (script, prompts) in [(refusing, 3), (silent, 3), (choosy, 1)] {
        let (host, server) = host_with(script).await;
        for _ in 0..3 {
            host.resources(None).await.unwrap();
            host.prompts(None).await.unwrap();
        }
        assert_eq!(listings(&server, "resources"), 3);
        assert_eq!(listings(&server, "prompts"), prompts);
    }
}

#[tokio::test(start_paused = true)]
async fn a_listing_is_not_kept_longer_than_its_changes_are_told() {
    for ending in [ListenEnding::Result, ListenEnding::Cancelled] {
        let (host, server) = host_with(timeless(Script::modern())).await;
        host.resources(None).await.unwrap();
        host.resources(None).await.unwrap();
        assert_eq!(listings(&server, "resources"), 1);
        server.catalog().end_listens(ending);
        tokio::time::sleep(Duration::from_secs(1)).await;
        server
            .catalog()
            .add_resource(resource("demo://y", "y"))
            .await;
        let offer = host.resources(None).await.unwrap();
        assert_eq!(uris(&offer), ["s demo://x", "s demo://y"]);
    }
}

#[tokio::test]
async fn over_http_a_listing_is_kept_where_its_changes_can_be_heard() {
    let without_stream = Mode::Streamable {
        format: ResponseFormat::Sse,
        session: true,
        get_stream: false,
    };
    let refusal = || Fault::status(400).on("subscriptions/listen").always();
    for (script, mode, kind, fault, is_kept) in [
        (Script::legacy(), Mode::SSE, RemoteKind::Http, None, true),
        (
            Script::legacy(),
            without_stream,
            RemoteKind::Http,
            None,
            false,
        ),
        (
            Script::legacy(),
            Mode::LegacySse,
            RemoteKind::Sse,
            None,
            true,
        ),
        (Script::modern(), Mode::SSE, RemoteKind::Http, None, true),
        (
            Script::modern(),
            Mode::SSE,
            RemoteKind::Http,
            Some(refusal()),
            false,
        ),
    ] {
        let server = HttpServer::start(timeless(script), mode).await;
        if let Some(fault) = fault {
            server.arm(fault);
        }
        let config = ServerConfig::remote(server.url(), kind);
        let host = permissive().launch(launch("s", config)).start().unwrap();
        host.wait_for(Readiness::All).await;
        host.resources(None).await.unwrap();
        let listed = server.count("resources/list");
        host.resources(None).await.unwrap();
        let again = server.count("resources/list") - listed;
        assert_eq!(again, usize::from(!is_kept), "{mode:?}");
        host.shutdown().await;
    }
}

#[tokio::test]
async fn a_kept_listing_keeps_no_session_open() {
    for (script, mode, kind) in [
        (Script::legacy(), Mode::SSE, RemoteKind::Http),
        (Script::modern(), Mode::SSE, RemoteKind::Http),
        (Script::legacy(), Mode::LegacySse, RemoteKind::Sse),
    ] {
        let script = script.resource("demo://x", "x").prompt("greet");
        let server = HttpServer::start(script, mode).await;
        let config = ServerConfig::remote(server.url(), kind);
        let host = permissive().launch(launch("s", config)).start().unwrap();
        host.wait_for(Readiness::All).await;
        assert_eq!(host.resources(None).await.unwrap().items.len(), 1);
        assert_eq!(host.prompts(None).await.unwrap().items.len(), 1);
        let ended = tokio::time::timeout(Duration::from_secs(5), host.shutdown());
        assert!(ended.await.is_ok(), "{kind:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_flood_of_announced_changes_is_told_at_a_bounded_rate() {
    let script = Script::legacy().resource("demo://x", "x");
    let (host, server) = host_with(script).await;
    let mut events = host.events();
    let start_time = tokio::time::Instant::now();
    let flood = Flood::of("notifications/resources/list_changed", 10_000).per_second(10_000);
    server.catalog().flood(&flood).await;
    let method = "notifications/prompts/list_changed";
    server.catalog().announce(method, json!({})).await;
    let took = start_time.elapsed();
    let mut told = 0;
    let mut waiting = tokio::time::timeout(Duration::from_secs(1), next_change(&mut events)).await;
    while waiting.is_ok() {
        told += 1;
        waiting = tokio::time::timeout(Duration::from_secs(1), next_change(&mut events)).await;
    }
    // Ten a second, and each kind once more.
    let most = took.as_millis() / 100 + 3;
    assert!((1..=most).contains(&told), "{told} in {took:?}");
    assert_eq!(listings(&server, "resources"), 0, "nobody asked");
}
