//! The command line from outside: a fresh home and project, scripted servers, real processes.
#![expect(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a failed expectation fails the test that had it"
)]

mod arguments;
mod asking;
mod bad_calls;
mod bad_config;
mod bad_servers;
mod call;
mod demo;
mod doctor;
mod edit;
mod guards;
mod import;
mod interviews;
mod json;
mod list;
mod logs;
mod pages;
mod prompt;
mod prompts;
mod remote;
mod repositories;
mod resources;
mod settings;
mod signals;
mod support;
mod survivors;
mod tools;
mod trace;
mod trust;
mod watch;
mod watching;
