//! The threads that a host starts end with it.
//!
//! Alone in its file, because it looks at all threads of its process.

#![allow(
    clippy::unwrap_used,
    reason = "a test that meets the unexpected shall fail"
)]

mod common;

use std::time::{Duration, Instant};

use common::{child, launch, permissive};
use switchboard::Readiness;
use switchboard_testkit::{Script, Step, assert_no_process_left, unique_tag};

/// The threads of this process that bear our name.
fn ours() -> Vec<String> {
    let threads = std::fs::read_dir("/proc/self/task").unwrap();
    let names =
        threads.filter_map(|thread| std::fs::read_to_string(thread.ok()?.path().join("comm")).ok());
    names
        .filter(|name| name.starts_with("switchboard-"))
        .collect()
}

#[tokio::test]
async fn no_thread_outlives_its_host() {
    let tag = unique_tag();
    let script = Script::legacy().on_start([Step::spawn_in_own_session()]);
    let host = permissive()
        .launch(launch("s", child(&script, &tag)))
        .start()
        .unwrap();
    host.wait_for(Readiness::All).await;
    // The kernel cuts names.
    assert_eq!(ours(), ["switchboard-spa\n"]);
    host.shutdown().await;
    drop(host);
    let began = Instant::now();
    while !ours().is_empty() {
        assert!(began.elapsed() < Duration::from_secs(5), "{:?}", ours());
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    assert_no_process_left(&tag).await;
}
