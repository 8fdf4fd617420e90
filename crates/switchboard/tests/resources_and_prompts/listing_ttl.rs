//! When a cached listing of resources or prompts is fetched again.

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

fn list_requests(server: &MemoryServer, kind: &str) -> usize {
    server.received_with(&format!("{kind}/list")).len()
}

#[tokio::test(start_paused = true)]
async fn cached_listing_lasts_until_change_notification() {
    for mut script in both_eras() {
        script.ttl_ms = json!(null);
        let script = script.resource("demo://x", "x").prompt("greet");
        let (host, server) = host_with(script).await;
        let mut events = host.events();
        for _ in 0..3 {
            host.resources(None).await.unwrap();
            host.prompts(Some("s")).await.unwrap();
        }
        assert_eq!(list_requests(&server, "resources"), 1);
        assert_eq!(list_requests(&server, "prompts"), 1);

        server
            .catalog()
            .add_resource(resource("demo://y", "y"))
            .await;
        let change = next_change(&mut events).await;
        assert!(matches!(change, Event::ResourcesChanged { .. }));
        let listing = host.resources(None).await.unwrap();
        assert_eq!(uris(&listing), ["s demo://x", "s demo://y"]);
        host.resources(None).await.unwrap();
        host.prompts(None).await.unwrap();
        assert_eq!(list_requests(&server, "resources"), 2);
        assert_eq!(
            list_requests(&server, "prompts"),
            1,
            "the prompts did not change"
        );

        server.catalog().set_prompts(&[prompt("other")]).await;
        let method = "notifications/prompts/list_changed";
        server.catalog().announce(method, json!({})).await;
        let change = next_change(&mut events).await;
        assert!(matches!(change, Event::PromptsChanged { .. }));
        let listing = host.prompts(None).await.unwrap();
        assert_eq!(listing.items[0].item.name, "other");
    }
}

#[tokio::test(start_paused = true)]
async fn listing_without_notifications_expires_by_ttl() {
    let mut script = Script::modern().resource("demo://x", "x");
    script.capabilities = json!({"resources": {}});
    script.ttl_ms = json!(60_000);
    let (host, server) = host_with(script.clone()).await;
    host.resources(None).await.unwrap();
    tokio::time::sleep(Duration::from_secs(59)).await;
    host.resources(None).await.unwrap();
    assert_eq!(list_requests(&server, "resources"), 1);
    tokio::time::sleep(Duration::from_secs(2)).await;
    host.resources(None).await.unwrap();
    assert_eq!(list_requests(&server, "resources"), 2);

    script.ttl_ms = json!(null);
    let (host, server) = host_with(script).await;
    host.resources(None).await.unwrap();
    host.resources(None).await.unwrap();
    assert_eq!(
        list_requests(&server, "resources"),
        2,
        "a listing without ttl was cached"
    );
}

/// A server with one resource and one prompt whose listings have no `ttlMs`.
fn server_without_ttl(mut script: Script) -> Script {
    script.ttl_ms = json!(null);
    script.resource("demo://x", "x").prompt("greet")
}

#[tokio::test(start_paused = true)]
async fn only_subscribed_listings_are_cached() {
    let refusing = server_without_ttl(Script::modern()).on(
        "subscriptions/listen",
        [Step::Error {
            code: -32601,
            message: "no such method".to_owned(),
            data: None,
        }],
    );
    let silent = server_without_ttl(Script::modern()).on("subscriptions/listen", [Step::Hang]);
    let prompts_only =
        server_without_ttl(Script::modern()).accepting_only(json!({"promptsListChanged": true}));
    for (script, prompts) in [(refusing, 3), (silent, 3), (prompts_only, 1)] {
        let (host, server) = host_with(script).await;
        for _ in 0..3 {
            host.resources(None).await.unwrap();
            host.prompts(None).await.unwrap();
        }
        assert_eq!(list_requests(&server, "resources"), 3);
        assert_eq!(list_requests(&server, "prompts"), prompts);
    }
}

#[tokio::test(start_paused = true)]
async fn ended_subscription_drops_cached_listing() {
    for ending in [ListenEnding::Result, ListenEnding::Cancelled] {
        let (host, server) = host_with(server_without_ttl(Script::modern())).await;
        host.resources(None).await.unwrap();
        host.resources(None).await.unwrap();
        assert_eq!(list_requests(&server, "resources"), 1);
        server.catalog().end_listens(ending);
        tokio::time::sleep(Duration::from_secs(1)).await;
        server
            .catalog()
            .add_resource(resource("demo://y", "y"))
            .await;
        let listing = host.resources(None).await.unwrap();
        assert_eq!(uris(&listing), ["s demo://x", "s demo://y"]);
    }
}

#[tokio::test]
async fn http_listing_is_cached_only_with_stream() {
    let without_stream = Mode::Streamable {
        format: ResponseFormat::Sse,
        session: true,
        get_stream: false,
    };
    let refusal = || Fault::status(400).on("subscriptions/listen").always();
    for (script, mode, kind, fault, is_cached) in [
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
        let server = HttpServer::start(server_without_ttl(script), mode).await;
        if let Some(fault) = fault {
            server.arm(fault);
        }
        let config = ServerConfig::remote(server.url(), kind);
        let host = permissive().launch(launch("s", config)).start().unwrap();
        host.wait_for(Readiness::All).await;
        host.resources(None).await.unwrap();
        let listed = server.count("resources/list");
        host.resources(None).await.unwrap();
        let repeated = server.count("resources/list") - listed;
        assert_eq!(repeated, usize::from(!is_cached), "{mode:?}");
        host.shutdown().await;
    }
}

#[tokio::test]
async fn cached_listing_does_not_block_shutdown() {
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
async fn change_events_are_rate_limited() {
    let script = Script::legacy().resource("demo://x", "x");
    let (host, server) = host_with(script).await;
    let mut events = host.events();
    let start_time = tokio::time::Instant::now();
    let flood = Flood::of("notifications/resources/list_changed", 10_000).per_second(10_000);
    server.catalog().flood(&flood).await;
    let method = "notifications/prompts/list_changed";
    server.catalog().announce(method, json!({})).await;
    let duration = start_time.elapsed();
    let mut events_seen = 0;
    let mut event = tokio::time::timeout(Duration::from_secs(1), next_change(&mut events)).await;
    while event.is_ok() {
        events_seen += 1;
        event = tokio::time::timeout(Duration::from_secs(1), next_change(&mut events)).await;
    }
    // At most ten events per second, and three more: one at the start, and one for each of the two
    // kinds after the flood.
    let max = duration.as_millis() / 100 + 3;
    assert!(
        (1..=max).contains(&events_seen),
        "{events_seen} in {duration:?}"
    );
    assert_eq!(
        list_requests(&server, "resources"),
        0,
        "a change notification caused a listing"
    );
}
