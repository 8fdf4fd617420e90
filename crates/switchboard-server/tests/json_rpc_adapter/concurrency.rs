//! Ten thousand concurrent requests get the responses with their ids.

use std::time::Duration;

use futures_util::stream::{FuturesUnordered, StreamExt};
use serde_json::json;
use switchboard_server::{JsonRpcAdapter, ServerInstance};

use crate::fixture_server::FixtureServer;
use crate::stream::LineServer;
use crate::{LIMIT, call_request, text_of};

const MANY: u64 = 10_000;

/// The delay of request `id`, in milliseconds. All delays differ, because 7919 is coprime to
/// [`MANY`]. Their order differs from the order of the ids.
fn delay(id: u64) -> u64 {
    1 + id * 7919 % MANY
}

async fn assert_responses_match_ids(instance: &ServerInstance) {
    let (adapter, _messages) = JsonRpcAdapter::connect(instance, LIMIT);
    let requests = (0..MANY).map(|id| {
        let message = call_request(id, "wait", json!({"millis": delay(id)}));
        let response = adapter.handle(&message.to_string());
        async move { (id, response.await.unwrap().to_value().unwrap()) }
    });
    let mut responses: FuturesUnordered<_> = requests.collect();
    let mut order = Vec::new();
    while let Some((id, response)) = responses.next().await {
        assert_eq!(response["id"], json!(id));
        assert_eq!(text_of(&response["result"]), delay(id).to_string());
        order.push(id);
    }
    assert_eq!(order.len() as u64, MANY);
    assert!(!order.is_sorted(), "requests should complete out of order");
}

#[tokio::test(start_paused = true)]
async fn direct_server_handles_10_000_calls() {
    assert_responses_match_ids(&FixtureServer::new().instance()).await;
}

#[tokio::test(start_paused = true)]
async fn stream_server_handles_10_000_calls() {
    assert_responses_match_ids(&ServerInstance::stream(LineServer::default())).await;
}

/// Each call is made from its own task, on two worker threads.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn calls_from_10_000_tasks_keep_their_ids() {
    for instance in [
        FixtureServer::new().instance(),
        ServerInstance::stream(LineServer::default()),
    ] {
        let (adapter, _messages) = JsonRpcAdapter::connect(&instance, Duration::from_secs(300));
        let mut tasks = tokio::task::JoinSet::new();
        for id in 0..MANY {
            let adapter = adapter.clone();
            let message = call_request(id, "wait", json!({"millis": id % 3})).to_string();
            tasks.spawn(async move { (id, adapter.handle(&message).await) });
        }
        while let Some(ended) = tasks.join_next().await {
            let (id, response) = ended.unwrap();
            let response = response.unwrap().to_value().unwrap();
            assert_eq!(
                (&response["id"], text_of(&response["result"])),
                (&json!(id), &*(id % 3).to_string())
            );
        }
    }
}
