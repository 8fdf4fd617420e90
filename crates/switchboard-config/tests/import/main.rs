//! Import of servers from other clients: which files are read, how entries are translated, and
//! which notes are added.

#![expect(clippy::unwrap_used, reason = "test helpers may panic")]

mod clients;
mod files;
mod support;
