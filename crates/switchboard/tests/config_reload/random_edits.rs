//! Random edits of real files, written in all the ways in which files are written, over real children.
//!
//! The clock of the watcher is made up; looks fall before, between and after the parts of a write.
//! Whatever a look brings is applied, and whoever looks then sees the servers of the file as it was or as
//! it is going to be. `SWITCHBOARD_SEED=n` runs the one seed n.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, OpenOptions};
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use fastrand::Rng;
use serde_json::json;
use switchboard::{Host, Readiness};
use switchboard_config::{ConfigPoller, ConfigSources, PolledFiles, Trust};
use switchboard_testkit::{
    Script, TAG_VARIABLE, assert_no_process_left, processes_with_tag, repetitions, scripted_server,
    unique_tag,
};

use crate::common::permissive;

/// How many edits are made on one host.
const EDITS: u32 = 20;
const NAMES: [&str; 6] = ["ant", "bee", "cat", "dog", "eel", "fox"];
/// In the environment of each child: which server it is, and of which version.
const WHO: &str = "SWITCHBOARD_TEST_WHO";
/// Longer than a file has to be quiet.
const MOMENT: Duration = Duration::from_millis(150);

#[test]
fn stress_reloads_see_the_old_or_the_new_and_unchanged_servers_keep_their_pid() {
    let count = repetitions(100).div_ceil(EDITS);
    let seeds = match chosen_seed() {
        Some(seed) => seed..seed + 1,
        None => 0..u64::from(count),
    };
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .unwrap();
    let mut tally = Tally::default();
    for seed in seeds.clone() {
        let outcome = runtime.block_on(run(seed, &mut tally));
        if let Err(problem) = outcome {
            panic!("SWITCHBOARD_SEED={seed} repeats it: {problem}");
        }
    }
    println!("seeds {seeds:?}: {tally:?}");
    assert!(tally.restarted > 0 && tally.kept > 0 && tally.complaints > 0);
}

#[expect(
    clippy::disallowed_methods,
    reason = "how a seed that failed is run again"
)]
fn chosen_seed() -> Option<u64> {
    let seed = std::env::var("SWITCHBOARD_SEED").ok()?;
    Some(seed.parse().unwrap())
}

/// What there was to see.
#[derive(Debug, Default)]
struct Tally {
    edits: u32,
    looks: u32,
    applied: u32,
    complaints: u32,
    kept: usize,
    restarted: usize,
}

/// The servers of one file, in their order, each with its version.
type Model = Vec<(&'static str, u32)>;

/// One of the two files.
struct Layer {
    path: PathBuf,
    model: Model,
    /// What is in it, as it was written last.
    text: String,
}

struct Desk<'t> {
    rng: Rng,
    folder: tempfile::TempDir,
    tag: String,
    layers: [Layer; 2],
    next_version: u32,
    watched: ConfigPoller,
    targets: PolledFiles,
    now: Instant,
    host: Host,
    tally: &'t mut Tally,
}

async fn run(seed: u64, tally: &mut Tally) -> Result<(), String> {
    let folder = tempfile::tempdir().unwrap();
    let layer = |name: &str| Layer {
        path: folder.path().join(name),
        model: Vec::new(),
        text: String::new(),
    };
    let layers = [layer("local.json"), layer("user.json")];
    let sources = ConfigSources {
        local: Some(layers[0].path.clone()),
        user: Some(layers[1].path.clone()),
        ..ConfigSources::default()
    };
    let mut desk = Desk {
        rng: Rng::with_seed(seed),
        folder,
        tag: unique_tag(),
        layers,
        next_version: 0,
        watched: ConfigPoller::new(),
        targets: PolledFiles::from(sources),
        now: Instant::now(),
        host: permissive().start().unwrap(),
        tally,
    };
    let mut outcome = Ok(());
    for edit in 0..EDITS {
        outcome = desk
            .edit()
            .await
            .map_err(|problem| format!("edit {edit}: {problem}"));
        desk.tally.edits += 1;
        if outcome.is_err() {
            break;
        }
    }
    desk.host.shutdown().await;
    assert_no_process_left(&desk.tag).await;
    outcome
}

