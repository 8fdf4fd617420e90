//! The cached era of a server: when the host stores it and when it discards it.

#![allow(clippy::unwrap_used, reason = "a failed expectation fails the test")]

mod common;

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use common::{child, launch, permissive};
use serde_json::json;
use switchboard::Readiness;
use switchboard::cache::ServerCache;
use switchboard::limits::Deadlines;
use switchboard::mcp::Era;
use switchboard_testkit::{Script, Step, assert_no_process_left, unique_tag};

#[tokio::test]
async fn banner_before_first_response_is_tolerated() {
    let tag = unique_tag();
    // The banner has no line end. The first response follows on the same line, so the host cannot
    // parse the line, and the response is lost.
    let script = Script::legacy()
        .tool("echo")
        .on_start([Step::bytes("Welcome> ")]);
    let host = permissive()
        .launch(launch("s", child(&script, &tag)))
        .start()
        .unwrap();
    let start_time = Instant::now();
    for _ in 0..3 {
        let output = host.call("mcp__s__echo", json!({"message": "hi"})).await;
        assert_eq!(output.unwrap().to_text(), "hi");
        host.reconnect("s").await.unwrap();
    }
    // The host detects the lost response and does not wait for the handshake timeout.
    assert!(start_time.elapsed() < Duration::from_secs(6));
    host.shutdown().await;
    assert_no_process_left(&tag).await;
}

#[tokio::test]
async fn wrong_cached_era_is_removed() {
    /// A cache that returns the legacy era for every server and records every change of the cached
    /// era.
    #[derive(Clone, Default)]
    struct AlwaysLegacyCache(Arc<Mutex<Vec<Option<Era>>>>);
    impl ServerCache for AlwaysLegacyCache {
        fn era(&self, _: &str) -> Option<Era> {
            Some(Era::Legacy)
        }
        fn remember_era(&self, _: &str, era: Era) {
            self.0.lock().unwrap().push(Some(era));
        }
        fn forget_era(&self, _: &str) {
            self.0.lock().unwrap().push(None);
        }
    }
    let start = |script: Script, cache: AlwaysLegacyCache| {
        let mut deadlines = Deadlines::default();
        deadlines.startup = Duration::from_millis(500);
        let config = child(&script, "forgotten");
        let builder = permissive()
            .no_reconnect()
            .deadlines(deadlines)
            .server_cache(cache);
        builder.launch(launch("s", config)).start().unwrap()
    };
    for (script, expected) in [
        (Script::modern(), vec![Some(Era::Modern)]),
        (Script::legacy().on("*", [Step::Hang]), vec![None]),
        (Script::legacy().on_start([Step::Exit(1)]), vec![None]),
        (Script::legacy(), vec![]),
    ] {
        let cache = AlwaysLegacyCache::default();
        let host = start(script, cache.clone());
        host.wait_for(Readiness::All).await;
        assert_eq!(*cache.0.lock().unwrap(), expected);
        host.shutdown().await;
    }
}
