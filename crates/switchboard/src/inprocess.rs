//! Servers that live in this process: typed Rust functions as tools, without a child and without text
//! in between.

pub use crate::transport::memory::{Instance, LocalCall, LocalNotice, LocalServer, Reporter};
