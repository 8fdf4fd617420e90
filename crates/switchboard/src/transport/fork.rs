//! Starting a child by a copy of this process: where it cannot be had for less (see
//! [`vfork`](super::vfork)).
//!
//! The two steps that are ours to take in the child keep the standard library from a cheaper way.
//! Invariant: what comes to be cannot be told from a child of the other way.

use std::ffi::OsStr;
use std::io;
use std::path::Path;
use std::process::Stdio;

use rustix::process::Pid;
use tokio::process::Command;

use super::descriptors::Withholding;
use super::leader::Leader;
use super::process::{Launch, Pipes, Spawned};

pub(super) fn start(launch: &Launch) -> io::Result<Spawned> {
    let mut child = command(launch).spawn()?;
    let pipes = (child.stdin.take(), child.stdout.take(), child.stderr.take());
    let group = child
        .id()
        .and_then(|id| i32::try_from(id).ok())
        .and_then(Pid::from_raw);
    let ((Some(stdin), Some(stdout), Some(stderr)), Some(group)) = (pipes, group) else {
        return Err(io::Error::other("it has no pipes"));
    };
    Ok(Spawned {
        leader: Leader::Forked(child),
        group,
        pipes: Pipes {
            stdin,
            stdout,
            stderr,
        },
    })
}

fn command(launch: &Launch) -> Command {
    let named = OsStr::new(&launch.command);
    let program = launch.file.as_deref().map_or(named, Path::as_os_str);
    #[expect(
        clippy::disallowed_methods,
        reason = "this is the place that makes children"
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
        .process_group(0)
        .kill_on_drop(true);
    if let Some(cwd) = &launch.cwd {
        command.current_dir(cwd);
    }
    stand_alone(&mut command);
    withhold_descriptors(&mut command);
    command
}

/// Lets the child hear all signals, and the kernel end it when the thread that started it is gone.
#[cfg(target_os = "linux")]
#[expect(
    unsafe_code,
    reason = "the calls must be made in the child, between fork and exec"
)]
fn stand_alone(command: &mut Command) {
    let parent = rustix::process::getpid();
    let set = move || {
        // What the host has blocked is the host's affair.
        super::vfork::unblock_all();
        rustix::process::set_parent_process_death_signal(Some(rustix::process::Signal::KILL))?;
        // The parent may have died before the call above.
        if rustix::process::getppid() == Some(parent) {
            Ok(())
        } else {
            Err(io::Error::other("the host is gone"))
        }
    };
    // SAFETY: the closure makes system calls only, and allocates nothing on its way to success.
    unsafe {
        command.pre_exec(set);
    }
}

#[cfg(not(target_os = "linux"))]
fn stand_alone(_: &mut Command) {}

#[expect(
    unsafe_code,
    reason = "the child marks its own copies, between fork and exec"
)]
fn withhold_descriptors(command: &mut Command) {
    let withholding = Withholding::prepare();
    let carry_out = move || {
        withholding.carry_out();
        Ok(())
    };
    // SAFETY: the closure makes system calls only, and allocates nothing.
    unsafe {
        command.pre_exec(carry_out);
    }
}
