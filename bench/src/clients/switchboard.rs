//! Switchboard, through its whole pipeline: resolve, schema, permission, permits, budget, decode,
//! content.

use std::future::IntoFuture;

use switchboard::permission::{Action, Rule};
use switchboard::{Host, Limits, Readiness};
use switchboard_config::{LaunchSpec, ServerConfig, ServerName};

use crate::job::{Figures, Job, Stopwatch, Work, call_from_tasks};

pub async fn run(job: &Job) -> Figures {
    match job {
        Job::Calls(work) => calls(work).await,
    }
}

async fn connect() -> Host {
    let config = ServerConfig::stdio(super::server().to_string_lossy(), [""; 0]);
    let name = ServerName::new("neutral").expect("a name");
    // A megabyte of text is to arrive whole; all other limits are the defaults.
    let mut limits = Limits::default();
    limits.result_text_bytes = 16 * 1024 * 1024;
    let host = Host::builder()
        .server(LaunchSpec::from_code(name, config))
        .rule(Rule::new(Action::Allow, "mcp__neutral__*").expect("a rule"))
        .limits(limits)
        .start()
        .expect("a host");
    host.wait_for(Readiness::All).await;
    host
}

async fn calls(work: &Work) -> Figures {
    let host = connect().await;
    let arguments = work.arguments();
    let tool = format!("mcp__neutral__{}", work.tool);
    let call = {
        let host = host.clone();
        move || {
            let (host, tool, arguments) = (host.clone(), tool.clone(), arguments.clone());
            async move {
                let call = host.call(tool, arguments).into_future();
                let output = call.await.expect("an answer");
                assert!(!output.blocks.is_empty() || output.structured.is_some());
            }
        }
    };
    call_from_tasks(work.in_flight, work.warm_up, call.clone()).await;
    let stopwatch = Stopwatch::start();
    let latencies = call_from_tasks(work.in_flight, work.calls, call).await;
    let figures = stopwatch.stop(latencies);
    host.shutdown().await;
    figures
}
