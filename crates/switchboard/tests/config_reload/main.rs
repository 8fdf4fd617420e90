//! Applying a new config to a running host.

#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "a failed expectation fails the test"
)]

#[path = "../common/mod.rs"]
mod common;
mod random_edits;

use std::collections::BTreeMap;
use std::path::PathBuf;

use common::{Calculator, child, permissive, tool_names};
use serde_json::{Value, json};
use switchboard::call::Delivery;
use switchboard::host::ReloadResult;
use switchboard::permission::{Action, Rule};
use switchboard::{CallError, Event, Host, Readiness};
use switchboard_config::{ConfigSources, HostConfig, Trust, load};
use switchboard_testkit::{
    Script, Step, TAG_VARIABLE, assert_no_process_left, processes_with_tag, scripted_server,
    unique_tag,
};
use tempfile::TempDir;

/// A directory with a user config and a project config. `tag` is in the environment of the servers
/// of both files, so that tests can find their processes.
struct Files {
    folder: TempDir,
    tag: String,
}

impl Files {
    fn new() -> Self {
        Self {
            folder: tempfile::tempdir().unwrap(),
            tag: unique_tag(),
        }
    }

    fn sources(&self) -> ConfigSources {
        let path = |name: &str| Some(self.folder.path().join(name));
        ConfigSources {
            project: path("project/.mcp.json"),
            user: path("user.json"),
            ..ConfigSources::default()
        }
    }

    /// Writes these servers into the user config. Returns the config that is loaded from the user
    /// config and the project config.
    fn write_user_config(&self, servers: &[(&str, Value)]) -> HostConfig {
        write(self.sources().user, servers);
        self.load_config()
    }

    fn write_project_config(&self, servers: &[(&str, Value)]) -> HostConfig {
        write(self.sources().project, servers);
        self.load_config()
    }

    fn load_config(&self) -> HostConfig {
        load(&self.sources(), &|_: &str| None).config
    }

    /// Returns a config entry for a scripted server that runs this script.
    fn entry(&self, script: &Script) -> Value {
        json!({
            "command": scripted_server(),
            "args": [script.to_json()],
            "env": {TAG_VARIABLE: self.tag},
        })
    }

    /// Returns a config entry whose server has the tool `pid` and a tool with the name `tool`.
    fn entry_with_tool(&self, tool: &str) -> Value {
        self.entry(&Script::legacy().tool("pid").tool(tool))
    }
}

fn write(file: Option<PathBuf>, servers: &[(&str, Value)]) {
    let file = file.unwrap();
    std::fs::create_dir_all(file.parent().unwrap()).unwrap();
    let servers: serde_json::Map<_, _> = servers
        .iter()
        .map(|(name, entry)| ((*name).to_owned(), entry.clone()))
        .collect();
    std::fs::write(file, json!({"mcpServers": servers}).to_string()).unwrap();
}

async fn start(config: HostConfig) -> Host {
    let host = permissive().config(config, &Trust::none()).start().unwrap();
    host.wait_for(Readiness::All).await;
    host
}

async fn pid(host: &Host, server: &str) -> String {
    let tool = format!("mcp__{server}__pid");
    host.call(tool.as_str(), json!({})).await.unwrap().to_text()
}

fn server_names(host: &Host) -> Vec<String> {
    let status = host.status().into_iter();
    status.map(|server| server.name.to_string()).collect()
}

fn to_json(result: &ReloadResult) -> Value {
    serde_json::to_value(result).unwrap()
}

#[tokio::test]
async fn reload_restarts_only_changed_servers() {
    let files = Files::new();
    let host = start(files.write_user_config(&[
        ("same", files.entry_with_tool("s")),
        ("gone", files.entry_with_tool("g")),
        ("changed", files.entry_with_tool("before")),
    ]))
    .await;
    let (same, changed) = (pid(&host, "same").await, pid(&host, "changed").await);
    let revision = host.catalog().revision();
    assert_eq!(
        to_json(&host.apply_config(files.load_config(), &Trust::none()).await),
        json!({
            "added": [], "removed": [], "kept": ["same", "gone", "changed"],
            "waiting": {}, "refused": {}, "invalid": {}, "errors": {},
        })
    );
    assert_eq!(host.catalog().revision(), revision);

    let config = files.write_user_config(&[
        ("new", files.entry_with_tool("n")),
        ("changed", files.entry_with_tool("after")),
        ("bad", json!({"command": 7})),
        ("same", files.entry_with_tool("s")),
    ]);
    assert_eq!(
        to_json(&host.apply_config(config, &Trust::none()).await),
        json!({
            "added": ["new", "changed", "bad"],
            "removed": ["gone", "changed"],
            "kept": ["same"],
            "waiting": {},
            "refused": {}, "invalid": {"bad": "`command` must be a string, not a number"},
            "errors": {},
        })
    );
    // A server whose entry did not change keeps its process and its session during the reload.
    assert_eq!(pid(&host, "same").await, same);
    assert_eq!(host.server_details("same").unwrap().generation.0, 1);
    assert_eq!(server_names(&host), ["new", "changed", "bad", "same"]);
    host.wait_for(Readiness::All).await;
    assert_eq!(
        tool_names(&host),
        [
            "mcp__new__pid",
            "mcp__new__n",
            "mcp__changed__pid",
            "mcp__changed__after",
            "mcp__same__pid",
            "mcp__same__s",
        ]
    );
    assert_ne!(pid(&host, "changed").await, changed);
    assert_eq!(processes_with_tag(&files.tag).len(), 3);
    host.shutdown().await;
    assert_no_process_left(&files.tag).await;
}

