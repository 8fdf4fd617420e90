//! Starts a child with `CLONE_VM | CLONE_VFORK`, without copying the page tables of this process.
//!
//! After a fork, every thread of the host takes a page fault for each page it writes. Here the
//! child uses the host's memory until it calls `execve`, and the thread that created it is
//! suspended until then. `posix_spawn` works the same way, but can neither set the parent-death
//! signal nor close all descriptors of the host (see `docs/adr/0006`). Invariant: before `execve` the child does
//! not allocate, lock or panic, and runs no signal handler; everything it needs is prepared in a
//! [`ChildSetup`].

mod signals;

use std::convert::Infallible;
use std::ffi::{CStr, CString, c_int, c_void};
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::os::unix::ffi::OsStrExt;
use std::sync::LazyLock;

use rustix::io::{Errno, retry_on_intr};
use rustix::process::{Pid, Signal, WaitOptions};
use tokio::process::{ChildStderr, ChildStdin, ChildStdout};

pub(super) use self::signals::unblock_all;
use super::close_fds::{FdCloser, above_stdio};
use super::exec::{ExecPlan, c_string, last_errno};
use super::{ChildPipes, SpawnedChild};
use crate::launch::{Launch, ResolvedExecutable};
use crate::reaped_child::{PidfdChild, ReapedChild};

/// Stack of the child until `execve`. The child only makes system calls, and the C library's
/// `posix_spawn` needs half of this size.
const STACK_BYTES: usize = 64 * 1024;
/// Exit code of a child that could not execute its program. The host reports the error instead.
const EXEC_FAILED: c_int = 127;
/// Value that the probe's child writes to the host's memory.
const PROBE_RAN: i32 = -1;

/// Whether this method works here. Probed once: old kernels ignore unknown flags, sandboxes reject
/// the call, and emulators give the child a copy of the memory.
pub(super) fn is_supported() -> bool {
    static IS_SUPPORTED: LazyLock<bool> = LazyLock::new(|| probe().unwrap_or(false));
    *IS_SUPPORTED
}

#[expect(unsafe_code, reason = "the child gets a raw pointer")]
fn probe() -> io::Result<bool> {
    let mut result = 0;
    // SAFETY: `probe_child` expects a pointer to an `i32`.
    let (pid, mut child) = unsafe { clone_vfork(probe_child, (&raw mut result).cast())? };
    if let Err(error) = child.wait_blocking() {
        wait_by_pid(pid);
        return Err(error);
    }
    Ok(result == PROBE_RAN)
}

/// Starts a child as the leader of a new session.
#[expect(unsafe_code, reason = "the child gets a raw pointer")]
pub(super) fn start(
    launch: &Launch,
    executable: Option<&ResolvedExecutable>,
) -> io::Result<SpawnedChild> {
    let (stdin, our_stdin) = io::pipe()?;
    let (our_stdout, stdout) = io::pipe()?;
    let (our_stderr, stderr) = io::pipe()?;
    let streams = [
        above_stdio(stdin)?,
        above_stdio(stdout)?,
        above_stdio(stderr)?,
    ];
    let cwd = launch
        .cwd
        .as_ref()
        .map(|cwd| c_string(cwd.as_os_str().as_bytes()));
    let mut setup = ChildSetup {
        streams: streams.each_ref().map(AsRawFd::as_raw_fd),
        parent: rustix::process::getpid(),
        fd_closer: FdCloser::prepare(),
        cwd: cwd.transpose()?,
        exec: ExecPlan::prepare(launch, executable)?,
        error: 0,
    };
    // SAFETY: `run_setup` expects a pointer to a `ChildSetup`.
    let (group, mut child) = unsafe { clone_vfork(run_setup, (&raw mut setup).cast())? };
    if setup.error != 0 {
        let _ = child.wait_blocking();
        return Err(io::Error::from_raw_os_error(setup.error));
    }
    Ok(SpawnedChild {
        handle: ReapedChild::Pidfd(child),
        group,
        pipes: ChildPipes {
            stdin: ChildStdin::from_std(OwnedFd::from(our_stdin).into())?,
            stdout: ChildStdout::from_std(OwnedFd::from(our_stdout).into())?,
            stderr: ChildStderr::from_std(OwnedFd::from(our_stderr).into())?,
        },
    })
}

/// The steps of the child before `execve`, with everything they need.
struct ChildSetup {
    /// The descriptors that become stdin, stdout and stderr.
    streams: [RawFd; 3],
    parent: Pid,
    fd_closer: FdCloser,
    cwd: Option<CString>,
    exec: ExecPlan,
    /// The errno of the step that failed. The child writes it, and the host reads it after the
    /// child has exited.
    error: i32,
}

