//! Scripted MCP servers with armable faults, and test environments for their clients.
//!
//! - [`Script`] and [`Step`] describe a server as data: its tools, responses and faults.
//! - [`MemoryServer`] plays a script in memory, on the clock of the test's runtime.
//! - [`scripted_server`] finds the binary that plays the same script as a child process.
//! - [`http::HttpServer`] plays the same script on loopback, [`http::RawServer`] sends arbitrary
//!   bytes, and [`http::FaultProxy`] breaks connections to either.
//! - [`CatalogHandle`] changes the resources and prompts of a running server and lists its
//!   subscriptions.
//! - [`fake_model::FakeModel`] is a scripted Messages API, and [`RealClaude`] is the real Claude
//!   CLI, which sends its requests to that API.
//! - [`fake_claude::FakeClaude`] is a scripted replacement for that CLI, played by a binary of this
//!   crate.
//! - [`processes_with_tag`] and [`assert_no_process_left`] find processes that a test left behind.
//! - [`PeakMemory`] and [`cpu_time`] measure the test process.
//! - [`repetitions`] is the number of repetitions of a stress test.
//! - [`Terminal`] runs a program on a pseudo-terminal and types into it.
//! - [`Sandbox`] is a temporary home and project directory for tests of a command-line program.
//!
//! The crate does not depend on Switchboard, so its fakes do not repeat the bugs of Switchboard.
//! Child processes need Unix; the process scan needs Linux's `/proc`.
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
    reason = "test support: a broken test environment may panic"
)]

mod catalog_handle;
pub mod fake_claude;
pub mod fake_model;
pub mod http;
mod memory_server;
mod process_scan;
mod real_claude;
mod repeat;
mod sandbox;
mod script;
pub mod scripted;
mod scripted_child;
mod terminal;
mod usage;

pub use catalog_handle::CatalogHandle;
pub use memory_server::MemoryServer;
pub use process_scan::{
    TAG_VARIABLE, assert_no_process_left, processes_with_tag, unique_tag, wait_for_processes,
    zombie_children, zombies_among,
};
pub use real_claude::RealClaude;
pub use repeat::repetitions;
pub use sandbox::Sandbox;
pub use script::{
    Completion, Cursors, Era, Flood, Grandchild, HexBytes, ListenEnding, ListenOptions, Script,
    ServerRequest, Step, TaskOptions, prompt, resource, tool,
};
pub use scripted_child::{count_lines, read_record, scripted_server};
pub use terminal::Terminal;
pub use usage::{PeakMemory, cpu_time};
