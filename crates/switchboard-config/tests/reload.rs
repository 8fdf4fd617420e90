//! Polling of config files: which changes are accepted, and when.

#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "an unexpected result fails the test"
)]

use std::fs;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use switchboard_config::{
    ConfigPoller, ConfigSnapshot, ConfigSource, ConfigSources, PolledFiles, ReloadThread,
};
use tempfile::TempDir;

/// A polled config file with a controlled clock.
struct PolledDir {
    folder: TempDir,
    poller: ConfigPoller,
    files: PolledFiles,
    now: Instant,
}

impl PolledDir {
    /// An empty directory, polled once.
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let sources = ConfigSources {
            user: Some(folder.path().join("mcp.json")),
            ..ConfigSources::default()
        };
        let mut dir = Self {
            folder,
            poller: ConfigPoller::new(),
            files: PolledFiles::from(sources),
            now: Instant::now(),
        };
        assert_eq!(names(&dir.poll(0).unwrap()), [""; 0]);
        dir
    }

    /// Like [`Self::new`], with these servers accepted.
    fn with(servers: &[&str]) -> Self {
        let mut dir = Self::new();
        dir.write(&config(servers));
        assert!(dir.poll(1_000).is_none());
        assert_eq!(names(&dir.poll(100).unwrap()), servers);
        dir
    }

    fn path(&self) -> PathBuf {
        self.folder.path().join("mcp.json")
    }

    fn write(&self, text: &str) {
        fs::write(self.path(), text).unwrap();
    }

    /// Polls `after` milliseconds after the last poll.
    fn poll(&mut self, after: u64) -> Option<ConfigSnapshot> {
        self.now += Duration::from_millis(after);
        self.poller.poll(&self.files, &|_: &str| None, self.now)
    }
}

fn config(servers: &[&str]) -> String {
    let servers: Vec<_> = servers
        .iter()
        .map(|name| format!("{name:?}: {{\"command\": \"run-{name}\"}}"))
        .collect();
    format!("{{\"mcpServers\": {{{}}}}}", servers.join(", "))
}

fn names(snapshot: &ConfigSnapshot) -> Vec<&str> {
    let servers = snapshot.loaded.config.servers.iter();
    servers.map(|entry| entry.name().as_str()).collect()
}

fn messages(snapshot: &ConfigSnapshot) -> Vec<String> {
    let diagnostics = snapshot.loaded.diagnostics.iter();
    diagnostics
        .map(|diagnostic| {
            format!(
                "{}: {}: {}",
                diagnostic.severity,
                diagnostic.message,
                diagnostic.hint.as_deref().unwrap_or_default()
            )
        })
        .collect()
}

#[test]
fn first_poll_accepts_files_immediately() {
    let mut dir = PolledDir::with(&["a"]);
    dir.poller = ConfigPoller::new();
    assert_eq!(names(&dir.poll(0).unwrap()), ["a"]);
    assert!(dir.poll(1_000).is_none());
}

#[test]
fn change_is_accepted_when_stable() {
    let mut dir = PolledDir::with(&["a"]);
    assert_eq!(dir.poller.next_delay(), Duration::from_secs(1));
    dir.write(&config(&["a", "b"]));
    assert!(dir.poll(5_000).is_none());
    assert_eq!(dir.poller.next_delay(), Duration::from_millis(100));
    assert!(dir.poll(99).is_none());
    assert_eq!(names(&dir.poll(1).unwrap()), ["a", "b"]);
    assert_eq!(dir.poller.next_delay(), Duration::from_secs(1));
}

#[test]
fn unstable_file_is_not_accepted() {
    let mut dir = PolledDir::with(&["a"]);
    for round in 0..20 {
        dir.write(&config(&[["x", "y"][round % 2]]));
        assert!(dir.poll(500).is_none());
    }
    assert_eq!(names(&dir.poll(500).unwrap()), ["y"]);
}

#[test]
fn reverted_change_is_ignored() {
    let mut dir = PolledDir::with(&["a"]);
    dir.write(&config(&["b"]));
    assert!(dir.poll(1_000).is_none());
    dir.write(&config(&["a"]));
    assert!(dir.poll(1_000).is_none());
    dir.write(&config(&["b"]));
    assert!(dir.poll(1_000).is_none(), "the debounce time restarts");
}

#[test]
fn broken_file_keeps_old_content() {
    for broken in [
        "",
        "  \n",
        "{\"mcpServers\": {\"a\": {\"comm",
        "[]",
        "{\"mcpServers\": 7}",
        "\u{0}\u{0}",
    ] {
        let mut dir = PolledDir::with(&["a"]);
        dir.write(broken);
        assert!(dir.poll(1_000).is_none());
        let snapshot = dir.poll(100).unwrap();
        assert_eq!(names(&snapshot), ["a"], "{broken:?}");
        let [message] = &messages(&snapshot)[..] else {
            panic!("{broken:?}: {:?}", messages(&snapshot));
        };
        assert!(
            message.starts_with("warning: ")
                && message.ends_with("the previous version stays in use until the file is fixed"),
            "{message}"
        );
        assert!(dir.poll(1_000).is_none(), "{broken:?}");

        dir.write(&config(&["b"]));
        assert!(dir.poll(1_000).is_none());
        let snapshot = dir.poll(100).unwrap();
        assert_eq!((names(&snapshot), messages(&snapshot)), (vec!["b"], vec![]));
    }
}

