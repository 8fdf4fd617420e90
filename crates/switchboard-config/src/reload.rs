//! Polls config files and returns a new config when they change.
//!
//! [`ConfigPoller`] decides which changes to accept and takes the time as an argument.
//! [`ReloadThread`] calls it on a thread. Files are polled instead of subscribed to
//! (`docs/adr/0008-poll-config-files.md`). Invariants: the first poll accepts every file. After
//! that, a change is accepted only when the file was stable for [`DEBOUNCE`], so that no
//! half-written file is used. If a file becomes unusable, its last usable content stays in use.

mod thread;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use crate::diagnostic::Diagnostic;
use crate::expand::Environment;
use crate::load::{LoadedConfig, load_with_reader};
use crate::raw::{FileRead, ParsedSource};
use crate::scope::{ConfigSource, ConfigSources, Scope};

pub use thread::ReloadThread;

/// How long a file must stay unchanged before its new content is used.
const DEBOUNCE: Duration = Duration::from_millis(100);
/// Interval between polls while nothing changes.
const POLL_INTERVAL: Duration = Duration::from_secs(1);

const KEEPS_OLD_NOTE: &str = "the previous version stays in use until the file is fixed";

/// The files to poll.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PolledFiles {
    /// The sources of servers.
    pub sources: ConfigSources,
    /// Other JSON files, such as settings.
    pub others: Vec<PathBuf>,
}

impl From<ConfigSources> for PolledFiles {
    fn from(sources: ConfigSources) -> Self {
        Self {
            sources,
            others: Vec::new(),
        }
    }
}

impl PolledFiles {
    fn paths(&self) -> Vec<&PathBuf> {
        let ConfigSources {
            command_line,
            managed,
            local,
            project,
            user,
            strict: _,
        } = &self.sources;
        let named = command_line.iter().filter_map(|source| match source {
            ConfigSource::File(path) => Some(path),
            ConfigSource::Inline(_) => None,
        });
        let scopes = [managed, local, project, user].into_iter().flatten();
        named.chain(scopes).chain(&self.others).collect()
    }
}

/// The config at one point in time.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct ConfigSnapshot {
    /// The servers. The diagnostics include those of unusable files whose earlier content is still
    /// in use.
    pub loaded: LoadedConfig,
    /// The content of the other files, without those that do not exist or cannot be read.
    pub others: BTreeMap<PathBuf, Vec<u8>>,
}

/// Detects changes of config files. It reads files only when [`poll`](Self::poll) is called.
///
/// ```
/// use std::time::{Duration, Instant};
/// use switchboard_config::{ConfigPoller, ConfigSources, PolledFiles};
///
/// # let folder = tempfile::tempdir()?;
/// # let path = folder.path().join("mcp.json");
/// let files = PolledFiles::from(ConfigSources { user: Some(path.clone()), ..Default::default() });
/// let (mut poller, start) = (ConfigPoller::new(), Instant::now());
/// let environment = |_: &str| None;
/// let mut poll = |millis| poller.poll(&files, &environment, start + Duration::from_millis(millis));
///
/// // The first poll always returns a snapshot.
/// assert!(poll(0).is_some_and(|snapshot| snapshot.loaded.config.servers.is_empty()));
/// std::fs::write(&path, r#"{"mcpServers": {"time": {"command": "time-server"}}}"#)?;
/// // The second poll sees a change, the third one accepts it because the file is stable.
/// assert!(poll(1_000).is_none());
/// assert!(poll(1_100).is_some_and(|snapshot| snapshot.loaded.config.server("time").is_some()));
/// assert!(poll(2_100).is_none());
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Debug, Default)]
pub struct ConfigPoller {
    states: BTreeMap<PathBuf, FileState>,
    /// The files of the last snapshot; `None` before the first poll.
    files: Option<PolledFiles>,
}

/// What is known about one file.
#[derive(Debug)]
struct FileState {
    /// The content in use.
    accepted: FileRead,
    /// New content that is not stable yet, and when it was first seen.
    pending: Option<(FileRead, Instant)>,
    /// The current content if it is unusable and therefore not accepted.
    unusable: Option<FileRead>,
}

