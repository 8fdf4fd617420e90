//! Options for child processes, and [helper programs](Program) that are cleaned up like servers.
//!
//! A [`Host`](crate::Host) starts each child as the leader of a process group, and ends the group
//! when the server stops. On Linux the host also ends the processes that left the group, unless the
//! config entry sets `keepDaemons`. It finds these processes by the variable `SWITCHBOARD_CHILD` in
//! their environment. On Linux the kernel kills a child when the process of the host dies. Other
//! processes of the embedding program are not affected.
//!
//! Three options affect the whole process, so the embedding program has to enable them:
//!
//! - [`HostBuilder::guardian`](crate::HostBuilder::guardian): a small process that kills the children if
//!   this process is killed.
//! - [`HostBuilder::subreaper`](crate::HostBuilder::subreaper): finds daemons even if they cleared their
//!   environment. Only for programs whose only children are those of the host.
//! - [`HostRecord`] and [`kill_leftovers`]: the next start of the program kills the children that
//!   remain if both this process and the guardian were killed.
//!
//! ```no_run
//! use switchboard::Host;
//! use switchboard::process::{Guardian, HostId, HostRecord, Subreaper};
//!
//! # fn main() -> std::io::Result<()> {
//! let id = HostId::new();
//! let record = HostRecord::of_this_process(id)?; // write it to a file; delete the file on exit
//! let host = Host::builder()
//!     .host_id(id)
//!     .subreaper(Subreaper::enable()?)
//!     .guardian(Guardian::new("/proc/self/exe", ["--guardian"]));
//! # Ok(())
//! # }
//! ```

pub use switchboard_process::{
    ExitOutcome, Guardian, HostId, HostLiveness, HostRecord, InvalidHostId, InvalidHostRecord,
    Program, ProgramError, ProgramStreams, RunningProgram, Subreaper, kill_leftovers, run_guardian,
};