#[tokio::test]
async fn approval_change_starts_or_stops_server() {
    let files = Files::new();
    let host = start(files.write_project_config(&[("p", files.entry_with_tool("t"))])).await;
    assert!(processes_with_tag(&files.tag).is_empty());

    let trust = Trust::project_for_this_run();
    let approved = host.apply_config(files.load_config(), &trust).await;
    assert_eq!(
        (approved.added, approved.removed),
        (vec!["p".into()], vec!["p".into()])
    );
    let before = pid(&host, "p").await;
    assert_eq!(
        host.apply_config(files.load_config(), &trust).await.kept,
        ["p"]
    );
    assert_eq!(pid(&host, "p").await, before);

    let revoked = host.apply_config(files.load_config(), &Trust::none()).await;
    assert_eq!(revoked.awaiting_approval.keys().collect::<Vec<_>>(), ["p"]);
    assert_no_process_left(&files.tag).await;
    assert!(tool_names(&host).is_empty());
    assert_eq!(host.server_status("p").unwrap().status.as_str(), "pending");
}

#[tokio::test]
async fn invalid_entry_reports_its_current_error() {
    let files = Files::new();
    let host = start(files.write_user_config(&[("bad", json!({"command": 7}))])).await;
    let mut events = host.events();
    let config =
        files.write_user_config(&[("bad", json!({"command": "x", "url": "http://localhost"}))]);
    assert_eq!(
        to_json(&host.apply_config(config, &Trust::none()).await),
        json!({
            "added": [], "removed": [], "kept": ["bad"], "waiting": {},
            "refused": {}, "invalid": {"bad": "`command` and `url` are mutually exclusive"}, "errors": {},
        })
    );
    let status = host.server_status("bad").unwrap();
    assert_eq!(
        status.error.as_deref(),
        Some("`command` and `url` are mutually exclusive")
    );
    assert!(matches!(
        events.next().await.unwrap(),
        Event::ServerChanged { server, .. } if server.as_str() == "bad"
    ));
}

#[tokio::test]
async fn reload_keeps_servers_set_in_code() {
    let files = Files::new();
    let host = permissive()
        .in_process_server("calc", Calculator)
        .config(
            files.write_user_config(&[
                ("a", files.entry_with_tool("a")),
                ("b", files.entry_with_tool("b")),
            ]),
            &Trust::none(),
        )
        .start()
        .unwrap();
    let dynamic = child(&Script::legacy().tool("pid"), &files.tag);
    host.set_servers(BTreeMap::from([("d".to_owned(), dynamic)]))
        .await;
    host.wait_for(Readiness::All).await;
    let before = pid(&host, "d").await;

    let wanted = ["new", "calc", "d", "b"].map(|name| (name, files.entry_with_tool(name)));
    let outcome = host
        .apply_config(files.write_user_config(&wanted), &Trust::none())
        .await;
    assert_eq!(
        to_json(&outcome),
        json!({
            "added": ["new"], "removed": ["a"], "kept": ["b"], "waiting": {}, "refused": {}, "invalid": {},
            "errors": {
                "calc": "a server named calc already exists",
                "d": "a server named d already exists",
            },
        })
    );
    assert_eq!(server_names(&host), ["calc", "new", "b", "d"]);
    assert_eq!(pid(&host, "d").await, before);

    host.set_servers(BTreeMap::new()).await;
    assert_eq!(server_names(&host), ["calc", "new", "b"]);
    host.apply_config(HostConfig::default(), &Trust::none())
        .await;
    assert_eq!(server_names(&host), ["calc"]);
    assert_no_process_left(&files.tag).await;
}

