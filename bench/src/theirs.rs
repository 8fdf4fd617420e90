//! rmcp's client, as its documentation shows it.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use rmcp::ServiceExt;
use rmcp::model::CallToolRequestParams;
use rmcp::transport::TokioChildProcess;

use crate::measure::{Client, Sample, Watch, Work};

pub struct Rmcp;

type Running = Arc<rmcp::service::RunningService<rmcp::RoleClient, ()>>;

impl Client for Rmcp {
    fn run(server: &Path, work: &Work) -> Sample {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .enable_all()
            .build()
            .expect("a runtime");
        runtime.block_on(async {
            let transport =
                TokioChildProcess::new(tokio::process::Command::new(server)).expect("a child");
            let client: Running = Arc::new(().serve(transport).await.expect("a session"));
            drive(&client, work, work.in_flight * 20).await;
            let watch = Watch::start();
            let latencies = drive(&client, work, work.calls).await;
            watch.stop(latencies)
        })
    }
}

async fn drive(client: &Running, work: &Work, calls: usize) -> Vec<Duration> {
    let arguments = work.arguments().as_object().cloned().expect("an object");
    let each = calls / work.in_flight;
    let workers: Vec<_> = (0..work.in_flight)
        .map(|_| {
            let (client, arguments, tool) = (Arc::clone(client), arguments.clone(), work.tool);
            tokio::spawn(async move {
                let mut latencies = Vec::with_capacity(each);
                for _ in 0..each {
                    let began = Instant::now();
                    let params = CallToolRequestParams::new(tool).with_arguments(arguments.clone());
                    let result = client.call_tool(params).await.expect("an answer");
                    assert!(!result.content.is_empty() || result.structured_content.is_some());
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
