//! What a test has cost the process that it runs in. Needs Linux's `/proc`.
//!
//! The figures are those of the whole process: they mean something where a test has one to itself.

use std::fs;
use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

/// Measures how far the memory of this process grows, at its peak, from the moment it is made.
#[derive(Debug)]
pub struct PeakMemory {
    before: u64,
}

impl PeakMemory {
    /// Begins to measure.
    pub fn begin() -> Self {
        // Where the mark cannot be put back, growth is measured from the highest one so far.
        let _ = fs::write("/proc/self/clear_refs", "5");
        Self { before: peak() }
    }

    /// By how many bytes the peak has risen so far.
    pub fn growth(&self) -> u64 {
        peak().saturating_sub(self.before)
    }
}

/// The most memory that was ever resident, in bytes.
fn peak() -> u64 {
    let status = fs::read_to_string("/proc/self/status").expect("the measurement needs /proc");
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let kib = line.and_then(|line| line.trim().strip_suffix(" kB"));
    let kib: u64 = kib.and_then(|kib| kib.parse().ok()).expect("VmHWM in kB");
    kib * 1024
}

/// The processor time that this process has used so far, all threads together.
pub fn cpu_time() -> Duration {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    Duration::try_from(time).expect("time goes forward")
}
