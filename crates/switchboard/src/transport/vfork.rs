//! Starting a child without a copy of this process.
//!
//! After a fork every thread of the host pays, page by page, for the copy that the child throws away.
//! Here the child borrows the host's memory until its program begins, and the thread that made it
//! stands still until then: what `posix_spawn` does, with the two steps that it lacks (see
//! `docs/adr/0006`). Invariant: before its program begins the child allocates nothing, takes no lock,
//! never panics, and runs no signal handler; whatever it needs is made beforehand.

mod program;
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

use self::program::{Program, text};
pub(super) use self::signals::unblock_all;
use super::descriptors::Withholding;
use super::leader::{Leader, Watched};
use super::process::{Launch, Pipes, Spawned};

/// The child makes a dozen system calls on it; the C library's own takes half of this.
const STACK_BYTES: usize = 64 * 1024;
/// What a child that could not begin its program exits with. Nobody sees it.
const NOT_BEGUN: c_int = 127;
/// The steps before the program were taken by a child that never was to have one.
const TRIED: i32 = -1;

/// Whether children can be started so. Tried once, as nothing else tells: old kernels ignore what they
/// do not know, sandboxes forbid it, and emulators lend no memory.
pub(super) fn is_possible() -> bool {
    static IS_POSSIBLE: LazyLock<bool> = LazyLock::new(|| try_it().unwrap_or(false));
    *IS_POSSIBLE
}

#[expect(unsafe_code, reason = "the child is handed a bare pointer")]
fn try_it() -> io::Result<bool> {
    let mut outcome = 0;
    // SAFETY: `try_out` is made for such a number.
    let (pid, mut child) = unsafe { beget(try_out, (&raw mut outcome).cast())? };
    if let Err(error) = child.wait_here() {
        wait_by_number(pid);
        return Err(error);
    }
    Ok(outcome == TRIED)
}

/// Starts a child as the leader of a new group.
#[expect(unsafe_code, reason = "the child is handed a bare pointer")]
pub(super) fn start(launch: &Launch) -> io::Result<Spawned> {
    let (stdin, our_stdin) = io::pipe()?;
    let (our_stdout, stdout) = io::pipe()?;
    let (our_stderr, stderr) = io::pipe()?;
    let streams = [
        above_streams(stdin)?,
        above_streams(stdout)?,
        above_streams(stderr)?,
    ];
    let cwd = launch
        .cwd
        .as_ref()
        .map(|cwd| text(cwd.as_os_str().as_bytes()));
    let mut plan = Plan {
        streams: streams.each_ref().map(AsRawFd::as_raw_fd),
        parent: rustix::process::getpid(),
        withholding: Withholding::prepare(),
        cwd: cwd.transpose()?,
        program: Program::prepare(launch)?,
        error: 0,
    };
    // SAFETY: `carry_out` is made for such a plan.
    let (group, mut child) = unsafe { beget(carry_out, (&raw mut plan).cast())? };
    if plan.error != 0 {
        let _ = child.wait_here();
        return Err(io::Error::from_raw_os_error(plan.error));
    }
    Ok(Spawned {
        leader: Leader::Watched(child),
        group,
        pipes: Pipes {
            stdin: ChildStdin::from_std(OwnedFd::from(our_stdin).into())?,
            stdout: ChildStdout::from_std(OwnedFd::from(our_stdout).into())?,
            stderr: ChildStderr::from_std(OwnedFd::from(our_stderr).into())?,
        },
    })
}

/// A host that closed its own streams gets their numbers for its pipes, and the child would overwrite
/// one by the other.
fn above_streams(pipe: impl Into<OwnedFd>) -> io::Result<OwnedFd> {
    let pipe = pipe.into();
    if pipe.as_raw_fd() > libc::STDERR_FILENO {
        return Ok(pipe);
    }
    Ok(rustix::io::fcntl_dupfd_cloexec(
        &pipe,
        libc::STDERR_FILENO + 1,
    )?)
}

/// What the child does before its program begins.
struct Plan {
    /// What becomes its stdin, stdout and stderr.
    streams: [RawFd; 3],
    parent: Pid,
    withholding: Withholding,
    cwd: Option<CString>,
    program: Program,
    /// Why it did not begin. Written by the child, and read when that is over.
    error: i32,
}

