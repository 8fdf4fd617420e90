//! Switchboard with its whole pipeline: resolve, schema, permission, permits, budget, decode,
//! content.

mod bomb;
mod hostile;
mod in_process;

use std::future::IntoFuture;

use serde_json::Value;
use switchboard::limits::Limits;
use switchboard::permission::{Action, Rule};
use switchboard::{Host, HostBuilder, Readiness};
use switchboard_config::{LaunchSpec, RemoteKind, ServerConfig, ServerName};

use super::remote::RemoteServer;
use crate::job::{self, Caller, Figures, Job, Transport, Work, memory_now, print_ready};

pub async fn run(job: &Job) -> Figures {
    match job {
        Job::Calls(work) => calls(work).await,
        Job::Connect { servers } => connect_all(*servers).await,
        Job::List { tools } => list(*tools).await,
        Job::InProcess { calls } => in_process::calls(*calls).await,
        Job::Hostile { others } => hostile::load(others).await,
        Job::Bomb { shape, size } => bomb::call(shape, *size).await,
    }
}

/// A host that allows every call; all limits are the defaults.
fn host_builder() -> HostBuilder {
    Host::builder().rule(Rule::new(Action::Allow, "mcp__*").expect("the rule is valid"))
}

/// A neutral server with these arguments.
fn server<'a>(name: &str, arguments: impl IntoIterator<Item = &'a str>) -> LaunchSpec {
    let config = ServerConfig::stdio(super::server().to_string_lossy(), arguments);
    LaunchSpec::trusted(ServerName::new(name).expect("the name is valid"), config)
}

async fn start(builder: HostBuilder) -> Host {
    let host = builder.start().expect("the host starts");
    host.wait_for(Readiness::All).await;
    assert!(!host.tools().is_empty());
    host
}

async fn calls(work: &Work) -> Figures {
    // 1 MB of text must arrive complete, as with the other clients.
    let mut limits = Limits::default();
    limits.result_text_bytes = 16 * 1024 * 1024;
    let host = host_builder().limits(limits);
    let host = (0..work.idle_servers).fold(host, |host, number| {
        host.in_process_server(format!("idle{number}"), in_process::server())
    });
    match work.transport {
        Transport::Stdio => {
            measure_calls(start(host.launch(server("neutral", []))).await, work).await
        }
        Transport::Http => {
            let remote = RemoteServer::start();
            measure_calls(start(host.launch(remote_server(&remote))).await, work).await
        }
    }
}

fn remote_server(remote: &RemoteServer) -> LaunchSpec {
    let config = ServerConfig::remote(remote.url(), RemoteKind::Http);
    LaunchSpec::trusted(
        ServerName::new("neutral").expect("the name is valid"),
        config,
    )
}

/// Measures calls through a running host.
async fn measure_calls(host: Host, work: &Work) -> Figures {
    let caller = ToolCaller {
        host: host.clone(),
        tool: format!("mcp__neutral__{}", work.tool),
        arguments: work.arguments(),
    };
    let figures = job::measure_calls(&caller, work).await;
    host.shutdown().await;
    figures
}

#[derive(Clone)]
struct ToolCaller {
    host: Host,
    tool: String,
    arguments: Value,
}

impl Caller for ToolCaller {
    async fn call(&self) {
        let call = self.host.call(&self.tool, &self.arguments).into_future();
        let output = call.await.expect("the call succeeds");
        assert!(!output.blocks.is_empty() || output.structured.is_some());
    }
}

async fn connect_all(servers: usize) -> Figures {
    let names = (0..servers).map(|number| format!("s{number}"));
    let builder = names.fold(host_builder(), |host, name| host.launch(server(&name, [])));
    let host = start(builder).await;
    print_ready();
    let figures = memory_now();
    host.shutdown().await;
    figures
}

async fn list(tools: usize) -> Figures {
    let count = tools.to_string();
    let host = start(host_builder().launch(server("neutral", ["--tools", &count]))).await;
    assert_eq!(host.tools().len(), tools);
    let figures = memory_now();
    host.shutdown().await;
    figures
}
