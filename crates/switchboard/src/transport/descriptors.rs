//! What a child does not get: the descriptors of its host.
//!
//! Rust opens everything so that it is closed in children; what an embedding program or a library in
//! another language opened may not be. Invariant: a child has the three streams that it was given,
//! and no other descriptor.

use std::os::fd::{BorrowedFd, RawFd};

use rustix::io::{FdFlags, fcntl_setfd};
use tokio::process::Command;

#[cfg(target_os = "linux")]
const OPEN_DESCRIPTORS: &str = "/proc/self/fd";
#[cfg(not(target_os = "linux"))]
const OPEN_DESCRIPTORS: &str = "/dev/fd";

/// Lets every descriptor above the three streams be closed when the program is started.
#[expect(
    unsafe_code,
    reason = "the child marks its own copies, between fork and exec"
)]
pub(super) fn withhold(command: &mut Command) {
    let open = open_descriptors();
    let mark_all = move || {
        for &descriptor in &open {
            // SAFETY: the number is only passed to the kernel, which refuses one that is not open.
            let descriptor = unsafe { BorrowedFd::borrow_raw(descriptor) };
            let _ = fcntl_setfd(descriptor, FdFlags::CLOEXEC);
        }
        Ok(())
    };
    // SAFETY: the closure makes system calls only, and allocates nothing.
    unsafe {
        command.pre_exec(mark_all);
    }
}

/// The descriptors above 2 that are open now. Listed by the parent: a child that was just forked
/// may not allocate. Those opened in the meantime are opened by Rust, or are not ours to know.
fn open_descriptors() -> Vec<RawFd> {
    let listed = std::fs::read_dir(OPEN_DESCRIPTORS).into_iter().flatten();
    listed
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
        .filter(|descriptor| *descriptor > 2)
        .collect()
}
