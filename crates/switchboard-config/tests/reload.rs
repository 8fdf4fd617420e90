//! Files that change while they are watched: what is believed of them, and when.

#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test that meets the unexpected shall fail"
)]

use std::fs;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use switchboard_config::{Reading, Source, Sources, Targets, Watched, Watcher};
use tempfile::TempDir;

/// A file that is watched by somebody who decides what time it is.
struct Desk {
    folder: TempDir,
    watched: Watched,
    targets: Targets,
    now: Instant,
}

impl Desk {
    /// Nothing is there yet, and it was looked at once.
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let sources = Sources {
            user: Some(folder.path().join("mcp.json")),
            ..Sources::default()
        };
        let mut desk = Self {
            folder,
            watched: Watched::new(),
            targets: Targets::from(sources),
            now: Instant::now(),
        };
        assert_eq!(names(&desk.look(0).unwrap()), [""; 0]);
        desk
    }

    /// As [`Self::new`], and then the servers of these names are believed.
    fn with(servers: &[&str]) -> Self {
        let mut desk = Self::new();
        desk.write(&config(servers));
        assert!(desk.look(1_000).is_none());
        assert_eq!(names(&desk.look(100).unwrap()), servers);
        desk
    }

    fn path(&self) -> PathBuf {
        self.folder.path().join("mcp.json")
    }

    fn write(&self, text: &str) {
        fs::write(self.path(), text).unwrap();
    }

    /// Looks so many milliseconds after the last time.
    fn look(&mut self, after: u64) -> Option<Reading> {
        self.now += Duration::from_millis(after);
        self.watched.look(&self.targets, &|_: &str| None, self.now)
    }
}

fn config(servers: &[&str]) -> String {
    let servers: Vec<_> = servers
        .iter()
        .map(|name| format!("{name:?}: {{\"command\": \"run-{name}\"}}"))
        .collect();
    format!("{{\"mcpServers\": {{{}}}}}", servers.join(", "))
}

fn names(reading: &Reading) -> Vec<&str> {
    let servers = reading.loaded.config.servers.iter();
    servers.map(|entry| entry.name().as_str()).collect()
}

