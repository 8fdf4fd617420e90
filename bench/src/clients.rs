//! The compared clients. Each runs a [`Job`] in this process and returns its figures.

mod floor;
mod remote;
mod rmcp;
mod switchboard;

use std::path::PathBuf;

use crate::job::{Figures, Job};
use floor::Style;
use rmcp::Connections;

#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Client {
    /// Blocking and written by hand for this server; one write per request.
    Floor,
    /// The floor, but requests that become possible together are written together.
    BatchingFloor,
    Rmcp,
    /// rmcp over HTTP with a reqwest client that keeps its connections.
    PooledRmcp,
    Switchboard,
}

impl Client {
    pub const ALL: [Self; 5] = [
        Self::Floor,
        Self::BatchingFloor,
        Self::Rmcp,
        Self::PooledRmcp,
        Self::Switchboard,
    ];

    pub fn name(self) -> &'static str {
        match self {
            Self::Floor => "floor",
            Self::BatchingFloor => "batching-floor",
            Self::Rmcp => "rmcp",
            Self::PooledRmcp => "pooled-rmcp",
            Self::Switchboard => "switchboard",
        }
    }

    /// Runs the job in this process.
    pub fn run(self, job: &Job) -> Figures {
        match self {
            Self::Floor => floor::run(job, Style::Plain),
            Self::BatchingFloor => floor::run(job, Style::Batching),
            Self::Rmcp => in_runtime(rmcp::run(job, Connections::OneEach)),
            Self::PooledRmcp => in_runtime(rmcp::run(job, Connections::Kept)),
            Self::Switchboard => in_runtime(switchboard::run(job)),
        }
    }
}

/// Runs on tokio's default runtime: one worker per core of this process.
fn in_runtime(job: impl Future<Output = Figures>) -> Figures {
    tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .expect("a runtime")
        .block_on(job)
}

/// The path of the server program, beside this program.
pub fn server() -> PathBuf {
    let mut path = std::env::current_exe().expect("a program knows where it is");
    path.set_file_name("neutral-server");
    path
}
