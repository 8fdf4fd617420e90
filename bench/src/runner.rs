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
pub const DO: &str = "do";

const THIS_THREAD: Pid = Pid::from_raw(0);

/// The cores that a client and its servers share.
#[derive(Clone, Copy)]
pub enum Cores {
    One,
    /// Two cores, or one if there is only one. An asynchronous client has one worker per core, its
    /// default.
    Two,
    /// Two cores and a single worker, so that the server has a core of its own, as with the floor.
    TwoWithOneWorker,
}

/// Starts workers on the cores that this program may use.
pub struct Runner {
    cores: Vec<usize>,
}

impl Runner {
    pub fn new() -> Self {
        let allowed = sched_getaffinity(THIS_THREAD).expect("a thread knows its cores");
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
            .args([DO, client.name(), &encode(job)])
            .stdout(Stdio::piped())
            .spawn()
            .expect("this program can be started again");
        let mut lines = BufReader::new(worker.stdout.take().expect("piped")).lines();
        let mut last = lines.next().expect("a worker says something");
        let ready = began.elapsed().as_secs_f64() * 1e3;
        for line in lines {
            last = line;
        }
        assert!(worker.wait().is_ok_and(|status| status.success()));
        figures(&last.expect("text")).with("ready", ready)
    }

    /// Wall time of a program in milliseconds. Checks that it prints `answer`.
    pub fn wall(&self, program: &mut Command, answer: &str) -> f64 {
        self.pin(Cores::Two);
        let began = Instant::now();
        let output = program.output().expect("the program is built");
        let elapsed = began.elapsed().as_secs_f64() * 1e3;
        let printed = String::from_utf8_lossy(&output.stdout);
        assert!(printed.contains(answer), "{program:?}: {output:?}");
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
            .args([DO, client.name(), &encode(&Job::Calls(work.clone()))])
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .map_err(|_| NoValgrind)?;
        let pid = worker.id();
        let worker = worker.wait_with_output().expect("it was started");
        let said = String::from_utf8_lossy(&worker.stderr);
        assert!(worker.status.success(), "{said}");
        // The last line of a worker contains its figures. Check that it made all calls.
        let printed = String::from_utf8_lossy(&worker.stdout);
        let figures = figures(printed.lines().last().unwrap_or_default());
        assert_eq!(figures.of("calls") as usize, work.calls);
        Ok(collected(&said, pid))
    }

    /// Pins this thread; children inherit the affinity.
    fn pin(&self, cores: Cores) {
        let mut wanted = CpuSet::new();
        for core in self.cores.iter().take(count(cores)) {
            wanted.set(*core).expect("it was in such a set");
        }
        sched_setaffinity(THIS_THREAD, &wanted).expect("these cores were ours");
    }
}

/// valgrind is not installed.
pub struct NoValgrind;

/// The path of the last profile of a client, for `callgrind_annotate`.
pub fn profile_of(client: Client) -> PathBuf {
    this_program().with_file_name(format!("callgrind.{}.out", client.name()))
}

fn figures(line: &str) -> Figures {
    serde_json::from_str(line).expect("a worker ends with its figures")
}

/// Parses `==1234== Collected : 123456`. A forked child prints such a line too, until it executes
/// the server.
fn collected(said: &str, pid: u32) -> f64 {
    let own = format!("=={pid}==");
    said.lines()
        .filter(|line| line.starts_with(&own))
        .find_map(|line| line.split("Collected :").nth(1)?.trim().parse().ok())
        .expect("callgrind says what it collected")
}

fn encode(job: &Job) -> String {
    serde_json::to_string(job).expect("a job is JSON")
}

fn count(cores: Cores) -> usize {
    match cores {
        Cores::One => 1,
        Cores::Two | Cores::TwoWithOneWorker => 2,
    }
}

fn this_program() -> PathBuf {
    std::env::current_exe().expect("a program knows where it is")
}
