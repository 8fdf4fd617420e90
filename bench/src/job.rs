//! What a client is asked to do, and what is said about it afterwards.
//!
//! Every measurement is a process of its own, so that no client inherits another's heap, threads or
//! page tables. The job goes there as an argument, the figures come back as one line of JSON.

use std::collections::BTreeMap;
use std::future::Future;
use std::time::{Duration, Instant};

use nix::time::{ClockId, clock_gettime};
use serde::{Deserialize, Serialize};

use crate::memory;

/// What a client can be asked to do.
#[derive(Clone, Serialize, Deserialize)]
pub enum Job {
    /// Calls of one tool of one server.
    Calls(Work),
    /// Servers connected and listed, then left alone.
    Connect { servers: usize },
    /// One server with many tools, listed and kept.
    List { tools: usize },
    /// Calls of a server in the client's own process.
    Local { calls: usize },
    /// A steady load on healthy servers, among others: what each of those is hostile by, or nothing.
    Crowd { others: Vec<Option<String>> },
    /// One answer that is meant to blow up.
    Bomb { shape: String, size: usize },
}

/// How a client reaches its server.
#[derive(Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Over {
    Stdio,
    Http,
}

/// Calls of one tool.
#[derive(Clone, Serialize, Deserialize)]
pub struct Work {
    pub over: Over,
    pub tool: String,
    /// The size of one answer, in bytes.
    pub size: usize,
    pub in_flight: usize,
    /// Calls that are made before anything is measured.
    pub warm_up: usize,
    pub calls: usize,
}

impl Work {
    /// Small calls, one at a time, of a server in the client's own process.
    pub fn local(calls: usize) -> Self {
        Self {
            over: Over::Stdio,
            tool: "echo".to_owned(),
            size: 100,
            in_flight: 1,
            warm_up: calls / 10,
            calls,
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

/// What was measured, by name: `p50`, `rate`, `cpu`, …
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
            None => panic!("no figure `{name}` was taken"),
        }
    }
}

/// Says that the servers are connected: the first line of a worker stops the runner's clock.
pub fn say_ready() {
    println!("ready");
}

/// What a client's process needs with its servers connected, or with their tools listed.
pub fn memory_now() -> Figures {
    Figures::default()
        .with("resident", memory::resident_kib())
        .with("peak", memory::peak_kib())
}

/// Watches calls: the clock and the CPU of this process. The server's CPU is not in it.
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

    /// The CPU this process has used since, in microseconds.
    pub fn cpu_micros(&self) -> f64 {
        (cpu_time() - self.cpu).as_secs_f64() * 1e6
    }

    /// Latencies and CPU in microseconds, calls per second.
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

/// What makes calls: an agent with a handle of its own.
pub trait Caller: Clone + Send + Sync + 'static {
    fn call(&self) -> impl Future<Output = ()> + Send;
}

/// Keeps `in_flight` tasks calling, one call after the other each, as agents do.
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
        latencies.extend(task.await.expect("no panic"));
    }
    latencies
}

/// Calls through a session that is there, timed after the warm-up.
pub async fn measured(caller: &impl Caller, work: &Work) -> Figures {
    call_from_tasks(work.in_flight, work.warm_up, caller).await;
    let stopwatch = Stopwatch::start();
    let latencies = call_from_tasks(work.in_flight, work.calls, caller).await;
    stopwatch.stop(latencies)
}
