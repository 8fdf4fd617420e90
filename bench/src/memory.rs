//! Memory of this process, from `/proc`.

use std::fs;

/// Resident memory in KiB. `smaps_rollup` is exact; the faster files lag behind.
pub fn resident_kib() -> f64 {
    field("/proc/self/smaps_rollup", "Rss:")
}

/// Peak resident memory since the start of the process or the last [`reset_peak`], in KiB.
pub fn peak_kib() -> f64 {
    field("/proc/self/status", "VmHWM:")
}

/// Resets the peak to the current resident memory.
pub fn reset_peak() {
    fs::write("/proc/self/clear_refs", "5").expect("a process may reset its own peak");
}

fn field(file: &str, name: &str) -> f64 {
    let text = fs::read_to_string(file).expect("/proc is readable");
    text.lines()
        .find_map(|line| line.strip_prefix(name)?.split_whitespace().next())
        .and_then(|number| number.parse().ok())
        .expect("the kernel reports this value")
}
