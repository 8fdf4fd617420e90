//! Messages that keep to the budget, and would still be large if every piece of them were kept: a
//! million blocks, a million tools. The bounds are those of the bombs.

use serde_json::json;
use switchboard::Host;
use switchboard_testkit::{Script, Step, assert_no_process_left, unique_tag};

use crate::harness::alone;
use crate::json_bombs::{Cost, host_of, line, polite};

/// Nearly as many values as one message may hold.
const VALUES: u64 = 990_000;

/// The cost of whatever `meet` does with a host of this server.
async fn check_cost(script: Script, meet: impl AsyncFnOnce(&Host) -> String) {
    let _alone = alone().await;
    let tag = unique_tag();
    let cost = Cost::begin();
    let host = host_of(&script, &tag).await;
    let said = meet(&host).await;
    cost.check();
    assert!(said.contains("limit `"), "no limit is named: {said:.500}");
    host.shutdown().await;
    assert_no_process_left(&tag).await;
}

/// A result with so many blocks, and what is said of them.
async fn content_of(piece: &str) {
    let before = r#"{"jsonrpc":"2.0","id":$ID,"result":{"content":["#;
    let content = vec![Step::repeated_bytes(piece, VALUES)];
    let script = polite().on("tools/call work", line(before, content, "0]}}"));
    check_cost(script, async |host| {
        match host.call("mcp__s__work", json!({})).await {
            Ok(output) => output.notes.join("\n"),
            Err(error) => error.to_string(),
        }
    })
    .await;
}

/// A page with so many tools, and what is said of them.
async fn page_of(piece: &str, times: u64) {
    let before = r#"{"jsonrpc":"2.0","id":$ID,"result":{"tools":["#;
    let tools = vec![Step::repeated_bytes(piece, times)];
    let script = polite().on("tools/list", line(before, tools, "{}]}}"));
    check_cost(script, async |host| {
        let inspection = host.server_details("s").unwrap();
        inspection.status.error.unwrap_or_default() + &inspection.notes.join("\n")
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_million_empty_blocks_cost_no_more_than_a_bomb() {
    content_of("{},").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_million_blocks_that_are_numbers_cost_no_more_than_a_bomb() {
    content_of("0,").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_page_of_a_million_empty_tools_costs_no_more_than_a_bomb() {
    page_of("{},", VALUES).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_page_of_too_many_tools_costs_no_more_than_a_bomb() {
    page_of(r#"{"name":"a","inputSchema":{}},"#, VALUES / 5).await;
}
