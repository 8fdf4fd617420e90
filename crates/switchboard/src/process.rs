//! No survivors: what a program can do on top of what a [`Host`](crate::Host) does by itself, and
//! [programs](Program) of its own that are started and ended with the same care as servers.
//!
//! By itself a host starts each child as the leader of a process group and has the kernel kill it
//! when the host dies. At a server's end the group goes, and so does what left the group and still
//! carries the child's mark in its environment (`SWITCHBOARD_CHILD`, Linux only), unless the entry
//! says `keepDaemons`. None of that touches the program around the host.
//!
//! The rest is process-wide, and so the program's to switch on:
//!
//! - [`HostBuilder::guardian`](crate::HostBuilder::guardian): a small process that ends what is left
//!   when this one is killed.
//! - [`HostBuilder::adopt_orphans`](crate::HostBuilder::adopt_orphans): daemons are found even if
//!   they wiped their environment. Only for programs whose only children are the host's.
//! - [`HostRecord`] and [`end_leftovers`]: the next start ends what is left when even the guardian
//!   was killed.
//!
//! ```no_run
//! use switchboard::Host;
//! use switchboard::process::{Adoption, Guardian, HostRecord, HostTag};
//!
//! # fn main() -> std::io::Result<()> {
//! let tag = HostTag::new();
//! let record = HostRecord::of_this_process(tag)?; // to be written down, and removed at the end
//! let host = Host::builder()
//!     .tag(tag)
//!     .adopt_orphans(Adoption::begin()?)
//!     .guardian(Guardian::new("/proc/self/exe", ["--guardian"]));
//! # Ok(())
//! # }
//! ```

pub use crate::transport::guardian::{Guardian, keep_watch};
pub use crate::transport::orphans::Adoption;
pub use crate::transport::process::Exit;
pub use crate::transport::program::{NotStarted, Program, ProgramStreams, RunningProgram};
pub use crate::transport::record::{HostRecord, InvalidRecord, Whereabouts, end_leftovers};
pub use crate::transport::tag::{HostTag, InvalidTag};