impl Plan {
    /// Comes back only if the program did not begin.
    fn carry_out(&mut self) -> Result<Infallible, Errno> {
        // First of all: what is typed at the host's terminal is not for the child.
        rustix::process::setpgid(None, None)?;
        // The handlers are the host's, in the host's memory.
        signals::reset_handlers();
        for (number, stream) in (0..).zip(self.streams) {
            become_stream(stream, number)?;
        }
        self.withholding.carry_out();
        rustix::process::set_parent_process_death_signal(Some(Signal::KILL))?;
        // The parent may have died before the call above.
        if rustix::process::getppid() != Some(self.parent) {
            return Err(Errno::SRCH);
        }
        if let Some(cwd) = &self.cwd {
            enter(cwd)?;
        }
        signals::unblock_all();
        Err(self.program.begin())
    }
}

extern "C" fn carry_out(plan: *mut c_void) -> c_int {
    #[expect(unsafe_code, reason = "the C library hands on a bare pointer")]
    // SAFETY: `start` passes a plan that it does not touch before this process has ended or has
    // another memory.
    let plan = unsafe { &mut *plan.cast::<Plan>() };
    let Err(error) = plan.carry_out();
    plan.error = error.raw_os_error();
    NOT_BEGUN
}

extern "C" fn try_out(outcome: *mut c_void) -> c_int {
    #[expect(unsafe_code, reason = "the C library hands on a bare pointer")]
    // SAFETY: `is_possible` passes such a number, and does not touch it before this process has ended.
    unsafe {
        *outcome.cast::<i32>() = TRIED;
    }
    0
}

/// Makes a child that does `work` in our memory, and comes back when it has ended or has begun a
/// program.
///
/// # Safety
///
/// `argument` is what `work` expects, and `work` keeps to the invariant of this module.
#[expect(unsafe_code, reason = "the system call has no safe wrapper")]
unsafe fn beget(
    work: extern "C" fn(*mut c_void) -> c_int,
    argument: *mut c_void,
) -> io::Result<(Pid, Watched)> {
    // Every platform wants the top of a stack to be aligned to 16 bytes at most.
    let mut stack = Box::<[u128]>::new_uninit_slice(STACK_BYTES / size_of::<u128>());
    let mut descriptor: RawFd = -1;
    // A handler that ran in the child would take it for the host.
    let blocked = signals::Blocked::all()?;
    // SAFETY: the child has a stack of its own, which lives until it is no longer used: `CLONE_VFORK`
    // stops this thread until the child has ended or has a memory of its own. For the same reason
    // nobody else uses the thread-local memory that the two share, or what `argument` points to.
    let pid = unsafe {
        libc::clone(
            work,
            stack.as_mut_ptr_range().end.cast(),
            libc::CLONE_VM | libc::CLONE_VFORK | libc::CLONE_PIDFD | libc::SIGCHLD,
            argument,
            &raw mut descriptor,
        )
    };
    let made = match Pid::from_raw(pid) {
        Some(made) if pid > 0 => Ok(made),
        _ => Err(io::Error::last_os_error()),
    };
    drop(blocked);
    let pid = made?;
    if descriptor < 0 {
        // A kernel that does not know the flag. The trial finds that out.
        let _ = rustix::process::kill_process(pid, Signal::KILL);
        wait_by_number(pid);
        return Err(io::Error::from(io::ErrorKind::Unsupported));
    }
    // SAFETY: the kernel has just made it for us.
    let descriptor = unsafe { OwnedFd::from_raw_fd(descriptor) };
    Ok((pid, Watched::new(descriptor)))
}

fn wait_by_number(pid: Pid) {
    let _ = retry_on_intr(|| rustix::process::waitpid(Some(pid), WaitOptions::empty()));
}

#[expect(unsafe_code, reason = "whoever owns the stream is in another process")]
fn become_stream(descriptor: RawFd, stream: RawFd) -> Result<(), Errno> {
    // SAFETY: it takes two numbers, and changes the descriptors of this process only.
    outcome(unsafe { libc::dup2(descriptor, stream) })
}

#[expect(unsafe_code, reason = "the system call has no safe wrapper here")]
fn enter(folder: &CStr) -> Result<(), Errno> {
    // SAFETY: it takes a C string.
    outcome(unsafe { libc::chdir(folder.as_ptr()) })
}

fn outcome(returned: c_int) -> Result<(), Errno> {
    if returned < 0 {
        return Err(last_error());
    }
    Ok(())
}

fn last_error() -> Errno {
    let error = io::Error::last_os_error().raw_os_error();
    Errno::from_raw_os_error(error.unwrap_or(libc::EINVAL))
}