impl Desk<'_> {
    /// Changes one of the files and looks, while it is written and after.
    async fn edit(&mut self) -> Result<(), String> {
        let which = self.rng.usize(..2);
        let before = self.effective();
        let pids = self.running().await;
        self.change(which);
        let text = self.render(which);
        let old_text = std::mem::replace(&mut self.layers[which].text, text.clone());
        let after = self.effective();
        let path = self.layers[which].path.clone();

        for state in self.way_of_writing(&old_text, &text) {
            state.put(&path);
            for _ in 0..self.rng.usize(..3) {
                // What could pass for a config, or for none, does not last.
                let pause = match state {
                    State::Mixed(_) | State::Gone => Duration::from_millis(10),
                    _ => MOMENT,
                };
                self.look(pause).await;
                let names = self.names();
                if names != listed(&before) && names != listed(&after) {
                    return Err(format!("{names:?} is neither {before:?} nor {after:?}"));
                }
            }
        }
        self.look(MOMENT).await;
        self.look(MOMENT).await;
        let names = self.names();
        if names != listed(&after) {
            return Err(format!("{names:?} is not {after:?}: {text}"));
        }
        self.check_processes(&before, &after, &pids).await
    }

    /// One look at the files; what it brings holds from then on.
    async fn look(&mut self, pause: Duration) {
        self.now += pause;
        self.tally.looks += 1;
        let reading = self.watched.poll(&self.targets, &|_: &str| None, self.now);
        if let Some(reading) = reading {
            self.tally.applied += 1;
            self.tally.complaints += u32::from(!reading.loaded.diagnostics.is_empty());
            self.host
                .apply_config(reading.loaded.config, &Trust::none())
                .await;
        }
    }

    /// Each server that should run does, once, in its version; one that did not change is the same
    /// process as before.
    async fn check_processes(
        &mut self,
        before: &Model,
        after: &Model,
        pids: &BTreeMap<String, i32>,
    ) -> Result<(), String> {
        let running = self.running().await;
        let expected: BTreeSet<_> = after.iter().map(who).collect();
        let found: BTreeSet<_> = running.keys().cloned().collect();
        if found != expected {
            return Err(format!("{found:?} run, and not {expected:?}"));
        }
        for server in after {
            let same = before.contains(server);
            if same && pids.get(&who(server)) != running.get(&who(server)) {
                return Err(format!("{} was started anew", who(server)));
            }
            self.tally.kept += usize::from(same);
            self.tally.restarted += usize::from(!same);
        }
        Ok(())
    }

    /// The processes of all servers, once those that are starting have started.
    async fn running(&self) -> BTreeMap<String, i32> {
        self.host.wait_for(Readiness::All).await;
        let mut running = BTreeMap::new();
        for pid in processes_with_tag(&self.tag) {
            let environment = fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
            let variables = environment.split(|byte| *byte == 0);
            let who = variables
                .filter_map(|variable| str::from_utf8(variable).ok())
                .find_map(|variable| variable.strip_prefix(WHO)?.strip_prefix('='));
            let twice = running.insert(who.unwrap_or("nobody").to_owned(), pid);
            assert_eq!(twice, None, "two processes of one server");
        }
        running
    }

    fn names(&self) -> Vec<String> {
        let status = self.host.status().into_iter();
        status.map(|server| server.name.to_string()).collect()
    }

    /// What both files together mean: the first wins by name.
    fn effective(&self) -> Model {
        let mut all = self.layers[0].model.clone();
        let taken: Vec<_> = all.iter().map(|(name, _)| *name).collect();
        let rest = self.layers[1].model.iter();
        all.extend(rest.filter(|(name, _)| !taken.contains(name)));
        all
    }

    /// A random change of one file's servers; now and then it changes nothing but its looks.
    fn change(&mut self, which: usize) {
        self.next_version += 1;
        let model = &mut self.layers[which].model;
        let name = NAMES[self.rng.usize(..NAMES.len())];
        let place = model.iter().position(|(known, _)| *known == name);
        match (self.rng.u32(..6), place) {
            (0..=1, None) => {
                let at = self.rng.usize(..=model.len());
                model.insert(at, (name, self.next_version));
            }
            (0, Some(place)) => drop(model.remove(place)),
            (1..=3, Some(place)) => model[place].1 = self.next_version,
            (4, _) => self.rng.shuffle(model),
            (5, _) if self.rng.u8(..4) == 0 => model.clear(),
            _ => {}
        }
    }

    /// The file's text, with looks that mean nothing.
    fn render(&mut self, which: usize) -> String {
        let blank = " ".repeat(self.rng.usize(..40));
        let entries: Vec<_> = self.layers[which]
            .model
            .iter()
            .map(|server| {
                let script = Script::legacy().tool("pid").to_json();
                let entry = json!({
                    "command": scripted_server(),
                    "args": [script],
                    "env": {TAG_VARIABLE: self.tag, WHO: who(server)},
                });
                format!("{blank}{:?}: {entry},\n", server.0)
            })
            .collect();
        let comment = self.rng.u32(..);
        let entries = entries.concat();
        format!("// {comment}\n{{\"mcpServers\": {{\n{entries}{blank}}}}}\n")
    }

    /// The states that a file goes through on its way from one text to another.
    fn way_of_writing(&mut self, old: &str, new: &str) -> Vec<State> {
        let part = |rng: &mut Rng| new[..rng.usize(..new.len())].to_owned();
        let temporary = self.folder.path().join("draft");
        let mut way = match self.rng.u32(..6) {
            // By rename, as careful programs do.
            0 => vec![State::Renamed(temporary, new.to_owned())],
            // Emptied, then written in parts.
            1 => {
                let mut cuts: Vec<_> = (0..3).map(|_| part(&mut self.rng)).collect();
                cuts.sort_by_key(String::len);
                let parts = cuts.into_iter().map(State::Part);
                std::iter::once(State::Part(String::new()))
                    .chain(parts)
                    .collect()
            }
            // Over the old text: for a moment its end follows the new beginning.
            2 => {
                let part = part(&mut self.rng);
                let rest = old.get(part.len()..).unwrap_or_default();
                vec![State::Mixed(format!("{part}{rest}"))]
            }
            // Away for a moment.
            3 => vec![State::Gone],
            // Broken by a slip of the pen, then mended.
            4 => vec![State::Part(new.replacen('{', "{{", 1))],
            // All at once.
            _ => Vec::new(),
        };
        way.push(State::Whole(new.to_owned()));
        way
    }
}

/// What a file is while it is being written.
enum State {
    Part(String),
    Mixed(String),
    Gone,
    Renamed(PathBuf, String),
    Whole(String),
}

impl State {
    fn put(&self, path: &Path) {
        match self {
            Self::Part(text) | Self::Mixed(text) | Self::Whole(text) => {
                let mut options = OpenOptions::new();
                let file = options.write(true).create(true).truncate(true).open(path);
                file.unwrap().write_all(text.as_bytes()).unwrap();
            }
            Self::Gone => drop(fs::remove_file(path)),
            Self::Renamed(draft, text) => {
                fs::write(draft, text).unwrap();
                fs::rename(draft, path).unwrap();
            }
        }
    }
}

fn who((name, version): &(&'static str, u32)) -> String {
    format!("{name}-{version}")
}

fn listed(model: &Model) -> Vec<String> {
    model.iter().map(|(name, _)| (*name).to_owned()).collect()
}
