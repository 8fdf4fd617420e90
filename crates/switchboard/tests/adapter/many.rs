//! Ten thousand requests at once.

use std::time::Duration;

use futures_util::stream::{FuturesUnordered, StreamExt};
use serde_json::json;
use switchboard::inprocess::{Adapter, ServerInstance};

use crate::server::Workshop;
use crate::stream::Lines;
use crate::{LIMIT, call, text_of};

const MANY: u64 = 10_000;

/// In a shuffled order of completion: the step is coprime to the number of requests.
fn delay(id: u64) -> u64 {
    1 + id * 7919 % MANY
}

async fn each_is_answered_to_its_own_id(instance: &ServerInstance) {
    let (adapter, _said) = Adapter::connect(instance, LIMIT);
    let requests = (0..MANY).map(|id| {
        let message = call(id, "wait", json!({"millis": delay(id)}));
        let answer = adapter.handle(&message.to_string());
        async move { (id, answer.await.unwrap().to_value().unwrap()) }
    });
    let mut answers: FuturesUnordered<_> = requests.collect();
    let mut order = Vec::new();
    while let Some((id, answer)) = answers.next().await {
        assert_eq!(answer["id"], json!(id));
        assert_eq!(text_of(&answer["result"]), delay(id).to_string());
        order.push(id);
    }
    assert_eq!(order.len() as u64, MANY);
    assert!(!order.is_sorted(), "they were to be completed out of order");
}

#[tokio::test(start_paused = true)]
async fn ten_thousand_calls_of_a_server_that_is_called_directly() {
    each_is_answered_to_its_own_id(&Workshop::new().instance()).await;
}

#[tokio::test(start_paused = true)]
async fn ten_thousand_calls_of_a_server_behind_a_stream() {
    each_is_answered_to_its_own_id(&ServerInstance::stream(Lines::default())).await;
}

/// The same from many tasks on several threads, which begin and end as they come.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ten_thousand_calls_from_as_many_tasks() {
    for instance in [
        Workshop::new().instance(),
        ServerInstance::stream(Lines::default()),
    ] {
        let (adapter, _said) = Adapter::connect(&instance, Duration::from_secs(300));
        let mut tasks = tokio::task::JoinSet::new();
        for id in 0..MANY {
            let adapter = adapter.clone();
            let message = call(id, "wait", json!({"millis": id % 3})).to_string();
            tasks.spawn(async move { (id, adapter.handle(&message).await) });
        }
        while let Some(ended) = tasks.join_next().await {
            let (id, answer) = ended.unwrap();
            let answer = answer.unwrap().to_value().unwrap();
            assert_eq!(
                (&answer["id"], text_of(&answer["result"])),
                (&json!(id), &*(id % 3).to_string())
            );
        }
    }
}
