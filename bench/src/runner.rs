//! Runs jobs in processes of their own, on as many cores as asked for.

use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::Instant;

use nix::sched::{CpuSet, sched_getaffinity, sched_setaffinity};
use nix::unistd::Pid;

use crate::clients::Client;
use crate::job::{Figures, Job, Work};

/// The word that makes this program do one job and print its figures.
pub const DO: &str = "do";

const THIS_THREAD: Pid = Pid::from_raw(0);

/// What a client and its servers may run on.
#[derive(Clone, Copy)]
pub enum Cores {
    One,
    /// Or the one that there is. An asynchronous client has a worker on each, as by default, and shares
    /// them with its servers.
    Two,
    /// Two, and a single worker: one core is left to the server, as it is with the floor.
    TwoWithOneWorker,
}

/// Starts workers. Knows which cores this program was given.
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

    /// Does the job in a process of its own.
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

    /// How long a program takes from its start to its end, in milliseconds. It prints the answer.
    pub fn wall(&self, program: &mut Command, answer: &str) -> f64 {
        self.pin(Cores::Two);
        let began = Instant::now();
        let output = program.output().expect("the program is built");
        let elapsed = began.elapsed().as_secs_f64() * 1e3;
        let printed = String::from_utf8_lossy(&output.stdout);
        assert!(printed.contains(answer), "{program:?}: {output:?}");
        elapsed
    }

    /// How many instructions the client executes for the job, its start included. The servers are
    /// children that valgrind does not follow, and the kernel's work is not counted.
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
        // The last line of a worker is its figures: it did the calls, and all of them.
        let printed = String::from_utf8_lossy(&worker.stdout);
        let figures = figures(printed.lines().last().unwrap_or_default());
        assert_eq!(figures.of("calls") as usize, work.calls);
        Ok(collected(&said, pid))
    }

    /// Children inherit the cores of the thread that starts them.
    fn pin(&self, cores: Cores) {
        let mut wanted = CpuSet::new();
        for core in self.cores.iter().take(count(cores)) {
            wanted.set(*core).expect("it was in such a set");
        }
        sched_setaffinity(THIS_THREAD, &wanted).expect("these cores were ours");
    }
}

/// There is no valgrind on this machine.
pub struct NoValgrind;

/// Where the last profile of a client lies, for `callgrind_annotate`.
pub fn profile_of(client: Client) -> PathBuf {
    this_program().with_file_name(format!("callgrind.{}.out", client.name()))
}

fn figures(line: &str) -> Figures {
    serde_json::from_str(line).expect("a worker ends with its figures")
}

/// `==1234== Collected : 123456`. A child says so, too, until it has become the server.
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
