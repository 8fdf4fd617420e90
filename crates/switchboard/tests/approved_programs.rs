//! Entries that the user approved: what runs is what was approved, also later.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test that meets the unexpected shall fail"
)]

mod common;

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::time::SystemTime;

use common::permissive;
use serde_json::json;
use switchboard::{Host, Readiness};
use switchboard_config::{ApprovalsFile, ConfigSources, Trust, Verdict, load};
use switchboard_testkit::{
    Script, TAG_VARIABLE, assert_no_process_left, scripted_server, unique_tag,
};
use tempfile::TempDir;

/// A program of the project that becomes a scripted server, and says which edition of it this is.
fn write_program(path: &Path, edition: &str) {
    let server = scripted_server();
    let script = format!(
        "#!/bin/sh\n# {edition}\nexec '{}' \"$@\"\n",
        server.display()
    );
    fs::write(path, script).unwrap();
    fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
}

/// A project with this entry, approved as it is, and a host that runs it.
async fn approved(folder: &TempDir, command: &str, path: &str, tag: &str) -> Host {
    let entry = json!({
        "command": command,
        "args": [Script::legacy().tool("echo").to_json()],
        "env": {TAG_VARIABLE: tag, "PATH": path},
    });
    let file = folder.path().join("project/.mcp.json");
    fs::write(&file, json!({"mcpServers": {"s": entry}}).to_string()).unwrap();
    let sources = ConfigSources {
        project: Some(file),
        ..ConfigSources::default()
    };
    let config = load(&sources, &|_: &str| None).config;
    let approvals = ApprovalsFile::at(folder.path().join("trust.json"));
    let entry = config.server("s").unwrap();
    let approvals = approvals.record(&[entry], Verdict::Approved, SystemTime::now());
    let trust = Trust::none().with_approvals(approvals.unwrap());
    let host = permissive().config(config, &trust).start().unwrap();
    host.wait_for(Readiness::All).await;
    let status = host.server_status("s").unwrap();
    assert_eq!(status.status.as_str(), "connected", "{status:?}");
    host
}

fn folder() -> TempDir {
    let folder = TempDir::new().unwrap();
    fs::create_dir_all(folder.path().join("project/bin")).unwrap();
    fs::create_dir_all(folder.path().join("elsewhere")).unwrap();
    folder
}

/// A folder of the project comes first, then one that is not the project's.
fn path(folder: &TempDir) -> String {
    let elsewhere = folder.path().join("elsewhere");
    format!("bin:{}:/usr/bin:/bin", elsewhere.display())
}

async fn is_refused(host: &Host) {
    let error = host.reconnect("s").await.unwrap_err().to_string();
    assert!(
        error.contains("no longer the one that was approved"),
        "{error}"
    );
    let status = host.server_status("s").unwrap();
    assert_eq!(status.status.as_str(), "failed");
    assert_eq!(status.detail.as_deref(), Some("switchboard trust"));
}

#[tokio::test]
async fn a_program_of_the_project_that_changes_is_not_started_again() {
    let folder = folder();
    let tag = unique_tag();
    let program = folder.path().join("project/bin/server");
    write_program(&program, "one");
    let host = approved(&folder, "./bin/server", &path(&folder), &tag).await;
    host.reconnect("s").await.unwrap();
    write_program(&program, "two");
    is_refused(&host).await;
    // As it was, it may.
    write_program(&program, "one");
    host.reconnect("s").await.unwrap();
    host.shutdown().await;
    assert_no_process_left(&tag).await;
}

#[tokio::test]
async fn a_program_that_gets_in_the_way_of_the_approved_one_is_not_started() {
    let folder = folder();
    let tag = unique_tag();
    write_program(&folder.path().join("elsewhere/server"), "one");
    let host = approved(&folder, "server", &path(&folder), &tag).await;
    // An update of what does not belong to the project is nobody's affair.
    write_program(&folder.path().join("elsewhere/server"), "two");
    host.reconnect("s").await.unwrap();
    write_program(&folder.path().join("project/bin/server"), "shadow");
    is_refused(&host).await;
    host.shutdown().await;
    assert_no_process_left(&tag).await;
}

#[tokio::test]
async fn nothing_is_searched_for_behind_the_approved_program() {
    let folder = folder();
    let tag = unique_tag();
    // What the page shows, until nothing can execute it.
    let decoy = folder.path().join("elsewhere/server");
    write_program(&decoy, "one");
    write_program(&folder.path().join("project/bin/server"), "evil");
    let path = format!("{}:bin:/usr/bin:/bin", decoy.parent().unwrap().display());
    let host = approved(&folder, "server", &path, &tag).await;
    fs::write(&decoy, "#!/no/such/interpreter\n").unwrap();
    let error = host.reconnect("s").await.unwrap_err().to_string();
    assert!(error.contains("named in its first line"), "{error}");
    host.shutdown().await;
    assert_no_process_left(&tag).await;
}
