//! What is remembered of the era that a server speaks, and when it is not believed.

#![allow(
    clippy::unwrap_used,
    reason = "a test that meets the unexpected shall fail"
)]

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
async fn a_server_that_writes_before_its_first_answer_works_every_time() {
    let tag = unique_tag();
    // A prompt without a line end: the first answer stands behind it, and is lost.
    let script = Script::legacy()
        .tool("echo")
        .on_start([Step::bytes("Welcome> ")]);
    let host = permissive()
        .launch(launch("s", child(&script, &tag)))
        .start()
        .unwrap();
    let began = Instant::now();
    for _ in 0..3 {
        let output = host.call("mcp__s__echo", json!({"message": "hi"})).await;
        assert_eq!(output.unwrap().to_text(), "hi");
        host.reconnect("s").await.unwrap();
    }
    // What was lost is seen, and not waited for.
    assert!(began.elapsed() < Duration::from_secs(6));
    host.shutdown().await;
    assert_no_process_left(&tag).await;
}

#[tokio::test]
async fn an_era_that_no_longer_works_is_forgotten() {
    #[derive(Clone, Default)]
    struct Wrong(Arc<Mutex<Vec<&'static str>>>);
    impl ServerCache for Wrong {
        fn era(&self, _: &str) -> Option<Era> {
            Some(Era::Legacy)
        }
        fn remember_era(&self, _: &str, _: Era) {
            self.0.lock().unwrap().push("remembered");
        }
        fn forget_era(&self, _: &str) {
            self.0.lock().unwrap().push("forgotten");
        }
    }
    let start = |script: Script, memory: Wrong| {
        let mut deadlines = Deadlines::default();
        deadlines.startup = Duration::from_millis(500);
        let config = child(&script, "forgotten");
        let builder = permissive()
            .no_reconnect()
            .deadlines(deadlines)
            .server_cache(memory);
        builder.launch(launch("s", config)).start().unwrap()
    };
    for (script, expected) in [
        (Script::modern(), vec!["forgotten", "remembered"]),
        (Script::legacy().on("*", [Step::Hang]), vec!["forgotten"]),
        (
            Script::legacy().on_start([Step::Exit(1)]),
            vec!["forgotten"],
        ),
        (Script::legacy(), vec![]),
    ] {
        let memory = Wrong::default();
        let host = start(script, memory.clone());
        host.wait_for(Readiness::All).await;
        assert_eq!(*memory.0.lock().unwrap(), expected);
        host.shutdown().await;
    }
}
