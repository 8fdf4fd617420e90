//! The jobs of a client, and the figures that it returns.
//!
//! Every measurement runs in its own process, so that clients do not share a heap, threads or page
//! tables. The job is passed as an argument; the figures are returned as one line of JSON.

use std::collections::BTreeMap;
use std::future::Future;
use std::time::{Duration, Instant};

use nix::time::{ClockId, clock_gettime};
use serde::{Deserialize, Serialize};

use crate::memory;

/// A job that a client runs.
#[derive(Clone, Serialize, Deserialize)]
pub enum Job {
    /// Calls one tool of one server.
    Calls(Work),
    /// Connects servers, lists their tools and leaves them idle.
    Connect { servers: usize },
    /// Lists one server with many tools and keeps the listing.
    List { tools: usize },
    /// Calls a server in the client's process.
    InProcess { calls: usize },
    /// Puts a steady load on healthy servers. Each item of `others` is another server: hostile in
    /// the named way, or idle if `None`.
    Hostile { others: Vec<Option<String>> },
    /// Requests one response that would be much larger in memory than on the wire.
    Bomb { shape: String, size: usize },
}

/// The transport between client and server.
#[derive(Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Transport {
    Stdio,
    Http,
}

/// Calls of one tool.
#[derive(Clone, Serialize, Deserialize)]
pub struct Work {
    pub transport: Transport,
    pub tool: String,
    /// Size of the content of one response, in bytes.
    pub size: usize,
    pub in_flight: usize,
    /// Number of calls before the measurement starts.
    pub warm_up: usize,
    pub calls: usize,
    /// Number of further servers of the client that are not called. They run in its process.
    pub idle_servers: usize,
}

impl Work {
    /// Small calls, one at a time, to a server in the client's process.
    pub fn in_process(calls: usize) -> Self {
        Self {
            transport: Transport::Stdio,
            tool: "echo".to_owned(),
            size: 100,
            in_flight: 1,
            warm_up: calls / 10,
            calls,
            idle_servers: 0,
        }
    }

    /// The arguments of one call.
    pub fn arguments(&self) -> serde_json::Value {
        match self.tool.as_str() {
            "echo" => serde_json::json!({ "message": "x".repeat(self.size) }),
            _ => serde_json::json!({ "size": self.size }),
        }
    }
}

/// Figures by name: `p50`, `rate`, `cpu`, …
#[derive(Clone, Default, Serialize, Deserialize)]
pub struct Figures(BTreeMap<String, f64>);

impl Figures {
    pub fn with(mut self, name: &str, value: f64) -> Self {
        self.0.insert(name.to_owned(), value);
        self
    }

    pub fn of(&self, name: &str) -> f64 {
        match self.0.get(name) {
            Some(value) => *value,
            None => panic!("figure `{name}` was not measured"),
        }
    }
}

/// Reports that the servers are connected. The runner stops its clock at the first line of a
/// worker.
pub fn print_ready() {
    println!("ready");
}

/// Memory of the client process with its servers connected or their tools listed.
pub fn memory_now() -> Figures {
    Figures::default()
        .with("resident", memory::resident_kib())
        .with("peak", memory::peak_kib())
}

/// Measures wall time and CPU time of this process, without the server.
pub struct Stopwatch {
    began: Instant,
    cpu: Duration,
}

impl Stopwatch {
    pub fn start() -> Self {
        Self {
            began: Instant::now(),
            cpu: cpu_time(),
        }
    }

    /// CPU time of this process since the start, in microseconds.
    pub fn cpu_micros(&self) -> f64 {
        (cpu_time() - self.cpu).as_secs_f64() * 1e6
    }

    /// Latencies and CPU time per call in microseconds, rate in calls per second.
    pub fn stop(self, mut latencies: Vec<Duration>) -> Figures {
        let (elapsed, cpu) = (self.began.elapsed(), self.cpu_micros());
        latencies.sort_unstable();
        let count = latencies.len();
        let at = |share: f64| latencies[((count - 1) as f64 * share) as usize].as_secs_f64() * 1e6;
        Figures::default()
            .with("p50", at(0.5))
            .with("p99", at(0.99))
            .with("rate", count as f64 / elapsed.as_secs_f64())
            .with("cpu", cpu / count as f64)
            .with("calls", count as f64)
    }
}

fn cpu_time() -> Duration {
    clock_gettime(ClockId::CLOCK_PROCESS_CPUTIME_ID)
        .expect("every process has this clock")
        .into()
}

/// Makes calls; each task has its own clone.
pub trait Caller: Clone + Send + Sync + 'static {
    fn call(&self) -> impl Future<Output = ()> + Send;
}

/// Runs `in_flight` tasks that each make one call after the other.
async fn call_from_tasks(in_flight: usize, calls: usize, caller: &impl Caller) -> Vec<Duration> {
    let each = calls / in_flight;
    let tasks: Vec<_> = (0..in_flight)
        .map(|_| {
            let caller = caller.clone();
            tokio::spawn(async move {
                let mut latencies = Vec::with_capacity(each);
                for _ in 0..each {
                    let began = Instant::now();
                    caller.call().await;
                    latencies.push(began.elapsed());
                }
                latencies
            })
        })
        .collect();
    let mut latencies = Vec::with_capacity(calls);
    for task in tasks {
        latencies.extend(task.await.expect("the task does not panic"));
    }
    latencies
}

/// Makes the warm-up calls, then measures the calls.
pub async fn measure_calls(caller: &impl Caller, work: &Work) -> Figures {
    call_from_tasks(work.in_flight, work.warm_up, caller).await;
    let stopwatch = Stopwatch::start();
    let latencies = call_from_tasks(work.in_flight, work.calls, caller).await;
    stopwatch.stop(latencies)
}
