//! Scripted MCP servers with armable faults, and the surroundings to test a client against them.
//!
//! - [`Script`] and [`Step`] describe a server as data: what it offers, how it answers, how it misbehaves.
//! - [`MemoryServer`] plays a script in memory, on whatever clock the test's runtime has.
//! - [`scripted_server`] finds the binary that plays the same script as a real child process.
//! - [`Offer`] changes what a running one of these offers besides tools, and says who is subscribed.
//! - [`http::HttpServer`] plays the same script on loopback, [`http::RawServer`] plays any bytes, and
//!   [`http::FaultProxy`] breaks the connections to either.
//! - [`messages::MessagesApi`] is a scripted model, and [`RealClaude`] the CLI that asks it.
//! - [`standin::StandIn`] is a stand-in for that CLI, played by a binary of this crate.
//! - [`processes_with_tag`] and [`assert_no_process_left`] say what is still running.
//! - [`PeakMemory`] and [`cpu_time`] say what the test itself has cost.
//! - [`rounds`] says how often a heavy check repeats itself.
//! - [`Terminal`] is a program's terminal, with somebody who types.
//! - [`Sandbox`] is a fresh home and project for tests of a command-line program.
//!
//! It knows nothing of Switchboard itself, so that a mistake there cannot be shared here. The child
//! process needs Unix, the process scan needs Linux's `/proc`.
//!
//! ```
//! use switchboard_testkit::{Script, Step};
//!
//! let script = Script::legacy()
//!     .tool("echo")
//!     .on("tools/call echo", [Step::after(3, [Step::Abort]), Step::Default]);
//! assert_eq!(Script::from_json(&script.to_json()).unwrap(), script);
//! ```
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::missing_panics_doc,
    reason = "test support: a broken test environment is reported by panicking in the test that met it"
)]

mod child;
mod claude;
mod cost;
pub mod engine;
pub mod http;
mod memory;
pub mod messages;
mod offer;
mod process;
mod rounds;
mod sandbox;
mod script;
pub mod standin;
mod terminal;

pub use child::{count_lines, read_record, scripted_server};
pub use claude::RealClaude;
pub use cost::{PeakMemory, cpu_time};
pub use memory::MemoryServer;
pub use offer::Offer;
pub use process::{
    TAG_VARIABLE, assert_no_process_left, processes_with_tag, unique_tag, wait_for_processes,
    zombie_children, zombies_among,
};
pub use rounds::rounds;
pub use sandbox::Sandbox;
pub use script::{
    Completion, Cursors, Ending, Era, Flood, Grandchild, HexBytes, Listening, Script,
    ServerRequest, Step, Tasking, prompt, resource, tool,
};
pub use terminal::Terminal;
