//! Runs jobs in separate processes, pinned to a number of cores.

use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::Instant;

use nix::sched::{CpuSet, sched_getaffinity, sched_setaffinity};
use nix::unistd::Pid;

use crate::clients::Client;
use crate::job::{Figures, Job, Work};

/// The argument that makes this program run one job and print its figures.
pub const WORKER: &str = "worker";

const THIS_THREAD: Pid = Pid::from_raw(0);

/// The cores that a client and its servers share.
#[derive(Clone, Copy)]
pub enum Cores {
    One,
    /// Two cores, or one on a machine with one core. An asynchronous client uses its default of one
    /// worker thread per core.
    Two,
    /// Two cores and one tokio worker thread: client and server then have one core each, as with
    /// the baseline.
    TwoWithOneWorker,
}

/// Starts workers on the cores that this program may use.
pub struct Runner {
    cores: Vec<usize>,
}

impl Runner {
    pub fn new() -> Self {
        let allowed = sched_getaffinity(THIS_THREAD)
            .expect("sched_getaffinity succeeds for the current thread");
        let cores = (0..CpuSet::count()).filter(|core| allowed.is_set(*core) == Ok(true));
        Self {
            cores: cores.collect(),
        }
    }

    pub fn has(&self, cores: Cores) -> bool {
        self.cores.len() >= count(cores)
    }

    /// Runs the job in a separate process.
    pub fn run(&self, client: Client, job: &Job, cores: Cores) -> Figures {
        self.pin(cores);
        let began = Instant::now();
        let mut worker = Command::new(this_program());
        if let Cores::TwoWithOneWorker = cores {
            worker.env("TOKIO_WORKER_THREADS", "1");
        }
        let mut worker = worker
            .args([WORKER, client.name(), &encode(job)])
            .stdout(Stdio::piped())
            .spawn()
            .expect("the worker starts");
        let mut lines = BufReader::new(worker.stdout.take().expect("piped")).lines();
        let mut last = lines.next().expect("the worker prints a line");
        let ready = began.elapsed().as_secs_f64() * 1e3;
        for line in lines {
            last = line;
        }
        assert!(worker.wait().is_ok_and(|status| status.success()));
        figures(&last.expect("the worker prints UTF-8")).with("ready", ready)
    }

    /// Wall time of a program in milliseconds. Checks that it prints `expected`.
    pub fn wall(&self, program: &mut Command, expected: &str) -> f64 {
        self.pin(Cores::Two);
        let began = Instant::now();
        let output = program.output().expect("the program is built");
        let elapsed = began.elapsed().as_secs_f64() * 1e3;
        let printed = String::from_utf8_lossy(&output.stdout);
        assert!(printed.contains(expected), "{program:?}: {output:?}");
        elapsed
    }

    /// Number of instructions that the client executes for the job, including its start. Servers
    /// are child processes, which valgrind does not follow; kernel work is not counted.
    pub fn instructions(&self, client: Client, work: &Work) -> Result<f64, NoValgrind> {
        self.pin(Cores::One);
        let profile = profile_of(client);
        let worker = Command::new("valgrind")
            .args(["--tool=callgrind", "--trace-children=no"])
            .arg(format!("--callgrind-out-file={}", profile.display()))
            .arg(this_program())
            .args([WORKER, client.name(), &encode(&Job::Calls(work.clone()))])
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .map_err(|_| NoValgrind)?;
        let pid = worker.id();
        let worker = worker
            .wait_with_output()
            .expect("the worker can be waited for");
        let stderr = String::from_utf8_lossy(&worker.stderr);
        assert!(worker.status.success(), "{stderr}");
        // The last line of a worker contains its figures. Check that it made all calls.
        let printed = String::from_utf8_lossy(&worker.stdout);
        let figures = figures(printed.lines().last().unwrap_or_default());
        assert_eq!(figures.of("calls") as usize, work.calls);
        Ok(parse_instruction_count(&stderr, pid))
    }

    /// Pins this thread; children inherit the affinity.
    fn pin(&self, cores: Cores) {
        let mut selected = CpuSet::new();
        for core in self.cores.iter().take(count(cores)) {
            selected.set(*core).expect("the core number is valid");
        }
        sched_setaffinity(THIS_THREAD, &selected).expect("the cores are allowed");
    }
}

/// valgrind is not installed.
pub struct NoValgrind;

/// The path of the last profile of a client, for `callgrind_annotate`.
pub fn profile_of(client: Client) -> PathBuf {
    this_program().with_file_name(format!("callgrind.{}.out", client.name()))
}

fn figures(line: &str) -> Figures {
    serde_json::from_str(line).expect("the last line of a worker is its figures as JSON")
}

/// Parses `==1234== Collected : 123456`, where 1234 is the pid. The forked child that becomes the
/// server prints such a line too, so the pid must match.
fn parse_instruction_count(stderr: &str, pid: u32) -> f64 {
    let own = format!("=={pid}==");
    stderr
        .lines()
        .filter(|line| line.starts_with(&own))
        .find_map(|line| line.split("Collected :").nth(1)?.trim().parse().ok())
        .expect("callgrind prints the number of instructions")
}

fn encode(job: &Job) -> String {
    serde_json::to_string(job).expect("a job serializes to JSON")
}

fn count(cores: Cores) -> usize {
    match cores {
        Cores::One => 1,
        Cores::Two | Cores::TwoWithOneWorker => 2,
    }
}

fn this_program() -> PathBuf {
    std::env::current_exe().expect("the path of this program is known")
}
