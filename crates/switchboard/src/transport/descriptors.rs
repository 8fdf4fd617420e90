//! What a child does not get: the descriptors of its host.
//!
//! Rust opens everything so that it is closed in children; what an embedding program or a library in
//! another language opened may not be. Invariant: a child has the three streams that it was given,
//! and no other descriptor.

use std::os::fd::{BorrowedFd, RawFd};

use rustix::io::{FdFlags, fcntl_setfd};

/// How a child gets rid of what it inherited. Made before the child is.
#[derive(Debug)]
pub(super) struct Withholding {
    /// Where the kernel cannot mark all descriptors at once, those to be marked one after the other.
    open: Vec<RawFd>,
}

impl Withholding {
    pub(super) fn prepare() -> Self {
        let open = if range::can_be_marked() {
            Vec::new()
        } else {
            open_descriptors()
        };
        Self { open }
    }

    /// Lets every descriptor above the three streams be closed when the program is started. To be
    /// called by the child, for its own copies: makes system calls only, and allocates nothing.
    #[expect(unsafe_code, reason = "the descriptors are known by their numbers")]
    pub(super) fn carry_out(&self) {
        range::mark();
        for &descriptor in &self.open {
            // SAFETY: the number is only passed to the kernel, which refuses one that is not open.
            let descriptor = unsafe { BorrowedFd::borrow_raw(descriptor) };
            let _ = fcntl_setfd(descriptor, FdFlags::CLOEXEC);
        }
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
