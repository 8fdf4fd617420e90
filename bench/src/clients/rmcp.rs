//! rmcp's client, used as documented.

mod local;

use rmcp::model::{CallToolRequestParams, JsonObject};
use rmcp::service::{Peer, RunningService};
use rmcp::transport::streamable_http_client::StreamableHttpClientTransportConfig;
use rmcp::transport::{StreamableHttpClientTransport, TokioChildProcess};
use rmcp::{RoleClient, ServiceExt};

use super::remote::RemoteServer;
use crate::job::{self, Caller, Figures, Job, Over, Work, memory_now, say_ready};

type Running = RunningService<RoleClient, ()>;

/// How the HTTP client treats connections.
#[derive(Clone, Copy)]
pub enum Connections {
    /// One connection per call, the default.
    OneEach,
    /// Connections are reused, and as many requests may be in flight as there are calls.
    Kept,
}

pub async fn run(job: &Job, connections: Connections) -> Figures {
    match job {
        Job::Calls(work) => calls(work, connections).await,
        Job::Connect { servers } => connect_all(*servers).await,
        Job::List { tools } => list(*tools).await,
        Job::Local { calls } => local::calls(*calls).await,
        _ => panic!("rmcp is not asked to do this job"),
    }
}

async fn connect(arguments: &[String]) -> Running {
    let mut command = tokio::process::Command::new(super::server());
    command.args(arguments);
    let transport = TokioChildProcess::new(command).expect("a child");
    ().serve(transport).await.expect("a session")
}

async fn calls(work: &Work, connections: Connections) -> Figures {
    match work.over {
        Over::Stdio => measured(connect(&[]).await, work).await,
        Over::Http => {
            let remote = RemoteServer::start();
            let client = connect_to(&remote, work, connections).await;
            measured(client, work).await
        }
    }
}

async fn connect_to(remote: &RemoteServer, work: &Work, connections: Connections) -> Running {
    let transport = match connections {
        Connections::OneEach => StreamableHttpClientTransport::from_uri(remote.url()),
        Connections::Kept => {
            let config = StreamableHttpClientTransportConfig::with_uri(remote.url());
            let config = config.max_concurrent_requests(work.in_flight);
            StreamableHttpClientTransport::with_client(reqwest::Client::new(), config)
        }
    };
    ().serve(transport).await.expect("a session")
}

/// Measures calls through an open session.
async fn measured(client: Running, work: &Work) -> Figures {
    let agent = Agent {
        peer: client.peer().clone(),
        tool: work.tool.clone(),
        arguments: work.arguments().as_object().cloned().expect("an object"),
    };
    job::measured(&agent, work).await
}

#[derive(Clone)]
struct Agent {
    peer: Peer<RoleClient>,
    tool: String,
    arguments: JsonObject,
}

impl Caller for Agent {
    async fn call(&self) {
        let params = CallToolRequestParams::new(self.tool.clone());
        let params = params.with_arguments(self.arguments.clone());
        let result = self.peer.call_tool(params).await.expect("an answer");
        assert!(!result.content.is_empty() || result.structured_content.is_some());
    }
}

/// Connects all servers concurrently, one task each.
async fn connect_all(servers: usize) -> Figures {
    let connecting: Vec<_> = (0..servers)
        .map(|_| {
            tokio::spawn(async {
                let client = connect(&[]).await;
                let tools = client.list_all_tools().await.expect("a listing");
                (client, tools)
            })
        })
        .collect();
    let mut connected = Vec::with_capacity(servers);
    for task in connecting {
        connected.push(task.await.expect("no panic"));
    }
    assert!(connected.iter().all(|(_, tools)| !tools.is_empty()));
    say_ready();
    memory_now()
}

async fn list(tools: usize) -> Figures {
    let client = connect(&["--tools".to_owned(), tools.to_string()]).await;
    let listing = client.list_all_tools().await.expect("a listing");
    assert_eq!(listing.len(), tools);
    memory_now()
}
