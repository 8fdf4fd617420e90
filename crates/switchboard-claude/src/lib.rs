//! Drives the Claude CLI from Rust, with Rust functions as tools inside it.