#[tokio::test]
async fn reload_affects_only_calls_to_removed_servers() {
    let files = Files::new();
    let marker = |name: &str| files.folder.path().join(name);
    let slow = |name: &str| {
        let steps = [
            Step::count(marker(name)),
            Step::DelayMs(300),
            Step::text("done"),
        ];
        files.entry(&Script::legacy().tool("t").on("tools/call t", steps))
    };
    let host =
        start(files.write_user_config(&[("kept", slow("kept")), ("removed", slow("removed"))]))
            .await;
    let call = |server: &str| {
        let (host, tool) = (host.clone(), format!("mcp__{server}__t"));
        async move { host.call(tool.as_str(), json!({})).await }
    };
    let apply = async {
        while !(marker("kept").exists() && marker("removed").exists()) {
            tokio::task::yield_now().await;
        }
        host.apply_config(
            files.write_user_config(&[("kept", slow("kept"))]),
            &Trust::none(),
        )
        .await
    };
    let (kept, removed, outcome) = tokio::join!(call("kept"), call("removed"), apply);
    assert_eq!(outcome.removed, ["removed"]);
    assert_eq!(kept.unwrap().to_text(), "done");
    let error = removed.unwrap_err();
    assert_eq!(error.delivery(), Delivery::Unknown, "{error}");
    host.shutdown().await;
    assert_no_process_left(&files.tag).await;
}

#[tokio::test]
async fn call_waits_for_restarted_server() {
    let files = Files::new();
    // The old process exits 200 ms after EOF. The new process must not start before that.
    let slow_to_exit = Script::legacy().tool("t").on_eof([
        Step::DelayMs(200),
        Step::count(files.folder.path().join("left")),
    ]);
    let host = start(files.write_user_config(&[("s", files.entry(&slow_to_exit))])).await;
    let new = Script::legacy()
        .tool("t")
        .on("tools/call t", [Step::text("new")]);
    let config = files.write_user_config(&[("s", files.entry(&new))]);
    let trust = Trust::none();
    let mut applying = Box::pin(host.apply_config(config, &trust));
    assert!(futures_util::poll!(&mut applying).is_pending());
    // The reload completes even if its future is dropped.
    drop(applying);
    assert_eq!(host.server_status("s").unwrap().status.as_str(), "pending");
    let output = host.call("mcp__s__t", json!({})).await.unwrap();
    assert_eq!(output.to_text(), "new");
    assert!(files.folder.path().join("left").exists());
    assert_eq!(processes_with_tag(&files.tag).len(), 1);
    host.shutdown().await;
    assert_no_process_left(&files.tag).await;
}

#[tokio::test]
async fn moved_entry_keeps_process_unless_cwd_changes() {
    let files = Files::new();
    let trust = Trust::project_for_this_run();
    let entry = files.entry_with_tool("t");
    let local = files.folder.path().join("local.json");
    write(Some(local.clone()), &[("s", entry.clone())]);
    let sources = ConfigSources {
        local: Some(local),
        ..ConfigSources::default()
    };
    let config = load(&sources, &|_: &str| None).config;
    let host = start(config).await;
    let before = pid(&host, "s").await;
    assert_eq!(
        host.server_status("s").unwrap().scope.unwrap().as_str(),
        "local"
    );

    let moved = host
        .apply_config(files.write_user_config(&[("s", entry.clone())]), &trust)
        .await;
    assert_eq!(moved.kept, ["s"]);
    assert_eq!(
        host.server_status("s").unwrap().scope.unwrap().as_str(),
        "user"
    );
    assert_eq!(pid(&host, "s").await, before);

    files.write_user_config(&[]);
    let moved = host
        .apply_config(files.write_project_config(&[("s", entry)]), &trust)
        .await;
    assert_eq!(moved.added, ["s"]);
    assert_ne!(pid(&host, "s").await, before);
    host.shutdown().await;
}

#[tokio::test]
async fn rules_can_be_replaced_at_run_time() {
    let files = Files::new();
    let host = start(files.write_user_config(&[("s", files.entry_with_tool("t"))])).await;
    pid(&host, "s").await;
    host.set_rules([Rule::new(Action::Deny, "mcp__s__pid").unwrap()]);
    let error = host.call("mcp__s__pid", json!({})).await.unwrap_err();
    assert!(matches!(error, CallError::Denied { .. }), "{error}");
    host.set_rules([Rule::new(Action::Allow, "mcp__s").unwrap()]);
    pid(&host, "s").await;
    host.shutdown().await;
}

#[tokio::test]
async fn shut_down_host_rejects_config() {
    let files = Files::new();
    let host = permissive().start().unwrap();
    host.shutdown().await;
    let config = files.write_user_config(&[("s", files.entry_with_tool("t"))]);
    let outcome = host.apply_config(config, &Trust::none()).await;
    assert_eq!(outcome.errors["s"], "the host is shutting down");
    assert!(host.status().is_empty());
}
