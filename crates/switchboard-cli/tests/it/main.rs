//! Runs the `switchboard` binary with scripted servers. Each test has its own home and project
//! directory.
#![expect(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test fails by panicking"
)]

mod add_remove;
mod call;
mod call_arguments;
mod call_failures;
mod config_errors;
mod demo;
mod doctor;
mod elicitation;
mod growth;
mod hardening;
mod import;
mod json_docs;
mod list;
mod list_watch;
mod logs;
mod permission_flags;
mod permission_prompt;
mod policy_rules;
mod process_cleanup;
mod prompts;
mod quoting;
mod remote;
mod resources;
mod saved_files;
mod server_commands;
mod server_failures;
mod server_text;
mod settings;
mod setup;
mod signals;
mod static_output;
mod support;
mod terminal_access;
mod tool_names;
mod tools;
mod trace;
mod trust;
mod untrusted_clones;
mod untrusted_text;
mod watch;
