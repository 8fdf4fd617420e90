//! Requests one response that is large in memory, and measures the cost of accepting or rejecting
//! it.

use std::future::IntoFuture;

use crate::job::{Figures, Stopwatch};
use crate::memory;

pub async fn call(shape: &str, size: usize) -> Figures {
    let host = super::start(super::host_builder().launch(super::server("neutral", []))).await;
    let tool = format!("mcp__neutral__{shape}");
    // Warm up with a small response.
    let small = serde_json::json!({ "size": 100 });
    let _ = host.call(tool.as_str(), small).into_future().await;
    memory::reset_peak();
    let before = memory::peak_kib();
    let stopwatch = Stopwatch::start();
    let arguments = serde_json::json!({ "size": size });
    let is_accepted = host.call(tool, arguments).into_future().await.is_ok();
    let figures = Figures::default()
        .with("cpu", stopwatch.cpu_micros())
        .with("growth", memory::peak_kib() - before)
        .with("accepted", f64::from(u8::from(is_accepted)));
    host.shutdown().await;
    figures
}
