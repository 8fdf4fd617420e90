//! Starts a child with the standard library's `fork` and `exec`.
//!
//! The fallback where [`vfork`](super::vfork) does not work. The standard library must fork here:
//! `posix_spawn` cannot set the parent-death signal or mark descriptors, so both steps run in
//! `pre_exec`. Invariant: see [`spawn`](super).

use std::ffi::OsStr;
use std::io;
use std::process::Stdio;

use rustix::process::Pid;
use tokio::process::Command;

use super::close_fds::FdCloser;
#[cfg(target_os = "linux")]
use super::exec::ExecPlan;
use super::{ChildPipes, SpawnedChild};
use crate::launch::{Launch, ResolvedExecutable};
use crate::reaped_child::ReapedChild;

pub(super) fn start(
    launch: &Launch,
    executable: Option<&ResolvedExecutable>,
) -> io::Result<SpawnedChild> {
    let mut child = command(launch, executable)?.spawn()?;
    let pipes = (child.stdin.take(), child.stdout.take(), child.stderr.take());
    let group = child
        .id()
        .and_then(|id| i32::try_from(id).ok())
        .and_then(Pid::from_raw);
    let ((Some(stdin), Some(stdout), Some(stderr)), Some(group)) = (pipes, group) else {
        return Err(io::Error::other("the child has no pid or no pipes"));
    };
    Ok(SpawnedChild {
        handle: ReapedChild::Tokio(child),
        group,
        pipes: ChildPipes {
            stdin,
            stdout,
            stderr,
        },
    })
}

fn command(launch: &Launch, executable: Option<&ResolvedExecutable>) -> io::Result<Command> {
    let program = executable.map_or(OsStr::new(&launch.command), |executable| {
        executable.path.as_os_str()
    });
    #[expect(
        clippy::disallowed_methods,
        reason = "this is the function that starts children"
    )]
    let mut command = Command::new(program);
    command
        .arg0(&launch.command)
        .args(&launch.args)
        .env_clear()
        .envs(&launch.env)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .kill_on_drop(true);
    if let Some(cwd) = &launch.cwd {
        command.current_dir(cwd);
    }
    start_session(&mut command);
    set_parent_death_signal(&mut command);
    close_inherited_fds(&mut command);
    execute_open_file(&mut command, launch, executable)?;
    Ok(command)
}

/// Makes the child execute the open file, if there is one. The standard library executes files by
/// path only. This must be the last of the steps between fork and exec.
#[cfg(target_os = "linux")]
#[expect(
    unsafe_code,
    reason = "the call must be made in the child, after all other steps"
)]
fn execute_open_file(
    command: &mut Command,
    launch: &Launch,
    executable: Option<&ResolvedExecutable>,
) -> io::Result<()> {
    if executable.is_none_or(|executable| executable.file.is_none()) {
        return Ok(());
    }
    let mut plan = ExecPlan::prepare(launch, executable)?;
    let exec = move || Err(io::Error::from(plan.exec()));
    // SAFETY: the closure makes one system call and does not allocate.
    unsafe {
        command.pre_exec(exec);
    }
    Ok(())
}

#[cfg(not(target_os = "linux"))]
fn execute_open_file(
    _: &mut Command,
    _: &Launch,
    _: Option<&ResolvedExecutable>,
) -> io::Result<()> {
    Ok(())
}

/// Makes the child the leader of a new session without a controlling terminal, so that it cannot
/// type into the terminal of the host.
#[expect(
    unsafe_code,
    reason = "the call must be made in the child, between fork and exec"
)]
fn start_session(command: &mut Command) {
    // SAFETY: the closure makes one system call and does not allocate.
    unsafe {
        command.pre_exec(|| Ok(rustix::process::setsid().map(drop)?));
    }
}

/// Unblocks all signals in the child, and has the kernel kill it when the thread that started it
/// exits.
#[cfg(target_os = "linux")]
#[expect(
    unsafe_code,
    reason = "the calls must be made in the child, between fork and exec"
)]
fn set_parent_death_signal(command: &mut Command) {
    let parent = rustix::process::getpid();
    let set_up = move || {
        // The child must not inherit the signal mask of the host.
        super::vfork::unblock_all();
        rustix::process::set_parent_process_death_signal(Some(rustix::process::Signal::KILL))?;
        // The parent may have died before the call above.
        if rustix::process::getppid() == Some(parent) {
            Ok(())
        } else {
            Err(io::Error::other("the host has exited"))
        }
    };
    // SAFETY: the closure makes only system calls and does not allocate unless it fails.
    unsafe {
        command.pre_exec(set_up);
    }
}

#[cfg(not(target_os = "linux"))]
fn set_parent_death_signal(_: &mut Command) {}

#[expect(
    unsafe_code,
    reason = "the child marks its own copies, between fork and exec"
)]
fn close_inherited_fds(command: &mut Command) {
    let fd_closer = FdCloser::prepare();
    let mark = move || {
        fd_closer.mark_cloexec();
        Ok(())
    };
    // SAFETY: the closure makes only system calls and does not allocate.
    unsafe {
        command.pre_exec(mark);
    }
}