impl ConfigPoller {
    /// Creates a poller that has not read any file.
    pub fn new() -> Self {
        Self::default()
    }

    /// Reads all files. Returns a snapshot if the content in use or a diagnostic changed, or if
    /// `files` differs from the last call.
    ///
    /// `now` must not go backwards between calls.
    pub fn poll(
        &mut self,
        files: &PolledFiles,
        environment: &dyn Environment,
        now: Instant,
    ) -> Option<ConfigSnapshot> {
        let is_first = self.files.is_none();
        let mut changed = self.files.as_ref() != Some(files);
        self.states.retain(|path, _| files.paths().contains(&path));
        for path in files.paths() {
            let content = FileRead::read(path);
            match self.states.get_mut(path) {
                Some(state) => changed |= state.update(path, content, now),
                None => {
                    let state = FileState::new(content, is_first, now);
                    self.states.insert(path.clone(), state);
                }
            }
        }
        if changed {
            self.files = Some(files.clone());
        }
        changed.then(|| self.snapshot(files, environment))
    }

    /// The delay until the next poll.
    pub fn next_delay(&self) -> Duration {
        let is_stable = self.states.values().all(|state| state.pending.is_none());
        if is_stable { POLL_INTERVAL } else { DEBOUNCE }
    }

    fn snapshot(&self, files: &PolledFiles, environment: &dyn Environment) -> ConfigSnapshot {
        let accepted = |path: &Path| match self.states.get(path) {
            Some(state) => state.accepted.clone(),
            None => FileRead::Missing,
        };
        let mut loaded = load_with_reader(&files.sources, environment, accepted);
        for (path, state) in &self.states {
            loaded.diagnostics.extend(state.diagnostics(path));
        }
        let others = files.others.iter().filter_map(|path| {
            let FileRead::Bytes(bytes) = accepted(path) else {
                return None;
            };
            Some((path.clone(), bytes.to_vec()))
        });
        ConfigSnapshot {
            others: others.collect(),
            loaded,
        }
    }
}

impl FileState {
    /// The first poll accepts every file as it is. A file that is added later must become stable
    /// first.
    fn new(content: FileRead, is_first: bool, now: Instant) -> Self {
        let (accepted, pending) = match content {
            FileRead::Missing => (content, None),
            content if is_first => (content, None),
            content => (FileRead::Missing, Some((content, now))),
        };
        Self {
            accepted,
            pending,
            unusable: None,
        }
    }

    /// Records the content seen by a poll. Returns true if the config or its diagnostics changed.
    fn update(&mut self, path: &Path, content: FileRead, now: Instant) -> bool {
        if content == self.accepted {
            self.pending = None;
            // True if the file was unusable and has its old content again.
            return self.unusable.take().is_some();
        }
        if self.unusable.as_ref() == Some(&content) {
            self.pending = None;
            return false;
        }
        let since = match self.pending.take() {
            Some((before, since)) if before == content => since,
            _ => now,
        };
        if now.saturating_duration_since(since) < DEBOUNCE {
            self.pending = Some((content, since));
            return false;
        }
        if is_unusable(path, &content) && !is_unusable(path, &self.accepted) {
            self.unusable = Some(content);
        } else {
            self.accepted = content;
            self.unusable = None;
        }
        true
    }

    /// The problems of unusable content that is not in use.
    fn diagnostics(&self, path: &Path) -> Vec<Diagnostic> {
        let source = self
            .unusable
            .as_ref()
            .and_then(|content| ParsedSource::from_file(path, content, Scope::User));
        let mut diagnostics = source.map_or_else(Vec::new, |source| source.diagnostics());
        for diagnostic in &mut diagnostics {
            let hint = diagnostic.hint.take();
            let hint = hint.map(|hint| format!("{hint}; {KEEPS_OLD_NOTE}"));
            diagnostic.hint = Some(hint.unwrap_or_else(|| KEEPS_OLD_NOTE.to_owned()));
        }
        diagnostics
    }
}

fn is_unusable(path: &Path, content: &FileRead) -> bool {
    let source = ParsedSource::from_file(path, content, Scope::User);
    source.is_some_and(|source| source.is_unusable)
}
