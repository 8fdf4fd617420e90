//! Config files that are looked at again and again, and what of them is believed.
//!
//! [`Watched`] decides and is told the time; [`Watcher`] is a thread that asks it. Files are looked at and
//! not subscribed to (`docs/adr/0008-poll-config-files.md`). Invariants: what is read is a state that each
//! file was in for a while, never a half of one; a file that was fine and is broken now counts as it was.

mod thread;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use crate::diagnostic::Diagnostic;
use crate::expand::Environment;
use crate::load::Loaded;
use crate::load::load_from;
use crate::raw::{FileContent, RawDocument};
use crate::scope::{Scope, Source, Sources};

pub use thread::Watcher;

/// How long a file must stay the same before a change of it is believed.
const SETTLED: Duration = Duration::from_millis(100);
/// How often to look while nothing happens.
const EVERY: Duration = Duration::from_secs(1);

const STAYS: &str = "until it is mended, what it said before holds";

/// What is watched.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Targets {
    /// What servers are read from.
    pub sources: Sources,
    /// Further files of JSON that matter, such as settings.
    pub others: Vec<PathBuf>,
}

impl From<Sources> for Targets {
    fn from(sources: Sources) -> Self {
        Self {
            sources,
            others: Vec::new(),
        }
    }
}

impl Targets {
    fn files(&self) -> Vec<&PathBuf> {
        let Sources {
            command_line,
            managed,
            local,
            project,
            user,
            strict: _,
        } = &self.sources;
        let named = command_line.iter().filter_map(|source| match source {
            Source::File(path) => Some(path),
            Source::Inline(_) => None,
        });
        let places = [managed, local, project, user].into_iter().flatten();
        named.chain(places).chain(&self.others).collect()
    }
}

/// What a look brought.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct Reading {
    /// The servers. The diagnostics tell of broken files too, whose earlier state still counts.
    pub loaded: Loaded,
    /// What the other files hold; those that do not exist are left out.
    pub others: BTreeMap<PathBuf, Vec<u8>>,
}

/// Files that are being watched. Nothing happens between two looks.
///
/// ```
/// use std::time::{Duration, Instant};
/// use switchboard_config::{Sources, Targets, Watched};
///
/// # let folder = tempfile::tempdir()?;
/// # let path = folder.path().join("mcp.json");
/// let targets = Targets::from(Sources { user: Some(path.clone()), ..Sources::default() });
/// let (mut watched, now) = (Watched::new(), Instant::now());
/// let environment = |_: &str| None;
/// let mut look = |after| watched.look(&targets, &environment, now + Duration::from_millis(after));
///
/// // The first look always brings something: what there is.
/// assert!(look(0).is_some_and(|reading| reading.loaded.config.servers.is_empty()));
/// std::fs::write(&path, r#"{"mcpServers": {"time": {"command": "time-server"}}}"#)?;
/// // The second sees a change and waits for it to settle, the third believes it.
/// assert!(look(1_000).is_none());
/// assert!(look(1_100).is_some_and(|reading| reading.loaded.config.server("time").is_some()));
/// assert!(look(2_100).is_none());
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Debug, Default)]
pub struct Watched {
    files: BTreeMap<PathBuf, WatchedFile>,
    /// What was watched last.
    targets: Option<Targets>,
}

/// One file.
#[derive(Debug)]
struct WatchedFile {
    /// What counts.
    believed: FileContent,
    /// What was seen last and since when, if it is something new.
    unsettled: Option<(FileContent, Instant)>,
    /// What was seen last, if it is broken and therefore does not count.
    broken: Option<FileContent>,
}

impl Watched {
    /// Nothing was looked at yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Reads the files. `None`: nothing changed, or not for long enough. Time is told by the caller, and
    /// never goes backwards.
    pub fn look(
        &mut self,
        targets: &Targets,
        environment: &dyn Environment,
        now: Instant,
    ) -> Option<Reading> {
        let is_first = self.targets.is_none();
        let mut is_news = self.targets.as_ref() != Some(targets);
        self.files.retain(|path, _| targets.files().contains(&path));
        for path in targets.files() {
            let seen = FileContent::read(path);
            match self.files.get_mut(path) {
                Some(file) => is_news |= file.see(path, seen, now),
                None => {
                    let file = WatchedFile::new(seen, is_first, now);
                    self.files.insert(path.clone(), file);
                }
            }
        }
        if is_news {
            self.targets = Some(targets.clone());
        }
        is_news.then(|| self.read(targets, environment))
    }

    /// When to look next, counted from the last look.
    pub fn pause(&self) -> Duration {
        let is_settled = self.files.values().all(|file| file.unsettled.is_none());
        if is_settled { EVERY } else { SETTLED }
    }

    fn read(&self, targets: &Targets, environment: &dyn Environment) -> Reading {
        let believed = |path: &Path| match self.files.get(path) {
            Some(file) => file.believed.clone(),
            None => FileContent::Missing,
        };
        let mut loaded = load_from(&targets.sources, environment, believed);
        for (path, file) in &self.files {
            loaded.diagnostics.extend(file.complaints(path));
        }
        let others = targets.others.iter().filter_map(|path| {
            let FileContent::Bytes(bytes) = believed(path) else {
                return None;
            };
            Some((path.clone(), bytes.to_vec()))
        });
        Reading {
            others: others.collect(),
            loaded,
        }
    }
}

impl WatchedFile {
    /// What is there at the beginning counts as it is; what joins later has to settle.
    fn new(seen: FileContent, is_first: bool, now: Instant) -> Self {
        let (believed, unsettled) = match seen {
            FileContent::Missing => (seen, None),
            seen if is_first => (seen, None),
            seen => (FileContent::Missing, Some((seen, now))),
        };
        Self {
            believed,
            unsettled,
            broken: None,
        }
    }

    /// Takes in what a look brought, and says whether there is something new to tell.
    fn see(&mut self, path: &Path, seen: FileContent, now: Instant) -> bool {
        if seen == self.believed {
            self.unsettled = None;
            // Mended by going back.
            return self.broken.take().is_some();
        }
        if self.broken.as_ref() == Some(&seen) {
            self.unsettled = None;
            return false;
        }
        let since = match self.unsettled.take() {
            Some((before, since)) if before == seen => since,
            _ => now,
        };
        if now.saturating_duration_since(since) < SETTLED {
            self.unsettled = Some((seen, since));
            return false;
        }
        if is_broken(path, &seen) && !is_broken(path, &self.believed) {
            self.broken = Some(seen);
        } else {
            self.believed = seen;
            self.broken = None;
        }
        true
    }

    /// What is to be said of a file that is broken and counts as it was.
    fn complaints(&self, path: &Path) -> Vec<Diagnostic> {
        let document = self
            .broken
            .as_ref()
            .and_then(|content| RawDocument::of_file(path, content, Scope::User));
        let mut complaints = document.map_or_else(Vec::new, |document| document.diagnostics());
        for complaint in &mut complaints {
            let hint = complaint.hint.take().map(|hint| format!("{hint}; {STAYS}"));
            complaint.hint = Some(hint.unwrap_or_else(|| STAYS.to_owned()));
        }
        complaints
    }
}

fn is_broken(path: &Path, content: &FileContent) -> bool {
    let document = RawDocument::of_file(path, content, Scope::User);
    document.is_some_and(|document| document.is_broken)
}
