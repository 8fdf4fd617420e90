//! Starts child processes and ends them together with everything that they started.
//!
//! A [`ProcessSupervisor`] starts each child as the leader of a session and process group, without a
//! controlling terminal. On Linux, it has the kernel kill the child when the host dies. When a child
//! ends, the supervisor ends its group, and on Linux also the processes that left the group: they
//! carry the marker variable [`MARKER_VARIABLE`] in their environment. [`Launch::keep_daemons`]
//! turns the latter off.
//!
//! For a single helper program, use [`Program`]:
//!
//! ```
//! use std::time::Duration;
//! use switchboard_process::Program;
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), switchboard_process::ProgramError> {
//! let path = ("PATH".to_owned(), "/usr/bin:/bin".to_owned());
//! let program = Program::new("sh").args(["-c", "sleep 1000 & exit 3"]).envs([path]);
//! let running = program.start().await?;
//! // Waits for the shell, then ends the `sleep` that it left behind.
//! let exit = running.shut_down(Duration::from_secs(5), Duration::from_secs(5)).await;
//! assert_eq!(exit.code(), Some(3));
//! # Ok(())
//! # }
//! ```
//!
//! Three options affect the whole process, so the embedding program has to enable them:
//!
//! | option | effect |
//! |---|---|
//! | [`Guardian`] | a small process that ends the children if this process is killed |
//! | [`Subreaper`] | finds daemons even if they cleared their environment; only for programs whose only children are the supervisor's |
//! | [`HostRecord`], [`kill_leftovers`] | the next start ends what remains if the guardian was killed, too |
//!
//! All `unsafe` code of the workspace is in this crate. The crate knows nothing of MCP, of
//! configuration, or of the other crates.
//!
//! `switchboard::process` re-exports [`Program`] and the three options. The supervisor itself,
//! [`Launch`] and their errors are internal to the switchboard crates and have no stability
//! promise.

mod child_process;
mod env_marker;
mod guardian;
mod host_record;
mod launch;
mod lock;
mod procfs;
mod program;
mod reaped_child;
mod reaper;
mod spawn;
mod spawn_thread;
mod subreaper;
mod supervisor;
mod tracker;

pub use child_process::{ChildProcess, ExitOutcome};
pub use env_marker::{HostId, InvalidHostId, MARKER_VARIABLE};
pub use guardian::{Guardian, run_guardian};
pub use host_record::{HostLiveness, HostRecord, InvalidHostRecord, kill_leftovers};
pub use launch::{
    CheckAfterStart, ExecutableChanged, ExecutableResolver, Launch, ResolvedExecutable, SearchedIn,
    SpawnError,
};
pub use program::{Program, ProgramError, ProgramStreams, RunningProgram};
pub use spawn::ChildPipes;
pub use subreaper::Subreaper;
pub use supervisor::{ProcessSupervisor, Spawning, SupervisorOptions};
