//! Watches over HTTP.

use std::time::Duration;

use serde_json::json;
use switchboard::event::Events;
use switchboard::watch::{WatchKind, WatchRequest};
use switchboard::{Event, Host, Readiness};
use switchboard_config::{RemoteKind, ServerConfig};
use switchboard_testkit::http::{Fault, HttpServer, Mode, RawStep, ResponseFormat};
use switchboard_testkit::{ListenEnding, Script};
use tokio::time::timeout;

use crate::common::{launch, permissive};
use crate::{CHANGED_ONCE, TIMEOUT, URI, next_event};

async fn start_watch(script: Script, mode: Mode, kind: RemoteKind) -> (Host, HttpServer) {
    let server = HttpServer::start(script.resource(URI, "a"), mode).await;
    let host = start_host(&server, kind).await;
    let watch = host.watch(WatchRequest::subscription("s", URI)).await;
    assert_eq!(watch.unwrap().effective_kind, WatchKind::Subscription);
    (host, server)
}

async fn start_host(server: &HttpServer, kind: RemoteKind) -> Host {
    let config = ServerConfig::remote(server.url(), kind);
    let host = permissive().launch(launch("s", config)).start().unwrap();
    host.wait_for(Readiness::All).await;
    host
}

/// A legacy server whose first listen stream has no event ids, so it cannot be resumed. Its
/// resource changes with every read, without a notification.
async fn server_with_unresumable_stream() -> HttpServer {
    let script = Script::legacy().counter(URI);
    let server = HttpServer::start(script, Mode::SSE).await;
    let head = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n";
    let stream = [RawStep::send(head), RawStep::Hang];
    server.arm(Fault::raw_steps(stream).on("GET"));
    server
}

async fn wait_for_resources_changed(events: &mut Events) {
    let change = async {
        while let Some(event) = events.next().await {
            if let Event::ResourcesChanged { .. } = event {
                return true;
            }
        }
        false
    };
    assert!(timeout(TIMEOUT, change).await.unwrap());
}

fn every_second() -> WatchRequest {
    WatchRequest::subscription("s", URI).every(Duration::from_secs(1))
}

#[tokio::test]
async fn change_is_reported_on_every_transport() {
    for (script, mode, kind) in [
        (Script::modern(), Mode::SSE, RemoteKind::Http),
        (Script::legacy(), Mode::SSE, RemoteKind::Http),
        (Script::legacy(), Mode::LegacySse, RemoteKind::Sse),
    ] {
        let (host, server) = start_watch(script, mode, kind).await;
        for text in ["b", "c"] {
            server.catalog().set_resource(URI, text).await;
            let event = next_event(&host).await;
            assert_eq!(event.change, CHANGED_ONCE);
            let added = format!("+{text}");
            assert_eq!(event.diff.unwrap().lines().last(), Some(added.as_str()));
        }
        assert_eq!(server.catalog().subscribed(), [URI]);
        host.shutdown().await;
    }
}

#[tokio::test]
async fn reopened_stream_reports_missed_change() {
    let (host, server) = start_watch(Script::modern(), Mode::SSE, RemoteKind::Http).await;
    server.catalog().end_listens(ListenEnding::Dropped);
    server.catalog().set_resource(URI, "b").await;
    assert_eq!(next_event(&host).await.change, CHANGED_ONCE);
    assert_eq!(host.watches()[0].effective_kind, WatchKind::Subscription);
    server.catalog().set_resource(URI, "c").await;
    assert_eq!(next_event(&host).await.change, CHANGED_ONCE);
    host.shutdown().await;
}

#[tokio::test]
async fn ended_watch_closes_its_stream() {
    let (host, server) = start_watch(Script::modern(), Mode::SSE, RemoteKind::Http).await;
    let filter = json!({"resourceSubscriptions": [URI]});
    assert!(server.catalog().listen_filters().contains(&filter));
    host.unwatch("sub-1").unwrap();
    while server.catalog().listen_filters().contains(&filter) {
        tokio::task::yield_now().await;
    }
    host.shutdown().await;
}

#[tokio::test]
async fn new_legacy_stream_reports_missed_change() {
    let server = server_with_unresumable_stream().await;
    let host = start_host(&server, RemoteKind::Http).await;
    let watch = host.watch(WatchRequest::subscription("s", URI)).await;
    assert_eq!(watch.unwrap().effective_kind, WatchKind::Subscription);
    let mut events = host.events();
    server.drop_connections().await;
    assert_eq!(next_event(&host).await.change, CHANGED_ONCE);
    assert_eq!(host.watches()[0].effective_kind, WatchKind::Subscription);
    wait_for_resources_changed(&mut events).await;
    host.shutdown().await;
}

#[tokio::test]
async fn late_first_stream_reports_resource_change() {
    for (script, request) in [
        (Script::modern(), "subscriptions/listen"),
        (Script::legacy(), "GET"),
    ] {
        let server = HttpServer::start(script.resource(URI, "a"), Mode::SSE).await;
        server.arm(Fault::status(503).on(request));
        let host = start_host(&server, RemoteKind::Http).await;
        wait_for_resources_changed(&mut host.events()).await;
        host.shutdown().await;
    }
}

#[tokio::test]
async fn server_without_stream_is_polled() {
    let mode = Mode::Streamable {
        format: ResponseFormat::Sse,
        session: true,
        get_stream: false,
    };
    let script = Script::legacy().resource(URI, "a");
    let server = HttpServer::start(script, mode).await;
    let host = start_host(&server, RemoteKind::Http).await;
    let watch = host.watch(every_second()).await.unwrap();
    assert_eq!(watch.effective_kind, WatchKind::Poll);
    let note = watch.note.unwrap();
    assert!(note.contains("no stream for notifications"), "{note}");
    assert!(note.contains("405"), "{note}");
    assert_eq!(server.count("resources/subscribe"), 0);
    server.catalog().set_resource(URI, "b").await;
    assert_eq!(next_event(&host).await.change, CHANGED_ONCE);
    host.shutdown().await;
}

#[tokio::test]
async fn refused_stream_falls_back_to_polling() {
    let server = server_with_unresumable_stream().await;
    let host = start_host(&server, RemoteKind::Http).await;
    let watch = host.watch(every_second()).await.unwrap();
    assert_eq!(watch.effective_kind, WatchKind::Subscription);
    server.arm(Fault::status(405).on("GET").always());
    server.drop_connections().await;
    assert_eq!(next_event(&host).await.change, CHANGED_ONCE);
    let watch = &host.watches()[0];
    assert_eq!(watch.effective_kind, WatchKind::Poll);
    assert!(watch.note.as_ref().unwrap().contains("405"));
    host.shutdown().await;
}

#[tokio::test]
async fn failing_stream_falls_back_to_polling() {
    let server = HttpServer::start(Script::legacy().counter(URI), Mode::SSE).await;
    server.arm(Fault::status(500).on("GET").always());
    let host = start_host(&server, RemoteKind::Http).await;
    let watch = host.watch(every_second()).await.unwrap();
    assert_eq!(watch.effective_kind, WatchKind::Subscription);
    assert_eq!(next_event(&host).await.change, CHANGED_ONCE);
    let watch = &host.watches()[0];
    assert_eq!(watch.effective_kind, WatchKind::Poll);
    assert!(watch.note.as_ref().unwrap().contains("500"));
    host.shutdown().await;
}
