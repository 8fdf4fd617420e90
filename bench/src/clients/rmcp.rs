//! rmcp's client, as its documentation shows it.

use std::sync::Arc;

use rmcp::model::CallToolRequestParams;
use rmcp::service::RunningService;
use rmcp::transport::TokioChildProcess;
use rmcp::{RoleClient, ServiceExt};

use crate::job::{Figures, Job, Stopwatch, Work, call_from_tasks};

type Running = RunningService<RoleClient, ()>;

pub async fn run(job: &Job) -> Figures {
    match job {
        Job::Calls(work) => calls(work).await,
    }
}

async fn connect() -> Running {
    let command = tokio::process::Command::new(super::server());
    let transport = TokioChildProcess::new(command).expect("a child");
    ().serve(transport).await.expect("a session")
}

async fn calls(work: &Work) -> Figures {
    let client = Arc::new(connect().await);
    let arguments = work.arguments().as_object().cloned().expect("an object");
    let tool = work.tool.clone();
    let call = move || {
        let (client, tool, arguments) = (Arc::clone(&client), tool.clone(), arguments.clone());
        async move {
            let params = CallToolRequestParams::new(tool).with_arguments(arguments);
            let result = client.call_tool(params).await.expect("an answer");
            assert!(!result.content.is_empty() || result.structured_content.is_some());
        }
    };
    call_from_tasks(work.in_flight, work.warm_up, call.clone()).await;
    let stopwatch = Stopwatch::start();
    let latencies = call_from_tasks(work.in_flight, work.calls, call).await;
    stopwatch.stop(latencies)
}
