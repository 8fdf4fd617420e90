//! The compared clients. Each runs a [`Job`] in this process and returns its figures.

mod baseline;
mod remote;
mod rmcp;
mod switchboard;

use std::path::PathBuf;

use crate::job::{Figures, Job};
use baseline::Style;
use rmcp::Connections;

#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Client {
    /// A client written by hand for the server program of the benchmark. Over stdio it is blocking
    /// and writes each request separately.
    Baseline,
    /// The baseline, but requests that can be sent at the same time are written with one system
    /// call. Only over stdio.
    BatchingBaseline,
    Rmcp,
    /// rmcp over HTTP with a reqwest client that keeps its connections.
    PooledRmcp,
    Switchboard,
}

impl Client {
    pub const ALL: [Self; 5] = [
        Self::Baseline,
        Self::BatchingBaseline,
        Self::Rmcp,
        Self::PooledRmcp,
        Self::Switchboard,
    ];

    pub fn name(self) -> &'static str {
        match self {
            Self::Baseline => "baseline",
            Self::BatchingBaseline => "batching-baseline",
            Self::Rmcp => "rmcp",
            Self::PooledRmcp => "pooled-rmcp",
            Self::Switchboard => "switchboard",
        }
    }

    /// Runs the job in this process.
    pub fn run(self, job: &Job) -> Figures {
        match self {
            Self::Baseline => baseline::run(job, Style::Plain),
            Self::BatchingBaseline => baseline::run(job, Style::Batching),
            Self::Rmcp => in_runtime(rmcp::run(job, Connections::PerCall)),
            Self::PooledRmcp => in_runtime(rmcp::run(job, Connections::Pooled)),
            Self::Switchboard => in_runtime(switchboard::run(job)),
        }
    }
}

/// Runs on tokio's default runtime: one worker per core of this process, or as many as
/// `TOKIO_WORKER_THREADS` says.
fn in_runtime(job: impl Future<Output = Figures>) -> Figures {
    tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .expect("the runtime starts")
        .block_on(job)
}

/// The path of the server program, beside this program.
pub fn server() -> PathBuf {
    let mut path = std::env::current_exe().expect("the path of this program is known");
    path.set_file_name("neutral-server");
    path
}
