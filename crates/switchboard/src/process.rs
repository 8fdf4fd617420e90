//! Options for child processes, and [helper programs](Program) that are cleaned up like servers.
//!
//! A [`Host`](crate::Host) starts each child as the leader of a process group, and ends the group
//! when the server stops. On Linux the host also ends the processes that left the group, unless the
//! config entry sets `keepDaemons`. It finds these processes by the variable `SWITCHBOARD_CHILD` in
//! their environment. On Linux the kernel kills the children when the process of the host dies, but
//! not the processes that the children started. Other processes of the embedding program are not
//! affected.
//!
//! Three options are off unless the embedding program enables them:
//!
//! - [`HostBuilder::guardian`](crate::HostBuilder::guardian) (Linux): starts a small process, the
//!   guardian. If the process of the host is killed, the guardian kills everything that the
//!   children started. The program calls [`run_guardian`] when it is started with the arguments of
//!   the guardian.
//! - [`HostBuilder::subreaper`](crate::HostBuilder::subreaper) (Linux): changes the whole process,
//!   so that daemons are found even if they cleared their environment. Only for programs whose only
//!   children are those of the host.
//! - [`HostRecord`] and [`kill_leftovers`]: the next start of the program kills the processes that
//!   remain if both the process of the host and the guardian were killed.
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
