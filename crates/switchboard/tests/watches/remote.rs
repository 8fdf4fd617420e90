//! The same over HTTP.

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
use crate::{A_WHILE, ONCE, URI, next};

async fn watching(script: Script, mode: Mode, kind: RemoteKind) -> (Host, HttpServer) {
    let server = HttpServer::start(script.resource(URI, "a"), mode).await;
    let host = connected(&server, kind).await;
    let watch = host.watch(WatchRequest::subscription("s", URI)).await;
    assert_eq!(watch.unwrap().effective_kind, WatchKind::Subscription);
    (host, server)
}

async fn connected(server: &HttpServer, kind: RemoteKind) -> Host {
    let config = ServerConfig::remote(server.url(), kind);
    let host = permissive().launch(launch("s", config)).start().unwrap();
    host.wait_for(Readiness::All).await;
    host
}

/// A legacy server whose first stream has no events, and so nothing to take it up again by. What changes
/// with every look at it is not told.
async fn forgetful() -> HttpServer {
    let script = Script::legacy().counter(URI);
    let server = HttpServer::start(script, Mode::SSE).await;
    let head = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n";
    let stream = [RawStep::send(head), RawStep::Hang];
    server.arm(Fault::raw_steps(stream).on("GET"));
    server
}

async fn resources_changed(events: &mut Events) {
    let change = async {
        while let Some(event) = events.next().await {
            if let Event::ResourcesChanged { .. } = event {
                return true;
            }
        }
        false
    };
    assert!(timeout(A_WHILE, change).await.unwrap());
}

fn every_second() -> WatchRequest {
    WatchRequest::subscription("s", URI).every(Duration::from_secs(1))
}

#[tokio::test]
async fn a_change_is_told_on_every_transport() {
    for (script, mode, kind) in [
        (Script::modern(), Mode::SSE, RemoteKind::Http),
        (Script::legacy(), Mode::SSE, RemoteKind::Http),
        (Script::legacy(), Mode::LegacySse, RemoteKind::Sse),
    ] {
        let (host, server) = watching(script, mode, kind).await;
        for text in ["b", "c"] {
            server.catalog().set_resource(URI, text).await;
            let event = next(&host).await;
            assert_eq!(event.change, ONCE);
            let added = format!("+{text}");
            assert_eq!(event.diff.unwrap().lines().last(), Some(added.as_str()));
        }
        assert_eq!(server.catalog().subscribed(), [URI]);
        host.shutdown().await;
    }
}

#[tokio::test]
async fn a_stream_that_broke_is_opened_again_and_what_was_missed_is_told() {
    let (host, server) = watching(Script::modern(), Mode::SSE, RemoteKind::Http).await;
    server.catalog().end_listens(ListenEnding::Dropped);
    server.catalog().set_resource(URI, "b").await;
    assert_eq!(next(&host).await.change, ONCE);
    assert_eq!(host.watches()[0].effective_kind, WatchKind::Subscription);
    server.catalog().set_resource(URI, "c").await;
    assert_eq!(next(&host).await.change, ONCE);
    host.shutdown().await;
}

#[tokio::test]
async fn the_stream_of_a_watch_that_ended_is_closed() {
    let (host, server) = watching(Script::modern(), Mode::SSE, RemoteKind::Http).await;
    let ours = json!({"resourceSubscriptions": [URI]});
    assert!(server.catalog().listen_filters().contains(&ours));
    host.unwatch("sub-1").unwrap();
    while server.catalog().listen_filters().contains(&ours) {
        tokio::task::yield_now().await;
    }
    host.shutdown().await;
}

#[tokio::test]
async fn what_was_lost_with_a_legacy_stream_is_told_when_there_is_another() {
    let server = forgetful().await;
    let host = connected(&server, RemoteKind::Http).await;
    let watch = host.watch(WatchRequest::subscription("s", URI)).await;
    assert_eq!(watch.unwrap().effective_kind, WatchKind::Subscription);
    let mut events = host.events();
    server.drop_connections().await;
    assert_eq!(next(&host).await.change, ONCE);
    assert_eq!(host.watches()[0].effective_kind, WatchKind::Subscription);
    resources_changed(&mut events).await;
    host.shutdown().await;
}

#[tokio::test]
async fn what_changed_before_there_was_the_first_stream_is_known_to_have() {
    for (script, refused) in [
        (Script::modern(), "subscriptions/listen"),
        (Script::legacy(), "GET"),
    ] {
        let server = HttpServer::start(script.resource(URI, "a"), Mode::SSE).await;
        server.arm(Fault::status(503).on(refused));
        let host = connected(&server, RemoteKind::Http).await;
        resources_changed(&mut host.events()).await;
        host.shutdown().await;
    }
}

#[tokio::test]
async fn a_server_without_a_stream_to_tell_on_is_polled_and_that_is_said() {
    let mode = Mode::Streamable {
        format: ResponseFormat::Sse,
        session: true,
        get_stream: false,
    };
    let script = Script::legacy().resource(URI, "a");
    let server = HttpServer::start(script, mode).await;
    let host = connected(&server, RemoteKind::Http).await;
    let watch = host.watch(every_second()).await.unwrap();
    assert_eq!(watch.effective_kind, WatchKind::Poll);
    let note = watch.note.unwrap();
    assert!(note.contains("no stream for notifications"), "{note}");
    assert!(note.contains("405"), "{note}");
    assert_eq!(server.count("resources/subscribe"), 0);
    server.catalog().set_resource(URI, "b").await;
    assert_eq!(next(&host).await.change, ONCE);
    host.shutdown().await;
}

#[tokio::test]
async fn a_stream_that_is_not_to_be_had_again_leaves_polling() {
    let server = forgetful().await;
    let host = connected(&server, RemoteKind::Http).await;
    let watch = host.watch(every_second()).await.unwrap();
    assert_eq!(watch.effective_kind, WatchKind::Subscription);
    server.arm(Fault::status(405).on("GET").always());
    server.drop_connections().await;
    assert_eq!(next(&host).await.change, ONCE);
    let watch = &host.watches()[0];
    assert_eq!(watch.effective_kind, WatchKind::Poll);
    assert!(watch.note.as_ref().unwrap().contains("405"));
    host.shutdown().await;
}

#[tokio::test]
async fn a_stream_that_fails_again_and_again_leaves_polling() {
    let server = HttpServer::start(Script::legacy().counter(URI), Mode::SSE).await;
    server.arm(Fault::status(500).on("GET").always());
    let host = connected(&server, RemoteKind::Http).await;
    let watch = host.watch(every_second()).await.unwrap();
    assert_eq!(watch.effective_kind, WatchKind::Subscription);
    assert_eq!(next(&host).await.change, ONCE);
    let watch = &host.watches()[0];
    assert_eq!(watch.effective_kind, WatchKind::Poll);
    assert!(watch.note.as_ref().unwrap().contains("500"));
    host.shutdown().await;
}
