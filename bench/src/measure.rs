//! What is measured, and how.

use std::path::Path;
use std::time::{Duration, Instant};

/// One kind of work.
pub struct Work {
    pub name: &'static str,
    pub tool: &'static str,
    pub size: usize,
    pub in_flight: usize,
    pub calls: usize,
}

impl Work {
    /// The arguments of one call.
    pub fn arguments(&self) -> serde_json::Value {
        match self.tool {
            "echo" => serde_json::json!({ "message": "x".repeat(self.size) }),
            _ => serde_json::json!({ "size": self.size }),
        }
    }
}

/// One repeat of one work by one client. Times in microseconds.
pub struct Sample {
    pub p50: f64,
    pub p99: f64,
    pub rate: f64,
    /// Client CPU per call; the server's is not in it.
    pub cpu: f64,
}

/// A client under test.
pub trait Client {
    fn run(server: &Path, work: &Work) -> Sample;
}

/// Watches a run: the clock, the CPU of this process, the latency of every call.
pub struct Watch {
    began: Instant,
    cpu: Duration,
}

impl Watch {
    pub fn start() -> Self {
        Self {
            began: Instant::now(),
            cpu: cpu_time(),
        }
    }

    pub fn stop(self, mut latencies: Vec<Duration>) -> Sample {
        let (elapsed, cpu) = (self.began.elapsed(), cpu_time() - self.cpu);
        latencies.sort_unstable();
        let count = latencies.len();
        let at = |share: f64| latencies[((count - 1) as f64 * share) as usize].as_secs_f64() * 1e6;
        Sample {
            p50: at(0.5),
            p99: at(0.99),
            rate: count as f64 / elapsed.as_secs_f64(),
            cpu: cpu.as_secs_f64() * 1e6 / count as f64,
        }
    }
}

fn cpu_time() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

pub fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}
