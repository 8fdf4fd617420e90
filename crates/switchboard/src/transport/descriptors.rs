//! What a child does not get: the descriptors of its host.
//!
//! Rust opens everything so that it is closed in children; what an embedding program or a library in
//! another language opened may not be. Invariant: a child has the three streams that it was given,
//! and no other descriptor.

use std::os::fd::{BorrowedFd, RawFd};

use rustix::io::{FdFlags, fcntl_setfd};
use tokio::process::Command;

/// Lets every descriptor above the three streams be closed when the program is started.
#[expect(
    unsafe_code,
    reason = "the child marks its own copies, between fork and exec"
)]
pub(super) fn withhold(command: &mut Command) {
    // Where the kernel cannot do it at once, one after the other.
    let open = if range::can_be_marked() {
        Vec::new()
    } else {
        open_descriptors()
    };
    let mark_all = move || {
        range::mark();
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

#[cfg(target_os = "linux")]
const OPEN_DESCRIPTORS: &str = "/proc/self/fd";
#[cfg(not(target_os = "linux"))]
const OPEN_DESCRIPTORS: &str = "/dev/fd";

/// The descriptors above 2 that are open now. Listed by the parent: a child that was just forked
/// may not allocate. Those opened in the meantime are opened by Rust, or are not ours to know.
fn open_descriptors() -> Vec<RawFd> {
    let listed = std::fs::read_dir(OPEN_DESCRIPTORS).into_iter().flatten();
    listed
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
        .filter(|descriptor| *descriptor > 2)
        .collect()
}

/// All descriptors in one call, which Linux has since 5.11.
#[cfg(target_os = "linux")]
#[expect(unsafe_code, reason = "the system call has no safe wrapper")]
mod range {
    use std::sync::LazyLock;

    /// Whether the kernel knows the call; tried on a descriptor that nobody has.
    pub(super) fn can_be_marked() -> bool {
        static IS_KNOWN: LazyLock<bool> = LazyLock::new(|| mark_from(u32::MAX));
        *IS_KNOWN
    }

    pub(super) fn mark() {
        mark_from(3);
    }

    fn mark_from(first: u32) -> bool {
        // SAFETY: it takes three numbers, and closes nothing before the next program is started.
        let outcome = unsafe {
            libc::syscall(
                libc::SYS_close_range,
                first,
                u32::MAX,
                libc::CLOSE_RANGE_CLOEXEC,
            )
        };
        outcome == 0
    }
}

#[cfg(not(target_os = "linux"))]
mod range {
    pub(super) fn can_be_marked() -> bool {
        false
    }

    pub(super) fn mark() {}
}
