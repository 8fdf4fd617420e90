//! Marks the descriptors that a child inherits as close-on-exec.
//!
//! Rust opens descriptors with close-on-exec; the embedding program or a library in another
//! language may not. Invariant: a child's program starts with its three standard streams and no
//! other descriptor.

use std::os::fd::{BorrowedFd, RawFd};
#[cfg(target_os = "linux")]
use std::{
    io,
    os::fd::{AsRawFd as _, OwnedFd},
};

use rustix::io::{FdFlags, fcntl_setfd};

/// Marks descriptors in the child. Created before the child, because the child must not allocate.
#[derive(Debug)]
pub(super) struct FdCloser {
    /// The descriptors to mark one by one; empty if the kernel can mark all in one call.
    open_fds: Vec<RawFd>,
}

impl FdCloser {
    pub(super) fn prepare() -> Self {
        let open_fds = if close_range::is_supported() {
            Vec::new()
        } else {
            list_open_fds()
        };
        Self { open_fds }
    }

    /// Marks every descriptor except the standard streams as close-on-exec. Called in the child, on
    /// its own copies: makes only system calls and does not allocate.
    #[expect(unsafe_code, reason = "only the numbers of the descriptors are known")]
    pub(super) fn mark_cloexec(&self) {
        close_range::mark_all();
        for &fd in &self.open_fds {
            // SAFETY: the number is only passed to the kernel, which rejects one that is not open.
            let fd = unsafe { BorrowedFd::borrow_raw(fd) };
            let _ = fcntl_setfd(fd, FdFlags::CLOEXEC);
        }
    }
}

/// Duplicates a descriptor in the range 0..=2 to one above. A host that closed its standard streams
/// gets their numbers for its other descriptors, and the child's `dup2` calls would overwrite them.
#[cfg(target_os = "linux")]
pub(super) fn above_stdio(fd: impl Into<OwnedFd>) -> io::Result<OwnedFd> {
    let fd = fd.into();
    if fd.as_raw_fd() > libc::STDERR_FILENO {
        return Ok(fd);
    }
    Ok(rustix::io::fcntl_dupfd_cloexec(
        &fd,
        libc::STDERR_FILENO + 1,
    )?)
}

#[cfg(target_os = "linux")]
const FD_DIRECTORY: &str = "/proc/self/fd";
#[cfg(not(target_os = "linux"))]
const FD_DIRECTORY: &str = "/dev/fd";

/// The open descriptors except the standard streams. Descriptors that are opened between this
/// listing and the fork are missed unless they are close-on-exec, as Rust opens them.
fn list_open_fds() -> Vec<RawFd> {
    let entries = std::fs::read_dir(FD_DIRECTORY).into_iter().flatten();
    entries
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
        .filter(|fd| *fd > 2)
        .collect()
}

/// Marks all descriptors in one system call, available since Linux 5.11.
#[cfg(target_os = "linux")]
#[expect(unsafe_code, reason = "the system call has no safe wrapper")]
mod close_range {
    use std::sync::LazyLock;

    /// Probes the system call on a descriptor that cannot be open.
    pub(super) fn is_supported() -> bool {
        static IS_SUPPORTED: LazyLock<bool> = LazyLock::new(|| mark_from(u32::MAX));
        *IS_SUPPORTED
    }

    pub(super) fn mark_all() {
        mark_from(3);
    }

    fn mark_from(first: u32) -> bool {
        // SAFETY: the call takes three numbers and closes nothing before the next `execve`.
        let result = unsafe {
            libc::syscall(
                libc::SYS_close_range,
                first,
                u32::MAX,
                libc::CLOSE_RANGE_CLOEXEC,
            )
        };
        result == 0
    }
}

#[cfg(not(target_os = "linux"))]
mod close_range {
    pub(super) fn is_supported() -> bool {
        false
    }

    pub(super) fn mark_all() {}
}
