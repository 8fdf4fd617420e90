//! Finds processes that a test left behind.
//!
//! The scan recognizes processes by an environment variable. Children inherit the variable, and it
//! stays visible when a process starts a new session or loses its parent. The scan needs Linux's
//! `/proc`.

use std::fs;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// The environment variable that marks the processes of one test. Its value is the tag.
pub const TAG_VARIABLE: &str = "SWITCHBOARD_TEST_TAG";

/// How long a process may take to appear or to exit, in real time.
const PROCESS_TIMEOUT: Duration = Duration::from_secs(5);

/// Pause between two scans of `/proc`, in real time.
const SCAN_INTERVAL: Duration = Duration::from_millis(10);

/// A tag that is unique across tests and processes.
pub fn unique_tag() -> String {
    static LAST: AtomicU64 = AtomicU64::new(0);
    let number = LAST.fetch_add(1, Ordering::Relaxed);
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    let nanos = now.map_or(0, |time| time.as_nanos());
    format!("{}-{number}-{nanos:x}", std::process::id())
}

/// The pids of the running processes with this tag, in ascending order.
///
/// Zombies have no environment and are never included; see [`zombies_among`].
pub fn processes_with_tag(tag: &str) -> Vec<i32> {
    let variable_with_tag = format!("{TAG_VARIABLE}={tag}");
    let has_tag = |pid: &i32| {
        fs::read(format!("/proc/{pid}/environ")).is_ok_and(|environment| {
            environment
                .split(|byte| *byte == 0)
                .any(|variable| variable == variable_with_tag.as_bytes())
        })
    };
    let mut found: Vec<i32> = all_processes().filter(has_tag).collect();
    found.sort_unstable();
    found
}

/// Returns those of the given pids that are zombies. Pass the pids that [`processes_with_tag`]
/// returned while the processes ran.
pub fn zombies_among(pids: &[i32]) -> Vec<i32> {
    let is_zombie = |pid: &i32| process_state(*pid) == Some('Z');
    pids.iter().copied().filter(is_zombie).collect()
}

/// The pids of the zombie children of this process. Zombies of other parents are ignored, because
/// those parents reap them.
pub fn zombie_children() -> Vec<i32> {
    let ours = i32::try_from(std::process::id()).ok();
    let is_ours = |pid: &i32| process_parent(*pid) == ours;
    let all: Vec<i32> = all_processes().filter(is_ours).collect();
    zombies_among(&all)
}

/// Waits until at least `count` processes with this tag are running and returns their pids. Panics
/// after five seconds.
pub async fn wait_for_processes(tag: &str, count: usize) -> Vec<i32> {
    let has_count = |found: &[i32]| found.len() >= count;
    match poll(tag, has_count).await {
        Ok(found) => found,
        Err(found) => panic!(
            "expected {count} processes with the tag {tag}, found:\n{}",
            describe(&found)
        ),
    }
}

/// Waits until no process with this tag is running. After five seconds, panics and lists the
/// remaining processes.
pub async fn assert_no_process_left(tag: &str) {
    if let Err(found) = poll(tag, <[i32]>::is_empty).await {
        panic!(
            "processes with the tag {tag} are still running:\n{}",
            describe(&found)
        );
    }
}

/// Scans until `done` accepts the pids or five seconds have passed, in real time even if the
/// runtime's clock is paused. An error contains the pids of the last scan.
async fn poll(tag: &str, done: impl Fn(&[i32]) -> bool) -> Result<Vec<i32>, Vec<i32>> {
    let deadline = Instant::now() + PROCESS_TIMEOUT;
    loop {
        let found = processes_with_tag(tag);
        if done(&found) {
            return Ok(found);
        }
        if Instant::now() >= deadline {
            return Err(found);
        }
        tokio::time::sleep(SCAN_INTERVAL).await;
    }
}

fn all_processes() -> impl Iterator<Item = i32> {
    fs::read_dir("/proc")
        .expect("the process scan needs /proc")
        .filter_map(Result::ok)
        .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
}

/// The state letter in `/proc/PID/stat`, such as `Z` for a zombie.
fn process_state(pid: i32) -> Option<char> {
    stat_field(pid, 0)?.chars().next()
}

fn process_parent(pid: i32) -> Option<i32> {
    stat_field(pid, 1)?.parse().ok()
}

/// A field of `/proc/PID/stat`. The index counts from the field after the process name, because the
/// name may contain any character.
fn stat_field(pid: i32, index: usize) -> Option<String> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let (_, after_name) = stat.rsplit_once(')')?;
    after_name.split_whitespace().nth(index).map(str::to_owned)
}

fn describe(pids: &[i32]) -> String {
    let line = |pid: &i32| {
        let command = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        let command = String::from_utf8_lossy(&command).replace('\0', " ");
        let state = process_state(*pid).unwrap_or('?');
        format!("  {pid} ({state}) {}", command.trim_end())
    };
    pids.iter().map(line).collect::<Vec<_>>().join("\n")
}
