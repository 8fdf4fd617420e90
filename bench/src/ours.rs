//! Switchboard, through its whole pipeline: resolve, schema, permission, permits, budget, decode,
//! content.

use std::future::IntoFuture;
use std::path::Path;
use std::time::{Duration, Instant};

use switchboard::permission::{Action, Rule};
use switchboard::{Host, Limits, Readiness};
use switchboard_config::{LaunchSpec, ServerConfig, ServerName};

use crate::measure::{Client, Sample, Watch, Work};

pub struct Switchboard;

impl Client for Switchboard {
    fn run(server: &Path, work: &Work) -> Sample {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .enable_all()
            .build()
            .expect("a runtime");
        runtime.block_on(async {
            let host = start(server).await;
            drive(&host, work, work.in_flight * 20).await;
            let watch = Watch::start();
            let latencies = drive(&host, work, work.calls).await;
            let sample = watch.stop(latencies);
            host.shutdown().await;
            sample
        })
    }
}

async fn start(server: &Path) -> Host {
    let config = ServerConfig::stdio(server.to_string_lossy(), [""; 0]);
    let mut limits = Limits::default();
    limits.result_text_bytes = 16 * 1024 * 1024;
    let host = Host::builder()
        .server(LaunchSpec::from_code(
            ServerName::new("s").expect("a name"),
            config,
        ))
        .rule(Rule::new(Action::Allow, "mcp__s__*").expect("a rule"))
        .limits(limits)
        .start()
        .expect("a host");
    host.wait_for(Readiness::All).await;
    host
}

async fn drive(host: &Host, work: &Work, calls: usize) -> Vec<Duration> {
    let name = format!("mcp__s__{}", work.tool);
    let arguments = work.arguments();
    let each = calls / work.in_flight;
    let workers: Vec<_> = (0..work.in_flight)
        .map(|_| {
            let (host, name, arguments) = (host.clone(), name.clone(), arguments.clone());
            tokio::spawn(async move {
                let mut latencies = Vec::with_capacity(each);
                for _ in 0..each {
                    let began = Instant::now();
                    let output = host
                        .call(name.as_str(), arguments.clone())
                        .into_future()
                        .await
                        .expect("an answer");
                    assert!(!output.blocks.is_empty() || output.structured.is_some());
                    latencies.push(began.elapsed());
                }
                latencies
            })
        })
        .collect();
    let mut latencies = Vec::with_capacity(calls);
    for worker in workers {
        latencies.extend(worker.await.expect("no panic"));
    }
    latencies
}
