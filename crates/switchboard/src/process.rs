//! Child processes that leave no survivors, and [helper programs](Program) with the same guarantees.
//!
//! A [`Host`](crate::Host) starts each child as the leader of a process group and has the kernel kill
//! the child when the host dies. When a server ends, the host ends the group and, on Linux, also the
//! processes that left the group, unless the entry sets `keepDaemons`. It finds those by the marker
//! `SWITCHBOARD_CHILD` in their environment. Nothing of this affects the embedding program.
//!
//! Three options affect the whole process, so the embedding program has to enable them:
//!
//! - [`HostBuilder::guardian`](crate::HostBuilder::guardian): a small process that ends the children if
//!   this process is killed.
//! - [`HostBuilder::subreaper`](crate::HostBuilder::subreaper): finds daemons even if they cleared their
//!   environment. Only for programs whose only children are those of the host.
//! - [`HostRecord`] and [`kill_leftovers`]: the next start ends what remains if the guardian was
//!   killed, too.
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
