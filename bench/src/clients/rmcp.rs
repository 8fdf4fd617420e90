//! rmcp's client, used as documented.

mod in_process;

use rmcp::model::{CallToolRequestParams, JsonObject};
use rmcp::service::{Peer, RunningService};
use rmcp::transport::streamable_http_client::StreamableHttpClientTransportConfig;
use rmcp::transport::{StreamableHttpClientTransport, TokioChildProcess};
use rmcp::{RoleClient, ServiceExt};

use super::remote::RemoteServer;
use crate::job::{self, Caller, Figures, Job, Transport, Work, memory_now, print_ready};

type Running = RunningService<RoleClient, ()>;

/// How the HTTP client treats connections.
#[derive(Clone, Copy)]
pub enum Connections {
    /// One connection per call, the default.
    PerCall,
    /// Connections are reused, and up to [`Work::in_flight`] requests may be in flight.
    Pooled,
}

pub async fn run(job: &Job, connections: Connections) -> Figures {
    match job {
        Job::Calls(work) => calls(work, connections).await,
        Job::Connect { servers } => connect_all(*servers).await,
        Job::List { tools } => list(*tools).await,
        Job::InProcess { calls } => in_process::calls(*calls).await,
        _ => panic!("rmcp does not support this job"),
    }
}

async fn connect(arguments: &[String]) -> Running {
    let mut command = tokio::process::Command::new(super::server());
    command.args(arguments);
    let transport = TokioChildProcess::new(command).expect("the server starts");
    ().serve(transport).await.expect("the session starts")
}

async fn calls(work: &Work, connections: Connections) -> Figures {
    match work.transport {
        Transport::Stdio => measure_calls(connect(&[]).await, work).await,
        Transport::Http => {
            let remote = RemoteServer::start();
            let client = connect_to(&remote, work, connections).await;
            measure_calls(client, work).await
        }
    }
}

async fn connect_to(remote: &RemoteServer, work: &Work, connections: Connections) -> Running {
    let transport = match connections {
        Connections::PerCall => StreamableHttpClientTransport::from_uri(remote.url()),
        Connections::Pooled => {
            let config = StreamableHttpClientTransportConfig::with_uri(remote.url());
            let config = config.max_concurrent_requests(work.in_flight);
            StreamableHttpClientTransport::with_client(reqwest::Client::new(), config)
        }
    };
    ().serve(transport).await.expect("the session starts")
}

/// Measures calls through an open session.
async fn measure_calls(client: Running, work: &Work) -> Figures {
    let caller = ToolCaller {
        peer: client.peer().clone(),
        tool: work.tool.clone(),
        arguments: work
            .arguments()
            .as_object()
            .cloned()
            .expect("the arguments are an object"),
    };
    job::measure_calls(&caller, work).await
}

#[derive(Clone)]
struct ToolCaller {
    peer: Peer<RoleClient>,
    tool: String,
    arguments: JsonObject,
}

impl Caller for ToolCaller {
    async fn call(&self) {
        let params = CallToolRequestParams::new(self.tool.clone());
        let params = params.with_arguments(self.arguments.clone());
        let result = self
            .peer
            .call_tool(params)
            .await
            .expect("the call succeeds");
        assert!(!result.content.is_empty() || result.structured_content.is_some());
    }
}

/// Connects all servers concurrently, one task each.
async fn connect_all(servers: usize) -> Figures {
    let connecting: Vec<_> = (0..servers)
        .map(|_| {
            tokio::spawn(async {
                let client = connect(&[]).await;
                let tools = client.list_all_tools().await.expect("the listing succeeds");
                (client, tools)
            })
        })
        .collect();
    let mut connected = Vec::with_capacity(servers);
    for task in connecting {
        connected.push(task.await.expect("the task does not panic"));
    }
    assert!(connected.iter().all(|(_, tools)| !tools.is_empty()));
    print_ready();
    memory_now()
}

async fn list(tools: usize) -> Figures {
    let client = connect(&["--tools".to_owned(), tools.to_string()]).await;
    let listing = client.list_all_tools().await.expect("the listing succeeds");
    assert_eq!(listing.len(), tools);
    memory_now()
}
