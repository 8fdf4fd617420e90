//! Approved config entries: the host starts only the program file that the user approved.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a failed expectation fails the test"
)]

mod common;

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::SystemTime;

use common::permissive;
use serde_json::json;
use switchboard::{Host, Readiness};
use switchboard_config::{ApprovalsFile, ConfigSources, Trust, Verdict, load};
use switchboard_testkit::{
    Script, TAG_VARIABLE, assert_no_process_left, scripted_server, unique_tag,
};
use tempfile::TempDir;

/// Writes a shell script that runs the scripted server. `version` is part of the file, so another
/// version changes the content of the approved program.
fn write_program(path: &Path, version: &str) {
    let server = scripted_server();
    let script = format!(
        "#!/bin/sh\n# {version}\nexec '{}' \"$@\"\n",
        server.display()
    );
    fs::write(path, script).unwrap();
    fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
}

/// Writes a project config with one entry, approves the entry and starts a host with it.
async fn start_approved(folder: &TempDir, command: &str, path: &str, tag: &str) -> Host {
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

/// Creates a directory that contains the directories `project` and `outside`.
fn create_folders() -> TempDir {
    let folder = TempDir::new().unwrap();
    fs::create_dir_all(folder.path().join("project/bin")).unwrap();
    fs::create_dir_all(folder.path().join("outside")).unwrap();
    folder
}

/// Returns a `PATH` whose first directory is inside the project and whose second directory is
/// outside it.
fn search_path(folder: &TempDir) -> String {
    let outside = folder.path().join("outside");
    format!("bin:{}:/usr/bin:/bin", outside.display())
}

async fn assert_reconnect_refused(host: &Host) {
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
async fn changed_project_program_is_not_started() {
    let folder = create_folders();
    let tag = unique_tag();
    let program = folder.path().join("project/bin/server");
    write_program(&program, "one");
    let host = start_approved(&folder, "./bin/server", &search_path(&folder), &tag).await;
    host.reconnect("s").await.unwrap();
    write_program(&program, "two");
    assert_reconnect_refused(&host).await;
    // The original content is still approved, so the server starts again.
    write_program(&program, "one");
    host.reconnect("s").await.unwrap();
    host.shutdown().await;
    assert_no_process_left(&tag).await;
}

#[tokio::test]
async fn shadowing_program_is_not_started() {
    let folder = create_folders();
    let tag = unique_tag();
    write_program(&folder.path().join("outside/server"), "one");
    let host = start_approved(&folder, "server", &search_path(&folder), &tag).await;
    // Changes of programs outside the project do not revoke the approval.
    write_program(&folder.path().join("outside/server"), "two");
    host.reconnect("s").await.unwrap();
    write_program(&folder.path().join("project/bin/server"), "shadow");
    assert_reconnect_refused(&host).await;
    host.shutdown().await;
    assert_no_process_left(&tag).await;
}

#[tokio::test]
async fn later_path_entries_are_not_tried() {
    let folder = create_folders();
    let tag = unique_tag();
    // The user approves `approved`. It is then overwritten with a script whose interpreter does not
    // exist, so that executing it fails with ENOENT. A normal `PATH` lookup would go on to the next
    // match, the program in the project.
    let approved = folder.path().join("outside/server");
    write_program(&approved, "one");
    write_program(&folder.path().join("project/bin/server"), "evil");
    let path = format!("{}:bin:/usr/bin:/bin", approved.parent().unwrap().display());
    let host = start_approved(&folder, "server", &path, &tag).await;
    fs::write(&approved, "#!/no/such/interpreter\n").unwrap();
    let error = host.reconnect("s").await.unwrap_err().to_string();
    assert!(error.contains("named in its first line"), "{error}");
    host.shutdown().await;
    assert_no_process_left(&tag).await;
}

/// Swaps the approved script with another one while the server starts.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn server_of_swapped_script_is_never_connected() {
    const STARTS: usize = 12;
    let folder = create_folders();
    let tag = unique_tag();
    let path = |name: &str| folder.path().join("project/bin").join(name);
    write_program(&path("server"), "one");
    let host = start_approved(&folder, "./bin/server", &search_path(&folder), &tag).await;
    let other = Script::legacy().tool("evil").to_json();
    let server = scripted_server();
    let script = format!("#!/bin/sh\nexec '{}' '{other}'\n", server.display());
    fs::write(path("other"), script).unwrap();
    fs::set_permissions(path("other"), fs::Permissions::from_mode(0o755)).unwrap();
    let is_done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !is_done.load(Ordering::Relaxed) {
                let swap = [("server", "aside"), ("other", "server"), ("aside", "other")];
                for (from, to) in swap {
                    fs::rename(path(from), path(to)).unwrap();
                }
                std::thread::yield_now();
            }
        });
        let reconnect = || {
            let reconnected = tokio::task::block_in_place(|| {
                tokio::runtime::Handle::current().block_on(host.reconnect("s"))
            });
            let mut tools = host.tools().into_iter();
            reconnected.is_err() || tools.all(|tool| tool.wire_name.as_str() != "mcp__s__evil")
        };
        let all_approved = (0..STARTS).all(|_| reconnect());
        is_done.store(true, Ordering::Relaxed);
        assert!(all_approved);
    });
    host.shutdown().await;
    assert_no_process_left(&tag).await;
}
