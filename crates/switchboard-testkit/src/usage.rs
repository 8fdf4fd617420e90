//! Memory and CPU time of the test process. Needs Linux's `/proc`.
//!
//! The values cover the whole process, so they are only useful if a test runs in its own process.

use std::fs;
use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

/// Measures how much the peak memory of this process grows.
#[derive(Debug)]
pub struct PeakMemory {
    before: u64,
}

impl PeakMemory {
    /// Resets the peak memory of the process and starts to measure.
    pub fn begin() -> Self {
        // If the peak cannot be reset, growth is measured from the previous peak.
        let _ = fs::write("/proc/self/clear_refs", "5");
        Self { before: peak() }
    }

    /// Growth of the peak memory since [`PeakMemory::begin`], in bytes.
    pub fn growth(&self) -> u64 {
        peak().saturating_sub(self.before)
    }
}

/// Peak resident memory of this process, in bytes.
fn peak() -> u64 {
    let status = fs::read_to_string("/proc/self/status").expect("the measurement needs /proc");
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let kib = line.and_then(|line| line.trim().strip_suffix(" kB"));
    let kib: u64 = kib.and_then(|kib| kib.parse().ok()).expect("VmHWM in kB");
    kib * 1024
}

/// CPU time that this process has used so far, over all threads.
pub fn cpu_time() -> Duration {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    Duration::try_from(time).expect("time goes forward")
}
