//! Mistakes in a script or a test that a server in memory must report.

use switchboard_testkit::scripted::ServerExit;
use switchboard_testkit::{MemoryServer, Script, Step};

use crate::client::open;

#[tokio::test(start_paused = true)]
async fn reply_without_request_is_script_error() {
    let server = MemoryServer::new(Script::legacy().on_start([Step::text("no request")]));
    assert_eq!(open(&server).rest().await, b"");
    assert_eq!(server.ended(), [ServerExit::Exited(70)]);
    assert_eq!(
        server.stderr(),
        "scripted server: no request to respond to\n"
    );
}

#[test]
#[should_panic(expected = "StopSelf) needs a process")]
fn process_steps_are_rejected_in_memory() {
    let steps = [Step::after(2, [Step::StopSelf])];
    let _ = MemoryServer::new(Script::legacy().on("tools/call", steps));
}

#[tokio::test(start_paused = true)]
#[should_panic(expected = "waited for 1 of tools/call")]
async fn wait_for_missing_message_times_out() {
    let server = MemoryServer::new(Script::legacy());
    let _wire = open(&server);
    server.wait_received("tools/call", 1).await;
}
