//! Switchboard with its whole pipeline: resolve, schema, permission, permits, budget, decode,
//! content.

mod bomb;
mod crowd;
mod local;

use std::future::IntoFuture;

use serde_json::Value;
use switchboard::limits::Limits;
use switchboard::permission::{Action, Rule};
use switchboard::{Host, HostBuilder, Readiness};
use switchboard_config::{LaunchSpec, RemoteKind, ServerConfig, ServerName};

use super::remote::RemoteServer;
use crate::job::{self, Caller, Figures, Job, Over, Work, memory_now, say_ready};

pub async fn run(job: &Job) -> Figures {
    match job {
        Job::Calls(work) => calls(work).await,
        Job::Connect { servers } => connect_all(*servers).await,
        Job::List { tools } => list(*tools).await,
        Job::Local { calls } => local::calls(*calls).await,
        Job::Crowd { others } => crowd::load(others).await,
        Job::Bomb { shape, size } => bomb::call(shape, *size).await,
    }
}

/// A host that allows every call; all limits are the defaults.
fn host() -> HostBuilder {
    Host::builder().rule(Rule::new(Action::Allow, "mcp__*").expect("a rule"))
}

/// A neutral server with these arguments.
fn server<'a>(name: &str, arguments: impl IntoIterator<Item = &'a str>) -> LaunchSpec {
    let config = ServerConfig::stdio(super::server().to_string_lossy(), arguments);
    LaunchSpec::trusted(ServerName::new(name).expect("a name"), config)
}

async fn started(builder: HostBuilder) -> Host {
    let host = builder.start().expect("a host");
    host.wait_for(Readiness::All).await;
    assert!(!host.tools().is_empty());
    host
}

async fn calls(work: &Work) -> Figures {
    // 1 MB of text must arrive complete, as with the other clients.
    let mut limits = Limits::default();
    limits.result_text_bytes = 16 * 1024 * 1024;
    let host = host().limits(limits);
    match work.over {
        Over::Stdio => measured(started(host.server(server("neutral", []))).await, work).await,
        Over::Http => {
            let remote = RemoteServer::start();
            measured(started(host.server(behind(&remote))).await, work).await
        }
    }
}

fn behind(remote: &RemoteServer) -> LaunchSpec {
    let config = ServerConfig::remote(remote.url(), RemoteKind::Http);
    LaunchSpec::trusted(ServerName::new("neutral").expect("a name"), config)
}

/// Measures calls through a running host.
async fn measured(host: Host, work: &Work) -> Figures {
    let agent = Agent {
        host: host.clone(),
        tool: format!("mcp__neutral__{}", work.tool),
        arguments: work.arguments(),
    };
    let figures = job::measured(&agent, work).await;
    host.shutdown().await;
    figures
}

#[derive(Clone)]
struct Agent {
    host: Host,
    tool: String,
    arguments: Value,
}

impl Caller for Agent {
    async fn call(&self) {
        let call = self.host.call(&self.tool, &self.arguments).into_future();
        let output = call.await.expect("an answer");
        assert!(!output.blocks.is_empty() || output.structured.is_some());
    }
}

async fn connect_all(servers: usize) -> Figures {
    let names = (0..servers).map(|number| format!("s{number}"));
    let builder = names.fold(host(), |host, name| host.server(server(&name, [])));
    let host = started(builder).await;
    say_ready();
    let figures = memory_now();
    host.shutdown().await;
    figures
}

async fn list(tools: usize) -> Figures {
    let count = tools.to_string();
    let host = started(host().server(server("neutral", ["--tools", &count]))).await;
    assert_eq!(host.tools().len(), tools);
    let figures = memory_now();
    host.shutdown().await;
    figures
}
