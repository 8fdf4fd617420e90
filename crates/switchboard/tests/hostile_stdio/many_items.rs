//! Messages with about a million content blocks or tools, just below the limit on JSON values per
//! message. The memory and CPU limits are those of `json_bombs`.

use serde_json::json;
use switchboard::Host;
use switchboard_testkit::{Script, Step, assert_no_process_left, unique_tag};

use crate::harness::lock_process;
use crate::json_bombs::{Cost, host_of, line, work_and_echo};

/// A number just below the limit `jsonNodes`, the maximum number of JSON values in one message.
const VALUES: u64 = 990_000;

/// Starts a host with this server, runs `action`, and checks memory and CPU time. `action` returns
/// the error or the notes, which must name the limit that was exceeded.
async fn check_cost(script: Script, action: impl AsyncFnOnce(&Host) -> String) {
    let _guard = lock_process().await;
    let tag = unique_tag();
    let cost = Cost::begin();
    let host = host_of(&script, &tag).await;
    let message = action(&host).await;
    cost.check();
    assert!(
        message.contains("limit `"),
        "no limit is named: {message:.500}"
    );
    host.shutdown().await;
    assert_no_process_left(&tag).await;
}

/// Checks a tool result with about a million elements of this kind.
async fn check_content_blocks(element: &str) {
    let before = r#"{"jsonrpc":"2.0","id":$ID,"result":{"content":["#;
    let content = vec![Step::repeated_bytes(element, VALUES)];
    let script = work_and_echo().on("tools/call work", line(before, content, "0]}}"));
    check_cost(script, async |host| {
        match host.call("mcp__s__work", json!({})).await {
            Ok(output) => output.notes.join("\n"),
            Err(error) => error.to_string(),
        }
    })
    .await;
}

/// Checks a page of tools that contains this element `times` times.
async fn check_tool_page(element: &str, times: u64) {
    let before = r#"{"jsonrpc":"2.0","id":$ID,"result":{"tools":["#;
    let tools = vec![Step::repeated_bytes(element, times)];
    let script = work_and_echo().on("tools/list", line(before, tools, "{}]}}"));
    check_cost(script, async |host| {
        let details = host.server_details("s").unwrap();
        details.status.error.unwrap_or_default() + &details.notes.join("\n")
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn million_empty_blocks_stay_in_limits() {
    check_content_blocks("{},").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn million_numeric_blocks_stay_in_limits() {
    check_content_blocks("0,").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn million_empty_tools_stay_in_limits() {
    check_tool_page("{},", VALUES).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn excess_tools_stay_in_limits() {
    check_tool_page(r#"{"name":"a","inputSchema":{}},"#, VALUES / 5).await;
}