#[test]
fn reverted_broken_file_clears_diagnostics() {
    let mut dir = PolledDir::with(&["a"]);
    dir.write("{");
    assert!(dir.poll(1_000).is_none());
    assert_eq!(messages(&dir.poll(100).unwrap()).len(), 1);
    dir.write(&config(&["a"]));
    let snapshot = dir.poll(1_000).unwrap();
    assert_eq!((names(&snapshot), messages(&snapshot)), (vec!["a"], vec![]));
}

#[test]
fn initially_broken_file_can_be_fixed() {
    let mut dir = PolledDir::new();
    dir.write("{");
    dir.poller = ConfigPoller::new();
    let snapshot = dir.poll(0).unwrap();
    assert_eq!((names(&snapshot).len(), messages(&snapshot).len()), (0, 1));
    dir.write("{\"mcpServers\"");
    assert!(dir.poll(1_000).is_none());
    assert_eq!(messages(&dir.poll(100).unwrap()).len(), 1);
    dir.write(&config(&["a"]));
    assert!(dir.poll(1_000).is_none());
    assert_eq!(names(&dir.poll(100).unwrap()), ["a"]);
}

#[test]
fn invalid_entry_does_not_make_file_unusable() {
    let mut dir = PolledDir::with(&["a"]);
    dir.write(r#"{"mcpServers": {"a": {"command": 7}, "b": {"command": "run"}}}"#);
    assert!(dir.poll(1_000).is_none());
    let snapshot = dir.poll(100).unwrap();
    assert_eq!(names(&snapshot), ["a", "b"]);
    assert!(
        snapshot
            .loaded
            .config
            .server("a")
            .unwrap()
            .problem()
            .is_some()
    );
}

#[test]
fn briefly_missing_file_stays_in_use() {
    let mut dir = PolledDir::with(&["a"]);
    fs::remove_file(dir.path()).unwrap();
    assert!(dir.poll(1_000).is_none());
    dir.write(&config(&["a"]));
    assert!(dir.poll(100).is_none());
    fs::remove_file(dir.path()).unwrap();
    assert!(dir.poll(1_000).is_none());
    assert_eq!(names(&dir.poll(100).unwrap()), [""; 0]);
}

#[test]
fn files_in_new_directories_are_found() {
    let mut dir = PolledDir::new();
    let path = dir.folder.path().join("not/yet/.mcp.json");
    dir.files.sources.project = Some(path.clone());
    assert_eq!(names(&dir.poll(1_000).unwrap()), [""; 0]);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(&path, config(&["p"])).unwrap();
    assert!(dir.poll(1_000).is_none());
    assert_eq!(names(&dir.poll(100).unwrap()), ["p"]);
}

#[test]
fn added_file_is_debounced() {
    let mut dir = PolledDir::with(&["a"]);
    let path = dir.folder.path().join("named.json");
    fs::write(&path, config(&["n"])).unwrap();
    dir.files.sources.command_line = vec![ConfigSource::File(path)];
    assert_eq!(names(&dir.poll(1_000).unwrap()), ["a"]);
    assert_eq!(names(&dir.poll(100).unwrap()), ["n", "a"]);
}

#[test]
fn replaced_link_is_followed() {
    let mut dir = PolledDir::new();
    for name in ["one", "two"] {
        let target = dir.folder.path().join(name);
        fs::write(&target, config(&[name])).unwrap();
        let link = dir.folder.path().join("link");
        std::os::unix::fs::symlink(&target, &link).unwrap();
        fs::rename(&link, dir.path()).unwrap();
        assert!(dir.poll(1_000).is_none());
        assert_eq!(names(&dir.poll(100).unwrap()), [name]);
    }
}

#[test]
fn other_files_follow_same_rules() {
    let mut dir = PolledDir::with(&["a"]);
    let settings = dir.folder.path().join("settings.json");
    dir.files.others = vec![settings.clone()];
    assert!(dir.poll(1_000).unwrap().others.is_empty());
    for (text, accepted, message_count) in [
        ("{\"a\": 1}", "{\"a\": 1}", 0),
        ("{\"a\":", "{\"a\": 1}", 1),
        ("{\"a\": 2}", "{\"a\": 2}", 0),
    ] {
        fs::write(&settings, text).unwrap();
        assert!(dir.poll(1_000).is_none());
        let snapshot = dir.poll(100).unwrap();
        assert_eq!(snapshot.others[&settings], accepted.as_bytes());
        assert_eq!(messages(&snapshot).len(), message_count, "{text}");
        assert_eq!(names(&snapshot), ["a"]);
    }
}

#[test]
fn reload_thread_reports_initial_config_and_changes() {
    let dir = PolledDir::new();
    dir.write(&config(&["a"]));
    let (sender, snapshots) = std::sync::mpsc::sync_channel(4);
    let files = dir.files.clone();
    let reload_thread = ReloadThread::spawn(
        move || files.clone(),
        |_: &str| None,
        move |snapshot| drop(sender.send(snapshot)),
    );
    let next = || snapshots.recv_timeout(Duration::from_secs(30)).unwrap();
    assert_eq!(names(&next()), ["a"]);
    dir.write(&config(&["b"]));
    assert_eq!(names(&next()), ["b"]);
    drop(reload_thread);
    assert!(snapshots.recv_timeout(Duration::from_secs(30)).is_err());
}