fn complaints(reading: &Reading) -> Vec<String> {
    let diagnostics = reading.loaded.diagnostics.iter();
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
fn what_is_there_at_the_beginning_counts_at_once_and_is_told_once() {
    let mut desk = Desk::with(&["a"]);
    desk.watched = Watched::new();
    assert_eq!(names(&desk.look(0).unwrap()), ["a"]);
    assert!(desk.look(1_000).is_none());
}

#[test]
fn a_change_is_believed_when_it_was_seen_twice_a_moment_apart() {
    let mut desk = Desk::with(&["a"]);
    assert_eq!(desk.watched.pause(), Duration::from_secs(1));
    desk.write(&config(&["a", "b"]));
    assert!(desk.look(5_000).is_none());
    assert_eq!(desk.watched.pause(), Duration::from_millis(100));
    assert!(desk.look(99).is_none());
    assert_eq!(names(&desk.look(1).unwrap()), ["a", "b"]);
    assert_eq!(desk.watched.pause(), Duration::from_secs(1));
}

#[test]
fn a_file_that_keeps_changing_is_not_believed() {
    let mut desk = Desk::with(&["a"]);
    for round in 0..20 {
        desk.write(&config(&[["x", "y"][round % 2]]));
        assert!(desk.look(500).is_none());
    }
    assert_eq!(names(&desk.look(500).unwrap()), ["y"]);
}

#[test]
fn a_change_that_is_taken_back_is_none() {
    let mut desk = Desk::with(&["a"]);
    desk.write(&config(&["b"]));
    assert!(desk.look(1_000).is_none());
    desk.write(&config(&["a"]));
    assert!(desk.look(1_000).is_none());
    desk.write(&config(&["b"]));
    assert!(desk.look(1_000).is_none(), "it settles anew");
}

#[test]
fn a_file_that_is_broken_now_counts_as_it_was_and_that_is_said_once() {
    for broken in [
        "",
        "  \n",
        "{\"mcpServers\": {\"a\": {\"comm",
        "[]",
        "{\"mcpServers\": 7}",
        "\u{0}\u{0}",
    ] {
        let mut desk = Desk::with(&["a"]);
        desk.write(broken);
        assert!(desk.look(1_000).is_none());
        let reading = desk.look(100).unwrap();
        assert_eq!(names(&reading), ["a"], "{broken:?}");
        let [complaint] = &complaints(&reading)[..] else {
            panic!("{broken:?}: {:?}", complaints(&reading));
        };
        assert!(
            complaint.starts_with("warning: ")
                && complaint.ends_with("until it is mended, what it said before holds"),
            "{complaint}"
        );
        assert!(desk.look(1_000).is_none(), "{broken:?}");

        desk.write(&config(&["b"]));
        assert!(desk.look(1_000).is_none());
        let reading = desk.look(100).unwrap();
        assert_eq!((names(&reading), complaints(&reading)), (vec!["b"], vec![]));
    }
}

#[test]
fn a_broken_file_that_goes_back_to_what_it_was_is_no_longer_complained_about() {
    let mut desk = Desk::with(&["a"]);
    desk.write("{");
    assert!(desk.look(1_000).is_none());
    assert_eq!(complaints(&desk.look(100).unwrap()).len(), 1);
    desk.write(&config(&["a"]));
    let reading = desk.look(1_000).unwrap();
    assert_eq!((names(&reading), complaints(&reading)), (vec!["a"], vec![]));
}

#[test]
fn a_file_that_was_broken_from_the_beginning_is_told_as_ever_and_can_be_mended() {
    let mut desk = Desk::new();
    desk.write("{");
    desk.watched = Watched::new();
    let reading = desk.look(0).unwrap();
    assert_eq!((names(&reading).len(), complaints(&reading).len()), (0, 1));
    desk.write("{\"mcpServers\"");
    assert!(desk.look(1_000).is_none());
    assert_eq!(complaints(&desk.look(100).unwrap()).len(), 1);
    desk.write(&config(&["a"]));
    assert!(desk.look(1_000).is_none());
    assert_eq!(names(&desk.look(100).unwrap()), ["a"]);
}

#[test]
fn one_bad_entry_is_no_broken_file() {
    let mut desk = Desk::with(&["a"]);
    desk.write(r#"{"mcpServers": {"a": {"command": 7}, "b": {"command": "run"}}}"#);
    assert!(desk.look(1_000).is_none());
    let reading = desk.look(100).unwrap();
    assert_eq!(names(&reading), ["a", "b"]);
    assert!(
        reading
            .loaded
            .config
            .server("a")
            .unwrap()
            .problem()
            .is_some()
    );
}

#[test]
fn a_file_that_goes_away_for_a_moment_has_not_gone() {
    let mut desk = Desk::with(&["a"]);
    fs::remove_file(desk.path()).unwrap();
    assert!(desk.look(1_000).is_none());
    desk.write(&config(&["a"]));
    assert!(desk.look(100).is_none());
    fs::remove_file(desk.path()).unwrap();
    assert!(desk.look(1_000).is_none());
    assert_eq!(names(&desk.look(100).unwrap()), [""; 0]);
}

#[test]
fn files_in_folders_that_come_later_are_found() {
    let mut desk = Desk::new();
    let path = desk.folder.path().join("not/yet/.mcp.json");
    desk.targets.sources.project = Some(path.clone());
    assert_eq!(names(&desk.look(1_000).unwrap()), [""; 0]);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(&path, config(&["p"])).unwrap();
    assert!(desk.look(1_000).is_none());
    assert_eq!(names(&desk.look(100).unwrap()), ["p"]);
}

#[test]
fn a_file_that_joins_the_others_settles_first() {
    let mut desk = Desk::with(&["a"]);
    let path = desk.folder.path().join("named.json");
    fs::write(&path, config(&["n"])).unwrap();
    desk.targets.sources.command_line = vec![Source::File(path)];
    assert_eq!(names(&desk.look(1_000).unwrap()), ["a"]);
    assert_eq!(names(&desk.look(100).unwrap()), ["n", "a"]);
}

#[test]
fn a_replaced_link_is_followed() {
    let mut desk = Desk::new();
    for name in ["one", "two"] {
        let target = desk.folder.path().join(name);
        fs::write(&target, config(&[name])).unwrap();
        let link = desk.folder.path().join("link");
        std::os::unix::fs::symlink(&target, &link).unwrap();
        fs::rename(&link, desk.path()).unwrap();
        assert!(desk.look(1_000).is_none());
        assert_eq!(names(&desk.look(100).unwrap()), [name]);
    }
}

#[test]
fn other_files_are_watched_by_the_same_rules() {
    let mut desk = Desk::with(&["a"]);
    let settings = desk.folder.path().join("settings.json");
    desk.targets.others = vec![settings.clone()];
    assert!(desk.look(1_000).unwrap().others.is_empty());
    for (text, held, complained) in [
        ("{\"a\": 1}", "{\"a\": 1}", 0),
        ("{\"a\":", "{\"a\": 1}", 1),
        ("{\"a\": 2}", "{\"a\": 2}", 0),
    ] {
        fs::write(&settings, text).unwrap();
        assert!(desk.look(1_000).is_none());
        let reading = desk.look(100).unwrap();
        assert_eq!(reading.others[&settings], held.as_bytes());
        assert_eq!(complaints(&reading).len(), complained, "{text}");
        assert_eq!(names(&reading), ["a"]);
    }
}

#[test]
fn the_watcher_tells_what_there_is_and_what_comes() {
    let desk = Desk::new();
    desk.write(&config(&["a"]));
    let (tell, readings) = std::sync::mpsc::sync_channel(4);
    let targets = desk.targets.clone();
    let watcher = Watcher::spawn(
        move || targets.clone(),
        |_: &str| None,
        move |reading| drop(tell.send(reading)),
    );
    let next = || readings.recv_timeout(Duration::from_secs(30)).unwrap();
    assert_eq!(names(&next()), ["a"]);
    desk.write(&config(&["b"]));
    assert_eq!(names(&next()), ["b"]);
    drop(watcher);
    assert!(readings.recv_timeout(Duration::from_secs(30)).is_err());
}