impl ChildSetup {
    /// Returns only on failure.
    fn run(&mut self) -> Result<Infallible, Errno> {
        // First: Ctrl-C at the host's terminal must not reach the child. In its own session it has no
        // controlling terminal, so it cannot type into the terminal of the host.
        rustix::process::setsid()?;
        // A handler of the host would run in the host's memory.
        signals::reset_handlers();
        for (target, stream) in (0..).zip(self.streams) {
            dup2(stream, target)?;
        }
        self.fd_closer.mark_cloexec();
        rustix::process::set_parent_process_death_signal(Some(Signal::KILL))?;
        // The parent may have died before the call above.
        if rustix::process::getppid() != Some(self.parent) {
            return Err(Errno::SRCH);
        }
        if let Some(cwd) = &self.cwd {
            chdir(cwd)?;
        }
        signals::unblock_all();
        Err(self.exec.exec())
    }
}

extern "C" fn run_setup(setup: *mut c_void) -> c_int {
    #[expect(unsafe_code, reason = "the C library passes a raw pointer")]
    // SAFETY: `start` passes a `ChildSetup` and does not use it until this process has exited or
    // has its own memory.
    let setup = unsafe { &mut *setup.cast::<ChildSetup>() };
    let Err(error) = setup.run();
    setup.error = error.raw_os_error();
    EXEC_FAILED
}

extern "C" fn probe_child(result: *mut c_void) -> c_int {
    #[expect(unsafe_code, reason = "the C library passes a raw pointer")]
    // SAFETY: `probe` passes an `i32` and does not use it until this process has exited.
    unsafe {
        *result.cast::<i32>() = PROBE_RAN;
    }
    0
}

/// Creates a child that runs `work` in the memory of this process. Returns when the child has
/// exited or has executed a program.
///
/// # Safety
///
/// `argument` is what `work` expects, and `work` keeps the invariant of this module.
#[expect(unsafe_code, reason = "the system call has no safe wrapper")]
unsafe fn clone_vfork(
    work: extern "C" fn(*mut c_void) -> c_int,
    argument: *mut c_void,
) -> io::Result<(Pid, PidfdChild)> {
    // No platform requires more than 16 bytes of alignment for the top of a stack.
    let mut stack = Box::<[u128]>::new_uninit_slice(STACK_BYTES / size_of::<u128>());
    let mut pidfd: RawFd = -1;
    // A signal handler must not run in the child, where it would act as if it were the host.
    let blocked = signals::BlockedSignals::block_all()?;
    // SAFETY: the child has its own stack, which lives until the child no longer uses it:
    // `CLONE_VFORK` suspends this thread until the child has exited or has its own memory. For the
    // same reason nothing else uses the thread-local memory that the two share, or `argument`.
    let pid = unsafe {
        libc::clone(
            work,
            stack.as_mut_ptr_range().end.cast(),
            libc::CLONE_VM | libc::CLONE_VFORK | libc::CLONE_PIDFD | libc::SIGCHLD,
            argument,
            &raw mut pidfd,
        )
    };
    let created = match Pid::from_raw(pid) {
        Some(created) if pid > 0 => Ok(created),
        _ => Err(io::Error::last_os_error()),
    };
    drop(blocked);
    let pid = created?;
    if pidfd < 0 {
        // The kernel does not know `CLONE_PIDFD`. Only the probe gets here.
        let _ = rustix::process::kill_process(pid, Signal::KILL);
        wait_by_pid(pid);
        return Err(io::Error::from(io::ErrorKind::Unsupported));
    }
    // SAFETY: the kernel has just created the descriptor for us.
    let pidfd = unsafe { OwnedFd::from_raw_fd(pidfd) };
    Ok((pid, PidfdChild::new(pidfd)))
}

fn wait_by_pid(pid: Pid) {
    let _ = retry_on_intr(|| rustix::process::waitpid(Some(pid), WaitOptions::empty()));
}

#[expect(
    unsafe_code,
    reason = "rustix::io::dup2 needs an owned target descriptor"
)]
fn dup2(fd: RawFd, target: RawFd) -> Result<(), Errno> {
    // SAFETY: the call takes two numbers and changes only the descriptors of the child.
    check(unsafe { libc::dup2(fd, target) })
}

#[expect(unsafe_code, reason = "the safe wrapper may allocate")]
fn chdir(directory: &CStr) -> Result<(), Errno> {
    // SAFETY: the call takes a C string.
    check(unsafe { libc::chdir(directory.as_ptr()) })
}

fn check(result: c_int) -> Result<(), Errno> {
    if result < 0 {
        return Err(last_errno());
    }
    Ok(())
}
