//! A steady load on 40 healthy servers that share the host with others.

use std::future::IntoFuture;
use std::time::Duration;

use switchboard::Host;
use tokio::task::JoinHandle;
use tokio::time::{Instant, Interval, interval_at, timeout};

use crate::job::{Figures, Stopwatch};

const HEALTHY_SERVERS: usize = 40;
const CALL_INTERVAL: Duration = Duration::from_millis(10);
/// Pause between two calls to a hostile server.
const HOSTILE_PAUSE: Duration = Duration::from_millis(100);
const WARM_UP: Duration = Duration::from_millis(500);
const MEASURE_TIME: Duration = Duration::from_secs(3);

pub async fn load(others: &[Option<String>]) -> Figures {
    let mut builder = super::host_builder();
    for number in 0..HEALTHY_SERVERS {
        builder = builder.launch(super::server(&format!("healthy{number}"), []));
    }
    for (number, hostile) in others.iter().enumerate() {
        let arguments = hostile.iter().flat_map(|kind| ["--hostile", kind]);
        builder = builder.launch(super::server(&format!("other{number}"), arguments));
    }
    let host = super::start(builder).await;
    let hostile = (0..others.len()).filter(|number| others[*number].is_some());
    let hostile_calls: Vec<_> = hostile
        .map(|number| spawn_hostile_calls(&host, number))
        .collect();
    measure_calls(&host, WARM_UP).await;
    let figures = measure_calls(&host, MEASURE_TIME).await;
    for task in hostile_calls {
        task.abort();
    }
    host.shutdown().await;
    figures
}

/// Calls a hostile server repeatedly, with a timeout.
fn spawn_hostile_calls(host: &Host, number: usize) -> JoinHandle<()> {
    let (host, tool) = (host.clone(), format!("mcp__other{number}__echo"));
    tokio::spawn(async move {
        loop {
            let arguments = serde_json::json!({ "message": "hello" });
            let call = host.call(tool.as_str(), arguments).into_future();
            let _ = timeout(Duration::from_secs(1), call).await;
            tokio::time::sleep(HOSTILE_PAUSE).await;
        }
    })
}

async fn measure_calls(host: &Host, duration: Duration) -> Figures {
    let stopwatch = Stopwatch::start();
    let began = Instant::now();
    let tasks: Vec<_> = (0..HEALTHY_SERVERS)
        .map(|number| {
            let tool = format!("mcp__healthy{number}__echo");
            // Spread the first calls over one period.
            let first = began + CALL_INTERVAL * number as u32 / HEALTHY_SERVERS as u32;
            let ticks = interval_at(first, CALL_INTERVAL);
            tokio::spawn(call_at_ticks(host.clone(), tool, ticks, began + duration))
        })
        .collect();
    let (mut latencies, mut failed) = (Vec::new(), 0);
    for task in tasks {
        let (own, own_failed) = task.await.expect("the task does not panic");
        latencies.extend(own);
        failed += own_failed;
    }
    stopwatch.stop(latencies).with("failed", f64::from(failed))
}

/// Makes one call per tick and measures each from its first poll to its response.
async fn call_at_ticks(
    host: Host,
    tool: String,
    mut ticks: Interval,
    until: Instant,
) -> (Vec<Duration>, u32) {
    let (mut latencies, mut failed) = (Vec::new(), 0);
    while ticks.tick().await < until {
        let arguments = serde_json::json!({ "message": "x".repeat(100) });
        let began = Instant::now();
        match host.call(tool.as_str(), arguments).into_future().await {
            Ok(_) => latencies.push(began.elapsed()),
            Err(_) => failed += 1,
        }
    }
    (latencies, failed)
}
