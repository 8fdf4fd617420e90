//! The memory of this process, as the kernel counts it.

use std::fs;

/// What is resident now, in KiB. `smaps_rollup` is exact; the quicker files lag behind.
pub fn resident_kib() -> f64 {
    field("/proc/self/smaps_rollup", "Rss:")
}

/// The most that was resident since [`forget_peak`], in KiB.
pub fn peak_kib() -> f64 {
    field("/proc/self/status", "VmHWM:")
}

/// Begins a new peak at what is resident now.
pub fn forget_peak() {
    fs::write("/proc/self/clear_refs", "5").expect("a process may forget its own peak");
}

fn field(file: &str, name: &str) -> f64 {
    let text = fs::read_to_string(file).expect("a file of the kernel");
    text.lines()
        .find_map(|line| line.strip_prefix(name)?.split_whitespace().next())
        .and_then(|number| number.parse().ok())
        .expect("the kernel counts it")
}
