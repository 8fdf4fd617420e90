//! The clients that are compared. Each does a [`Job`] in this process and says what it measured.

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
    /// Blocking, written by hand for the one server, one write per request.
    Floor,
    /// The floor, with requests that became free together written together.
    BatchingFloor,
    Rmcp,
    /// rmcp with a client of reqwest that keeps its connections, over HTTP.
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

    /// Does the job in this process.
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

/// Tokio's default runtime: one worker per core that this process may use.
fn in_runtime(job: impl Future<Output = Figures>) -> Figures {
    tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .expect("a runtime")
        .block_on(job)
}

/// The server program, which lies beside this one.
pub fn server() -> PathBuf {
    let mut path = std::env::current_exe().expect("a program knows where it is");
    path.set_file_name("neutral-server");
    path
}
