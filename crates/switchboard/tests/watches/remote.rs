//! The same over HTTP.

use serde_json::json;
use switchboard::{Host, Readiness, WatchKind, WatchRequest};
use switchboard_config::{RemoteKind, ServerConfig};
use switchboard_testkit::http::{HttpServer, Mode};
use switchboard_testkit::{Ending, Script};

use crate::common::{launch, permissive};
use crate::{ONCE, URI, next};

async fn watching(script: Script, mode: Mode, kind: RemoteKind) -> (Host, HttpServer) {
    let server = HttpServer::start(script.resource(URI, "a"), mode).await;
    let config = ServerConfig::remote(server.url(), kind);
    let host = permissive().server(launch("s", config)).start().unwrap();
    host.wait_for(Readiness::All).await;
    let watch = host.watch(WatchRequest::subscription("s", URI)).await;
    assert_eq!(watch.unwrap().means, WatchKind::Subscription);
    (host, server)
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
            server.offer().set_resource(URI, text).await;
            let event = next(&host).await;
            assert_eq!(event.happened, ONCE);
            let added = format!("+{text}");
            assert_eq!(event.diff.unwrap().lines().last(), Some(added.as_str()));
        }
        assert_eq!(server.offer().subscribed(), [URI]);
        host.shutdown().await;
    }
}

#[tokio::test]
async fn a_stream_that_broke_is_opened_again_and_what_was_missed_is_told() {
    let (host, server) = watching(Script::modern(), Mode::SSE, RemoteKind::Http).await;
    server.offer().end_listening(Ending::Dropped);
    server.offer().set_resource(URI, "b").await;
    assert_eq!(next(&host).await.happened, ONCE);
    assert_eq!(host.watches()[0].means, WatchKind::Subscription);
    server.offer().set_resource(URI, "c").await;
    assert_eq!(next(&host).await.happened, ONCE);
    host.shutdown().await;
}

#[tokio::test]
async fn the_stream_of_a_watch_that_ended_is_closed() {
    let (host, server) = watching(Script::modern(), Mode::SSE, RemoteKind::Http).await;
    let ours = json!({"resourceSubscriptions": [URI]});
    assert!(server.offer().listening().contains(&ours));
    host.unwatch("sub-1").unwrap();
    while server.offer().listening().contains(&ours) {
        tokio::task::yield_now().await;
    }
    host.shutdown().await;
}
