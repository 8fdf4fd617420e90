//! Threads that a host starts end when the host is dropped.
//!
//! The test looks at all threads of its process, so this binary contains no other test.

#![allow(clippy::unwrap_used, reason = "a failed expectation fails the test")]

mod common;

use std::time::{Duration, Instant};

use common::{child, launch, permissive};
use switchboard::Readiness;
use switchboard_testkit::{Script, Step, assert_no_process_left, unique_tag};

/// Names of the threads of this process whose name starts with `switchboard-`.
fn switchboard_threads() -> Vec<String> {
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
    // The only thread is the one that spawns processes. Linux truncates its name to 15 bytes.
    assert_eq!(switchboard_threads(), ["switchboard-spa\n"]);
    host.shutdown().await;
    drop(host);
    let start_time = Instant::now();
    while !switchboard_threads().is_empty() {
        assert!(
            start_time.elapsed() < Duration::from_secs(5),
            "{:?}",
            switchboard_threads()
        );
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    assert_no_process_left(&tag).await;
}
